"""Emulators on the host, everything else on the accelerator; one thread controls both.

The emulators work in groups that are stepped in a fixed order. A group step receives what
the next group shows and starts to copy it, sends off the actions that the device has found
some steps ago, and has the device act on the group whose copy was started one step before.
So nobody waits for a copy or for the device; behind an update this thread does, unless
there are groups enough for a lag of some steps. With five groups and a lag of two, after
g0 was received at the start:

    group step  0     1     2     3     4     5     6
    receive     g1    g2    g3    g4    g0    g1    g2
    send                    g0    g1    g2    g3    g4    g0 emulates between steps 2 and 4
    act         g0    g1    g2    g3    g4    g0    g1

With more groups, more of them emulate at a time. When all were acted on L times, a block
goes into replay, and the updates that it pays for are spread over the group steps of the
next block, alternately sampling and learning:

    group step  0  .  .  .  .  .  .  .  .  .  .  .      two updates in twelve group steps
    dispatch       sample   learn    sample   learn

Each is short enough to hide behind the groups in flight. Nothing depends on how long
anything takes: a run is repeatable from its seed, and its replay ratio is exact.

A checkpoint holds all of the device's state between two blocks, and the record of the
newest block, which the bandits have yet to be updated with. It does not hold what is inside
the emulators. So when a run resumes,

    episodes in flight     are dropped: they are in no table and update no bandit
    sequences in replay    are cut: an episode begins where none has ended, and nothing is
                           learned across that (see `agent.losses`)
    random numbers         continue: those of acting are counted by group steps
    replay, if not saved   is filled again; no update is due, or made up, for that time
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from sidequest.agent.learner import Metrics
from sidequest.environments.base import HostedEnvironment, HostedGame
from sidequest.replay.replay import Sample
from sidequest.runs.build import Agent
from sidequest.runs.checkpoint import ResumePoint
from sidequest.runs.display import Display
from sidequest.runs.emulators import build_groups, choose_groups
from sidequest.runs.evaluation import GreedyEpisode, GreedyScores
from sidequest.runs.hosted_device import (
    Collected,
    Playing,
    Programs,
    finish_block,
    init_state,
    pack,
    pack_timestep,
)
from sidequest.runs.state import (
    Chunk,
    IterationRecord,
    RunArrays,
    RunState,
    is_key,
    run_arrays,
    strip_weak_types,
)
from sidequest.switching.metacontroller import UPDATE_CHUNK, Episodes
from sidequest.switching.variants import Variant
from sidequest.types import Timestep

HOST_COPY = 2 * 10**9
"""Bytes of state that are copied, to be written while the run trains on. A larger state is
streamed from the device to the disk, while training pauses."""


class _Unread(NamedTuple):
    """Holds what the newest block recorded; tables and bandits have yet to get it."""

    updates: int
    """Updates until this block was complete."""
    iteration: IterationRecord
    evaluations: list[GreedyEpisode]
    """Greedy episodes that ended during this block."""
    held: Int[Array, ""]
    """Blocks in replay."""


class HostedRun:
    """One run on emulators: a `Runtime` for a group of one."""

    # Set by `start` and `resume`. On the device:
    state: RunState
    block: Collected
    playing: Playing | None
    """Of the evaluator."""
    metrics: Metrics
    """Metrics of the newest update of this block."""
    # On the host:
    blocks: int
    """Complete blocks so far."""
    updates: int
    """Updates so far, skipped ones included."""
    unread: _Unread | None

    def __init__(
        self,
        agent: Agent,
        groups: Sequence[HostedEnvironment],
        evaluator: HostedEnvironment | None = None,
        evaluator_episodes: int = 0,
    ):
        """Takes groups of one size that are in flight, and one of `evaluator_episodes`
        emulators to evaluate; `start` or `resume` must follow."""
        self.agent, self.pace = agent, agent.pace
        self.groups, self.evaluator = groups, evaluator
        self.programs = Programs(agent, len(groups), evaluator_episodes)
        self._no_metrics = strip_weak_types(agent.learner.no_metrics())
        self._evaluator_episodes = evaluator_episodes
        self._arrived: tuple[Array, Array] | None = None
        self._shown: tuple[Array, Array] | None = None  # by the evaluator
        self._unsent: deque[list[tuple[HostedEnvironment, Array]]] = deque()
        self._lag = choose_lag(len(groups))

    def start(self, arrays: RunArrays) -> None:
        """Begins a run: fresh parameters, empty replay, emulators as they are."""
        self._prepare(0, 0, None)
        # A run before this one goes first: a device need not hold two replays at a time.
        for name in ("state", "block", "playing"):
            self.__dict__.pop(name, None)
        self.state, self.block, self.playing = self.programs.init_state(arrays)

    def resume(
        self, arrays: RunArrays, saved: Mapping[str, Any], host: Mapping[str, Any]
    ) -> None:
        """Continues, in place of `start`, from a snapshot with its arrays on the device."""
        run: RunState = saved["run"]
        blocks: int = host["blocks"]
        if "replay" in saved:
            self.pace = self.agent.pace._replace(warm_up=host["warm_up"])
            replay = saved["replay"]
        else:
            self.pace = self.agent.pace.after_empty_replay(blocks)
            replay = jax.jit(self.agent.replay.init)()
        # Actors keep what they learned of rates, and no episode.
        periods, returns = jax.tree.map(
            jnp.zeros_like, (run.actors.periods, run.actors.episode_return)
        )
        actors = run.actors._replace(periods=periods, episode_return=returns)
        block, self.playing = self.programs.init_surroundings(arrays)
        group_steps = blocks * len(self.groups) * self.agent.block_length
        self.block = block._replace(group_steps=jnp.int32(group_steps % 2**31))
        greedy = [GreedyEpisode(*episode) for episode in host["unread"]["evaluations"]]
        held = replay.added - replay.oldest
        unread = _Unread(host["updates"], saved["unread"], greedy, held)
        self._prepare(blocks, host["updates"], unread)
        self.state = run._replace(actors=pack(actors, axes=1), replay=replay)

    def _prepare(self, blocks: int, updates: int, unread: _Unread | None) -> None:
        """Sets the host's counters of a run to these blocks and updates."""
        if self._arrived is None:
            self._arrived = _to_device(self.groups[0].recv())
        self.blocks, self.updates = blocks, updates
        self.unread = unread
        self.metrics = self._no_metrics
        self._skipped = 0  # updates, as far as records tell
        self._greedy_scores = GreedyScores(self._evaluator_episodes)
        self._greedy_episodes: list[GreedyEpisode] = []
        self._batch: Sample | None = None

    @property
    def frames(self) -> int:
        """Frames of the blocks that `advance` has returned: all but the newest."""
        return max(0, self.blocks - 1) * self.agent.frames_per_block

    def advance(self) -> Chunk:
        """Trains for one block, at first for two: a block's record is returned when the
        block after it is complete, so that the copy from the device has had time."""
        while True:
            self._play_block()
            unread, self.unread = self.unread, self._finish_block()
            if unread is not None:
                break
        record: IterationRecord = jax.device_get(unread.iteration)
        self._update_bandits(record)
        if not np.isnan(record.metrics.skipped):  # as in blocks without an update
            self._skipped = int(record.metrics.skipped)
        per_block = self.agent.frames_per_block
        return Chunk(
            start=self.frames - per_block,
            records=[jax.tree.map(lambda leaf: np.asarray(leaf)[None], record)],
            updates=[unread.updates - self._skipped],
            evaluations=[
                [
                    (one.began * per_block, one.episode_return, one.length)
                    for one in unread.evaluations
                ]
            ],
            replay_fill=int(unread.held) / self.agent.replay.ring.blocks,
        )

    def _play_block(self) -> None:
        """Plays a block; makes the updates that those before it paid for, each of which is
        sampled, then learned from."""
        steps = len(self.groups) * self.agent.block_length
        due = 2 * self.pace.due(self.blocks - 1)
        for number in range(steps):
            self.step_group(number % len(self.groups))
            for _ in range(share(number, steps, due)):
                if self._batch is None:
                    self._batch = self.sample()
                else:
                    batch, self._batch = self._batch, None
                    self.learn(batch)

    def step_group(self, group: int) -> None:
        """Acts on one group; receives from the next, and sends an earlier one off.

        The evaluator is received with the last group, and acts with the first.
        """
        state, arrived = self.state, self._arrived
        # First, so that the copy of what has arrived is done when it is acted on: to
        # dispatch that earlier would block this thread.
        following = self.groups[(group + 1) % len(self.groups)]
        self._arrived = _to_device(following.recv())
        # Before the act, whose dispatch takes a while: those emulators can start.
        self._send_kept(self._lag - 1)
        actions, actors, self.block = self.programs.step_group(
            state.key, state.policy, arrived, state.actors, self.block
        )
        self.state = state._replace(actors=actors)
        self._unsent.append([])
        self._keep(self.groups[group], actions)
        if self.evaluator is not None:
            if self._shown is not None:
                actions, self.playing = self.programs.play(
                    state.learner.q_function, self._shown, self.playing
                )
                self._keep(self.evaluator, actions)
                self._shown = None
            if group == len(self.groups) - 1:
                timestep = self.evaluator.recv()
                ended = self._greedy_scores.count(timestep, self.blocks)
                self._greedy_episodes.extend(ended.values())
                self._shown = _to_device(timestep)

    def _keep(self, environment: HostedEnvironment, actions: Array) -> None:
        """Keeps actions for the emulators until the device has had time to find them."""
        actions.copy_to_host_async()
        self._unsent[-1].append((environment, actions))

    def _send_kept(self, but: int = 0) -> None:
        """Sends off the actions of all group steps `but` the newest."""
        while len(self._unsent) > but:
            for environment, actions in self._unsent.popleft():
                environment.send(np.asarray(actions))

    def release(self) -> None:
        """Lets go of the emulators: all are in flight then, as they were before the run."""
        self._send_kept()
        held = [(self.groups[0], self._arrived), (self.evaluator, self._shown)]
        for environment, shown in held:
            if environment is not None and shown is not None:
                _, rest = shown
                environment.send(np.zeros(rest.shape[1], np.int32))
        self._arrived = self._shown = None

    def sample(self) -> Sample:
        """Samples the batch of the next update; after a skipped one, another one."""
        state = self.state
        return self.programs.sample(state.key, np.int32(self.updates), state.replay)

    def learn(self, batch: Sample) -> None:
        """Makes one update, and gives the batch its new priorities."""
        learner, priorities, self.metrics = self.programs.update(
            self.state.learner, batch.steps, batch.core, batch.weights
        )
        replay = self.programs.reprioritise(self.state.replay, batch.index, priorities)
        self.state = self.state._replace(learner=learner, replay=replay)
        self.updates += 1

    def _finish_block(self) -> _Unread:
        """Adds the block to replay, starts the copy of its record, syncs parameters."""
        state, record = self.programs.finish_block(self.state, self.block, self.metrics)
        self.metrics = self._no_metrics
        if self.pace.is_sync_due(self.blocks):
            policy = self.programs.sync_parameters(state.learner, state.meta)
            state = state._replace(policy=policy)
        self.state, held = state, state.replay.added - state.replay.oldest
        for leaf in jax.tree.leaves((record, held)):
            leaf.copy_to_host_async()
        greedy, self._greedy_episodes = self._greedy_episodes, []
        self.blocks += 1
        return _Unread(self.updates, record, greedy, held)

    def _update_bandits(self, record: IterationRecord) -> None:
        """Updates the bandits with the episodes that ended, in their order; the actors
        draw with the new probabilities at once."""
        summaries, meta = record.summaries, self.state.meta
        steps, environments = np.nonzero(summaries.finished)
        for first in range(0, len(steps), UPDATE_CHUNK):
            some = slice(first, first + UPDATE_CHUNK)
            ended = steps[some], environments[some]
            columns = record.choices, summaries.episode_return, summaries.length
            episodes = Episodes(*(_fill(np.asarray(column)[ended]) for column in columns))
            meta = self.programs.update_bandits(
                meta, episodes, _fill(summaries.finished[ended])
            )
        if len(steps):
            arms = self.programs.arm_probabilities(meta)
            policy = self.state.policy._replace(arms=arms)
            self.state = self.state._replace(meta=meta, policy=policy)

    def snapshot(self, replay: bool = True) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Returns the run's state; on the host if it is small enough to copy."""
        assert self.unread is not None, "there is one from the first block on"
        state = _saved(self.state, self.unread.iteration)
        if not replay:
            del state["replay"]
        if sum(leaf.nbytes for leaf in jax.tree.leaves(state)) <= HOST_COPY:
            # Keys are never donated.
            state = jax.tree.map(lambda x: x if is_key(x) else np.array(x), state)
        host = {
            "blocks": self.blocks,
            "updates": self.updates,
            "warm_up": self.pace.warm_up,
            "unread": {"evaluations": [list(one) for one in self.unread.evaluations]},
        }
        return [(state, host)]

    def parameters(self) -> list:
        return [self.state.learner.q_function]

    def close(self) -> None:
        for group in filter(None, [*self.groups, self.evaluator]):
            group.close()


def start_run(
    agent: Agent, game: HostedGame, points: Sequence[ResumePoint], display: Display
) -> HostedRun:
    """Builds the emulators of one run, and begins or resumes it."""
    (point,) = points
    spec, snapshot = point.spec, point.snapshot
    episodes = spec.config.evaluation.episodes
    display.say(f"{spec.variant}, seed {spec.seed}")
    groups, evaluator = build_groups(
        game,
        spec.game,
        groups=choose_groups(agent.environments),
        environments=agent.environments,
        evaluators=episodes,
        # A run that resumes has other starts.
        seed=(spec.seed + point.frames) % 2**31,
        display=display,
    )
    try:
        run = HostedRun(agent, groups, evaluator, episodes)
        arrays = run_arrays(spec.variant, spec.seed, agent)
        if snapshot:
            run.resume(arrays, snapshot.state, snapshot.host)
        else:
            run.start(arrays)
    except BaseException:
        for group in (*groups, evaluator):
            group.close()
        raise
    display.say("compiling with the first block …")
    return run


def choose_lag(groups: int) -> int:
    """Returns the steps between acting on a group and sending it off: 1 of 3 groups, 4 of
    12. The more, the longer an update may hold the device up before this thread has to wait
    for actions; the fewer, the more groups emulate."""
    return (groups + 1) // 3


def share(number: int, of: int, events: int) -> int:
    """Returns how many of `events` fall to one group step of many, if spread evenly.

    Three events in eight group steps:   0 1 0 1 0 0 1 0
    """

    def until(steps: int) -> int:
        return (2 * steps * events + of) // (2 * of)

    return until(number + 1) - until(number)


def _fill(rows: np.ndarray) -> np.ndarray:
    """Adds rows of zeros up to a fixed number, so that one program serves."""
    filled = np.zeros((UPDATE_CHUNK, *rows.shape[1:]), rows.dtype)
    filled[: len(rows)] = rows
    return filled


def _to_device(timestep: Timestep) -> tuple[Array, Array]:
    """Starts to copy all of it, frames and the rest."""
    # The rest is small, but with the call that acts on it, it may queue behind the frames
    # of the next group: on an H200 such a call computed for 0.7 ms and waited for 1.7.
    return jax.device_put((timestep.observation, pack_timestep(timestep)))


def state_spec(agent: Agent, variant: Variant) -> dict[str, Any]:
    """Returns the shapes of a snapshot's arrays; nothing is computed."""

    def first_block() -> dict[str, Any]:
        state, block, _ = init_state(agent, 0, run_arrays(variant, 0, agent))
        return _saved(*finish_block(agent, state, block, agent.learner.no_metrics()))

    return jax.eval_shape(first_block)


def _saved(run: RunState, unread: IterationRecord) -> dict[str, Any]:
    """Returns what a checkpoint holds; actors as in every runtime, not packed."""
    actors = run.actors.unpack()
    return {
        "run": run._replace(actors=actors, replay=None),
        "replay": run.replay,
        "unread": unread,
    }

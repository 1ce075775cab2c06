"""Emulators on the host, everything else on the accelerator; one thread controls both.

The emulators work in groups that are visited in a fixed order. A visit receives what the
next group shows and starts to copy it, sends off the actions that the device has found some
visits ago, and has the device act on the group whose copy was started by the visit before.
So nobody waits for a copy or for the device; behind an update this thread does, unless
there are groups enough for a lag of some visits. With five groups and a lag of two, after
g0 was received at the start:

    visit       0     1     2     3     4     5     6
    receive     g1    g2    g3    g4    g0    g1    g2
    send                    g0    g1    g2    g3    g4    g0 emulates between visits 2 and 4
    act         g0    g1    g2    g3    g4    g0    g1

With more groups, more of them emulate at a time. When all were acted on L times, a block
goes into replay, and the updates that it pays for are spread over the visits of the next
block, drawing and learning by turns:

    visit       0  .  .  .  .  .  .  .  .  .  .  .      two updates in twelve visits
    dispatch       draw     learn    draw     learn

Each is short enough to hide behind the groups in flight. Nothing depends on how long
anything takes: a run is repeatable from its seed, and its replay ratio is exact.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array

from sidequest.environments.base import HostedEnvironment
from sidequest.replay.replay import Sample
from sidequest.runs.assembly import Parts
from sidequest.runs.collection import pack_timestep
from sidequest.runs.evaluation import GreedyEpisode, GreedyScores
from sidequest.runs.pace import Pace
from sidequest.runs.programs import HostedState, make_programs
from sidequest.runs.rounds import RoundRecord
from sidequest.runs.state import Individual, settle
from sidequest.switching.metacontroller import UPDATE_CHUNK, Episodes
from sidequest.types import Timestep

FEWEST_GROUPS = 3
"""One arrives, one is acted on, one emulates."""


class BlockRecord(NamedTuple):
    """What one block leaves behind for the tables; NumPy arrays."""

    block: int
    """Its number, from 0."""
    updates: int
    """Made until this block was complete."""
    round: RoundRecord
    evaluations: list[GreedyEpisode]
    """Those that ended during this block."""


class HostedRun:
    """One run on emulators: iterate over it to play, one block at a time, for ever."""

    def __init__(
        self,
        parts: Parts,
        pace: Pace,
        groups: Sequence[HostedEnvironment],
        evaluator: HostedEnvironment | None = None,
        evaluator_episodes: int = 0,
    ):
        """`start` must follow; programs are compiled when they are first needed.

        Args:
            groups: In flight, of `parts.streams` emulators together, all of one size.
            evaluator: A group of its own, in flight as well.
            evaluator_episodes: How many emulators that is.
        """
        if len(groups) < FEWEST_GROUPS or parts.streams % len(groups):
            raise ValueError(
                f"{parts.streams} streams in {len(groups)} groups: there must be "
                f"{FEWEST_GROUPS} groups or more, of one size"
            )
        self.parts, self.pace = parts, pace
        self.groups, self.evaluator = groups, evaluator
        self.programs = make_programs(parts, len(groups), evaluator_episodes)
        self._no_metrics = settle(parts.learner.no_metrics())
        self.evaluator_episodes = evaluator_episodes
        self._arrived: tuple[Array, Array] | None = None
        self._shown: tuple[Array, Array] | None = None
        """By the evaluator."""
        self._unsent: deque[list[tuple[HostedEnvironment, Array]]] = deque()
        self._lag = choose_lag(len(groups))

    def start(self, individual: Individual) -> None:
        """Begins a run: fresh parameters, empty replay, emulators as they are."""
        self._prepare(0, 0, None)
        # First, so that a device need not hold two replays at a time.
        self.__dict__.pop("state", None)
        self.state: HostedState = self.programs.begin(individual)

    def go_on(
        self, state: HostedState, blocks: int, updates: int, unread: BlockRecord
    ) -> None:
        """Continues a saved run, in place of `start`; emulators as they are.

        Args:
            unread: What `unread` was when the run was saved.
        """
        self._prepare(blocks, updates, unread)
        self.state = state

    def _prepare(self, blocks: int, updates: int, unread: BlockRecord | None) -> None:
        """The host's side of a run after so many blocks and updates."""
        if self._arrived is None:
            self._arrived = _to_device(self.groups[0].recv())
        self.blocks, self.updates = blocks, updates
        self.unread = unread
        """The newest block's record, which has yet to be told to tables and bandits."""
        self.metrics = self._no_metrics
        self._greedy_scores = GreedyScores(self.evaluator_episodes)
        self._greedy_episodes: list[GreedyEpisode] = []
        self._batch: Sample | None = None

    def __iter__(self) -> Iterator[BlockRecord]:
        """Plays on; each block's record comes when the block after it is complete, so that
        the copy from the device has had time."""
        visits = len(self.groups) * self.parts.block_length
        while True:
            # Paid for by the blocks before this one; each is drawn, then learned from.
            due = 2 * self.pace.due(self.blocks - 1)
            for number in range(visits):
                self.visit(number % len(self.groups))
                for _ in range(share(number, visits, due)):
                    self.draw_or_learn()
            record, self.unread = self.unread, self.finish_block()
            if record is not None:
                record = record._replace(round=jax.device_get(record.round))
                self.feed(record.round)
                yield record

    def visit(self, group: int) -> None:
        """Acts on one group; receives from the next, and sends an earlier one off.

        The evaluator is received with the last group, and acts with the first.
        """
        member, block, playing = self.state
        arrived = self._arrived
        # First, so that the copy of what has arrived is done when it is acted on: to
        # dispatch that earlier would block this thread.
        following = self.groups[(group + 1) % len(self.groups)]
        self._arrived = _to_device(following.recv())
        # Before the act, whose dispatch takes a while: those emulators can start.
        self.send_kept(self._lag - 1)
        actions, actors, block = self.programs.visit(
            member.key, member.policy, arrived, member.actors, block
        )
        self.state = HostedState(member._replace(actors=actors), block, playing)
        self._unsent.append([])
        self._keep(self.groups[group], actions)
        if self.evaluator is not None:
            if self._shown is not None:
                self._play(self.evaluator, self._shown)
            if group == len(self.groups) - 1:
                timestep = self.evaluator.recv()
                ended = self._greedy_scores.count(timestep, self.blocks)
                self._greedy_episodes.extend(ended.values())
                self._shown = _to_device(timestep)

    def _play(self, evaluator: HostedEnvironment, shown: tuple[Array, Array]) -> None:
        """Acts on what the evaluator showed in the visit before."""
        q_function = self.state.member.learner.q_function
        actions, playing = self.programs.play(q_function, shown, self.state.playing)
        self.state = self.state._replace(playing=playing)
        self._keep(evaluator, actions)
        self._shown = None

    def _keep(self, environment: HostedEnvironment, actions: Array) -> None:
        """These actions go to the emulators with others of this visit, when the device has
        had time to find them."""
        actions.copy_to_host_async()
        self._unsent[-1].append((environment, actions))

    def send_kept(self, but: int = 0) -> None:
        """Sends off the actions of all visits `but` the newest."""
        while len(self._unsent) > but:
            for environment, actions in self._unsent.popleft():
                environment.send(np.asarray(actions))

    def release(self) -> None:
        """Lets go of the emulators: all are in flight then, as they were before the run."""
        self.send_kept()
        held = [(self.groups[0], self._arrived), (self.evaluator, self._shown)]
        for environment, shown in held:
            if environment is not None and shown is not None:
                _, rest = shown
                environment.send(np.zeros(rest.shape[1], np.int32))
        self._arrived = self._shown = None

    def draw_or_learn(self) -> None:
        """Draws a batch if none is at hand, or learns from the one that is."""
        if self._batch is None:
            self._batch = self.draw()
        else:
            batch, self._batch = self._batch, None
            self.learn(batch)

    def draw(self) -> Sample:
        """Samples the batch of the next update; after one left out, another one."""
        member = self.state.member
        return self.programs.sample(member.key, np.int32(self.updates), member.replay)

    def learn(self, batch: Sample) -> None:
        """Makes one update, and gives the batch its new priorities."""
        member = self.state.member
        learner, priorities, self.metrics = self.programs.update(
            member.learner, batch.steps, batch.core, batch.weights
        )
        replay = self.programs.reprioritise(member.replay, batch.index, priorities)
        member = member._replace(learner=learner, replay=replay)
        self.state = self.state._replace(member=member)
        self.updates += 1

    def finish_block(self) -> BlockRecord:
        """Adds the block to replay, starts the copy of its record, pulls parameters."""
        member, round_record = self.programs.absorb(
            self.state.member, self.state.block, self.metrics
        )
        self.metrics = self._no_metrics
        if self.blocks % self.pace.pull_every == self.pace.pull_every - 1:
            policy = self.programs.newest(member.learner, member.meta)
            member = member._replace(policy=policy)
        self.state = self.state._replace(member=member)
        for leaf in jax.tree.leaves(round_record):
            leaf.copy_to_host_async()
        greedy, self._greedy_episodes = self._greedy_episodes, []
        record = BlockRecord(self.blocks, self.updates, round_record, greedy)
        self.blocks += 1
        return record

    def feed(self, record: RoundRecord) -> None:
        """Tells the bandits of the episodes that ended, in the order in which they did."""
        summaries, meta = record.summaries, self.state.member.meta
        steps, streams = np.nonzero(summaries.finished)
        for first in range(0, len(steps), UPDATE_CHUNK):
            some = slice(first, first + UPDATE_CHUNK)
            ended = steps[some], streams[some]
            columns = record.choices, summaries.episode_return, summaries.length
            told = Episodes(*(_fill(np.asarray(column)[ended]) for column in columns))
            meta = self.programs.feed(meta, told, _fill(np.ones(len(ended[0]), bool)))
        member = self.state.member._replace(meta=meta)
        self.state = self.state._replace(member=member)


def choose_lag(groups: int) -> int:
    """Visits between acting on a group and sending it off: 1 of 3 groups, 3 of 8, 4 of 12.

    The more, the longer an update may hold the device up before this thread has to wait
    for actions; the fewer, the more groups emulate.
    """
    return (groups + 1) // 3


def share(number: int, of: int, events: int) -> int:
    """How many of `events` fall to one visit of many, if they are spread evenly.

    Three events in eight visits:   0 1 0 1 0 0 1 0
    """

    def until(visits: int) -> int:
        return (2 * visits * events + of) // (2 * of)

    return until(number + 1) - until(number)


def _fill(rows: np.ndarray) -> np.ndarray:
    """To a fixed number of rows, so that one program serves; zeros after those given."""
    filled = np.zeros((UPDATE_CHUNK, *rows.shape[1:]), rows.dtype)
    filled[: len(rows)] = rows
    return filled


def _to_device(timestep: Timestep) -> tuple[Array, Array]:
    """Starts to copy all of it, frames and the rest.

    The rest is small, but it should not go with the call that acts on it, right after the
    frames of the next group were handed over: it may queue behind them. On an H200 such a
    call computed for 0.7 ms and stood still for 1.7.
    """
    return jax.device_put((timestep.observation, pack_timestep(timestep)))

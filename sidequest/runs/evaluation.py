"""The greedy evaluator (appendix A.3), and episodes of an agent that a run has left.

The evaluator plays whole episodes with epsilon = 0 and the newest parameters, on
environments of its own. Nothing it sees reaches replay or a bandit. On compiled games it is
a program that plays all episodes side by side; on emulators the host counts what a group of
them earns, beside training (`GreedyScores`) or by itself (`evaluate_run`).

`play_episode` plays as in training and keeps every step, for a film: by the run's variant,
with modes that switch, and an arm drawn from the bandits in their initial state.
Homeostasis starts from its initial state as well.
"""

import itertools
import sys
from collections.abc import Callable, Generator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Num, UInt8

from sidequest.agent.actor import ActorState, Policy, act_greedily
from sidequest.agent.modes import modes_of
from sidequest.agent.networks import QFunction
from sidequest.environments import registry
from sidequest.environments.base import CompiledEnvironment, HostedEnvironment, HostedGame
from sidequest.environments.scores import human_normalised
from sidequest.errors import CorruptFile, InvalidRequest
from sidequest.records import read_file, read_run, read_table
from sidequest.runs import checkpoint
from sidequest.runs.build import Agent, build_agent
from sidequest.runs.emulators import build_politely
from sidequest.runs.spec import RunSpec, read_spec
from sidequest.runs.state import ACTS, EVALUATION, RESETS, STEPS, strip_weak_types
from sidequest.switching.metacontroller import variant_arrays
from sidequest.switching.variants import parse
from sidequest.types import AnyArray, Key, Timestep, Trace

_LONGEST = 10_000  # steps of an episode in a game that has no limit of its own
_EMULATORS = 8  # at most, that play side by side on the host
_GREEDY = parse("XU-experiment-level-G")

_Report = Callable[[int, int], None]
"""Is called with progress: episodes that have ended, steps of all episodes."""


class Scores(NamedTuple):
    """Returns and lengths of E episodes; an interrupted one counts with what it had."""

    episode_return: Float[AnyArray, "*E"]
    length: Int[AnyArray, "*E"]

    def after(self, timestep: Timestep) -> "Scores":
        """Returns the scores after one more step; a reward belongs to the action before
        it, so that of an episode's first step belongs to the episode before."""
        return Scores(self.episode_return + timestep.reward, self.length + 1)


class _Playing(NamedTuple):
    environment: Any
    timestep: Timestep
    core: Any
    previous_action: Int[Array, ""]
    ended: Bool[Array, ""]
    scores: Scores


def make_evaluator(
    environment: CompiledEnvironment, episodes: int
) -> Callable[[Key, QFunction], Scores]:
    """Returns a function to compile that plays `episodes` greedy episodes side by side."""
    limit = environment.spec.max_steps or _LONGEST

    def begin(key: Key, q_function: QFunction) -> _Playing:
        state, timestep = environment.reset(key)
        zero = jnp.zeros((), jnp.int32)
        scores = Scores(jnp.zeros(()), zero)
        core = q_function.initial_state()
        return _Playing(state, timestep, core, zero, jnp.bool_(False), scores)

    def step(key: Key, q_function: QFunction, now: _Playing) -> _Playing:
        action, core = act_greedily(q_function, now.timestep, now.previous_action, now.core)
        state, timestep = environment.step(key, now.environment, action)
        scores = jax.tree.map(
            partial(jnp.where, now.ended), now.scores, now.scores.after(timestep)
        )
        ended = now.ended | timestep.is_first
        return _Playing(state, timestep, core, action, ended, scores)

    def evaluate(key: Key, q_function: QFunction) -> Scores:
        reset_key, play_key = jax.random.split(key)
        reset_keys = jax.random.split(reset_key, episodes)
        playing = jax.vmap(begin, in_axes=(0, None))(reset_keys, q_function)

        def unfinished(carry: tuple[Int[Array, ""], _Playing]) -> Bool[Array, ""]:
            return (carry[0] < limit) & ~jnp.all(carry[1].ended)

        def advance(carry: tuple[Int[Array, ""], _Playing]):
            number, now = carry
            keys = jax.random.split(jax.random.fold_in(play_key, number), episodes)
            return number + 1, jax.vmap(step, in_axes=(0, None, 0))(keys, q_function, now)

        start = jnp.zeros((), jnp.int32), playing
        return jax.lax.while_loop(unfinished, advance, start)[1].scores

    return evaluate


class GreedyEpisode(NamedTuple):
    """An episode that the evaluator's emulators played."""

    episode_return: float
    length: int
    began: int
    """Blocks that were complete when its first step arrived. It is played with the
    parameters of the step after that."""


class GreedyScores:
    """Counts what emulators earn, each from the first episode that it begins."""

    def __init__(self, emulators: int):
        self._scores = Scores(np.zeros(emulators), np.zeros(emulators, int))
        self._began = np.full(emulators, -1)  # before its first episode

    def count(self, timestep: Timestep, blocks: int = 0) -> dict[int, GreedyEpisode]:
        """Counts one step of every emulator, after `blocks` of training; returns the
        episodes that ended, by emulator."""
        scores, is_first = self._scores.after(timestep), timestep.is_first
        ended = {
            int(i): GreedyEpisode(
                float(scores.episode_return[i]), int(scores.length[i]), int(self._began[i])
            )
            for i in np.flatnonzero(is_first & (self._began >= 0))
        }
        self._scores = Scores(*(np.where(is_first, 0, column) for column in scores))
        self._began = np.where(is_first, blocks, self._began)
        return ended


def _evaluate_hosted(
    game: HostedGame,
    q_function: QFunction,
    episodes: int,
    seed: int,
    report: _Report,
) -> Scores:
    """Plays greedy episodes on a few emulators, each a share that is fixed beforehand.

    Taking the episodes that end first would favour short ones, and those score less.

    Raises:
        InvalidRequest: If an episode does not end, in a game without a time limit.
    """
    emulators = min(episodes, _EMULATORS)
    share = [len(range(first, episodes, emulators)) for first in range(emulators)]
    limit = emulators * share[0] * (game.spec.max_steps or _LONGEST)
    finished: list[list[GreedyEpisode]] = [[] for _ in range(emulators)]
    act = jax.jit(jax.vmap(act_greedily, in_axes=(None, 0, 0, 0)))
    core = jax.vmap(lambda _: q_function.initial_state())(jnp.arange(emulators))
    actions, scores = jnp.zeros(emulators, jnp.int32), GreedyScores(emulators)
    ended = steps = 0
    with closing(_build_group(game, emulators, seed)) as group:
        timestep = group.recv()
        scores.count(timestep)
        while ended < episodes:
            actions, core = act(q_function, timestep, actions, core)
            group.send(np.asarray(actions))
            timestep = group.recv()
            for emulator, episode in scores.count(timestep).items():
                if len(finished[emulator]) < share[emulator]:
                    finished[emulator].append(episode)
                    ended += 1
            steps += emulators
            report(ended, steps)
            if steps > limit:
                raise InvalidRequest(
                    f"{episodes - ended} of {episodes} episodes of {game.spec.name} have "
                    f"not ended after {steps:,} steps: give it a time limit"
                )
    returns, lengths, _ = zip(*itertools.chain(*finished), strict=True)
    return Scores(np.array(returns, np.float32), np.array(lengths, np.int32))


def _build_group(
    game: HostedGame, emulators: int, seed: int, **options: bool
) -> HostedEnvironment:
    """Starts one group of emulators."""
    build = partial(game.build, groups=1, environments=emulators, seed=seed, **options)
    (group,) = build_politely(build)
    return group


def evaluate_run(
    folder: Path, episodes: int, seed: int, report: _Report = lambda ended, steps: None
) -> dict[str, Any]:
    """Plays greedy episodes with a run's parameters, and returns what they scored."""
    player = load_player(folder)
    if isinstance(player.game, CompiledEnvironment):
        play = jax.jit(make_evaluator(player.game, episodes))
        key = jax.random.fold_in(jax.random.key(seed), EVALUATION)
        scores = jax.device_get(play(key, player.q_function))
    else:
        scores = _evaluate_hosted(player.game, player.q_function, episodes, seed, report)
    returns, run = np.asarray(scores.episode_return), player.spec
    mean = float(returns.mean())
    return {
        "variant": str(run.variant),
        "game": run.game,
        "seed": run.seed,
        "episodes": episodes,
        "mean": mean,
        "median": float(np.median(returns)),
        "min": float(returns.min()),
        "max": float(returns.max()),
        "length": float(scores.length.mean()),
        "returns": returns.tolist(),
        "human_normalised": human_normalised(run.game, mean),
    }


class Player(NamedTuple):
    """The agent of a run, ready to play."""

    spec: RunSpec
    game: CompiledEnvironment | HostedGame
    agent: Agent
    q_function: QFunction
    scales: Float[Array, "H"]
    """Return scale of each head."""


def load_player(folder: Path) -> Player:
    """Builds a run's agent again from its folder; raises `InvalidRequest` if there are no
    parameters yet, or they are of another network."""
    spec = read_spec(folder)
    game = registry.make(spec.game, spec.config.environment.sticky_actions)
    agent = build_agent(spec.config, game.spec, [spec.variant])
    learner = jax.eval_shape(agent.learner.init, jax.random.key(0))
    q_function = _newest_q_function(folder, learner.q_function)
    # The scales that the learner recorded last. They matter only where a mode sums over
    # heads: the best action by one head is the same on any scale.
    table, scales = read_table(folder, "learning"), np.ones(len(agent.heads), np.float32)
    if len(table):
        scales[:] = table.select(f"scale_{head}" for head in agent.heads).row(-1)
    q_function, scales = jax.tree.map(jnp.asarray, (q_function, scales))
    return Player(spec, game, agent, q_function, scales)


def _newest_q_function(folder: Path, spec: QFunction) -> QFunction:
    """Returns what a finished run has left, else what its newest checkpoint holds."""
    if data := read_file(folder, checkpoint.PARAMETERS, read_run(folder)):
        return checkpoint.load(folder / checkpoint.PARAMETERS, data, spec)
    say = partial(print, file=sys.stderr)
    found = checkpoint.newest(folder, spec, say, under=checkpoint.LEARNER)
    if found is None and checkpoint.listed(folder):
        raise CorruptFile(f"{folder} has no parameters that can be used")
    if found is None:
        raise InvalidRequest(
            f"{folder} has no parameters yet: it has neither finished nor saved a "
            f"checkpoint"
        )
    return found.state


class Episode(NamedTuple):
    """One episode of T steps."""

    observations: Num[np.ndarray, "T ..."]
    """What each action was chosen by; the one after the last action is not kept."""
    trace: Trace
    """`reward` is what each step's own action earned."""
    ending: Literal["game over", "time limit", "cut"]
    """Cut: it had not ended after the most steps that were allowed."""
    frames: UInt8[np.ndarray, "T _ _ 3"] | None
    """What the environment paints of itself; None unless it always does, in one size."""


def play_episode(
    player: Player,
    *,
    seed: int,
    greedy: bool = False,
    max_steps: int,
    report: Callable[[int], None] = lambda steps: None,
) -> Episode:
    """Plays one episode of at most `max_steps` steps; `report` is called after each."""
    variant, agent = _GREEDY if greedy else player.spec.variant, player.agent
    arrays = variant_arrays(variant, agent.arms)
    modes = modes_of(variant, agent.heads, agent.novelty_epsilon)
    key = jax.random.fold_in(jax.random.key(seed), ACTS)

    @jax.jit
    def begin(q_function: QFunction) -> tuple[Policy, ActorState]:
        arms = agent.meta.arm_probabilities(agent.meta.init(arrays))
        policy = Policy(q_function, player.scales, arms)
        return strip_weak_types((policy, agent.actor.init(policy, modes)))

    @jax.jit
    def act(policy: Policy, step: Int[AnyArray, ""], now: Timestep, state: ActorState):
        return agent.actor.act(policy, jax.random.fold_in(key, step), now, state)

    policy, state = begin(player.q_function)
    observations, frames, rows, ending = [], [], [], "cut"
    with closing(_step_through(player.game, seed)) as environment:
        timestep, frame = next(environment)
        for step in range(max_steps):
            action, state, record = act(policy, np.int32(step), timestep, state)
            observations.append(np.asarray(timestep.observation))
            frames.append(frame)
            is_first, (timestep, frame) = timestep.is_first, environment.send(action)
            chance = state.controller.probability
            rows.append((record.mode, is_first, record.signal, chance, timestep.reward))
            report(step + 1)
            if timestep.is_first:
                ending = "game over" if timestep.terminated else "time limit"
                break
    columns = (np.array(column) for column in zip(*jax.device_get(rows), strict=True))
    alike = frames[0] is not None and len(set(map(np.shape, frames))) == 1
    painted = np.stack(frames) if alike else None
    return Episode(np.stack(observations), Trace(*columns), ending, painted)


def _step_through(
    game: CompiledEnvironment | HostedGame, seed: int
) -> Generator[tuple[Timestep, Any], Int[Array, ""], None]:
    """Yields the timesteps of one environment, each with a frame if the environment paints
    some, and is sent an action for each."""
    if isinstance(game, CompiledEnvironment):
        key = jax.random.key(seed)
        state, timestep = jax.jit(game.reset)(jax.random.fold_in(key, RESETS))
        state, step_key = strip_weak_types(state), jax.random.fold_in(key, STEPS)

        @jax.jit
        def advance(count: Int[Array, ""], state: Any, action: Int[Array, ""]):
            return game.step(jax.random.fold_in(step_key, count), state, action)

        for count in itertools.count():
            action = yield timestep, None
            state, timestep = advance(jnp.int32(count), state, action)
        return
    options = {"renders": True} if game.renders else {}
    group: Any = _build_group(game, 1, seed, **options)
    with closing(group):
        while True:
            timestep = jax.tree.map(lambda column: column[0], group.recv())
            action = yield timestep, group.render() if game.renders else None
            group.send(np.asarray(action)[None])

"""One episode of a run's agent, kept step by step: what a film is made of.

The agent plays as it trained: by its variant, with modes that switch, and an arm drawn from
the bandits as they start. Its homeostat starts anew as well. A greedy episode is one of the
variant that never explores, which is how the evaluator plays.
"""

from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Num

from sidequest.agent.actor import ActorState, Policy
from sidequest.agent.modes import modes_of
from sidequest.agent.networks import QFunction
from sidequest.environments.base import CompiledEnvironment, HostedGame
from sidequest.runs.assembly import arms_of
from sidequest.runs.emulators import build_politely
from sidequest.runs.keys import ACTS, BEGIN, RESETS, STEPS
from sidequest.runs.player import Player
from sidequest.runs.state import settle
from sidequest.switching.metacontroller import variant_arrays
from sidequest.switching.variants import parse
from sidequest.types import AnyArray, Key, Timestep, Trace

NEVER_EXPLORES = "XU-experiment-level-G"


class Episode(NamedTuple):
    observations: Num[np.ndarray, "T ..."]
    """What each action was chosen by; the screen after the last one is never shown."""
    trace: Trace
    """`reward` is what came of each step's own action."""
    ending: Literal["game over", "time limit", "cut"]
    """Cut: it was still going on after the most steps that were asked for."""


class Stage(NamedTuple):
    """A game of either kind, one stream of it, stepped by the host."""

    first: Timestep
    step: Callable[[Int[Array, ""]], Timestep]
    close: Callable[[], None]


def watch(
    player: Player,
    *,
    seed: int,
    greedy: bool = False,
    max_steps: int,
    report: Callable[[int], None] = lambda steps: None,
) -> Episode:
    """Plays one episode of at most `max_steps` steps; `report` hears of each."""
    variant = parse(NEVER_EXPLORES) if greedy else player.variant
    parts = player.parts
    arrays = variant_arrays(variant, arms_of(player.config.switching))
    behaviours = modes_of(variant, tuple(head.name for head in parts.rules.heads))
    seeded = jax.random.key(seed)
    begin_key, key = (jax.random.fold_in(seeded, purpose) for purpose in (BEGIN, ACTS))

    @jax.jit
    def begin(q_function: QFunction) -> tuple[Policy, ActorState]:
        arms = parts.meta.arm_probabilities(parts.meta.init(arrays))
        policy = Policy(q_function, player.scales, arms)
        return settle((policy, parts.actor.init(begin_key, policy, behaviours)))

    @jax.jit
    def act(policy: Policy, step: Int[AnyArray, ""], now: Timestep, state: ActorState):
        return parts.actor.act(policy, jax.random.fold_in(key, step), now, state)

    policy, state = begin(player.q_function)
    stage = open_stage(player.game, seed)
    timestep, ending = stage.first, "cut"
    observations, rows = [], []
    for step in range(max_steps):
        action, state, record = act(policy, np.int32(step), timestep, state)
        observations.append(np.asarray(timestep.observation))
        is_first, timestep = timestep.is_first, stage.step(action)
        chance = state.controller.probability
        rows.append((record.mode, is_first, record.signal, chance, timestep.reward))
        report(step + 1)
        if timestep.is_first:
            ending = "game over" if timestep.terminated else "time limit"
            break
    stage.close()
    columns = (np.array(column) for column in zip(*jax.device_get(rows), strict=True))
    return Episode(np.stack(observations), Trace(*columns), ending)


def open_stage(game: CompiledEnvironment | HostedGame, seed: int) -> Stage:
    """Starts one stream of a game."""
    if isinstance(game, CompiledEnvironment):
        return _compiled_stage(game, jax.random.key(seed))
    return _hosted_stage(game, seed)


def _compiled_stage(game: CompiledEnvironment, key: Key) -> Stage:
    state, first = jax.jit(game.reset)(jax.random.fold_in(key, RESETS))
    played, count = settle(state), 0
    stepping = jax.random.fold_in(key, STEPS)

    @jax.jit
    def advance(count: Int[Array, ""], state, action: Int[Array, ""]):
        return game.step(jax.random.fold_in(stepping, count), state, action)

    def step(action: Int[Array, ""]) -> Timestep:
        nonlocal played, count
        played, timestep = advance(jnp.int32(count), played, action)
        count += 1
        return timestep

    return Stage(first, step, close=lambda: None)


def _hosted_stage(game: HostedGame, seed: int) -> Stage:
    (group,) = build_politely(partial(game.build, groups=1, streams=1, seed=seed))

    def receive() -> Timestep:
        return jax.tree.map(lambda column: column[0], group.recv())

    def step(action: Int[Array, ""]) -> Timestep:
        group.send(np.asarray(action)[None])
        return receive()

    return Stage(receive(), step, group.close)

"""Plays one episode with a run's agent and keeps every step: what a film is made of.

The agent plays as in training: by its variant, with modes that switch, and an arm drawn
from the bandits in their initial state. Homeostasis starts anew as well. A greedy episode
is one of the variant that never explores, which is how the evaluator plays.
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
from sidequest.runs.build import ACTS, BEGIN, RESETS, STEPS, strip_weak_types
from sidequest.runs.evaluation import Player
from sidequest.switching.metacontroller import variant_arrays
from sidequest.switching.variants import parse
from sidequest.types import AnyArray, Key, Timestep, Trace

_NEVER_EXPLORES = "XU-experiment-level-G"


class Episode(NamedTuple):
    """One episode of T steps."""

    observations: Num[np.ndarray, "T ..."]
    """What each action was chosen by; the one after the last action is not kept."""
    trace: Trace
    """`reward` is what each step's own action earned."""
    ending: Literal["game over", "time limit", "cut"]
    """Cut: it had not ended after the most steps that were allowed."""


class _Stage(NamedTuple):
    """One environment of either kind, stepped by the host."""

    first: Timestep
    step: Callable[[Int[Array, ""]], Timestep]
    close: Callable[[], None]


def play_episode(
    player: Player,
    *,
    seed: int,
    greedy: bool = False,
    max_steps: int,
    report: Callable[[int], None] = lambda steps: None,
) -> Episode:
    """Plays one episode of at most `max_steps` steps; `report` is called after each."""
    variant = parse(_NEVER_EXPLORES) if greedy else player.variant
    agent = player.agent
    arrays = variant_arrays(variant, agent.arms)
    behaviours = modes_of(variant, agent.heads)
    seeded = jax.random.key(seed)
    begin_key, key = (jax.random.fold_in(seeded, purpose) for purpose in (BEGIN, ACTS))

    @jax.jit
    def begin(q_function: QFunction) -> tuple[Policy, ActorState]:
        arms = agent.meta.arm_probabilities(agent.meta.init(arrays))
        policy = Policy(q_function, player.scales, arms)
        return strip_weak_types((policy, agent.actor.init(begin_key, policy, behaviours)))

    @jax.jit
    def act(policy: Policy, step: Int[AnyArray, ""], now: Timestep, state: ActorState):
        return agent.actor.act(policy, jax.random.fold_in(key, step), now, state)

    policy, state = begin(player.q_function)
    if isinstance(player.game, CompiledEnvironment):
        stage = _compiled_stage(player.game, jax.random.key(seed))
    else:
        stage = _hosted_stage(player.game, seed)
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


def _compiled_stage(game: CompiledEnvironment, key: Key) -> _Stage:
    state, first = jax.jit(game.reset)(jax.random.fold_in(key, RESETS))
    played, count = strip_weak_types(state), 0
    stepping = jax.random.fold_in(key, STEPS)

    @jax.jit
    def advance(count: Int[Array, ""], state, action: Int[Array, ""]):
        return game.step(jax.random.fold_in(stepping, count), state, action)

    def step(action: Int[Array, ""]) -> Timestep:
        nonlocal played, count
        played, timestep = advance(jnp.int32(count), played, action)
        count += 1
        return timestep

    return _Stage(first, step, close=lambda: None)


def _hosted_stage(game: HostedGame, seed: int) -> _Stage:
    from sidequest.runs.emulators import build_politely

    (group,) = build_politely(partial(game.build, groups=1, streams=1, seed=seed))

    def receive() -> Timestep:
        return jax.tree.map(lambda column: column[0], group.recv())

    def step(action: Int[Array, ""]) -> Timestep:
        group.send(np.asarray(action)[None])
        return receive()

    return _Stage(receive(), step, group.close)

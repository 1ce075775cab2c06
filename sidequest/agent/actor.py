"""The actor: network, modes and controller of one environment, stepped together.

    timestep ──▶ network ──▶ Q of every head ──▶ signals ──▶ controller ──▶ mode
                                   └────────────── mode's behaviour ◀────────┘ ──▶ action

`act` is the same compiled function in every runtime; `vmap` makes the batch. At the first
timestep of an episode, the episode before it is summarised and a new arm is drawn with the
bandits' probabilities.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from sidequest.agent import modes
from sidequest.agent.networks import CoreState, Inputs, QFunction
from sidequest.switching import metacontroller, periods
from sidequest.switching.controllers import Controller, ControllerState
from sidequest.switching.metacontroller import DIMENSIONS, ArmProbabilities
from sidequest.switching.triggers import COIN, INFORMED, action_mismatch, value_variance
from sidequest.types import EpisodeSummary, Key, Mode, Signals, Timestep


class Policy(NamedTuple):
    """Holds what actors act by, synced with the learner every so often."""

    q_function: QFunction
    scales: Float[Array, "H"]
    """Return scale of each head."""
    arms: ArmProbabilities
    """The bandits' arms and their probabilities."""


class ActorState(NamedTuple):
    core: Any
    """Recurrent state of the network, before the next timestep."""
    controller: ControllerState
    modes: modes.Modes
    choices: Int[Array, "D"]
    """The arm of the present episode, in every dimension."""
    previous_action: Int[Array, ""]
    episode_return: Float[Array, ""]
    periods: periods.PeriodsState


class StepRecord(NamedTuple):
    """Holds what the learner and the tables use of one step."""

    previous_action: Int[Array, ""]
    mode: Mode
    q_taken: Float[Array, ""]
    """Extrinsic Q-value of the action taken, for the first priorities."""
    values: Float[Array, "H"]
    """Maximum Q-value of each head, for returns and first priorities."""
    signal: Float[Array, ""]
    summary: EpisodeSummary
    """Describes the episode that ended with this timestep, if one did."""
    choices: Int[Array, "D"]
    """The arm of that episode."""


class Actor(NamedTuple):
    init: Callable[[Policy, modes.Modes], ActorState]
    act: Callable[
        [Policy, Key, Timestep, ActorState], tuple[Int[Array, ""], ActorState, StepRecord]
    ]


def make_actor(controller: Controller, heads: tuple[str, ...], *, discount: float) -> Actor:
    """Returns an actor for a network with these heads, the extrinsic one first."""
    twin = heads.index("twin") if "twin" in heads else None

    def init(policy: Policy, behaviours: modes.Modes) -> ActorState:
        # Any arm: the first timestep draws another.
        choices, arm = metacontroller.draw(jnp.zeros(len(DIMENSIONS)), policy.arms)
        return ActorState(
            core=policy.q_function.initial_state(),
            controller=controller.init(arm),
            modes=jax.tree.map(jnp.asarray, behaviours),
            choices=choices,
            previous_action=jnp.zeros((), jnp.int32),
            episode_return=jnp.zeros(()),
            periods=periods.init(),
        )

    def act(
        policy: Policy, key: Key, timestep: Timestep, state: ActorState
    ) -> tuple[Int[Array, ""], ActorState, StepRecord]:
        draw_key, switch_key, action_key = jax.random.split(key, 3)
        summary, played = _summarise(timestep, state), state.choices
        state = _start_episode(draw_key, policy.arms, timestep, state)
        inputs = _inputs(timestep, state.previous_action)
        q, core = policy.q_function.step(inputs, state.core)
        signals = _read_signals(q, timestep, discount, twin)
        uniform = jax.random.uniform(switch_key)
        mode, controlled = controller.step(uniform, signals, state.controller)
        behaviour = modes.current(state.modes, mode)
        action = modes.choose(action_key, q, policy.scales, behaviour)
        record = StepRecord(
            previous_action=state.previous_action,
            mode=mode,
            q_taken=q[0, action],
            values=jnp.max(q, axis=1),
            signal=controlled.signal,
            summary=summary,
            choices=played,
        )
        state = state._replace(
            core=core,
            controller=controlled,
            previous_action=action,
            periods=periods.step(mode, timestep.is_first, state.periods),
        )
        return action, state, record

    return Actor(init, act)


def _inputs(timestep: Timestep, previous_action: Int[Array, ""]) -> Inputs:
    return Inputs(timestep.observation, previous_action, timestep.reward, timestep.is_first)


def act_greedily(
    q_function: QFunction,
    timestep: Timestep,
    previous_action: Int[Array, ""],
    core: CoreState,
) -> tuple[Int[Array, ""], CoreState]:
    """Returns the best action by the extrinsic head, which is the first: always mode G."""
    q, core = q_function.step(_inputs(timestep, previous_action), core)
    return jnp.argmax(q[0]).astype(jnp.int32), core


def _read_signals(
    q: Float[Array, "H A"], timestep: Timestep, discount: float, twin: int | None
) -> Signals:
    """Returns the signals of one step; those that need a twin head are 0 without one."""
    zero = jnp.zeros(())
    return Signals(
        is_first=timestep.is_first,
        reward=timestep.reward,
        discount=jnp.where(timestep.terminated, 0.0, discount),
        value=jnp.max(q[0]),
        action_mismatch=zero if twin is None else action_mismatch(q[0], q[twin]),
        value_variance=zero if twin is None else value_variance(q[0], q[twin]),
        novelty=zero,
    )


def _summarise(timestep: Timestep, state: ActorState) -> EpisodeSummary:
    """Returns the summary of the episode that this timestep ends, if it does."""
    stats = periods.summary(state.periods)
    exploit = state.controller.arm.exploit
    has_rate = (exploit.kind == COIN) | (exploit.kind == INFORMED)
    return EpisodeSummary(
        finished=timestep.is_first & (state.periods.steps > 0),
        episode_return=state.episode_return + timestep.reward,
        length=state.periods.steps,
        p_X=stats.p,
        med_X=stats.median,
        rmed_X=stats.relative_median,
        periods=periods.number(state.periods),
        realised_rate=periods.entry_rate(state.periods),
        target_rate=jnp.where(has_rate, exploit.amount, jnp.nan),
    )


def _start_episode(
    key: Key, arms: ArmProbabilities, timestep: Timestep, state: ActorState
) -> ActorState:
    """Draws a new arm and sets the return to 0 where an episode starts."""
    first, keys = timestep.is_first, jax.random.split(key, len(DIMENSIONS))
    drawn = metacontroller.draw(jax.vmap(jax.random.uniform)(keys), arms)
    choices, arm = jax.tree.map(
        partial(jnp.where, first), drawn, (state.choices, state.controller.arm)
    )
    return state._replace(
        controller=state.controller._replace(arm=arm),
        choices=choices,
        episode_return=jnp.where(first, 0.0, state.episode_return + timestep.reward),
    )

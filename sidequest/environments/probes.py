"""Tasks so small that the right action values are known, to test a learner with.

Every probe has two actions, and episodes of a fixed length. Each starts with a random
hidden cue, -1 or +1; observations and rewards follow from cue, step and action.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from sidequest.environments.base import CompiledEnvironment, EnvironmentSpec, auto_reset
from sidequest.types import Key


class ProbeRules(NamedTuple):
    """Observation and reward of a probe at each step."""

    length: int
    observe: Callable[[Any, Any], list[Any]]  # cue, step
    reward: Callable[[Any, Any, Any], Any]  # cue, step, action
    truncates: bool = False


def memory(n: int) -> ProbeRules:
    """A cue is shown once; n steps later the action must match it, for 1 or else -1.

        t             0     1    ...   n
        observation   cue   0          0      beside it a 1 at step n: act now
        reward for a  0     0          +-1

    Without a memory of the cue the mean return is 0.
    """
    return ProbeRules(
        length=n + 1,
        observe=lambda cue, step: [cue * (step == 0), 1.0 * (step == n)],
        reward=lambda cue, step, action: cue * (2.0 * action - 1.0) * (step == n),
    )


PROBES = {
    # Pays 1, which is the value.
    "probe:constant": ProbeRules(
        length=1,
        observe=lambda cue, step: [1.0],
        reward=lambda cue, step, action: 1.0,
    ),
    # Pays the observation, which is the value.
    "probe:by_observation": ProbeRules(
        length=1,
        observe=lambda cue, step: [cue],
        reward=lambda cue, step, action: cue,
    ),
    # Action 1 pays 1, action 0 pays -1.
    "probe:by_action": ProbeRules(
        length=1,
        observe=lambda cue, step: [1.0],
        reward=lambda cue, step, action: 2.0 * action - 1.0,
    ),
    # The second of two steps pays 1. The values are the discount, then 1.
    "probe:two_step": ProbeRules(
        length=2,
        observe=lambda cue, step: [1.0 * (step == 0), 1.0 * (step == 1)],
        reward=lambda cue, step, action: 1.0 * (step == 1),
    ),
    # Every step pays the cue, which is always shown; a time limit truncates after 5 steps.
    # The value is cue / (1 - discount), as if there were no limit. A learner that takes
    # the limit for an end finds less, and so does one that takes the next episode's start
    # for the next state, because that has a cue of its own.
    "probe:time_limit": ProbeRules(
        length=5,
        observe=lambda cue, step: [cue],
        reward=lambda cue, step, action: cue,
        truncates=True,
    ),
    **{f"probe:memory_{n}": memory(n) for n in (1, 2, 5, 10)},
}


class _ProbeState(NamedTuple):
    cue: Float[Array, ""]
    step: Int[Array, ""]


def make_probe(name: str, rules: ProbeRules) -> CompiledEnvironment:
    """Builds the environment of a probe."""
    spec = EnvironmentSpec(
        name=name,
        observation_shape=(len(rules.observe(1.0, 0)),),
        observation_dtype=np.dtype(np.float32),
        num_actions=2,
        max_steps=rules.length,
    )

    def observe(state: _ProbeState) -> Float[Array, "N"]:
        numbers = rules.observe(state.cue, state.step)
        return jnp.stack([jnp.asarray(number, jnp.float32) for number in numbers])

    def reset(key: Key) -> tuple[_ProbeState, Float[Array, "N"]]:
        cue = jnp.where(jax.random.bernoulli(key), 1.0, -1.0)
        state = _ProbeState(cue, jnp.zeros((), jnp.int32))
        return state, observe(state)

    def step(key: Key, state: _ProbeState, action: Int[Array, ""]) -> tuple[Any, ...]:
        del key
        reward = rules.reward(state.cue, state.step, action)
        state = state._replace(step=state.step + 1)
        ended, never = state.step == rules.length, jnp.zeros((), bool)
        ends = (never, ended) if rules.truncates else (ended, never)
        return state, observe(state), reward, *ends

    return auto_reset(reset, step, spec)

"""Tasks so small that the right action values are known, to test a learner with.

Every probe has two actions, and episodes of a fixed length. Each starts with a random
hidden cue, -1 or +1; observations and rewards follow from cue, step and action.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from sidequest.environments.base import (
    CompiledEnvironment,
    EnvironmentSpec,
    auto_reset,
)
from sidequest.types import Key


class _ProbeState(NamedTuple):
    cue: Float[Array, ""]
    step: Int[Array, ""]


class _KnownEpisode(NamedTuple):
    """One whole episode, and the right action values at each step."""

    observations: Float[np.ndarray, "T N"]
    actions: Int[np.ndarray, "T"]
    rewards: Float[np.ndarray, "T"]
    """Each arrives with the observation it led to; the first is 0."""
    q_values: Float[np.ndarray, "T A"]


class _Probe(NamedTuple):
    """A task with its answer."""

    environment: CompiledEnvironment
    answer: Callable[[float], list[_KnownEpisode]]
    """discount -> the optimal episode of each cue."""


class _Rules(NamedTuple):
    """Observation, reward and right action values of a probe at each step."""

    length: int
    observe: Callable[[Any, Any], list[Any]]  # cue, step
    reward: Callable[[Any, Any, Any], Any]  # cue, step, action
    q_values: Callable[[float, int, float], list[float]]  # cue, step, discount
    truncates: bool = False


_RULES = {
    # Pays 1, which is the value.
    "probe:constant": _Rules(
        length=1,
        observe=lambda cue, step: [1.0],
        reward=lambda cue, step, action: 1.0,
        q_values=lambda cue, step, discount: [1.0, 1.0],
    ),
    # Pays the observation, which is the value.
    "probe:by_observation": _Rules(
        length=1,
        observe=lambda cue, step: [cue],
        reward=lambda cue, step, action: cue,
        q_values=lambda cue, step, discount: [cue, cue],
    ),
    # Action 1 pays 1, action 0 pays -1.
    "probe:by_action": _Rules(
        length=1,
        observe=lambda cue, step: [1.0],
        reward=lambda cue, step, action: 2.0 * action - 1.0,
        q_values=lambda cue, step, discount: [-1.0, 1.0],
    ),
    # The second of two steps pays 1. The values are the discount, then 1.
    "probe:two_step": _Rules(
        length=2,
        observe=lambda cue, step: [1.0 * (step == 0), 1.0 * (step == 1)],
        reward=lambda cue, step, action: 1.0 * (step == 1),
        q_values=lambda cue, step, discount: 2 * [discount ** (1 - step)],
    ),
    # Every step pays the cue, which is always shown; a time limit truncates after 5 steps.
    # The value is cue / (1 - discount), as if there were no limit. A learner that takes
    # the limit for an end finds less, and so does one that takes the next episode's start
    # for the next state, because that has a cue of its own.
    "probe:time_limit": _Rules(
        length=5,
        observe=lambda cue, step: [cue],
        reward=lambda cue, step, action: cue,
        q_values=lambda cue, step, discount: 2 * [cue / (1.0 - discount)],
        truncates=True,
    ),
}


def memory(n: int) -> _Probe:
    """A cue is shown once; n steps later the action must match it, for 1 or else -1.

        t             0     1    ...   n
        observation   cue   0          0      beside it a 1 at step n: act now
        reward for a  0     0          +-1

    Without a memory of the cue the mean return is 0.
    """
    if n < 1:
        raise ValueError(f"A cue must be remembered for 1 step or more, not {n}.")

    def q_values(cue: float, step: int, discount: float) -> list[float]:
        return [-cue, cue] if step == n else 2 * [discount ** (n - step)]

    rules = _Rules(
        length=n + 1,
        observe=lambda cue, step: [cue * (step == 0), 1.0 * (step == n)],
        reward=lambda cue, step, action: cue * (2.0 * action - 1.0) * (step == n),
        q_values=q_values,
    )
    return _make(f"probe:memory_{n}", rules)


def _make(name: str, rules: _Rules) -> _Probe:
    spec = EnvironmentSpec(
        name=name,
        observation_shape=(len(rules.observe(1.0, 0)),),
        observation_dtype=np.dtype(np.float32),
        num_actions=2,
        max_steps=rules.length,
    )

    def reset(key: Key) -> tuple[_ProbeState, Float[Array, "N"]]:
        cue = jnp.where(jax.random.bernoulli(key), 1.0, -1.0)
        state = _ProbeState(cue, jnp.zeros((), jnp.int32))
        return state, jnp.stack(_floats(rules.observe(cue, state.step)))

    def step(key: Key, state: _ProbeState, action: Int[Array, ""]) -> tuple[Any, ...]:
        del key
        reward = rules.reward(state.cue, state.step, action)
        state = state._replace(step=state.step + 1)
        ended = state.step == rules.length
        observation = jnp.stack(_floats(rules.observe(state.cue, state.step)))
        never = jnp.zeros((), bool)
        terminated, truncated = (never, ended) if rules.truncates else (ended, never)
        return state, observation, reward, terminated, truncated

    environment = auto_reset(reset, step, spec)
    return _Probe(environment, lambda discount: _episodes(rules, discount))


def _floats(numbers: list[Any]) -> list[Float[Array, ""]]:
    return [jnp.asarray(number, jnp.float32) for number in numbers]


def _episodes(rules: _Rules, discount: float) -> list[_KnownEpisode]:
    episodes = []
    for cue in (-1.0, 1.0):
        steps = range(rules.length)
        q_values = np.array([rules.q_values(cue, t, discount) for t in steps])
        actions = q_values.argmax(axis=1)
        paid = [float(rules.reward(cue, t, actions[t])) for t in steps]
        episodes.append(
            _KnownEpisode(
                observations=np.array([rules.observe(cue, t) for t in steps], np.float32),
                actions=actions.astype(np.int32),
                rewards=np.array([0.0, *paid[:-1]], np.float32),
                q_values=q_values.astype(np.float32),
            )
        )
    return episodes


PROBES = {
    **{name: partial(_make, name, rules) for name, rules in _RULES.items()},
    **{f"probe:memory_{n}": partial(memory, n) for n in (1, 2, 5, 10)},
}

"""The two kinds of environments: compiled ones as pure functions, hosted ones as groups.

Both follow the convention of `sidequest.types`: an episode that ends is followed by the
first observation of the next one in the very same step.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Int32, Num, PyTree, Shaped

from sidequest.types import EnvironmentSpec, Key, Timestep

State: TypeAlias = PyTree
"""An environment's own state."""


class CompiledEnvironment(NamedTuple):
    """One environment as pure functions; `vmap` makes the batch."""

    reset: Callable[[Key], tuple[State, Timestep]]
    step: Callable[[Key, State, Int[Array, ""]], tuple[State, Timestep]]
    """Never ends: an episode's last action leads to the first step of the next one."""
    spec: EnvironmentSpec


@runtime_checkable
class HostedEnvironment(Protocol):
    """A group of B emulators on the host that run while the caller does other things. They
    are started when the object is made, so the first call is `recv`."""

    spec: EnvironmentSpec

    def send(self, actions: Int32[np.ndarray, "B"]) -> None:
        """Passes one action to each emulator and returns at once."""
        ...

    def recv(self) -> Timestep:
        """Waits for the timestep [B] that follows the last `send`, as NumPy arrays."""
        ...

    def close(self) -> None:
        """Ends the emulators."""
        ...


class HostedGame(NamedTuple):
    """A game that runs on the host, before its emulators are started."""

    build: Callable[..., Sequence[HostedEnvironment]]
    """build(groups=, environments=, seed=, threads=, progress=) starts `groups` groups of
    emulators with `threads` threads each, and calls progress(built, of) as it goes. It is
    also called without the last two."""
    spec: EnvironmentSpec
    renders: bool = False
    """Whether `build` takes `renders=True`, for groups with a method `render` that returns
    what their first environment paints of itself."""


def auto_reset(
    reset: Callable[[Key], tuple[State, Num[Array, "..."]]],
    step: Callable[[Key, State, Int[Array, ""]], tuple[Any, ...]],
    spec: EnvironmentSpec,
) -> CompiledEnvironment:
    """Returns an environment that never ends, from a game of single episodes; see the top
    of `sidequest.types`. The last observation of an episode is never shown: no action
    follows it.

    Args:
        reset: key -> (state, observation).
        step: (key, state, action) -> (state, observation, reward, terminated,
            truncated). If an episode ends both ways at once, it counts as terminated.
        spec: Observations are cast to its dtype and must have its shape.
    """

    def start(key: Key) -> tuple[State, Num[Array, "..."]]:
        state, observation = reset(key)
        return jax.tree.map(_strip_weak_type, state), _observe(observation, spec)

    def first(key: Key) -> tuple[State, Timestep]:
        state, observation = start(key)
        no = jnp.zeros((), bool)
        return state, Timestep(observation, jnp.zeros((), jnp.float32), no, no, ~no)

    def following(key: Key, state: State, action: Int[Array, ""]) -> tuple[State, Timestep]:
        step_key, reset_key = jax.random.split(key)
        state, observation, reward, terminated, truncated = step(
            step_key, state, jnp.asarray(action, jnp.int32)
        )
        terminated, truncated = (
            jnp.asarray(flag).astype(bool) for flag in (terminated, truncated)
        )
        ended = terminated | truncated
        played = jax.tree.map(_strip_weak_type, state), _observe(observation, spec)
        state, observation = jax.tree.map(
            partial(jnp.where, ended), start(reset_key), played
        )
        reward = jnp.asarray(reward).astype(jnp.float32)
        timestep = Timestep(observation, reward, terminated, truncated & ~terminated, ended)
        return state, timestep

    return CompiledEnvironment(first, following, spec)


class _StickyState(NamedTuple):
    environment: State
    previous: Int[Array, ""]
    """The action that was played last; -1 at an episode's start."""


def with_sticky_actions(
    environment: CompiledEnvironment, probability: float
) -> CompiledEnvironment:
    """Plays the previous action again with this probability, except at an episode's first
    step (Machado et al. 2018). The agent does not observe it."""
    if not probability:
        return environment

    def reset(key: Key) -> tuple[State, Timestep]:
        state, timestep = environment.reset(key)
        return _StickyState(state, jnp.full((), -1, jnp.int32)), timestep

    def step(key: Key, state: _StickyState, action: Int[Array, ""]):
        stick_key, step_key = jax.random.split(key)
        sticks = jax.random.bernoulli(stick_key, probability) & (state.previous >= 0)
        action = jnp.where(sticks, state.previous, jnp.asarray(action, jnp.int32))
        inner, timestep = environment.step(step_key, state.environment, action)
        return _StickyState(inner, jnp.where(timestep.is_first, -1, action)), timestep

    return CompiledEnvironment(reset, step, environment.spec)


def _strip_weak_type(x: Any) -> Shaped[Array, "..."]:
    """Returns an array of a definite type. Games may start from Python's 0, whose weak type
    a scan cannot carry."""
    x = jnp.asarray(x)
    return jax.lax.convert_element_type(x, x.dtype)


def _observe(observation: Any, spec: EnvironmentSpec) -> Num[Array, "..."]:
    observation = jnp.asarray(observation)
    if observation.shape != spec.observation_shape:
        raise ValueError(
            f"{spec.name} shows observations of shape {observation.shape}, "
            f"its spec says {spec.observation_shape}."
        )
    return observation.astype(spec.observation_dtype)

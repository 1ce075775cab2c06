"""Compiled games: those of gymnax and XLand-MiniGrid, and probes.

From gymnax 1.0 are MinAtar, two tasks of bsuite and two of classic control. Those of
XLand-MiniGrid have sparse reward, long episodes, and a view of what is near.

Probes are tasks so small that the right action values are known, to test a learner with.
Each has two actions, and episodes of a fixed length that start with a random hidden cue, -1
or +1; observations and rewards follow from cue, step and action.
"""

import re
import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from sidequest.environments.base import (
    CompiledEnvironment,
    EnvironmentSpec,
    State,
    auto_reset,
)
from sidequest.types import Key


class _GymnaxGame(NamedTuple):
    """The gymnax environment of one of our names."""

    identifier: str
    constructor: dict[str, Any] = {}
    params: dict[str, Any] = {}
    dtype: Any = np.float32
    scale: tuple[float, ...] = ()
    """Divides each number of the observation, where gymnax's own are far from 1."""


def _minatar(identifier: str) -> _GymnaxGame:
    return _GymnaxGame(f"{identifier}-MinAtar", dtype=np.uint8)  # planes of 0 and 1


def _deep_sea(size: int) -> _GymnaxGame:
    return _GymnaxGame("DeepSea-bsuite", constructor={"size": size}, dtype=np.uint8)


def _memory_chain(length: int) -> _GymnaxGame:
    # Unlike bsuite, gymnax shows the cue in the first two observations, not in one.
    return _GymnaxGame("MemoryChain-bsuite", params={"memory_length": length})


GYMNAX = {
    "minatar:asterix": _minatar("Asterix"),
    "minatar:breakout": _minatar("Breakout"),
    "minatar:freeway": _minatar("Freeway"),
    "minatar:seaquest": _minatar("Seaquest"),
    "minatar:space_invaders": _minatar("SpaceInvaders"),
    # A bare name is gymnax's default; the other sizes are those of bsuite's sweeps.
    "bsuite:deep_sea": _deep_sea(8),
    **{f"bsuite:deep_sea_{size}": _deep_sea(size) for size in (10, 20, 30, 40, 50)},
    "bsuite:memory_chain": _memory_chain(5),
    **{
        f"bsuite:memory_chain_{length}": _memory_chain(length)
        for length in (10, 20, 30, 50, 100)
    },
    "classic:cartpole": _GymnaxGame("CartPole-v1"),
    # At gymnax's cap of 200 steps no random policy ever sees the goal; at 1,000, one
    # that holds on to its actions often does.
    "classic:mountain_car": _GymnaxGame(
        "MountainCar-v0", params={"max_steps_in_episode": 1000}, scale=(1.2, 0.07)
    ),
}


_DRAWING = ("seaborn", "matplotlib.pyplot")


class _Later(ModuleType):
    """A module that is imported at its first use."""

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self.__name__), name)


def _load_gymnax() -> Any:
    """Imports gymnax without its drawing libraries, four of its five seconds."""
    later = [name for name in _DRAWING if name not in sys.modules]
    sys.modules.update({name: _Later(name) for name in later})
    try:
        return import_module("gymnax")
    finally:
        for name in later:
            del sys.modules[name]


def make_gymnax(name: str) -> CompiledEnvironment:
    """Builds a game of `GYMNAX` from gymnax, without its own auto-reset."""
    gymnax = _load_gymnax()
    game = GYMNAX[name]
    environment, params = gymnax.make(game.identifier, **game.constructor)
    params = params.replace(**game.params)
    spec = EnvironmentSpec(
        name=name,
        observation_shape=tuple(environment.observation_space(params).shape),
        observation_dtype=np.dtype(game.dtype),
        num_actions=environment.num_actions,
        max_steps=params.max_steps_in_episode,
    )
    scale = jnp.asarray(game.scale or 1.0)

    def reset(key: Key) -> tuple[State, Any]:
        observation, state = environment.reset_env(key, params)
        return state, observation / scale

    def step(key: Key, state: State, action: Any) -> tuple[State, Any, Any, Any, Any]:
        observation, state, reward, terminated, _ = environment.step_env(
            key, state, action, params
        )
        truncated = environment.is_truncated(state, params)
        return state, observation / scale, reward, terminated, truncated

    return auto_reset(reset, step, spec)


# XLand-MiniGrid's names without "MiniGrid-". Listed here because importing it takes half a
# second; a test compares the list with the library's. Without its Playground, which
# has no goal, and its XLand games, which need a rule set as well.
_IDENTIFIERS = (
    "BlockedUnlockPickUp",
    *(f"DoorKey-{n}x{n}" for n in (5, 6, 8, 16)),
    *(f"Empty-{n}x{n}" for n in (5, 6, 8, 16)),
    *(f"EmptyRandom-{n}x{n}" for n in (5, 6, 8, 16)),
    "FourRooms",
    "LockedRoom",
    *(f"MemoryS{n}" for n in (8, 16, 32, 64, 128)),
    "Unlock",
    "UnlockPickUp",
)


def _our_name(identifier: str) -> str:
    """DoorKey-8x8 -> minigrid:door_key_8x8."""
    # The original MiniGrid writes "Pickup", and so do people who look for it.
    identifier = identifier.replace("PickUp", "Pickup")
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", identifier)
    return "minigrid:" + words.replace("-", "_").lower()


MINIGRID = {_our_name(identifier): identifier for identifier in _IDENTIFIERS}


def make_minigrid(name: str, max_steps: int | None = None) -> CompiledEnvironment:
    """Builds a game of `MINIGRID`; `max_steps` replaces the library's time limit.

    Reaching the goal at step t pays 1 - 0.9 t / max_steps, so the limit is part of
    the game. `minigrid:locked_room` is hardly solvable at the library's 190 steps.
    """
    import xminigrid
    from xminigrid.core.constants import NUM_COLORS, NUM_TILES

    environment: Any
    environment, params = xminigrid.make(f"MiniGrid-{MINIGRID[name]}")
    if max_steps is not None:
        params = params.replace(max_steps=max_steps)
    spec = EnvironmentSpec(
        name=name,
        observation_shape=tuple(environment.observation_shape(params)),
        observation_dtype=np.dtype(np.uint8),
        num_actions=environment.num_actions(params),
        maximum=float(max(NUM_TILES, NUM_COLORS) - 1),
        categories=(NUM_TILES, NUM_COLORS),
        max_steps=params.max_steps,
    )

    def reset(key: Key) -> tuple[State, Any]:
        timestep = environment.reset(params, key)
        return timestep, timestep.observation

    def step(key: Key, state: State, action: Any) -> tuple[State, Any, Any, Any, Any]:
        del key  # all of an episode's chance is in its start
        timestep = environment.step(params, state, action)
        # The library marks both ends as last; only a real end has no discount left.
        terminated = timestep.last() & (timestep.discount == 0)
        truncated = timestep.last() & ~terminated
        return timestep, timestep.observation, timestep.reward, terminated, truncated

    return auto_reset(reset, step, spec)


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

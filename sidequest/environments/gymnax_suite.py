"""Games of gymnax 1.0: MinAtar, two tasks of bsuite, two of classic control."""

import sys
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from sidequest.environments.base import (
    CompiledEnvironment,
    EnvironmentSpec,
    State,
    auto_reset,
)
from sidequest.types import Key


class GymnaxGame(NamedTuple):
    """The gymnax environment of one of our names."""

    identifier: str
    constructor: dict[str, Any] = {}
    params: dict[str, Any] = {}
    dtype: Any = np.float32
    scale: tuple[float, ...] = ()
    """Divides each number of the observation, where gymnax's own are far from 1."""


def _minatar(identifier: str) -> GymnaxGame:
    return GymnaxGame(f"{identifier}-MinAtar", dtype=np.uint8)  # planes of 0 and 1


def _deep_sea(size: int) -> GymnaxGame:
    return GymnaxGame("DeepSea-bsuite", constructor={"size": size}, dtype=np.uint8)


def _memory_chain(length: int) -> GymnaxGame:
    # Unlike bsuite, gymnax shows the cue in the first two observations, not in one.
    return GymnaxGame("MemoryChain-bsuite", params={"memory_length": length})


GAMES = {
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
    "classic:cartpole": GymnaxGame("CartPole-v1"),
    # At gymnax's cap of 200 steps no random policy ever sees the goal; at 1,000, one
    # that holds on to its actions often does.
    "classic:mountain_car": GymnaxGame(
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


def make(name: str) -> CompiledEnvironment:
    """Builds a game of `GAMES` from gymnax, without its own auto-reset."""
    gymnax = _load_gymnax()
    game = GAMES[name]
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
        with _loose_types():
            observation, state = environment.reset_env(key, params)
            return state, observation / scale

    def step(key: Key, state: State, action: Any) -> tuple[State, Any, Any, Any, Any]:
        with _loose_types():
            observation, state, reward, terminated, _ = environment.step_env(
                key, state, action, params
            )
            truncated = environment.is_truncated(state, params)
            return state, observation / scale, reward, terminated, truncated

    return auto_reset(reset, step, spec)


@contextmanager
def _loose_types():
    """Lets gymnax add booleans to floats where the caller has made JAX strict."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield

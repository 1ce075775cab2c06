"""Games of XLand-MiniGrid: sparse reward, long episodes, a view of what is near."""

import re
from typing import Any

import numpy as np

from sidequest.environments.base import (
    CompiledEnvironment,
    EnvironmentSpec,
    State,
    auto_reset,
)
from sidequest.types import Key

# The library's names without "MiniGrid-". Listed here because importing it takes half a
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


GAMES = {_our_name(identifier): identifier for identifier in _IDENTIFIERS}


def make(name: str, max_steps: int | None = None) -> CompiledEnvironment:
    """Builds a game of `GAMES`; `max_steps` replaces the library's time limit.

    Reaching the goal at step t pays 1 - 0.9 t / max_steps, so the limit is part of
    the game. `minigrid:locked_room` is hardly solvable at the library's 190 steps.
    """
    import xminigrid
    from xminigrid.core.constants import NUM_COLORS, NUM_TILES

    environment: Any
    environment, params = xminigrid.make(f"MiniGrid-{GAMES[name]}")
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

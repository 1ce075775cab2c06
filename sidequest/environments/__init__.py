"""WHERE the agent acts: JAX-native games, probe tasks, and Atari.

The names below load when first used, so that reading reference scores needs no JAX.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sidequest.environments.base import (
        CompiledEnvironment,
        EnvironmentSpec,
        HostedEnvironment,
        HostedGame,
        auto_reset,
    )
    from sidequest.environments.registry import Game, games, make, register
    from sidequest.environments.scores import human_normalised
    from sidequest.errors import UnknownGame

__all__ = [
    "CompiledEnvironment",
    "EnvironmentSpec",
    "Game",
    "HostedEnvironment",
    "HostedGame",
    "UnknownGame",
    "auto_reset",
    "games",
    "human_normalised",
    "make",
    "register",
]

_HOMES = ("environments.base", "environments.registry", "environments.scores", "errors")


def __getattr__(name: str):
    if name in __all__:
        for home in _HOMES:
            module = import_module(f"sidequest.{home}")
            if hasattr(module, name):
                return getattr(module, name)
    raise AttributeError(f"module 'sidequest.environments' has no attribute {name!r}")

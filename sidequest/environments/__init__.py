"""WHERE the agent acts: JAX-native games, probe tasks, and Atari."""

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

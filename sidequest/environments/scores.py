"""Scores of a random policy and of a human, scores between the two, and what is known about
the returns of games without a human's score. scores.toml has the numbers."""

import tomllib
from importlib.resources import files
from typing import NamedTuple


class _Reference(NamedTuple):
    """Mean episode returns of the two reference players of a game."""

    random: float
    human: float


class Known(NamedTuple):
    """Holds what is known about the returns of a game without a human's score."""

    random: float
    """Mean return of uniform random play."""
    spread: float = 0.0
    """Standard deviation of the return of its episodes; 0 where nobody measured it."""
    possible: float | None = None
    """The highest return there can be; None where there is no bound to speak of."""


_NUMBERS = tomllib.loads((files(__package__ or "") / "scores.toml").read_text())
SCORES = {game: _Reference(*numbers) for game, numbers in _NUMBERS["atari"].items()}
KNOWN = {game: Known(*numbers) for game, numbers in _NUMBERS["other"].items()}


def human_normalised(game: str, score: float) -> float:
    """Returns (score - random) / (human - random): 0 for a random policy, 1 for a human.
    Raises `ValueError` if no human's score is known."""
    if game not in SCORES:
        raise ValueError(f"No human score is known for {game!r}.")
    reference = SCORES[game]
    return (score - reference.random) / (reference.human - reference.random)

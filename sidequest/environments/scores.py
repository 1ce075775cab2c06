"""What is known about the returns of games: those of a random policy and of a human, and
scores between the two. scores.toml has the numbers."""

import tomllib
from importlib.resources import files
from typing import NamedTuple


class Known(NamedTuple):
    """Holds what is known about the returns of a game."""

    random: float | None = None
    """Mean return of uniform random play."""
    human: float | None = None
    spread: float = 0.0
    """Standard deviation of the return of random play; 0 where nobody measured it."""
    possible: float | None = None
    """The highest return there can be; None where there is no bound to speak of."""


_NUMBERS = tomllib.loads((files(__package__ or "") / "scores.toml").read_text())
KNOWN = {
    **{game: Known(random, human) for game, (random, human) in _NUMBERS["atari"].items()},
    **{game: Known(one[0], None, *one[1:]) for game, one in _NUMBERS["other"].items()},
}


def human_normalised(game: str, score: float | None) -> float | None:
    """Returns (score - random) / (human - random): 0 for a random policy, 1 for a human.
    None if there is no score, or no human's is known."""
    random, human, *_ = KNOWN.get(game, Known())
    if score is None or random is None or human is None:
        return None
    return (score - random) / (human - random)

"""What one run is, and what it tells while it goes. Nothing here needs JAX."""

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from sidequest.switching.variants import Variant


class RunSpec(NamedTuple):
    """One run: what is trained, and where its records go."""

    variant: Variant
    game: str
    seed: int
    folder: Path


class Saving(NamedTuple):
    """When checkpoints are made, and of what."""

    every: int | None = None
    """Frames between two; None: see `interval`."""
    replay: bool = True
    """Whether replay is in them, on emulators. Without it a run that goes on fills it
    anew before it learns."""

    def interval(self, total: int) -> int:
        """By default a tenth of a run, so that no more than that is ever lost; of a long
        run less, about 40 minutes at the paper's 46 thousand frames a second."""
        return self.every or max(1, min(total // 10, LONGEST_INTERVAL))


LONGEST_INTERVAL = 100_000_000


TENTHS = Saving()
"""What is done if nothing else is said."""


class Favourite(NamedTuple):
    """The arm that a bandit likes best at the moment."""

    bandit: str
    arm: float
    probability: float


class Progress(NamedTuple):
    """What a display may show after a chunk. What is not known is NaN, or left out."""

    frames: int
    """Of each member so far."""
    total: int
    rate: float
    """Frames a second, lately, of all members together."""
    updates: int
    """Of each member so far."""
    returns: list[float]
    """Each member's mean return of its newest training episodes."""
    evaluations: list[float]
    """Each member's newest evaluation."""
    p_X: list[float]
    """Each member's mean share of explore steps, of the same episodes as `returns`."""
    mean_rate: float = math.nan
    """Frames a second since this sitting began, without its first chunk, which compiles."""
    update_rate: float = math.nan
    """Updates a second, lately, of all members together."""
    replay_fill: float = math.nan
    """Observations in replay, as a share of its capacity."""
    human: Sequence[float] = ()
    """Human-normalised scores of the evaluations."""
    realised: Sequence[float] = ()
    """Each member's mean switching rate of its newest episodes that had a target."""
    target: Sequence[float] = ()
    """The mean of these targets."""
    favourites: Sequence[Favourite] = ()
    """Of the bandits, if there is one member."""
    seconds_left: float = math.nan


@runtime_checkable
class Display(Protocol):
    """Where a run tells people how it is going."""

    def say(self, text: str) -> None: ...

    def count(self, text: str, done: int, of: int) -> None:
        """How far something is that must be done before a run can begin."""
        ...

    def show(self, progress: Progress) -> None: ...


def run_folder(out: Path, variant: Variant, game: str, seed: int) -> Path:
    """Where the records of a run go below `out`."""
    return out / folder_name(variant) / game.replace(":", "-") / f"seed-{seed}"


def folder_name(variant: Variant) -> str:
    """A variant's name with letters, digits and hyphens only, for paths and shells."""
    spoken = {"*": "star", "=": "same", "γ": "gamma", "%": "percent", ".": "_"}
    text = "".join(spoken.get(letter, letter) for letter in str(variant))
    return re.sub(r"[^A-Za-z0-9_]+", "-", text).strip("-")

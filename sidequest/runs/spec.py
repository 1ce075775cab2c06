"""What one run is, and what it tells while it goes. Nothing here needs JAX."""

import re
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


class Progress(NamedTuple):
    """What a display may show after a chunk."""

    frames: int
    """Of each member so far."""
    total: int
    rate: float
    """Frames a second, of all members together."""
    updates: int
    returns: list[float]
    """Each member's mean return of the training episodes that ended; NaN if none did."""
    evaluations: list[float]
    """Each member's newest evaluation."""
    p_X: list[float]


@runtime_checkable
class Display(Protocol):
    """Where a run tells people how it is going."""

    def say(self, text: str) -> None: ...

    def show(self, progress: Progress) -> None: ...


def run_folder(out: Path, variant: Variant, game: str, seed: int) -> Path:
    """Where the records of a run go below `out`."""
    return out / folder_name(variant) / game.replace(":", "-") / f"seed-{seed}"


def folder_name(variant: Variant) -> str:
    """A variant's name with letters, digits and hyphens only, for paths and shells."""
    spoken = {"*": "star", "=": "same", "γ": "gamma", "%": "percent", ".": "_"}
    text = "".join(spoken.get(letter, letter) for letter in str(variant))
    return re.sub(r"[^A-Za-z0-9_]+", "-", text).strip("-")

"""What a person sees while runs go: a bar that moves, or lines for a log."""

import math
import sys
import time
from collections.abc import Sequence

from sidequest.runs.spec import Progress

LINE_EVERY = 10.0  # seconds between two lines of a log


class Bar:
    """A progress bar with the newest numbers, on standard error."""

    def __init__(self, total: int):
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            Progress,
            TaskProgressColumn,
            TextColumn,
            TimeRemainingColumn,
        )

        self._console = Console(stderr=True)
        self._bar = Progress(
            BarColumn(bar_width=24),
            TaskProgressColumn(),
            TextColumn("{task.fields[numbers]}"),
            TimeRemainingColumn(),
            console=self._console,
        )
        self._task = self._bar.add_task("", total=total, numbers="", start=False)

    def __enter__(self) -> "Bar":
        self._bar.start()
        return self

    def __exit__(self, *_) -> None:
        self._bar.stop()

    def say(self, text: str) -> None:
        self._console.print(text, highlight=False)

    def show(self, progress: Progress) -> None:
        self._bar.start_task(self._task)
        completed = min(progress.frames, progress.total)
        self._bar.update(self._task, completed=completed, numbers=numbers(progress))


class Log:
    """A line now and then, for files and for people who like it quiet."""

    def __init__(self):
        self._said = -math.inf

    def __enter__(self) -> "Log":
        return self

    def __exit__(self, *_) -> None:
        pass

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def show(self, progress: Progress) -> None:
        done = progress.frames >= progress.total
        if done or time.monotonic() - self._said >= LINE_EVERY:
            self._said = time.monotonic()
            share = min(1.0, progress.frames / progress.total)
            self.say(f"{share:4.0%}  {numbers(progress)}")


def numbers(progress: Progress) -> str:
    """The newest numbers of all runs, in one line."""
    return "  ".join(
        [
            f"{short(progress.frames)} frames",
            f"{short(progress.rate)}/s",
            f"{short(progress.updates)} updates",
            f"return {spread(progress.returns)}",
            f"greedy {spread(progress.evaluations)}",
            f"p_X {spread(progress.p_X)}",
        ]
    )


def spread(values: Sequence[float]) -> str:
    """One number, or least to greatest of several."""
    known = [value for value in values if not math.isnan(value)]
    if not known:
        return "–"
    low, high = min(known), max(known)
    return f"{low:.3g}" if len(known) == 1 else f"{low:.3g}…{high:.3g}"


def short(number: float) -> str:
    """12345 -> 12.3k."""
    for size, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.0f}"

"""The modes of a stream as a coloured strip, and the two numbers that sum it up."""

from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes

from sidequest.figures.style import BLUE, INK, MAGENTA
from sidequest.types import Trace

EXPLOIT_HEIGHT = 0.5  # of a row; the lower bar is the cue for those who see no hue
EXPLORE_HEIGHT = 0.8


class Period(NamedTuple):
    """An unbroken run of one mode."""

    start: int
    length: int
    explores: bool


def split_periods(trace: Trace, *, cut: bool = True) -> list[Period]:
    """All periods in order. An episode's end ends a period, unless `cut` is False.

    t         0 1 2 3 4 5      cut        (0, 2, G) (2, 2, X) (4, 1, X) (5, 1, G)
    is_first  1 0 0 0 1 0      not cut    (0, 2, G) (2, 3, X) (5, 1, G)
    mode      G G X X X G
    """
    begins = np.append(True, np.diff(trace.modes))
    if cut:
        begins |= trace.is_first
    starts = np.flatnonzero(begins)
    lengths = np.diff(np.append(starts, len(trace.modes)))
    return [
        Period(int(start), int(length), bool(trace.modes[start]))
        for start, length in zip(starts, lengths, strict=True)
    ]


def characteristics(trace: Trace, *, cut: bool = True) -> tuple[float, float]:
    """(p_X, med_X) of all steps of the trace; the median is NaN if nothing explored."""
    lengths = [period.length for period in split_periods(trace, cut=cut) if period.explores]
    median = float(np.median(lengths)) if lengths else float("nan")
    return float(trace.modes.mean()), median


def last_steps(trace: Trace, steps: int) -> Trace:
    """The end of the trace: what an excerpt shows once all averages have settled."""
    return Trace(*(column[-steps:] for column in trace))


def draw_strip(axes: Axes, trace: Trace, row: float = 0.0) -> None:
    """One strip of unit height, centred on y = `row`: step t fills x from t to t + 1."""
    # One blue bar lies under all of it: side by side, bars would show seams.
    axes.broken_barh(
        [(0, len(trace.modes))],
        (row - EXPLOIT_HEIGHT / 2, EXPLOIT_HEIGHT),
        facecolors=BLUE,
        linewidth=0,
    )
    explored = [(p.start, p.length) for p in split_periods(trace) if p.explores]
    axes.broken_barh(
        explored,
        (row - EXPLORE_HEIGHT / 2, EXPLORE_HEIGHT),
        facecolors=MAGENTA,
        linewidth=0,
    )
    draw_episodes(axes, trace, row - 0.5, row + 0.5)


def draw_episodes(axes: Axes, trace: Trace, low: float, high: float) -> None:
    """Black lines where a new episode begins, from y = `low` to `high`."""
    starts = np.flatnonzero(trace.is_first)
    axes.vlines(starts[starts > 0], low, high, colors=INK, linewidth=1.2, zorder=3)

"""Learning curves: the greedy evaluator's return over environment frames.

`draw_panel` draws one game; `draw_panels` is a whole figure of such panels.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sidequest.figures import style as look
from sidequest.figures.reading import Run, column

COLUMNS = 4
SPREAD = "Lines are means over seeds, bands reach from the least to the greatest seed."


class Curve(NamedTuple):
    """One run: mean return of each evaluation."""

    run: Run
    frames: Float[np.ndarray, "T"]
    returns: Float[np.ndarray, "T"]


class Panel(NamedTuple):
    """One panel of curves: runs by the label of their line."""

    title: str
    lines: Mapping[str, Sequence[Run]]


class Style(NamedTuple):
    """How a line looks; hue, lightness and marker differ together."""

    colour: str
    marker: str
    width: float = 1.5


GRANULARITY_STYLES = {
    "experiment-level X": Style("#999999", "X", 1.2),
    "experiment-level G": Style("#333333", "v", 1.2),
    "step-level": Style("#0072b2", "o"),
    "episode-level": Style("#e69f00", "s"),
    "intra-episodic": Style("#c7322b", "D", 2.0),
}


def read_curve(run: Run) -> Curve | None:
    """None if the run has not been evaluated yet."""
    frames, returns = column(run, "evaluations", "frames", "return")
    good = ~np.isnan(returns)
    if not good.any():
        return None
    points, place = np.unique(frames[good], return_inverse=True)
    means = np.bincount(place, returns[good]) / np.bincount(place)
    return Curve(run, points, means)


def read_curves(runs: Sequence[Run]) -> list[Curve]:
    """Of those runs that have been evaluated at least once, finished or not."""
    return [curve for run in runs if (curve := read_curve(run)) is not None]


def align(
    curves: Sequence[Curve],
) -> tuple[Float[np.ndarray, "T"], Float[np.ndarray, "N T"]]:
    """Seeds on common frames, as far as the shortest goes; linear between evaluations."""
    start = max(curve.frames[0] for curve in curves)
    end = min(curve.frames[-1] for curve in curves)
    shared = [one.frames[(one.frames >= start) & (one.frames <= end)] for one in curves]
    frames = max(shared, key=len)
    if not len(frames):
        frames = np.array([max(start, end)])
    rows = [np.interp(frames, curve.frames, curve.returns) for curve in curves]
    return frames, np.stack(rows)


def draw_line(axes: Axes, curves: Sequence[Curve], style: Style, unit: float) -> None:
    """Mean over seeds, band from least to greatest, and each seed as a thin line."""
    frames, returns = align(curves)
    x = frames / unit
    if len(curves) > 1:
        axes.fill_between(
            x,
            returns.min(axis=0),
            returns.max(axis=0),
            color=style.colour,
            alpha=0.13,
            lw=0,
        )
        for curve in curves:
            axes.plot(
                curve.frames / unit, curve.returns, color=style.colour, lw=0.4, alpha=0.6
            )
    axes.plot(
        x,
        returns.mean(axis=0),
        color=style.colour,
        lw=style.width,
        marker=style.marker,
        markersize=3.5,
        markevery=max(1, len(x) // 8),
        label=curves[0].run.variant,
        zorder=3,
    )


def draw_panel(
    axes: Axes, lines: Mapping[str, Sequence[Run]], styles: Mapping[str, Style]
) -> None:
    """One game: a line for each label, in the style of that label."""
    curves = {label: read_curves(runs) for label, runs in lines.items()}
    last = max((one.frames[-1] for own in curves.values() for one in own), default=0.0)
    unit, name = look.frame_unit(last)
    for label, own in curves.items():
        if own:
            draw_line(axes, own, styles[label], unit)
    look.tidy(axes)
    if not last:
        look.say_empty(axes)
        return
    axes.set_xlim(left=0)
    axes.set_xlabel(name, fontsize=look.SMALL)


def style_keys(styles: Mapping[str, Style], names: Mapping[str, str]) -> list[Line2D]:
    """The legend's lines: one for each label in `names`, with the text to show."""
    return [
        Line2D(
            [],
            [],
            color=styles[label].colour,
            marker=styles[label].marker,
            lw=styles[label].width,
            markersize=4,
            label=look.plain(text),
        )
        for label, text in names.items()
    ]


def some_styles(labels: Sequence[str]) -> dict[str, Style]:
    return {
        label: Style(*look.LINES[i % len(look.LINES)]) for i, label in enumerate(labels)
    }


def draw_panels(
    sections: Sequence[Sequence[Panel]],
    styles: Mapping[str, Style],
    *,
    title: str,
    names: Mapping[str, str],
    notes: Sequence[str],
    height: float = 1.75,
) -> Figure:
    """Panels in rows of at most four; each section begins a new row.

    `names` are the legend's texts by the label of the line.
    """
    if max(map(len, sections)) == 1:  # one game: side by side
        sections = [[panel for section in sections for panel in section]]
    columns = min(COLUMNS, max(map(len, sections)))
    rows = [
        section[i : i + columns]
        for section in sections
        for i in range(0, len(section), columns)
    ]
    figure = look.compose(
        height * len(rows), title=title, keys=style_keys(styles, names), notes=notes
    )
    grid = figure.subplots(len(rows), columns, squeeze=False)
    for cells, row in zip(grid, rows, strict=True):
        for axes, panel in zip(cells, row, strict=False):
            draw_panel(axes, panel.lines, styles)
            axes.set_title(look.plain(panel.title), fontsize=look.MEDIUM)
        for axes in cells[len(row) :]:
            axes.set_visible(False)
        cells[0].set_ylabel("return", fontsize=look.SMALL)
    return figure

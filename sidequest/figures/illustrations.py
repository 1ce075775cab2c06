"""How the paper's illustrations are drawn: figures 1 and 2, and the README's picture."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sidequest.figures import style as look
from sidequest.figures.strips import characteristics, draw_strip
from sidequest.types import Trace

GAP = 1.3  # rows, for the title of a section
LETTER = 0.602 * look.SMALL / 72  # inches: a letter's width in the font of the names


class Row(NamedTuple):
    """A strip with its label."""

    label: str
    variant: str
    trace: Trace


class Section(NamedTuple):
    """Rows under one title; `choice` of the four in their names is what differs."""

    title: str
    choice: int
    rows: Sequence[Row]


class Point(NamedTuple):
    """A row on the characteristic plot."""

    label: str
    p: float
    median: float


def place_points(rows: Sequence[Row]) -> list[Point]:
    """(p_X, med_X) of each row; an experiment-level period outlasts its episodes."""
    return [
        Point(
            row.label,
            *characteristics(row.trace, cut="experiment-level" not in row.variant),
        )
        for row in rows
    ]


def draw_granularities(rows: Sequence[Row], episode: int) -> Figure:
    """Figure 1: when the agent explores, and where that lies on the characteristic plot.

    `episode` is the length of a typical one.
    """
    figure = look.new_figure(10.0, 3.6)
    left, right = figure.subplots(1, 2, width_ratios=[1.55, 1.0])
    figure.subplots_adjust(left=0.035, right=0.985, top=0.91, bottom=0.13, wspace=0.14)
    pitch = 1.5  # leaves room for a name above each strip
    for y, row in enumerate(rows):
        draw_strip(left, row.trace, pitch * y)
        left.text(0, pitch * y - 0.72, row.variant, size=6, family="monospace", va="center")
    left.set_ylim(pitch * len(rows) - 0.9, -1.0)
    _frame_strips(left, rows[0].trace)
    left.set_yticks(pitch * np.arange(len(rows)), [row.label for row in rows])
    for letter in left.get_yticklabels():
        letter.set(size=look.LARGE, weight="bold")
    left.set_xlabel("steps; black lines are episode boundaries", size=look.SMALL)
    look.mode_legend(left, loc="lower right", bbox_to_anchor=(1.0, 0.99), borderpad=0)
    draw_characteristics(right, place_points(rows), episode)
    return figure


def draw_characteristics(axes: Axes, points: Sequence[Point], episode: int) -> None:
    """p_X against med_X, with the area that only intra-episodic switching reaches.

    A period of n explore steps is followed by one exploit step or more, which bounds p_X
    by n / (n + 1): the corner above that is empty.
    """
    lengths = np.geomspace(1.25, episode / 1.25, 200)
    axes.fill_between(lengths, 0.02, lengths / (lengths + 1), color=look.YELLOW, lw=0)
    middle = float(np.sqrt(episode))
    axes.text(middle, 0.42, "intra-episodic", size=look.MEDIUM, style="italic", ha="center")
    for x, text in ((1, "step-level"), (episode, "episode-level")):
        axes.axvline(x, color=look.GREY, linewidth=0.8, linestyle=(0, (4, 3)), zorder=0)
        axes.text(x, 1.09, text, size=look.SMALL, color=look.GREY, ha="center")
    axes.text(
        6 * episode, 1.09, "experiment", size=look.SMALL, color=look.GREY, ha="center"
    )
    for place in {(point.median, point.p) for point in points}:
        axes.plot(*place, "o", color=look.INK, markersize=5)
    for (x, y), label in _labels(points).items():
        axes.annotate(
            label,
            (x, y),
            (6, 4),
            textcoords="offset points",
            size=look.LARGE,
            weight="bold",
        )
    axes.set_xscale("log")
    axes.set_xlim(0.7, 12 * episode)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.minorticks_off()
    axes.set_ylim(-0.03, 1.07)
    axes.set_xlabel("med$_X$, steps of a typical explore period", size=look.MEDIUM)
    axes.set_ylabel("$p_X$, share of explore steps", size=look.MEDIUM)
    look.tidy(axes)


def _labels(points: Sequence[Point]) -> dict[tuple[float, float], str]:
    """One label a place: points that lie on top of each other share it."""
    labels: dict[tuple[float, float], str] = {}
    for point in points:
        near = [
            (x, y)
            for x, y in labels
            if abs(np.log(x / point.median)) < 0.15 and abs(y - point.p) < 0.06
        ]
        place = near[0] if near else (point.median, point.p)
        labels[place] = f"{labels[place]}, {point.label}" if near else point.label
    return labels


def draw_design_space(sections: Sequence[Section], signals: Sequence[Row]) -> Figure:
    """Figure 2: how each choice in the name of a variant changes when it explores."""
    names = [row.variant for section in sections for row in section.rows]
    lines = len(names) + GAP * len(sections)
    heights = [*[0.45] * len(signals), 0.21 * lines]
    wide, tall = 8.6, 0.6 + sum(heights)
    figure = look.new_figure(wide, tall)
    panels = figure.subplots(
        len(heights), 1, sharex=True, squeeze=False, height_ratios=heights
    )[:, 0]
    figure.subplots_adjust(
        left=(0.25 + LETTER * max(map(len, names))) / wide,
        right=0.985,
        top=1 - 0.35 / tall,
        bottom=0.25 / tall,
        hspace=0.12,
    )
    for axes, signal in zip(panels, signals, strict=False):
        draw_signal(axes, signal)
    _draw_sections(panels[-1], sections)
    figure.text(
        0.02,
        1 - 0.22 / tall,
        "XU-intra($n_X$, trigger, $n_G$, start)",
        size=look.LARGE,
        weight="bold",
    )
    look.mode_legend(figure, loc="upper right", bbox_to_anchor=(0.99, 1.0))
    return figure


def _draw_sections(axes: Axes, sections: Sequence[Section]) -> None:
    y = 0.0
    for section in sections:
        y += GAP
        axes.text(0, y - 0.8, section.title, size=look.SMALL, style="italic", va="center")
        for row in section.rows:
            draw_strip(axes, row.trace, y)
            write_name(axes, row.variant, y, section.choice)
            y += 1
    axes.set_ylim(y - 0.4, 0)
    _frame_strips(axes, sections[0].rows[0].trace)


def write_name(axes: Axes, name: str, y: float, choice: int) -> None:
    """A variant's name left of its strip, with one of its four choices in bold."""
    before, inside = name.split("(")
    tokens = inside.removesuffix(")").split(",")
    start = len(before) + 1 + sum(len(token) + 1 for token in tokens[:choice])
    end = start + len(tokens[choice])
    plain = name[:start] + " " * (end - start) + name[end:]
    # Right-aligned in a font of fixed width, two texts lie letter over letter.
    bold = name[start:end] + "\N{NO-BREAK SPACE}" * (len(name) - end)
    place = {"x": -0.01, "y": y, "transform": axes.get_yaxis_transform()}
    font = {"size": look.SMALL, "family": "monospace", "ha": "right", "va": "center"}
    axes.text(s=plain, color=look.GREY, **place, **font)
    axes.text(s=bold, color=look.INK, weight="bold", **place, **font)


def draw_signal(axes: Axes, row: Row) -> None:
    """What an informed trigger listens to, as an area."""
    signal = np.nan_to_num(row.trace.signal)
    axes.fill_between(np.arange(len(signal)) + 0.5, signal, color=look.GREY, linewidth=0)
    axes.set_ylim(0, 1.05 * signal.max())
    axes.set_yticks([])
    axes.set_ylabel(
        row.label, size=look.SMALL, rotation=0, ha="right", va="center", labelpad=6
    )
    look.tidy(axes, sides=("bottom",))
    axes.tick_params(bottom=False, labelbottom=False)


def _frame_strips(axes: Axes, trace: Trace) -> None:
    axes.set_xlim(0, len(trace.modes))
    axes.set_yticks([])
    look.tidy(axes, sides=())
    axes.set_xticks([])
    axes.set_xlabel("steps", size=look.SMALL)


def draw_in_brief(rows: Sequence[Row], signal: Row) -> Figure:
    """The README's picture: one episode, explored in four ways."""
    figure = look.new_figure(8.0, 2.5)
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[0.9, len(rows)])
    figure.subplots_adjust(left=0.285, right=0.985, top=0.87, bottom=0.07, hspace=0.05)
    draw_signal(top, signal)
    for y, row in enumerate(rows):
        draw_strip(bottom, row.trace, y)
        place = {"x": -0.015, "transform": bottom.get_yaxis_transform(), "ha": "right"}
        bottom.text(
            y=y - 0.16, s=row.label, size=look.MEDIUM, weight="bold", va="center", **place
        )
        bottom.text(
            y=y + 0.24,
            s=row.variant,
            size=6,
            family="monospace",
            color=look.GREY,
            va="center",
            **place,
        )
    bottom.set_ylim(len(rows) - 0.5, -0.6)
    _frame_strips(bottom, rows[0].trace)
    bottom.set_xlabel("one episode", size=look.SMALL)
    figure.text(
        0.015, 0.93, "When should an agent explore?", size=look.LARGE, weight="bold"
    )
    look.mode_legend(figure, loc="upper right", bbox_to_anchor=(0.99, 1.0))
    return figure

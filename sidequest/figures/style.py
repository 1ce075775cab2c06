"""The shared style: the paper's colours, and how a figure is made and saved.

Blue exploits, magenta explores. The two differ in lightness too, and explore is always
the taller bar, so that no reader depends on the hue.
"""

import math
import textwrap
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

import matplotlib
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

BLUE = "#4a86c5"
MAGENTA = "#c2127b"
YELLOW = "#fdf0b5"
INK = "#222222"
GREY = "#8a8a8a"
NOTE = "#666666"
GOLD = "#e0a100"

TO_EXPLORE: dict = {"marker": "^", "linestyle": "", "color": MAGENTA, "markersize": 4.5}
TO_EXPLOIT: dict = {"marker": "v", "linestyle": "", "color": BLUE, "markersize": 4.5}

LARGE, MEDIUM, SMALL = 10.0, 8.0, 7.0  # font sizes in points
WIDTH = 8.0  # inches, of a study's figure; small letters are 11 pixels high at 900 across

# Distinct by lightness and by the marker as well as by the hue (Okabe and Ito 2008).
LINES = (
    ("#0072b2", "o"),
    ("#d55e00", "s"),
    ("#009e73", "^"),
    ("#cc79a7", "D"),
    ("#56b4e9", "v"),
    ("#e69f00", "P"),
    ("#333333", "X"),
    ("#999933", "*"),
)
SUFFIXES = (".png", ".svg")

Item = TypeVar("Item")

_STYLE = str(files("sidequest.figures") / "assets" / "sidequest.mplstyle")
styled = matplotlib.rc_context(fname=_STYLE)
"""Decorates a function that draws: small letters, thin axes, no frame on top and right."""


def new_figure(width: float, height: float, dpi: int = 200) -> Figure:
    """Returns an empty figure, in inches; it belongs to no window and no global state."""
    return Figure(figsize=(width, height), dpi=dpi, facecolor="white")


def compose(
    height: float,
    *,
    title: str = "",
    keys: Sequence[Artist] = (),
    notes: Sequence[str] = (),
    width: float = WIDTH,
) -> Figure:
    """Returns a figure with room for panels; title above, legend and notes below.

    Notes are small and grey: what is missing, and how to read what is there.
    """
    letters = int(width * 72 / (0.5 * SMALL)) - 4
    lines = [
        line
        for note in notes
        for line in textwrap.wrap(plain(note), letters, break_on_hyphens=False)
    ]
    longest = max((len(str(key.get_label())) for key in keys), default=1)
    columns = max(1, min(len(keys), int(width / (0.45 + 0.054 * longest))))
    rows = -(-len(keys) // columns)
    note_height = 0.125 * len(lines) + 0.06 * bool(lines)
    key_height = 0.155 * rows + 0.1 * bool(rows)
    above = 0.3 if title else 0.04
    tall = above + height + key_height + note_height
    figure = new_figure(width, tall)
    bottom = (key_height + note_height) / tall
    rectangle = (0.0, bottom, 1.0, 1.0 - bottom - above / tall)
    figure.set_layout_engine("constrained", rect=rectangle)
    if title:
        place = {"x": 0.01, "y": 1 - 0.07 / tall, "va": "top", "weight": "bold"}
        figure.text(s=plain(title), size=LARGE, color=INK, **place)
    if lines:
        place = {"x": 0.01, "y": 0.03 / tall, "va": "bottom", "linespacing": 1.25}
        figure.text(s="\n".join(lines), size=SMALL - 0.5, color=NOTE, **place)
    if keys:
        figure.legend(
            handles=list(keys),
            loc="lower center",
            bbox_to_anchor=(0.5, note_height / tall),
            ncols=columns,
            borderaxespad=0.2,
            handlelength=2.2,
            columnspacing=1.5,
        )
    return figure


def in_rows(items: Sequence[Item], columns: int) -> list[Sequence[Item]]:
    """Splits items into rows of at most `columns`."""
    return [items[i : i + columns] for i in range(0, len(items), columns)]


def add_panels(
    figure: Figure, rows: Sequence[Sequence], **options: Any
) -> list[list[Axes]]:
    """Adds a panel for each item of each row, and returns them in the same rows."""
    columns = max(map(len, rows))
    grid = figure.subplots(len(rows), columns, squeeze=False, **options)
    for cells, row in zip(grid, rows, strict=True):
        for axes in cells[len(row) :]:
            axes.set_visible(False)
    return [list(cells[: len(row)]) for cells, row in zip(grid, rows, strict=True)]


def plain(text: str) -> str:
    """Returns text that is shown as it is: a dollar sign starts no formula."""
    return text.replace("$", r"\$")


def frame_unit(frames: float) -> tuple[float, str]:
    """Returns what to divide an axis of frames by, and the name of that unit."""
    return (1e6, "million frames") if frames >= 2e6 else (1e3, "thousand frames")


def save(figure: Figure, path: Path) -> Path:
    """Writes PNG or SVG by the suffix; the same figure gives the same bytes."""
    if path.suffix not in SUFFIXES:
        raise ValueError(f"{path} ends with {path.suffix!r}; allowed: .png, .svg")
    path.parent.mkdir(parents=True, exist_ok=True)
    metadata = {"Date": None} if path.suffix == ".svg" else None
    with matplotlib.rc_context(fname=_STYLE):  # ticks are made as late as this
        figure.savefig(path, metadata=metadata)
    figure.set_layout_engine("none")  # the layout is found; a second format need not search
    return path


def hide_sides(axes: Axes, *sides: str) -> None:
    """Removes sides of the frame, with their ticks."""
    axes.spines[list(sides)].set_visible(False)
    axes.tick_params(left="left" not in sides, bottom="bottom" not in sides)


def use_log_axis(axes: Axes) -> None:
    """Makes the x-axis logarithmic, with plain numbers at its ticks."""
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.minorticks_off()


def label_points(
    axes: Axes,
    points: Sequence[tuple[str, float, float]],
    offset: tuple[int, int],
    size: float,
) -> None:
    """Writes labels beside points (label, x, y) over a logarithmic x-axis.

    Points that lie on top of each other share a label.
    """
    labels: dict[tuple[float, float], list[str]] = {}
    for label, x, y in points:
        near = [
            (left, low)
            for left, low in labels
            if abs(math.log10(left / x)) < 0.12 and abs(low - y) < 0.06
        ]
        labels.setdefault(near[0] if near else (x, y), []).append(label)
    font = {"size": size, "weight": "bold", "color": INK}
    for place, own in labels.items():
        text = ",".join(own[:6]) + "…" * (len(own) > 6)
        axes.annotate(text, place, offset, textcoords="offset points", **font)


def say_empty(axes: Axes) -> None:
    """Marks a panel that has a place in the grid, but no runs."""
    axes.set(xticks=[], yticks=[])
    place = {"x": 0.5, "y": 0.5, "ha": "center", "transform": axes.transAxes}
    axes.text(s="no runs", size=SMALL, color=NOTE, **place)


def mode_legend(on: Axes | Figure, *, switches: bool = False, **placement) -> Legend:
    """Adds a legend of the colours of both modes and, if asked, the marks of switches."""
    keys: list[Patch | Line2D] = [
        Patch(color=BLUE, label="exploit (G)"),
        Patch(color=MAGENTA, label="explore (X)"),
    ]
    if switches:
        keys += [
            Line2D([], [], label="switch to explore", **TO_EXPLORE),
            Line2D([], [], label="switch to exploit", **TO_EXPLOIT),
        ]
    return on.legend(
        handles=keys,
        ncols=len(keys),
        handlelength=1.2,
        columnspacing=1.4,
        **placement,
    )

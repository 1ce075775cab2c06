"""The shared look: the paper's colours, and how a figure is made and saved.

Blue exploits, magenta explores. The two differ in lightness too, and explore is always
the taller bar, so that no reader depends on the hue.
"""

from pathlib import Path

import matplotlib
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
GOLD = "#e0a100"

TO_EXPLORE: dict = {"marker": "^", "linestyle": "", "color": MAGENTA, "markersize": 4.5}
TO_EXPLOIT: dict = {"marker": "v", "linestyle": "", "color": BLUE, "markersize": 4.5}

LARGE, MEDIUM, SMALL = 10.0, 8.0, 7.0  # font sizes in points
SUFFIXES = (".png", ".svg")


def new_figure(width: float, height: float, dpi: int = 200) -> Figure:
    """An empty figure, in inches; it belongs to no window and no global state."""
    return Figure(figsize=(width, height), dpi=dpi, facecolor="white")


def save(figure: Figure, path: Path) -> Path:
    """Writes PNG or SVG by the suffix; the same figure gives the same bytes."""
    if path.suffix not in SUFFIXES:
        raise ValueError(f"{path} ends with {path.suffix!r}; allowed: .png, .svg")
    path.parent.mkdir(parents=True, exist_ok=True)
    metadata = {"Date": None} if path.suffix == ".svg" else None
    with matplotlib.rc_context({"svg.hashsalt": "sidequest"}):
        figure.savefig(path, metadata=metadata)
    return path


def tidy(axes: Axes, *, sides: tuple[str, ...] = ("left", "bottom")) -> None:
    """Keeps only the frame's named sides, and small ticks on them."""
    for side, spine in axes.spines.items():
        spine.set_visible(side in sides)
        spine.set_linewidth(0.6)
    axes.tick_params(
        labelsize=SMALL,
        width=0.6,
        length=2.5,
        left="left" in sides,
        bottom="bottom" in sides,
    )


def mode_legend(on: Axes | Figure, *, switches: bool = False, **placement) -> Legend:
    """Says which colour is which mode and, if asked, which mark is which switch."""
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
        fontsize=SMALL,
        frameon=False,
        handlelength=1.2,
        columnspacing=1.4,
        **placement,
    )

"""The shared style: colours, letters and wording, and how a figure is made and saved.

Every variant has one letter, colour and marker, in all figures of all studies (`look`).
Blue exploits, magenta explores. The two differ in lightness too, and explore is always the
taller bar, so that no reader depends on the hue.
"""

import io
import itertools
import re
import textwrap
import tomllib
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import matplotlib
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sidequest.figures.statistics import FEWEST_SEEDS
from sidequest.records import write_synced
from sidequest.wording import plural

BLUE = "#4a86c5"
MAGENTA = "#c2127b"
YELLOW = "#fdf0b5"
INK = "#222222"
GREY = "#8a8a8a"
NOTE = "#666666"
GOLD = "#e0a100"

LARGE, MEDIUM, SMALL = 10.0, 8.0, 7.0  # font sizes in points
WIDTH = 8.0  # inches, of a study's figure; small letters are 11 pixels high at 900 across

SUFFIXES = (".png", ".svg")

Item = TypeVar("Item")

_ASSETS = files("sidequest.figures") / "assets"
_STYLE = str(_ASSETS / "sidequest.mplstyle")
styled = matplotlib.rc_context(fname=_STYLE)
"""Decorates a function that draws: small letters, thin axes, no frame on top and right."""


@cache
def texts(kind: str) -> dict[str, dict[str, str]]:
    """Returns the prose of the figures or of the claims, by name (assets/texts.toml)."""
    content = tomllib.loads((_ASSETS / "texts.toml").read_text("utf-8"))
    return {
        name: {key: " ".join(text.split()) for key, text in entry.items()}
        for name, entry in content[kind].items()
    }


class Look(NamedTuple):
    """Says how a variant looks in every figure; explore modes of one setting look alike."""

    letter: str
    colour: str
    marker: str

    @property
    def line(self) -> dict[str, Any]:
        """Returns colour and marker as matplotlib's `plot` takes them."""
        return {"color": self.colour, "marker": self.marker}


_LOOKS = tomllib.loads((_ASSETS / "looks.toml").read_text("utf-8"))
_LETTERS = "ABCDEFHIJKLMNOPQRSTUVWYZ"


def look(name: str) -> Look:
    """Returns the look of a variant by its name, with or without the explore mode.

    It depends on nothing else, so that it is the same in all studies. Settings that are not
    in assets/looks.toml have two letters, such as `Qd`.
    """
    setting = re.sub(r"^X\w-", "", name)
    if setting in _LOOKS:
        return Look(*_LOOKS[setting])
    number = zlib.crc32(setting.encode())
    second, first = divmod(number % len(_LETTERS) ** 2, len(_LETTERS))
    colour = to_hex(matplotlib.colormaps["tab20b"](number % 20))
    marker = "oshdp"[number // 20 % 5]  # not bound to the colour: together they are 100
    return Look(_LETTERS[first] + _LETTERS[second].lower(), colour, marker)


def keys(names: Iterable[str], **changes: Any) -> list[Line2D]:
    """Returns the legend's entries, by letter: each setting once."""
    settings = {look(name): re.sub(r"^X\w-", "", name) for name in names}
    return [
        Line2D([], [], ms=4, label=plain(f"{one.letter}  {name}"), **one.line | changes)
        for one, name in sorted(settings.items(), key=lambda item: (len(item[0][0]), item))
    ]


def new_figure(width: float, height: float, dpi: int = 200) -> Figure:
    """Returns an empty figure, in inches; it belongs to no window and no global state."""
    return Figure(figsize=(width, height), dpi=dpi, facecolor="white")


def compose(
    name: str, height: float, *, keys: Sequence[Artist] = (), notes: Sequence[str] = ()
) -> Figure:
    """Returns a figure with room for panels; title above, legend and notes below.

    Args:
        name: The name of the figure, whose texts are in assets/texts.toml.
        notes: What there is to say besides the figure's own notes.
    """
    text = texts("figures")[name]
    notes = [note for note in (text.get("notes"), *notes) if note]
    letters = int(WIDTH * 72 / (0.5 * SMALL)) - 4
    fit = partial(textwrap.wrap, width=letters, break_on_hyphens=False)
    lines = [line for note in notes for line in fit(plain(note))]
    longest = max((len(str(key.get_label())) for key in keys), default=1)
    columns = max(1, min(len(keys), int(WIDTH / (0.45 + 0.054 * longest))))
    rows = -(-len(keys) // columns)
    note_height = 0.125 * len(lines) + 0.06 * bool(lines)
    key_height = 0.155 * rows + 0.1 * bool(rows)
    tall = 0.3 + height + key_height + note_height
    figure = new_figure(WIDTH, tall)
    bottom = (key_height + note_height) / tall
    rectangle = (0.006, bottom, 0.988, 1.0 - bottom - 0.3 / tall)
    figure.set_layout_engine("constrained", rect=rectangle)
    place = {"y": 1 - 0.07 / tall, "va": "top", "weight": "bold"}
    figure.text(0.01, s=plain(text["title"]), size=LARGE, color=INK, **place)
    place = {"y": 0.03 / tall, "va": "bottom", "linespacing": 1.25}
    figure.text(0.01, s="\n".join(lines), size=SMALL - 0.5, color=NOTE, **place)
    if keys:
        look: Any = {"borderaxespad": 0.2, "handlelength": 2.2, "columnspacing": 1.5}
        look |= {"loc": "lower center", "bbox_to_anchor": (0.5, note_height / tall)}
        figure.legend(handles=list(keys), ncols=columns, **look)
    return figure


def in_rows(items: Sequence[Item], columns: int) -> list[Sequence[Item]]:
    """Splits items into rows of at most `columns`, as equal as possible."""
    rows = -(-len(items) // columns)
    length = -(-len(items) // max(1, rows))
    return [items[i : i + length] for i in range(0, len(items), length or 1)]


def draw_panels(
    name: str,
    rows: Sequence[Sequence[Item]],
    draw: Callable[[Axes, Item], None],
    height: float,
    *,
    ylabels: Sequence[str] = ("",),
    options: Mapping[str, Any] | None = None,
    **more: Any,
) -> Figure:
    """Returns a figure with a panel for each item of each row, `height` inches each.

    Args:
        draw: Draws an item's panel, with its title.
        ylabels: Stand left of the rows, in turn.
        options: For `Figure.subplots`.
        more: Keys and notes, as `compose` takes them.
    """
    figure = compose(name, height * len(rows), **more)
    columns = max(map(len, rows))
    grid = figure.subplots(len(rows), columns, squeeze=False, **options or {})
    for cells, row, ylabel in zip(grid, rows, itertools.cycle(ylabels), strict=False):
        for axes, item in zip(cells, row, strict=False):
            draw(axes, item)
        for axes in cells[len(row) :]:
            axes.set_visible(False)
        cells[0].set_ylabel(ylabel or cells[0].get_ylabel())
    return figure


def plain(text: str) -> str:
    """Returns text that is shown as it is: a dollar sign starts no formula."""
    return text.replace("$", r"\$")


def fit(text: str, letters: float) -> str:
    """Returns a panel's title in lines of at most this many letters: broken after the suite
    of a game, then after an underscore, and anywhere if that is not enough."""
    lines = []
    for line in text.splitlines():
        suite, colon, rest = line.partition(":")
        for part in (line,) if len(line) <= letters else (suite + colon, rest):
            if len(part) > letters:
                part = part.replace("_", "_ ")
            own = textwrap.wrap(part, max(1, int(letters)))
            lines += [one.replace("_ ", "_") for one in own]
    return plain("\n".join(lines))


def frame_unit(frames: float) -> tuple[float, str]:
    """Returns what to divide an axis of frames by, and the name of that unit."""
    if frames >= 2e9:
        return 1e9, "billion frames"
    return (1e6, "million frames") if frames >= 2e6 else (1e3, "thousand frames")


def save(figure: Figure, path: Path) -> Path:
    """Writes PNG or SVG by the suffix; the same figure gives the same bytes."""
    if path.suffix not in SUFFIXES:
        raise ValueError(f"{path} ends with {path.suffix!r}; allowed: .png, .svg")
    path.parent.mkdir(parents=True, exist_ok=True)
    metadata = {"Date": None} if path.suffix == ".svg" else None
    content = io.BytesIO()
    with matplotlib.rc_context(fname=_STYLE):  # ticks are made as late as this
        figure.savefig(content, format=path.suffix[1:], metadata=metadata)
    write_synced(path, content.getvalue())
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


def show_zero(axes: Axes, axis: Literal["x", "y"] = "y") -> None:
    """Lets an axis begin at 0 or below; nothing but zeros is not magnified."""
    siblings = getattr(axes, f"get_shared_{axis}_axes")().get_siblings(axes)
    drawn = np.array([getattr(one.dataLim, f"interval{axis}") for one in siblings])
    drawn = drawn[np.isfinite(drawn)]
    low, high = drawn.min(initial=0.0), drawn.max(initial=0.0)
    span = (high - low) or 1.0
    axes.set(**{f"{axis}lim": (low - 0.04 * span, low + 1.06 * span)})


def draw_seeds(
    axes: Axes,
    place: float,
    scores: Sequence[float],
    name: str,
    *,
    middle: float | None = None,
    across: bool = False,
    hollow: bool = False,
) -> None:
    """Draws the mean of a variant's seeds, with a bar from the worst to the best.

    Too few seeds for a bar are dots instead.

    Args:
        middle: What to draw instead of the mean.
        across: Whether values lie on the x-axis.
        hollow: Whether the mean's marker is: the agent did not learn.
    """
    _, colour, marker = look(name)

    def draw(values: Sequence[float], kind: str, **options: Any) -> None:
        at = (values, [place] * len(values))
        axes.plot(*(at if across else at[::-1]), kind, color=colour, **options)

    if len(scores) >= FEWEST_SEEDS:
        draw([min(scores), max(scores)], "-", lw=2.2, alpha=0.55, solid_capstyle="butt")
    elif len(scores) > 1:
        draw(scores, "o", ms=2, mew=0)
    mean = sum(scores) / len(scores) if middle is None else middle
    draw([mean], marker, ms=4.5, mfc="white" if hollow else colour)


def write_letters(
    axes: Axes,
    points: Sequence[tuple[str, str, float, float]],
    size: float,
    others: Any = (),
) -> None:
    """Writes letters beside points (letter, colour, x, y), clear of letters and points.

    One that has to stand further off is joined to its point by a thin line. The layout and
    the limits of the axes must be final.

    Args:
        others: More points (x, y) to stay clear of.
    """
    scale = axes.figure.dpi / 72  # pixels of a point
    step = 1.15 * size * scale
    places = [(x, y) for _, _, x, y in points]
    taken = list(axes.transData.transform([*places, *others]))
    turns = np.exp(2j * np.pi * (np.arange(12) + 1.5) / 12)
    around = np.concatenate([far * step * turns for far in (0.9, 1.6, 2.4, 3.2, 4.0)])
    room = axes.bbox.padded(-step / 3)
    font: Any = {"size": size, "weight": "bold", "ha": "center", "va": "center"}
    line = {"arrowstyle": "-", "lw": 0.4, "color": GREY, "shrinkA": 0, "shrinkB": 2}
    for letter, colour, x, y in points:
        point = axes.transData.transform((x, y))
        spots = point + np.stack([around.real, around.imag], axis=-1)
        spots = [spot for spot in spots if room.contains(*spot)] or [point]
        clear = [np.hypot(*np.subtract(taken, spot).T).min() for spot in spots]
        free = [i for i, distance in enumerate(clear) if distance >= 0.85 * step]
        best = spots[free[0] if free else int(np.argmax(clear))]
        taken.append(best)
        off = (best - point) / scale
        joined = line if np.hypot(*off) * scale > 1.2 * step else None
        place = {"xytext": tuple(off), "textcoords": "offset points", "arrowprops": joined}
        text = axes.annotate(letter, (x, y), color=colour, **place, **font)
        text.set_in_layout(False)


def say_empty(axes: Axes) -> None:
    """Marks a panel that has a place in the grid, but no runs."""
    axes.xaxis.set_visible(False)
    axes.yaxis.set_visible(False)
    place = {"x": 0.5, "y": 0.5, "ha": "center", "transform": axes.transAxes}
    axes.text(s="no runs", size=SMALL, color=NOTE, **place)


# Wording


def some(names: Sequence[str], most: int = 3) -> str:
    """Returns `a, b, c and 4 more`, or all if there are no more."""
    rest = len(names) - most
    return listed([*names[:most], *([f"{rest} more"] if rest > 0 else [])])


def at_most(names: Sequence[str], most: int) -> tuple[Sequence[str], list[str]]:
    """Returns the names that fit into a figure, and a note that says which do not."""
    rest = names[most:]
    return names[:most], [f"Not drawn: {some(rest, 8)}."] if rest else []


def equal_first(ranked: Sequence[tuple[str, str]]) -> list[str]:
    """Returns the first of ranked names, with those that have the same number as text."""
    return [name for name, number in ranked if number == ranked[0][1]]


def listed(names: Iterable[str]) -> str:
    """Returns `a`, `a and b`, or `a, b and c`."""
    names = list(names)
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def listed_games(games: Iterable[str]) -> str:
    """Returns the games, each once; of more than six their number."""
    games = dict.fromkeys(games)
    return listed(games) if len(games) <= 6 else plural(len(games), "game")

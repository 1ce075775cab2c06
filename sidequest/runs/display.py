"""What a person sees while runs go: a panel that moves, or lines for a log."""

import math
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from sidequest.runs.spec import Favourite, Progress

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

LINE_EVERY = 10.0  # seconds between two lines of a log
REDRAWN = 4  # times a second; each takes the interpreter 0.3 ms from the thread that plays
BAR_WIDTH = 20


class Panel:
    """A few lines at the foot of the terminal, redrawn in place, on standard error."""

    def __init__(self, console: "Console | None" = None):
        from rich.console import Console
        from rich.live import Live

        self._console = console or Console(stderr=True)
        self._shown: Progress | Count | None = None
        self._live = Live(
            console=self._console, get_renderable=self._draw, refresh_per_second=REDRAWN
        )

    def __enter__(self) -> "Panel":
        self._live.start()
        return self

    def __exit__(self, *_) -> None:
        self._live.stop()

    def say(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def count(self, text: str, done: int, of: int) -> None:
        self._shown = Count(text, done, of) if done < of else None
        if done >= of:
            self._live.refresh()  # or the line would be seen beside the bar
            self.say(text)

    def show(self, progress: Progress) -> None:
        self._shown = progress

    def _draw(self) -> "RenderableType":
        from rich.console import Group

        match self._shown:
            case None:
                return Group()
            case Count(text, done, of):
                return draw_bar(done, of, text)
            case Progress():
                return draw(self._shown)


class Count(NamedTuple):
    """Something that must be done before a run can begin."""

    text: str
    done: int
    of: int


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

    def count(self, text: str, done: int, of: int) -> None:
        if done:
            self.say(text)

    def show(self, progress: Progress) -> None:
        done = progress.frames >= progress.total
        if done or time.monotonic() - self._said >= LINE_EVERY:
            self._said = time.monotonic()
            left = time_left(progress)
            self.say("  ".join([f"{share(progress):4.0%}", numbers(progress), *left]))


def draw(progress: Progress) -> "RenderableType":
    """The panel: a bar, and a line for each thing that is known. At most six lines."""
    from rich.console import Group
    from rich.text import Text

    runs = len(progress.returns)
    frames = f"{short(progress.frames)} of {short(progress.total)} frames"
    head = [frames] if runs == 1 else [f"{runs} runs", f"{frames} each"]
    text = f"{share(progress):4.0%}  {', '.join([*head, *time_left(progress)])}"
    lines = (f"{name:8} {', '.join(said)}" for name, said in rows(progress).items() if said)
    return Group(
        draw_bar(min(progress.frames, progress.total), progress.total, text),
        *(Text(line, no_wrap=True, overflow="ellipsis") for line in lines),
    )


def draw_bar(done: int, of: int, text: str) -> "RenderableType":
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    line = Table.grid(padding=(0, 1))
    line.add_column(width=BAR_WIDTH)
    line.add_column(no_wrap=True, overflow="ellipsis")
    bar = ProgressBar(total=max(1, of), completed=done, width=BAR_WIDTH)
    line.add_row(bar, Text(text))
    return line


def rows(progress: Progress) -> dict[str, list[str]]:
    """What the panel says below its bar, line by line."""
    return {
        "speed": [
            *known(progress.rate, lambda rate: f"{short(rate)} frames/s"),
            *known(progress.mean_rate, lambda rate: f"mean {short(rate)}"),
            *known(progress.update_rate, lambda rate: f"{figure(rate)} updates/s"),
        ],
        "learned": [
            f"{short(progress.updates)} updates",
            *known(progress.replay_fill, lambda fill: f"replay {fill:.0%} full"),
        ],
        "returns": [
            *spread("training", progress.returns),
            *spread("greedy", progress.evaluations),
            *spread("human-normalised", progress.human, "{:.1%}".format),
        ],
        "explore": [
            *spread("p_X", progress.p_X),
            *rates(progress, "switching rate", "for a target of"),
        ],
        "bandits": [favourite(one, " at ") for one in progress.favourites],
    }


def numbers(progress: Progress) -> str:
    """The newest numbers of all runs, in one line."""
    mean = known(progress.mean_rate, lambda rate: f"mean {short(rate)}")
    updating = known(progress.update_rate, lambda rate: f"{figure(rate)}/s")
    human = spread("human-normalised", progress.human, "{:.1%}".format)
    parts = [
        f"{short(progress.frames)} frames",
        *beside(known(progress.rate, lambda rate: f"{short(rate)}/s"), mean),
        *beside([f"{short(progress.updates)} updates"], updating),
        *known(progress.replay_fill, lambda fill: f"replay {fill:.0%}"),
        *spread("return", progress.returns),
        *beside(spread("greedy", progress.evaluations), human),
        *spread("p_X", progress.p_X),
        *rates(progress, "rate", "for"),
        *(favourite(one, ": ") for one in progress.favourites),
    ]
    return "  ".join(parts)


def share(progress: Progress) -> float:
    return min(1.0, progress.frames / progress.total)


def time_left(progress: Progress) -> list[str]:
    if progress.frames >= progress.total:
        return []
    return known(progress.seconds_left, lambda left: f"{duration(left)} left")


def rates(progress: Progress, name: str, target: str) -> list[str]:
    """Realised against target; nothing for a variant that has no target."""
    asked = spread(target, progress.target)
    return [f"{said} {asked[0]}" for said in spread(name, progress.realised) if asked]


def favourite(one: Favourite, at: str) -> str:
    """`start` chooses the mode of whole episodes: 0 exploits, 1 explores."""
    arm = "GX"[int(one.arm)] if one.bandit == "start" else f"{one.arm:g}"
    return f"{one.bandit} {arm}{at}{one.probability:.0%}"


def beside(said: list[str], more: list[str]) -> list[str]:
    """One thing with another in brackets, if both are known."""
    return [f"{one} ({', '.join(more)})" if more else one for one in said]


def known(value: float, say: Callable[[float], str]) -> list[str]:
    """Nothing if the value is not known."""
    return [] if math.isnan(value) else [say(value)]


def spread(
    name: str, values: Sequence[float], form: Callable[[float], str] | None = None
) -> list[str]:
    """A name and one number, or least to greatest of several; nothing if none is known."""
    form = form or figure
    found = [value for value in values if not math.isnan(value)]
    if not found:
        return []
    low, high = form(min(found)), form(max(found))
    return [f"{name} {low}" if low == high else f"{name} {low}…{high}"]


def figure(number: float) -> str:
    """Three digits, or all that are before the point: 0.0123, 12.3, 12,345."""
    return f"{number:,.0f}" if abs(number) >= 999.5 else f"{number:.3g}"


def short(number: float) -> str:
    """12345 -> 12.3k."""
    for size, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.0f}"


def duration(seconds: float) -> str:
    """75 -> `1 min 15 s`, 90000 -> `1 d 1 h`."""
    if math.isnan(seconds):
        return "?"
    seconds = max(0, round(seconds))
    units = (("y", 31_536_000), ("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
    parts = []
    for unit, size in units:
        count, seconds = divmod(seconds, size)
        if count or (parts and len(parts) < 2):
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2]).removesuffix(" 0 s") or "0 s"

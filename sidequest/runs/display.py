"""What people see while runs train: a table that moves, or lines for a log.

    training loop ──rows──▶ ProgressMeter ──Progress──▶ Panel or Log           (train)
                                                └─────▶ GroupDisplay of a
                                                        StudyDisplay           (study)

Nothing here needs JAX.
"""

import contextlib
import math
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from sidequest.wording import duration, plural, rounded, short

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_LINE_EVERY = 10.0  # seconds between two lines of a log
_REDRAWN = 4  # times a second; each takes the interpreter 0.3 ms from the thread that plays
_BAR_WIDTH = 20
_EPISODES = 100  # of each run: those that the means are taken over
_MEMORY = 30.0  # seconds: what was s seconds ago counts exp(-s / memory) in rates
_LAYOUT = "{:<35} {:>4} {:>6} {:>7} {:>7} {:>6} {:>7}"
_HEADINGS = ("variant", "seed", "frames", "return", "greedy", "p_X", "rate")


class RunProgress(NamedTuple):
    """Says how one run is going. What is not known is NaN."""

    variant: str
    seed: int
    frames: int
    episode_return: float
    """Mean return of its newest training episodes."""
    greedy_return: float
    """Its newest evaluation."""
    p_X: float
    """Mean share of explore steps in these training episodes."""
    rate: float
    """Switches to exploring for each exploit step of all of them."""

    @property
    def numbers(self) -> tuple[float, ...]:
        """Returns what the last columns of the table show."""
        return self.episode_return, self.greedy_return, self.p_X, self.rate


class Progress(NamedTuple):
    """Holds what a display may show after a chunk. What is not known is NaN."""

    runs: Sequence[RunProgress]
    frames: int
    """Frames of each run so far."""
    total: int
    frame_rate: float
    """Frames per second, of all runs together."""
    update_rate: float = math.nan
    """Updates per second, of all runs together."""
    replay_fill: float = math.nan
    """Observations in replay, as a share of its capacity."""


@runtime_checkable
class Display(Protocol):
    """Shows people how training is going."""

    def say(self, text: str) -> None:
        """Shows one line."""
        ...

    def count(self, text: str, done: int, of: int) -> None:
        """Shows how far something is that takes a while."""
        ...

    def show(self, progress: Progress) -> None:
        """Shows the newest progress."""
        ...


class ProgressMeter:
    """Turns the rows that runs of one population write into what a display shows."""

    def __init__(self, runs: Sequence[tuple[str, int]], total: int):
        self.evaluations = [math.nan] * len(runs)
        """Mean return of each run's newest greedy episodes."""
        self._runs, self._total = runs, total
        self._episodes: list[deque[Mapping[str, Any]]] = [
            deque(maxlen=_EPISODES) for _ in runs
        ]
        self._updates: int | None = None
        self._recent = np.zeros(3)  # frames, updates and seconds

    def update(
        self,
        rows: Sequence[Mapping[str, Iterable[Mapping[str, Any]]]],
        *,
        frames: int,
        new_frames: int,
        seconds: float,
        updates: int,
        replay_fill: float,
    ) -> Progress:
        """Returns the progress after a chunk that took `seconds` and gave each run these
        rows, by table. `new_frames` are of this chunk, `frames` and `updates` so far."""
        for run, own in enumerate(rows):
            self._episodes[run].extend(own.get("episodes", ()))
            if returns := [row["return"] for row in own.get("evaluations", ())]:
                self.evaluations[run] = float(np.mean(returns))
        seconds = max(seconds, 1e-9)
        is_first, before = self._updates is None, self._updates or 0
        new = np.array([new_frames, updates - before, seconds])
        self._updates = updates
        # The first chunk may have compiled: it counts only while there is no other.
        if not is_first:
            self._recent = new = self._recent * math.exp(-seconds / _MEMORY) + new
        frame_rate, update_rate, _ = new / new[2] * len(rows)
        runs = [
            RunProgress(
                variant,
                seed,
                frames,
                episode_return=_mean(episodes, "return"),
                greedy_return=greedy_return,
                p_X=_mean(episodes, "p_X"),
                rate=_switching_rate(episodes),
            )
            for (variant, seed), episodes, greedy_return in zip(
                self._runs, self._episodes, self.evaluations, strict=True
            )
        ]
        rates = frame_rate, math.nan if is_first else update_rate
        return Progress(runs, frames, self._total, *rates, replay_fill)


def _mean(rows: Iterable[Mapping[str, Any]], column: str) -> float:
    """Returns the mean of what is known of a column."""
    known = [float(row[column]) for row in rows if not math.isnan(row[column])]
    return sum(known) / len(known) if known else math.nan


def _switching_rate(rows: Iterable[Mapping[str, Any]]) -> float:
    """Returns the rate over all exploit steps: in a mean over episodes, a short one that a
    switch ended counts as much as a long one."""
    played = [row for row in rows if not math.isnan(row["realised_rate"])]
    steps = [row["length"] * (1 - row["p_X"]) for row in played]
    switches = [row["realised_rate"] * own for row, own in zip(played, steps, strict=True)]
    return sum(switches) / sum(steps) if any(steps) else math.nan


class Log:
    """The lines of `train` on standard error, for files and people who like it quiet."""

    def __init__(self, runs: int = 1):
        self.rows: dict[tuple[str, int], RunProgress] = {}
        """Newest progress of every run that has begun."""
        self._expected = runs
        self._said = -math.inf

    def __enter__(self) -> "Log":
        return self

    def __exit__(self, *_) -> None:
        pass

    def say(self, text: str) -> None:
        with contextlib.suppress(OSError):  # training continues without a reader
            print(text, file=sys.stderr, flush=True)

    def count(self, text: str, done: int, of: int) -> None:
        if done:
            self.log(text, is_progress=done < of)

    def show(self, progress: Progress) -> None:
        # A new dictionary: the thread that draws may be reading the one before.
        self.rows = self.rows | {(run.variant, run.seed): run for run in progress.runs}
        self.log(
            f"{_share(progress):4.0%}  {_in_one_line(progress)}{self._time_left(progress)}",
            is_progress=progress.frames < progress.total,
        )

    def log(self, text: str, is_progress: bool = False) -> None:
        """Prints a line; one of progress only if the last is some time ago."""
        if is_progress and time.monotonic() - self._said < _LINE_EVERY:
            return
        if is_progress:
            self._said = time.monotonic()
        self.say(text)

    def _time_left(self, progress: Progress) -> str:
        """Returns how long these runs and those that have not begun will take, once that
        is known: not before the second chunk, as the first has compiled."""
        later = max(0, self._expected - len(self.rows)) * progress.total
        left = max(0, progress.total - progress.frames) * len(progress.runs) + later
        if not left or math.isnan(progress.update_rate):
            return ""
        return f", {duration(left / max(progress.frame_rate, 1e-9))} left"

    def ranked(self) -> list[RunProgress]:
        """Returns the runs that have begun, by greedy return, then by training return."""

        def rank(run: RunProgress) -> tuple:
            scores = (run.greedy_return, run.episode_return)
            best = [math.inf if math.isnan(score) else -score for score in scores]
            return (*best, run.variant, run.seed)

        return sorted(self.rows.values(), key=rank)

    def table(self) -> list[str]:
        """Returns headings, then a line for each run, the best first."""
        width = max((len(variant) for variant, _ in self.rows), default=0)
        lines = [_LAYOUT.format("variant".ljust(width), *_HEADINGS[1:])]
        for run in self.ranked():
            shown = ["" if math.isnan(x) else rounded(x, 3) for x in run.numbers]
            name = run.variant.ljust(width)
            lines.append(_LAYOUT.format(name, run.seed, short(run.frames), *shown).rstrip())
        return lines


class Panel(Log):
    """The moving display of `train`, at the foot of the terminal, on standard error."""

    def __init__(self, console: "Console | None" = None, runs: int = 1):
        from rich.console import Console, Group
        from rich.live import Live

        super().__init__(runs)
        self._console = console or Console(stderr=True)
        self.draw: Callable[[], RenderableType] = Group  # nothing at first
        show = {"get_renderable": lambda: self.draw(), "refresh_per_second": _REDRAWN}
        self._live = Live(console=self._console, transient=True, **show)

    def __enter__(self) -> "Panel":
        self._live.start()
        return self

    def __exit__(self, *_) -> None:
        with contextlib.suppress(OSError):  # the terminal is gone
            self._live.stop()

    def say(self, text: str) -> None:
        with contextlib.suppress(OSError):
            self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def count(self, text: str, done: int, of: int) -> None:
        from rich.console import Group

        self.draw = partial(_draw_bar, done, of, text) if done < of else Group
        if done >= of:
            with contextlib.suppress(OSError):
                self._live.refresh()  # or the line would be seen beside the bar
            self.say(text)

    def show(self, progress: Progress) -> None:
        super().show(progress)
        self.draw = partial(self._draw, progress)

    def log(self, text: str, is_progress: bool = False) -> None:
        """Ignores what only a log needs: the panel shows it already."""

    def _draw(self, progress: Progress) -> "RenderableType":
        """Draws a bar with speed and time left, and the table."""
        from rich.console import Group
        from rich.text import Text

        text = f"{_share(progress):4.0%}  {_speed(progress)}{self._time_left(progress)}"
        lines = [Text(line, no_wrap=True, overflow="ellipsis") for line in self.table()]
        lines[0].stylize("bold")
        lines[1].stylize("green")  # the run that is ahead
        return Group(_draw_bar(progress.frames, progress.total, text), *lines)


class StudyDisplay:
    """The display of `study`: frames and runs of all groups, and the time left."""

    def __init__(self, display: Log, runs: int, finished: int, frames: int, done: int):
        self.display, self.say = display, display.say
        self._runs, self._finished = runs, finished
        self._frames, self._finished_frames = frames, done
        self._groups: list[GroupDisplay] = []
        self._today = 0  # frames of this start, of groups that have ended
        self._began = time.monotonic()
        if isinstance(display, Panel):
            display.draw = self._draw

    def begin(self, label: str, game: str, runs: int, frames: int) -> "GroupDisplay":
        """Starts the display of a group of runs that have `frames` frames together."""
        self.display.log(f"== {label}")
        self._groups.append(GroupDisplay(self, label, game, runs, frames))
        return self._groups[-1]

    def end(self, group: "GroupDisplay", kind: str, reason: str) -> None:
        """Counts a group that has ended; only finished runs count as done."""
        self._groups.remove(group)
        self._today += group.new
        if kind == "done":
            self._finished_frames += group.frames
            self._finished += group.runs
        self.say(f"{group.label}: {'done' if kind == 'done' else f'{kind}: {reason}'}")
        self.display.log(str(self))

    @property
    def _done(self) -> int:
        return self._finished_frames + sum(group.done for group in self._groups)

    def __str__(self) -> str:
        share = self._done / self._frames if self._frames else 1.0
        text = (
            f"{share:4.0%} of {short(self._frames)} frames, "
            f"{self._finished} of {plural(self._runs, 'run')} done"
        )
        today = self._today + sum(group.new for group in self._groups)
        if not today or self._done >= self._frames:
            return text
        seconds = (time.monotonic() - self._began) * (self._frames - self._done) / today
        return f"{text}, about {duration(seconds)} left"

    def _draw(self) -> "RenderableType":
        """Draws a bar over all runs, and one for each group."""
        from rich.console import Group

        bars = [(group.done, group.frames, group.text) for group in list(self._groups)]
        bars.insert(0, (self._done, self._frames, str(self)))
        return Group(*(_draw_bar(*bar) for bar in bars))


class GroupDisplay:
    """The display of runs that train together: one group of a study."""

    def __init__(self, study: StudyDisplay, label: str, game: str, runs: int, frames: int):
        self.label, self.game, self.runs, self.frames = label, game, runs, frames
        self.text = label
        # Of each run, by variant and seed: some may be further than others.
        self._first_seen: dict[tuple[str, int], int] = {}
        self._frames_done: dict[tuple[str, int], int] = {}
        self._study = study

    @property
    def done(self) -> int:
        """Frames of all its runs so far."""
        return sum(self._frames_done.values())

    @property
    def new(self) -> int:
        """Frames of this start."""
        return self.done - sum(self._first_seen.values())

    def say(self, text: str) -> None:
        self.text = f"{self.game}: {text}"
        self._study.display.log(f"   {text}")

    def count(self, text: str, done: int, of: int) -> None:
        self.say(text)

    def show(self, progress: Progress) -> None:
        frames = min(progress.frames, progress.total)
        for run in progress.runs:
            self._first_seen.setdefault((run.variant, run.seed), frames)
            self._frames_done[run.variant, run.seed] = frames
        self.text = f"{self.game}: {_in_one_line(progress)}"
        self._study.display.log(f"{self._study} | {self.text}", is_progress=True)

    def end(self, kind: str, reason: str = "") -> None:
        """Shows how it ended: `done`, or something else and why."""
        self._study.end(self, kind, reason)


def make_display(quiet: bool = False, runs: int = 1) -> Log:
    """Returns a display that moves if people watch standard error, else a log."""
    moving = sys.stderr.isatty() and not quiet
    return Panel(runs=runs) if moving else Log(runs)


def _draw_bar(done: int, of: int, text: str) -> "RenderableType":
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    line = Table.grid(padding=(0, 1))
    line.add_column(width=_BAR_WIDTH)
    line.add_column(no_wrap=True, overflow="ellipsis")
    bar = ProgressBar(total=max(1, of), completed=min(done, of), width=_BAR_WIDTH)
    line.add_row(bar, Text(text))
    return line


def _in_one_line(progress: Progress) -> str:
    """Returns the newest numbers of all runs, with ranges where there are several."""
    head = f"{short(progress.frames)} frames  {_speed(progress)}"
    if progress.replay_fill < 1:
        head += f", replay {progress.replay_fill:.0%} full"
    ranges = []
    columns = zip(*(run.numbers for run in progress.runs), strict=True)
    for name, values in zip(_HEADINGS[3:], columns, strict=True):
        if known := [value for value in values if not math.isnan(value)]:
            low, high = rounded(min(known), 3), rounded(max(known), 3)
            ranges.append(f"{name} {low}" if low == high else f"{name} {low}…{high}")
    return "  ".join([head, ", ".join(ranges)]).rstrip()


def _speed(progress: Progress) -> str:
    text = f"{short(progress.frame_rate)} frames/s"
    if math.isnan(progress.update_rate):
        return text
    return f"{text}, {rounded(progress.update_rate, 3)} updates/s"


def _share(progress: Progress) -> float:
    return min(1.0, progress.frames / progress.total)

"""What people see while runs train: a panel that moves, or lines for a log.

    training loop ──rows──▶ ProgressMeter ──Progress──▶ Panel or Log            (train)
                                                └─────▶ GroupDisplay of a
                                                        StudyPanel or StudyLog  (study)

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

from sidequest.environments.scores import SCORES, human_normalised

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_LINE_EVERY = 10.0  # seconds between two lines of a log
_REDRAWN = 4  # times a second; each takes the interpreter 0.3 ms from the thread that plays
_BAR_WIDTH = 20
_EPISODES = 100  # of each run: those that the means are taken over
_RECENT, _AHEAD = 2.0, 60.0  # seconds: memory of the rates shown, and of the time left


class Progress(NamedTuple):
    """What a display may show after a chunk. What is not known is NaN, or left out."""

    frames: int
    """Frames of each run so far."""
    total: int
    rate: float
    """Recent frames per second, of all runs together."""
    updates: int
    """Updates of each run so far."""
    returns: list[float]
    """Each run's mean return of its newest training episodes."""
    evaluations: list[float]
    """Each run's newest evaluation."""
    p_X: list[float]
    """Each run's mean share of explore steps, in the episodes of `returns`."""
    mean_rate: float = math.nan
    """Frames per second since the start, without the first chunk, which compiles."""
    update_rate: float = math.nan
    """Recent updates per second, of all runs together."""
    replay_fill: float = math.nan
    """Observations in replay, as a share of its capacity."""
    human: Sequence[float] = ()
    """Human-normalised scores of the evaluations."""
    realised: Sequence[float] = ()
    """Each run's mean switching rate, in its newest episodes that had a target."""
    target: Sequence[float] = ()
    """The means of these targets."""
    arms: Sequence[tuple[str, float, float]] = ()
    """Bandits with their likeliest arm and its probability, if there is one run."""
    seconds_left: float = math.nan


@runtime_checkable
class Display(Protocol):
    """Where training shows people how it is going."""

    def say(self, text: str) -> None:
        """Shows one line."""
        ...

    def count(self, text: str, done: int, of: int) -> None:
        """Shows how far something is that must be done before training can begin."""
        ...

    def show(self, progress: Progress) -> None:
        """Shows the newest progress."""
        ...


class ProgressMeter:
    """Turns the rows that runs of one population write into what a display shows."""

    def __init__(self, game: str, runs: int, total: int):
        self.evaluations = [math.nan] * runs
        """Mean return of each run's newest greedy episodes."""
        self._game, self._total = game, total
        self._episodes: list[deque[Mapping[str, Any]]] = [
            deque(maxlen=_EPISODES) for _ in range(runs)
        ]
        self._updates: int | None = None
        # Frames, updates and seconds. What was s seconds ago counts exp(-s / memory).
        self._sums = {memory: np.zeros(3) for memory in (_RECENT, _AHEAD, math.inf)}

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
        """Returns the progress after a chunk that took `seconds`.

        Args:
            rows: New rows of each run, by table.
            new_frames: Frames of each run in this chunk; `frames` and `updates` are so far.
        """
        for run, own in enumerate(rows):
            self._episodes[run].extend(own.get("episodes", ()))
            returns = [row["return"] for row in own.get("evaluations", ())]
            if returns:
                self.evaluations[run] = float(np.mean(returns))
        rates = self._rates(new_frames, updates, max(seconds, 1e-9)) * len(rows)
        rate, update_rate, mean_rate, rate_ahead = rates
        scored = self.evaluations if self._game in SCORES else []
        with_target = [
            [
                row
                for row in rows
                if not math.isnan(row["realised_rate"] + row["target_rate"])
            ]
            for rows in self._episodes
        ]
        return Progress(
            frames=frames,
            total=self._total,
            rate=rate,
            updates=updates,
            returns=_means(self._episodes, "return"),
            evaluations=list(self.evaluations),
            p_X=_means(self._episodes, "p_X"),
            mean_rate=mean_rate,
            update_rate=update_rate,
            replay_fill=replay_fill,
            human=[human_normalised(self._game, score) for score in scored],
            realised=_means(with_target, "realised_rate"),
            target=_means(with_target, "target_rate"),
            arms=_likeliest(rows[0].get("bandits", ())) if len(rows) == 1 else (),
            seconds_left=max(0, self._total - frames) * len(rows) / rate_ahead,
        )

    def _rates(self, frames: int, updates: int, seconds: float) -> np.ndarray:
        """Returns, per second and run: recent frames, recent updates, frames on average,
        and frames to expect. The first chunk may have compiled: it counts only as long as
        there is no other."""
        if self._updates is None:
            self._updates = updates
            return np.array([frames / seconds, math.nan, math.nan, math.nan])
        new = np.array([frames, updates - self._updates, seconds])
        self._updates = updates
        for memory, sums in self._sums.items():
            self._sums[memory] = sums * math.exp(-seconds / memory) + new
        recent, ahead, all_chunks = (sums / sums[2] for sums in self._sums.values())
        return np.array([recent[0], recent[1], all_chunks[0], ahead[0]])


def _means(runs: Iterable[Iterable[Mapping[str, Any]]], column: str) -> list[float]:
    """Returns the mean of a column for each run; NaN without rows."""
    columns = ([float(row[column]) for row in rows] for rows in runs)
    return [sum(values) / len(values) if values else math.nan for values in columns]


def _likeliest(rows: Iterable[Mapping[str, Any]]) -> list[tuple[str, float, float]]:
    """Returns the likeliest arm of each bandit; the first among equals."""
    best: dict[str, tuple[str, float, float]] = {}
    for row in rows:
        bandit, arm, probability = row["bandit"], row["arm"], float(row["probability"])
        if bandit not in best or probability > best[bandit][-1]:
            best[bandit] = bandit, float(arm), probability
    return list(best.values())


class Panel:
    """The moving display of `train`, at the foot of the terminal, on standard error."""

    def __init__(self, console: "Console | None" = None):
        from rich.console import Console, Group
        from rich.live import Live

        self._console = console or Console(stderr=True)
        self.draw: Callable[[], RenderableType] = Group  # nothing at first
        show = {"get_renderable": lambda: self.draw(), "refresh_per_second": _REDRAWN}
        self._live = Live(console=self._console, **show)

    def __enter__(self) -> "Panel":
        self._live.start()
        return self

    def __exit__(self, *_) -> None:
        self._live.stop()

    def say(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def count(self, text: str, done: int, of: int) -> None:
        from rich.console import Group

        self.draw = partial(_draw_bar, done, of, text) if done < of else Group
        if done >= of:
            self._live.refresh()  # or the line would be seen beside the bar
            self.say(text)

    def show(self, progress: Progress) -> None:
        self.draw = partial(_draw_progress, progress)

    def log(self, text: str, is_progress: bool = False) -> None:
        """Ignores what only a log needs: the panel shows it already."""


class Log:
    """The lines of `train` on standard error, for files and people who like it quiet."""

    def __init__(self):
        self._said = -math.inf

    def __enter__(self) -> "Log":
        return self

    def __exit__(self, *_) -> None:
        pass

    def say(self, text: str) -> None:
        with contextlib.suppress(BrokenPipeError):  # training continues without a reader
            print(text, file=sys.stderr, flush=True)

    def count(self, text: str, done: int, of: int) -> None:
        if done:
            self.say(text)

    def show(self, progress: Progress) -> None:
        left = _time_left(progress)
        text = "  ".join([f"{_share(progress):4.0%}", _numbers(progress), *left])
        self.log(text, is_progress=progress.frames < progress.total)

    def log(self, text: str, is_progress: bool = False) -> None:
        """Prints a line; one of progress only if the last is some time ago."""
        if not is_progress:
            self.say(text)
        elif time.monotonic() - self._said >= _LINE_EVERY:
            self._said = time.monotonic()
            self.say(text)


class StudyDisplay:
    """The display of `study`: frames and runs of all groups, and the time left."""

    def __init__(
        self,
        display: Panel | Log,
        runs: int,
        finished: int,
        frames: int,
        finished_frames: int,
    ):
        self.display, self.say = display, display.say
        self._runs, self._finished = runs, finished
        self._frames, self._finished_frames = frames, finished_frames
        self._groups: list[GroupDisplay] = []
        self._today = 0  # frames of this start, of groups that have ended
        self._began = time.monotonic()
        if isinstance(display, Panel):
            display.draw = self._draw

    def __enter__(self) -> "StudyDisplay":
        self.display.__enter__()
        return self

    def __exit__(self, *error) -> None:
        self.display.__exit__(*error)

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
            f"{self._finished} of {self._runs} runs done"
        )
        today = self._today + sum(group.new for group in self._groups)
        if not today:
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
        self.done = 0
        """Frames of all its runs so far."""
        self._resumed_at: int | None = None  # frames of an earlier start, if known
        self._study = study

    @property
    def new(self) -> int:
        """Frames of this start."""
        return self.done - (self._resumed_at or 0)

    def say(self, text: str) -> None:
        self.text = f"{self.game}: {text}"
        self._study.display.log(f"   {text}")

    def count(self, text: str, done: int, of: int) -> None:
        self.say(text)

    def show(self, progress: Progress) -> None:
        self.done = min(progress.frames, progress.total) * self.runs
        if self._resumed_at is None:
            self._resumed_at = self.done
        self.text = f"{self.game}: {_numbers(progress)}"
        self._study.display.log(f"{self._study} | {self.text}", is_progress=True)

    def end(self, kind: str, reason: str = "") -> None:
        """Shows how it ended: `done`, or something else and why."""
        self._study.end(self, kind, reason)


def _draw_progress(progress: Progress) -> "RenderableType":
    """Draws a bar, and a line for each kind of number that is known."""
    from rich.console import Group
    from rich.text import Text

    runs = len(progress.returns)
    frames = f"{short(progress.frames)} of {short(progress.total)} frames"
    head = [frames] if runs == 1 else [f"{runs} runs", f"{frames} each"]
    text = f"{_share(progress):4.0%}  {', '.join([*head, *_time_left(progress)])}"
    lines = (f"{name:8} {texts}" for name, texts in _known_numbers(progress).items())
    return Group(
        _draw_bar(progress.frames, progress.total, text),
        *(Text(line, no_wrap=True, overflow="ellipsis") for line in lines),
    )


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


def _numbers(progress: Progress) -> str:
    """Returns the newest numbers of all runs in one line."""
    known = _known_numbers(progress).values()
    return "  ".join([f"{short(progress.frames)} frames", *known])


def _known_numbers(progress: Progress) -> dict[str, str]:
    """Returns the numbers of each kind as text, without those that are not known."""
    targets = _range("for a target of", progress.target)
    realised = _range("switching rate", progress.realised)
    kinds = {
        "speed": [
            *_known("{} frames/s", progress.rate, short),
            *_known("mean {}", progress.mean_rate, short),
            *_known("{} updates/s", progress.update_rate),
        ],
        "learned": [
            *_known("{} updates", progress.updates, short),
            *_known("replay {} full", progress.replay_fill, "{:.0%}".format),
        ],
        "returns": [
            *_range("training", progress.returns),
            *_range("greedy", progress.evaluations),
            *_range("human-normalised", progress.human, "{:.1%}".format),
        ],
        "explore": [
            *_range("p_X", progress.p_X),
            *(" ".join(pair) for pair in zip(realised, targets, strict=False)),
        ],
        "bandits": [
            # The arms of `start` are modes: 0 exploits, 1 explores.
            f"{bandit} {'GX'[int(arm)] if bandit == 'start' else f'{arm:g}'} at {share:.0%}"
            for bandit, arm, share in progress.arms
        ],
    }
    return {name: ", ".join(texts) for name, texts in kinds.items() if texts}


def _share(progress: Progress) -> float:
    return min(1.0, progress.frames / progress.total)


def _time_left(progress: Progress) -> list[str]:
    is_over = progress.frames >= progress.total
    return [] if is_over else _known("{} left", progress.seconds_left, duration)


def _three_digits(number: float) -> str:
    """Returns three digits, or all before the point: 0.0123, 12.3, 12,345."""
    return f"{number:,.0f}" if abs(number) >= 999.5 else f"{number:.3g}"


_Form = Callable[[float], str]


def _known(text: str, value: float, form: _Form = _three_digits) -> list[str]:
    """Returns a text with the value in it; nothing if the value is not known."""
    return [] if math.isnan(value) else [text.format(form(value))]


def _range(name: str, values: Sequence[float], form: _Form = _three_digits) -> list[str]:
    """Returns a name with one number, or with the range of several known ones."""
    known = [value for value in values if not math.isnan(value)]
    if not known:
        return []
    low, high = form(min(known)), form(max(known))
    return [f"{name} {low}" if low == high else f"{name} {low}…{high}"]


def short(number: float) -> str:
    """Returns a number with three digits and a letter: 12345 -> 12.3k."""
    for size, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.0f}"


def duration(seconds: float) -> str:
    """Returns a duration in its two largest units: 75 -> `1 min 15 s`."""
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

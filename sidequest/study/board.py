"""One progress display for all runs of a study: a bar that moves, or lines for a log."""

import math
import sys
import time
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from sidequest.runs.display import LINE_EVERY, duration, numbers, short
from sidequest.runs.spec import Progress
from sidequest.study.planning import Group

if TYPE_CHECKING:
    from rich.progress import TaskID


@runtime_checkable
class Board(Protocol):
    """Where all groups of a study tell people how they are going."""

    def note(self, text: str) -> None:
        """About the study as a whole."""
        ...

    def begin(self, group: Group) -> None: ...

    def say(self, group: Group, text: str) -> None: ...

    def show(self, group: Group, progress: Progress) -> None: ...

    def end(self, group: Group, kind: str, reason: str) -> None: ...


class Voice:
    """The `Display` of one group: passes on to the board."""

    def __init__(self, board: Board, group: Group):
        self._board, self._group = board, group

    def say(self, text: str) -> None:
        self._board.say(self._group, text)

    def count(self, text: str, done: int, of: int) -> None:
        self._board.say(self._group, text)

    def show(self, progress: Progress) -> None:
        self._board.show(self._group, progress)


class Account:
    """Frames and runs of a whole study, and how long the rest will take."""

    def __init__(self, runs: int, finished: int, frames: int, finished_frames: int):
        self.runs, self.finished = runs, finished
        self.total = frames
        self._before = finished_frames
        self._ended = 0
        self._now: dict[Group, int] = {}
        """Frames of groups under way."""
        self._brought: dict[Group, int] = {}
        """Frames that they brought from an earlier start; they took no time today."""
        self._today = 0
        self._began = time.monotonic()

    def show(self, group: Group, progress: Progress) -> None:
        done = min(progress.frames, progress.total) * len(group.jobs)
        self._brought.setdefault(group, done)
        self._now[group] = done

    def end(self, group: Group, kind: str) -> None:
        done = self._now.pop(group, 0)
        self._today += done - self._brought.pop(group, done)
        if kind == "done":
            self._ended += group.frames
            self.finished += len(group.jobs)

    @property
    def done(self) -> int:
        return self._before + self._ended + sum(self._now.values())

    @property
    def seconds_left(self) -> float:
        """By the pace of this start so far; NaN before it has one."""
        under_way = sum(done - self._brought[group] for group, done in self._now.items())
        today = self._today + under_way
        elapsed = time.monotonic() - self._began
        return (self.total - self.done) * elapsed / today if today else math.nan

    def __str__(self) -> str:
        share = self.done / self.total if self.total else 1.0
        left = self.seconds_left
        text = (
            f"{share:4.0%} of {short(self.total)} frames, "
            f"{self.finished} of {self.runs} runs done"
        )
        return text if math.isnan(left) else f"{text}, about {duration(left)} left"


class Lines:
    """A line now and then, on standard error, for files and people who like it quiet."""

    def __init__(self, account: Account):
        self._account = account
        self._said = -math.inf

    def __enter__(self) -> "Lines":
        return self

    def __exit__(self, *_) -> None:
        pass

    def note(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def begin(self, group: Group) -> None:
        self.note(f"== {group.label}")

    def say(self, group: Group, text: str) -> None:
        self.note(f"   {text}")

    def show(self, group: Group, progress: Progress) -> None:
        self._account.show(group, progress)
        if time.monotonic() - self._said >= LINE_EVERY:
            self._said = time.monotonic()
            self.note(f"{self._account} | {group.jobs[0].game} {numbers(progress)}")

    def end(self, group: Group, kind: str, reason: str) -> None:
        self._account.end(group, kind)
        said = str(self._account) if kind == "done" else f"{group.label}: {kind}: {reason}"
        self.note(said)


class Screen:
    """A bar over all runs, and below it a line for each group under way."""

    def __init__(self, account: Account):
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn
        from rich.table import Column

        self._account = account
        self._console = Console(stderr=True)
        # The text takes what the bar leaves, and is cut where a narrow terminal ends.
        rest = Column(ratio=1, no_wrap=True, overflow="ellipsis")
        self._bar = Progress(
            BarColumn(bar_width=12),
            TextColumn("{task.description}", markup=False, table_column=rest),
            console=self._console,
            expand=True,
        )
        self._all = self._bar.add_task(str(account), total=max(1, account.total))
        self._lines: dict[Group, TaskID] = {}

    def __enter__(self) -> "Screen":
        self._bar.start()
        return self

    def __exit__(self, *_) -> None:
        self._bar.stop()

    def note(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False)

    def begin(self, group: Group) -> None:
        self._lines[group] = self._bar.add_task(group.label, total=max(1, group.frames))

    def say(self, group: Group, text: str) -> None:
        self._describe(group, text, 0)

    def show(self, group: Group, progress: Progress) -> None:
        self._account.show(group, progress)
        done = min(progress.frames, progress.total) * len(group.jobs)
        self._describe(group, numbers(progress), done)
        self._refresh()

    def end(self, group: Group, kind: str, reason: str) -> None:
        self._account.end(group, kind)
        self._bar.remove_task(self._lines.pop(group))
        outcome = "done" if kind == "done" else f"{kind}: {reason}"
        self.note(f"{group.label}: {outcome}")
        self._refresh()

    def _describe(self, group: Group, text: str, done: int) -> None:
        line = self._lines[group]
        said = f"{group.jobs[0].game}: {text}"
        if done:
            self._bar.update(line, completed=done, description=said)
        else:
            self._bar.update(line, description=said)

    def _refresh(self) -> None:
        done = min(self._account.done, self._account.total)
        self._bar.update(self._all, completed=done, description=str(self._account))

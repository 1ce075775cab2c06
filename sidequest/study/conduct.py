"""Runs groups until all is done that can be: the one policy, wherever runs go.

done          the next group
failed        its halves apart, and so on: a bad run is alone after a few steps, and a
              group that was too large for the memory fits
busy          another process is at it: once more after all others, then apart
lost          the worker died: the group once more, then as if it had failed
interrupted   everything stops; what runs is saved
"""

import contextlib
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, runtime_checkable

from sidequest.errors import Interrupted, RunBusy, SidequestError
from sidequest.runs.spec import Display
from sidequest.study.board import Board
from sidequest.study.planning import Group

SAVING = "interrupted: what runs is being saved; once more leaves at once"
GOES_ON = "stopped, and what ran is saved; the same command goes on with it"
Kind = Literal["done", "failed", "busy", "lost", "interrupted"]


class Ending(NamedTuple):
    """How a group ended."""

    group: Group
    kind: Kind
    reason: str = ""
    """One line."""
    trace: str = ""


@runtime_checkable
class Crew(Protocol):
    """Where groups run."""

    @property
    def room(self) -> int:
        """How many groups run at a time."""
        ...

    def start(self, group: Group) -> None: ...

    def wait(self) -> Ending:
        """Until one of those started has ended; meanwhile the board hears of progress."""
        ...

    def stop(self) -> None:
        """Has everything saved and ended."""
        ...


class Tally(NamedTuple):
    """What came of it."""

    failures: dict[str, str]
    """Reasons by the ids of jobs."""
    traces: list[str]
    busy: list[str]
    """Ids that another process was at until the end."""


def conduct(groups: Sequence[Group], crew: Crew, board: Board) -> Tally:
    """Runs all groups.

    Raises:
        Interrupted: After a signal, with everything saved.
    """
    tally = Tally({}, [], [])
    waiting = deque(groups)
    running = 0
    try:
        while waiting or running:
            while waiting and running < crew.room:
                group = waiting.popleft()
                board.begin(group)
                crew.start(group)
                running += 1
            ending = crew.wait()
            running -= 1
            board.end(ending.group, ending.kind, ending.reason)
            next_ones = consequences(ending, tally)
            if ending.kind == "busy":
                waiting.extend(next_ones)
            else:
                waiting.extendleft(reversed(next_ones))
    except KeyboardInterrupt:
        with contextlib.suppress(OSError):  # nobody may be there to read it
            board.note(SAVING)
        crew.stop()
        raise Interrupted(GOES_ON) from None
    except BaseException:
        crew.stop()
        raise
    return tally


def consequences(ending: Ending, tally: Tally) -> list[Group]:
    """Notes what failed; returns what is to be tried next."""
    group = ending.group
    if ending.kind == "interrupted":
        raise Interrupted(GOES_ON)
    if ending.kind == "done":
        return []
    if ending.kind == "lost" and not group.lost:
        return [group._replace(lost=1)]
    if ending.kind == "busy" and not group.busy:
        return [group._replace(busy=1)]
    if len(group.jobs) > 1:
        return [half._replace(busy=group.busy) for half in group.halves()]
    for job in group.jobs:
        if ending.kind == "busy":
            tally.busy.append(job.id)
        else:
            tally.failures[job.id] = ending.reason
            tally.traces.append(f"{job.id}\n{ending.trace or ending.reason}\n")
    return []


Launch = Callable[[Group, Path, Display], None]


def launch_group(group: Group, folder: Path, display: Display) -> None:
    """Trains all runs of a group in this process; those that have finished are skipped."""
    from sidequest.runs import trainer

    runs = [job.spec(folder) for job in group.jobs]
    trainer.run(runs, display, checkpoints=group.checkpoints)


def attempt(group: Group, folder: Path, display: Display, launch: Launch) -> Ending:
    """Runs a group here, and says how it ended; whatever a run does wrong stays in it."""
    try:
        launch(group, folder, display)
    except (Interrupted, KeyboardInterrupt) as stop:
        return Ending(group, "interrupted", str(stop) or "interrupted")
    except RunBusy as busy:
        return Ending(group, "busy", str(busy))
    except Exception as error:
        return Ending(group, "failed", one_line(error), traceback.format_exc())
    return Ending(group, "done")


def one_line(error: BaseException) -> str:
    """`ValueError: what it says`, without the type where the message is for people."""
    lines = str(error).strip().splitlines() or [""]
    first = lines[0] if len(lines[0]) < 300 else lines[0][:300] + " …"
    if isinstance(error, SidequestError):
        return first
    return f"{type(error).__name__}: {first}" if first else type(error).__name__

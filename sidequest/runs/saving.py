"""Checkpoints while a run goes: when one is due, and writing it behind the loop's back.

At its end a run leaves parameters and finished tables behind, and no checkpoint.
"""

import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeAlias

import jax

from sidequest.errors import CannotWrite, cannot_write
from sidequest.records import Recorder
from sidequest.runs import checkpoint
from sidequest.runs.checkpoint import Snapshot
from sidequest.runs.keys import is_key
from sidequest.runs.shards import Damaged
from sidequest.runs.spec import Display

Taking: TypeAlias = Callable[[], Mapping[Path, Snapshot]]
"""Copies runs' state; what it returns, by their folders, must not change any more."""


class Saver:
    """Writes checkpoints of runs that go side by side, in a thread of its own.

    A checkpoint that cannot be written does not end a run: it is told, and the next one
    is tried when it is due. The ones before it stay as they are.
    """

    def __init__(
        self, folders: Sequence[Path], every: int, display: Display, resumed_at: int = 0
    ):
        self.folders, self.every, self.display = folders, every, display
        self.at = resumed_at
        """Frames at the newest checkpoint that is known to be good; 0: there is none."""
        self._good = [resumed_at] if resumed_at else []
        self._thread: threading.Thread | None = None
        self._failure: OSError | Damaged | None = None

    def __enter__(self) -> "Saver":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.wait()

    def is_due(self, before: int, now: int) -> bool:
        """Whether a multiple of the interval lies between two counts of frames."""
        return now // self.every > before // self.every

    def save(self, snapshots: Taking) -> None:
        """Copies the runs' state, and writes while the runs go on."""
        self.wait()
        begin = time.perf_counter()
        try:
            taken = snapshots()
        except OSError as error:
            self._report(error)
            return
        stopped = time.perf_counter() - begin
        if any(is_on_device(snapshot.state) for snapshot in taken.values()):
            self._write(taken, stopped, in_between=False)
            return
        self._thread = threading.Thread(target=self._write, args=(taken, stopped))
        self._thread.start()

    def save_now(self, snapshots: Taking) -> None:
        """Writes before it returns; raises `CannotWrite` if that is not possible."""
        self.save(snapshots)
        self.wait()
        if self._failure:
            raise self._fault(self._failure)

    def wait(self) -> None:
        """Until nothing is being written."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _write(
        self, snapshots: Mapping[Path, Snapshot], stopped: float, in_between: bool = True
    ) -> None:
        begin, size, frames = time.perf_counter(), 0, self.at
        self._failure = None
        try:
            for folder, snapshot in snapshots.items():
                frames = snapshot.frames
                size += checkpoint.write(folder, snapshot)
        except (OSError, Damaged) as error:
            self._report(error)
            return
        self.at = frames
        self._good = sorted({*self._good, frames})[-checkpoint.KEPT :]
        for folder in snapshots:
            checkpoint.prune(folder, self._good)
        seconds = time.perf_counter() - begin
        stopped += 0.0 if in_between else seconds
        self.display.say(
            f"saved at {frames:,} frames: {size / 1e6:,.1f} MB in {seconds:.1f} s "
            f"(the run stood still for {stopped:.2f} s)"
        )

    def _report(self, error: OSError | Damaged) -> None:
        self._failure = error
        kept = f"that of {self.at:,} frames is kept" if self.at else "there is none yet"
        self.display.say(f"no checkpoint was made: {error}; {kept}, the run goes on")

    def _fault(self, error: OSError | Damaged) -> CannotWrite:
        where = self.folders[0] / checkpoint.FOLDER
        if isinstance(error, OSError):
            return cannot_write(where, error)
        return CannotWrite(f"cannot write {where}: {error}")


def is_on_device(state) -> bool:
    """Whether it must be written before the run goes on and replaces it."""
    leaves = jax.tree.leaves(state)
    return any(isinstance(leaf, jax.Array) and not is_key(leaf) for leaf in leaves)


def leave_behind(
    recorder: Recorder, q_function: Any, *, seconds: float, frames: int
) -> None:
    """Of a run at its end: parameters and finished tables. Its checkpoints have served."""
    checkpoint.save(recorder.folder / checkpoint.PARAMETERS, q_function)
    recorder.finish(seconds=seconds, frames_done=frames)
    shutil.rmtree(recorder.folder / checkpoint.FOLDER, ignore_errors=True)

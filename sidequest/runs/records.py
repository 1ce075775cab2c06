"""Tables on disk: written as a run goes, readable while it runs and after a crash.

A run's folder holds

    run.json         what was run: config, versions, machine, command, seed
    episodes         one row a training episode: how it explored, what it scored
    evaluations      one row a greedy evaluation episode; `begun`: frames at its beginning,
                     when its parameters were taken
    learning         losses, TD errors, return scales, gradient norms, at a cadence
    bandits          probabilities of every arm, at a cadence
    traces           mode, trigger signal and reward of some whole episodes

Tables are JSON lines (`.jsonl`) while the run goes, each flushed when it is written, and
become Parquet (`.parquet`) when it ends; pandas, polars and DuckDB open both. Budgets and
curves count environment `frames`. Nothing here needs JAX.
"""

import contextlib
import io
import json
import math
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sidequest.runs.faults import (
    DoesNotFit,
    NoCheckpoint,
    cannot_write,
    resume_command,
)

if TYPE_CHECKING:
    import polars

TABLES = ("episodes", "evaluations", "learning", "bandits", "traces")
RUN_FILE = "run.json"
LIBRARIES = ("sidequest", "jax", "jaxlib", "equinox", "optax", "numpy", "ale-py", "gymnax")


class RunExists(ValueError):
    """The folder holds a run already; nothing of it is overwritten."""


class Recorder:
    """Appends rows to the tables of one run."""

    def __init__(self, folder: Path, run: Mapping[str, Any]):
        refuse_existing(folder)
        self._open(folder, run)
        self._note()

    def _open(self, folder: Path, run: Mapping[str, Any]) -> None:
        self.folder = folder
        self.run = dict(run)
        self.name = f"{run['variant']}/{run['game']}/{run['seed']}"
        self._files: dict[str, io.TextIOBase] = {}

    @classmethod
    def go_on(
        cls, folder: Path, sizes: Mapping[str, int], note: Mapping[str, Any] | None
    ) -> "Recorder":
        """Of a run that was cut off: tables go back to the sizes that a checkpoint names.

        Args:
            sizes: Bytes of each table; 0 for those not named.
            note: Added to the list `resumed` of run.json; None if nothing was played yet.
        """
        recorder = cls.__new__(cls)
        run = read_run(folder)
        recorder._open(folder, run)
        try:
            for table in TABLES:
                # Made by a run that was cut off in its last moment; lines are still there.
                (folder / f"{table}.parquet").unlink(missing_ok=True)
                path = folder / f"{table}.jsonl"
                if path.exists():
                    os.truncate(path, sizes.get(table, 0))
        except OSError as error:
            raise cannot_write(folder / RUN_FILE, error) from error
        if note is not None:
            recorder.run["resumed"] = [*run.get("resumed", []), dict(note)]
        recorder._note()
        return recorder

    def write(self, table: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Appends rows; after the call they are with the operating system."""
        if table not in TABLES:
            raise ValueError(f"no table {table!r}; there are {TABLES}")
        lines = "".join(
            json.dumps({"run": self.name, **plain(row)}, allow_nan=False) + "\n"
            for row in rows
        )
        if not lines:
            return
        path = self.folder / f"{table}.jsonl"
        try:
            if table not in self._files:
                self._files[table] = path.open("a", encoding="utf-8")
            self._files[table].write(lines)
            self._files[table].flush()
        except OSError as error:
            raise cannot_write(path, error) from error

    def sizes(self) -> dict[str, int]:
        """Bytes of each table so far, all of them on the disk."""
        for file in self._files.values():
            os.fsync(file.fileno())
        paths = {table: self.folder / f"{table}.jsonl" for table in TABLES}
        return {
            table: path.stat().st_size for table, path in paths.items() if path.exists()
        }

    def finish(self, **outcome: Any) -> None:
        """Turns the tables into Parquet and notes in run.json that the run is complete."""
        self.close()
        lines = [self.folder / f"{table}.jsonl" for table in TABLES]
        lines = [path for path in lines if path.exists()]
        try:
            for path in lines:
                beside = path.with_suffix(".parquet.part")
                read_lines(path).write_parquet(beside)
                os.replace(beside, path.with_suffix(".parquet"))
        except OSError as error:
            raise cannot_write(self.folder / RUN_FILE, error) from error
        self.run |= {"finished": now(), **outcome}
        self._note()
        for path in lines:  # not before: until here the run could still be resumed
            path.unlink()

    def _note(self) -> None:
        """Writes run.json."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            content = {**self.run, "finished": self.run.get("finished")}
            write_json(self.folder / RUN_FILE, content)
        except OSError as error:
            raise cannot_write(self.folder / RUN_FILE, error) from error

    def close(self) -> None:
        for file in self._files.values():
            with contextlib.suppress(OSError):  # what did not fit was told by `write`
                file.close()
        self._files.clear()


def refuse_existing(folder: Path) -> None:
    """Raises `RunExists` if the folder holds a run."""
    if (folder / RUN_FILE).exists():
        finished = read_run(folder).get("finished")
        hint = (
            "choose another folder"
            if finished
            else f"it has not finished: {resume_command([folder])} goes on with it"
        )
        raise RunExists(f"{folder} holds a run already; {hint}")


MADE_AGAIN = "move the folder of this run away, and make the run again"
"""What helps where a table cannot be read."""


def read_table(folder: Path | str, table: str) -> "polars.DataFrame":
    """A table of a run, finished or not; an unfinished last line is left out.

    Raises:
        NoCheckpoint: If its file cannot be read.
    """
    import polars

    finished, growing = (Path(folder) / f"{table}.{kind}" for kind in ("parquet", "jsonl"))
    try:
        if finished.exists():
            return polars.read_parquet(finished)
        return read_lines(growing) if growing.exists() else polars.DataFrame()
    except (OSError, polars.exceptions.PolarsError):
        torn = finished if finished.exists() else growing
        raise NoCheckpoint(f"{torn} cannot be read; {MADE_AGAIN}") from None


def read_lines(path: Path) -> "polars.DataFrame":
    """A table of JSON lines; an unfinished last line is left out."""
    import polars

    whole = path.read_bytes()
    whole = whole[: whole.rfind(b"\n") + 1]
    if not whole:
        return polars.DataFrame()
    return polars.read_ndjson(io.BytesIO(whole), infer_schema_length=None)


def read_run(folder: Path | str) -> dict[str, Any]:
    """What run.json says; a fault, not a traceback, if it says nothing."""
    path = Path(folder) / RUN_FILE
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(said, dict):
            raise ValueError
    except FileNotFoundError:
        raise DoesNotFit(f"{folder} holds no run: there is no {RUN_FILE} in it") from None
    except (OSError, ValueError):
        raise NoCheckpoint(f"{path} cannot be read; move this folder away") from None
    return said


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Writes beside, then renames: the file is never half there."""
    beside = path.with_name(path.name + ".part")
    with beside.open("w", encoding="utf-8") as file:
        file.write(json.dumps(plain(content), indent=2) + "\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)


def describe_machine() -> dict[str, Any]:
    """Versions and machine: what a result depends on besides config and seed."""
    versions = {}
    for library in LIBRARIES:
        try:
            versions[library] = version(library)
        except PackageNotFoundError:
            continue
    return {
        "versions": versions,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": available_cores(),
        "revision": source_revision(),
        "command": " ".join(sys.argv),
        "started": now(),
    }


def source_revision() -> str | None:
    """The git revision of the source, if it lies in a repository of its own."""
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "describe", "--always", "--abbrev=40", "--dirty"]
    try:
        found = subprocess.run(
            [*command, "--exclude=*"], capture_output=True, text=True, timeout=10
        )
        return found.stdout.strip() or None
    except (OSError, subprocess.SubprocessError):
        return None


def available_cores() -> int:
    """That this process may use; results on CPU are bit-equal for the same number only."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def plain(value: Any) -> Any:
    """NumPy to Python; a number that is not finite becomes null, as JSON has none."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value

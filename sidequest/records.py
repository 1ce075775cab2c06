"""What runs and studies leave on disk: tables, run.json and study.json.

A run's folder holds

    run.json         what was run: config, versions, machine, command, seed
    episodes         one row per training episode: how it explored, what it scored
    evaluations      one row per greedy evaluation episode
    learning         losses, TD errors, return scales, gradient norms, at intervals
    bandits          probabilities of every arm, at intervals
    traces           mode, trigger signal and reward of some whole episodes

Tables are JSON lines (`.jsonl`) during training, flushed with every write, and become
Parquet (`.parquet`) at the end; pandas, polars and DuckDB open both. docs/records.md says
what each column means. A study's folder holds the folders of its runs and

    study.json       the plan: name, title, command, and every run with its folder
    failures.json    runs that failed at the last start, each with a one-line reason
    failures.txt     the same with tracebacks

Nothing here needs JAX.
"""

import contextlib
import hashlib
import io
import json
import math
import os
import platform
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sidequest.errors import (
    CorruptFile,
    OtherRun,
    RunExists,
    cannot_write,
    resume_command,
)

if TYPE_CHECKING:
    import polars

TABLES = ("episodes", "evaluations", "learning", "bandits", "traces")
IDENTITY = ("variant", "game", "seed")
"""The first columns of every table: the run that a row belongs to."""
RUN_FILE = "run.json"
STUDY_FILE = "study.json"
FAILURES_FILE = "failures.json"
TRACEBACKS_FILE = "failures.txt"
_LIBRARIES = (
    *("sidequest", "jax", "jaxlib", "equinox", "optax", "numpy", "ale-py", "gymnax"),
)
_PLANNED = {"id", "variant", "game", "seed", "folder"}
"""What a plan says of every run."""


class Recorder:
    """Appends rows to the tables of one run."""

    def __init__(self, folder: Path, run: Mapping[str, Any]):
        refuse_existing(folder)
        self._open(folder, run)
        self._write_run_file()

    def _open(self, folder: Path, run: Mapping[str, Any]) -> None:
        self.folder = folder
        self.run = dict(run)
        self._identity = {name: run[name] for name in IDENTITY}
        self._files: dict[str, io.TextIOBase] = {}

    @classmethod
    def resume(
        cls, folder: Path, sizes: Mapping[str, int], note: Mapping[str, Any] | None
    ) -> "Recorder":
        """Opens the tables of an interrupted run, cut back to the sizes of a checkpoint.

        Args:
            sizes: Bytes of each table; 0 for those not named.
            note: Added to the list `resumed` of run.json; None if nothing was played yet.
        """
        recorder = cls.__new__(cls)
        run = read_run(folder)
        recorder._open(folder, run)
        try:
            for table in TABLES:
                # Left by a run that was killed while finishing; the lines are still there.
                (folder / f"{table}.parquet").unlink(missing_ok=True)
                path = folder / f"{table}.jsonl"
                if path.exists():
                    os.truncate(path, sizes.get(table, 0))
        except OSError as error:
            raise cannot_write(folder / RUN_FILE, error) from error
        if note is not None:
            recorder.run["resumed"] = [*run.get("resumed", []), dict(note)]
        recorder._write_run_file()
        return recorder

    def write(self, table: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Appends rows; after the call they are with the operating system."""
        if table not in TABLES:
            raise ValueError(f"no table {table!r}; there are {TABLES}")
        lines = "".join(
            json.dumps({**self._identity, **plain(row)}, allow_nan=False) + "\n"
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
        """Syncs every table to disk and returns its size in bytes."""
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
                part = path.with_suffix(".parquet.part")
                _read_lines(path).write_parquet(part)
                os.replace(part, path.with_suffix(".parquet"))
        except OSError as error:
            raise cannot_write(self.folder / RUN_FILE, error) from error
        self.run |= {"finished": now(), **outcome}
        self._write_run_file()
        for path in lines:  # not before: until here the run could still be resumed
            path.unlink()

    def _write_run_file(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            content = {**self.run, "finished": self.run.get("finished")}
            write_json(self.folder / RUN_FILE, content)
        except OSError as error:
            raise cannot_write(self.folder / RUN_FILE, error) from error

    def close(self) -> None:
        for file in self._files.values():
            with contextlib.suppress(OSError):  # `write` has raised what did not fit
                file.close()
        self._files.clear()


def refuse_existing(folder: Path) -> None:
    """Raises `RunExists` if the folder holds a run."""
    if (folder / RUN_FILE).exists():
        finished = read_run(folder).get("finished")
        hint = (
            "choose another folder"
            if finished
            else f"it has not finished; resume it with: {resume_command([folder])}"
        )
        raise RunExists(f"{folder} holds a run already; {hint}")


def read_table(
    folder: Path | str, table: str, columns: Collection[str] | None = None
) -> "polars.DataFrame":
    """Reads a table of a run, finished or not; an unfinished last line is left out.

    Args:
        columns: The columns to read of those that the table has; by default all.

    Raises:
        CorruptFile: If its file cannot be read.
    """
    import polars

    finished, growing = (Path(folder) / f"{table}.{kind}" for kind in ("parquet", "jsonl"))
    path = finished if finished.exists() else growing
    with _corrupt(path, "move the folder of this run away, and run it again"):
        if not finished.exists():
            return _read_lines(growing) if growing.exists() else polars.DataFrame()
        if columns is not None:
            columns = [
                one for one in polars.read_parquet_schema(finished) if one in columns
            ]
        return polars.read_parquet(finished, columns=columns)


def _read_lines(path: Path) -> "polars.DataFrame":
    """Reads a table of JSON lines; an unfinished last line is left out."""
    import polars

    whole = path.read_bytes()
    whole = whole[: whole.rfind(b"\n") + 1]
    if not whole:
        return polars.DataFrame()
    return polars.read_ndjson(io.BytesIO(whole), infer_schema_length=None)


def read_run(folder: Path | str) -> dict[str, Any]:
    """Reads run.json.

    Raises:
        OtherRun: If there is none.
        CorruptFile: If it cannot be read.
    """
    path = Path(folder) / RUN_FILE
    with _corrupt(path, "move this folder away"):
        run = _read_object(path)
    if run is None:
        raise OtherRun(f"{folder} holds no run: there is no {RUN_FILE} in it")
    return run


def read_study(folder: Path) -> dict[str, Any]:
    """Reads study.json; returns an empty plan if there is none.

    Raises:
        CorruptFile: If it cannot be read.
    """
    with _corrupt(folder / STUDY_FILE, _REWRITTEN):
        plan = _read_object(folder / STUDY_FILE) or {}
        for run in plan.get("runs", []):
            if not (_PLANNED <= run.keys() and isinstance(run["id"], str)):
                raise ValueError
    return plan


def read_failures(folder: Path) -> dict[str, str]:
    """Returns why runs failed when the study was last started, by their ids.

    Raises:
        CorruptFile: If failures.json cannot be read.
    """
    with _corrupt(folder / FAILURES_FILE, _REWRITTEN):
        return _read_object(folder / FAILURES_FILE) or {}


def write_failures(folder: Path, reasons: Mapping[str, str], traces: Iterable[str]) -> None:
    """Replaces what the last start of a study noted about runs that failed."""
    replace_json(folder / FAILURES_FILE, reasons)
    traces = list(traces)
    if traces:
        (folder / TRACEBACKS_FILE).write_text("\n".join(traces), encoding="utf-8")
    else:
        (folder / TRACEBACKS_FILE).unlink(missing_ok=True)


_REWRITTEN = (
    "move this file away, and the same command writes it again: runs that have finished "
    "are not repeated"
)


@contextlib.contextmanager
def _corrupt(path: Path, advice: str) -> Iterator[None]:
    """Turns whatever is wrong with a file into one sentence."""
    try:
        yield
    except Exception as error:
        # Polars is loaded only where a table is read.
        if isinstance(error, OSError | ValueError | TypeError | AttributeError) or (
            type(error).__module__.startswith("polars")
        ):
            raise CorruptFile(f"{path} cannot be read; {advice}") from None
        raise


def _read_object(path: Path) -> dict[str, Any] | None:
    """Reads a JSON object; returns None if there is no such file."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not isinstance(content, dict):
        raise ValueError
    return content


def seal(content: Mapping[str, Any]) -> bytes:
    """Returns a JSON object's text, with a digest of its content under `sha256`."""
    content = plain(content)
    return (json.dumps({**content, "sha256": _digest(content)}) + "\n").encode()


def unseal(text: bytes) -> dict[str, Any]:
    """Reads what `seal` wrote; raises `ValueError` if its digest is another."""
    content = json.loads(text)
    if content.pop("sha256", None) != _digest(content):
        raise ValueError("it does not have the digest that it was written with")
    return content


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Writes a JSON file to a temporary name and renames it: it is never half there."""
    part = path.with_name(path.name + ".part")
    with part.open("w", encoding="utf-8") as file:
        file.write(json.dumps(plain(content), indent=2) + "\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)


def replace_json(path: Path, content: Mapping[str, Any]) -> None:
    """Writes like `write_json`, safely also while another process writes the same file."""
    own = path.with_name(f".{os.getpid()}-{path.name}")
    write_json(own, content)
    os.replace(own, path)


def describe_machine() -> dict[str, Any]:
    """Returns versions and machine: what a result depends on besides config and seed."""
    versions = {}
    for library in _LIBRARIES:
        with contextlib.suppress(PackageNotFoundError):
            versions[library] = version(library)
    return {
        "versions": versions,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": available_cores(),
        "revision": _source_revision(),
        "command": " ".join(sys.argv),
        "started": now(),
    }


def _source_revision() -> str | None:
    """Returns the git revision of the source, if it lies in a repository of its own."""
    root = Path(__file__).parents[1]
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
    """Returns the number of cores that this process may use.

    Results on a CPU are bit-equal for the same number only.
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def now() -> str:
    """Returns the time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def plain(value: Any) -> Any:
    """Converts NumPy to Python; a number that is not finite becomes None, as in JSON."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value

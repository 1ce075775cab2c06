"""What runs and studies leave on disk: tables, run.json and study.json.

A run's folder holds run.json and its tables: JSON lines (`.jsonl`) during training, flushed
every two seconds, and Parquet (`.parquet`) at the end. docs/records.md says what each key
and each column means. A study's folder holds the folders of its runs and

    study.json       the plan: name, title, command, and every run with its folder
    failures.json    runs that failed at the last start, each with a one-line reason
    failures.txt     the same with tracebacks

No parser sees a byte that was not written here: run.json holds the digest of every file of
a finished run, digests.json that of every table that grows, and each JSON file its own.
Records of a version that took no digests are read unchecked; `has_digests` tells.

Nothing here needs JAX.
"""

import contextlib
import hashlib
import io
import json
import math
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

from sidequest.errors import (
    CannotWrite,
    CorruptFile,
    InvalidRequest,
    resume_command,
    writing,
)

if TYPE_CHECKING:
    import polars

TABLES = ("episodes", "evaluations", "learning", "bandits", "traces")
IDENTITY = ("variant", "game", "seed")
"""The first columns of every table: the run that a row belongs to."""
RUN_FILE = "run.json"
DIGESTS_FILE = "digests.json"
STUDY_FILE = "study.json"
FAILURES_FILE = "failures.json"
TRACEBACKS_FILE = "failures.txt"
ARRIVING = ".arriving"
"""The folder in a run's folder where files from a cluster are before they are complete."""
_LIBRARIES = "sidequest jax jaxlib equinox optax numpy ale-py gymnax".split()


class Digest(NamedTuple):
    """Holds what is known of the first bytes of a file, or of all of them."""

    size: int
    sha256: str

    @classmethod
    def of(cls, data: bytes) -> "Digest":
        return cls(len(data), hashlib.sha256(data).hexdigest())


class _Lines:
    """A table that grows, with the digest of what it holds."""

    def __init__(self, path: Path, size: int = 0):
        """Opens a table and cuts it back to its first `size` bytes."""
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        self.file = os.fdopen(os.open(path, flags, 0o644), "r+b")
        self.file.truncate(size)
        self._hash, self._size = hashlib.file_digest(self.file, "sha256"), size
        self.file.seek(size)

    def append(self, data: bytes) -> None:
        self.file.write(data)
        self.file.flush()
        self._hash.update(data)
        self._size += len(data)

    @property
    def digest(self) -> Digest:
        return Digest(self._size, self._hash.hexdigest())


class Recorder:
    """Appends rows to the tables of one run."""

    def __init__(
        self,
        folder: Path,
        run: Mapping[str, Any],
        digests: Mapping[str, Digest] | None = None,
    ):
        """Creates a folder with this run.json; with `digests`, opens the one that is there,
        with its tables cut back to these."""
        if digests is None:
            refuse_existing(folder)
        self.folder = folder
        self.run = {"finished": None, **run, "digests": {}}
        self._identity = {name: run[name] for name in IDENTITY}
        self._tables: dict[str, _Lines] = {}
        with writing(folder / RUN_FILE):
            folder.mkdir(parents=True, exist_ok=True)
            for table in TABLES:
                path = folder / f"{table}.jsonl"
                if digests is not None and os.path.lexists(path):
                    size = digests[table].size if table in digests else 0
                    self._tables[table] = _Lines(path, size)
            self.flush()
            write_json(folder / RUN_FILE, self.run)

    @classmethod
    def resume(
        cls, folder: Path, digests: Mapping[str, Digest], note: Mapping[str, Any] | None
    ) -> "Recorder":
        """Opens the tables of an interrupted run, cut back to those of a checkpoint.

        Args:
            digests: Of each table at the checkpoint; those not named are emptied.
            note: Added to the list `resumed` of run.json; None if nothing was played yet.
        """
        run = read_run(folder)
        if note is not None:
            run["resumed"] = [*run.get("resumed", []), dict(note)]
        # Left by a run that was killed while finishing, or while writing a file.
        tables = (folder / f"{table}.parquet" for table in TABLES)
        for left in [*tables, *folder.glob(".[0-9]*-*")]:
            with writing(left):
                left.unlink(missing_ok=True)
        return cls(folder, run, digests)

    def write(self, table: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Appends rows; readers see them after `flush`."""
        if table not in TABLES:
            raise ValueError(f"no table {table!r}; there are {TABLES}")
        lines = "".join(
            json.dumps({**self._identity, **plain(row)}, allow_nan=False) + "\n"
            for row in rows
        )
        path = self.folder / f"{table}.jsonl"
        with writing(path):
            if lines and table not in self._tables:
                self._tables[table] = _Lines(path)
            if lines:
                self._tables[table].append(lines.encode())

    def flush(self) -> None:
        """Notes the digest of each table so far."""
        digests = {name: lines.digest._asdict() for name, lines in self._tables.items()}
        with writing(self.folder / DIGESTS_FILE):
            write_json(self.folder / DIGESTS_FILE, digests, sync=False)

    def sync(self) -> dict[str, Digest]:
        """Returns the digest of each table when all of it is on disk."""
        for lines in self._tables.values():
            os.fsync(lines.file.fileno())
        return {table: lines.digest for table, lines in self._tables.items()}

    def finish(self, *files: str, **outcome: Any) -> None:
        """Turns the tables into Parquet and notes in run.json that the run is complete.

        Args:
            files: Names of other files that belong to the finished run.
            outcome: What else run.json is to say.
        """
        lines = [self.folder / f"{table}.jsonl" for table in self._tables]
        self.flush()  # `close` bears it if this fails: newer rows would not be read
        self.close()
        if find_spec("polars") is None:  # then tables stay lines: nothing is lost
            for path in lines:
                read_file(self.folder, path.name, self.run)
            files, lines = (*files, *(path.name for path in lines)), []
        with writing(self.folder / RUN_FILE):
            for path in lines:
                table = read_table(self.folder, path.stem, run=self.run)
                if len(table):
                    content = io.BytesIO()
                    table.write_parquet(content)
                    files = (*files, f"{path.stem}.parquet")
                    write_synced(self.folder / files[-1], content.getvalue())
            digests = {name: take_digest(self.folder / name)._asdict() for name in files}
            sync_folder(self.folder)
            self.run |= {"finished": now(), "digests": digests, **outcome}
            write_json(self.folder / RUN_FILE, self.run)
            sync_folder(self.folder)
            # Not before: until here the run could still be resumed.
            for path in [*lines, self.folder / DIGESTS_FILE]:
                path.unlink()

    def close(self) -> None:
        """Closes the tables."""
        if self._tables:
            # `write` has raised what did not fit on the disk.
            with contextlib.suppress(CannotWrite):
                self.flush()
            for lines in self._tables.values():
                with contextlib.suppress(OSError):
                    lines.file.close()
            self._tables.clear()


def find_runs(folder: Path) -> list[Path]:
    """Returns the folders in or below this one that hold a run, except those that `--fresh`
    set aside and those that were still arriving when a study was killed."""
    found = {path.parent for path in folder.rglob(RUN_FILE)}
    return sorted(run for run in found if ".old-" not in run.name and run.name != ARRIVING)


def refuse_existing(*folders: Path) -> None:
    """Raises `InvalidRequest` if one of the folders holds a run."""
    taken = [folder for folder in folders if (folder / RUN_FILE).exists()]
    if taken:
        left = [folder for folder in taken if not read_run(folder).get("finished")]
        hint = "choose another folder"
        if left:
            hint = f"it has not finished; resume it with: {resume_command(left)}"
        first = (left or taken)[0]
        raise InvalidRequest(f"{first} holds a run already; {hint}; --fresh renames it")


def read_table(
    folder: Path | str,
    table: str,
    columns: Collection[str] | None = None,
    run: Mapping[str, Any] | None = None,
) -> "polars.DataFrame":
    """Reads a table of a run, finished or not; one that was never written is empty.

    Args:
        columns: The columns to read of those that the table has; by default all.
        run: What `read_run` returned, if it is known already.

    Raises:
        CorruptFile: If its file is not what was written.
    """
    import polars

    folder = Path(folder)
    run = read_run(folder) if run is None else run
    name = f"{table}.jsonl"
    if run.get("finished") and name not in run.get("digests", ()):
        name = f"{table}.parquet"
    try:
        data = read_file(folder, name, run)
    except CorruptFile:
        if run.get("finished") or not (now_finished := read_run(folder)).get("finished"):
            raise
        return read_table(folder, table, columns, now_finished)  # a moment ago
    with _explain(folder / name):
        if not data:
            return polars.DataFrame()
        if name.endswith(".jsonl"):
            return polars.read_ndjson(io.BytesIO(data), infer_schema_length=None)
        if columns is not None:
            there = polars.read_parquet_schema(io.BytesIO(data))
            columns = [one for one in there if one in columns]
        return polars.read_parquet(io.BytesIO(data), columns=columns)


def read_file(folder: Path, name: str, run: Mapping[str, Any]) -> bytes:
    """Returns the bytes of a run's file; raises `CorruptFile` unless they are those that
    were written. A file that the run does not have is empty. Of a table that grows, what
    was written since its digest was taken is left out."""
    path = folder / name
    with _explain(path):
        if not has_digests(run):
            data = path.read_bytes() if path.exists() else b""
            return data[: data.rfind(b"\n") + 1] if name.endswith(".jsonl") else data
        if run.get("finished"):
            known = run["digests"].get(name)
        else:
            known = _read_json(folder / DIGESTS_FILE, _DIGESTS).get(Path(name).stem)
        if known is None:
            return b""
        digest, more = Digest(**known), 0 if name.endswith(".jsonl") else 1
        with path.open("rb") as file:
            data = file.read(digest.size + more)
        if Digest.of(data) != digest:
            raise ValueError("it does not have the digest that it was written with")
        return data


def has_digests(run: Mapping[str, Any]) -> bool:
    """Returns whether a run's files can be checked; those of a former version cannot."""
    return "digests" in run


def take_digest(path: Path, size: int = -1) -> Digest:
    """Returns the digest of a file, or of its first bytes as far as they are there."""
    with path.open("rb") as file:
        return Digest.of(file.read(size))


def read_run(folder: Path | str) -> dict[str, Any]:
    """Reads run.json; raises `InvalidRequest` if there is none, and `CorruptFile` if it is
    not what was written, or describes no run."""
    path = Path(folder) / RUN_FILE
    if not os.path.lexists(path):
        levels = (f"{above}seed-*/{RUN_FILE}" for above in ("", "*/", "*/*/"))
        below = sorted(one for level in levels for one in Path(folder).glob(level))
        hint = f"; name one below it, such as {below[0].parent}" if below else ""
        raise InvalidRequest(f"{folder} holds no run: there is no {RUN_FILE} in it{hint}")
    return _read_json(path, _RUN)


def read_study(folder: Path) -> dict[str, Any]:
    """Reads study.json; returns an empty plan if there is none. Raises `CorruptFile` if it
    is not what was written, or describes no study."""
    path = folder / STUDY_FILE
    return _read_json(path, _STUDY, _REWRITTEN) if os.path.lexists(path) else {}


def read_failures(folder: Path) -> dict[str, str]:
    """Returns why runs failed when the study was last started, by their ids."""
    path = folder / FAILURES_FILE
    return _read_json(path, {"*": _TEXT}, _REWRITTEN) if os.path.lexists(path) else {}


def write_failures(folder: Path, reasons: Mapping[str, str], traces: Iterable[str]) -> None:
    """Replaces what the last start of a study noted about runs that failed."""
    traces = list(traces)
    with writing(folder / FAILURES_FILE):
        write_json(folder / FAILURES_FILE, reasons)
        if traces:
            write_synced(folder / TRACEBACKS_FILE, "\n".join(traces).encode())
        else:
            (folder / TRACEBACKS_FILE).unlink(missing_ok=True)


_MOVED = "move the folder of this run away, and run it again"
_REWRITTEN = (
    "move this file away; `sidequest study` writes it again, and repeats no run that has "
    "finished"
)


@contextlib.contextmanager
def _explain(path: Path, advice: str = _MOVED) -> Iterator[None]:
    """Turns whatever is wrong with a file into one sentence."""
    try:
        yield
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        reason = str(reason).partition("\n")[0]
        raise CorruptFile(f"{path} cannot be read: {reason}; {advice}") from None
    except BaseException as error:
        # Polars is loaded only where a table is read; what it panics with is no Exception.
        if type(error).__module__.partition(".")[0] not in ("polars", "pyo3_runtime"):
            raise
        raise CorruptFile(f"{path} cannot be read: it is no table; {advice}") from None


# The forms of JSON files. A key that may be missing ends in "?", "*" stands for any key.
_TEXT, _FLAG, _COUNT, _NUMBER = (str,), (bool,), (int,), (int, float)
_ANY = (str, int, float, bool, list, dict, type(None))
_MAYBE_TEXT, _MAYBE_COUNT = (str, type(None)), (int, type(None))
_SETTINGS = {"*": _ANY}
_DIGESTS = {"*": {"size": _COUNT, "sha256": _TEXT}}
_CHECKPOINTS = {"every": _MAYBE_COUNT, "replay": _FLAG}
_RUN: dict[str, Any] = {
    "variant": _TEXT,
    "game": _TEXT,
    "seed": _COUNT,
    "frames?": _COUNT,
    "config?": {"*": _SETTINGS},
    "pace?": {"*": _COUNT},
    "memory?": _MAYBE_COUNT,
    "checkpoints?": _CHECKPOINTS,
    "saving?": _CHECKPOINTS,
    "sharded?": _FLAG,
    "sticky_actions?": _NUMBER,
    "device?": _TEXT,
    "versions?": {"*": _TEXT},
    "python?": _TEXT,
    "cores?": _COUNT,
    "platform?": _TEXT,
    "revision?": _MAYBE_TEXT,
    "command?": _TEXT,
    "started?": _TEXT,
    "resumed?": [{"frames": _COUNT, "time": _TEXT, "command": _TEXT, "changed": _SETTINGS}],
    "finished?": _MAYBE_TEXT,
    "seconds?": _NUMBER,
    "frames_done?": _COUNT,
    "digests?": _DIGESTS,
}
_STUDY: dict[str, Any] = {
    "name?": _TEXT,
    "title?": _TEXT,
    "started?": _TEXT,
    "command?": _TEXT,
    "preset?": _TEXT,
    "settings?": _SETTINGS,
    "runs": [
        {
            "id": _TEXT,
            "variant": _TEXT,
            "game": _TEXT,
            "seed": _COUNT,
            "frames?": _COUNT,
            "folder": "path",
            "settings?": _SETTINGS,
        }
    ],
}


def _check_form(value: Any, form: Any, name: str) -> None:
    """Raises `ValueError` unless a value that was read from JSON has this form."""
    if isinstance(form, dict):
        _check_form(value, (dict,), name)
        for key, item in value.items():
            own = form.get(key, form.get(f"{key}?", form.get("*")))
            if own is None:
                raise ValueError(f"it has the unknown key {key!r}")
            _check_form(item, own, f"{name}.{key}" if name else key)
        for key in form.keys() - value.keys():
            if key[-1] not in "?*":
                raise ValueError(f"it lacks {f'{name}.' if name else ''}{key}")
    elif isinstance(form, list):
        _check_form(value, (list,), name)
        for item in value:
            _check_form(item, form[0], f"{name}[]")
    elif form == "path":  # inside the folder that says so
        _check_form(value, _TEXT, name)
        if PurePosixPath(value).is_absolute() or ".." in PurePosixPath(value).parts:
            raise ValueError(f"{name} is {value!r}, which leads elsewhere")
    elif type(value) not in form or (type(value) is int and abs(value) >= 2**63):
        raise ValueError(f"{name or 'it'} is {f'{value!r:.40}'}")


def _read_json(path: Path, form: Any, advice: str = _MOVED) -> dict[str, Any]:
    """Reads a JSON object; raises `CorruptFile` if it has another form, or another digest
    than it was written with."""
    with _explain(path, advice):
        content = json.loads(path.read_bytes())
        _check_form(content, (dict,), "")
        # Files of a former version have no digest; a run with others has its own.
        if "sha256" in content or has_digests(content):
            content = unseal(content)
        _check_form(content, form, "")
        return content


def seal(content: Mapping[str, Any], indent: int | None = 2) -> bytes:
    """Returns a JSON object's text, with a digest of its content under `sha256`."""
    content = plain(content)
    sealed = {**content, "sha256": _hash_content(content)}
    return (json.dumps(sealed, indent=indent) + "\n").encode()


def unseal(sealed: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what `seal` was given; raises `ValueError` if its digest is another."""
    content = {key: value for key, value in sealed.items() if key != "sha256"}
    if sealed.get("sha256") != _hash_content(content):
        raise ValueError("it does not have the digest that it was written with")
    return content


def _hash_content(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def write_json(path: Path, content: Mapping[str, Any], sync: bool = True) -> None:
    """Replaces a JSON file; it is never half there."""
    write_synced(path, seal(content), sync)


def write_synced(path: Path, data: bytes, sync: bool = True) -> None:
    """Replaces a file: writes to a name that no other process uses, syncs, and renames.

    No link is followed: what a link leads to stays as it is.
    """
    part = path.with_name(f".{os.getpid()}-{path.name}")
    part.unlink(missing_ok=True)
    try:
        with part.open("xb") as file:
            file.write(data)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)  # on a full disk it would take the last room
        raise


def sync_folder(path: Path) -> None:
    """Returns when the names in a folder are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
        "command": shlex.join(sys.argv),
        "started": now(),
    }


@cache
def _source_revision() -> str | None:
    """Returns the git revision of the source, if it lies in a repository of its own; asked
    once, since later edits are not in this process."""
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
    """Returns the number of cores that this process may use; results on a CPU are bit-equal
    for the same number only."""
    return len(core_numbers())


def core_numbers() -> list[int]:
    """Returns the numbers of these cores."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


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

"""Tables on disk: written as a run goes, readable while it runs and after a crash.

A run's folder holds

    run.json         what was run: config, versions, machine, command, seed
    episodes         one row a training episode: how it explored, what it scored
    evaluations      one row a greedy evaluation episode
    learning         losses, TD errors, return scales, gradient norms, at a cadence
    bandits          probabilities of every arm, at a cadence
    traces           mode, trigger signal and reward of some whole episodes

Tables are JSON lines (`.jsonl`) while the run goes, each flushed when it is written, and
become Parquet (`.parquet`) when it ends; pandas, polars and DuckDB open both. Budgets and
curves count environment `frames`. Nothing here needs JAX.
"""

import io
import json
import math
import os
import platform
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.run = dict(run)
        self.name = f"{run['variant']}/{run['game']}/{run['seed']}"
        self._files: dict[str, io.TextIOBase] = {}
        write_json(folder / RUN_FILE, {**self.run, "finished": None})

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
        if table not in self._files:
            path = self.folder / f"{table}.jsonl"
            self._files[table] = path.open("a", encoding="utf-8")
        self._files[table].write(lines)
        self._files[table].flush()

    def finish(self, **outcome: Any) -> None:
        """Turns the tables into Parquet and notes in run.json that the run is complete."""
        self.close()
        for table in TABLES:
            lines = self.folder / f"{table}.jsonl"
            if lines.exists():
                beside = self.folder / f"{table}.parquet.part"
                read_table(self.folder, table).write_parquet(beside)
                os.replace(beside, self.folder / f"{table}.parquet")
                lines.unlink()
        self.run |= {"finished": now(), **outcome}
        write_json(self.folder / RUN_FILE, self.run)

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()


def refuse_existing(folder: Path) -> None:
    """Raises `RunExists` if the folder holds a run."""
    if (folder / RUN_FILE).exists():
        raise RunExists(f"{folder} holds a run already; choose another folder")


def read_table(folder: Path | str, table: str) -> "polars.DataFrame":
    """A table of a run, finished or not; an unfinished last line is left out."""
    import polars

    folder = Path(folder)
    if (folder / f"{table}.parquet").exists():
        return polars.read_parquet(folder / f"{table}.parquet")
    path = folder / f"{table}.jsonl"
    if not path.exists():
        return polars.DataFrame()
    whole = path.read_bytes()
    whole = whole[: whole.rfind(b"\n") + 1]
    if not whole:
        return polars.DataFrame()
    return polars.read_ndjson(io.BytesIO(whole), infer_schema_length=None)


def read_run(folder: Path | str) -> dict[str, Any]:
    """What run.json says."""
    return json.loads((Path(folder) / RUN_FILE).read_text(encoding="utf-8"))


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Writes beside, then renames: the file is never half there."""
    beside = path.with_name(path.name + ".part")
    beside.write_text(json.dumps(plain(content), indent=2) + "\n", encoding="utf-8")
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
        "command": " ".join(sys.argv),
        "started": now(),
    }


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

"""Files of studies and runs; one that cannot be read is told in a sentence.

Whatever wrote them wrote beside and renamed; what is torn all the same was cut by a full
disk, an interrupted copy, or a machine that lost power.
"""

import contextlib
import json
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import polars

from sidequest.runs.records import MADE_AGAIN, TABLES, NoCheckpoint, read_table

STUDY_FILE = "study.json"
FAILURES_FILE = "failures.json"
GROWING = ("learning", "evaluations", "episodes")
"""Tables that tell how far a run is."""
PLANNED = {"id", "variant", "game", "seed", "folder"}
"""What a plan says of every run."""


def read_plan(folder: Path) -> dict[str, Any]:
    """What study.json says; empty without one.

    Raises:
        NoCheckpoint: If it is there and cannot be read.
    """
    with _told(folder / STUDY_FILE, REWRITTEN):
        plan = _read_object(folder / STUDY_FILE)
        if not all(PLANNED <= run.keys() for run in plan.get("runs", [])):
            raise ValueError
    return plan


def read_failures(folder: Path) -> dict[str, str]:
    """Why runs failed when the study was last started, by their ids; empty if none did.

    Raises:
        NoCheckpoint: If the file is there and cannot be read.
    """
    with _told(folder / FAILURES_FILE, REWRITTEN):
        return _read_object(folder / FAILURES_FILE)


def read_whole_table(folder: Path, name: str) -> polars.DataFrame:
    """One of a run's tables; an empty frame if it has none. Read once while it is new.

    Raises:
        NoCheckpoint: If its file cannot be read.
    """
    return _cached_table(folder, name, _signature(folder, name))


def check_tables(folder: Path) -> None:
    """Reads the tables that tell how far a run is, and of the others how they end: Parquet
    says there what it holds, so that a file that was cut is known by it.

    Raises:
        NoCheckpoint: If one cannot be read.
    """
    for name in TABLES:
        path = folder / f"{name}.parquet"
        if name in GROWING:
            read_whole_table(folder, name)
        elif path.exists():
            with _told(path, MADE_AGAIN):
                polars.read_parquet_schema(path)


REWRITTEN = (
    "move this file away, and `sidequest study` writes it anew: runs that have finished "
    "are not made again"
)


@contextlib.contextmanager
def _told(path: Path, advice: str) -> Iterator[None]:
    """From whatever is wrong with a file to a sentence."""
    try:
        yield
    except (OSError, ValueError, TypeError, AttributeError, polars.exceptions.PolarsError):
        raise NoCheckpoint(f"{path} cannot be read; {advice}") from None


def _read_object(path: Path) -> dict[str, Any]:
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    if not isinstance(said, dict):
        raise ValueError
    return said


def _signature(folder: Path, name: str) -> tuple:
    """The file's suffix, and what changes when the table does."""
    if name not in TABLES:
        raise ValueError(f"no table {name!r}; there are {TABLES}")
    for suffix in (".parquet", ".jsonl"):
        path = folder / f"{name}{suffix}"
        if path.exists():
            state = path.stat()
            return (suffix, state.st_size, state.st_mtime_ns)
    return ()


@lru_cache(maxsize=256)
def _cached_table(folder: Path, name: str, signature: tuple) -> polars.DataFrame:
    if not signature:
        return polars.DataFrame()
    return read_table(folder, name)

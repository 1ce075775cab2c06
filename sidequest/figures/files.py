"""Tables of runs, each read once while it is new."""

from functools import lru_cache
from pathlib import Path

import polars

from sidequest.errors import CorruptFile
from sidequest.records import TABLES, read_table

GROWING = ("learning", "evaluations", "episodes")
"""Tables that say how far a run is."""


def read_whole_table(folder: Path, name: str) -> polars.DataFrame:
    """Reads one of a run's tables; an empty frame if it has none.

    Raises:
        CorruptFile: If its file cannot be read.
    """
    return _cached_table(folder, name, _signature(folder, name))


def check_tables(folder: Path) -> None:
    """Reads the tables that say how far a run is, and of the others how they end: Parquet
    says there what it holds, so that a file that was cut is known by it.

    Raises:
        CorruptFile: If one cannot be read.
    """
    for name in TABLES:
        path = folder / f"{name}.parquet"
        if name in GROWING:
            read_whole_table(folder, name)
        elif path.exists():
            try:
                polars.read_parquet_schema(path)
            except (OSError, polars.exceptions.PolarsError):
                raise CorruptFile(f"{path} cannot be read; run it again") from None


def _signature(folder: Path, name: str) -> tuple:
    """Returns the file's suffix, and what changes when the table does."""
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

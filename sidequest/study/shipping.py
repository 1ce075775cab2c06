"""A run's folder in pieces, for machines that share no file system.

A shipment is what a run needs to go on elsewhere, in an order that is safe to be cut off:
tables first, then the newest checkpoint, `run.json` last. Tables may be ahead of the
checkpoint; a run that goes on cuts them back. What arrives lies aside until the shipment is
complete, and takes its place file by file, checkpoints as whole folders.
"""

import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from sidequest.records import RUN_FILE, TABLES, read_run
from sidequest.runs.checkpoint import FOLDER, listed

PIECE = 8 * 2**20  # bytes
ARRIVING = ".arriving"


class Piece(NamedTuple):
    """A part of a file; files come one after the other, each from its beginning."""

    run: str
    """The run's folder inside the study's."""
    path: str
    """Inside the run's folder; empty: the shipment is complete."""
    data: bytes


def pack(study: Path, run: Path) -> Iterator[Piece]:
    """The pieces of a run's folder as it is now; none if it holds no run yet."""
    folder = study / run
    if not (folder / RUN_FILE).exists():
        return
    finished = bool(read_run(folder).get("finished"))
    checkpoint = [] if finished else listed(folder)[:1]
    paths = [path for path in sorted(folder.iterdir()) if is_sent(path)]
    paths += [path for one in checkpoint for path in sorted(one.iterdir())]
    for path in [*paths, folder / RUN_FILE]:
        yield from cut(run.as_posix(), path, folder)
    yield Piece(run.as_posix(), "", b"")


def is_sent(path: Path) -> bool:
    hidden = path.name.startswith(".") or path.suffix == ".part"
    return path.is_file() and not hidden and path.name != RUN_FILE


def cut(run: str, path: Path, folder: Path) -> Iterator[Piece]:
    """A file's bytes, up to where it ends now: a table may grow meanwhile."""
    name = path.relative_to(folder).as_posix()
    left = path.stat().st_size
    with path.open("rb") as file:
        yield Piece(run, name, file.read(min(PIECE, left)))
        left -= PIECE
        while left > 0:
            yield Piece(run, name, file.read(min(PIECE, left)))
            left -= PIECE


class Arrivals:
    """Puts pieces together below a study's folder."""

    def __init__(self, study: Path):
        self._study = study
        self._open: dict[str, str] = {}
        """The file that each run's shipment is at."""

    def take(self, piece: Piece) -> None:
        folder = self._study / piece.run
        aside = folder / ARRIVING
        if not piece.path:
            self._open.pop(piece.run, None)
            settle(aside, folder)
            return
        if piece.run not in self._open and aside.exists():
            shutil.rmtree(aside)  # of a shipment that was cut off
        path = aside / piece.path
        path.parent.mkdir(parents=True, exist_ok=True)
        goes_on = self._open.get(piece.run) == piece.path
        self._open[piece.run] = piece.path
        with path.open("ab" if goes_on else "wb") as file:
            file.write(piece.data)


def settle(aside: Path, folder: Path) -> None:
    """Everything to its place, run.json last."""
    for path in sorted(aside.glob(f"{FOLDER}/*")):
        place = folder / FOLDER / path.name
        place.parent.mkdir(exist_ok=True)
        if not place.exists():
            os.rename(path, place)
    names = [path.name for path in aside.iterdir() if path.is_file()]
    for name in sorted(names, key=lambda name: name == RUN_FILE):
        os.replace(aside / name, folder / name)
    if read_run(folder).get("finished"):  # then tables are Parquet, and nothing goes on
        for table in TABLES:
            (folder / f"{table}.jsonl").unlink(missing_ok=True)
        shutil.rmtree(folder / FOLDER, ignore_errors=True)
    shutil.rmtree(aside)


def unpack(study: Path, pieces: Iterable[Piece]) -> None:
    """Puts a whole shipment into a study's folder."""
    arrivals = Arrivals(study)
    for piece in pieces:
        arrivals.take(piece)

"""Arrays on disk in `.npz` shards: streamed, hashed, and read with suspicion.

An array that is large is written in pieces of whole rows, and pieces of zeros are left out:
replay is empty at first. So an array on a device is never in host memory as a whole, and
several threads pack shards at a time. Integers are deflated (frames and their tiles shrink
to a fraction); floating-point numbers, which hardly shrink, are not.

What is read may come from a stranger. Nothing is unpickled, names in a file are never used
as paths, and an array is read only if the file says the shape, type and size that the
reader expects, so that no header makes it allocate anything else.
"""

import hashlib
import io
import math
import os
import zipfile
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.lib import format as npy

PIECE = 32 * 2**20
"""Bytes of an array that are moved at a time."""
SHARD = 128 * 2**20
"""Bytes of arrays in one file."""
PACKERS = 8
"""Threads that deflate, at most."""
HEADER = 1_024
"""Bytes that the header of an array may have."""
SUFFIX = ".npy"
UNREADABLE = (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error, RuntimeError)
"""What reading an archive may raise, whatever was done to it."""


class Damaged(Exception):
    """A file is not what was written, or not what can be used."""


class Piece(NamedTuple):
    """Rows of one array, and where they are: entry `{leaf}-{start}` of a shard."""

    leaf: int
    start: int
    stop: int

    @property
    def entry(self) -> str:
        return f"{self.leaf}-{self.start}{SUFFIX}"


class FileNote(NamedTuple):
    """What a manifest says of a file."""

    size: int
    sha256: str
    pieces: list[list[int]]


def write_arrays(folder: Path, arrays: Iterable[Any]) -> dict[str, FileNote]:
    """Writes arrays, of NumPy or of a device, into shards; returns what was written."""
    notes: dict[str, FileNote] = {}
    waiting: deque = deque()
    packers = min(PACKERS, os.cpu_count() or 1)
    with ThreadPoolExecutor(packers) as pool:
        for number, contents in enumerate(in_shards(pieces_of(arrays))):
            if len(waiting) >= packers:
                notes |= waiting.popleft().result()
            path = folder / f"shard-{number:04}.npz"
            waiting.append(pool.submit(write_shard, path, contents))
        for writing in waiting:
            notes |= writing.result()
    return notes


def pieces_of(arrays: Iterable[Any]) -> Iterator[tuple[Piece, np.ndarray]]:
    """Cuts arrays into pieces, and leaves out those that are zero."""
    for leaf, array in enumerate(arrays):
        for start, stop in cuts(array.shape, array.dtype.itemsize):
            rows = take(array, start, stop)
            if rows.reshape(-1).view(np.uint8).any():
                yield Piece(leaf, start, stop), rows


def cuts(shape: tuple[int, ...], itemsize: int) -> Iterator[tuple[int, int]]:
    """Rows (start, stop) of each piece of an array; a scalar has one row."""
    rows = shape[0] if shape else 1
    row_bytes = max(1, itemsize * int(np.prod(shape[1:], dtype=np.int64)))
    step = max(1, PIECE // row_bytes)
    for start in range(0, rows, step):
        yield start, min(start + step, rows)


def take(array: Any, start: int, stop: int) -> np.ndarray:
    """Some rows on the host; of a device's array nothing else is copied."""
    if array.ndim == 0 or (start == 0 and stop == array.shape[0]):
        rows = np.asarray(array)
    elif isinstance(array, np.ndarray):
        rows = array[start:stop]
    else:
        rows = np.asarray(_rows(array, start, stop - start))
    return np.ascontiguousarray(rows).reshape(rows.shape).view(storable(rows.dtype))


@partial(jax.jit, static_argnums=2)
def _rows(array, start, length: int):
    return jax.lax.dynamic_slice_in_dim(array, start, length)


@partial(jax.jit, donate_argnums=0)
def _put_rows(array, rows, start):
    return jax.lax.dynamic_update_slice_in_dim(array, rows, start, axis=0)


def as_bytes(rows: np.ndarray) -> memoryview:
    """The memory of an array, not a copy of it."""
    flat: Any = rows.reshape(-1).view(np.uint8)
    return memoryview(flat)


def storable(dtype: np.dtype) -> np.dtype:
    """Types that NumPy does not know by itself, such as bfloat16, as unsigned integers."""
    return dtype if dtype.isbuiltin == 1 else np.dtype(f"u{dtype.itemsize}")


def in_shards(
    pieces: Iterable[tuple[Piece, np.ndarray]],
) -> Iterator[list[tuple[Piece, np.ndarray]]]:
    shard, size = [], 0
    for piece, rows in pieces:
        if shard and size + rows.nbytes > SHARD:
            yield shard
            shard, size = [], 0
        shard.append((piece, rows))
        size += rows.nbytes
    if shard:
        yield shard


class _Hashing(io.RawIOBase):
    """A file that can only be appended to, and takes the digest of what it is given."""

    def __init__(self, file: io.BufferedWriter):
        self.file, self.digest, self.size = file, hashlib.sha256(), 0

    def write(self, data) -> int:
        self.digest.update(data)
        self.size += memoryview(data).nbytes
        return self.file.write(data)

    def flush(self) -> None:
        self.file.flush()


def write_shard(
    path: Path, contents: list[tuple[Piece, np.ndarray]]
) -> dict[str, FileNote]:
    """Writes one file and syncs it to disk; the same contents give the same bytes."""
    with path.open("wb") as file:
        hashing = _Hashing(file)
        with zipfile.ZipFile(hashing, "w", compresslevel=1) as shard:
            for piece, rows in contents:
                deflate = rows.dtype.kind in "iub"
                shard.compression = zipfile.ZIP_DEFLATED if deflate else zipfile.ZIP_STORED
                with shard.open(piece.entry, "w", force_zip64=True) as entry:
                    header = npy.header_data_from_array_1_0(rows)
                    npy.write_array_header_1_0(entry, header)
                    entry.write(as_bytes(rows))
        file.flush()
        os.fsync(file.fileno())
    pieces = [list(piece) for piece, _ in contents]
    return {path.name: FileNote(hashing.size, hashing.digest.hexdigest(), pieces)}


def verify(folder: Path, notes: Mapping[str, FileNote]) -> None:
    """Raises `Damaged` unless every file is, byte for byte, the one that was written."""
    for name, note in notes.items():
        path = folder / name
        if Path(name).name != name or path.is_symlink() or not path.is_file():
            raise Damaged(f"{name} is missing")
        if path.stat().st_size != note.size:
            raise Damaged(f"{name} has {path.stat().st_size} bytes, not {note.size}")
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != note.sha256:
                raise Damaged(f"{name} does not have the digest that it was written with")


def read_arrays(
    folder: Path,
    notes: Mapping[str, FileNote],
    wanted: Mapping[int, Any],
    on_device: bool = False,
) -> dict[int, Any]:
    """Reads arrays by their numbers.

    Args:
        folder: Of files that `verify` has found as they were written.
        wanted: Number of an array -> its shape and dtype.
        on_device: Arrays of the device, moved there piece by piece, instead of NumPy's.
    """
    arrays: dict[int, Any] = {
        leaf: (jnp if on_device else np).zeros(like.shape, like.dtype)
        for leaf, like in wanted.items()
    }
    for name, note in notes.items():
        with _open_shard(folder / name, note) as shard:
            for piece in (Piece(*numbers) for numbers in note.pieces):
                if piece.leaf in wanted:
                    rows = read_piece(shard, piece, wanted[piece.leaf])
                    arrays[piece.leaf] = _put(arrays[piece.leaf], piece, rows)
    return arrays


def _put(array: Any, piece: Piece, rows: np.ndarray) -> Any:
    if array.ndim == 0 or (piece.start, piece.stop) == (0, array.shape[0]):
        return rows if isinstance(array, np.ndarray) else jnp.asarray(rows)
    if isinstance(array, np.ndarray):
        array[piece.start : piece.stop] = rows
        return array
    return _put_rows(array, rows, piece.start)


def _open_shard(path: Path, note: FileNote) -> zipfile.ZipFile:
    try:
        shard = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        raise Damaged(f"{path.name} is no archive: {error}") from None
    entries = [info.filename for info in shard.infolist()]
    if entries != [Piece(*numbers).entry for numbers in note.pieces]:
        shard.close()
        raise Damaged(f"{path.name} does not hold what its manifest lists")
    return shard


def read_piece(shard: zipfile.ZipFile, piece: Piece, like: Any) -> np.ndarray:
    """One piece of an array that is like `like`."""
    if (piece.start, piece.stop) not in set(cuts(like.shape, like.dtype.itemsize)):
        raise Damaged(f"{piece.entry} has rows that the array does not have")
    shape = (piece.stop - piece.start, *like.shape[1:]) if like.shape else ()
    return read_entry(shard, piece.entry, jax.ShapeDtypeStruct(shape, like.dtype))


def read_entry(shard: zipfile.ZipFile, name: str, like: Any) -> np.ndarray:
    """An array of the expected shape, type and size; all three are checked first."""
    try:
        info = shard.getinfo(name)
    except KeyError:
        raise Damaged(f"it lacks {name}") from None
    dtype = storable(np.dtype(like.dtype))
    size = math.prod(like.shape) * dtype.itemsize
    try:
        with shard.open(info) as entry:
            npy.read_magic(entry)
            found = npy.read_array_header_1_0(entry, max_header_size=HEADER)
            if found != (like.shape, False, dtype):
                raise Damaged(
                    f"{name} is {found[2]}{found[0]}, expected {dtype}{like.shape}"
                )
            if not size < info.file_size <= size + HEADER:
                raise Damaged(f"{name} would have {info.file_size} bytes, not {size}")
            rows = np.empty(like.shape, dtype)
            _fill(entry, rows)
    except UNREADABLE as error:
        raise Damaged(f"{name} cannot be read: {error}") from None
    return rows.view(like.dtype)


def _fill(entry, rows: np.ndarray) -> None:
    """Reads exactly as many bytes as the rows have."""
    target = as_bytes(rows)
    done = 0
    while done < len(target):
        block = entry.read(min(len(target) - done, 2**20))
        if not block:
            raise EOFError("it is cut short")
        target[done : done + len(block)] = block
        done += len(block)
    if entry.read(1):  # reading to the end also checks the archive's own sum
        raise ValueError("it goes on after its end")

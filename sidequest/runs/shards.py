"""Arrays on disk in `.npz` shards: streamed, hashed, and read with suspicion.

A large array is written in pieces of whole rows, and pieces of zeros are left out: replay
is empty at first. So an array on a device is never in host memory as a whole, and several
threads pack shards at a time. Integers are deflated (frames and their tiles shrink to a
fraction); floating-point numbers, which hardly shrink, are not.

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
_PACKERS = 8
"""Threads that deflate, at most."""
_HEADER = 1_024
"""Bytes that the header of an array may have."""
_UNREADABLE = (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error, RuntimeError)
"""What reading an archive may raise, whatever was done to it."""


class Damaged(Exception):
    """A file is not what was written, or cannot be used."""


class _Piece(NamedTuple):
    """Rows of one array, and where they are: entry `{leaf}-{start}.npy` of a shard."""

    leaf: int
    start: int
    stop: int

    @property
    def entry(self) -> str:
        return f"{self.leaf}-{self.start}.npy"


class FileNote(NamedTuple):
    """What a manifest says of a file."""

    size: int
    sha256: str
    pieces: list[list[int]]


def write_arrays(folder: Path, arrays: Iterable[Any]) -> dict[str, FileNote]:
    """Writes arrays, of NumPy or of a device, into shards; returns what was written."""
    notes: dict[str, FileNote] = {}
    waiting: deque = deque()
    packers = min(_PACKERS, os.cpu_count() or 1)
    with ThreadPoolExecutor(packers) as pool:
        for number, contents in enumerate(_shards(_pieces(arrays))):
            if len(waiting) >= packers:
                notes |= waiting.popleft().result()
            path = folder / f"shard-{number:04}.npz"
            waiting.append(pool.submit(_write_shard, path, contents))
        for writing in waiting:
            notes |= writing.result()
    return notes


def _pieces(arrays: Iterable[Any]) -> Iterator[tuple[_Piece, np.ndarray]]:
    """Cuts arrays into pieces, and leaves out those that are zero."""
    for leaf, array in enumerate(arrays):
        for start, stop in _cuts(array.shape, array.dtype.itemsize):
            rows = _take(array, start, stop)
            if rows.reshape(-1).view(np.uint8).any():
                yield _Piece(leaf, start, stop), rows


def _cuts(shape: tuple[int, ...], itemsize: int) -> Iterator[tuple[int, int]]:
    """Yields the first and last row of each piece of an array; a scalar has one row."""
    rows = shape[0] if shape else 1
    row_bytes = max(1, itemsize * math.prod(shape[1:]))
    step = max(1, PIECE // row_bytes)
    for start in range(0, rows, step):
        yield start, min(start + step, rows)


def _take(array: Any, start: int, stop: int) -> np.ndarray:
    """Returns some rows on the host; of a device's array nothing else is copied."""
    if array.ndim == 0 or (start == 0 and stop == array.shape[0]):
        rows = np.asarray(array)
    elif isinstance(array, np.ndarray):
        rows = array[start:stop]
    else:
        rows = np.asarray(_rows(array, start, stop - start))
    return np.ascontiguousarray(rows).reshape(rows.shape).view(_storable(rows.dtype))


@partial(jax.jit, static_argnums=2)
def _rows(array, start, length: int):
    return jax.lax.dynamic_slice_in_dim(array, start, length)


@partial(jax.jit, donate_argnums=0)
def _put_rows(array, rows, start):
    return jax.lax.dynamic_update_slice_in_dim(array, rows, start, axis=0)


def _storable(dtype: np.dtype) -> np.dtype:
    """Returns unsigned integers for types that NumPy itself lacks, such as bfloat16."""
    return dtype if dtype.isbuiltin == 1 else np.dtype(f"u{dtype.itemsize}")


def _shards(
    pieces: Iterable[tuple[_Piece, np.ndarray]],
) -> Iterator[list[tuple[_Piece, np.ndarray]]]:
    """Yields the pieces of one file after the other."""
    shard, size = [], 0
    for piece, rows in pieces:
        if shard and size + rows.nbytes > SHARD:
            yield shard
            shard, size = [], 0
        shard.append((piece, rows))
        size += rows.nbytes
    if shard:
        yield shard


class _HashingFile(io.RawIOBase):
    """A file that can only be appended to, and takes the digest of what it is given."""

    def __init__(self, file: io.BufferedWriter):
        self.file, self.digest, self.size = file, hashlib.sha256(), 0

    def write(self, data) -> int:
        self.digest.update(data)
        self.size += memoryview(data).nbytes
        return self.file.write(data)

    def flush(self) -> None:
        self.file.flush()


def _write_shard(
    path: Path, contents: list[tuple[_Piece, np.ndarray]]
) -> dict[str, FileNote]:
    """Writes one file and syncs it to disk; the same contents give the same bytes."""
    with path.open("wb") as file:
        hashing = _HashingFile(file)
        with zipfile.ZipFile(hashing, "w", compresslevel=1) as shard:
            for piece, rows in contents:
                deflate = rows.dtype.kind in "iub"
                shard.compression = zipfile.ZIP_DEFLATED if deflate else zipfile.ZIP_STORED
                with shard.open(piece.entry, "w", force_zip64=True) as entry:
                    header = npy.header_data_from_array_1_0(rows)
                    npy.write_array_header_1_0(entry, header)
                    entry.write(rows.reshape(-1).view(np.uint8).data)
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
        folder: Folder of files that `verify` has accepted.
        wanted: Number of an array -> its shape and dtype.
        on_device: Arrays of the device, moved there piece by piece, instead of NumPy's.
    """
    arrays: dict[int, Any] = {
        leaf: (jnp if on_device else np).zeros(spec.shape, spec.dtype)
        for leaf, spec in wanted.items()
    }
    for name, note in notes.items():
        try:
            shard = zipfile.ZipFile(folder / name)
        except _UNREADABLE as error:
            raise Damaged(f"{name} is no archive: {error}") from None
        with shard:
            for piece in (_Piece(*numbers) for numbers in note.pieces):
                if piece.leaf in wanted:
                    rows = _read_piece(shard, piece, wanted[piece.leaf])
                    arrays[piece.leaf] = _put(arrays[piece.leaf], piece, rows)
    return arrays


def _put(array: Any, piece: _Piece, rows: np.ndarray) -> Any:
    """Writes a piece into an array, in place where that is possible."""
    if array.ndim == 0 or (piece.start, piece.stop) == (0, array.shape[0]):
        return rows if isinstance(array, np.ndarray) else jnp.asarray(rows)
    if isinstance(array, np.ndarray):
        array[piece.start : piece.stop] = rows
        return array
    return _put_rows(array, rows, piece.start)


def _read_piece(shard: zipfile.ZipFile, piece: _Piece, spec: Any) -> np.ndarray:
    """Reads one piece of an array of this shape and dtype."""
    if (piece.start, piece.stop) not in set(_cuts(spec.shape, spec.dtype.itemsize)):
        raise Damaged(f"{piece.entry} has rows that the array does not have")
    shape = (piece.stop - piece.start, *spec.shape[1:]) if spec.shape else ()
    return read_entry(shard, piece.entry, jax.ShapeDtypeStruct(shape, spec.dtype))


def read_entry(shard: zipfile.ZipFile, name: str, spec: Any) -> np.ndarray:
    """Reads an array whose shape, type and size are as expected; checks them first."""
    dtype = _storable(np.dtype(spec.dtype))
    size = math.prod(spec.shape) * dtype.itemsize
    try:
        with shard.open(name) as entry:
            npy.read_magic(entry)
            found = npy.read_array_header_1_0(entry, max_header_size=_HEADER)
            if found != (spec.shape, False, dtype):
                raise Damaged(
                    f"{name} is {found[2]}{found[0]}, expected {dtype}{spec.shape}"
                )
            data = entry.read(size + 1)  # to the end, where the archive's sum is checked
    except KeyError:
        raise Damaged(f"it lacks {name}") from None
    except _UNREADABLE as error:
        raise Damaged(f"{name} cannot be read: {error}") from None
    if len(data) != size:
        raise Damaged(f"{name} does not have {size} bytes")
    return np.frombuffer(data, dtype).reshape(spec.shape).view(spec.dtype)

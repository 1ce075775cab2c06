"""Arrays in one file, in pieces: streamed, compressed, hashed, and read with suspicion.

A large array is cut into pieces of whole rows, and pieces of zeros are left out: replay is
empty at first. So an array on a device is never in host memory as a whole, and several
threads compress at a time. Integers are deflated (frames and their tiles shrink to a
fraction); floating-point numbers, which hardly shrink, are not.

The file has the bytes of the pieces and nothing else. The list of `Piece` that is kept
beside it says what they are. A piece is decoded only if it has its digest, and only to the
size that the reader expects.
"""

import hashlib
import math
import os
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

PIECE = 32 * 2**20
"""Bytes of an array that are moved at a time."""
_DEFLATED = "iub"
"""Kinds of numbers that are worth compressing: integers and flags."""
_THREADS = 8
"""Threads that compress, at most."""


class Damaged(Exception):
    """A file is not what was written, or cannot be used."""


class Piece(NamedTuple):
    """Rows of one array, as they lie in a file."""

    array: int
    """Number of the array."""
    start: int
    stop: int
    size: int
    """Bytes in the file."""
    sha256: str


def write_arrays(path: Path, arrays: Iterable[Any]) -> list[Piece]:
    """Writes arrays, of NumPy or of a device, and returns when they are on disk."""
    pieces: list[Piece] = []
    waiting: deque = deque()
    threads = min(_THREADS, os.cpu_count() or 1)
    with path.open("xb") as file, ThreadPoolExecutor(threads) as pool:

        def write_next() -> None:
            piece, data = waiting.popleft().result()
            file.write(data)
            pieces.append(piece)

        for rows in _nonzero_rows(arrays):
            if len(waiting) >= threads:
                write_next()
            waiting.append(pool.submit(_encode, *rows))
        while waiting:
            write_next()
        file.flush()
        os.fsync(file.fileno())
    return pieces


def _nonzero_rows(arrays: Iterable[Any]) -> Iterator[tuple[int, int, int, np.ndarray]]:
    """Yields an array's number, the first and last row of a piece, and these rows; of a
    device's array nothing else is on the host."""
    for number, array in enumerate(arrays):
        array = array if array.ndim else array.reshape(1)
        for start, stop in _cuts(array):
            rows = array
            if stop - start < len(array):
                is_numpy = isinstance(array, np.ndarray)
                rows = array[start:stop] if is_numpy else _rows(array, start, stop - start)
            rows = np.ascontiguousarray(rows)
            if rows.reshape(-1).view(np.uint8).any():
                yield number, start, stop, rows


def _cuts(array: Any) -> Iterator[tuple[int, int]]:
    """Yields the first and last row of each piece of an array."""
    row_bytes = max(1, array.dtype.itemsize * math.prod(array.shape[1:]))
    step = max(1, PIECE // row_bytes)
    for start in range(0, len(array), step):
        yield start, min(start + step, len(array))


@partial(jax.jit, static_argnums=2)
def _rows(array, start, length: int):
    return jax.lax.dynamic_slice_in_dim(array, start, length)


@partial(jax.jit, donate_argnums=0)
def _put_rows(array, rows, start):
    return jax.lax.dynamic_update_slice_in_dim(array, rows, start, axis=0)


def _encode(number: int, start: int, stop: int, rows: np.ndarray) -> tuple[Piece, Any]:
    """Returns the bytes of some rows, and what there is to know about them."""
    data = rows.reshape(-1).view(np.uint8).data
    data = zlib.compress(data, 1) if rows.dtype.kind in _DEFLATED else data
    return Piece(number, start, stop, len(data), hashlib.sha256(data).hexdigest()), data


def _decode(data: bytes, piece: Piece, array: Any) -> np.ndarray:
    """Returns the rows of a piece that belongs into this array."""
    if (piece.start, piece.stop) not in _cuts(array):
        raise Damaged(f"array {piece.array} does not have rows from {piece.start} on")
    shape = (piece.stop - piece.start, *array.shape[1:])
    size = math.prod(shape) * array.dtype.itemsize
    if array.dtype.kind in _DEFLATED:
        try:
            data = zlib.decompressobj().decompress(data, size + 1)
        except zlib.error as error:
            raise Damaged(f"array {piece.array} cannot be decompressed: {error}") from None
    if len(data) != size:
        raise Damaged(f"rows of array {piece.array} do not have {size} bytes")
    return np.frombuffer(data, np.uint8).view(array.dtype).reshape(shape)


def verify(path: Path, pieces: Sequence[Piece]) -> None:
    """Raises `Damaged` unless the file is, byte for byte, the one that was written."""
    for _ in _read_pieces(path, pieces, {piece.array for piece in pieces}):
        pass


def _read_pieces(
    path: Path, pieces: Sequence[Piece], wanted: Iterable[int]
) -> Iterator[tuple[Piece, bytes]]:
    """Yields the pieces of some arrays; reads no others."""
    size = sum(piece.size for piece in pieces)
    try:
        if path.is_symlink() or path.stat().st_size != size:
            raise Damaged(f"{path.name} does not have {size} bytes")
        with path.open("rb") as file:
            for piece in pieces:
                if piece.array not in wanted:
                    file.seek(piece.size, os.SEEK_CUR)
                    continue
                data = file.read(piece.size)
                if hashlib.sha256(data).hexdigest() != piece.sha256:
                    raise Damaged(
                        f"{path.name} does not have the digest that it was written with"
                    )
                yield piece, data
    except OSError as error:
        raise Damaged(f"{path.name} cannot be read: {error.strerror}") from None


def read_arrays(
    path: Path, pieces: Sequence[Piece], wanted: Mapping[int, Any], on_device: bool = False
) -> dict[int, Any]:
    """Reads arrays; raises `Damaged` if one of them is not what was written.

    Args:
        wanted: Number of an array -> its shape and dtype.
        on_device: Arrays of the device, moved there piece by piece, instead of NumPy's.
    """
    arrays: dict[int, Any] = {
        number: (jnp if on_device else np).zeros(spec.shape or 1, spec.dtype)
        for number, spec in wanted.items()
    }
    for piece, data in _read_pieces(path, pieces, wanted):
        array = arrays[piece.array]
        rows = _decode(data, piece, array)
        if not on_device:
            array[piece.start : piece.stop] = rows
        elif len(rows) < len(array):
            arrays[piece.array] = _put_rows(array, rows, piece.start)
        else:  # nothing to compile
            arrays[piece.array] = jnp.asarray(rows)
    return {number: arrays[number].reshape(spec.shape) for number, spec in wanted.items()}

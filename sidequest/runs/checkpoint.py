"""What a run needs to resume, on disk; and the parameters of a finished run.

    RUN/checkpoints/000000204800/       one folder a checkpoint, named by its frames
        manifest.json                   what it belongs to, and the digest of every piece
        arrays.bin                      the arrays; see `arrays`

Each checkpoint is written to a temporary folder, synced, verified, then renamed, so what
has its final name is complete. Only the names tell which is the newest. Nothing is ever
unpickled. Random keys are stored as the integers that they are made of.
"""

import contextlib
import errno
import io
import json
import math
import os
import re
import shutil
import threading
import time
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

import jax
import numpy as np
from numpy.lib import format as npy

from sidequest.config import modernise
from sidequest.errors import (
    CorruptFile,
    InvalidRequest,
    cannot_write,
    resume_command,
    writing,
)
from sidequest.records import Digest, seal, sync_folder, take_digest, unseal, write_synced
from sidequest.runs.arrays import Damaged, Piece, read_arrays, verify, write_arrays
from sidequest.runs.display import Display
from sidequest.runs.spec import RunSpec, identity, refuse_other
from sidequest.runs.state import is_key

_Tree = TypeVar("_Tree")

PARAMETERS = "parameters.npz"
FOLDER = "checkpoints"
MANIFEST = "manifest.json"
ARRAYS = "arrays.bin"
LEARNER = "['run'].learner"
"""Where checkpoints keep the network and its normalisation."""
_RENAMED = ("['run'].learner.scales.", "['run'].learner.return_statistics.")
"""A path in checkpoints of former versions, and what it is now."""
SCHEMA = 8
KEPT = 2
"""Checkpoints of each run: one that turns out damaged has another before it."""
_LARGEST = 2**28
"""Bytes that a manifest may have."""
_HEADER = 1_024
"""Bytes that the header of an array in an archive may have."""
_UNREADABLE = (ValueError, OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)
"""What reading an archive may raise, whatever was done to it."""
_TEMPORARY, _REPLACED = ".part-", ".old-"


class Snapshot(NamedTuple):
    """One run between two iterations."""

    run: Mapping[str, Any]
    """Its identity: variant, game, seed, frames and every setting."""
    frames: int
    """Frames so far."""
    host: Mapping[str, Any]
    """Counters of the host, as JSON."""
    records: Mapping[str, Digest]
    """Digest of each table."""
    state: Any
    """Trees of arrays by name, of NumPy or of the device. `replay` may be left out."""


class ResumePoint(NamedTuple):
    """Says where a run starts."""

    spec: RunSpec
    snapshot: Snapshot | None
    """Its newest good checkpoint; None: from the beginning."""
    sharded: bool = False
    """Which program a CPU runs; see `ondevice.make_mesh`."""

    @property
    def frames(self) -> int:
        """Frames so far."""
        return self.snapshot.frames if self.snapshot else 0


class _Manifest(NamedTuple):
    """Holds what a checkpoint says of itself; its arrays are not verified yet."""

    path: Path
    snapshot: Snapshot
    """Without state."""
    leaves: dict[str, tuple[int, tuple[int, ...], str]]
    """Path in the tree -> number, shape and dtype of an array."""
    pieces: list[Piece]


def find_resume_point(
    spec: RunSpec,
    state_spec: Mapping[str, Any],
    say: Callable[[str], None],
    *,
    on_device: bool = False,
    sharded: bool = False,
) -> ResumePoint:
    """Returns where a run starts: at its newest good checkpoint, or at its beginning.
    Raises `CorruptFile` if there are checkpoints, but none is good."""
    found = newest(spec.folder, state_spec, say, run=identity(spec), on_device=on_device)
    if found is None and listed(spec.folder):
        raise CorruptFile(
            f"{spec.folder} cannot resume: none of its checkpoints can be used. "
            f"{resume_command([spec.folder])} --fresh sets the folder aside and starts "
            f"again"
        )
    return ResumePoint(spec, found, sharded)


def newest(
    folder: Path,
    state_spec: Any,
    say: Callable[[str], None],
    *,
    run: Mapping[str, Any] | None = None,
    **how: Any,
) -> Snapshot | None:
    """Returns the newest good checkpoint of a run, or None; `say` gets a line for each
    damaged one.

    Args:
        run: The identity that the checkpoint must have.
        how: Goes to `restore`.
    """
    for path in listed(folder):
        try:
            manifest = read_manifest(path)
            if run is not None:
                refuse_other(path, modernise(manifest.snapshot.run, run["game"]), run)
                _compare_records(folder, manifest.snapshot.records)
            return manifest.snapshot._replace(state=restore(manifest, state_spec, **how))
        except Damaged as damage:
            say(f"{path} cannot be used: {damage}")
    return None


def _compare_records(folder: Path, records: Mapping[str, Digest]) -> None:
    """Raises `Damaged` unless all rows are there that the checkpoint was written with."""
    for table, digest in records.items():
        path = folder / f"{table}.jsonl"
        found = take_digest(path, digest.size) if path.exists() else Digest(0, "")
        if found.size < digest.size:
            raise Damaged(
                f"{path.name} was cut short: {found.size} bytes are left of {digest.size}"
            )
        if found != digest:
            raise Damaged(f"{path.name} does not have the digest that it was written with")


def listed(folder: Path) -> list[Path]:
    """Returns the checkpoints of a run, good or damaged, newest first."""
    with contextlib.suppress(FileNotFoundError):
        found = (folder / FOLDER).iterdir()
        numbered = (path for path in found if re.fullmatch(r"\d{12,}", path.name))
        return sorted(numbered, key=lambda path: int(path.name), reverse=True)
    return []


def read_manifest(path: Path) -> _Manifest:
    """Raises `Damaged` if the manifest is not as it was written, or of another schema."""
    try:
        if (path / MANIFEST).stat().st_size > _LARGEST:
            raise Damaged(f"{MANIFEST} is too large")
        text = (path / MANIFEST).read_bytes()
        body = json.loads(text)
        schema = body.get("schema", "6 or less")
        if schema != SCHEMA:
            raise Damaged(f"{MANIFEST} is of schema {schema}; this version reads {SCHEMA}")
        body = unseal(body)
        leaves = {
            leaf["path"].replace(*_RENAMED): (number, tuple(leaf["shape"]), leaf["dtype"])
            for number, leaf in enumerate(body["state"])
        }
        pieces = [Piece(*piece) for piece in body["pieces"]]
        records = {table: Digest(**own) for table, own in body["records"].items()}
        content = (body["run"], int(body["frames"]), body["host"], records)
        return _Manifest(path, Snapshot(*content, state=None), leaves, pieces)
    except OSError as error:
        raise Damaged(f"{MANIFEST} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Damaged(f"{MANIFEST} is no manifest: {error}") from None


def restore(
    manifest: _Manifest, state_spec: Any, *, under: str = "", on_device: bool = False
) -> Any:
    """Returns the saved state in the structure of `state_spec`, verified.

    Args:
        state_spec: A tree of arrays or of their shapes and dtypes, random keys included.
            Its entry `replay` is left out if the checkpoint has none.
        under: Path of the part of the state to read; empty for all of it.
        on_device: Leave arrays on the device; large ones are never on the host as a whole.
    """
    if not under and not any(path.startswith("['replay']") for path in manifest.leaves):
        state_spec = {name: own for name, own in state_spec.items() if name != "replay"}
    expected = jax.eval_shape(portable, state_spec)
    wanted = {}
    for path, leaf in by_path(expected).items():
        path = under + path
        number, shape, dtype = manifest.leaves.get(path, (-1, (), ""))
        if number < 0:
            raise Damaged(f"it lacks {path}")
        if shape != leaf.shape or dtype != str(leaf.dtype):
            raise Damaged(f"{path} is {dtype}{shape}, expected {leaf.dtype}{leaf.shape}")
        wanted[number] = leaf
    if not under and len(wanted) != len(manifest.leaves):
        raise Damaged("it holds arrays that this run does not have")
    path = manifest.path / ARRAYS
    arrays = read_arrays(path, manifest.pieces, wanted, on_device)
    leaves = [arrays[number] for number in wanted]
    found = jax.tree.unflatten(jax.tree.structure(expected), leaves)
    return jax.tree.map(revive, state_spec, found)


def write(folder: Path, snapshot: Snapshot) -> int:
    """Writes a checkpoint of the run in `folder`; returns its size in bytes."""
    home = folder / FOLDER
    place = home / f"{snapshot.frames:012}"
    part = home / f"{_TEMPORARY}{place.name}"
    home.mkdir(exist_ok=True)
    if home.is_symlink():
        raise OSError(errno.ELOOP, "it is a link", str(home))
    # A process that was killed while writing may have left some.
    for left in [*home.glob(f"{_TEMPORARY}*"), *home.glob(f"{_REPLACED}*")]:
        shutil.rmtree(left, ignore_errors=True)
    part.mkdir()
    try:
        arrays = by_path(portable(snapshot.state))
        pieces = write_arrays(part / ARRAYS, arrays.values())
        body = {
            "schema": SCHEMA,
            **snapshot._asdict(),
            "records": {name: own._asdict() for name, own in snapshot.records.items()},
            "state": [
                {"path": path, "shape": list(array.shape), "dtype": str(array.dtype)}
                for path, array in arrays.items()
            ],
            "pieces": pieces,
        }
        text = seal(body, indent=None)
        write_synced(part / MANIFEST, text)
        verify(part / ARRAYS, pieces)
        if (part / MANIFEST).read_bytes() != text:
            raise Damaged(f"{MANIFEST} does not read as it was written")
        sync_folder(part)
        _put_in_place(part, place)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    return len(text) + sum(piece.size for piece in pieces)


def _put_in_place(part: Path, place: Path) -> None:
    """Renames a checkpoint; a damaged one of the same name makes way first."""
    if place.exists():
        replaced = place.with_name(_REPLACED + place.name)
        os.rename(place, replaced)
        os.rename(part, place)
        shutil.rmtree(replaced)
    else:
        os.rename(part, place)
    sync_folder(place.parent)


def prune(folder: Path, good: Sequence[int]) -> None:
    """Removes all but the newest of the checkpoints that are known to be good."""
    kept = {f"{frames:012}" for frames in sorted(good)[-KEPT:]}
    for path in listed(folder):
        if path.name not in kept:
            shutil.rmtree(path, ignore_errors=True)


_TakeSnapshots: TypeAlias = Callable[[], Mapping[Path, Snapshot]]
"""Copies the state of runs; returns snapshots, by folder, that change no more."""


class CheckpointWriter:
    """Writes checkpoints of runs that train together, in a thread of its own.

    A checkpoint that cannot be written does not end a run: the next one is tried when it
    is due, and those before it stay.
    """

    def __init__(
        self, folders: Sequence[Path], every: int, display: Display, resumed_at: int = 0
    ):
        self._folders, self._every, self._display = folders, every, display
        self._good = [resumed_at] if resumed_at else []
        self._thread: threading.Thread | None = None
        self._failure: Exception | None = None

    def __enter__(self) -> "CheckpointWriter":
        return self

    def __exit__(self, *_) -> None:
        self.wait()

    def is_due(self, before: int, now: int) -> bool:
        """Returns whether a multiple of the interval lies between two counts of frames."""
        return now // self._every > before // self._every

    def save(self, take: _TakeSnapshots) -> None:
        """Copies the state of the runs, and writes it while they train on."""
        begin = time.perf_counter()
        self.wait()
        try:
            snapshots = take()
        except OSError as error:
            self._report(error)
            return
        paused = time.perf_counter() - begin
        leaves = jax.tree.leaves([snapshot.state for snapshot in snapshots.values()])
        if any(isinstance(leaf, jax.Array) and not is_key(leaf) for leaf in leaves):
            # The next chunk of training replaces what is on the device.
            self._write(snapshots, paused, in_background=False)
            return
        self._thread = threading.Thread(target=self._write, args=(snapshots, paused))
        self._thread.start()

    def save_now(self, take: _TakeSnapshots) -> None:
        """Writes before it returns; raises `CannotWrite` if that is not possible."""
        self.save(take)
        self.wait()
        if self._failure:
            raise cannot_write(self._folders[0] / FOLDER, self._failure)

    def wait(self) -> None:
        """Waits until nothing is being written."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _write(
        self, snapshots: Mapping[Path, Snapshot], paused: float, in_background: bool = True
    ) -> None:
        begin, size, frames = time.perf_counter(), 0, 0
        self._failure = None
        try:
            for folder, snapshot in snapshots.items():
                frames = snapshot.frames
                size += write(folder, snapshot)
        except Exception as error:  # such as no memory: in a thread nobody would see it
            self._report(error)
            return
        self._good = sorted({*self._good, frames})[-KEPT:]
        for folder in snapshots:
            prune(folder, self._good)
        seconds = time.perf_counter() - begin
        paused += 0.0 if in_background else seconds
        self._display.say(
            f"saved at {frames:,} frames: {size / 1e6:,.1f} MB in {seconds:.1f} s "
            f"(training paused for {paused:.2f} s)"
        )

    def _report(self, error: Exception) -> None:
        self._failure, kept = error, "there is none yet"
        if self._good:
            kept = f"the checkpoint at {self._good[-1]:,} frames is kept"
        reason = str(error) or repr(error)
        self._display.say(
            f"no checkpoint was written: {reason}; {kept}, training continues"
        )


def portable(tree: _Tree) -> _Tree:
    """Returns a tree with integers for random keys."""
    return jax.tree.map(lambda x: jax.random.key_data(x) if is_key(x) else x, tree)


def revive(spec, array):
    """Returns a random key made of its integers where `spec` is one, else the array."""
    return jax.random.wrap_key_data(array) if is_key(spec) else array


def by_path(tree) -> dict[str, Any]:
    """Returns a tree's arrays by their paths in it."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(where): leaf for where, leaf in leaves}


def save(path: Path, tree) -> None:
    """Writes the arrays of a tree, each under its path in the tree; raises `CannotWrite`
    if that is not possible."""
    content = io.BytesIO()
    np.savez(content, allow_pickle=False, **by_path(tree))
    with writing(path):
        write_synced(path, content.getvalue())


def load(path: Path, data: bytes, spec: _Tree) -> _Tree:
    """Reads what `save` wrote to `path` into the structure of `spec`; raises
    `InvalidRequest` if it is damaged, or belongs to another network."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as saved:
            arrays = [
                _read_entry(saved, f"{name}.npy", leaf)
                for name, leaf in by_path(spec).items()
            ]
    except _UNREADABLE as damage:
        raise InvalidRequest(
            f"{path} is of another network, or damaged: {damage}"
        ) from None
    return jax.tree.unflatten(jax.tree.structure(spec), arrays)


def _read_entry(archive: zipfile.ZipFile, name: str, spec: Any) -> np.ndarray:
    """Reads an array if its shape and type are as expected; checks them first."""
    if name not in archive.NameToInfo:
        raise ValueError(f"it lacks {name}")
    with archive.open(name) as entry:
        npy.read_magic(entry)
        shape, _, dtype = npy.read_array_header_1_0(entry, max_header_size=_HEADER)
        if (shape, dtype) != (spec.shape, spec.dtype):
            raise ValueError(f"{name} is {dtype}{shape}, expected {spec.dtype}{spec.shape}")
        size = math.prod(shape) * dtype.itemsize
        data = entry.read(size + 1)  # to the end, where the archive's sum is checked
    return np.frombuffer(data, dtype).reshape(shape)

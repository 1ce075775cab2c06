"""What a run needs to go on, on disk; and the parameters that it leaves behind.

    RUN/checkpoints/000000204800/       one folder a checkpoint, named by its frames
        manifest.json                   what it is of, and the digest of every file
        shard-0000.npz ...              the arrays; see `shards`

A checkpoint is written beside its place, synced, read back and compared, and only then
renamed into it: what has its name is whole. Nothing says which is the newest but the names.
No file is ever unpickled. Random keys are kept as the integers that they are made of.
"""

import contextlib
import os
import re
import shutil
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np

from sidequest.runs.keys import is_key
from sidequest.runs.manifest import (
    MANIFEST,
    SCHEMA,
    Manifest,
    read_manifest,
    sealed,
)
from sidequest.runs.shards import (
    Damaged,
    read_arrays,
    read_entry,
    verify,
    write_arrays,
)
from sidequest.runs.spec import refuse_other

Tree = TypeVar("Tree")

PARAMETERS = "parameters.npz"
FOLDER = "checkpoints"
KEPT = 2
"""Of each run: a checkpoint that turns out bad on disk has one before it."""
BESIDE, ASIDE = ".part-", ".old-"


class Snapshot(NamedTuple):
    """One run between two blocks."""

    run: Mapping[str, Any]
    """What it is a run of: variant, game, seed, frames and every setting."""
    frames: int
    """Done so far."""
    host: Mapping[str, Any]
    """The counters of the host's side, as JSON."""
    records: Mapping[str, int]
    """Bytes of each table."""
    state: Any
    """A tree of arrays, of NumPy or of the device."""


def write(folder: Path, snapshot: Snapshot) -> int:
    """Writes a checkpoint of the run in `folder`; returns its size in bytes."""
    home = folder / FOLDER
    place = home / f"{snapshot.frames:012}"
    beside = home / f"{BESIDE}{place.name}"
    home.mkdir(exist_ok=True)
    clear(home)
    beside.mkdir()
    try:
        paths, arrays = named_arrays(snapshot.state)
        notes = write_arrays(beside, arrays)
        body = {
            "schema": SCHEMA,
            **snapshot._asdict(),
            "state": [
                {"path": path, "shape": list(array.shape), "dtype": str(array.dtype)}
                for path, array in zip(paths, arrays, strict=True)
            ],
            "files": {name: note._asdict() for name, note in notes.items()},
        }
        text = sealed(body)
        write_synced(beside / MANIFEST, text)
        verify(beside, notes)
        if (beside / MANIFEST).read_bytes() != text:
            raise Damaged(f"{MANIFEST} does not read as it was written")
        sync_folder(beside)
        put_in_place(beside, place)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    return len(text) + sum(note.size for note in notes.values())


def put_in_place(beside: Path, place: Path) -> None:
    """Renames; a bad checkpoint of the same name makes way first."""
    if place.exists():
        aside = place.with_name(ASIDE + place.name)
        os.rename(place, aside)
        os.rename(beside, place)
        shutil.rmtree(aside)
    else:
        os.rename(beside, place)
    sync_folder(place.parent)


def clear(home: Path) -> None:
    """Removes what a process that was killed while writing has left."""
    for left in [*home.glob(f"{BESIDE}*"), *home.glob(f"{ASIDE}*")]:
        shutil.rmtree(left, ignore_errors=True)


def prune(folder: Path, good: Sequence[int]) -> None:
    """Removes all but the newest of the checkpoints that are known to be good."""
    kept = {f"{frames:012}" for frames in sorted(good)[-KEPT:]}
    for path in listed(folder):
        if path.name not in kept:
            shutil.rmtree(path, ignore_errors=True)


def listed(folder: Path) -> list[Path]:
    """The checkpoints of a run, newest first; good or bad."""
    with contextlib.suppress(FileNotFoundError):
        found = (folder / FOLDER).iterdir()
        numbered = (path for path in found if re.fullmatch(r"\d{12,}", path.name))
        return sorted(numbered, key=lambda path: int(path.name), reverse=True)
    return []


def restore(manifest: Manifest, like: Tree, *, under: str = "", on_device=False) -> Tree:
    """The saved state in the structure of `like`; its files are verified first.

    Args:
        like: A tree of arrays or of their shapes and dtypes, random keys among them.
        under: Path of the part of the state that is wanted; empty for all of it.
        on_device: Leave arrays on the device; large ones never lie on the host as a whole.
    """
    expected = jax.eval_shape(portable, like)
    leaves, structure = jax.tree_util.tree_flatten_with_path(expected)
    wanted = {}
    for where, leaf in leaves:
        path = under + jax.tree_util.keystr(where)
        number, shape, dtype = manifest.leaves.get(path, (-1, (), ""))
        if number < 0:
            raise Damaged(f"it lacks {path}")
        if shape != leaf.shape or dtype != str(leaf.dtype):
            raise Damaged(f"{path} is {dtype}{shape}, expected {leaf.dtype}{leaf.shape}")
        wanted[number] = leaf
    if not under and len(wanted) != len(manifest.leaves):
        raise Damaged("it holds arrays that this run does not have")
    try:
        verify(manifest.path, manifest.files)
        arrays = read_arrays(manifest.path, manifest.files, wanted, on_device)
    except (TypeError, OSError) as error:
        raise Damaged(str(error)) from None
    found = jax.tree_util.tree_unflatten(structure, [arrays[number] for number in wanted])
    return jax.tree.map(revive, like, found)


def newest(
    folder: Path,
    like: Any,
    say: Callable[[str], None],
    *,
    run: Mapping[str, Any] | None = None,
    fit: Callable[[Manifest, Any], Any] = lambda _, like: like,
    **how: Any,
) -> tuple[Manifest, Any] | None:
    """The newest checkpoint of a run that is good, and its state; None if none is.

    Args:
        like: The structure of the state.
        say: Is told of those that are bad.
        run: What the checkpoint must be of.
        fit: Leaves out of `like` what a checkpoint does not hold.
        how: Goes to `restore`.
    """
    for path in listed(folder):
        try:
            manifest = read_manifest(path)
            if run is not None:
                refuse_other(path, manifest.run, run)
                compare_records(folder, manifest.records)
            return manifest, restore(manifest, fit(manifest, like), **how)
        except Damaged as damage:
            say(f"{path} cannot be used: {damage}")
    return None


def compare_records(folder: Path, records: Mapping[str, int]) -> None:
    """Rows that were there when the checkpoint was written must still be."""
    for table, size in records.items():
        path = folder / f"{table}.jsonl"
        found = path.stat().st_size if path.exists() else 0
        if found < size:
            raise Damaged(f"{path.name} was cut short: {found} bytes are left of {size}")


def portable(tree: Tree) -> Tree:
    """With integers for random keys."""

    def convert(leaf):
        return jax.random.key_data(leaf) if is_key(leaf) else leaf

    return jax.tree.map(convert, tree)


def revive(like, array):
    """Makes a random key of its integers, where `like` is one."""
    return jax.random.wrap_key_data(array) if is_key(like) else array


def named_arrays(tree) -> tuple[list[str], list[Any]]:
    """The arrays of a tree, and the path of each."""
    leaves = jax.tree_util.tree_leaves_with_path(portable(tree))
    return [jax.tree_util.keystr(where) for where, _ in leaves], [
        leaf for _, leaf in leaves
    ]


def write_synced(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def save(path: Path, tree) -> None:
    """Writes the arrays of a pytree, each under its path in the tree."""
    paths, leaves = named_arrays(tree)
    arrays = {path: np.asarray(leaf) for path, leaf in zip(paths, leaves, strict=True)}
    beside = path.with_name(path.name + ".part")
    with beside.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)


def load(path: Path, like: Tree) -> Tree:
    """Reads arrays into the structure of `like`; shapes and types must be its own."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(like)
    try:
        with zipfile.ZipFile(path) as saved:
            arrays = [
                read_entry(saved, f"{jax.tree_util.keystr(where)}.npy", leaf)
                for where, leaf in leaves
            ]
    except (Damaged, zipfile.BadZipFile) as damage:
        raise ValueError(f"{path} is of another network, or damaged: {damage}") from None
    return jax.tree_util.tree_unflatten(structure, arrays)

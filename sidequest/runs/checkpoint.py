"""Parameters on disk: arrays in an `.npz` file, never pickled, renamed into place."""

import os
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np

Tree = TypeVar("Tree")

PARAMETERS = "parameters.npz"


def save(path: Path, tree) -> None:
    """Writes the arrays of a pytree, each under its path in the tree."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    arrays: dict[str, Any] = {
        jax.tree_util.keystr(where): np.asarray(leaf) for where, leaf in leaves
    }
    beside = path.with_name(path.name + ".part")
    with beside.open("wb") as file:
        np.savez(file, **arrays)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)


def load(path: Path, like: Tree) -> Tree:
    """Reads arrays into the structure of `like`; shapes and types must be its own."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(like)
    restored = []
    with np.load(path, allow_pickle=False) as saved:
        for where, leaf in leaves:
            name = jax.tree_util.keystr(where)
            if name not in saved:
                raise ValueError(f"{path} lacks {name}: it is of another network")
            array = saved[name]
            if array.shape != leaf.shape or array.dtype != leaf.dtype:
                raise ValueError(
                    f"{path}: {name} is {array.dtype}{array.shape}, "
                    f"expected {leaf.dtype}{leaf.shape}"
                )
            restored.append(array)
    return jax.tree_util.tree_unflatten(structure, restored)

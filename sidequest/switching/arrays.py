"""What NumPy and JAX do differently: all else in `switching` is written once for both.

Functions of `switching` take arrays of either library and return the same kind. They are
written for one environment, which `jax.vmap` turns into many, and broadcast over a batch
axis [B], which is the last one of every array: NumPy runs all environments at once so.

NumPy updates big tables in place; after a step its former state is not to be used again,
like a buffer that was donated in JAX.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

# Constants without axes cost NumPy half as much as plain numbers do.
ZERO, ONE, NAN, INFINITY = (
    np.array(number, np.float32) for number in (0.0, 1.0, np.nan, np.inf)
)
NO_STEP, ONE_STEP = np.array(0, np.int32), np.array(1, np.int32)
FALSE = np.array(False)
_BIG = 64  # rows of a table that NumPy updates in place
_ARRAYS = (np.ndarray, np.generic)
_NUMPY = (*_ARRAYS, float, int, bool)


def namespace(*arrays: Any) -> Any:
    """Returns the module that computes with these: jax.numpy if one is JAX's, or numpy."""
    for array in arrays:
        if not isinstance(array, _NUMPY):
            return array.__array_namespace__()
    return np


def tree_map(function: Callable[..., Any], tree: Any, *others: Any) -> Any:
    """Applies a function to the arrays of nested (named) tuples of the same structure."""
    if not isinstance(tree, tuple):
        return function(tree, *others)
    parts = [tree_map(function, *each) for each in zip(tree, *others, strict=True)]
    return type(tree)(*parts) if hasattr(tree, "_fields") else tuple(parts)


def repeat(tree: Any, size: int) -> Any:
    """Returns the state of `size` environments, all equal to this one."""

    def repeated(leaf: Any) -> np.ndarray:
        leaf = np.asarray(leaf)
        # In memory the numbers of one environment follow each other in a big table.
        order = "F" if leaf.ndim and len(leaf) >= _BIG else "C"
        return np.array(np.broadcast_to(leaf[..., None], (*leaf.shape, size)), order=order)

    return tree_map(repeated, tree)


def choose(where: Any, new: Any, old: Any) -> Any:
    """Returns the arrays of `new` where marked, else those of `old`; NumPy reuses `new`."""
    xp = namespace(where)
    if xp is not np:
        return tree_map(
            lambda new, old: old if new is old else xp.where(where, new, old), new, old
        )
    if not surely_all(where):
        _copy_back(~where, new, old)
    return new


def _copy_back(where: Any, new: Any, old: Any) -> None:
    for one, other in zip(new, old, strict=True):
        if one is other:  # a table that was updated in place, or what nobody changes
            continue
        if type(one) is not np.ndarray:
            _copy_back(where, one, other)
        elif one.ndim == 1:
            np.putmask(one, where, other)
        else:
            np.copyto(one, other, where=where)


def may_hold(where: Any) -> bool:
    """Returns whether anything is marked; JAX, which cannot tell yet, says True."""
    # np.count_nonzero would take three times as long. True may be any byte but 0.
    return not isinstance(where, _ARRAYS) or bool(where.tobytes().strip(b"\0"))


def surely_all(where: Any) -> bool:
    """Returns whether everything is marked; JAX, which cannot tell yet, says False."""
    return isinstance(where, _ARRAYS) and 0 not in where.tobytes()


def overwrite(array: Any, where: Any, new: Any) -> Any:
    """Returns the array with `new` where marked; NumPy writes into it, for half the cost.

    So the array has to be the caller's own, and have the shape of `where`.
    """
    xp = namespace(array, where, new)
    if xp is not np or not isinstance(array, np.ndarray):
        return xp.where(where, new, array)
    np.putmask(array, where, new)
    return array


def branch(index: Any, branches: Sequence[Callable[..., Any]], *arguments: Any) -> Any:
    """Returns what the branch of this index returns; JAX evaluates all of them."""
    if isinstance(index, _NUMPY):
        return branches[int(index)](*arguments)
    xp, results = namespace(index), [each(*arguments) for each in branches]
    chosen = results[0]
    for number in range(1, len(results)):
        here = index == number
        chosen = tree_map(functools.partial(xp.where, here), results[number], chosen)
    return chosen


def update_if_any(where: Any, update: Callable[[Any], Any], state: Any) -> Any:
    """Returns update(state) if anything is marked, else the state."""
    xp = namespace(where)
    if xp is np:
        return update(state) if may_hold(where) else state
    from jax import lax

    return lax.cond(xp.any(where), update, lambda same: same, state)


def columns(where: Any, tree: Any) -> tuple[Any, Any]:
    """Returns marks and arrays without the columns that are not marked.

    JAX, whose shapes are fixed, keeps all columns and their marks.
    """
    if namespace(where) is not np:
        return where, tree
    kept = where.nonzero()[0]
    return where[kept], tree_map(lambda leaf: leaf[..., kept], tree)


def fill(where: Any, new: Any, old: Any) -> Any:
    """Returns the arrays of `old` with those of `new`, made of `columns`, where marked."""
    xp = namespace(where)
    kept = where.nonzero()[0] if xp is np else None

    def put_columns(new: Any, old: Any) -> Any:
        if not old.ndim:
            return new  # the same for all environments
        if kept is None:
            return xp.where(where, new, old)
        filled = old.copy() if len(old) < _BIG or old.ndim == 1 else old
        filled[..., kept] = new
        return filled

    return tree_map(put_columns, new, old)


def locate(index: Any, rows: int) -> Any:
    """Returns the place of a row for each environment, for `take`, `put` and `add_columns`.

    In JAX it is marks of all rows: a comparison with every row is cheaper than a gather
    and a scatter, and fuses with all around it. In NumPy it is a place in the flat table.
    """
    xp = namespace(index)
    if xp is not np:
        return xp.arange(rows).reshape(-1, *[1] * index.ndim) == index[None]
    if not index.ndim:
        return index
    size, numbers = _numbers(index.size)
    return index * size + numbers


def take(table: Any, place: Any) -> Any:
    """Returns the row of the table at each environment's place."""
    xp = namespace(place)
    if xp is np:
        return table.take(place)
    return xp.where(place, table, 0).sum(0, dtype=table.dtype)


def put(table: Any, place: Any, row: Any) -> Any:
    """Returns the table with this row at each environment's place."""
    xp = namespace(place)
    if xp is not np:
        return xp.where(place, row[None], table)
    table = table.copy()
    table.put(place, row)
    return table


def push(windows: Sequence[Any], newest: Sequence[Any]) -> list[Any]:
    """Returns each window with its newest row at the end and without its oldest."""
    xp = namespace(*windows, *newest)
    if xp is np:
        kept = _without_first(len(windows[0]))
        pushed = [window.take(kept, 0) for window in windows]
        for window, row in zip(pushed, newest, strict=True):
            window[-1] = row
        return pushed

    def push_one(window: Any, row: Any) -> Any:
        row = xp.broadcast_to(xp.asarray(row, window.dtype), window.shape[1:])
        return xp.concatenate([window[1:], row[None]])

    return [*map(push_one, windows, newest)]


def add_columns(tables: Any, where: Any, index: Any, rows: Any) -> Any:
    """Adds rows to tables at each marked environment's index; NumPy does so in place."""
    xp = namespace(where)
    if xp is np:
        kept = where.nonzero()[0]
        place = (index[kept], kept)
        for table, row in zip(tables, rows, strict=True):
            np.add.at(table, place, row[kept] if row.ndim else row)
        return tables
    place = locate(index, len(tables[0])) & where[None]
    return tuple(
        table + xp.where(place, row, 0) for table, row in zip(tables, rows, strict=True)
    )


def clear(table: Any, where: Any) -> Any:
    """Sets the table to 0 for each marked environment; NumPy does so in place."""
    xp = namespace(where, table)
    if xp is not np:
        return xp.where(where, 0, table)
    table[..., where.nonzero()[0]] = 0
    return table


def pick(table: Any, index: Any) -> Any:
    """Returns the row of a big table at each environment's index."""
    xp = namespace(table, index)
    if xp is np:
        return table.take(locate(index, len(table)))
    return xp.take_along_axis(table, index[None], axis=0)[0]


def sum_by(index: Any, values: Any, size: int, edges: tuple[int, ...]) -> Any:
    """Returns the sums of the values of each index 0 .. size-1, between any two edges.

    index [*D W], values [W] or [*D W] -> sums [*D J size] of J stretches of the last axis.
    """
    xp = namespace(index, values)
    if xp is not np:
        here = index[..., None, :] == xp.arange(size)[:, None]
        values = xp.where(here, values[..., None, :], 0.0)
        stretches = itertools.pairwise(edges)
        return xp.stack([values[..., a:b].sum(-1) for a, b in stretches], axis=-2)
    stretch, bins = _stretches(edges, size), (len(edges) - 1) * (size + 1)
    index, values = index[..., edges[0] : edges[-1]], values[..., edges[0] : edges[-1]]
    rows = index.reshape(-1, len(stretch)) + stretch
    weights = values.reshape(-1, len(stretch))
    sums = np.empty((len(rows), bins), np.float32)
    for row, summed in enumerate(sums):
        summed[:] = np.bincount(rows[row], weights[row % len(weights)], bins)
    return sums.reshape(*index.shape[:-1], -1, size + 1)[..., 1:]


@functools.lru_cache(maxsize=64)
def _stretches(edges: tuple[int, ...], size: int) -> np.ndarray:
    """Returns the first bin of each place's stretch; the bin before it is for index -1."""
    stretch = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
    return stretch * (size + 1) + 1


def slide(row: Any, start: Any, size: int) -> Any:
    """Returns `size` numbers of the last axis, from a place that may be an array."""
    if namespace(row, start) is np:
        return row[..., start : start + size]
    from jax import lax

    return lax.dynamic_slice_in_dim(row, start, size, axis=-1)


def fold_marked(
    add: Callable[[Any, Any, Any], Any], state: Any, items: Any, where: Any, most: int
) -> Any:
    """Calls add(state, items, count) with the marked items in order, `most` at a time.

    NumPy takes all at once. In JAX, whose shapes are fixed, zeros follow `count` items.
    """
    xp = namespace(where)
    if xp is np:
        marked = where.nonzero()[0]
        return add(state, tree_map(lambda leaf: leaf[marked], items), len(marked))
    from jax import lax

    count = xp.sum(where)
    size = -(-len(where) // most) * most
    place = xp.where(where, xp.cumsum(where) - 1, size)

    def to_front(leaf: Any) -> Any:
        empty = xp.zeros((size, *leaf.shape[1:]), leaf.dtype)
        return empty.at[place].set(leaf, mode="drop")

    items = tree_map(to_front, items)
    if size <= most:
        return add(state, items, count)

    def add_part(i: Any, state: Any) -> Any:
        first = i * most
        part = tree_map(lambda leaf: lax.dynamic_slice_in_dim(leaf, first, most), items)
        return add(state, part, xp.minimum(count - first, most))

    return lax.fori_loop(0, -(-count // most), add_part, state)


@functools.lru_cache(maxsize=64)
def _without_first(size: int) -> np.ndarray:
    """Returns the places 1 .. size-1, and the last one again."""
    return np.minimum(np.arange(1, size + 1), size - 1)


@functools.lru_cache(maxsize=64)
def _numbers(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns a size as an array, and the numbers below it."""
    return np.array(size), np.arange(size)

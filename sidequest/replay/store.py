"""Storage of replay's blocks: a ring that overwrites its oldest block.

Blocks are numbered 0, 1, 2, ...; block n is in slot n % N. A store holds the newest of
them. The plain one below holds exactly N; one that runs out of memory earlier (`tiles.py`)
may hold fewer, and returns the oldest with each write.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree


class Ring(NamedTuple):
    """The sizes of a ring of blocks, and of the items that are read from it."""

    blocks: int
    """N: the most blocks that it holds."""
    streams: int
    block_length: int
    item_blocks: int
    """Number of consecutive blocks that an item is part of."""
    skipped: int
    """Steps of an item's first block before the item starts."""

    @property
    def item_length(self) -> int:
        return self.item_blocks * self.block_length - self.skipped


class Store(NamedTuple):
    """Pure functions that store blocks of steps and read the steps of items."""

    init: Callable[[], PyTree]
    write: Callable[[PyTree, Int[Array, ""], PyTree], tuple[PyTree, Int[Array, ""]]]
    """(state, n, steps [L, B, ...]) -> state, number of the oldest block still held."""
    read: Callable[[PyTree, Int[Array, " batch"], Int[Array, " batch"]], PyTree]
    """(state, an item's first block, its stream) -> steps [batch, time, ...]."""


MakeStore: TypeAlias = Callable[[PyTree, Ring], Store]
"""(one step of one stream, sizes) -> store. Raises ValueError if the sizes are wrong."""


def raw_store(step_example: PyTree, ring: Ring) -> Store:
    """Returns a store with one ring [N, B, L, ...] for each array."""
    return Store(
        init=lambda: init_ring(step_example, ring),
        write=lambda state, number, steps: (
            write_ring(state, number, steps),
            jnp.maximum(number + 1 - ring.blocks, 0),
        ),
        read=lambda state, first, stream: read_ring(state, first, stream, ring=ring),
    )


def init_ring(step_example: PyTree, ring: Ring) -> PyTree:
    """Returns empty rings for the arrays of a step."""
    shape = (ring.blocks, ring.streams, ring.block_length)
    return jax.tree.map(lambda x: jnp.zeros(shape + x.shape, x.dtype), step_example)


def write_ring(rings: PyTree, number: Int[Array, ""], steps: PyTree) -> PyTree:
    """Writes block `number` [L, B, ...] over the oldest one."""

    # Stored as [B, L], so that what is read together lies together: on a CPU, items of
    # small images are read twice as fast as from [L, B].
    def write(array, block):
        return array.at[number % len(array)].set(jnp.swapaxes(block, 0, 1))

    return jax.tree.map(write, rings, steps)


def read_ring(
    rings: PyTree,
    first: Int[Array, " batch"],
    stream: Int[Array, " batch"],
    *,
    ring: Ring,
) -> PyTree:
    """Returns the steps of items that start in block `first`: [batch, time, ...]."""
    slots = (first[:, None] + jnp.arange(ring.item_blocks)[None]) % ring.blocks

    def read(array):
        blocks = array[slots, stream[:, None]]
        steps = blocks.reshape(len(first), -1, *array.shape[3:])
        return steps[:, ring.skipped :]

    return jax.tree.map(read, rings)

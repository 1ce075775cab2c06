"""Prioritised replay of sequences: add a block, sample items, set new priorities.

A *stream* is the endless sequence of one environment's steps. A *block* is `block_length`
(L) steps of all B streams. An *item* (k, b) is a sequence of stream b: `prefix` (P) steps
of burn-in, then the blocks k and k + 1, which are trained on. Neighbouring items overlap by
a block, as the paper's sequences of 80 steps overlap by 40. For L = 4 and P = 2:

    step      0  1  2  3 | 4  5  6  7 | 8  9 10 11 |12 13 14 15
    block     0          | 1          | 2          | 3
    item 1          p  p   t  t  t  t   t  t  t  t
    item 2                       p  p   t  t  t  t   t  t  t  t
    core            ^            ^            ^            ^

Episodes may end inside; whoever unrolls an item resets the recurrent state there. That
state is stored where prefixes start: before step `core_offset` = (-P) mod L of each block.
Item 1 completes when block 2 is added. If blocks 0 to 2 are all that fit, block 3 then
overwrites block 0: item 1 is gone, item 2 is complete.

A *store* holds the steps: the newest N blocks at most, block n in slot n % N. `raw_store`
holds exactly N; one that runs out of memory earlier (`tiles.py`) may hold fewer, and
returns the oldest with each write.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from sidequest.types import Key

TRAINED_BLOCKS = 2
"""Blocks of an item that are trained on, after its prefix."""

_LOWEST_PRIORITY = 1e-6
"""An item without any error must remain sampleable."""

_HIGHEST_PRIORITY = 1e30
"""So that 10^5 of them still have a finite sum in float32."""


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


class ReplayState(NamedTuple):
    """N blocks of B streams."""

    contents: PyTree
    """The store's own state: the steps of the blocks."""
    cores: PyTree
    """Recurrent states before step `core_offset` of each block: [N, B, ...]."""
    priorities: Float[Array, "N B"]
    """Item (k, b) is in row k % N; 0: it cannot be sampled."""
    added: Int[Array, ""]
    """Blocks added so far, which is the number of the next one."""
    oldest: Int[Array, ""]
    """Number of the oldest block that is still held."""


class Index(NamedTuple):
    """Which items were sampled. Block numbers are never reused, so an index always tells
    whether its item is still there."""

    block: Int[Array, " batch"]
    """k: the first block that is trained on."""
    stream: Int[Array, " batch"]


class Sample(NamedTuple):
    """A batch of items."""

    steps: PyTree
    """[batch, P + 2L, ...], in the order they happened."""
    core: PyTree
    """[batch, ...]: the recurrent state before the first of these steps."""
    weights: Float[Array, " batch"]
    """Importance weights; the largest is 1. All 0 if there was nothing to sample."""
    index: Index  # pyright: ignore[reportIncompatibleMethodOverride]


class Replay(NamedTuple):
    """Pure functions on a `ReplayState`; see the private functions of these names."""

    init: Callable[[], ReplayState]
    add: Callable[[ReplayState, PyTree, PyTree, Float[Array, " B"]], ReplayState]
    sample: Callable[[Key, ReplayState, int], Sample]
    reprioritise: Callable[[ReplayState, Index, Float[Array, " batch"]], ReplayState]
    core_offset: int
    """The step of each block whose recurrent state `add` takes."""
    ring: Ring


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


def make_replay(
    step_example: PyTree,
    core_example: PyTree,
    *,
    streams: int,
    capacity: int,
    block_length: int,
    prefix: int,
    priority_exponent: float = 0.9,
    importance_exponent: float = 0.6,
    store: MakeStore = raw_store,
) -> Replay:
    """Returns replay of at most `capacity` observations, in whole blocks.

    Args:
      step_example: one step of one stream; only shapes and dtypes matter.
      core_example: the recurrent state of one stream; likewise.
      capacity: observations, of all streams together.
      prefix: P; may be longer than a block.
      store: what keeps the steps; `tile_store` for raw frames.
    """
    item_blocks = -(-prefix // block_length) + TRAINED_BLOCKS
    needed = item_blocks * block_length * streams
    if capacity < needed:
        raise ValueError(
            f"capacity {capacity} is less than the {needed} observations of one item's "
            f"{item_blocks} blocks ({block_length} steps of {streams} streams each)"
        )
    core_offset = -prefix % block_length
    blocks = capacity // (block_length * streams)
    ring = Ring(blocks, streams, block_length, item_blocks, core_offset)
    kept = store(step_example, ring)
    return Replay(
        init=partial(_init, core_example, ring=ring, store=kept),
        add=partial(_add, ring=ring, store=kept),
        sample=partial(
            _sample,
            ring=ring,
            store=kept,
            priority_exponent=priority_exponent,
            importance_exponent=importance_exponent,
        ),
        reprioritise=partial(_reprioritise, ring=ring),
        core_offset=core_offset,
        ring=ring,
    )


def _init(core_example: PyTree, *, ring: Ring, store: Store) -> ReplayState:
    rows = (ring.blocks, ring.streams)
    return ReplayState(
        contents=store.init(),
        cores=jax.tree.map(lambda x: jnp.zeros(rows + x.shape, x.dtype), core_example),
        priorities=jnp.zeros(rows),
        added=jnp.int32(0),
        oldest=jnp.int32(0),
    )


def _add(
    state: ReplayState,
    steps: PyTree,
    core: PyTree,
    priorities: Float[Array, " B"],
    *,
    ring: Ring,
    store: Store,
) -> ReplayState:
    """Overwrites the oldest block, whose items can no longer be sampled.

    Args:
      steps: the block [L, B, ...].
      core: [B, ...], the recurrent state before step `core_offset` of this block.
      priorities: of the items that this block completes, which start one block
        earlier. Not used while there are too few blocks for an item.
    """
    number = state.added
    contents, oldest = store.write(state.contents, number, steps)
    cores = jax.tree.map(
        lambda ring_of, new: ring_of.at[number % ring.blocks].set(new),
        state.cores,
        core,
    )
    rows = state.priorities.at[(number - 1) % ring.blocks].set(_bounded(priorities))
    state = ReplayState(contents, cores, rows, number + 1, oldest)
    held = _is_held(state, _block_in_slot(state.added, ring), ring)
    return state._replace(priorities=jnp.where(held[:, None], rows, 0.0))


def _sample(
    key: Key,
    state: ReplayState,
    batch_size: int,
    *,
    ring: Ring,
    store: Store,
    priority_exponent: float,
    importance_exponent: float,
) -> Sample:
    """Samples items, with replacement, in proportion to a power of their priorities.

    P(i) = p_i^a / sum_j p_j^a  and  w_i = (1 / (N P(i)))^b / max_batch w, where a is the
    priority exponent and b the importance exponent. The block is drawn first, then the
    stream: two short sums, which round less than one over all items.
    """
    mass = jnp.where(state.priorities > 0, state.priorities**priority_exponent, 0.0)
    block_key, stream_key = jax.random.split(key)
    u_block = jax.random.uniform(block_key, (batch_size,))
    u_stream = jax.random.uniform(stream_key, (batch_size,))
    slot = jax.vmap(_draw, in_axes=(0, None))(u_block, jnp.sum(mass, axis=1))
    stream = jax.vmap(_draw)(u_stream, mass[slot])
    # Under the normalisation N and the sum over all items cancel.
    drawn = mass[slot, stream]
    weights = jnp.where(drawn > 0, (jnp.min(drawn) / drawn) ** importance_exponent, 0.0)
    block = _block_in_slot(state.added, ring)[slot]
    first = block + TRAINED_BLOCKS - ring.item_blocks
    return Sample(
        steps=store.read(state.contents, first, stream),
        core=jax.tree.map(lambda x: x[first % ring.blocks, stream], state.cores),
        weights=weights,
        index=Index(block, stream),
    )


def _reprioritise(
    state: ReplayState,
    index: Index,
    priorities: Float[Array, " batch"],
    *,
    ring: Ring,
) -> ReplayState:
    """Sets new priorities of sampled items, except of those overwritten since.

    An item that is in the batch more than once gets the largest of its priorities.
    """
    # A row past the end is dropped; negative ones would count from the end.
    held = _is_held(state, index.block, ring)
    row = jnp.where(held, index.block % ring.blocks, ring.blocks)
    # Set to zero, then raised: in any order this gives the same result.
    rows = state.priorities.at[row, index.stream].set(0.0, mode="drop")
    rows = rows.at[row, index.stream].max(_bounded(priorities), mode="drop")
    return state._replace(priorities=rows)


def _block_in_slot(added: Int[Array, ""], ring: Ring) -> Int[Array, " N"]:
    """Returns the newest block number of each slot; below 0 where there was none yet."""
    newest = added - 1
    return newest - (newest - jnp.arange(ring.blocks)) % ring.blocks


def _is_held(state: ReplayState, block: Int[Array, " n"], ring: Ring) -> Bool[Array, " n"]:
    """Returns whether all blocks of the items that train on `block` first are held."""
    last = block + TRAINED_BLOCKS - 1
    return (last - ring.item_blocks + 1 >= state.oldest) & (last < state.added)


def _bounded(priorities: Float[Array, " n"]) -> Float[Array, " n"]:
    """Bounds priorities: one that is not a number would spoil the sums for all items."""
    priorities = jnp.nan_to_num(priorities, nan=_LOWEST_PRIORITY)
    return jnp.clip(priorities, _LOWEST_PRIORITY, _HIGHEST_PRIORITY)


def _draw(u: Float[Array, ""], mass: Float[Array, " n"]) -> Int[Array, ""]:
    """Returns the entry that u * sum(mass) falls into, u in [0, 1); never one of mass 0."""
    # Entry i is [ends[i - 1], ends[i]). Counting the ends below is faster on an accelerator
    # than binary search, which a parallel sum's rounding errors could mislead as well.
    ends = jnp.cumsum(mass)
    found = jnp.minimum(jnp.sum(ends <= u * ends[-1]), mass.size - 1)
    # Such an error can select an entry of mass 0: take the nearest positive one before it,
    # or else the first.
    positive = mass > 0
    before = jax.lax.cummax(jnp.where(positive, jnp.arange(mass.size), 0))[found]
    return jnp.where(positive[before], before, jnp.argmax(positive))

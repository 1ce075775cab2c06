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
    """Pure functions on a `ReplayState`."""

    init: Callable[[], ReplayState]
    add: Callable[[ReplayState, PyTree, PyTree, Float[Array, " B"]], ReplayState]
    """(state, steps [L, B, ...], core [B, ...], priorities) -> state. Overwrites the oldest
    block, whose items can no longer be sampled. `core` is the recurrent state before step
    `core_offset` of the block; `priorities` are of the items that it completes, which start
    one block earlier."""
    sample: Callable[[Key, ReplayState, int], Sample]
    """Samples items, with replacement, in proportion to a power of their priorities."""
    reprioritise: Callable[[ReplayState, Index, Float[Array, " batch"]], ReplayState]
    """Sets new priorities of sampled items, except of those overwritten since. An item that
    is in the batch more than once gets the largest of its priorities."""
    core_offset: int
    """The step of each block whose recurrent state `add` takes."""
    ring: Ring


def raw_store(step_example: PyTree, ring: Ring) -> Store:
    """Returns a store with one ring [N, B, L, ...] for each array."""
    shape = (ring.blocks, ring.streams, ring.block_length)

    def init() -> PyTree:
        return jax.tree.map(lambda x: jnp.zeros(shape + x.shape, x.dtype), step_example)

    def write(rings, number, steps):
        # Stored as [B, L], so that what is read together lies together: on a CPU, items of
        # small images are read twice as fast as from [L, B].
        def write_block(array, block):
            return array.at[number % ring.blocks].set(jnp.swapaxes(block, 0, 1))

        oldest = jnp.maximum(number + 1 - ring.blocks, 0)
        return jax.tree.map(write_block, rings, steps), oldest

    def read(rings, first, stream):
        slots = (first[:, None] + jnp.arange(ring.item_blocks)[None]) % ring.blocks

        def read_steps(array):
            blocks = array[slots, stream[:, None]]
            steps = blocks.reshape(len(first), -1, *array.shape[3:])
            return steps[:, ring.skipped :]

        return jax.tree.map(read_steps, rings)

    return Store(init, write, read)


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

    With priorities p, priority exponent a and importance exponent b, an item's probability
    and weight are

        P(i) = p_i^a / sum_j p_j^a,    w_i = (1 / (N P(i)))^b / max_batch w

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
            f"capacity {capacity:,} is less than the {needed:,} observations of the "
            f"{item_blocks} blocks that a sequence spans ({block_length} steps of "
            f"{streams:,} environments each): raise replay.capacity, or lower "
            "acting.environments"
        )
    core_offset = -prefix % block_length
    blocks = capacity // (block_length * streams)
    ring = Ring(blocks, streams, block_length, item_blocks, core_offset)
    kept = store(step_example, ring)

    def init() -> ReplayState:
        rows = (blocks, streams)
        return ReplayState(
            contents=kept.init(),
            cores=jax.tree.map(lambda x: jnp.zeros(rows + x.shape, x.dtype), core_example),
            priorities=jnp.zeros(rows),
            added=jnp.int32(0),
            oldest=jnp.int32(0),
        )

    def add(
        state: ReplayState, steps: PyTree, core: PyTree, priorities: Float[Array, " B"]
    ) -> ReplayState:
        number = state.added
        contents, oldest = kept.write(state.contents, number, steps)
        cores = jax.tree.map(
            lambda array, new: array.at[number % blocks].set(new), state.cores, core
        )
        rows = state.priorities.at[(number - 1) % blocks].set(_bounded(priorities))
        state = ReplayState(contents, cores, rows, number + 1, oldest)
        held = _is_held(state, _block_in_slot(state.added, ring), ring)
        return state._replace(priorities=jnp.where(held[:, None], rows, 0.0))

    def sample(key: Key, state: ReplayState, batch_size: int) -> Sample:
        mass = jnp.where(state.priorities > 0, state.priorities**priority_exponent, 0.0)
        block_key, stream_key = jax.random.split(key)
        u_block = jax.random.uniform(block_key, (batch_size,))
        u_stream = jax.random.uniform(stream_key, (batch_size,))
        # The block first, then the stream: two short sums round less than one over all.
        slot = jax.vmap(_draw, in_axes=(0, None))(u_block, jnp.sum(mass, axis=1))
        stream = jax.vmap(_draw)(u_stream, mass[slot])
        # Under the normalisation N and the sum over all items cancel.
        drawn = mass[slot, stream]
        weights = jnp.where(drawn > 0, (jnp.min(drawn) / drawn) ** importance_exponent, 0.0)
        block = _block_in_slot(state.added, ring)[slot]
        first = block + TRAINED_BLOCKS - item_blocks
        return Sample(
            steps=kept.read(state.contents, first, stream),
            core=jax.tree.map(lambda x: x[first % blocks, stream], state.cores),
            weights=weights,
            index=Index(block, stream),
        )

    def reprioritise(
        state: ReplayState, index: Index, priorities: Float[Array, " batch"]
    ) -> ReplayState:
        # A row past the end is dropped; negative ones would count from the end.
        held = _is_held(state, index.block, ring)
        row = jnp.where(held, index.block % blocks, blocks)
        # Set to zero, then raised: in any order this gives the same result.
        rows = state.priorities.at[row, index.stream].set(0.0, mode="drop")
        rows = rows.at[row, index.stream].max(_bounded(priorities), mode="drop")
        return state._replace(priorities=rows)

    return Replay(init, add, sample, reprioritise, core_offset, ring)


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

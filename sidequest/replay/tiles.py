"""A lossless store of raw frames: only the tiles that changed are stored.

From one step to the next most of a video game's frame stays the same. A frame is cut into
tiles (210 x 160 pixels: 30 x 20 tiles of 7 x 8), and a block stores all tiles of its first
frame, then only those that differ from the frame before. A frame is then a row of pointers
to tiles. One stream, three tiles, a block of four steps:

    step            0        1        2        3
    frame           a b c    a b d    a e d    a e c
    new tiles       a b c    d        e        c
    pool            0:a 1:b 2:c 3:d 4:e 5:c
    pointers        0 1 2    0 1 3    0 4 3    0 4 5

Each block is self-contained, so that the oldest can be evicted. All tiles are in one pool,
a ring: blocks follow one another in it, and within a block its streams. When the pool is
full the oldest blocks are evicted, earlier than by their number.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Integer, PyTree, UInt8, UInt32

from sidequest.replay.replay import MakeStore, Ring, Store, raw_store
from sidequest.types import AnyArray

TILE = (7, 8)
"""Height and width of a tile. Small tiles change less often but need more pointers; ours,
for Atari."""

_BYTES_PER_WORD = 4
"""Tiles are 32-bit words, four bytes of a row in each: fewer, larger moves."""


class Tiling(NamedTuple):
    """Sizes of frames, tiles and the pool."""

    frame: tuple[int, ...]
    """Shape of a frame: height, width, and whatever a pixel has."""
    tile: tuple[int, int]
    """Height and width of a tile, in pixels."""
    pool: int
    """The most tiles that are stored."""

    @property
    def tiles(self) -> int:
        """Number of tiles of one frame."""
        return math.prod(self.frame[:2]) // math.prod(self.tile)

    @property
    def grid(self) -> tuple[int, int, int, int]:
        """Rows and columns of tiles in a frame; rows of a tile, words of each row."""
        height, width = self.tile
        bytes_of_a_row = width * math.prod(self.frame[2:])
        rows, columns = self.frame[0] // height, self.frame[1] // width
        return rows, columns, height, bytes_of_a_row // _BYTES_PER_WORD


class TileState(NamedTuple):
    """N blocks of L frames of B streams, as pointers to tiles."""

    rest: PyTree
    """Rings of the other arrays of a step."""
    pool: UInt32[Array, "pool words"]
    pointers: Integer[Array, "N B L tiles"]
    """From each frame to its tiles, counted from where its block and stream start."""
    starts: Int[Array, "N B"]
    """First position in the pool of each block and stream."""
    sizes: Int[Array, " N"]
    """Number of tiles of each block; 0: the block is not held."""
    head: Int[Array, ""]
    """Position in the pool of the next tile."""
    evicted: Int[Array, ""]
    """Blocks evicted because the pool was full."""


class _TileReport(NamedTuple):
    """Says how much a store holds, and at what cost."""

    bytes_per_frame: Float[Array, ""]
    """Tiles and pointers together; NaN while there are no frames."""
    observations_held: Int[Array, ""]
    blocks_evicted: Int[Array, ""]


def tile_store(
    frame: Callable[[PyTree], Array], *, memory: int, tile: tuple[int, int] = TILE
) -> MakeStore:
    """Returns a store that keeps one array of each step as tiles, the others as they are.

    Args:
      frame: picks that array out of a step; uint8, [height, width, ...].
      memory: bytes for pointers and tiles, at most.
      tile: height and width of a tile.
    """

    def make_store(step_example: PyTree, ring: Ring) -> Store:
        tiling = make_tiling(frame(step_example), ring, memory=memory, tile=tile)
        rest = raw_store(eqx.tree_at(frame, step_example, None), ring)

        def init() -> TileState:
            rows = (ring.blocks, ring.streams)
            pointers = (*rows, ring.block_length, tiling.tiles)
            return TileState(
                rest=rest.init(),
                pool=jnp.zeros((tiling.pool, math.prod(tiling.grid[2:])), jnp.uint32),
                pointers=jnp.zeros(pointers, _pointer_dtype(ring, tiling)),
                starts=jnp.zeros(rows, jnp.int32),
                sizes=jnp.zeros(ring.blocks, jnp.int32),
                head=jnp.int32(0),
                evicted=jnp.int32(0),
            )

        def write(state, number, steps):
            others, _ = rest.write(state.rest, number, eqx.tree_at(frame, steps, None))
            state = _write_frames(state, number, frame(steps), tiling)
            held = jnp.count_nonzero(state.sizes)
            return state._replace(rest=others), number + 1 - held

        def read(state, first, stream):
            others = rest.read(state.rest, first, stream)
            frames = _read_frames(state, first, stream, ring, tiling)
            return eqx.tree_at(frame, others, frames, is_leaf=lambda x: x is None)

        return Store(init, write, read)

    return make_store


def make_tiling(
    frame: AnyArray, ring: Ring, *, memory: int, tile: tuple[int, int] = TILE
) -> Tiling:
    """Returns the sizes that fill `memory`; raises ValueError if that is too small."""
    shape = tuple(frame.shape)
    if frame.dtype != jnp.uint8 or len(shape) < 2:
        raise ValueError(f"frames must be uint8 images, not {frame.dtype} of {shape}")
    if shape[0] % tile[0] or shape[1] % tile[1]:
        raise ValueError(f"tile {tile} does not divide the frame {shape[:2]}")
    row = tile[1] * math.prod(shape[2:])
    if row % _BYTES_PER_WORD:
        raise ValueError(
            f"a row of tile {tile} has {row} bytes, not a multiple of {_BYTES_PER_WORD}"
        )
    tiling = Tiling(shape, tile, pool=0)
    block = ring.streams * ring.block_length * tiling.tiles
    pointer_bytes = ring.blocks * block * _pointer_dtype(ring, tiling).itemsize
    tile_bytes = tile[0] * row
    needed = pointer_bytes + ring.item_blocks * block * tile_bytes
    if memory < needed:
        raise ValueError(
            f"memory {memory} is less than the {needed} bytes that all pointers and one "
            f"item's tiles may need ({ring.item_blocks} blocks of {block} tiles)"
        )
    # Never more than if all tiles changed all the time; and positions, which run one
    # block past the end before they wrap, must fit 32 bits.
    fit = (memory - pointer_bytes) // tile_bytes
    pool = min(fit, ring.blocks * block, 2**31 - 1 - block)
    return tiling._replace(pool=pool)


def _write_frames(
    state: TileState,
    number: Int[Array, ""],
    frames: UInt8[Array, "L B ..."],
    tiling: Tiling,
) -> TileState:
    """Adds the frames of block `number`; evicts the oldest blocks if the pool is full."""
    tiles = _cut(frames, tiling)
    changed = jnp.any(tiles[:, 1:] != tiles[:, :-1], axis=-1)
    changed = jnp.pad(changed, ((0, 0), (1, 0), (0, 0)), constant_values=True)
    local, counts = _number_changes(changed)
    ends = jnp.cumsum(counts)
    starts = (state.head + ends - counts) % tiling.pool
    # Tiles that did not change are written past the end of the pool, so dropped.
    position = (starts[:, None, None] + local) % tiling.pool
    position = jnp.where(changed, position, tiling.pool)
    pool = state.pool.at[position.reshape(-1)].set(
        tiles.reshape(-1, tiles.shape[-1]), mode="drop"
    )
    size = ends[-1]
    slot = number % len(state.sizes)
    sizes, evicted = _make_room(state.sizes, number, size, tiling.pool)
    return state._replace(
        pool=pool,
        pointers=state.pointers.at[slot].set(local.astype(state.pointers.dtype)),
        starts=state.starts.at[slot].set(starts),
        sizes=sizes.at[slot].set(size),
        head=(state.head + size) % tiling.pool,
        evicted=state.evicted + evicted,
    )


def _read_frames(
    state: TileState,
    first: Int[Array, " batch"],
    stream: Int[Array, " batch"],
    ring: Ring,
    tiling: Tiling,
) -> UInt8[Array, "batch time ..."]:
    """Returns the frames of items that start in block `first`."""
    slots = (first[:, None] + jnp.arange(ring.item_blocks)[None]) % ring.blocks
    local = state.pointers[slots, stream[:, None]].astype(jnp.int32)
    starts = state.starts[slots, stream[:, None]]
    position = (starts[:, :, None, None] + local) % tiling.pool
    position = position.reshape(len(first), -1, tiling.tiles)[:, ring.skipped :]
    # Rows of tiles are gathered in the order that they have in the frame, so that it
    # needs no rearranging: [batch, time, rows, height, columns, words].
    rows, columns, height, words = tiling.grid
    of_tile = position.reshape(*position.shape[:2], rows, 1, columns)
    row = jnp.arange(height).reshape(1, 1, 1, height, 1)
    pool = state.pool.reshape(-1, height, words)
    gathered = pool.at[of_tile, row].get(mode="promise_in_bounds")
    frames = jax.lax.bitcast_convert_type(gathered, jnp.uint8)
    # Without the barrier, a program that also learns from the frames may gather them
    # again for each use.
    return jax.lax.optimization_barrier(frames.reshape(*position.shape[:2], *tiling.frame))


def tile_report(state: TileState) -> _TileReport:
    """Returns how much the store holds, and at what cost."""
    _, streams, length, tiles = state.pointers.shape
    held = jnp.count_nonzero(state.sizes) * streams * length
    tile_bytes = state.pool.shape[1] * _BYTES_PER_WORD
    per_frame = jnp.sum(state.sizes) / held * tile_bytes
    return _TileReport(
        bytes_per_frame=per_frame + tiles * state.pointers.dtype.itemsize,
        observations_held=held,
        blocks_evicted=state.evicted,
    )


def _pointer_dtype(ring: Ring, tiling: Tiling) -> jnp.dtype:
    """Returns uint16 where it suffices, as for 40 frames of 600 tiles: it saves 1.2 kB."""
    most = ring.block_length * tiling.tiles
    return jnp.dtype(jnp.uint16 if most <= 2**16 else jnp.int32)


def _number_changes(
    changed: Bool[Array, "B L tiles"],
) -> tuple[Int[Array, "B L tiles"], Int[Array, " B"]]:
    """Numbers the changed tiles of each stream 0, 1, ...; others point to their last.

    Returns the number that each tile of each frame points to, and how many there are.
    """
    rank = jnp.cumsum(changed.reshape(len(changed), -1), axis=1) - 1
    counts = rank[:, -1] + 1
    # Later frames have higher numbers, so a tile's last change is its highest so far.
    own = jnp.where(changed, rank.reshape(changed.shape), 0)
    return jax.lax.cummax(own, axis=1), counts


def _make_room(
    sizes: Int[Array, " N"], number: Int[Array, ""], size: Int[Array, ""], pool: int
) -> tuple[Int[Array, " N"], Int[Array, ""]]:
    """Returns the sizes of the blocks that stay beside a new one, and how many go."""
    # The slot of the new block is left out: what it held goes in any case.
    slots = (number - 1 - jnp.arange(len(sizes) - 1)) % len(sizes)
    newest_first = sizes[slots]
    stays = jnp.cumsum(newest_first) + size <= pool
    kept = jnp.where(stays, newest_first, 0)
    evicted = jnp.count_nonzero(newest_first) - jnp.count_nonzero(kept)
    return jnp.zeros_like(sizes).at[slots].set(kept), evicted


def _cut(
    frames: UInt8[Array, "L B ..."], tiling: Tiling
) -> UInt32[Array, "B L tiles words"]:
    """Returns frames as tiles of words, one stream after the other."""
    rows, columns, height, words = tiling.grid
    shape = (*frames.shape[:2], rows, height, columns, words, _BYTES_PER_WORD)
    grid = jax.lax.bitcast_convert_type(frames.reshape(shape), jnp.uint32)
    # Words are moved, not bytes, and once: XLA then needs no copy of the frames.
    grid = jnp.transpose(grid, (1, 0, 2, 4, 3, 5))
    return grid.reshape(*grid.shape[:2], tiling.tiles, height * words)

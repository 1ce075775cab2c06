"""How much of a device replay may have, and how many frames that is.

A device holds, beside the tiles of replay and the pointers to them, the agent and what it
works on. The default leaves room for that:

    left for replay  =  limit - in use - agent - reserve

The agent is the learner (parameters, targets, moments), copies for actors and evaluators,
and what replay keeps beside frames. The reserve is for work in progress, in units of raw
frames: see `BLOCKS_AT_WORK` and `BATCHES_AT_WORK`.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax

from sidequest.config import Config
from sidequest.environments.base import EnvironmentSpec
from sidequest.errors import ConfigError
from sidequest.replay.replay import ReplayState
from sidequest.replay.store import MakeStore
from sidequest.replay.tiles import tile_store
from sidequest.runs.assembly import Parts, assemble
from sidequest.runs.keys import is_key
from sidequest.switching.variants import Variant

BLOCKS_AT_WORK = 4
"""Reserved, in blocks of raw frames of all streams: one fills, and adding it to replay
takes 2.2 more, by XLA's account of the program at the paper's sizes."""

BATCHES_AT_WORK = 18
"""Reserved, in batches of raw frames: one is learned from, the next is drawn, and an update
takes 13.6 more, or 14.8 with XI, by the same account. It was made for a CPU: an accelerator
needs less for activations in bfloat16, and some to try convolutions out."""

LEARNERS = 3
"""Reserved, in sizes of the learner, which holds four networks: its own, the target, two
moments of Adam. Actors have one more, the evaluator one for each emulator."""

WITHOUT_LIMIT = 2 * 10**9
"""Bytes for replay on a device that does not say what it has, such as a CPU."""

MEASURED = 0.07, 0.12
"""Of a raw frame's bytes, least and most that one took in replay: 7 to 12 kB of 100.8 kB,
pointers and tiles, on the paper's seven games."""

NO_END = 2**62


class Room(NamedTuple):
    """What replay may hold in the memory that it was given."""

    memory: int
    """Bytes, for pointers and tiles."""
    capacity: int
    """Observations, if the memory was endless."""
    least: int
    """Observations, if every tile changed at every step."""
    about: tuple[int, int]
    """Observations at the most and at the least that one was measured to take."""
    measured: tuple[float, float]
    """These, in bytes: least and most."""

    def __str__(self) -> str:
        few, many = self.about
        about = f"{few:,}" if few == many else f"{few:,} to {many:,}"
        whole = " (all of its capacity)" if few == self.capacity else ""
        low, high = (f"{size / 1e3:.2g}" for size in self.measured)
        return (
            f"replay may take {self.memory / 1e9:.1f} GB: at least {self.least:,} "
            f"observations, and about {about}{whole} at the measured {low} to {high} kB "
            f"each"
        )


def tiled(memory: int) -> MakeStore:
    """Replay of frames as tiles, in so many bytes."""
    return tile_store(lambda step: step.observation, memory=memory)


def replay_memory(
    config: Config, spec: EnvironmentSpec, variants: Sequence[Variant], asked: int | None
) -> int:
    """What is asked for, or what the device has left, in bytes; never more than is of use.

    With several variants, what does for each.

    Raises:
        ConfigError: If replay cannot work so, or not with so little.
    """
    one_of_each = {variant.heads: variant for variant in variants}.values()
    fallback = WITHOUT_LIMIT if asked is None else asked
    return min(
        (memory_for(config, spec, variant, asked) for variant in one_of_each),
        default=fallback,
    )


def memory_for(
    config: Config, spec: EnvironmentSpec, variant: Variant, asked: int | None
) -> int:
    try:
        endless = assemble(config, spec, [variant], tiled(NO_END))
    except ValueError as error:
        raise ConfigError(str(error)) from error
    given = memory_left(endless) if asked is None else asked
    memory = min(given, frame_bytes(shape_of(endless)))
    try:
        assemble(config, spec, [variant], tiled(memory))
    except ValueError as error:
        raise ConfigError(
            f"replay has {memory / 1e9:.3g} GB: {error}. Take more --replay-memory, or "
            f"less of replay.capacity, acting.streams or learning.batch_size"
        ) from error
    return memory


def memory_left(parts: Parts) -> int:
    """What the device has left for pointers and tiles, in bytes."""
    free = free_on_device()
    if free is None:
        return WITHOUT_LIMIT
    learner = jax.eval_shape(parts.learner.init, jax.random.key(0))
    replay = shape_of(parts)
    beside = nbytes(replay) - frame_bytes(replay)
    agent = LEARNERS * nbytes(learner) + beside
    return max(0, free - agent - reserve(parts))


def free_on_device() -> int | None:
    """Bytes that one accelerator has left; None if there is none, or it does not say."""
    stats = jax.local_devices()[0].memory_stats() or {}
    limit = stats.get("bytes_limit")
    return limit - stats.get("bytes_in_use", 0) if limit else None


def reserve(parts: Parts) -> int:
    """For what is worked on, in bytes."""
    ring = parts.replay.ring
    frame = nbytes(parts.step_example.observation)
    block = ring.block_length * ring.streams * frame
    batch = parts.batch_size * ring.item_length * frame
    return BLOCKS_AT_WORK * block + BATCHES_AT_WORK * batch


def room_of(parts: Parts, memory: int) -> Room:
    """What the replay of these parts may hold."""
    contents = shape_of(parts).contents
    blocks, streams, length, tiles = contents.pointers.shape
    capacity, block = blocks * streams * length, streams * length
    pointer = tiles * contents.pointers.dtype.itemsize
    raw = nbytes(parts.step_example.observation)

    def held(each: float) -> int:
        """Observations, in whole blocks, if the tiles of one take so many bytes."""
        fit = nbytes(contents.pool) // max(1, math.ceil(each * block))
        return min(capacity, fit * block)

    low, high = (share * raw for share in MEASURED)
    about = held(high - pointer), held(low - pointer)
    return Room(memory, capacity, held(raw), about, (low, high))


def shape_of(parts: Parts) -> ReplayState:
    """Replay's arrays; nothing is computed."""
    return jax.eval_shape(parts.replay.init)


def frame_bytes(replay: ReplayState) -> int:
    """Of pointers and tiles."""
    return nbytes((replay.contents.pool, replay.contents.pointers))


def nbytes(tree: Any) -> int:
    """Of arrays, or of the shapes of arrays; random keys are too small to count."""
    return sum(
        leaf.size * leaf.dtype.itemsize
        for leaf in jax.tree.leaves(tree)
        if not is_key(leaf)
    )

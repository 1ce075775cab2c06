"""Streams whose steps say where they come from, so that a mix-up is visible."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from sidequest.replay.replay import Replay, ReplayState


class Step(NamedTuple):
    time: jax.Array
    stream: jax.Array
    image: jax.Array


class Core(NamedTuple):
    time: jax.Array
    stream: jax.Array


STEP = Step(jnp.int32(0), jnp.int32(0), jnp.zeros((2, 3), jnp.uint8))
CORE = Core(jnp.int32(0), jnp.zeros(2))


def block(replay: Replay, number) -> tuple[Step, Core]:
    """Block `number`, and the core before its step `core_offset`: core t is before t."""
    ring = replay.ring
    start = number * ring.block_length
    time = start + jnp.arange(ring.block_length, dtype=jnp.int32)
    time = jnp.broadcast_to(time[:, None], (ring.block_length, ring.streams))
    stream = jnp.broadcast_to(jnp.arange(ring.streams), time.shape)
    image = (time * 7 + stream)[..., None, None] + jnp.arange(6).reshape(1, 1, 2, 3)
    core = Core(
        jnp.full(ring.streams, start + replay.core_offset, jnp.int32),
        jnp.stack([jnp.arange(ring.streams, dtype=jnp.float32)] * 2, axis=-1),
    )
    return Step(time, stream, (image % 256).astype(jnp.uint8)), core


@functools.cache
def adder(replay: Replay):
    """Adds block `number`; compiled once for each replay."""

    def add(state, number, priority):
        return replay.add(state, *block(replay, number), priority)

    return jax.jit(add)


@functools.cache
def sampler(replay: Replay, batch_size: int):
    return jax.jit(functools.partial(replay.sample, batch_size=batch_size))


def fill(replay: Replay, blocks: int, priority=None) -> ReplayState:
    """Replay after `blocks` blocks; `priority(n)` gives [B], else all 1."""
    if priority is None:
        return filler(replay)(jnp.int32(blocks))
    state = jax.jit(replay.init)()
    for number in range(blocks):
        row = np.asarray(priority(number), np.float32)
        state = adder(replay)(state, np.int32(number), row)
    return state


@functools.cache
def filler(replay: Replay):
    """Replay after any number of blocks; compiled once for each replay."""
    ones = jnp.ones(replay.ring.streams)

    def add(number, state):
        return replay.add(state, *block(replay, number), ones)

    return jax.jit(lambda blocks: jax.lax.fori_loop(0, blocks, add, replay.init()))


def assert_item(replay: Replay, prefix: int, sample) -> None:
    """Each item is the stretch of one stream that its index names, with its core."""
    ring = replay.ring
    length = prefix + 2 * ring.block_length
    start = np.asarray(sample.index.block) * ring.block_length - prefix
    time = start[:, None] + np.arange(length)
    stream = np.broadcast_to(np.asarray(sample.index.stream)[:, None], time.shape)
    image = (time * 7 + stream)[..., None, None] + np.arange(6).reshape(2, 3)
    np.testing.assert_array_equal(sample.steps.time, time)
    np.testing.assert_array_equal(sample.steps.stream, stream)
    np.testing.assert_array_equal(sample.steps.image, image % 256)
    np.testing.assert_array_equal(sample.core.time, start)
    np.testing.assert_array_equal(sample.core.stream[:, 0], sample.index.stream)


def items(state) -> int:
    """How many items can be sampled."""
    return int(np.count_nonzero(state.priorities))


def observations(replay, state) -> int:
    """How many steps are held, of all streams together."""
    ring = replay.ring
    return (int(state.added) - int(state.oldest)) * ring.block_length * ring.streams

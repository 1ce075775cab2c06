"""Every frame comes back as it was, or is no longer offered."""

from functools import cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidequest.replay.replay import Ring, make_replay
from sidequest.replay.tiles import Tiling, make_tiling, tile_report, tile_store
from tests.replay.streams import items, observations


class Step(NamedTuple):
    observation: jax.Array
    time: jax.Array


FRAME = (4, 8)  # two by two tiles of 2 x 4 bytes
LENGTH, STREAMS, PREFIX = 3, 2, 2
TILES = 4
BLOCK = LENGTH * STREAMS * TILES  # tiles of a block in which all tiles change
POINTERS = LENGTH * STREAMS * TILES * 2  # bytes of a block
CORE = jnp.zeros(())


@cache
def replay_of(blocks, pool, *, frame=FRAME, tile=(2, 4)):
    return make_replay(
        Step(jnp.zeros(frame, jnp.uint8), jnp.int32(0)),
        CORE,
        streams=STREAMS,
        capacity=blocks * LENGTH * STREAMS,
        block_length=LENGTH,
        prefix=PREFIX,
        store=tile_store(
            lambda step: step.observation,
            memory=blocks * POINTERS + pool * tile[0] * tile[1],
            tile=tile,
        ),
    )


@cache
def compiled(replay, batch_size=8):
    return jax.jit(replay.add), jax.jit(partial(replay.sample, batch_size=batch_size))


def changing_frames(rng, blocks, share):
    """[blocks * L, B, 4, 8]: from step to step about `share` of the pixels change."""
    frames = rng.integers(0, 256, (blocks * LENGTH, STREAMS, *FRAME), dtype=np.uint8)
    for t in range(1, len(frames)):
        keep = rng.random(frames[t].shape) >= np.repeat(share, LENGTH)[t]
        frames[t] = np.where(keep, frames[t - 1], frames[t])
    return frames


def block_of(frames, number):
    block = frames[number * LENGTH : (number + 1) * LENGTH]
    time = np.arange(LENGTH, dtype=np.int32) + number * LENGTH
    return Step(block, np.broadcast_to(time[:, None], block.shape[:2]))


def sizes_by_hand(frames, blocks):
    """How many tiles each block must keep."""
    grid = frames.reshape(blocks, LENGTH, STREAMS, 2, 2, 2, 4).swapaxes(4, 5)
    changed = (grid[:, 1:] != grid[:, :-1]).any((-2, -1)).sum((1, 2, 3, 4))
    return TILES * STREAMS + changed


def assert_exact(sample, frames):
    start = np.asarray(sample.index.block) * LENGTH - PREFIX
    time = start[:, None] + np.arange(PREFIX + 2 * LENGTH)
    expected = frames[time, np.asarray(sample.index.stream)[:, None]]
    np.testing.assert_array_equal(sample.steps.time, time)
    np.testing.assert_array_equal(sample.steps.observation, expected)


# Room for one item at its worst; for that and a bit; for all blocks at their worst.
REPORT = jax.jit(tile_report)
POOLS = [3 * BLOCK, 4 * BLOCK + 5, 6 * BLOCK]


@given(
    pool=st.sampled_from(POOLS),
    shares=st.lists(st.sampled_from([0.0, 0.02, 0.3, 1.0]), min_size=1, max_size=24),
    seed=st.integers(0, 2**31 - 1),
)
@settings(max_examples=12, deadline=None)
def test_what_is_sampled_is_exact_and_the_oldest_go_first(pool, shares, seed):
    replay = replay_of(6, pool)
    add, sample = compiled(replay)
    frames = changing_frames(np.random.default_rng(seed), len(shares), shares)
    sizes = sizes_by_hand(frames, len(shares))
    state, oldest, evicted = replay.init(), 0, 0
    for number in range(len(shares)):
        state = add(state, block_of(frames, number), jnp.zeros(STREAMS), jnp.ones(2))
        oldest = max(oldest, number - 5)
        while sizes[oldest : number + 1].sum() > pool:
            oldest, evicted = oldest + 1, evicted + 1
        report = REPORT(state.contents)
        held = number + 1 - oldest
        assert int(state.oldest) == oldest
        assert int(report.blocks_evicted) == evicted
        assert int(report.observations_held) == held * LENGTH * STREAMS
        assert int(observations(replay, state)) == held * LENGTH * STREAMS
        assert int(items(state)) == max(held - 2, 0) * STREAMS
        per_frame = sizes[oldest : number + 1].sum() * 8 / (held * LENGTH * STREAMS)
        np.testing.assert_allclose(report.bytes_per_frame, per_frame + 8, rtol=1e-6)
        if held > 2:
            assert_exact(sample(jax.random.key(seed + number), state), frames)


def test_trace_of_the_module_docstring():
    a, b, c, d, e = (np.full((1, 4), ord(x), np.uint8) for x in "abcde")
    rows = [(a, b, c), (a, b, d), (a, e, d), (a, e, c)]
    frames = np.stack([np.concatenate(row, axis=1) for row in rows])[:, None]
    ring = Ring(blocks=2, streams=1, block_length=4, item_blocks=2, skipped=0)
    store = tile_store(lambda step: step, memory=10_000, tile=(1, 4))
    store = store(jnp.zeros((1, 12), jnp.uint8), ring)
    state, oldest = jax.jit(store.write)(store.init(), np.int32(0), frames)
    pointers = [[0, 1, 2], [0, 1, 3], [0, 4, 3], [0, 4, 5]]
    np.testing.assert_array_equal(np.asarray(state.pointers)[0, 0], pointers)
    kept = np.asarray(state.pool).view(np.uint8)[:6, 0]
    assert bytes(kept) == b"abcdec"
    assert (int(oldest), int(state.sizes[0]), int(state.head)) == (0, 6, 6)


def test_still_frames_cost_their_first_tiles_and_pointers():
    replay = replay_of(6, POOLS[0])
    add, sample = compiled(replay)
    frames = changing_frames(np.random.default_rng(0), 20, [0.0] * 20)
    state = replay.init()
    for number in range(20):
        state = add(state, block_of(frames, number), jnp.zeros(STREAMS), jnp.ones(2))
    report = tile_report(state.contents)
    assert int(report.blocks_evicted) == 0
    # 4 tiles of 8 bytes in each 3 frames, and 4 pointers of 2 bytes in each frame.
    np.testing.assert_allclose(report.bytes_per_frame, 4 * 8 / 3 + 4 * 2, rtol=1e-6)
    assert_exact(sample(jax.random.key(0), state), frames)


def test_an_item_evicted_while_in_flight_stays_gone():
    replay = replay_of(6, POOLS[0])
    add, sample = compiled(replay)
    frames = changing_frames(np.random.default_rng(0), 8, [0.0] * 5 + [1.0] * 3)
    state = replay.init()
    for number in range(8):
        state = add(state, block_of(frames, number), jnp.zeros(STREAMS), jnp.ones(2))
        if number == 4:
            index = sample(jax.random.key(0), state).index
    # The three blocks that changed throughout fill the pool; item 6 alone is whole.
    assert (int(state.oldest), int(items(state))) == (5, STREAMS)
    state = replay.reprioritise(state, index, jnp.full(8, 5.0))
    assert int(items(state)) == STREAMS
    assert_exact(sample(jax.random.key(1), state), frames)


def test_scan_of_a_population_equals_loops_over_its_members():
    replay = replay_of(6, POOLS[1])
    rng = np.random.default_rng(0)
    shares = [[0.0] * 10, [0.2] * 10, [1.0] * 10]
    frames = [changing_frames(rng, 10, share) for share in shares]
    blocks = [[block_of(f, n) for n in range(10)] for f in frames]

    def one(state, x):
        number, block = x
        state = replay.add(state, block, jnp.zeros(STREAMS), jnp.ones(STREAMS))
        return state, replay.sample(jax.random.key(number), state, 3)

    def stack(trees):
        return jax.tree.map(lambda *xs: jnp.stack(xs), *trees)

    numbers = jnp.arange(10)
    scan = jax.jit(jax.vmap(lambda b: jax.lax.scan(one, replay.init(), (numbers, b))))
    together = scan(stack([stack(b) for b in blocks]))
    step, alone = jax.jit(one), []
    for own in blocks:
        state, samples = replay.init(), []
        for x in zip(numbers, own, strict=True):
            state, sample = step(state, x)
            samples.append(sample)
        alone.append((state, stack(samples)))
    jax.tree.map(np.testing.assert_array_equal, together, stack(alone))


def test_add_writes_in_place():
    """No copy of the pool: a compiled scan needs little room beside its input."""
    replay = replay_of(4_000, 40_000)
    blocks = Step(
        jax.ShapeDtypeStruct((5, LENGTH, STREAMS, *FRAME), jnp.uint8),
        jax.ShapeDtypeStruct((5, LENGTH, STREAMS), jnp.int32),
    )

    def collect(state, blocks):
        def one(state, block):
            return replay.add(state, block, jnp.zeros(STREAMS), jnp.ones(2)), None

        return jax.lax.scan(one, state, blocks)[0]

    lowered = jax.jit(collect, donate_argnums=0).lower(jax.eval_shape(replay.init), blocks)
    memory = lowered.compile().memory_analysis()
    assert memory.temp_size_in_bytes < 40_000 * 8 / 2


GAMES = (
    "frostbite",
    "gravitar",
    "hero",
    "montezuma_revenge",
    "ms_pacman",
    "phoenix",
    "star_gunner",
)


@pytest.mark.parametrize(
    "game",
    [*GAMES[:2], *(pytest.param(game, marks=pytest.mark.slow) for game in GAMES[2:])],
)
def test_frames_of_real_games(game):
    """All-round sizes: the paper's frames under random play, in the default tiles."""
    from ale_py import AtariVectorEnv

    blocks = 5
    emulators = AtariVectorEnv(
        game, STREAMS, img_height=210, img_width=160, grayscale=False, stack_num=1
    )
    emulators.reset(seed=0)
    rng = np.random.default_rng(0)
    frames = np.stack(
        [
            emulators.step(rng.integers(0, emulators.single_action_space.n, STREAMS))[0]
            for _ in range(blocks * LENGTH)
        ]
    )[:, :, 0]
    emulators.close()
    replay, add, sample = real_replay()
    state = replay.init()
    for number in range(blocks):
        state = add(state, block_of(frames, number), jnp.zeros(STREAMS), jnp.ones(2))
    assert_exact(sample(jax.random.key(0), state), frames)
    # Far below the 100,800 bytes of a frame, though a block is as short as 3 steps.
    assert float(tile_report(state.contents).bytes_per_frame) < 60_000


@cache
def real_replay():
    replay = make_replay(
        Step(jnp.zeros((210, 160, 3), jnp.uint8), jnp.int32(0)),
        CORE,
        streams=STREAMS,
        capacity=4 * LENGTH * STREAMS,
        block_length=LENGTH,
        prefix=PREFIX,
        store=tile_store(lambda step: step.observation, memory=10_000_000),
    )
    return replay, *compiled(replay, 2)


def test_memory_is_split_between_pointers_and_tiles():
    replay = make_replay(
        Step(jnp.zeros((210, 160, 3), jnp.uint8), jnp.int32(0)),
        CORE,
        streams=120,
        capacity=4_000_000,
        block_length=40,
        prefix=20,
        store=tile_store(lambda step: step.observation, memory=50 * 10**9),
    )
    state = jax.eval_shape(replay.init).contents
    sizes = [state.pool.size * 4, state.pointers.size * 2]
    assert state.pointers.dtype == jnp.uint16
    assert 0 <= 50 * 10**9 - sum(sizes) < 168
    assert replay.ring.blocks == 833


def test_pointers_of_long_blocks_have_32_bits():
    ring = Ring(blocks=3, streams=1, block_length=110, item_blocks=2, skipped=0)
    store = tile_store(lambda step: step, memory=10**8)
    state = store(jnp.zeros((210, 160, 3), jnp.uint8), ring).init
    assert jax.eval_shape(state).pointers.dtype == jnp.int32


def test_positions_fit_32_bits():
    ring = Ring(blocks=10**6, streams=128, block_length=40, item_blocks=3, skipped=20)
    frame = jax.ShapeDtypeStruct((210, 160, 3), jnp.uint8)
    tiling = make_tiling(frame, ring, memory=10**15, tile=(7, 8))
    assert isinstance(tiling, Tiling)
    assert tiling.pool + 128 * 40 * 600 == 2**31 - 1


@pytest.mark.parametrize(
    ("frame", "tile", "memory", "message"),
    [
        ((4, 8), (3, 4), 10_000, r"tile \(3, 4\) does not divide the frame \(4, 8\)"),
        ((4, 8), (2, 2), 10_000, "has 2 bytes, not a multiple of 4"),
        ((4, 8), (2, 4), 767, "memory 767 is less than the 768 bytes"),
        ((4, 8), (2, 4), 10, "memory 10 is less than the 768 bytes"),
        ((8,), (2, 4), 10_000, "must be uint8 images"),
    ],
)
def test_what_cannot_work_is_refused(frame, tile, memory, message):
    ring = Ring(blocks=4, streams=2, block_length=3, item_blocks=3, skipped=1)
    with pytest.raises(ValueError, match=message):
        tile_store(lambda step: step, memory=memory, tile=tile)(
            jnp.zeros(frame, jnp.uint8), ring
        )
    with pytest.raises(ValueError, match="float32"):
        tile_store(lambda step: step, memory=10_000)(jnp.zeros((210, 160)), ring)

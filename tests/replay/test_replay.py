"""What is sampled is what was added, as often as its priority says, until it goes."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sidequest.replay.replay import Index, _draw, make_replay
from tests.replay.streams import (
    CORE,
    STEP,
    adder,
    assert_item,
    block,
    fill,
    items,
    observations,
    sampler,
)


@cache
def replay_of(blocks, *, streams=3, length=4, prefix=2, **kwargs):
    return make_replay(
        STEP,
        CORE,
        streams=streams,
        capacity=blocks * length * streams,
        block_length=length,
        prefix=prefix,
        **kwargs,
    )


def sampleable_blocks(replay, state):
    """The first trained blocks of the items that can be sampled, in order."""
    rows = np.asarray(state.priorities)
    assert (np.all(rows > 0, axis=1) == np.any(rows > 0, axis=1)).all()
    newest = int(state.added) - 1
    held = range(newest, newest - replay.ring.blocks, -1)
    return sorted(k for k in held if rows[k % replay.ring.blocks, 0] > 0)


# (block length, prefix, streams, blocks): prefix shorter than, as long as, or longer
# than a block, or none; no room to spare, or some.
SHAPES = [(4, 2, 3, 3), (4, 4, 2, 5), (2, 5, 2, 8), (1, 3, 1, 5), (3, 0, 2, 2)]


@given(shape=st.sampled_from(SHAPES), added=st.integers(0, 20), seed=st.integers(0, 999))
@settings(max_examples=20, deadline=None)
def test_samples_are_the_stretches_that_were_added(shape, added, seed):
    length, prefix, streams, blocks = shape
    replay = replay_of(blocks, streams=streams, length=length, prefix=prefix)
    state = fill(replay, added)
    # Items whose blocks are all held: none reaches back to an overwritten block.
    prefix_blocks = -(-prefix // length)
    expected = range(max(added - blocks, 0) + prefix_blocks, added - 1)
    assert sampleable_blocks(replay, state) == list(expected)
    assert int(items(state)) == len(expected) * streams
    assert int(observations(replay, state)) == min(added, blocks) * length * streams
    sample = sampler(replay, 16)(jax.random.key(seed), state)
    if expected:
        assert_item(replay, prefix, sample)
        assert set(np.asarray(sample.index.block)) <= set(expected)
        np.testing.assert_array_equal(sample.weights, 1.0)
    else:
        np.testing.assert_array_equal(sample.weights, 0.0)


@pytest.mark.parametrize(("length", "prefix"), [(40, 20), (20, 40)])
def test_paper_like_shapes(length, prefix):
    replay = replay_of(6, streams=2, length=length, prefix=prefix)
    sample = sampler(replay, 32)(jax.random.key(0), fill(replay, 15))
    assert_item(replay, prefix, sample)
    assert sample.steps.time.shape == (32, prefix + 2 * length)


def test_trace_of_the_module_docstring():
    replay = replay_of(3)
    assert replay.core_offset == 2
    assert sampleable_blocks(replay, fill(replay, 2)) == []
    assert sampleable_blocks(replay, fill(replay, 3)) == [1]
    assert sampleable_blocks(replay, fill(replay, 4)) == [2]
    sample = sampler(replay, 1)(jax.random.key(0), fill(replay, 4))
    np.testing.assert_array_equal(sample.steps.time[0], np.arange(6, 16))
    assert int(sample.core.time[0]) == 6


def test_items_keep_the_priority_they_came_with():
    replay = replay_of(5)
    state = fill(replay, 8, lambda n: np.arange(3.0) + 10.0 * n)
    # Block n completes the item that starts one block earlier.
    for k in (4, 5, 6):
        expected = np.arange(3.0) + 10.0 * (k + 1)
        np.testing.assert_array_equal(np.asarray(state.priorities)[k % 5], expected)
    assert int(items(state)) == 9


def test_frequencies_follow_the_priorities_to_the_power():
    replay = replay_of(6, streams=4)
    state = fill(replay, 6, lambda n: 2.0 ** (n + np.arange(4.0)))
    rows = np.asarray(state.priorities, np.float64)
    p = np.where(rows > 0, rows**0.9, 0).ravel()
    p /= p.sum()
    index = sampler(replay, 20_000)(jax.random.key(1), state).index
    drawn = np.asarray(index.block % 6) * 4 + np.asarray(index.stream)
    counts = np.bincount(drawn, minlength=24)
    assert (counts[p == 0] == 0).all()
    test = stats.chisquare(counts[p > 0], 20_000 * p[p > 0])
    assert test.pvalue > 0.01


def test_never_samples_priority_zero_among_many_items():
    """10^5 items of which one in ten is sampleable, over twelve orders of magnitude."""
    replay = replay_of(800, streams=125, length=1, prefix=0)
    rng = np.random.default_rng(0)
    rows = 10.0 ** rng.uniform(-6, 6, (800, 125)) * (rng.random((800, 125)) < 0.1)
    rows[700:] = 0
    state = replay.init()._replace(
        priorities=jnp.asarray(rows, jnp.float32), added=jnp.int32(800)
    )
    index = sampler(replay, 20_000)(jax.random.key(0), state).index
    assert (rows[np.asarray(index.block), np.asarray(index.stream)] > 0).all()


@given(
    mass=st.lists(st.sampled_from([0.0, 1e-6, 1.0, 3e7]), min_size=1, max_size=40),
    u=st.floats(0, 1, exclude_max=True, width=32),
)
@settings(max_examples=100, deadline=None)
def test_draw_lands_on_positive_mass(mass, u):
    mass = np.pad(np.asarray(mass, np.float32), (0, 40 - len(mass)))
    drawn = int(jax.jit(_draw)(jnp.float32(u), mass))
    assert mass[drawn] > 0 or not mass.any()


@pytest.mark.parametrize("u", [0.0, 1 - 2**-24])
def test_draw_at_both_ends(u):
    mass = np.array([0.0, 0.0, 1.0, 0.0, 2.0, 0.0], np.float32)
    assert int(jax.jit(_draw)(np.float32(u), mass)) == (2 if u == 0 else 4)


def test_weights_agree_with_numpy():
    replay = replay_of(6, streams=4)
    state = fill(replay, 6, lambda n: 1.7 ** (n + np.arange(4.0)))
    sample = sampler(replay, 64)(jax.random.key(3), state)
    rows = np.asarray(state.priorities, np.float64)
    p = np.where(rows > 0, rows**0.9, 0)
    p /= p.sum()
    block, stream = np.asarray(sample.index.block), np.asarray(sample.index.stream)
    weights = (1 / (np.count_nonzero(p) * p[block % 6, stream])) ** 0.6
    np.testing.assert_allclose(sample.weights, weights / weights.max(), rtol=1e-5)


def test_exponent_zero_is_uniform_over_what_is_there():
    replay = replay_of(6, priority_exponent=0.0)
    state = fill(replay, 6, lambda n: 10.0 ** jnp.arange(3.0))
    sample = sampler(replay, 3_000)(jax.random.key(0), state)
    np.testing.assert_array_equal(sample.weights, 1.0)
    assert set(np.asarray(sample.index.block)) == {1, 2, 3, 4}


def test_reprioritise_by_hand():
    replay = replay_of(5)
    state = fill(replay, 5)
    index = Index(jnp.array([2, 3, 2, 3]), jnp.array([0, 1, 0, 2]))
    new = replay.reprioritise(state, index, jnp.array([5.0, 0.0, 4.0, jnp.nan]))
    expected = np.asarray(state.priorities).copy()
    expected[2, 0] = 5.0  # twice in the batch: the largest
    expected[3, 1] = expected[3, 2] = 1e-6  # no error, or not a number: the floor
    np.testing.assert_array_equal(new.priorities, expected)


@given(later=st.integers(0, 12), prefix=st.sampled_from([0, 2, 9]))
@settings(max_examples=15, deadline=None)
def test_items_that_have_gone_stay_gone(later, prefix):
    """A batch may be in flight while blocks are added, up to whole laps of the ring."""
    replay = replay_of(5, prefix=prefix)
    state = fill(replay, 7)
    index = sampler(replay, 8)(jax.random.key(later), state).index
    for number in range(7, 7 + later):
        state = adder(replay)(state, jnp.int32(number), jnp.ones(3))
    before = sampleable_blocks(replay, state)
    new = jax.jit(replay.reprioritise)(state, index, jnp.full(8, 9.0))
    assert sampleable_blocks(replay, new) == before
    changed = np.argwhere(np.asarray(new.priorities) == 9.0)
    alive = {
        (k % 5, b)
        for k, b in zip(index.block.tolist(), index.stream.tolist(), strict=True)
        if k in before
    }
    assert {tuple(row) for row in changed.tolist()} == alive


@pytest.mark.parametrize("bad", [np.inf, 3e38, np.nan, -1.0, 0.0])
def test_no_priority_spoils_the_sums(bad):
    replay = replay_of(5)
    state = fill(replay, 5, lambda n: jnp.array([1.0, bad, 1.0]))
    sample = sampler(replay, 64)(jax.random.key(0), state)
    assert np.isfinite(sample.weights).all()
    assert_item(replay, 2, sample)


def add_then_sample(replay, key, state, number, priority):
    """What a run does over and over."""
    state = replay.add(state, *block(replay, number), priority)
    sample = replay.sample(key, state, 4)
    priorities = 1.0 + (sample.index.block + sample.index.stream).astype(float)
    return replay.reprioritise(state, sample.index, priorities), sample


def test_scan_equals_loop():
    replay = replay_of(5)
    step = partial(add_then_sample, replay)
    keys = jax.random.split(jax.random.key(0), 12)
    numbers = jnp.arange(12, dtype=jnp.int32)
    priorities = jax.random.uniform(jax.random.key(1), (12, 3))
    scanned = jax.jit(
        partial(jax.lax.scan, lambda state, x: step(x[0], state, x[1], x[2]))
    )(replay.init(), (keys, numbers, priorities))
    state, looped = replay.init(), []
    for x in zip(keys, numbers, priorities, strict=True):
        state, sample = jax.jit(step)(x[0], state, x[1], x[2])
        looped.append(sample)
    looped = (state, jax.tree.map(lambda *xs: jnp.stack(xs), *looped))
    jax.tree.map(np.testing.assert_array_equal, scanned, looped)


def test_population_equals_its_members():
    replay = replay_of(5)
    step = jax.jit(partial(add_then_sample, replay))
    together = jax.jit(jax.vmap(step, in_axes=(0, 0, None, 0)))
    one = replay.init()
    many = jax.tree.map(lambda x: jnp.stack([x] * 3), one)
    states = [one] * 3
    for number in range(9):
        keys = jax.random.split(jax.random.key(number), 3)
        priorities = jax.random.uniform(keys[0], (3, 3))
        many, samples = together(keys, many, jnp.int32(number), priorities)
        pairs = [
            step(keys[i], states[i], jnp.int32(number), priorities[i]) for i in range(3)
        ]
        states = [state for state, _ in pairs]
        alone = jax.tree.map(lambda *xs: jnp.stack(xs), *pairs)
        jax.tree.map(np.testing.assert_array_equal, (many, samples), alone)


def test_each_function_compiles_once():
    replay = replay_of(4)
    add = jax.jit(replay.add, donate_argnums=0)
    sample = jax.jit(replay.sample, static_argnums=2)
    reprioritise = jax.jit(replay.reprioritise, donate_argnums=0)
    state = jax.jit(replay.init)()
    for number in range(10):
        state = add(state, *block(replay, number), jnp.ones(3))
        batch = sample(jax.random.key(number), state, 4)
        state = reprioritise(state, batch.index, batch.weights)
    assert add._cache_size() == sample._cache_size() == 1
    assert reprioritise._cache_size() == 1


def test_add_writes_in_place():
    """No copy of the ring: the compiled scan needs no room beside its input."""
    replay = replay_of(2_000, streams=16)
    steps, core = block(replay, 0)

    def collect(state):
        def one(state, priority):
            return replay.add(state, steps, core, priority), None

        return jax.lax.scan(one, state, jnp.ones((10, 16)))[0]

    state = jax.eval_shape(replay.init)
    memory = jax.jit(collect, donate_argnums=0).lower(state).compile().memory_analysis()
    ring_bytes = 2_000 * 16 * 4 * (4 + 4 + 6)
    assert memory.alias_size_in_bytes > ring_bytes
    assert memory.temp_size_in_bytes < ring_bytes / 5


def test_capacity_is_in_whole_blocks():
    replay = make_replay(STEP, CORE, streams=3, capacity=50, block_length=4, prefix=2)
    assert replay.ring.blocks == 4
    assert int(observations(replay, fill(replay, 9))) == 48


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"capacity": 35}, "capacity 35 is less than the 36 observations"),
        ({"prefix": 5, "capacity": 47}, "capacity 47 is less than the 48 observations"),
    ],
)
def test_sizes_that_cannot_work_are_refused(change, message):
    sizes = {"streams": 3, "capacity": 100, "block_length": 4, "prefix": 2} | change
    with pytest.raises(ValueError, match=message):
        make_replay(STEP, CORE, **sizes)

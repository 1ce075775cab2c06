"""Novelty falls where the predictor has been, and only there."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from sidequest.agent.convolutions import ConvolutionShape, encode
from sidequest.agent.rnd import RND, _normalise, make_rnd
from tests.agent.batches import spec_of

VECTOR = spec_of(6)
PLANES = spec_of(10, 10, 4)
GRID = spec_of(7, 7, 2, categories=(5, 3))
FRAME = spec_of(64, 48, 3, maximum=255.0)
SPECS = [VECTOR, PLANES, GRID, FRAME]

PAPER_TORSO = (
    ConvolutionShape(32, kernel=8, stride=4),
    ConvolutionShape(64, kernel=4, stride=2),
    ConvolutionShape(64, kernel=3, stride=1),
)
SMALL_TORSO = (ConvolutionShape(16, kernel=3),)
TORSOS = {VECTOR: (), PLANES: SMALL_TORSO, GRID: SMALL_TORSO, FRAME: PAPER_TORSO}


@functools.cache
def make(spec, learning_rate=3e-3, **settings):
    rnd = make_rnd(
        spec,
        optax.adam(learning_rate),
        convolutions=TORSOS[spec],
        downsampling=2 if spec == FRAME else 1,
        units=64,
        **settings,
    )
    return RND(*map(jax.jit, rnd))


def observe(seed, spec, *batch):
    """Random observations: by default 16, so that tests share compiled programs."""
    highest = 3 if spec.categories else int(spec.maximum) + 1
    shape = (*(batch or (16,)), *spec.observation_shape)
    return jnp.asarray(np.random.default_rng(seed).integers(0, highest, shape, np.int32))


@pytest.mark.parametrize("spec", SPECS)
def test_novelty_falls_where_it_learned_and_stays_elsewhere(spec):
    rnd = make(spec)
    state = rnd.init(jax.random.key(0))
    seen, unseen = observe(1, spec), observe(2, spec)
    losses = []
    for _ in range(150):
        state, novelty = rnd.update(state, seen)
        losses.append(np.mean(novelty))
    assert losses[-1] < 0.1 * losses[0]
    assert np.median(rnd.update(state, unseen)[1]) > 3 * losses[-1]


def test_the_target_never_changes():
    spec = PLANES
    rnd = make(spec)
    first = state = rnd.init(jax.random.key(0))
    for seed in range(3):
        state, _ = rnd.update(state, observe(seed, spec))
    jax.tree.map(np.testing.assert_array_equal, state.target, first.target)
    predictors = jax.device_get((state.predictor, first.predictor))
    changed = jax.tree.map(lambda x, y: np.any(x != y), *predictors)
    assert all(jax.tree.leaves(changed))


def test_novelty_by_numpy():
    rnd = make(VECTOR)
    state = rnd.init(jax.random.key(0))
    seen = observe(1, VECTOR)
    x = np.asarray(seen, np.float32)

    def embed(embedding, x):
        for layer in embedding.torso.layers:
            x = np.maximum(x @ np.asarray(layer.weight) + np.asarray(layer.bias), 0)
        return x @ np.asarray(embedding.output.weight) + np.asarray(embedding.output.bias)

    normal = np.clip((x - x.mean(0)) / np.maximum(x.std(0), 1e-4), -5, 5)
    difference = embed(state.predictor, normal) - embed(state.target, normal)
    _, novelty = rnd.update(state, seen)
    np.testing.assert_allclose(novelty, np.mean(difference**2, axis=1), rtol=1e-4)
    assert len(state.predictor.torso.layers) == len(state.target.torso.layers) + 1


@pytest.mark.parametrize("spec", [GRID, FRAME])
def test_the_normaliser_is_that_of_numpy(spec):
    rnd = make(spec)
    state = rnd.init(jax.random.key(0))
    batches = [observe(seed, spec) for seed in range(4)]
    for batch in batches:
        state, _ = rnd.update(state, batch)
    flat = np.concatenate(batches)
    pixels = flat[:, ::2, ::2] if spec == FRAME else flat
    encoded = jax.jit(jax.vmap(lambda x: encode(spec, x)))
    inputs = np.asarray(encoded(jnp.asarray(pixels)))
    assert state.normaliser.count == len(flat)
    np.testing.assert_allclose(state.normaliser.mean, inputs.mean(0), atol=1e-5)
    np.testing.assert_allclose(state.normaliser.variance, inputs.var(0), atol=1e-5)

    deviation = np.maximum(inputs.std(0), 1e-4)
    expected = np.clip((inputs[0] - inputs.mean(0)) / deviation, -5, 5)
    ours = _normalise(jnp.asarray(inputs[0]), state.normaliser)
    np.testing.assert_allclose(ours, expected, atol=1e-3)


def test_an_input_that_changes_for_the_first_time_is_clipped():
    rnd = make(VECTOR)
    nothing = jnp.zeros((16, 6), jnp.int32)
    state, _ = rnd.update(rnd.init(jax.random.key(0)), nothing)
    new = _normalise(jnp.array([0.0, 1, -1, 0, 0, 0]), state.normaliser)
    np.testing.assert_array_equal(new, [0, 5, -5, 0, 0, 0])


def test_update_returns_the_novelty_before_it_learned():
    rnd = make(VECTOR, learning_rate=0.1)
    state, x = rnd.init(jax.random.key(0)), observe(1, VECTOR, 2, 4)
    new, novelty = rnd.update(state, x)
    unlearned = new._replace(predictor=state.predictor)
    np.testing.assert_allclose(novelty, rnd.update(unlearned, x)[1], rtol=1e-5)
    assert novelty.shape == (2, 4) and new.normaliser.count == 8
    assert np.any(rnd.update(new, x)[1] != novelty)


def test_the_paper_network():
    # Every second pixel: 105 x 80 x 3; SAME by 4, 2, 1: 14 x 10 x 64.
    spec = spec_of(210, 160, 3, maximum=255.0)
    rnd = make_rnd(spec, optax.adam(2e-4), convolutions=PAPER_TORSO, downsampling=2)
    state = jax.eval_shape(rnd.init, jax.random.key(0))
    convolutions = (8 * 8 * 3 * 32 + 32) + (4 * 4 * 32 * 64 + 64) + (3 * 3 * 64 * 64 + 64)
    linear = 14 * 10 * 64 * 128 + 128
    sizes = [
        sum(leaf.size for leaf in jax.tree.leaves(network))
        for network in (state.target, state.predictor)
    ]
    assert sizes == [convolutions + linear, convolutions + linear + 128 * 128 + 128]
    assert state.normaliser.mean.shape == (105, 80, 3)


@pytest.mark.parametrize("spec", [VECTOR, FRAME])
def test_bfloat16_is_close_to_float32(spec):
    exact, coarse = make(spec), make(spec, compute_dtype="bfloat16")
    state, x = exact.init(jax.random.key(0)), observe(1, spec)
    (new, novelty), (new_coarse, coarse_novelty) = (
        exact.update(state, x),
        coarse.update(state, x),
    )
    np.testing.assert_allclose(coarse_novelty, novelty, rtol=0.1)
    assert coarse_novelty.dtype == jnp.float32
    leaves = jax.tree.leaves(new_coarse.predictor)
    assert all(leaf.dtype == jnp.float32 for leaf in leaves)
    shapes = [jax.tree.map(jnp.shape, one.predictor) for one in (new, new_coarse)]
    assert shapes[0] == shapes[1]


def test_a_population_is_its_members_apart():
    rnd = make(PLANES)
    keys = jax.random.split(jax.random.key(0), 3)
    x = [observe(seed, PLANES) for seed in range(3)]
    states = jax.jit(jax.vmap(rnd.init))(keys)
    _, together = jax.jit(jax.vmap(rnd.update))(states, np.stack(x))
    apart = [rnd.update(rnd.init(keys[i]), x[i])[1] for i in range(3)]
    np.testing.assert_allclose(together, np.stack(apart), rtol=1e-4)

"""The LSTM's sequences against its steps, and its gradient against JAX's own."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from sidequest.agent.networks import LSTM, CoreState, unroll_lstm
from tests.agent.comparisons import assert_close

STEPS, UNITS, INPUTS = 7, 5, 3


@jax.jit
def make_core(seed=0):
    return LSTM(jax.random.key(seed), INPUTS, UNITS)


def make_batch(*streams):
    """Projections, first steps and a state of a batch; the first continues from it."""
    rng = np.random.default_rng(0)
    projections = 2 * rng.normal(size=(STEPS, *streams, 4 * UNITS)).astype(np.float32)
    is_first = rng.random((STEPS, *streams)) < 0.2
    is_first[0] = False
    hidden, cell = rng.normal(size=(2, *streams, UNITS)).astype(np.float32)
    return projections, is_first, CoreState(hidden, cell)


@functools.partial(jax.jit, static_argnums=0)
def unroll_one(at_once, recurrent, projections, is_first, state):
    """`unroll_lstm` of one core."""
    states = jax.tree.map(lambda leaf: leaf[None], state)
    outputs, states = unroll_lstm(
        at_once, recurrent[None], projections[:, None], is_first, states
    )
    return outputs[:, 0], jax.tree.map(lambda leaf: leaf[0], states)


@jax.jit
def by_steps(recurrent, projections, is_first, state):
    """The same by `lax.scan` over single steps, with JAX's gradient."""
    core = eqx.tree_at(
        lambda core: core.recurrent, make_core(), recurrent.astype(projections.dtype)
    )
    one_step = core.step
    for _ in state.hidden.shape[:-1]:
        one_step = jax.vmap(one_step)

    def advance(state, step):
        projection, is_first = step
        kept = jax.tree.map(lambda x: jnp.where(is_first[..., None], 0.0, x), state)
        state = one_step(projection, kept)
        return state, state.hidden

    state, outputs = lax.scan(advance, state, (projections, is_first))
    return outputs, state


def loss_by(unroll, is_first):
    """Of all outputs, and of the last state, so that every gradient counts."""

    def loss(recurrent, projections, state):
        outputs, end = unroll(recurrent, projections, is_first, state)
        weights = jnp.sin(jnp.arange(outputs.size)).reshape(outputs.shape)
        return jnp.sum(weights * outputs**2) + jnp.sum(end.hidden * end.cell)

    return loss


def test_one_step_by_hand():
    """All gates 0 but for their biases: c' = sigmoid(1) c, h' = tanh(c') / 2."""
    core = make_core()
    nothing = eqx.filter_jit(core.inputs)(jnp.zeros(INPUTS))
    np.testing.assert_array_equal(nothing, [0] * 10 + [1] * 5 + [0] * 5)
    before = CoreState(jnp.zeros(UNITS), jnp.full(UNITS, 2.0))
    state = eqx.filter_jit(core.step)(nothing, before)
    np.testing.assert_allclose(state.cell, 2 / (1 + np.exp(-1)), rtol=1e-6)
    np.testing.assert_allclose(state.hidden, np.tanh(2 / (1 + np.exp(-1))) / 2, rtol=1e-6)


@pytest.mark.parametrize("streams, at_once", [((), 1), ((6,), 4), ((2, 3), 100)])
def test_a_sequence_and_its_gradient_are_those_of_its_steps(streams, at_once):
    recurrent, (projections, is_first, state) = make_core().recurrent, make_batch(*streams)
    unroll = functools.partial(unroll_one, at_once)
    assert_close(
        unroll(recurrent, projections, is_first, state),
        by_steps(recurrent, projections, is_first, state),
    )
    ours, theirs = (
        jax.jit(jax.grad(loss_by(way, is_first), argnums=(0, 1, 2)))(
            recurrent, projections, state
        )
        for way in (unroll, by_steps)
    )
    assert_close(ours, theirs)
    assert all(np.any(leaf != 0) for leaf in jax.tree.leaves(ours))


def test_many_cores_are_each_of_them_alone_and_the_first_one_learns():
    recurrent = np.stack([make_core(seed).recurrent for seed in (0, 1, 2)])
    projections, is_first, state = make_batch(6)
    projections = np.stack([projections, 1 - projections, projections**2], axis=1)
    states = jax.tree.map(lambda leaf: np.stack([leaf, -leaf, 2 * leaf]), state)
    unroll = jax.jit(unroll_lstm, static_argnums=0)
    outputs, ends = jax.device_get(unroll(4, recurrent, projections, is_first, states))
    for k in range(3):
        start, end = (jax.tree.map(lambda leaf, k=k: leaf[k], x) for x in (states, ends))
        alone = unroll_one(4, recurrent[k], projections[:, k], is_first, start)
        assert_close((outputs[:, k], end), alone)

    def loss(recurrent, projections, states):
        outputs, ends = unroll_lstm(4, recurrent, projections, is_first, states)
        weights = jnp.cos(jnp.arange(outputs.size)).reshape(outputs.shape)
        return jnp.sum(weights * outputs) + jnp.sum(ends.hidden**2 * ends.cell)

    gradient = jax.jit(jax.grad(loss, argnums=(0, 1, 2)))
    d_recurrent, d_projections, d_states = jax.device_get(
        gradient(recurrent, projections, states)
    )

    def loss_of_first(recurrent, projections, state):
        outputs, end = by_steps(recurrent, projections, is_first, state)
        every = jnp.cos(jnp.arange(3 * outputs.size)).reshape(STEPS, 3, 6, UNITS)
        return jnp.sum(every[:, 0] * outputs) + jnp.sum(end.hidden**2 * end.cell)

    start = jax.tree.map(lambda leaf: leaf[0], states)
    exact = jax.jit(jax.grad(loss_of_first, argnums=(0, 1, 2)))(
        recurrent[0], projections[:, 0], start
    )
    of_first = d_recurrent[0], d_projections[:, 0]
    assert_close((*of_first, jax.tree.map(lambda leaf: leaf[0], d_states)), exact)
    assert all(np.any(leaf != 0) for leaf in jax.tree.leaves(exact))
    of_others = (
        d_recurrent[1:],
        d_projections[:, 1:],
        d_states.hidden[1:],
        d_states.cell[1:],
    )
    assert not any(np.any(leaf) for leaf in of_others)


def test_nothing_crosses_a_first_step_not_even_what_is_not_finite():
    recurrent, (projections, _, state) = make_core().recurrent, make_batch(1)
    is_first = np.arange(STEPS)[:, None] == 3
    spoilt = CoreState(*(np.full((1, UNITS), x, np.float32) for x in (np.inf, np.nan)))
    outputs, after = (
        np.asarray(unroll_one(1, recurrent, projections, is_first, start)[0])
        for start in (state, spoilt)
    )
    np.testing.assert_array_equal(after[3:], outputs[3:])
    assert not np.any(np.isfinite(after[:3]))

    def later(projections):
        return jnp.sum(unroll_one(1, recurrent, projections, is_first, state)[0][3:])

    gradient = np.asarray(jax.jit(jax.grad(later))(projections))
    np.testing.assert_array_equal(gradient[:3], 0)
    # All gates but the forget gate, which has nothing to forget there.
    assert np.count_nonzero(gradient[3]) == 3 * UNITS

    never = is_first | (np.arange(STEPS)[:, None] == 0)  # is the state of before seen
    loss = loss_by(functools.partial(unroll_one, 1), never)
    gradients = jax.jit(jax.grad(loss, (0, 1, 2)))(recurrent, projections, spoilt)
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(gradients))


def test_in_bfloat16_the_gradient_of_the_matrix_is_added_up_in_float32():
    """Against float32, with the same rounded inputs: JAX's own adds up rounded sums."""
    recurrent, (projections, is_first, state) = make_core().recurrent, make_batch(64)
    coarse = projections.astype(jnp.bfloat16)

    def gradient(way, projections):
        loss = jax.jit(jax.grad(loss_by(way, is_first)))
        return np.asarray(loss(recurrent, projections, state))

    exact = gradient(by_steps, coarse.astype(jnp.float32))
    ours = gradient(functools.partial(unroll_one, 1), coarse)
    theirs = gradient(by_steps, coarse)
    size = np.linalg.norm(exact)
    error, usual = (np.linalg.norm(x - exact) / size for x in (ours, theirs))
    assert error < min(0.01, usual)
    # And never rounded to what bfloat16 can say.
    assert np.mean(ours == ours.astype(jnp.bfloat16)) < 0.1
    assert np.all(theirs == theirs.astype(jnp.bfloat16))


def test_in_bfloat16_products_are_rounded_and_sums_are_not():
    """1 + 2^-9 is more than bfloat16 can say: U is rounded to it, W x + h U is not."""
    fine = 1 + 2.0**-9
    first = np.zeros((1, 1), bool)
    g = slice(UNITS, 2 * UNITS)

    def cell_after(weight, projection):
        recurrent = np.zeros((UNITS, 4 * UNITS), np.float32)
        recurrent[0, g] = weight
        projections = np.zeros((1, 1, 4 * UNITS), jnp.bfloat16)
        projections[..., g] = projection
        ones, zeros = np.ones((1, UNITS), np.float32), np.zeros((1, UNITS), np.float32)
        state = CoreState(ones, zeros)
        outputs, end = unroll_one(1, recurrent, projections, first, state)
        assert outputs.dtype == end.cell.dtype == jnp.float32
        return np.asarray(end.cell)[0, 0]

    np.testing.assert_allclose(cell_after(fine, 0), np.tanh(1) / 2, rtol=1e-6)
    np.testing.assert_allclose(cell_after(2.0**-9, 1), np.tanh(fine) / 2, rtol=1e-6)

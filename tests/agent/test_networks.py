"""The network by hand, by steps, by sequence, and by population."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sidequest.agent.convolutions import ConvolutionShape
from sidequest.agent.networks import (
    CoreState,
    Inputs,
    QFunction,
    RecurrentQNetwork,
    count_parameters,
    unroll_together,
)
from sidequest.agent.scaling import Normalisation
from tests.agent.batches import spec_of, unroll_one
from tests.agent.comparisons import assert_close

ACTIONS, HEADS, STEPS = 4, 3, 9
GRID = spec_of(7, 7, 2, actions=ACTIONS, categories=(5, 3))
PLANES = spec_of(10, 10, 4, actions=ACTIONS)
VECTOR = spec_of(3, actions=ACTIONS, maximum=2.0)
FRAME = spec_of(40, 33, 3, actions=ACTIONS, maximum=255.0)

PAPER_TORSO = (
    ConvolutionShape(32, kernel=7, stride=4),
    ConvolutionShape(64, kernel=5, stride=2),
    ConvolutionShape(128, kernel=5, stride=2),
    ConvolutionShape(128, kernel=3, stride=1),
)
SMALL_TORSO = (ConvolutionShape(5, kernel=3),)
TORSOS = {VECTOR: (), PLANES: SMALL_TORSO, GRID: SMALL_TORSO, FRAME: PAPER_TORSO}


@eqx.filter_jit
def build_network(key, spec, settings):
    sizes = dict(torso_units=(12,), core_units=10, post_units=9, head_units=8)
    sizes |= dict(convolutions=TORSOS[spec]) | settings
    return RecurrentQNetwork(key, spec, HEADS, **sizes)


def make_network(seed=0, spec=VECTOR, **settings):
    return build_network(jax.random.key(seed), spec, settings)


def make_q(seed=0, spec=VECTOR, **settings):
    network = make_network(seed, spec, **settings)
    return QFunction(network, network.identity_normalisation())


def make_inputs(seed=0, spec=VECTOR, steps=STEPS, first=()):
    rng = np.random.default_rng(seed)
    highest = 3 if spec.categories else int(spec.maximum) + 1
    inputs = Inputs(
        observation=rng.integers(0, highest, (steps, *spec.observation_shape), np.int32),
        previous_action=rng.integers(0, ACTIONS, steps, np.int32),
        previous_reward=10 * rng.normal(size=steps).astype(np.float32),
        is_first=np.isin(np.arange(steps), first),
    )
    return jax.tree.map(jnp.asarray, inputs)


def make_state(seed=0):
    numbers = np.random.default_rng(seed).normal(size=(2, 10)).astype(np.float32)
    return CoreState(*map(jnp.asarray, numbers))


# By NumPy: each shape that jax.numpy is given is a program to compile.


def stack(trees):
    return jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *trees)


def at(inputs, t):
    return jax.tree.map(lambda x: jnp.asarray(np.asarray(x)[t]), inputs)


@eqx.filter_jit
def step(q_function, inputs, state):
    return q_function.step(inputs, state)


def test_parameters_of_the_paper_network_by_hand():
    spec = spec_of(210, 160, 3, actions=18, maximum=255.0)
    network = eqx.filter_eval_shape(
        lambda key: RecurrentQNetwork(key, spec, 2, convolutions=PAPER_TORSO),
        jax.random.key(0),
    )
    convolutions = (
        (7 * 7 * 3 * 32 + 32)
        + (5 * 5 * 32 * 64 + 64)
        + (5 * 5 * 64 * 128 + 128)
        + (3 * 3 * 128 * 128 + 128)
    )
    pre = 14 * 10 * 128 * 512 + 512
    lstm = (512 + 18 + 1) * 4 * 512 + 512 * 4 * 512 + 4 * 512
    post = 512 * 256 + 256
    value = (256 * 256 + 256) + (256 * 1 + 1)
    advantage = (256 * 256 + 256) + (256 * 18 + 18)
    expected = convolutions + pre + lstm + post + 2 * (value + advantage)
    assert expected == 12_126_438
    assert count_parameters(network) == expected


def test_count_parameters():
    # Torso 3 * 12 + 12; LSTM (12 + 4 + 1 + 10) * 40 + 40; linear 10 * 9 + 9;
    # heads 3 * (2 * (9 * 8 + 8) + (8 + 1) + (8 * 4 + 4)).
    assert count_parameters(make_network()) == 48 + 1120 + 99 + 3 * (160 + 9 + 36)


def test_one_step_by_numpy():
    q_function, inputs, state = make_q(), at(make_inputs(), 0), make_state()
    network = q_function.network
    q, new = jax.tree.map(np.asarray, step(q_function, inputs, state))

    def linear(layer, x):
        return x @ np.asarray(layer.weight) + np.asarray(layer.bias)

    def sigmoid(x):
        return 1 / (1 + np.exp(-x))

    reward = float(inputs.previous_reward)
    features = np.maximum(
        linear(network.torso.layers[0], np.asarray(inputs.observation) / 2), 0
    )
    before = [*np.eye(4)[inputs.previous_action], np.sign(reward) * np.log1p(abs(reward))]
    gates = linear(network.core.inputs, np.concatenate([features, before]))
    gates = gates + np.asarray(state.hidden) @ np.asarray(network.core.recurrent)
    i, g, f, o = np.split(gates, 4)
    cell = sigmoid(f) * np.asarray(state.cell) + sigmoid(i) * np.tanh(g)
    hidden = sigmoid(o) * np.tanh(cell)
    assert_close(new, CoreState(hidden, cell))

    x = np.maximum(linear(network.post, hidden), 0)
    for h in range(HEADS):
        head = jax.tree.map(lambda leaf, h=h: np.asarray(leaf)[h], network.heads)
        value = linear(head.value, np.maximum(linear(head.value_hidden, x), 0))
        hidden_advantage = np.maximum(linear(head.advantage_hidden, x), 0)
        advantage = linear(head.advantage, hidden_advantage)
        assert_close(q[h], value + advantage - advantage.mean())
        # Duelling: the mean over actions is V (methods: and not the maximum).
        assert_close(q[h].mean(), value[0])


@pytest.mark.parametrize("spec, unroll", [(VECTOR, 4), (PLANES, 1), (GRID, 1), (FRAME, 4)])
def test_unroll_is_step_by_step(spec, unroll):
    q_function = make_q(spec=spec, scan_unroll=unroll)
    inputs, state = make_inputs(spec=spec, first=(0, 4)), make_state()
    q, end = unroll_one(q_function, inputs, state)
    assert q.shape == (STEPS, HEADS, ACTIONS)
    for t in range(STEPS):
        q_t, state = step(q_function, at(inputs, t), state)
        assert_close(np.asarray(q)[t], q_t)
    assert_close(end, state)


def test_networks_together_are_each_of_them_step_by_step_and_the_first_one_learns():
    networks = [make_network(seed) for seed in (0, 1)]
    inputs = stack([make_inputs(seed, first=(seed + 2,)) for seed in (0, 1, 2)])
    states = stack([stack([make_state(3 * k + n) for n in range(3)]) for k in (0, 1)])

    same = networks[0].identity_normalisation()

    def by_steps(network, inputs, state):
        def advance(state, now):
            q, state = QFunction(network, same).step(now, state)
            return state, q

        state, q = jax.lax.scan(advance, state, inputs)
        return q, state

    def together(networks):
        q, ends = unroll_together(networks, same, inputs, states)
        return jnp.sum(q[0] ** 2) + jnp.sum(q[1] ** 2), (q, ends)

    def apart(networks):
        rows = [
            jax.vmap(by_steps, in_axes=(None, 0, 0))(network, inputs, at(states, k))
            for k, network in enumerate(networks)
        ]
        q, ends = zip(*rows, strict=True)
        ends = jax.tree.map(lambda *leaves: jnp.stack(leaves), *ends)
        return jnp.sum(q[0] ** 2) + jnp.sum(q[1] ** 2), (list(q), ends)

    def solve(way):
        return jax.device_get(jax.jit(jax.value_and_grad(way, has_aux=True))(networks))

    (_, ours), (of_first, of_second) = solve(together)
    (_, theirs), (exact, _) = solve(apart)
    assert_close(ours, theirs, 1e-4)
    assert_close(of_first, exact, 1e-3)
    assert all(np.any(leaf != 0) for leaf in jax.tree.leaves(exact))
    assert not any(np.any(leaf) for leaf in jax.tree.leaves(of_second))


def test_an_episode_that_starts_inside_a_sequence_knows_nothing_of_the_one_before():
    unroll, whole = partial(unroll_one, make_q()), make_inputs(first=(4,))
    q, end = unroll(whole, make_state())
    # Alone, from an empty state, with no previous action and reward.
    alone = at(whole, slice(4, None))
    zeroed = alone._replace(
        previous_action=alone.previous_action.at[0].set(3),
        previous_reward=alone.previous_reward.at[0].set(1e6),
    )
    q_alone, end_alone = unroll(zeroed, make_q().initial_state())
    assert_close((np.asarray(q)[4:], end), (q_alone, end_alone))

    # No gradient crosses the boundary either.
    @jax.jit
    @jax.jacrev
    def gradients(state):
        q, _ = unroll(whole, state)
        return jnp.array([jnp.sum(q[:4]), jnp.sum(q[4:])])

    before, after = gradients(make_state()).cell
    assert np.any(before != 0)
    np.testing.assert_array_equal(after, 0)


def test_previous_action_and_reward_matter_where_the_episode_goes_on():
    q_function, inputs = make_q(), at(make_inputs(), 1)
    q, _ = step(q_function, inputs, make_state())
    for other in (
        inputs._replace(previous_action=(inputs.previous_action + 1) % ACTIONS),
        inputs._replace(previous_reward=inputs.previous_reward + 1),
    ):
        assert np.any(step(q_function, other, make_state())[0] != q)


def test_without_recurrence_nothing_is_remembered():
    inputs = make_inputs()
    forgetful = make_q(recurrent=False)
    q, _ = unroll_one(forgetful, inputs, make_state(0))
    assert_close(q, unroll_one(forgetful, inputs, make_state(1))[0])
    for t in range(STEPS):
        alone, _ = step(forgetful, at(inputs, t), make_state(t))
        assert_close(np.asarray(q)[t], alone)
    assert count_parameters(forgetful.network) == count_parameters(make_network())


def test_normalisation_is_around_the_network():
    """A plain network would get (x - 1) / 4, and its output f would become 3 f + 10."""
    plain, inputs = make_q(), make_inputs()
    x = inputs.observation.astype(jnp.float32)
    mean, unit = jnp.array([0.0, 10.0, -200.0]), jnp.array([1.0, 3.0, 0.5])
    around = Normalisation(jnp.full(x.shape[1:], 0.5), jnp.float32(2.0), mean, unit)
    # Observations are divided by 2, their maximum, before all else.
    scaled = inputs._replace(observation=(x - 1.0) / 2.0)
    f, _ = unroll_one(plain, scaled, make_state())
    q, _ = unroll_one(QFunction(plain.network, around), inputs, make_state())
    expected = np.asarray(mean)[:, None] + np.asarray(unit)[:, None] * np.asarray(f)
    assert_close(q, expected, 1e-4)


def test_heads_start_differently():
    q, _ = unroll_one(make_q(), make_inputs(), make_state())
    assert len(np.unique(np.round(np.asarray(q)[0], 5), axis=0)) == HEADS


def test_a_population_is_its_members_apart():
    spec = PLANES
    networks = [make_network(seed, spec) for seed in range(3)]
    inputs = [make_inputs(seed, spec, first=(seed,)) for seed in range(3)]
    same = networks[0].identity_normalisation()

    @eqx.filter_jit
    def gradient(network, inputs):
        def loss(network):
            q, _ = unroll_one(QFunction(network, same), inputs, make_state())
            return jnp.sum(q**2)

        return eqx.filter_grad(loss)(network)

    together = eqx.filter_jit(eqx.filter_vmap(gradient))(stack(networks), stack(inputs))
    apart = stack([gradient(*one) for one in zip(networks, inputs, strict=True)])
    assert_close(together, apart, 1e-4)


@pytest.mark.parametrize("spec", [PLANES, FRAME])
def test_bfloat16_is_close_to_float32(spec):
    inputs, state = make_inputs(spec=spec), make_state()
    exact, exact_end = unroll_one(make_q(spec=spec), inputs, state)
    coarse_q = make_q(spec=spec, compute_dtype="bfloat16")
    coarse, coarse_end = unroll_one(coarse_q, inputs, state)
    assert coarse.dtype == coarse_end.cell.dtype == jnp.float32
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(coarse_q))
    assert_close((coarse, coarse_end), (exact, exact_end), 0.05)


def test_a_reward_of_any_size_gives_finite_values():
    inputs = at(make_inputs(), 0)._replace(previous_reward=jnp.float32(-1e30))
    q, _ = step(make_q(), inputs, make_state())
    assert np.all(np.isfinite(q))

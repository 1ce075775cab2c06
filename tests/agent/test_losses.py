"""Targets against numbers by hand, a walk in NumPy, and RLax."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import rlax

from sidequest.agent.losses import (
    Ends,
    Rules,
    Step,
    continuing_traces,
    double_q_values,
    episode_ends,
    n_step_targets,
    sequence_priority,
    td_errors,
    unroll,
)
from sidequest.agent.modes import make_heads
from tests import OPTIMISED
from tests.agent.batches import make_network, random_core, random_steps

n_step_targets = jax.jit(n_step_targets, static_argnames="n")
td_errors = jax.jit(td_errors)

GAMMA = 0.9
SEEDS = range(20)


def ends_of(steps, terminated=(), truncated=(), cut=(), timeout_is_terminal=False):
    first = (*terminated, *truncated, *cut)
    flags = (np.isin(np.arange(steps), each) for each in (terminated, truncated, first))
    return ends_by(*flags, timeout_is_terminal)


@functools.partial(jax.jit, static_argnames=("timeout_is_terminal", "episodic"))
def ends_by(terminated, truncated, is_first, timeout_is_terminal, episodic=True):
    """Ends of T transitions, from what arrived with their T next states."""
    flags = (jnp.append(False, flag) for flag in (terminated, truncated, is_first))
    nothing = jnp.zeros(len(terminated) + 1)
    action = nothing.astype(int)
    (head,) = make_heads((), discount=GAMMA)
    head = head._replace(episodic=episodic)
    return episode_ends(
        Step(nothing, action, nothing, *flags, action),
        head,
        Rules((head,), 0, 5, timeout_is_terminal, 0.9),
    )


@pytest.mark.parametrize("timeout_is_terminal", [False, True])
def test_nothing_is_learned_across_a_cut(timeout_is_terminal):
    # An episode begins with step 2, and none has ended: transition 1 has no target, and
    # transition 0 may look ahead to s1 only. 1 + 0.9 * 20 = 19.
    ends = ends_of(4, cut=[1], timeout_is_terminal=timeout_is_terminal)
    r, v = jnp.array([1.0, 0.0, 3.0, 4.0]), jnp.array([20.0, 300.0, 40.0, 50.0])
    target = n_step_targets(r, ends, v, jnp.ones(4, bool), n=5)
    assert target[0] == pytest.approx(1 + 0.9 * 20)
    assert target[2] == pytest.approx(3 + 0.9 * (4 + 0.9 * 50))
    errors = td_errors(jnp.full(4, 300.0), target, ends)
    assert errors[1] == 0.0 and errors[2] != 0.0


def random_stream(seed, steps=23):
    """Rewards, values, traces, Q of actions taken, and ends of both kinds."""
    rng = np.random.default_rng(seed)
    end = rng.random(steps) < 0.2
    terminated = end & (rng.random(steps) < 0.5)
    return dict(
        r=rng.normal(size=steps).astype(np.float32),
        v=rng.normal(size=steps).astype(np.float32),
        trace=rng.random(steps) < 0.7,
        q=rng.normal(size=steps).astype(np.float32),
        terminated=terminated,
        truncated=end & ~terminated,
    )


def targets(stream, n, timeout_is_terminal=False, **options):
    terminated, truncated = stream["terminated"], stream["truncated"]
    ends = ends_by(terminated, truncated, terminated | truncated, timeout_is_terminal)
    r, v, trace = (stream[name] for name in ("r", "v", "trace"))
    return n_step_targets(r, ends, v, trace, n, **options), ends


def walk(stream, n, timeout_is_terminal):
    """TD errors of every transition, by walking forward from it."""
    steps = len(stream["r"])
    errors = np.zeros(steps)
    for start in range(steps):
        total, discount = 0.0, 1.0
        for t in range(start, min(start + n, steps)):
            if stream["truncated"][t] and not timeout_is_terminal:
                # Not a step further than the last state of the episode.
                total = None if t == start else total + discount * stream["v"][t - 1]
                break
            total += discount * stream["r"][t]
            if stream["terminated"][t] or stream["truncated"][t]:
                break
            discount *= GAMMA
            if t == min(start + n, steps) - 1 or not stream["trace"][t]:
                total += discount * stream["v"][t]
                break
        errors[start] = 0.0 if total is None else total - stream["q"][start]
    return errors


@pytest.mark.parametrize("timeout_is_terminal", [False, True])
@pytest.mark.parametrize("n", [1, 3, 5])
def test_targets_are_those_of_a_walk_through_the_stream(n, timeout_is_terminal):
    for seed in SEEDS:
        stream = random_stream(seed)
        target, ends = targets(stream, n, timeout_is_terminal)
        errors = td_errors(jnp.asarray(stream["q"]), target, ends)
        expected = walk(stream, n, timeout_is_terminal)
        np.testing.assert_allclose(errors, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("n", [1, 5])
def test_targets_are_those_of_rlax(n):
    for seed in SEEDS:
        stream = random_stream(seed) | {"truncated": np.zeros(23, bool)}
        target, ends = targets(stream, n)
        expected = rlax.n_step_bootstrapped_returns(
            jnp.asarray(stream["r"]),
            ends.discount_t,
            jnp.asarray(stream["v"]),
            n,
            lambda_t=jnp.asarray(stream["trace"], jnp.float32),
        )
        np.testing.assert_allclose(target, expected, rtol=1e-5, atol=1e-5)


rlax_errors = jax.jit(rlax.transformed_n_step_q_learning, static_argnums=6)


def test_errors_are_those_of_rlax_from_q_values():
    steps, num_actions = 23, 4
    for seed in SEEDS:
        stream = random_stream(seed)
        rng = np.random.default_rng(seed)
        q_online, q_target = rng.normal(size=(2, steps + 1, num_actions)).astype("f")
        actions = rng.integers(0, num_actions, steps + 1, np.int32)
        stream["v"] = np.asarray(jax.jit(double_q_values)(q_online, q_target))[1:]
        stream["trace"] = np.ones(steps, bool)
        stream["truncated"] = np.zeros(steps, bool)
        target, ends = targets(stream, 5)
        q_taken = q_online[np.arange(steps), actions[:-1]]
        expected = rlax_errors(
            q_online[:-1],
            actions[:-1],
            q_target[1:],
            np.argmax(q_online[1:], axis=-1).astype(np.int32),
            stream["r"],
            ends.discount_t,
            5,
        )
        errors = td_errors(q_taken, target, ends)
        np.testing.assert_allclose(errors, expected, rtol=1e-5, atol=1e-5)


def test_by_hand():
    # n = 2, gamma 0.9, the episode ends with transition 2:
    #   1 + 0.9 (2 + 0.9 * 20);  2 + 0.9 * 4;  4;  8 + 0.9 * 40, short as the stream ends
    r, v = jnp.array([1.0, 2, 4, 8]), jnp.array([10.0, 20, 30, 40])
    target = n_step_targets(r, ends_of(4, terminated=(2,)), v, jnp.ones(4, bool), 2)
    np.testing.assert_allclose(target, [19.0, 5.6, 4, 44], rtol=1e-6)
    # Not greedy at s_1: transition 0 bootstraps there. 1 + 0.9 * 10
    trace = jnp.array([False, True, True, True])
    target = n_step_targets(r, ends_of(4, terminated=(2,)), v, trace, 2)
    np.testing.assert_allclose(target, [10.0, 5.6, 4, 44], rtol=1e-6)


def test_a_truncation_by_hand():
    # The episode is truncated by transition 2. Transition 1 bootstraps at s_2: 2 + 0.9 * 20
    r, v = jnp.array([1.0, 2, 4, 8]), jnp.array([10.0, 20, 30, 40])
    ends = ends_of(4, truncated=(2,))
    target = n_step_targets(r, ends, v, jnp.ones(4, bool), 2)
    errors = td_errors(jnp.ones(4), target, ends)
    np.testing.assert_allclose(errors, [18.0, 19.0, 0.0, 43.0], rtol=1e-6)
    terminal = ends_of(4, truncated=(2,), timeout_is_terminal=True)
    expected = ends_of(4, terminated=(2,))
    jax.tree.map(np.testing.assert_array_equal, terminal, expected)


@pytest.mark.parametrize("timeout_is_terminal", [False, True])
def test_a_return_that_is_not_episodic_passes_into_the_next_episode(timeout_is_terminal):
    # Transition 0 terminates, 1 is truncated by time, 2 by an interruption, n 2, gamma 0.9:
    #   1 + 0.9 (2 + 0.9 * 20);  2 + 0.9 * 20, at s_2 at the latest;  nothing;  8 + 0.9 * 40
    time = np.arange(4)
    ends = ends_by(time == 0, time == 1, time < 3, timeout_is_terminal, episodic=False)
    r, v = jnp.array([1.0, 2, 4, 8]), jnp.array([10.0, 20, 30, 40])
    target = n_step_targets(r, ends, v, jnp.ones(4, bool), 2)
    errors = td_errors(jnp.zeros(4), target, ends)
    np.testing.assert_allclose(errors, [19.0, 20.0, 0.0, 44.0], rtol=1e-6)


@pytest.mark.parametrize("timeout_is_terminal", [False, True])
def test_nothing_crosses_an_episode_boundary(timeout_is_terminal):
    for seed in SEEDS:
        stream = random_stream(seed)
        end = stream["terminated"] | stream["truncated"]
        last = int(np.flatnonzero(end)[-1])
        other = {name: np.array(x) for name, x in stream.items()}
        other["r"][last + 1 :] += 100.0
        other["v"][last:] += 100.0  # v[last] is that of the next episode's first state
        errors = [
            td_errors(jnp.asarray(s["q"]), *targets(s, 5, timeout_is_terminal))
            for s in (stream, other)
        ]
        np.testing.assert_array_equal(errors[0][: last + 1], errors[1][: last + 1])


def test_double_q_takes_the_action_of_one_and_the_value_of_the_other():
    online = jnp.array([[1.0, 3.0, 2.0], [5.0, 4.0, 0.0]])
    target = jnp.array([[10.0, 20.0, 30.0], [40.0, 50.0, 60.0]])
    np.testing.assert_array_equal(double_q_values(online, target), [20.0, 40.0])


def test_each_head_has_its_own_greedy_actions():
    q = jnp.array([[[1.0, 2.0], [2.0, 1.0], [2.0, 1.0]], [[3.0, 3.0], [0.0, 1.0], [0, 1]]])
    cut = jnp.array([True, True, False])
    traces = continuing_traces(q, jnp.array([1, 0]), cut, 0.0)
    # Of equal actions the first is greedy; the last head does not cut.
    np.testing.assert_array_equal(traces, [[True, False, True], [True, False, True]])
    tied = continuing_traces(jnp.ones((2, 1, 2)), jnp.array([0, 1]), cut[:1], 0.0)
    np.testing.assert_array_equal(tied, [[True], [False]])


def test_a_trace_is_cut_where_the_action_is_worth_less_than_the_tolerance_allows():
    q = jnp.array([[[4.0, 3.0, 1.0], [-16.0, -8.0, -10.0]]] * 3)
    traces = continuing_traces(q, jnp.array([0, 1, 2]), jnp.ones(2, bool), 0.5)
    # Worth less by 0, 1 and 3 of 4 in the first head, by 8, 0 and 2 of 8 in the other.
    np.testing.assert_array_equal(traces, [[True, False], [True, True], [False, True]])


def test_targets_have_no_gradient():
    stream = random_stream(0)

    def loss(v):
        target, ends = targets(stream | {"v": v}, 5)
        return jnp.sum(td_errors(jnp.zeros(23), target, ends))

    np.testing.assert_array_equal(jax.grad(loss)(jnp.asarray(stream["v"])), 0.0)


def test_an_unknown_next_state_trains_nothing():
    ends = Ends(jnp.full(3, GAMMA), jnp.array([False, True, False]))

    def loss(q):
        return jnp.sum(td_errors(q, jnp.array([1.0, jnp.nan, 1.0]), ends) ** 2)

    np.testing.assert_array_equal(jax.grad(loss)(jnp.zeros(3)), [-2.0, 0.0, -2.0])


def test_priority_is_mostly_the_largest_error():
    # 0.9 * 4 + 0.1 * (1 + 4 + 1 + 2) / 4
    priority = sequence_priority(jnp.array([1.0, -4.0, 1.0, 2.0]))
    np.testing.assert_allclose(priority, 3.8, rtol=1e-6)


def test_a_batch_of_streams_is_each_alone():
    streams = [random_stream(seed) for seed in range(3)]
    stacked = jax.tree.map(lambda *x: np.stack(x), *streams)
    batch, _ = jax.vmap(lambda stream: targets(stream, 5))(stacked)
    alone = [targets(stream, 5)[0] for stream in streams]
    np.testing.assert_allclose(batch, np.stack(alone), rtol=1e-6)


def test_a_greedy_action_cuts_no_trace_in_a_compiled_program():
    """A compiler may compute Q-values twice, once for the action and once for the best."""
    network, core = make_network(3, jax.random.key(0)), random_core(0, 16)
    steps, always = random_steps(0, 16, 40), jnp.ones(3, bool)
    same = network.identity_normalisation()

    @functools.partial(jax.jit, compiler_options=OPTIMISED)
    def q_of(network, steps, core):
        return unroll(network, network, same, steps, core, 0)[0]

    @functools.partial(jax.jit, compiler_options=OPTIMISED)
    def traces_of(network, steps, core):
        q = unroll(network, network, same, steps, core, 0)[0]
        return jax.vmap(lambda q, a: continuing_traces(q, a, always, 0.0))(q, steps.action)

    best = np.argmax(q_of(network, steps, core), axis=-1)
    greedy = best == np.asarray(steps.action)[..., None]
    np.testing.assert_array_equal(traces_of(network, steps, core), greedy)
    assert 0 < np.mean(greedy) < 1

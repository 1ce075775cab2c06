"""The learner against a transcription, RLax, and what must not change its result."""

import functools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import rlax

from sidequest.agent.learner import make_learner
from sidequest.agent.losses import (
    Rules,
    first_priorities,
    sequence_errors,
    unroll,
)
from sidequest.agent.modes import make_heads
from sidequest.agent.networks import Inputs, QFunction, RecurrentQNetwork
from sidequest.agent.rnd import RND, RNDState
from sidequest.agent.scaling import FLOOR, Moments, ReturnStatistics, return_scale
from tests.agent.batches import (
    ACTIONS,
    ITEMS,
    UNITS,
    make_network,
    random_core,
    random_steps,
    spec_of,
)

PREFIX, TRAINED, N_STEP = 3, 9, 5
GAMMA, SHORT = 0.9, 0.5
CLIP = 0.5
TARGET_INTERVAL = 3
WEIGHTS = jnp.array([1.0, 0.5, 0.25, 0.8])


def rules_of(*heads, **changes):
    return Rules(
        heads=make_heads(heads, discount=GAMMA, short_discount=SHORT),
        prefix=PREFIX,
        n_step=N_STEP,
        timeout_is_terminal=False,
        priority_mix=0.9,
    )._replace(**changes)


# Novelty of an observation: the sum of its numbers; its state counts the updates.
COUNTING = RND(
    init=lambda key: RNDState(None, None, None, jnp.zeros((), jnp.int32)),
    update=lambda state, x: (
        state._replace(optimiser=state.optimiser + 1),
        jnp.sum(x, axis=-1),
    ),
)


CLIPPED = optax.chain(optax.clip_by_global_norm(CLIP), optax.sgd(1.0))
BOTH = {"normalise_inputs": True, "normalise_values": True}


@functools.cache
def compiled(*heads, **changes):
    """A learner with compiled functions, and a state whose target differs."""
    rules = rules_of(*heads, **changes)
    learner = make_learner(
        partial(make_network, len(rules.heads)),
        optax.adam(1e-2) if "intrinsic" in heads else CLIPPED,
        rules,
        target_interval=TARGET_INTERVAL,
        rnd=COUNTING if "intrinsic" in heads else None,
    )
    learner = learner._replace(
        init=jax.jit(learner.init),
        update=jax.jit(learner.update),
        update_return_scales=jax.jit(learner.update_return_scales),
    )
    state = learner.init(jax.random.key(0))
    other = learner.init(jax.random.key(1))
    return learner, state._replace(target=other.network), rules


@pytest.fixture
def batch():
    return random_steps(0, ITEMS, PREFIX + TRAINED), random_core(0)


@jax.jit
def step_all(network, inputs, core):
    q_function = QFunction(network, network.identity_normalisation())
    return jax.vmap(q_function.step)(inputs, core)


@partial(jax.jit, static_argnums=3)
def rlax_targets(r_t, discount_t, v_t, n, lambda_t):
    """Of one stream; like ours, but for the kinds of the numbers."""
    lambda_t = lambda_t.astype(jnp.float32)
    return rlax.n_step_bootstrapped_returns(r_t, discount_t, v_t, n, lambda_t)


def q_by_steps(network, steps, core):
    """Q-values of the trained steps, one call of `step` at a time."""
    rows, steps = [], jax.device_get(steps)
    for t in range(PREFIX + TRAINED):
        at = jax.tree.map(lambda leaf, t=t: leaf[:, t], steps)
        inputs = Inputs(at.observation, at.previous_action, at.reward, at.is_first)
        q, core = step_all(network, inputs, core)
        rows.append(np.asarray(q))
    return np.stack(rows[PREFIX:], axis=1)


def over_time(steps):
    """Sequences [N, T] as actors' blocks [T, N]."""
    return jax.tree.map(lambda leaf: np.swapaxes(leaf, 0, 1), jax.device_get(steps))


def transcription(q, q_target, rewards, steps, rules):
    """Loss of each item, priorities, scales and errors, in NumPy, targets by RLax."""
    trained = jax.tree.map(lambda leaf: np.asarray(leaf)[:, PREFIX:], steps)
    items, length, heads, _ = q.shape
    errors = np.zeros((items, length - 1, heads))
    targets = np.zeros_like(errors)
    sigma = np.zeros(heads)
    for h, head in enumerate(rules.heads):
        terminated = trained.terminated[:, 1:]
        if rules.timeout_is_terminal:
            terminated = terminated | trained.truncated[:, 1:]
        unknown = trained.truncated[:, 1:] & ~terminated & head.episodic
        terminated = terminated & head.episodic
        discounts = np.where(terminated, 0.0, head.discount).astype(np.float32)
        for i in range(items):
            best = q[i, :, h].argmax(axis=-1)
            value = q_target[i, np.arange(length), h, best]
            taken = q[i, np.arange(length), h, trained.action[i]]
            goes_on = np.ones(length - 1, bool)
            if head.cut_traces:
                own = q[i, np.arange(length), h, best]
                least = own - rules.trace_tolerance * np.abs(own)
                goes_on = ((best == trained.action[i]) | (taken > least))[1:]
            goes_on &= ~np.append(unknown[i, 1:], False)
            targets[i, :, h] = rlax_targets(
                rewards[i, :, h], discounts[i], value[1:], N_STEP, goes_on
            )
            errors[i, :, h] = np.where(unknown[i], 0.0, targets[i, :, h] - taken[:-1])
        spread = np.var(discounts, dtype=float) * np.mean(targets[..., h] ** 2)
        sigma[h] = max(np.sqrt(np.var(rewards[..., h]) + spread), FLOOR)
    scaled = errors / sigma
    share = [rules.novelty_weight if h.source == "intrinsic" else 1 for h in rules.heads]
    losses = 0.5 * np.sum(share * scaled**2, axis=(1, 2))
    counted = slice(None) if rules.priorities == "all" else [0, 2]
    size = np.abs(scaled)[..., counted].mean(axis=2)
    priorities = 0.9 * size.max(axis=1) + 0.1 * size.mean(axis=1)
    return losses, priorities, sigma, errors


CENTRED = {"centre_novelty": True, "priorities": "extrinsic", "novelty_weight": 0.25}
LIMITS = {"timeout_is_terminal": True}
TOLERANT = {"trace_tolerance": 0.5}
ENDLESS = {
    "heads": make_heads(
        ("intrinsic", "short"),
        discount=GAMMA,
        short_discount=SHORT,
        episodic_novelty=False,
    )
}


@pytest.mark.parametrize(
    ("heads", "changes"),
    [
        (("extrinsic",), {}),
        (("intrinsic", "short"), {}),
        (("intrinsic", "short"), CENTRED | LIMITS | TOLERANT),
        (("intrinsic", "short"), ENDLESS),
    ],
)
def test_an_update_is_its_transcription(heads, changes):
    learner, state, rules = compiled(*heads, **changes)
    for seed in range(3):
        steps = random_steps(seed, ITEMS, PREFIX + TRAINED)
        core = random_core(seed)
        _, priorities, metrics = learner.update(state, steps, core, WEIGHTS)
        q = q_by_steps(state.network, steps, core)
        q_target = q_by_steps(state.target, steps, core)
        arrived = np.asarray(steps.reward)[:, PREFIX + 1 :]
        first = np.asarray(steps.is_first)[:, PREFIX + 1 :]
        led_to = np.asarray(steps.observation)[:, PREFIX + 1 :].sum(axis=-1)
        led_to = led_to - led_to.mean() if rules.centre_novelty else led_to
        led_to = led_to / np.sqrt(np.mean(led_to**2))
        novel = led_to if changes == ENDLESS else np.where(first, 0.0, led_to)
        columns = [novel if head.source == "intrinsic" else arrived for head in rules.heads]
        rewards = np.stack(columns, axis=-1).astype(np.float32)
        losses, expected, sigma, errors = transcription(q, q_target, rewards, steps, rules)
        assert steps.truncated[:, PREFIX + 1 :].any()
        assert steps.terminated[:, PREFIX + 1 :].any()
        close = partial(np.testing.assert_allclose, rtol=2e-4, atol=1e-5)
        close(metrics.loss, np.mean(WEIGHTS * losses))
        close(priorities, expected)
        close(metrics.scale, sigma)
        close(metrics.td_error, np.abs(errors).mean(axis=(0, 1)))
        close(metrics.priority, expected.mean())


def test_running_statistics_have_their_say_in_the_scale(batch):
    learner, state, _ = compiled("extrinsic")
    one = jnp.ones(1)
    # Rewards with deviation 30 have been seen: far more than in the batch.
    seen = ReturnStatistics(
        Moments(one, one, 900 * one), Moments(one, one, 0 * one), Moments(one, one, one)
    )
    _, priorities, _ = learner.update(state, *batch, WEIGHTS)
    _, scaled, metrics = learner.update(
        state._replace(return_statistics=seen), *batch, WEIGHTS
    )
    _, _, before = learner.update(state, *batch, WEIGHTS)
    np.testing.assert_allclose(metrics.scale, 30.0, rtol=1e-6)
    np.testing.assert_allclose(scaled * 30.0, priorities * before.scale, rtol=1e-5)


def test_burn_in_carries_no_gradient(batch):
    learner, state, _ = compiled("extrinsic")
    steps, core = batch
    steps = steps._replace(is_first=jnp.zeros_like(steps.is_first))

    @jax.jit
    @partial(jax.grad, argnums=(0, 1))
    def gradient(observation, core):
        seen = steps._replace(observation=observation)
        return learner.update(state, seen, core, WEIGHTS)[2].loss

    observations, cores = gradient(steps.observation, core)
    np.testing.assert_array_equal(observations[:, :PREFIX], 0.0)
    jax.tree.map(lambda leaf: np.testing.assert_array_equal(leaf, 0.0), cores)
    # All trained steps but the last, which has no error, have one.
    assert (np.abs(observations[:, PREFIX:-1]).sum(axis=(0, 2)) > 0).all()


def test_burn_in_does_matter(batch):
    learner, state, _ = compiled("extrinsic")
    steps, core = batch
    steps = steps._replace(is_first=jnp.zeros_like(steps.is_first))
    moved = steps._replace(observation=steps.observation.at[:, :PREFIX].add(1.0))
    losses = [
        learner.update(state, *inputs, WEIGHTS)[2].loss
        for inputs in ((steps, core), (moved, core), (steps, random_core(9)))
    ]
    assert len(set(map(float, losses))) == 3


def test_what_came_before_an_episode_does_not_reach_its_q_values(batch):
    _, state, _ = compiled("extrinsic")
    steps, core = batch
    both = state.network, state.target, state.normalisation
    run = jax.jit(lambda steps, core: jnp.stack(unroll(*both, steps, core, PREFIX), -1))
    start = PREFIX + 4
    first = np.zeros_like(steps.is_first)
    first[:, start] = True
    steps = steps._replace(is_first=first)
    other = random_steps(7, ITEMS, PREFIX + TRAINED)
    mixed = jax.tree.map(
        lambda a, b: np.concatenate([a[:, :start], b[:, start:]], 1),
        *jax.device_get((other._replace(is_first=first), steps)),
    )
    # The action and the reward that arrive with the first step belong to the past too.
    mixed.previous_action[:, start] = ACTIONS - 1
    mixed.reward[:, start] = 50.0
    q, changed = np.asarray(run(steps, core)), np.asarray(run(mixed, random_core(7)))
    np.testing.assert_array_equal(q[:, start - PREFIX :], changed[:, start - PREFIX :])
    assert (q[:, : start - PREFIX] != changed[:, : start - PREFIX]).all()


def test_a_permuted_batch_gives_the_same_update(batch):
    learner, state, _ = compiled("intrinsic", "short")
    order = np.array([2, 0, 3, 1])
    permuted = jax.tree.map(lambda leaf: np.asarray(leaf)[order], batch)
    one, priorities, metrics = learner.update(state, *batch, WEIGHTS)
    two, shuffled, same = learner.update(state, *permuted, WEIGHTS[order])
    close = partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-5)
    close(shuffled, priorities[order])
    jax.tree.map(close, metrics, same)
    jax.tree.map(close, one.network, two.network)


def test_importance_weights_scale_the_loss(batch):
    learner, state, _ = compiled("extrinsic")

    def loss(weights):
        return float(learner.update(state, *batch, weights)[2].loss)

    whole = loss(WEIGHTS)
    np.testing.assert_allclose(loss(2 * WEIGHTS), 2 * whole, rtol=1e-5)
    alone = [loss(row) for row in jnp.eye(ITEMS)]
    np.testing.assert_allclose(np.dot(alone, WEIGHTS), whole, rtol=1e-5)
    assert loss(jnp.zeros(ITEMS)) == 0.0


def test_the_target_network_is_renewed_at_its_interval_only(batch):
    learner, state, _ = compiled("extrinsic")

    def equal(one, two):
        # A compiler may compute a sum twice, and round it differently.
        leaves = zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True)
        return all(np.allclose(x, y, rtol=1e-6, atol=1e-7) for x, y in leaves)

    for number in range(1, 8):
        before, state = state, learner.update(state, *batch, WEIGHTS)[0]
        assert state.updates == number
        assert not equal(state.network, before.network)
        if number % TARGET_INTERVAL == 0:
            assert equal(state.target, state.network)
        else:
            jax.tree.map(np.testing.assert_array_equal, state.target, before.target)


def test_the_gradient_is_clipped_and_reported_as_it_was(batch):
    learner, state, _ = compiled("extrinsic")
    after, _, metrics = learner.update(state, *batch, WEIGHTS)
    assert metrics.gradient_norm > 2 * CLIP
    moved = jax.tree.map(np.subtract, *jax.device_get((after.network, state.network)))
    squares = [np.sum(np.square(leaf)) for leaf in jax.tree.leaves(moved)]
    np.testing.assert_allclose(np.sqrt(np.sum(squares)), CLIP, rtol=1e-4)


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("bad", [np.nan, np.inf, 3e38])
def test_an_update_that_is_not_finite_is_left_out_and_counted(batch, bad, normalised):
    heads, changes = (["extrinsic"], BOTH) if normalised else (["intrinsic", "short"], {})
    learner, state, _ = compiled(*heads, **changes)
    steps, core = batch
    reward = steps.reward.at[1, PREFIX + 2].set(bad)
    after, blamed, metrics = learner.update(
        state, steps._replace(reward=reward), core, WEIGHTS
    )
    # Replay gives a priority of 0 the lowest that there is; the others keep their own.
    assert blamed[1] == 0 and (np.delete(blamed, 1) > 0).all()
    assert after.skipped == (1, 1, 1) and metrics.skipped == 1
    unchanged = after._replace(skipped=state.skipped)
    jax.tree.map(np.testing.assert_array_equal, unchanged, state)
    later, priorities, metrics = learner.update(after, steps, core, WEIGHTS)
    assert later.updates == 1 and metrics.skipped == 1
    assert later.skipped == (1, 0, 1) and metrics.skipped_in_a_row == 1
    for leaf in jax.tree.leaves((later, priorities, metrics)):
        assert np.isfinite(leaf).all()


def test_novelty_learns_once_an_update_and_only_where_it_counts(batch):
    learner, state, _ = compiled("intrinsic", "short")
    for number in range(3):
        assert state.rnd.optimiser == number
        state, _, metrics = learner.update(state, *batch, WEIGHTS)
    counts = state.return_statistics.reward.count
    # The extrinsic heads' statistics come from actors, not from replay.
    np.testing.assert_array_equal(counts, [0.0, 3 * ITEMS * (TRAINED - 1), 0.0])
    assert metrics.intrinsic_reward != 0.0
    assert compiled("extrinsic")[1].rnd is None


def test_first_priorities_are_the_learners_formula_with_the_actors_values():
    rules = rules_of("short")
    steps = random_steps(3, TRAINED, ITEMS)  # [T, B], as streams are
    rng = np.random.default_rng(3)
    taken, value = rng.normal(size=(2, TRAINED, ITEMS)).astype(np.float32)
    scale = jnp.float32(2.5)
    found = jax.jit(partial(first_priorities, rules=rules))(
        steps._replace(observation=None), taken, value, scale
    )
    for b in range(ITEMS):
        own = jax.tree.map(lambda leaf, b=b: np.asarray(leaf)[1:, b], steps)
        unknown = own.truncated
        target = rlax_targets(
            own.reward,
            np.where(own.terminated, 0.0, GAMMA).astype(np.float32),
            value[1:, b],
            N_STEP,
            ~np.append(unknown[1:], False),
        )
        size = np.where(unknown, 0.0, np.abs(target - taken[:-1, b])) / 2.5
        np.testing.assert_allclose(
            found[b], 0.9 * size.max() + 0.1 * size.mean(), rtol=1e-5
        )


def test_first_priorities_are_those_of_the_learner_where_both_see_the_same(batch):
    """One head, its own values as target's, batch and running scale alike."""
    learner, state, rules = compiled("extrinsic")
    steps, core = batch
    state = state._replace(target=state.network)
    _, priorities, metrics = learner.update(state, steps, core, WEIGHTS)
    q = q_by_steps(state.network, steps, core)[:, :, 0]
    trained = over_time(jax.tree.map(lambda leaf: np.asarray(leaf)[:, PREFIX:], steps))
    taken = np.take_along_axis(q.swapaxes(0, 1), np.asarray(trained.action)[..., None], -1)
    found = jax.jit(partial(first_priorities, rules=rules))(
        trained._replace(observation=None),
        taken[..., 0],
        q.max(axis=-1).T,
        metrics.scale[0],
    )
    np.testing.assert_allclose(found, priorities, rtol=1e-4)


def test_what_actors_report_by_hand():
    learner, state, _ = compiled("intrinsic", "short")
    steps = random_steps(0, 3, 1, ends=0.0)._replace(
        reward=jnp.array([[1.0], [0.0], [4.0]]),
        terminated=jnp.array([[False], [True], [False]]),
        is_first=jnp.array([[False], [True], [False]]),
    )
    values = jnp.array([[[7.0, 7.0, 7.0]], [[7.0, 7.0, 7.0]], [[10.0, 7.0, 20.0]]])
    statistics = learner.update_return_scales(state, steps, values).return_statistics
    # Returns: 4 + 0.9 * 10 = 13;  0, the end;  1 + 0.9 * 0 = 1.   Short: 14, 0, 1
    for h, gamma, returns in [(0, GAMMA, [1, 0, 13]), (2, SHORT, [1, 0, 14])]:
        for moments, seen in zip(
            statistics, ([1, 0, 4], [gamma, 0, gamma], returns), strict=True
        ):
            assert moments.count[h] == 3
            np.testing.assert_allclose(moments.mean[h], np.mean(seen), rtol=1e-5)
            np.testing.assert_allclose(moments.variance[h], np.var(seen), rtol=1e-4)
    # No actor sees an intrinsic reward.
    for moments in statistics:
        assert moments.count[1] == moments.mean[1] == moments.variance[1] == 0.0
    used = state._replace(return_statistics=statistics).scales
    spread = np.var([GAMMA, 0, GAMMA]) * np.mean(np.square([1, 0, 13]))
    np.testing.assert_allclose(used[0], np.sqrt(np.var([1, 0, 4]) + spread), rtol=1e-4)
    assert used[1] == np.float32(FLOOR)


def test_two_reports_are_one_of_both():
    learner, state, _ = compiled("extrinsic")
    halves = [random_steps(seed, 4, 2) for seed in (0, 1)]
    values = jnp.ones((4, 2, 1))
    for half in halves:
        state = learner.update_return_scales(state, half, values)
    rewards = np.concatenate([np.asarray(half.reward).ravel() for half in halves])
    np.testing.assert_allclose(
        state.return_statistics.reward.mean[0], rewards.mean(), atol=1e-6
    )
    np.testing.assert_allclose(
        state.return_statistics.reward.variance[0], rewards.var(), rtol=1e-5
    )
    assert return_scale(state.return_statistics)[0] >= np.sqrt(rewards.var()) * (1 - 1e-5)


def test_a_network_without_a_prefix_starts_at_the_stored_state():
    _, state, _ = compiled("extrinsic")
    steps, core = random_steps(0, ITEMS, TRAINED, ends=0.0), random_core(0)
    both = state.network, state.target
    of_both = jax.jit(
        lambda steps, core: unroll(*both, state.normalisation, steps, core, 0)
    )(steps, core)
    at = jax.tree.map(lambda leaf: np.asarray(leaf)[:, 0], steps)
    inputs = Inputs(at.observation, at.previous_action, at.reward, at.is_first)
    for network, q in zip(both, jax.device_get(of_both), strict=True):
        first, _ = step_all(network, inputs, core)
        np.testing.assert_allclose(q[:, 0], first, rtol=1e-5, atol=1e-6)
    assert core.hidden.shape == (ITEMS, UNITS)


def test_a_mean_value_is_worth_centred_rewards(batch):
    """r + d (m + f') - (m + f)  =  (r - (1 - d) m) + d f' - f, whatever ends inside; here f
    in units of 20 and 0.5."""
    steps, _ = batch
    rules, mean = rules_of("extrinsic", "short"), np.array([30.0, -4.0], np.float32)
    rng = np.random.default_rng(3)
    shape = 2, ITEMS, PREFIX + TRAINED, 2, ACTIONS
    unit = np.array([20.0, 0.5]).reshape(1, 1, 1, 2, 1)
    q, q_target = (unit * rng.normal(size=shape)).astype("f")
    rewards = rng.normal(size=(ITEMS, PREFIX + TRAINED - 1, 2)).astype("f")
    goes_on = 1.0 - np.asarray(steps.terminated[:, 1:])[..., None]
    discounts = goes_on * np.array([GAMMA, SHORT])
    centred = (rewards - (1 - discounts) * mean).astype("f")
    up = mean.reshape(1, 1, 2, 1)
    errors = jax.jit(partial(sequence_errors, rules=rules))
    ours = errors(q + up, q_target + up, steps, rewards)
    theirs = errors(q, q_target, steps, centred)
    np.testing.assert_allclose(ours.td, theirs.td, rtol=1e-4, atol=1e-3)
    assert np.any(ours.td)


@pytest.mark.parametrize("normalised", [False, True])
def test_what_all_states_are_worth_need_not_be_learned(normalised):
    """A reward of 1 at every step, for ever, is worth 1 / (1 - 0.9) = 10."""
    learner, state, rules = compiled("extrinsic", **(BOTH if normalised else {}))
    steps = random_steps(0, ITEMS, PREFIX + TRAINED, ends=0.0)
    steps = steps._replace(reward=jnp.ones_like(steps.reward))
    nothing = jax.tree.map(lambda leaf: jnp.asarray(np.zeros_like(leaf)), state.network)
    state = state._replace(network=nothing, target=nothing)
    state = learner.update_return_scales(
        state, over_time(steps), jnp.zeros((PREFIX + TRAINED, ITEMS, 1))
    )
    state, _, metrics = learner.update(state, steps, random_core(0), WEIGHTS)
    if normalised:
        np.testing.assert_allclose(state.normalisation.value_mean, 10.0, rtol=1e-4)
        np.testing.assert_allclose(metrics.value, 10.0, rtol=1e-4)
        np.testing.assert_allclose(metrics.td_error, 0.0, atol=1e-3)
    else:
        # Of the 8 transitions 4 have 5 steps before them: 1 + .9 + .81 + .729 + .6561.
        returns = [4.0951] * 4 + [3.439, 2.71, 1.9, 1.0]
        np.testing.assert_allclose(metrics.td_error, np.mean(returns), rtol=1e-4)
        assert not np.any(state.normalisation.value_mean)


def test_each_run_of_a_population_has_its_own_normalisation():
    learner, _, _ = compiled("extrinsic", **BOTH)
    states = [learner.init(jax.random.key(seed)) for seed in (0, 1)]
    batches = [random_steps(seed, ITEMS, PREFIX + TRAINED) for seed in (2, 3)]

    def stacked(trees):
        return jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *trees)

    both, _, _ = jax.vmap(learner.update, in_axes=(0, 0, None, None))(
        stacked(states), stacked(batches), random_core(0), WEIGHTS
    )
    for i, (state, steps) in enumerate(zip(states, batches, strict=True)):
        alone, _, _ = learner.update(state, steps, random_core(0), WEIGHTS)
        own = jax.tree.map(lambda leaf, i=i: np.asarray(leaf)[i], both.network)
        for ours, theirs in zip(*map(jax.tree.leaves, (own, alone.network)), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-5)
    means = np.asarray(both.normalisation.observation_mean)
    assert not np.allclose(means[0], means[1])


def test_categories_are_normalised_too():
    """Three of four are of kind 1: its mean is 3/4, and the variance of each kind 3/16."""
    spec = spec_of(1, categories=(2,))
    sizes = dict(convolutions=(), torso_units=(2,), core_units=UNITS, post_units=0)
    learner = make_learner(
        lambda key: RecurrentQNetwork(key, spec, 1, head_units=2, **sizes),
        CLIPPED,
        rules_of("extrinsic", **BOTH),
        target_interval=TARGET_INTERVAL,
    )
    steps = random_steps(0, ITEMS, PREFIX + TRAINED)
    kinds = jnp.zeros((ITEMS, PREFIX + TRAINED, 1), jnp.uint8).at[1:].set(1)
    state, _, _ = jax.jit(learner.update)(
        jax.jit(learner.init)(jax.random.key(0)),
        steps._replace(observation=kinds),
        random_core(0),
        WEIGHTS,
    )
    normalisation = state.normalisation
    np.testing.assert_allclose(normalisation.observation_mean, [1 / 4, 3 / 4], rtol=1e-5)
    np.testing.assert_allclose(normalisation.observation_unit, np.sqrt(3 / 16), rtol=1e-5)


def test_what_is_not_finite_does_not_count_for_the_normalisation():
    learner, state, _ = compiled("extrinsic", **BOTH)
    steps, core = random_steps(0, ITEMS, PREFIX + TRAINED), random_core(0)
    # An episode begins inside the prefix, so that the loss does not notice.
    steps = steps._replace(is_first=steps.is_first.at[:, PREFIX - 1].set(True))
    state, _, _ = learner.update(state, steps, core, WEIGHTS)
    good = state.normalisation
    bad = steps._replace(observation=steps.observation.at[1, 0, 0].set(np.inf))
    state, _, metrics = learner.update(state, bad, core, WEIGHTS)
    assert not metrics.skipped
    new = state.normalisation
    assert np.isfinite(new.observation_mean).all()
    np.testing.assert_allclose(
        new.observation_mean[1:], good.observation_mean[1:], rtol=1e-5
    )
    np.testing.assert_allclose(new.observation_unit, good.observation_unit, rtol=0.2)


def test_the_normalisation_is_that_of_all_that_was_seen():
    """The first observation of each sequence counts; values are in units of sigma."""
    learner, state, _ = compiled("extrinsic", **BOTH)
    seen = []
    for seed in range(3):
        steps = random_steps(seed, ITEMS, PREFIX + TRAINED)
        seen.append(np.asarray(steps.observation[:, 0]))
        values = jnp.zeros((PREFIX + TRAINED, ITEMS, 1))
        state = learner.update_return_scales(state, over_time(steps), values)
        scale = state.scales
        state, _, _ = learner.update(state, steps, random_core(seed), WEIGHTS)
    seen = np.concatenate(seen)
    mean, unit, _, value_unit = state.normalisation
    np.testing.assert_allclose(mean, seen.mean(0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(unit, np.sqrt(np.mean(seen.var(0))), rtol=1e-5)
    np.testing.assert_allclose(value_unit, scale, rtol=1e-5)


@pytest.mark.parametrize("part", BOTH)
def test_inputs_and_values_are_normalised_apart(part):
    learner, state, _ = compiled("extrinsic", **{part: True})
    steps = random_steps(0, ITEMS, PREFIX + TRAINED)
    values = jnp.zeros((PREFIX + TRAINED, ITEMS, 1))
    state = learner.update_return_scales(state, over_time(steps), values)
    state, _, _ = learner.update(state, steps, random_core(0), WEIGHTS)
    mean, _, value_mean, value_unit = jax.device_get(state.normalisation)
    assert bool(np.any(mean)) == (part == "normalise_inputs")
    assert bool(np.any(value_mean)) == (part == "normalise_values")
    assert bool(value_unit[0] != 1) == (part == "normalise_values")

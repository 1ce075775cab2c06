"""Scales by hand, moments by NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sidequest.agent import scaling
from sidequest.agent.modes import make_heads

HEADS = make_heads(("intrinsic",))
update = jax.jit(scaling.update, static_argnums=2)
measure_rows, return_scale, used_scale = map(
    jax.jit, (scaling.measure, scaling.return_scale, scaling.used_scale)
)


def measure(reward, discount, returns):
    """Statistics of one head."""
    columns = (np.float32(x).reshape(1, -1) for x in (reward, discount, returns))
    return measure_rows(*columns)


def scale_of(reward, discount, returns):
    return float(np.asarray(return_scale(measure(reward, discount, returns)))[0])


def random_batch(seed, shape=(2, 200), factor=1.0):
    rng = np.random.default_rng(seed)
    discount = np.where(rng.random(shape) < 0.05, 0.0, 0.997)
    reward, returns = factor * rng.normal(1.0, 2.0, (2, *shape))
    return [x.astype(np.float32) for x in (reward, discount, returns)]


def test_scale_by_hand():
    # Var[r] = 1, Var[gamma] = 0.16, E[G^2] = (9 + 1) / 2
    scale = scale_of([0, 2, 0, 2], [0.8, 0.8, 0, 0], [3, 1, 3, -1])
    np.testing.assert_allclose(scale, np.sqrt(1 + 0.16 * 5), rtol=1e-6)


def test_mean_value_by_hand():
    """Rewards of 2 on average, and one step of four is an episode's last."""
    once = jnp.ones(2)
    statistics = scaling.ReturnStatistics(
        scaling.Moments(once, jnp.array([2.0, 1.0]), once),
        scaling.Moments(once, jnp.array([0.75, 1.0]), once),
        scaling.Moments(once, once, once),
    )
    # The second head counts all that will ever be: a great number, but a number.
    np.testing.assert_allclose(scaling.mean_value(statistics), [8.0, 1e4], rtol=1e-5)
    assert not np.any(scaling.mean_value(scaling.init(2)))


def test_the_formula_in_numpy():
    reward, discount, returns = random_batch(0)
    ours = return_scale(measure_rows(reward, discount, returns))
    theirs = np.sqrt(
        np.var(reward, 1) + np.var(discount, 1) * np.mean(np.square(returns), 1)
    )
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_a_reward_that_never_varies_leaves_the_floor():
    # 1000 a step for ever: E[r^2] - E[r]^2 in float32 would say anything up to 0.3.
    batch = measure(np.full(777, 1000.1), np.full(777, 0.997), np.full(777, 3e5))
    running = scaling.init(1)
    for _ in range(50):
        running = update(running, batch, HEADS[:1])
    used = used_scale(running, batch)
    np.testing.assert_allclose(used, scaling.FLOOR)


def test_scale_grows_with_the_rewards():
    once, tenfold = (
        return_scale(measure_rows(reward, discount, returns))
        for reward, discount, returns in (random_batch(0), random_batch(0, factor=10.0))
    )
    np.testing.assert_allclose(tenfold, 10 * once, rtol=1e-4)


def test_variance_of_a_discount_that_is_sometimes_0():
    # gamma in {g, 0} at rate q: Var = g^2 q (1 - q)
    discount = np.full(1000, 0.997)
    discount[:10] = 0.0
    statistics = measure(np.zeros(1000), discount, np.zeros(1000))
    expected = 0.997**2 * 0.01 * 0.99
    np.testing.assert_allclose(statistics.discount.variance, expected, rtol=1e-4)


def test_before_any_reward_the_floor_holds():
    running, batch = scaling.init(2), measure_rows(*random_batch(0, factor=0.0))
    np.testing.assert_allclose(return_scale(running), 0.0)
    np.testing.assert_allclose(used_scale(running, batch), scaling.FLOOR)


def test_the_first_large_reward_is_scaled_by_its_own_batch():
    quiet = measure(np.zeros(100_000), np.full(100_000, 0.997), np.zeros(100_000))
    running = update(scaling.init(1), quiet, HEADS[:1])
    reward = np.zeros(100)
    reward[50] = 1000.0
    batch = measure(reward, np.full(100, 0.997), np.zeros(100))
    own = return_scale(batch)
    np.testing.assert_allclose(used_scale(running, batch), own)
    np.testing.assert_allclose(own, np.std(reward), rtol=1e-5)


def test_merged_batches_are_one_large_batch():
    batches = [random_batch(seed, (2, 10 + 90 * seed), seed + 1.0) for seed in range(5)]
    running = scaling.init(2)
    for batch in batches:
        running = update(running, measure_rows(*batch), make_heads(("twin",)))
    whole = measure_rows(*(np.concatenate(x, 1) for x in zip(*batches, strict=True)))
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-4), running, whole)


def test_merging_stays_exact_over_billions_of_steps():
    # Mean 100, variance 1: sums of squares would have lost the variance long ago.
    batch = scaling.Moments(jnp.float32(1e6), jnp.float32(100.0), jnp.float32(1.0))

    def step(running, _):
        return scaling.merge(running, batch), None

    zero = jnp.zeros(())
    start = scaling.Moments(zero, zero, zero)
    running, _ = jax.lax.scan(step, start, None, length=5_000)
    np.testing.assert_allclose(running, (5e9, 100.0, 1.0), rtol=1e-4)


@pytest.mark.parametrize("size", [4, 1_000])
def test_recent_statistics_forget_by_updates_and_the_others_do_not(size):
    # Both heads see rewards of scale 1 in 200 updates, then of scale 0.01 in 1,000.
    def flat(scale):
        x = jnp.tile(jnp.array([-scale, scale]), (2, size // 2))
        return measure_rows(x, jnp.full_like(x, 0.997), jnp.zeros_like(x))

    @jax.jit
    def repeat(running, count, scale):
        def step(_, running):
            return update(running, flat(scale), HEADS)

        return jax.lax.fori_loop(0, count, step, running)

    running = repeat(scaling.init(2), 200, 1.0)
    np.testing.assert_allclose(return_scale(running), [1.0, 1.0], rtol=1e-5)
    running = repeat(running, 1_000, 0.01)
    extrinsic, intrinsic = return_scale(running)
    np.testing.assert_allclose(extrinsic, np.sqrt(1 / 6), rtol=1e-2)
    # A two-hundredth goes with every update, however large its batch is.
    np.testing.assert_allclose(intrinsic, np.sqrt(0.995**1_000 + 0.01**2), rtol=1e-2)


def test_scaled_novelty_by_hand():
    # Mean 4, variance 9: the root mean square is 5.
    recent = scaling.Moments(*(jnp.float32(x) for x in (10.0, 4.0, 9.0)))
    novelty = jnp.array([[1.0, 4.0, 10.0, 100.0]])
    scaled = scaling.scale_novelty(novelty, recent, centred=False)
    np.testing.assert_allclose(scaled, [[0.2, 0.8, 2.0, 20.0]], rtol=1e-6)
    # Within 5 deviations.
    centred = scaling.scale_novelty(novelty, recent, centred=True)
    np.testing.assert_allclose(centred, [[-1.0, 0.0, 2.0, 5.0]], rtol=1e-6)


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("factor", [1e-8, 1e4])
def test_scaled_novelty_does_not_depend_on_its_size(centred, factor):
    novelty = np.random.default_rng(0).gamma(1.0, size=(4, 9)).astype(np.float32)

    @jax.jit
    def scaled(novelty):
        recent = scaling.moments(novelty.reshape(-1), axis=0)
        return scaling.scale_novelty(novelty, recent, centred)

    np.testing.assert_allclose(
        scaled(np.float32(factor) * novelty), scaled(novelty), rtol=1e-4
    )
    constant = scaled(np.full((4, 9), factor, np.float32))
    np.testing.assert_allclose(constant, 0.0 if centred else 1.0, atol=1e-3)
    assert not np.any(scaled(np.zeros((4, 9), np.float32)))


def test_a_head_without_news_keeps_its_statistics():
    running = update(scaling.init(2), measure_rows(*random_batch(0)), HEADS)
    same = update(running, scaling.init(2), HEADS)
    jax.tree.map(np.testing.assert_allclose, same, running)


@pytest.mark.parametrize("monster", [1e30, -1e38, np.inf, np.nan])
def test_monsters_leave_finite_statistics(monster):
    reward = np.zeros(100)
    reward[3] = monster
    batch = measure(reward, np.full(100, 0.997), reward)
    running = update(scaling.init(1), batch, HEADS[:1])
    assert np.all(np.isfinite(np.stack(jax.tree.leaves(running))))
    assert np.isfinite(used_scale(running, batch))


def test_returns_by_hand():
    # From behind: 3 + 0.5 * 8 = 7; 2, as the episode ends there; 1 + 0.5 * 2 = 2
    returns = scaling.discounted_returns(
        jnp.array([1.0, 2.0, 3.0]), jnp.array([0.5, 0.0, 0.5]), jnp.float32(8.0)
    )
    np.testing.assert_allclose(returns, [2.0, 2.0, 7.0])

"""Signals of uncertainty: against plain NumPy, and by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sidequest.switching.triggers import (
    SIGNALS,
    action_mismatch,
    stateless,
    value_promise,
    value_variance,
)
from sidequest.types import Signals
from tests.switching.play import make_signals


def promised_gaps(signals: Signals, k: int, order: str) -> np.ndarray:
    """The paper's equation, step by step; NaN where there is no s_{t-k} yet."""
    gaps = np.full(len(signals.value), np.nan)
    start = 0
    for t in range(len(gaps)):
        if signals.is_first[t]:
            start = t
        if t - k < start:
            continue
        gamma = signals.discount.astype(np.float64)
        total = 0.0
        for j in range(1, k + 1):
            now = t - k + j
            if order == "standard":  # gamma^(j-1), from the oldest reward on
                weight = np.prod(gamma[t - k + 1 : now])
            else:  # gamma^i R_{t-i}, from the newest on
                weight = np.prod(gamma[now + 1 : t + 1])
            total += weight * signals.reward[now]
        bootstrap = np.prod(gamma[t - k + 1 : t + 1]) * signals.value[t]
        gaps[t] = abs(signals.value[t - k] - total - bootstrap)
    return gaps


def listen(signal, signals: Signals) -> np.ndarray:
    """What a signal says at every step of a stream; NaN where it has nothing to say."""

    def step(state, row):
        x, ready, state = signal.step(row, state)
        return state, jnp.where(ready, x, jnp.nan)

    return np.asarray(
        jax.jit(lambda rows: jax.lax.scan(step, signal.init(), rows)[1])(signals)
    )


@pytest.mark.parametrize("order", ["standard", "printed"])
@pytest.mark.parametrize("k", [1, 2, 5, 13])
def test_value_promise_is_the_equation(k, order):
    rng = np.random.default_rng(k)
    steps = 300
    signals = make_signals(
        steps,
        value=rng.normal(size=steps),
        reward=rng.normal(size=steps) * (rng.random(steps) < 0.3),
        discount=rng.choice([0.997, 0.9, 1.0], steps),
    )
    # Episodes of 1 to 24 steps; most of them terminate, some are truncated.
    first = np.zeros(steps, bool)
    first[np.cumsum(np.concatenate(([0], rng.integers(1, 25, 12))))] = True
    terminated = first & (rng.random(steps) < 0.7)
    signals = signals._replace(
        is_first=first, discount=np.where(terminated, 0.0, signals.discount).astype("f4")
    )
    expected = promised_gaps(signals, k, order)
    np.testing.assert_allclose(
        listen(value_promise(k, order), signals), expected, rtol=1e-4, atol=1e-5
    )


def test_value_promise_by_hand():
    # gamma = 1/2 and k = 2:  D = |V(t-2) - R(t-1) - R(t)/2 - V(t)/4|
    #            t      0  1  2  3   | 0
    signals = make_signals(
        5, "....|.", value=[1, 2, 4, 8, 3], reward=[9, 1, 2, -4, 100], discount=0.5
    )
    #   t = 2: |1 - 1 - 2/2 - 4/4| = 2      t = 3: |2 - 2 + 4/2 - 8/4| = 0
    heard = listen(value_promise(2), signals)
    np.testing.assert_allclose(heard, [np.nan, np.nan, 2.0, 0.0, np.nan])
    # As printed the newest reward has weight 1:
    #   t = 2: |1 - 1/2 - 2 - 4/4| = 2.5    t = 3: |2 - 2/2 + 4 - 8/4| = 3
    heard = listen(value_promise(2, "printed"), signals)
    np.testing.assert_allclose(heard, [np.nan, np.nan, 2.5, 3.0, np.nan])


def test_a_promise_kept_is_no_surprise():
    # One reward of 1 at t = 30, foreseen by V(t) = 0.9^(29 - t).
    time = np.arange(60)
    value = np.where(time < 30, 0.9 ** (29.0 - time), 0.0)
    signals = make_signals(60, value=value, reward=time == 30, discount=0.9)
    np.testing.assert_allclose(listen(value_promise(5), signals)[5:], 0.0, atol=1e-6)
    # Not foreseen, the same reward is one: by 1 in the five windows that contain it.
    surprised = listen(value_promise(5), signals._replace(value=np.zeros(60, np.float32)))
    np.testing.assert_allclose(
        surprised[30:35], 0.9 ** np.arange(4.0, -1.0, -1.0), rtol=1e-5
    )
    np.testing.assert_allclose(surprised[35:], 0.0)


def test_a_promise_needs_a_step():
    with pytest.raises(ValueError, match="horizon is 0"):
        value_promise(0)


def test_the_order_of_rewards_is_one_of_two():
    with pytest.raises(ValueError, match="order is 'backwards'; it is 'standard' or"):
        value_promise(order="backwards")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "one, two, top, expected",
    [
        # the best 3 of 4 actions: {0, 1, 2} and {0, 1, 2}
        ([9, 8, 7, 0], [1, 2, 3, 0], 3, 0.0),
        # {0, 1, 2} and {1, 2, 3}: two shared
        ([9, 8, 7, 0], [0, 2, 3, 4], 3, 1 / 3),
        ([9, 8, 0, 0, 1, 0], [0, 0, 9, 8, 0, 1], 2, 1.0),
        ([5, 1], [1, 5], 1, 1.0),
        # with 3 actions or fewer the worst is left out: all would always be shared
        ([5, 1], [1, 5], 3, 1.0),
        ([5, 4, 1], [1, 4, 5], 3, 0.5),
    ],
)
def test_action_mismatch_by_hand(one, two, top, expected):
    mismatch = action_mismatch(jnp.array(one, float), jnp.array(two, float), top)
    np.testing.assert_allclose(mismatch, expected, rtol=1e-6)


def test_value_variance_by_hand():
    # Two numbers a and b have variance (a - b)^2 / 4: here 0, 1 and 4.
    one, two = jnp.array([1.0, 2.0, 3.0]), jnp.array([1.0, 4.0, -1.0])
    np.testing.assert_allclose(value_variance(one, two), 5 / 3, rtol=1e-6)
    heads = np.stack([one, two])
    np.testing.assert_allclose(value_variance(one, two), heads.var(0).mean(), rtol=1e-6)


def test_signals_of_the_grammar_read_their_field():
    signals = make_signals(3, action_mismatch=[1, 2, 3], value_variance=[4, 5, 6])
    np.testing.assert_allclose(listen(SIGNALS["informed:mismatch"], signals), [1, 2, 3])
    np.testing.assert_allclose(listen(SIGNALS["informed:variance"], signals), [4, 5, 6])
    own = stateless(lambda signals: signals.novelty + signals.reward)
    signals = make_signals(2, novelty=[1, 2], reward=[10, 20])
    np.testing.assert_allclose(listen(own, signals), [11, 22])

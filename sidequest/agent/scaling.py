"""Return-based scaling (Schaul et al. 2021): TD errors in units of their expected size.

    sigma^2 = Var[r] + Var[gamma] E[G^2],    loss = (delta / sigma)^2 / 2

r is the reward of one step, gamma its discount (0 where an episode terminates), G the
discounted return from it. Each head has its own sigma, so that rewards of any size, and
heads of any two rewards, train alike (appendix A.2 and A.4). Q-values stay in the units of
the rewards; errors are scaled, and so are predictions with `Rules.normalise_values`.

Estimates are kept as means and centred variances and merged by their counts: sums of
squares over 10^9 steps do not fit float32, and E[x^2] - E[x]^2 loses a variance that is
small beside the mean, as that of a discount is.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from sidequest.agent.heads import Head

FLOOR = 0.01
"""Least scale, of errors and of pictures: without it a game without rewards, or before the
first, would divide by 0."""

RECENT_STEPS = 1e6
"""Horizon of the statistics of a head that asks for recent ones."""

SHORTEST = 1e-4
"""Least value of 1 - E[gamma]: without it rewards without end and discount would be worth
infinitely much."""

LARGEST = 1e15
"""Greatest size of a number in the statistics: its square is still far from overflow."""


class Moments(NamedTuple):
    """Mean and population variance of what was seen, and how much that was."""

    count: Float[Array, "*counts"]
    mean: Float[Array, "*shape"]
    variance: Float[Array, "*shape"]


def moments(x: Float[Array, "..."], axis: int) -> Moments:
    """Moments of one batch along an axis; what is not a number counts as 0."""
    x = jnp.clip(jnp.nan_to_num(x), -LARGEST, LARGEST)
    count = jnp.asarray(x.shape[axis], jnp.float32)
    # Around the first value, so that what does not vary has variance 0 exactly: that of
    # a discount is multiplied by squared returns.
    first = lax.index_in_dim(x, 0, axis)
    mean = jnp.mean(x - first, axis) + lax.squeeze(first, (axis,))
    return Moments(count, mean, jnp.var(x - first, axis))


def merge(
    old: Moments, new: Moments, horizon: float | Float[Array, "*counts"] = jnp.inf
) -> Moments:
    """Moments of both together (Chan et al. 1979).

    With share w = n_new / (n_old + n_new) and d = mean_new - mean_old:

        mean     = mean_old + w d
        variance = (1 - w) variance_old + w variance_new + w (1 - w) d^2

    Args:
        horizon: The count never exceeds it, which from there on makes this an
            exponential average over about as many numbers.
    """
    count = jnp.minimum(old.count + new.count, horizon)
    share = jnp.minimum(new.count / jnp.maximum(count, 1.0), 1.0)
    difference = new.mean - old.mean
    spread = share * (1 - share) * difference**2
    return Moments(
        count=count,
        mean=old.mean + share * difference,
        variance=(1 - share) * old.variance + share * new.variance + spread,
    )


class ReturnStatistics(NamedTuple):
    """What the scale of each head is made of."""

    reward: Moments
    discount: Moments
    returns: Moments


def init(num_heads: int) -> ReturnStatistics:
    """Nothing seen yet."""
    nothing = Moments(*[jnp.zeros(num_heads)] * 3)
    return ReturnStatistics(nothing, nothing, nothing)


def measure(
    r_t: Float[Array, "H N"], discount_t: Float[Array, "H N"], g_t: Float[Array, "H N"]
) -> ReturnStatistics:
    """Statistics of N steps, from any streams: rewards, discounts and returns."""

    def of(x: Float[Array, "H N"]) -> Moments:
        batch = moments(x, axis=1)
        return batch._replace(count=jnp.broadcast_to(batch.count, batch.mean.shape))

    return ReturnStatistics(of(r_t), of(discount_t), of(g_t))


def update(
    old: ReturnStatistics, new: ReturnStatistics, heads: Sequence[Head]
) -> ReturnStatistics:
    """Merges a batch: over all time, or over recent steps where a head says so."""
    horizon = jnp.array(
        [RECENT_STEPS if head.statistics == "recent" else jnp.inf for head in heads]
    )
    return ReturnStatistics(*(merge(*pair, horizon) for pair in zip(old, new, strict=True)))


def return_scale(statistics: ReturnStatistics) -> Float[Array, "H"]:
    """sigma = sqrt(Var[r] + Var[gamma] E[G^2]); 0 if nothing was seen."""
    reward, discount, returns = statistics
    squared_return = returns.mean**2 + returns.variance
    return jnp.sqrt(reward.variance + discount.variance * squared_return)


def mean_value(statistics: ReturnStatistics) -> Float[Array, "H"]:
    """E[r] / (1 - E[gamma]): the value of a step, on average; 0 if nothing was seen.

    What all states are worth alike need not be learned: see `Rules.normalise_values`.
    """
    left = jnp.maximum(1.0 - statistics.discount.mean, SHORTEST)
    return statistics.reward.mean / left


def used_scale(running: ReturnStatistics, batch: ReturnStatistics) -> Float[Array, "H"]:
    """max(sigma, sigma_batch, 0.01): what errors are divided by, and values counted in.

    The batch has a say so that the first large reward of a run, which the running
    statistics have hardly noticed, does not make one huge step.
    """
    scale = jnp.maximum(return_scale(running), return_scale(batch))
    return jnp.maximum(scale, FLOOR)


def discounted_returns(
    r_t: Float[Array, "T"], discount_t: Float[Array, "T"], tail: Float[Array, ""]
) -> Float[Array, "T"]:
    """G_t = r_{t+1} + d_{t+1} G_{t+1} of one stream, with G_T = tail.

    Args:
        r_t: Rewards r_1 .. r_T.
        discount_t: 0 wherever an episode ends. That of a time-out is 0 too, since the
            rewards after it belong to another episode.
        tail: Value of the last state, for what the stream has not shown yet.
    """

    def step(later: Float[Array, ""], now: tuple) -> tuple[Array, Array]:
        reward, discount = now
        g = reward + discount * later
        return g, g

    return lax.scan(step, tail, (r_t, discount_t), reverse=True)[1]

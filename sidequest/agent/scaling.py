"""Return-based scaling (Schaul et al. 2021): TD errors in units of their expected size.

    sigma^2 = Var[r] + Var[gamma] E[G^2],    loss = (delta / sigma)^2 / 2

r is the reward of one step, gamma its discount (0 where an episode terminates), G the
discounted return from it. Each head has its own sigma, so that rewards of any size, and
heads of any two rewards, train alike (appendix A.2 and A.4). Q-values stay in the units of
the rewards; errors are scaled, and so are predictions with `Rules.normalise_values`.

The statistics that normalise the network's inputs and values are of the same kind.

Estimates are kept as means and centred variances and merged by their counts: sums of
squares over 10^9 steps do not fit float32, and E[x^2] - E[x]^2 loses a variance that is
small beside the mean, as that of a discount is.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from sidequest.agent.modes import Head

FLOOR = 0.01
"""Least scale of errors and of observations: without it a game without rewards, or before
the first, would divide by 0."""

RECENT_UPDATES = 200.0
"""Horizon of the statistics of novelty, in updates: what a million steps are with the
paper's batches. Novelty shrinks by orders of magnitude during a run, and a scale that
remembers the start would mute its head."""

_LEAST_DEVIATION = 1e-3
"""Least standard deviation of novelty, as a share of its root mean square."""

_LARGEST_REWARD = 5.0
"""Centred novelty stays within this many standard deviations."""

_SHORTEST = 1e-4
"""Least value of 1 - E[gamma]: without it rewards without end and discount would be worth
infinitely much."""

_TINY = 1e-30
_LARGEST = 1e15
"""Largest size of a number in the statistics: its square is still far from overflow."""


class Normalisation(NamedTuple):
    """Affine maps around the network: its input is (x - mean) / unit, and Q = mean + unit *
    its output."""

    observation_mean: Float[Array, "..."]
    """Mean of every input of the torso: of images, the mean image."""
    observation_unit: Float[Array, ""]
    value_mean: Float[Array, "H"]
    value_unit: Float[Array, "H"]


class Moments(NamedTuple):
    """Count, mean and population variance of numbers."""

    count: Float[Array, "*counts"]
    mean: Float[Array, "*shape"]
    variance: Float[Array, "*shape"]


def moments(x: Float[Array, "..."], axis: int) -> Moments:
    """Returns the moments of a batch along an axis; what is not a number counts as 0."""
    x = jnp.clip(jnp.nan_to_num(x), -_LARGEST, _LARGEST)
    count = jnp.asarray(x.shape[axis], jnp.float32)
    # Around the first value, so that what does not vary has variance 0 exactly: that of
    # a discount is multiplied by squared returns.
    first = lax.index_in_dim(x, 0, axis)
    mean = jnp.mean(x - first, axis) + lax.squeeze(first, (axis,))
    return Moments(count, mean, jnp.var(x - first, axis))


def merge(
    old: Moments, new: Moments, horizon: float | Float[Array, "*counts"] = jnp.inf
) -> Moments:
    """Returns the moments of both together (Chan et al. 1979).

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


def scale_novelty(
    novelty: Float[Array, "N T"], recent: Moments, centred: bool
) -> Float[Array, "N T"]:
    """Returns intrinsic rewards: novelty in units of its own recent size.

        novelty / root mean square                  or, centred,
        (novelty - mean) / standard deviation       within +-5

    So they do not shrink with the predictor's errors, and `FLOOR` is relative to them.
    Where novelty hardly varies, uncentred ones are much larger than their spread, which is
    the unit of return-based scaling: values and gradients of that head are then huge.
    """
    size = jnp.sqrt(recent.mean**2 + recent.variance) + _TINY
    if not centred:
        return novelty / size
    unit = jnp.maximum(jnp.sqrt(recent.variance), _LEAST_DEVIATION * size)
    return jnp.clip((novelty - recent.mean) / unit, -_LARGEST_REWARD, _LARGEST_REWARD)


class ReturnStatistics(NamedTuple):
    """Moments that the return scale of each head is computed from."""

    reward: Moments
    discount: Moments
    returns: Moments


def init(num_heads: int) -> ReturnStatistics:
    """Returns the statistics of no steps."""
    nothing = Moments(*[jnp.zeros(num_heads)] * 3)
    return ReturnStatistics(nothing, nothing, nothing)


def measure(
    r_t: Float[Array, "H N"], discount_t: Float[Array, "H N"], g_t: Float[Array, "H N"]
) -> ReturnStatistics:
    """Returns the statistics of N steps of any environments."""

    def of(x: Float[Array, "H N"]) -> Moments:
        batch = moments(x, axis=1)
        return batch._replace(count=jnp.broadcast_to(batch.count, batch.mean.shape))

    return ReturnStatistics(of(r_t), of(discount_t), of(g_t))


def batch_statistics(
    rewards: Float[Array, "N T H"],
    is_terminal: Bool[Array, "N T"],
    targets: Float[Array, "N T H"],
    heads: Sequence[Head],
) -> ReturnStatistics:
    """Returns the statistics of a replayed batch, with targets for returns."""
    gamma = jnp.array([head.discount for head in heads])
    episodic = jnp.array([head.episodic for head in heads])
    ends = is_terminal[..., None] & episodic.reshape(1, 1, -1)
    discounts = jnp.where(ends, 0.0, gamma.reshape(1, 1, -1))
    rows = (x.reshape(-1, len(heads)).T for x in (rewards, discounts, targets))
    return measure(*rows)


def block_statistics(
    reward: Float[Array, "L B"],
    is_terminal: Bool[Array, "L B"],
    is_first: Bool[Array, "L B"],
    values: Float[Array, "L B H"],
    heads: Sequence[Head],
) -> ReturnStatistics:
    """Returns the statistics of a fresh block; the actors' values stand in for the returns
    beyond its end."""

    def of(head: Head, tail: Float[Array, "B"]):
        # The rewards after a first step are another episode's, whatever ended the last one.
        returns = jax.vmap(discounted_returns, in_axes=(1, 1, 0))(
            reward, jnp.where(is_first, 0.0, head.discount), tail
        )
        discounts = jnp.where(is_terminal, 0.0, head.discount)
        return reward.reshape(-1), discounts.reshape(-1), returns.reshape(-1)

    rows = [of(head, values[-1, :, h]) for h, head in enumerate(heads)]
    return measure(*(jnp.stack(column) for column in zip(*rows, strict=True)))


def update(
    old: ReturnStatistics,
    new: ReturnStatistics,
    heads: Sequence[Head],
    source: str | None = None,
) -> ReturnStatistics:
    """Merges a batch: over recent updates for the intrinsic head, else over all time. Only
    heads with this source of reward take part; by default all.

    Every call bounds an intrinsic head's count by the horizon of its own batch, also one
    that this head takes no part in. So its horizon is the shorter of 200 updates and 200
    blocks of the actors.
    """
    updates = jnp.array(
        [RECENT_UPDATES if head.source == "intrinsic" else jnp.inf for head in heads]
    )
    counted = jnp.array([float(source in (None, head.source)) for head in heads])

    def merge_counted(old: Moments, new: Moments) -> Moments:
        horizon = jnp.where(new.count > 0, updates * new.count, jnp.inf)
        return merge(old, new._replace(count=new.count * counted), horizon)

    return ReturnStatistics(*map(merge_counted, old, new))


def return_scale(statistics: ReturnStatistics) -> Float[Array, "H"]:
    """Returns sigma = sqrt(Var[r] + Var[gamma] E[G^2]); 0 if nothing was seen."""
    reward, discount, returns = statistics
    squared_return = returns.mean**2 + returns.variance
    return jnp.sqrt(reward.variance + discount.variance * squared_return)


def mean_value(statistics: ReturnStatistics) -> Float[Array, "H"]:
    """Returns E[r] / (1 - E[gamma]), the mean value of a state; 0 if nothing was seen."""
    left = jnp.maximum(1.0 - statistics.discount.mean, _SHORTEST)
    return statistics.reward.mean / left


def used_scale(running: ReturnStatistics, batch: ReturnStatistics) -> Float[Array, "H"]:
    """Returns max(sigma, sigma_batch, 0.01), the unit of errors and values."""
    # The batch counts so that the first large reward of a run, which has hardly changed the
    # running statistics, does not make one huge step.
    scale = jnp.maximum(return_scale(running), return_scale(batch))
    return jnp.maximum(scale, FLOOR)


def discounted_returns(
    r_t: Float[Array, "T"], discount_t: Float[Array, "T"], tail: Float[Array, ""]
) -> Float[Array, "T"]:
    """Returns G_t = r_{t+1} + d_{t+1} G_{t+1} of one environment, with G_T = tail, the
    value of the last state. The discount is 0 wherever an episode ends."""

    def step(later: Float[Array, ""], now: tuple) -> tuple[Array, Array]:
        reward, discount = now
        g = reward + discount * later
        return g, g

    return lax.scan(step, tail, (r_t, discount_t), reverse=True)[1]

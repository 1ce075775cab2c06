"""Statistics of scores over seeds and games. NumPy only; randomness is passed in.

Scores of one variant are *strata*: an array of its seeds' scores for each game. Strata
are resampled game by game, so that every resample has the same games.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float

Strata: TypeAlias = Sequence[Float[np.ndarray, "..."]]
"""Scores, one array a game; the last axis has its seeds, any before it are a batch."""

Batch: TypeAlias = Float[np.ndarray, "..."] | np.floating
"""A statistic of each element of a batch."""

FINAL_SHARE = 0.1
RESAMPLES = 2_000
LEVEL = 0.95


class Interval(NamedTuple):
    """An estimate with the ends of its confidence interval."""

    low: float
    value: float
    high: float


def final_performance(returns: Float[np.ndarray, "T"]) -> float:
    """Mean return of the last 10% of a run's evaluations, of one at least."""
    if not len(returns):
        return float("nan")
    last = max(1, math.ceil(FINAL_SHARE * len(returns)))
    return float(np.mean(returns[-last:]))


def interquartile_mean(scores: Float[np.ndarray, "*batch N"]) -> Batch:
    """Mean of the middle half: floor(N / 4) scores go at each end (Agarwal et al. 2021)."""
    n = scores.shape[-1]
    cut = n // 4
    return np.sort(scores, axis=-1)[..., cut : n - cut].mean(axis=-1)


def mean_over_games(strata: Strata) -> Batch:
    """Every game counts the same, however many seeds it has."""
    return _means(strata).mean(axis=0)


def median_over_games(strata: Strata) -> Batch:
    """Of the games' means."""
    return np.median(_means(strata), axis=0)


def iqm_of_runs(strata: Strata) -> Batch:
    """Interquartile mean of all runs of all games."""
    return interquartile_mean(np.concatenate(strata, axis=-1))


def improvement(better: Strata, worse: Strata) -> Batch:
    """Probability that a run of the first beats one of the second, averaged over games.

    In a game: the share of pairs (x, y) with x > y, ties counting half. That is the
    statistic U of Mann and Whitney over the number of pairs.
    """
    wins = []
    for x, y in zip(better, worse, strict=True):
        difference = np.sign(x[..., :, None] - y[..., None, :])
        wins.append((0.5 + 0.5 * difference).mean(axis=(-2, -1)))
    return np.mean(wins, axis=0)


def resample(rng: np.random.Generator, strata: Strata, times: int) -> Strata:
    """Draws each game's seeds with replacement: axes [*batch, N] -> [*batch, times, N].

    Leading axes, such as points in time, share the draw: a seed keeps its whole curve.
    """
    drawn = []
    for scores in strata:
        seeds = scores.shape[-1]
        drawn.append(scores[..., rng.integers(seeds, size=(times, seeds))])
    return drawn


def band(
    rng: np.random.Generator,
    statistic: Callable[..., Batch],
    *strata: Strata,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
) -> tuple[Batch, Batch]:
    """Ends of the percentile interval of a statistic of one or more variants' strata.

    With one seed in every game there is nothing to resample, and the ends are NaN.
    """
    if all(scores.shape[-1] < 2 for one in strata for scores in one):
        nothing = np.full(np.shape(statistic(*strata)), np.nan)
        return nothing, nothing
    drawn = statistic(*(resample(rng, one, resamples) for one in strata))
    tail = (1 - level) / 2
    low, high = np.quantile(drawn, (tail, 1 - tail), axis=-1)
    return low, high


def bootstrap(
    rng: np.random.Generator,
    statistic: Callable[..., Batch],
    *strata: Strata,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
) -> Interval:
    """A statistic with its stratified bootstrap interval (`band`)."""
    low, high = band(rng, statistic, *strata, resamples=resamples, level=level)
    return Interval(float(low), float(statistic(*strata)), float(high))


def _means(strata: Strata) -> Float[np.ndarray, "games *batch"]:
    return np.stack([scores.mean(axis=-1) for scores in strata])

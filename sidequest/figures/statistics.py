"""Statistics of scores over seeds and games. NumPy only; randomness is passed in.

Scores of one variant are *strata*: an array of its seeds' scores for each game. Strata
are resampled game by game, so that every resample has the same games.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Bool, Float

Strata: TypeAlias = Sequence[Float[np.ndarray, "..."]]
"""Scores, one array a game; the last axis has its seeds, any before it are a batch."""

Batch: TypeAlias = Float[np.ndarray, "..."] | np.floating
"""A statistic of each element of a batch."""

RESAMPLES = 2_000
LEVEL = 0.95


class Interval(NamedTuple):
    """An estimate with the ends of its confidence interval."""

    low: float
    value: float
    high: float


def is_early(frames: Float[np.ndarray, "N"], end: float) -> Bool[np.ndarray, "N"]:
    """What belongs to the first 10% of training, which has come to `end` frames."""
    return frames <= end / 10


def is_late(frames: Float[np.ndarray, "N"], end: float) -> Bool[np.ndarray, "N"]:
    """What belongs to the last 10% of training, which has come to `end` frames."""
    return frames > end - end / 10


def final_performance(
    frames: Float[np.ndarray, "N"], returns: Float[np.ndarray, "N"], end: float
) -> float:
    """Mean return of the evaluation episodes of the last 10% of training (figure 4).

    By frames, not by the number of evaluations: beside an emulator, episodes end when
    they end. Every episode of that time counts once, whether others ended at the same
    frame or not. `end` is how far training has come, so that a run that is still going
    is judged by its newest frames. If no episode ended so late, those of the newest
    evaluation count, so a single evaluation is its own mean. NaN without any.
    """
    if not len(frames):
        return float("nan")
    late = is_late(frames, end)
    if not late.any():
        late = frames == frames.max()
    return float(returns[late].mean())


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


def capped_mean_over_games(strata: Strata) -> Batch:
    """Mean of min(1, score): what goes beyond a human's score counts no more.

    Runs are capped one by one, so that a seed above human level does not make up for
    another below it, and the mean over seeds of the seeds' own capped means is the same.
    """
    return mean_over_games([np.minimum(scores, 1.0) for scores in strata])


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

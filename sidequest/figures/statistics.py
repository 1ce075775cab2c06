"""Statistics of scores over seeds and games. NumPy only; randomness is passed in.

Scores of one variant are *strata*: an array of its seeds' scores for each game. Strata
are resampled game by game, so that every resample has the same games.

A figure has one scale for the scores of all its games: the first of these that all of
them have, and the axis names it.

    human           0 a random policy, 1 a human; for Atari (environments/scores.py)
    possible        0 a random policy, 1 the highest return that the game allows
    study           0 a random policy, 1 the best run of the study
    min-max         0 the worst run of the study, 1 the best

The last two rank the runs of one study and say nothing across studies.
"""

from collections.abc import Callable, Mapping, Sequence
from math import ceil, nan, sqrt
from statistics import NormalDist
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float

from sidequest.environments.scores import KNOWN, Known

Strata: TypeAlias = Sequence[Float[np.ndarray, "..."]]
"""Scores, one array a game; the last axis has its seeds, any before it are a batch."""

Batch: TypeAlias = Float[np.ndarray, "..."] | np.floating
"""A statistic of each element of a batch."""

FEWEST_SEEDS = 3  # of every game, for an interval: two say next to nothing about a third
_FEWEST_RUNS = 4  # of all games: intervals from three miss the truth up to one time in four
_TAILS = (0.025, 0.975)  # of a 95% interval
_RARE = NormalDist().inv_cdf(0.99)  # standard deviations that random play rarely exceeds
_WAY = 0.05  # from random play to the highest return, that counts as having learned


class Interval(NamedTuple):
    """An estimate with the ends of its confidence interval."""

    low: float
    value: float
    high: float

    def __str__(self) -> str:
        if np.isnan(self.low):
            return f"{self.value:.2f} (no interval from so few seeds)"
        return f"{self.value:.2f} (95% interval {self.low:.2f} to {self.high:.2f})"


def mean_over_games(strata: Strata) -> Batch:
    """Returns the mean in which every game counts the same, whatever its seeds."""
    return _means(strata).mean(axis=0)


def median_over_games(strata: Strata) -> Batch:
    """Returns the median of the games' means."""
    return np.median(_means(strata), axis=0)


def capped_mean_over_games(strata: Strata) -> Batch:
    """Returns the mean of min(1, score): beyond a human's score nothing counts more.

    Runs are capped one by one, so that a seed above human level does not make up for
    another below it, and the mean over seeds of the seeds' own capped means is the same.
    """
    return mean_over_games([np.minimum(scores, 1.0) for scores in strata])


def interquartile_mean(strata: Strata) -> Batch:
    """Returns the mean of all N runs of all games, without floor(N / 4) scores at each end
    (Agarwal et al. 2021)."""
    scores = np.sort(np.concatenate(strata, axis=-1), axis=-1)
    cut = scores.shape[-1] // 4
    return scores[..., cut : scores.shape[-1] - cut].mean(axis=-1)


def improvement(better: Strata, worse: Strata) -> Batch:
    """Returns P(a run of the first beats one of the second), averaged over games.

    In a game: the share of pairs (x, y) with x > y, ties counting half. That is the
    statistic U of Mann and Whitney over the number of pairs.
    """
    wins = []
    for x, y in zip(better, worse, strict=True):
        difference = np.sign(x[..., :, None] - y[..., None, :])
        wins.append((0.5 + 0.5 * difference).mean(axis=(-2, -1)))
    return np.mean(wins, axis=0)


def resample(rng: np.random.Generator, strata: Strata, times: int) -> Strata:
    """Draws each game's seeds with replacement: axes [N] -> [times, N]."""
    return [own[rng.integers(len(own), size=(times, len(own)))] for own in strata]


def bootstrap(
    rng: np.random.Generator,
    statistic: Callable[..., Batch],
    *strata: Strata,
    resamples: int = 2_000,
) -> Interval:
    """Returns a statistic of variants' strata with its 95% stratified bootstrap interval.

    With fewer than `FEWEST_SEEDS` seeds in any game, or three runs in all, there is none:
    the ends are NaN.
    """
    value = float(statistic(*strata))
    seeds = [[len(scores) for scores in one] for one in strata]
    if any(min(own) < FEWEST_SEEDS or sum(own) < _FEWEST_RUNS for own in seeds):
        return Interval(nan, value, nan)
    drawn = statistic(*(resample(rng, one, resamples) for one in strata))
    low, high = np.quantile(drawn, _TAILS)
    return Interval(float(low), value, float(high))


def seeds_needed(comparisons: int, chance: float = 0.65, power: float = 0.8) -> int:
    """Returns how many seeds tell a probability of improvement from one half.

    With this many seeds of both variants in each comparison, such as one on each game,
    the 95% interval excludes one half with a probability of `power`. The estimate of one
    comparison of n with n seeds has a variance of about 1 / 6n (Mann and Whitney 1947).
    """
    normal = NormalDist()
    distance = (normal.inv_cdf(_TAILS[1]) + normal.inv_cdf(power)) / (chance - 0.5)
    return ceil(distance**2 / (6 * comparisons))


def _means(strata: Strata) -> Float[np.ndarray, "games *batch"]:
    return np.stack([scores.mean(axis=-1) for scores in strata])


class Scale(NamedTuple):
    """Holds what is 0 and what is 1 in each game."""

    kind: str
    label: str
    """For an axis."""
    ends: dict[str, tuple[float, float]]

    def apply(self, game: str, score: Float[np.ndarray, "*batch"]) -> np.ndarray:
        zero, one = self.ends[game]
        return (score - zero) / (one - zero)

    def apply_all(self, scores: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """Returns strata: the scores of each game, on this scale."""
        return [self.apply(game, own) for game, own in scores.items()]


def choose_scale(finals: Mapping[str, Float[np.ndarray, "N"]]) -> Scale:
    """Returns the first kind of scale that every game has; `finals` are all scores."""
    known: dict[str, Any] = {game: KNOWN.get(game, Known()) for game in finals}
    for kind, label in (
        ("human", "human-normalised score"),
        ("possible", "score: 0 random play, 1 the highest possible"),
    ):
        ends = {game: (one.random, getattr(one, kind)) for game, one in known.items()}
        if finals and not any(None in pair for pair in ends.values()):
            return Scale(kind, label, ends)
    zeros = {game: one.random for game, one in known.items()}
    kind, label = "study", "score: 0 random play, 1 the best run of this study"
    if None in zeros.values():
        zeros = {game: float(scores.min()) for game, scores in finals.items()}
        kind, label = "min-max", "score: 0 the worst, 1 the best run of this study"
    ends = {}
    for game, scores in finals.items():
        # A game in which no run beats the zero has no scale: raw distances from zero.
        zero, best = zeros[game], float(scores.max())
        ends[game] = (zero, best if best > zero else zero + 1.0)
    return Scale(kind, label, ends)


def has_learned(game: str, score: float | None, episodes: int) -> bool | None:
    """Returns whether a greedy policy's mean return is beyond random play's.

    It must be above the 99th percentile of the mean of as many episodes of random play
    (by the normal approximation) and, where the highest return is known, at least 5% of
    the way there. None where random play's return is not known.
    """
    random, _, spread, possible = KNOWN.get(game, Known())
    if random is None or score is None:
        return None
    bound = random + _RARE * spread / sqrt(episodes)
    if possible is not None:
        bound = max(bound, random + _WAY * (possible - random))
    return score > bound

"""From what chunks leave behind to the numbers that a display shows."""

import math
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from sidequest.environments.scores import SCORES, human_normalised
from sidequest.runs import tables
from sidequest.runs.spec import Favourite, Progress, RunSpec
from sidequest.switching.variants import ArmSets, Variant
from sidequest.types import EpisodeSummary

EPISODES = 100  # of each member: those that the means are taken over
LATELY, AHEAD = 2.0, 60.0  # seconds: memory of the rates shown, and of the time left


class Chunk(NamedTuple):
    """What is new."""

    frames: int
    """That each member has seen in this chunk."""
    seconds: float
    """That it took."""
    updates: int
    """Of each member so far."""
    summaries: EpisodeSummary
    """[members, ...], in the order in which episodes ended."""
    probabilities: Float[np.ndarray, "members D K"]
    """Of the bandits' arms, at its end."""


class Teller:
    """Remembers enough of earlier chunks to tell how runs are going."""

    def __init__(self, runs: Sequence[RunSpec], arms: ArmSets, total: int):
        self._runs, self._arms, self._total = runs, arms, total
        self._recent = [Recent() for _ in runs]
        self._watch = Stopwatch()

    def tell(
        self, chunk: Chunk, *, frames: int, fill: float, evaluations: list[float]
    ) -> Progress:
        """What there is to show.

        Args:
            frames: Of each member so far.
            fill: Of replay.
            evaluations: Each member's newest.
        """
        members = len(self._runs)
        speed = self._watch.lap(
            chunk.frames * members, chunk.updates * members, chunk.seconds
        )
        for member, recent in enumerate(self._recent):
            recent.add(EpisodeSummary(*(column[member] for column in chunk.summaries)))
        means = [recent.means() for recent in self._recent]
        game = self._runs[0].game
        human = [human_normalised(game, score) for score in evaluations if game in SCORES]
        return Progress(
            frames=frames,
            total=self._total,
            rate=speed.lately,
            updates=chunk.updates,
            returns=[one.episode_return for one in means],
            evaluations=evaluations,
            p_X=[one.p_X for one in means],
            mean_rate=speed.mean,
            update_rate=speed.updates,
            replay_fill=fill,
            human=human,
            realised=[one.realised_rate for one in means],
            target=[one.target_rate for one in means],
            favourites=self._favourites(chunk.probabilities) if members == 1 else [],
            seconds_left=max(0, self._total - frames) * members / speed.ahead,
        )

    def _favourites(
        self, probabilities: Float[np.ndarray, "members D K"]
    ) -> list[Favourite]:
        return favourites(probabilities[0], self._runs[0].variant, self._arms)


def favourites(
    probabilities: Float[np.ndarray, "D K"], variant: Variant, arms: ArmSets
) -> list[Favourite]:
    """The likeliest arm of each bandit; of equals the first."""
    best: dict[str, Favourite] = {}
    for row in tables.bandit_rows(probabilities, variant, arms, frames=0):
        one = Favourite(row["bandit"], float(row["arm"]), float(row["probability"]))
        known = best.setdefault(one.bandit, one)
        if one.probability > known.probability:
            best[one.bandit] = one
    return list(best.values())


class Means(NamedTuple):
    """Of the newest episodes; NaN where there is none."""

    episode_return: float
    p_X: float
    realised_rate: float
    """Of those that had a target and exploited at all."""
    target_rate: float
    """Of the same."""


class Recent:
    """The newest episodes of one run."""

    def __init__(self):
        self._rows: deque[np.ndarray] = deque(maxlen=EPISODES)

    def add(self, summaries: EpisodeSummary) -> None:
        """Those that ended, in the order of the array."""
        ended = np.asarray(summaries.finished)
        columns = (np.asarray(getattr(summaries, name))[ended] for name in Means._fields)
        self._rows.extend(np.stack(list(columns), axis=-1)[-EPISODES:])

    def means(self) -> Means:
        if not self._rows:
            return Means(*[math.nan] * len(Means._fields))
        rows = np.array(self._rows, float)
        *plain, realised, target = rows.T
        compared = ~np.isnan(realised) & ~np.isnan(target)
        pair = [realised[compared], target[compared]]
        return Means(*(mean(column) for column in (*plain, *pair)))


def mean(column: np.ndarray) -> float:
    return float(column.mean()) if len(column) else math.nan


class Speed(NamedTuple):
    """Of all members together; NaN while not known."""

    lately: float
    """Frames a second."""
    mean: float
    """Since the start."""
    updates: float
    """Updates a second, lately."""
    ahead: float
    """Frames a second to count on: over a longer time than `lately`."""


class Fading(NamedTuple):
    """Sums over laps; what was s seconds ago counts exp(-s / memory) of what is now."""

    memory: float
    frames: float = 0.0
    updates: float = 0.0
    seconds: float = 0.0

    def after(self, frames: int, updates: int, seconds: float) -> "Fading":
        kept = math.exp(-seconds / self.memory)
        sums = (self.frames, self.updates, self.seconds)
        new = (frames, updates, seconds)
        return Fading(
            self.memory, *(old * kept + now for old, now in zip(sums, new, strict=True))
        )


class Stopwatch:
    """How fast a run goes. In the first lap programs may be compiled: it counts only as
    long as there is no other."""

    def __init__(self):
        self._updates: int | None = None
        self._sums = [Fading(memory) for memory in (LATELY, AHEAD, math.inf)]

    def lap(self, frames: int, updates: int, seconds: float) -> Speed:
        """Goes on by one lap.

        Args:
            frames: Of this lap.
            updates: So far.
            seconds: That the lap took.
        """
        seconds = max(seconds, 1e-9)
        if self._updates is None:
            self._updates = updates
            return Speed(frames / seconds, math.nan, math.nan, math.nan)
        made, self._updates = updates - self._updates, updates
        self._sums = [sums.after(frames, made, seconds) for sums in self._sums]
        lately, ahead, all_of_it = self._sums
        return Speed(
            lately=lately.frames / lately.seconds,
            mean=all_of_it.frames / all_of_it.seconds,
            updates=lately.updates / lately.seconds,
            ahead=ahead.frames / ahead.seconds,
        )

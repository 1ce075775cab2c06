"""What can be said of a claim: supported, not supported, or not enough data."""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from sidequest.figures.claims.cells import SEEDS_NEEDED, Match
from sidequest.figures.statistics import Interval, bootstrap, improvement

State: TypeAlias = Literal["supported", "not supported", "not enough data"]
SUPPORTED: State = "supported"
NOT_SUPPORTED: State = "not supported"
NOT_ENOUGH: State = "not enough data"
STATES = (SUPPORTED, NOT_SUPPORTED, NOT_ENOUGH)

SEED = 0  # of the bootstrap: the same records give the same page


class Verdict(NamedTuple):
    """The state of a claim in the records of one study."""

    state: State
    sentence: str
    numbers: tuple[tuple[str, str], ...] = ()
    """What was compared, and what came out."""


def not_enough(why: str, numbers: Iterable[tuple[str, str]] = ()) -> Verdict:
    return Verdict(NOT_ENOUGH, why, tuple(numbers))


def decide(passed: bool, sentence: str, numbers: Iterable[tuple[str, str]] = ()) -> Verdict:
    return Verdict(SUPPORTED if passed else NOT_SUPPORTED, sentence, tuple(numbers))


def lacking(matches: Sequence[Match], games: int, what: str) -> Verdict | None:
    """The verdict if fewer games than asked have what is to be compared."""
    found = names_of(matches)
    if len(found) >= games:
        return None
    seeds = f"{SEEDS_NEEDED} finished seeds each, same budget and settings"
    if not found:
        return not_enough(f"No game has {what} ({seeds}).")
    return not_enough(
        f"Only {listed(found)} has {what} ({seeds}); the claim needs {games} games."
    )


def chance_of_improvement(matches: Sequence[Match]) -> Interval:
    """P(a run of the first beats one of the second), each match counting the same."""
    first = [one.first.scores for one in matches]
    second = [one.second.scores for one in matches]
    return bootstrap(np.random.default_rng(SEED), improvement, first, second)


def in_words(interval: Interval) -> str:
    return f"{interval.value:.2f} (95% interval {interval.low:.2f} to {interval.high:.2f})"


def names_of(matches: Iterable[Match]) -> list[str]:
    return list(dict.fromkeys(one.game for one in matches))


def listed(names: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    names = list(names)
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))

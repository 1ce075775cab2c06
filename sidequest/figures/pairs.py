"""Which variants are compared with which, read off the paper's names.

Nothing here looks at scores: a figure that chose its lines by how well they did would
favour whatever has most variants. A `Partner` takes a variant and returns the one that
differs from it in a single choice, or None; figures and claims use the same partners.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from sidequest.figures.data import read_variant
from sidequest.switching.variants import MODES, Amount, Variant

# What stands for a granularity in the paper. If a study has no such variant, its first one
# of that granularity stands in.
GRANULARITIES = {
    "experiment-level X": "experiment-level-X",
    "experiment-level G": "experiment-level-G",
    "step-level": "step-level-0.01",
    "episode-level": "episode-level-*",
    "intra-episodic": "intra(10,informed,p*,X)",
}
_NAMES = {"step": "step-level", "episode": "episode-level", "intra": "intra-episodic"}

Partner = Callable[[Variant], Variant | None]


class Pair(NamedTuple):
    """Two variants that differ in one choice."""

    first: str
    second: str


def known(names: Iterable[str]) -> dict[str, Variant]:
    """Returns names with their structure, without those that this version cannot parse."""
    read = {name: read_variant(name) for name in names}
    return {name: variant for name, variant in read.items() if variant is not None}


def modes_in(names: Iterable[str]) -> list[str]:
    """Returns the explore modes of some variants, in the paper's order."""
    present = {variant.mode for variant in known(names).values()}
    return [mode for mode in MODES if mode in present]


def representatives(names: Iterable[str], mode: str) -> dict[str, str]:
    """Returns one variant for each granularity of a mode, for those that are there."""
    groups: dict[str, list[str]] = {}
    for name, variant in known(names).items():
        if variant.mode == mode:
            named = _NAMES.get(variant.granularity, f"experiment-level {variant.start}")
            groups.setdefault(named, []).append(name)
    chosen = {}
    for granularity, setting in GRANULARITIES.items():
        if candidates := groups.get(granularity):
            best = f"{mode}-{setting}"
            chosen[granularity] = best if best in candidates else candidates[0]
    return chosen


# Pairs and groups that figures show


def _pairs(names: Iterable[str], partner: Partner) -> list[Pair]:
    """Returns each variant as the second of a pair whose first is its partner."""
    by_variant = {variant: name for name, variant in known(names).items()}
    partners = {name: partner(variant) for variant, name in by_variant.items()}
    return [
        Pair(by_variant[other], name)
        for name, other in partners.items()
        if other in by_variant
    ]


def start_pairs(names: Iterable[str]) -> list[Pair]:
    """Returns variants that differ only in the starting mode, G first.

    The paper's pair is blind, symmetric and adaptive; it comes first.
    """
    pairs = _pairs(names, partial(greedy_start_partner, blind=False))
    return sorted(pairs, key=lambda one: ("informed" in one.first, "(=" not in one.first))


def blind_and_informed(names: Iterable[str]) -> list[Pair]:
    """Returns blind variants with the informed one (value promise) that explores as much.

    Fixed rates first: with bandits in charge, the two need not explore equally.
    """
    pairs = _pairs(names, partial(blind_partner, fixed=False))
    return sorted(pairs, key=lambda one: "n*" in one.first)


def counter_and_coin(names: Iterable[str]) -> list[Pair]:
    """Returns blind variants that count steps with those that draw a coin as often."""
    pairs = _pairs(names, counting_partner)
    return sorted(pairs, key=lambda one: "n*" not in one.first)  # the paper's adapt


# Partners


def same_as(first: Variant, second: Variant) -> Partner:
    """Returns a partner for one variant only."""
    return lambda variant: second if variant == first else None


def other_trigger(first: str, second: str) -> Partner:
    """Returns the partner with another informed trigger, for XI (appendix B.2)."""

    def partner(variant: Variant) -> Variant | None:
        fits = variant.mode == "XI" and variant.trigger == first
        return replace(variant, trigger=second) if fits else None

    return partner


def blind_partner(variant: Variant, *, fixed: bool = True) -> Variant | None:
    """`intra(10,informed,0.01,G)` -> `intra(10,blind,100,G)`: as often, by a counter.

    If not `fixed`, a bandit's p* has the partner n*.
    """
    counter = _counter(variant.exploit)
    if variant.trigger != "informed" or not counter or (fixed and counter.adaptive):
        return None
    return replace(variant, trigger="blind", exploit=counter)


def counting_partner(variant: Variant) -> Variant | None:
    """The coin's `intra(10,blind,p*,X)` -> the counter's `intra(10,blind,n*,X)`."""
    counter = _counter(variant.exploit)
    return replace(variant, exploit=counter) if _is_blind(variant) and counter else None


def _counter(rate: Amount | None) -> Amount | None:
    """Returns the number of steps after which a rate ends a period on average."""
    if rate is None or rate.unit != "rate":
        return None
    return Amount("steps", None if rate.value is None else float(round(1 / rate.value)))


def greedy_start_partner(variant: Variant, *, blind: bool = True) -> Variant | None:
    """A variant that starts with X, only a blind one if `blind` -> the same with G."""
    fits = _is_blind(variant) or not blind
    if variant.granularity != "intra" or variant.start != "X" or not fits:
        return None
    return replace(variant, start="G")


def _is_blind(variant: Variant) -> bool:
    return variant.granularity == "intra" and variant.trigger == "blind"


def uniform_partner(variant: Variant) -> Variant | None:
    """A variant of XS -> the same with XU."""
    return replace(variant, mode="XU") if variant.mode == "XS" else None

"""Which variants are compared with which, read off the paper's names.

Nothing here looks at scores: a figure that chose its lines by how well they did would
favour whatever has most variants. Figures show what there is, and take any two variants
that explore about as often (`Pair`). A claim needs exactly one, whatever else a study
holds: a `Partner` takes a variant and returns the same but for one choice in its name.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple

from sidequest.figures.data import read_variant
from sidequest.switching.variants import Amount, Variant

MODES = ("XU", "XI", "XS", "Xγ")

# What stands for a granularity in the paper. If a study has no such variant, its first one
# of that granularity stands in.
GRANULARITIES = {
    "experiment-level X": "experiment-level-X",
    "experiment-level G": "experiment-level-G",
    "step-level": "step-level-0.01",
    "episode-level": "episode-level-*",
    "intra-episodic": "intra(10,informed,p*,X)",
}

Partner = Callable[[Variant], Variant | None]


class Pair(NamedTuple):
    """Two variants that differ in one choice."""

    first: str
    second: str


def known(names: Iterable[str]) -> dict[str, Variant]:
    """Returns names with their structure, without those that this version cannot parse."""
    read = {name: read_variant(name) for name in names}
    return {name: variant for name, variant in read.items() if variant is not None}


def setting_of(name: str) -> str:
    """Returns a name without its explore mode: `XU-step-level-0.1` -> `step-level-0.1`."""
    return name.partition("-")[2]


def modes_in(names: Iterable[str]) -> list[str]:
    """Returns the explore modes of some variants, in the paper's order."""
    present = {variant.mode for variant in known(names).values()}
    return [mode for mode in MODES if mode in present]


def _granularity_of(variant: Variant) -> str:
    """Returns the key of `GRANULARITIES` that a variant belongs to."""
    if variant.granularity == "experiment":
        return f"experiment-level {variant.start}"
    names = {"step": "step-level", "episode": "episode-level", "intra": "intra-episodic"}
    return names[variant.granularity]


def representatives(names: Iterable[str], mode: str) -> dict[str, str]:
    """Returns one variant for each granularity of a mode, for those that are there."""
    groups: dict[str, list[str]] = {}
    for name, variant in known(names).items():
        if variant.mode == mode:
            groups.setdefault(_granularity_of(variant), []).append(name)
    chosen = {}
    for granularity, setting in GRANULARITIES.items():
        if candidates := groups.get(granularity):
            best = f"{mode}-{setting}"
            chosen[granularity] = best if best in candidates else candidates[0]
    return chosen


def start_pairs(names: Iterable[str]) -> list[Pair]:
    """Returns variants that differ only in the starting mode, G first.

    The paper's pair is blind, symmetric and adaptive; it comes first.
    """
    variants = known(names)
    pairs = []
    for name, variant in variants.items():
        other = name.removesuffix("G)") + "X)"
        if name.endswith(",G)") and other in variants:
            symmetric = variant.explore == Amount("same")
            pairs.append((variant.informed, not symmetric, Pair(name, other)))
    return [pair for *_, pair in sorted(pairs, key=lambda one: one[:2])]


def _same_rate(one: Amount, other: Amount) -> bool:
    """Returns whether two ways to end a period do so as often, as 100 steps and 0.01."""
    if one.adaptive or other.adaptive:
        return one.adaptive and other.adaptive
    lengths = [
        amount.value if amount.unit == "steps" else 1 / amount.value
        for amount in (one, other)
        if amount.value and amount.unit in ("steps", "rate")
    ]
    return len(lengths) == 2 and abs(lengths[0] / lengths[1] - 1) < 0.05


def blind_and_informed(names: Iterable[str]) -> list[Pair]:
    """Returns blind variants with the informed one (value promise) that explores as much.

    Fixed rates first: with bandits in charge, the two need not explore equally.
    """
    return _match(names, lambda blind: blind.trigger == "blind", "informed")


def counter_and_coin(names: Iterable[str]) -> list[Pair]:
    """Returns blind variants that count steps with those that draw a coin as often."""

    def counts(variant: Variant) -> bool:
        exploit = variant.exploit
        return (
            variant.trigger == "blind" and exploit is not None and exploit.unit == "steps"
        )

    pairs = _match(names, counts, "blind")
    return sorted(pairs, key=lambda pair: "n*" not in pair.first)  # the paper's adapt


def _match(
    names: Iterable[str], is_first: Callable[[Variant], bool], trigger: str
) -> list[Pair]:
    """Pairs intra-episodic variants of one mode, n_X, start and rate; fixed rates first."""
    intra = {
        name: variant
        for name, variant in known(names).items()
        if variant.granularity == "intra"
    }
    pairs = []
    for name, variant in intra.items():
        if not is_first(variant):
            continue
        for other, second in intra.items():
            rate = second.exploit is not None and second.exploit.unit == "rate"
            same = (variant.mode, variant.explore, variant.start) == (
                second.mode,
                second.explore,
                second.start,
            )
            if second.trigger == trigger and rate and same and other != name:
                assert variant.exploit and second.exploit
                if _same_rate(variant.exploit, second.exploit):
                    pairs.append((variant.exploit.adaptive, Pair(name, other)))
    return [pair for _, pair in sorted(pairs, key=lambda one: one[0])]


def trigger_groups(names: Iterable[str]) -> list[dict[str, str]]:
    """Returns groups of variants that differ only in the informed trigger, by trigger."""
    groups: dict[tuple, dict[str, str]] = {}
    for name, variant in known(names).items():
        if variant.informed and variant.trigger:
            key = (variant.mode, variant.explore, variant.exploit, variant.start)
            groups.setdefault(key, {})[variant.trigger] = name
    full = [group for group in groups.values() if len(group) > 1]
    return sorted(full, key=len, reverse=True)


def shared_settings(names: Iterable[str], most: int = 4) -> list[str]:
    """Returns settings that several explore modes have, the widest shared first."""
    modes: dict[str, set[str]] = {}
    for name, variant in known(names).items():
        modes.setdefault(setting_of(name), set()).add(variant.mode)
    shared = [setting for setting, found in modes.items() if len(found) > 1]
    return sorted(shared, key=lambda setting: -len(modes[setting]))[:most]


def same_as(first: Variant, second: Variant) -> Partner:
    """Returns a partner for one variant only."""
    return lambda variant: second if variant == first else None


def other_trigger(first: str, second: str) -> Partner:
    """Returns the partner with another informed trigger, for XI (appendix B.2)."""

    def partner(variant: Variant) -> Variant | None:
        fits = variant.mode == "XI" and variant.trigger == first
        return replace(variant, trigger=second) if fits else None

    return partner


def blind_partner(variant: Variant) -> Variant | None:
    """`intra(10,informed,0.01,G)` -> `intra(10,blind,100,G)`: as often, by a counter."""
    if variant.trigger != "informed" or not variant.exploit or not variant.exploit.value:
        return None
    steps = Amount("steps", float(round(1 / variant.exploit.value)))
    return replace(variant, trigger="blind", exploit=steps)


def counting_partner(variant: Variant) -> Variant | None:
    """The coin's `intra(10,blind,p*,X)` -> the counter's `intra(10,blind,n*,X)`."""
    exploit = variant.exploit
    if variant.granularity != "intra" or variant.trigger != "blind" or exploit is None:
        return None
    if exploit.unit != "rate":
        return None
    steps = None if exploit.value is None else float(round(1 / exploit.value))
    return replace(variant, exploit=Amount("steps", steps))


def greedy_start_partner(variant: Variant) -> Variant | None:
    """A blind variant that starts with X -> the same starting with G."""
    if variant.granularity != "intra" or variant.trigger != "blind" or variant.start != "X":
        return None
    return replace(variant, start="G")


def uniform_partner(variant: Variant) -> Variant | None:
    """A variant of XS -> the same with XU."""
    return replace(variant, mode="XU") if variant.mode == "XS" else None

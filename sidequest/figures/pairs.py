"""Which variants a figure compares, read off the paper's names.

Nothing here looks at scores: a figure that chose its lines by how well they did would
favour whatever has most variants.
"""

from collections.abc import Iterable
from typing import NamedTuple

from sidequest.figures.data import read_variant
from sidequest.switching.variants import Amount, Variant

MODES = ("XU", "XI", "XS", "Xγ")

# What stands for a granularity, best known first. The paper shows the first of each; if a
# study has none of these, its first variant of that granularity stands in.
GRANULARITIES: dict[str, tuple[str, ...]] = {
    "experiment-level X": ("experiment-level-X",),
    "experiment-level G": ("experiment-level-G",),
    "step-level": ("step-level-0.01",),
    "episode-level": ("episode-level-*",),
    "intra-episodic": ("intra(10,informed,p*,X)",),
}


class Pair(NamedTuple):
    """Two variants that differ in one choice."""

    first: str
    second: str


def known(names: Iterable[str]) -> dict[str, Variant]:
    """Names with their structure; without those that this version cannot read."""
    read = {name: read_variant(name) for name in names}
    return {name: variant for name, variant in read.items() if variant is not None}


def setting_of(name: str) -> str:
    """A name without its explore mode: `XU-step-level-0.01` -> `step-level-0.01`."""
    return name.partition("-")[2]


def modes_in(names: Iterable[str]) -> list[str]:
    present = {variant.mode for variant in known(names).values()}
    return [mode for mode in MODES if mode in present]


def granularity_of(variant: Variant) -> str:
    """The key of `GRANULARITIES` that a variant belongs to."""
    if variant.granularity == "experiment":
        return f"experiment-level {variant.start}"
    names = {"step": "step-level", "episode": "episode-level", "intra": "intra-episodic"}
    return names[variant.granularity]


def representatives(names: Iterable[str], mode: str) -> dict[str, str]:
    """One variant for each granularity of a mode, for those that are there."""
    groups: dict[str, list[str]] = {}
    for name, variant in known(names).items():
        if variant.mode == mode:
            groups.setdefault(granularity_of(variant), []).append(name)
    chosen = {}
    for granularity, preferred in GRANULARITIES.items():
        candidates = groups.get(granularity, [])
        best = [f"{mode}-{one}" for one in preferred if f"{mode}-{one}" in candidates]
        if candidates:
            chosen[granularity] = [*best, *candidates][0]
    return chosen


def start_pairs(names: Iterable[str]) -> list[Pair]:
    """Variants that differ only in the starting mode, G first.

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


def same_rate(one: Amount, other: Amount) -> bool:
    """Whether two ways to end a period do so as often: 100 steps and 0.01 a step do."""
    if one.adaptive or other.adaptive:
        return one.adaptive and other.adaptive
    lengths = [
        amount.value if amount.unit == "steps" else 1 / amount.value
        for amount in (one, other)
        if amount.value and amount.unit in ("steps", "rate")
    ]
    return len(lengths) == 2 and abs(lengths[0] / lengths[1] - 1) < 0.05


def blind_and_informed(names: Iterable[str]) -> list[Pair]:
    """A blind variant and the informed one (value promise) that explores as much.

    Fixed rates first: with bandits in charge, the two need not explore equally.
    """
    return _match(names, lambda blind: blind.trigger == "blind", "informed")


def count_and_coin(names: Iterable[str]) -> list[Pair]:
    """Blind variants that count steps, and those that draw a coin as often."""

    def counts(variant: Variant) -> bool:
        exploit = variant.exploit
        return (
            variant.trigger == "blind" and exploit is not None and exploit.unit == "steps"
        )

    pairs = _match(names, counts, "blind")
    return sorted(pairs, key=lambda pair: "n*" not in pair.first)  # the paper's adapt


def _match(names: Iterable[str], is_first, trigger: str) -> list[Pair]:
    """Intra-episodic pairs of one mode, n_X, start and rate; fixed rates come first."""
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
                if same_rate(variant.exploit, second.exploit):
                    pairs.append((variant.exploit.adaptive, Pair(name, other)))
    return [pair for _, pair in sorted(pairs, key=lambda one: one[0])]


def trigger_groups(names: Iterable[str]) -> list[dict[str, str]]:
    """Variants that differ only in the informed trigger, by trigger; two at least."""
    groups: dict[tuple, dict[str, str]] = {}
    for name, variant in known(names).items():
        if variant.informed and variant.trigger:
            key = (variant.mode, variant.explore, variant.exploit, variant.start)
            groups.setdefault(key, {})[variant.trigger] = name
    full = [group for group in groups.values() if len(group) > 1]
    return sorted(full, key=len, reverse=True)


def shared_settings(names: Iterable[str], most: int = 4) -> list[str]:
    """Settings that several explore modes were run with, the widest shared first."""
    modes: dict[str, set[str]] = {}
    for name, variant in known(names).items():
        modes.setdefault(setting_of(name), set()).add(variant.mode)
    shared = [setting for setting, found in modes.items() if len(found) > 1]
    return sorted(shared, key=lambda setting: -len(modes[setting]))[:most]

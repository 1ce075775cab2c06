"""Which variant a variant is held against: the same but for one choice in its name.

Each function takes a variant and gives its partner, or None if it has none. A claim
needs exactly one, whatever else a study holds. Figures show what there is, and take any two
that explore about as often: see `figures.selection`.
"""

from collections.abc import Callable
from dataclasses import replace

from sidequest.switching.variants import Amount, Variant

Partner = Callable[[Variant], Variant | None]


def same_as(first: Variant, second: Variant) -> Partner:
    """The one variant against the other."""
    return lambda variant: second if variant == first else None


def other_trigger(first: str, second: str) -> Partner:
    """The same variant of XI with another informed trigger (appendix B.2)."""

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
    return replace(variant, mode="XU") if variant.mode == "XS" else None

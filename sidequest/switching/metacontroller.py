"""The meta-controller: bandits that choose the settings of each episode (section 2.3).

Any variant is arrays with three dimensions: how an episode starts, how long it exploits,
how long it explores. Each dimension has one entry or more; a bandit chooses among them,
and a dimension with one entry is fixed. So one program serves every variant.

    variant                        start     exploit              explore
    XU-experiment-level-X          1         -                    -
    XU-episode-level-*             0 1       -                    -
    XU-intra(10,informed,p*,X)     1         .1 .01 .001 .0001    10
    XU-intra(*,blind,n*,G)         0         10 100 1000 10000    1 10 100

One meta-controller serves all environments of a run: arms are drawn with the present
probabilities, and bandits are updated with episodes in the order in which they end (in
`Switch`, with those of a quarter of the environments at once).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from sidequest.errors import VariantError
from sidequest.switching import bandits
from sidequest.switching.arrays import ONE, fold_marked, namespace, slide
from sidequest.switching.bandits import Ended
from sidequest.switching.controllers import Arm, Ending
from sidequest.switching.triggers import COIN, COUNTER, INFORMED, NEVER, SIGNALS
from sidequest.switching.variants import (
    PAPER_ARMS,
    RATE_ALLOWED,
    STEPS_ALLOWED,
    Amount,
    ArmSets,
    Variant,
)
from sidequest.types import AnyArray

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int, Num

DIMENSIONS = ("start", "exploit", "explore")
UPDATE_CHUNK = 32  # episodes in one pass over the bandits' windows
_LENGTHS_KEPT = 100  # a share of an episode's length refers to the median of these
_LENGTHS_NEEDED = 10
_LENGTH_ASSUMED = 1_000.0  # until that many episodes have ended

Arms: TypeAlias = Mapping[str, float | str] | Sequence[float] | np.ndarray | float
"""Fixed choices of bandits: by name, or in the order of the variant's name."""


class VariantArrays(NamedTuple):
    """A variant as numbers; rows of `entries` are start, exploit, explore."""

    entries: Float[AnyArray, "D K"]
    in_use: Int[AnyArray, "D"]
    """Number of entries of each row; the rest is padding."""
    kinds: Int[AnyArray, "2"]
    """What ends an exploit and an explore period."""
    share: Bool[AnyArray, "2"]
    """Whether the amount is a share of the episode's length."""
    symmetric: Bool[AnyArray, ""]
    """The paper's `=`: explore periods end as exploit periods do."""
    signal: Int[AnyArray, ""]


def variant_arrays(variant: Variant, arms: ArmSets = PAPER_ARMS) -> VariantArrays:
    """Returns the numbers of a variant, for a compiled program."""
    rows = _rows(variant, arms)
    entries = np.zeros((len(rows), arms.width), np.float32)
    for row, values in zip(entries, rows, strict=True):
        row[: len(values)] = values
    symmetric = variant.explore is not None and variant.explore.unit == "same"
    exploit, explore = variant.exploit, variant.explore
    if variant.granularity == "step":
        kinds = (COIN, COIN)
    elif variant.granularity == "intra":
        rate = exploit is not None and exploit.unit == "rate"
        exploit_kind = INFORMED if variant.informed else COIN if rate else COUNTER
        kinds = (exploit_kind, exploit_kind if symmetric else COUNTER)
    else:
        kinds = (NEVER, NEVER)
    share = [amount is not None and amount.unit == "share" for amount in (exploit, explore)]
    signals: list[str | None] = [*SIGNALS]
    signal = signals.index(variant.trigger) if variant.informed else 0
    return VariantArrays(
        entries=entries,
        in_use=np.array([len(values) for values in rows], np.int32),
        kinds=np.array(kinds, np.int32),
        share=np.array(share),
        symmetric=np.array(symmetric),
        signal=np.array(signal, np.int32),
    )


def _rows(variant: Variant, arms: ArmSets) -> tuple[tuple[float, ...], ...]:
    """Returns the entries of each dimension; shares as fractions."""

    def fixed(amount: Amount | str | None) -> float:
        if isinstance(amount, str):
            return float(amount == "X")
        if amount is None or amount.value is None:
            return 0.0
        return amount.value / 100 if amount.unit == "share" else amount.value

    adapted = variant.bandits(arms)
    rows = {
        name: adapted.get(name, (fixed(getattr(variant, name)),)) for name in DIMENSIONS
    }
    if variant.granularity == "step":
        # Independent draws: the chance to explore is the same from either mode.
        rate = rows["exploit"][0]
        rows |= {"start": (rate,), "explore": (1.0 - rate,)}
    return tuple(tuple(map(float, rows[name])) for name in DIMENSIONS)


def name_arms(variant: Variant, arms: Arms | None) -> dict[str, float]:
    """Returns the fixed number of each bandit in `arms`, which `Switch` describes."""
    adapted = list(variant.bandits())
    if arms is None:
        return {}
    if not isinstance(arms, Mapping):
        several = isinstance(arms, Sequence) or np.ndim(arms)
        many: Any = arms if several and not isinstance(arms, str) else [arms]
        listed = list(many)
        if len(listed) != len(adapted):
            raise VariantError(
                f"{variant} has the bandits {adapted}; arms fixes one number for each, and "
                f"is {listed}"
            )
        arms = dict(zip(adapted, listed, strict=True))
    fixed = {}
    for name, value in arms.items():
        if name not in adapted:
            raise VariantError(f"{variant} has no bandit {name!r}; it has {adapted}")
        try:
            modes = {"G": 0.0, "X": 1.0} if name == "start" else {}
            number = float(modes.get(str(value), value))
        except (TypeError, ValueError):
            raise VariantError(f"arms: {name} is {value!r}, which is no number") from None
        amount = getattr(variant, name)
        low, high = RATE_ALLOWED if amount.unit == "rate" else STEPS_ALLOWED
        if name == "start":
            low, high = 0, 1
        if not low <= number <= high:
            raise VariantError(f"arms: {name} is {value}; allowed is {low:g} to {high:g}")
        if amount.unit != "rate" and number != int(number):
            raise VariantError(f"arms: {name} is {value}; it is a whole number")
        fixed[name] = number
    return fixed


def fix_arms(variant: VariantArrays, fixed: Mapping[str, float]) -> VariantArrays:
    """Returns the arrays with one entry in each of the fixed dimensions."""
    entries, in_use = np.array(variant.entries), np.array(variant.in_use)
    for name, number in fixed.items():
        row = DIMENSIONS.index(name)
        entries[row, 0], in_use[row] = number, 1
    return variant._replace(entries=entries, in_use=in_use)


class MetaState(NamedTuple):
    variant: VariantArrays
    bandit: Any
    lengths: Float[AnyArray, "N"]
    """Lengths of the latest episodes, newest last; NaN where there was none yet."""


class ArmProbabilities(NamedTuple):
    """Holds what actors need to draw arms."""

    variant: VariantArrays
    probabilities: Float[AnyArray, "D K"]
    length: Float[AnyArray, ""]
    """The length that a share of an episode refers to."""


class Episodes(NamedTuple):
    """Choices, returns and lengths of E episodes."""

    choices: Int[AnyArray, "E D"]
    returns: Float[AnyArray, "E"]
    lengths: Num[AnyArray, "E"]


class MetaController(NamedTuple):
    init: Callable[[VariantArrays], MetaState]
    arm_probabilities: Callable[[MetaState], ArmProbabilities]
    update: Callable[[MetaState, Episodes, Bool[AnyArray, "E"]], MetaState]
    """(state, episodes, ended) -> state: counts the episodes that have ended, in order."""


def make_metacontroller(
    bandit: Callable[[int], bandits.Bandit] = bandits.proportional,
    arms: ArmSets = PAPER_ARMS,
    dimensions: Sequence[str] = DIMENSIONS,
) -> MetaController:
    """Returns a meta-controller; `bandit` makes the bandit of a dimension from its size.

    Only `dimensions` have bandits; the others have one entry, in every variant.
    """
    choosing = bandit(arms.width)
    adapted = [DIMENSIONS.index(name) for name in dimensions]
    always_first = (np.arange(arms.width) == 0).astype(np.float32)

    def init(variant: VariantArrays) -> MetaState:
        lengths = np.full(_LENGTHS_KEPT, np.nan, np.float32)
        return MetaState(
            variant, choosing.init(variant.in_use[np.array(adapted, int)]), lengths
        )

    def arm_probabilities(state: MetaState) -> ArmProbabilities:
        xp = namespace(state.lengths, state.variant.in_use)
        known = (~xp.isnan(state.lengths)).sum()
        ordered = xp.sort(state.lengths)  # those that are not known come last
        median = (ordered[(known - 1) // 2] + ordered[known // 2]) / 2
        length = xp.where(known >= _LENGTHS_NEEDED, median, np.float32(_LENGTH_ASSUMED))
        rows = [always_first] * len(DIMENSIONS)
        if adapted:
            chosen = choosing.probabilities(state.bandit)
            for place, dimension in enumerate(adapted):
                rows[dimension] = chosen[place]
        return ArmProbabilities(state.variant, xp.stack(rows), length)

    def add(state: MetaState, episodes: Episodes, count: Int[AnyArray, ""]) -> MetaState:
        """Updates the bandits with the first `count` of these episodes."""
        xp = namespace(state.lengths, episodes.returns)
        lengths = xp.concatenate([state.lengths, episodes.lengths.astype(np.float32)])
        bandit = state.bandit
        if adapted:
            played = episodes.choices[:, np.array(adapted)].T
            bandit = choosing.update(bandit, Ended(played, episodes.returns, count))
        return MetaState(state.variant, bandit, slide(lengths, count, _LENGTHS_KEPT))

    def update(
        state: MetaState, episodes: Episodes, ended: Bool[AnyArray, "E"]
    ) -> MetaState:
        # A return that is not finite would spoil the mean of the whole window.
        ended = ended & namespace(ended).isfinite(episodes.returns)
        return fold_marked(add, state, episodes, ended, UPDATE_CHUNK)

    return MetaController(init, arm_probabilities, update)


def draw(
    uniforms: Float[AnyArray, "D *B"], arms: ArmProbabilities
) -> tuple[Int[AnyArray, "D *B"], Arm]:
    """Draws an entry of each dimension: the arm of an episode."""
    choices = bandits.draw(uniforms, arms.probabilities)
    return choices, _arm_of(choices, arms)


def _arm_of(choices: Int[AnyArray, "D *B"], arms: ArmProbabilities) -> Arm:
    """Returns the numbers of these choices.

    A share f of the length L means max(1, round(f L)) steps. Symmetric switching gives
    explore periods the exploit amount.
    """
    variant = arms.variant
    xp = namespace(choices, variant.entries)
    ones = [1] * (choices.ndim - 1)
    entries = variant.entries.reshape(*variant.entries.shape, *ones)
    chosen = choices[:, None] == xp.arange(entries.shape[1]).reshape(-1, *ones)
    start, exploit, explore = (entries * chosen).sum(1)
    amounts = xp.stack([exploit, xp.where(variant.symmetric, exploit, explore)])
    shares = xp.where(variant.symmetric, variant.share[0], variant.share)
    if xp is not np or shares.any():
        steps = xp.maximum(xp.rint(amounts * arms.length), ONE)
        amounts = xp.where(shares.reshape(-1, *ones), steps, amounts)
    return Arm(
        start=start,
        exploit=Ending(variant.kinds[0], amounts[0]),
        explore=Ending(variant.kinds[1], amounts[1]),
        signal=variant.signal,
        place=choices[DIMENSIONS.index("exploit")],
    )

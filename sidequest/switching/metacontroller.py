"""The meta-controller: which numbers the next episode is played with (section 2.3).

Any variant is a *menu* with three dimensions: how an episode starts, how long it exploits,
how long it explores. Each dimension has one entry or more; a bandit chooses among them,
and a dimension with one entry is simply fixed. So one program serves every variant.

    variant                        start     exploit              explore
    XU-experiment-level-X          1         -                    -
    XU-episode-level-*             0 1       -                    -
    XU-intra(10,informed,p*,X)     1         .1 .01 .001 .0001    10
    XU-intra(*,blind,n*,G)         0         10 100 1000 10000    1 10 100

One meta-controller serves all streams of a run: arms are drawn from the probabilities of
the moment, episodes are fed back in the order in which they end.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Num

from sidequest.switching import bandits
from sidequest.switching.bandits import Ended
from sidequest.switching.controllers import Arm, Ending
from sidequest.switching.triggers import COIN, COUNTER, INFORMED, NEVER
from sidequest.switching.variants import (
    PAPER_ARMS,
    RATE_ALLOWED,
    STEPS_ALLOWED,
    TRIGGERS,
    Amount,
    ArmSets,
    Variant,
    VariantError,
)
from sidequest.types import AnyArray, Key

DIMENSIONS = ("start", "exploit", "explore")
LENGTHS_KEPT = 100  # a share of an episode's length refers to the median of these
LENGTHS_NEEDED = 10
TOLD_AT_ONCE = 32  # episodes; a pass over the bandits' windows serves so many
LENGTH_ASSUMED = 1_000.0  # until that many episodes have ended


Arms: TypeAlias = Mapping[str, float | str] | Sequence[float] | np.ndarray | float
"""What fixes a bandit's choice: by its name, or in the order of the variant's name."""


class Menu(NamedTuple):
    """A variant as numbers; rows of `entries` are start, exploit, explore."""

    entries: Float[AnyArray, "D K"]
    in_use: Int[AnyArray, "D"]
    """How many entries of each row there are; the rest is padding."""
    kinds: Int[AnyArray, "2"]
    """What ends an exploit and an explore period."""
    share: Bool[AnyArray, "2"]
    """Whether the amount is a share of the episode's length."""
    symmetric: Bool[AnyArray, ""]
    """The paper's `=`: explore periods end as exploit periods do."""
    signal: Int[AnyArray, ""]


def menu_of(variant: Variant, arms: ArmSets = PAPER_ARMS) -> Menu:
    """The numbers of a variant, ready for a compiled program."""
    rows = _rows(variant, arms)
    width = max(len(values) for values in (*arms, (0, 1)))
    entries = np.zeros((len(rows), width), np.float32)
    for row, values in zip(entries, rows, strict=True):
        row[: len(values)] = values
    symmetric = variant.explore is not None and variant.explore.unit == "same"
    exploit, explore = variant.exploit, variant.explore
    if variant.granularity == "step":
        kinds = (COIN, COIN)
    elif variant.granularity == "intra":
        exploit_kind = INFORMED if variant.informed else _blind_kind(exploit)
        kinds = (exploit_kind, exploit_kind if symmetric else COUNTER)
    else:
        kinds = (NEVER, NEVER)
    share = [amount is not None and amount.unit == "share" for amount in (exploit, explore)]
    return Menu(
        entries=entries,
        in_use=np.array([len(values) for values in rows], np.int32),
        kinds=np.array(kinds, np.int32),
        share=np.array(share),
        symmetric=np.array(symmetric),
        signal=np.array(
            TRIGGERS.index(variant.trigger or "informed") - 1 if variant.informed else 0,
            np.int32,
        ),
    )


def _blind_kind(exploit: Amount | None) -> int:
    return COIN if exploit is not None and exploit.unit == "rate" else COUNTER


def _rows(variant: Variant, arms: ArmSets) -> tuple[tuple[float, ...], ...]:
    """The entries of each dimension; shares as fractions."""

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
    """The fixed number of each bandit named; see `Switch` for what `arms` may be."""
    adapted = list(variant.bandits())
    if arms is None:
        return {}
    if not isinstance(arms, Mapping):
        listed = list(arms) if isinstance(arms, Sequence | np.ndarray) else [arms]
        if len(listed) != len(adapted):
            raise VariantError(f"{variant} has the bandits {adapted}; got arms {listed}")
        arms = dict(zip(adapted, listed, strict=True))
    fixed = {}
    for name, value in arms.items():
        if name not in adapted:
            raise VariantError(f"{variant} has no bandit {name!r}; it has {adapted}")
        try:
            number = float({"G": 0.0, "X": 1.0}.get(str(value), value))
        except ValueError:
            raise VariantError(f"arms: {name} is {value!r}, which is no number") from None
        amount = getattr(variant, name)
        low, high = RATE_ALLOWED if amount.unit == "rate" else STEPS_ALLOWED
        if name == "start":
            low, high = 0, 1
        if not low <= number <= high:
            raise VariantError(f"arms: {name} is {value}; allowed is {low:g} to {high:g}")
        fixed[name] = number
    return fixed


def fix_arms(menu: Menu, fixed: Mapping[str, float]) -> Menu:
    """The menu with one entry in each of the fixed dimensions."""
    entries, in_use = np.array(menu.entries), np.array(menu.in_use)
    for name, number in fixed.items():
        row = DIMENSIONS.index(name)
        entries[row, 0], in_use[row] = number, 1
    return menu._replace(entries=entries, in_use=in_use)


class MetaState(NamedTuple):
    menu: Menu
    bandit: Any
    lengths: Float[Array, "N"]
    """Of the most recent episodes, newest last; NaN where there was none yet."""


class Offer(NamedTuple):
    """All that is needed to draw arms: what an actor takes along for a while."""

    menu: Menu
    probabilities: Float[Array, "D K"]
    length: Float[Array, ""]
    """The length that a share of an episode refers to."""


class Episodes(NamedTuple):
    """What is fed back of E episodes."""

    choices: Int[AnyArray, "E D"]
    returns: Float[AnyArray, "E"]
    lengths: Num[AnyArray, "E"]


class MetaController(NamedTuple):
    init: Callable[[Menu], MetaState]
    offer: Callable[[MetaState], Offer]
    update: Callable[[MetaState, Episodes, Bool[Array, "E"]], MetaState]
    """(state, episodes, ended) -> state: hears of those that have ended, in order."""


def make_metacontroller(
    bandit: Callable[[int], bandits.Bandit] = bandits.proportional,
    arms: ArmSets = PAPER_ARMS,
) -> MetaController:
    """`bandit` makes a bandit from a number of arms; each dimension gets its own."""
    width = max(len(values) for values in (*arms, (0, 1)))
    choosing = bandits.factored(bandit(width), len(DIMENSIONS))

    def init(menu: Menu) -> MetaState:
        menu = jax.tree.map(jnp.asarray, menu)
        lengths = jnp.full(LENGTHS_KEPT, jnp.nan)
        return MetaState(menu, choosing.init(menu.in_use), lengths)

    def offer(state: MetaState) -> Offer:
        known = jnp.sum(~jnp.isnan(state.lengths))
        median = jnp.nanmedian(state.lengths)
        length = jnp.where(known >= LENGTHS_NEEDED, median, LENGTH_ASSUMED)
        return Offer(state.menu, choosing.probabilities(state.bandit), length)

    def tell(state: MetaState, episodes: Episodes, count: Int[Array, ""]) -> MetaState:
        """Of the first `count` of these episodes."""
        lengths = jnp.concatenate([state.lengths, episodes.lengths.astype(jnp.float32)])
        return MetaState(
            menu=state.menu,
            bandit=choosing.update(
                state.bandit, Ended(episodes.choices, episodes.returns, count)
            ),
            lengths=lax.dynamic_slice(lengths, (count,), (LENGTHS_KEPT,)),
        )

    def update(state: MetaState, episodes: Episodes, ended: Bool[Array, "E"]) -> MetaState:
        # A return that is not finite would spoil the mean of the whole window.
        ended &= jnp.isfinite(episodes.returns)
        count = jnp.sum(ended)
        episodes = _in_front(episodes, ended)
        if len(ended) <= TOLD_AT_ONCE:
            return tell(state, episodes, count)

        def some(i: Int[Array, ""], state: MetaState) -> MetaState:
            first = i * TOLD_AT_ONCE
            part = jax.tree.map(
                lambda leaf: lax.dynamic_slice_in_dim(leaf, first, TOLD_AT_ONCE), episodes
            )
            return tell(state, part, jnp.minimum(count - first, TOLD_AT_ONCE))

        return lax.fori_loop(0, -(-count // TOLD_AT_ONCE), some, state)

    return MetaController(init, offer, update)


def _in_front(episodes: Episodes, ended: Bool[Array, "E"]) -> Episodes:
    """Those that have ended, in order; then zeros, to a whole number of calls."""
    size = -(-len(ended) // TOLD_AT_ONCE) * TOLD_AT_ONCE
    place = jnp.where(ended, jnp.cumsum(ended) - 1, size)

    def move(leaf: Array) -> Array:
        empty = jnp.zeros((size, *leaf.shape[1:]), leaf.dtype)
        return empty.at[place].set(leaf, mode="drop")

    return jax.tree.map(move, episodes)


def draw(key: Key, offer: Offer) -> tuple[Int[Array, "D"], Arm]:
    """Chooses an entry of each dimension: the arm of one episode of one stream."""
    keys = jax.random.split(key, len(DIMENSIONS))
    choices = jax.vmap(bandits.draw)(keys, offer.probabilities)
    return choices, arm_of(choices, offer)


def arm_of(choices: Int[Array, "D"], offer: Offer) -> Arm:
    """The numbers that these choices stand for.

    A share f of the length L means max(1, round(f L)) steps. Symmetric switching gives
    explore periods the exploit amount.
    """
    menu = offer.menu
    chosen = jnp.arange(menu.entries.shape[1])[None] == choices[:, None]
    start, exploit, explore = jnp.sum(jnp.where(chosen, menu.entries, 0.0), axis=1)
    amounts = jnp.stack([exploit, jnp.where(menu.symmetric, exploit, explore)])
    shares = jnp.stack([menu.share[0], jnp.where(menu.symmetric, *menu.share)])
    steps = jnp.maximum(1.0, jnp.round(amounts * offer.length))
    amounts = jnp.where(shares, steps, amounts)
    return Arm(
        start=start,
        exploit=Ending(menu.kinds[0], amounts[0]),
        explore=Ending(menu.kinds[1], amounts[1]),
        signal=menu.signal,
    )

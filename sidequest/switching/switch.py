"""`Switch`: when to explore, for an agent of your own, in NumPy, PyTorch or anything.

    switch = Switch("XU-intra(10,informed,p*,X)", streams=8)
    while True:
        modes = switch.step(reward=r, discount=d, value=q.max(-1), is_first=first)
        action = np.where(modes, explore_action, greedy_action)

A thin shell over pure functions: `begin` makes the state, `advance` takes one step of all
streams. It holds the controllers, the bandits and the statistics of every stream.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from numpy.typing import ArrayLike

from sidequest.switching import homeostasis, metacontroller, periods
from sidequest.switching.bandits import Bandit, proportional
from sidequest.switching.controllers import Controller, ControllerState, make_controller
from sidequest.switching.metacontroller import (
    DIMENSIONS,
    Menu,
    MetaController,
    MetaState,
    make_metacontroller,
    menu_of,
)
from sidequest.switching.triggers import SIGNALS, Signal, stateless
from sidequest.switching.variants import (
    RATE_ALLOWED,
    STEPS_ALLOWED,
    Variant,
    VariantError,
    parse,
)
from sidequest.types import Signals

STATISTICS = ("p_X", "med_X", "rmed_X", "realised_rate", "return", "length")
DISCOUNT = 0.997  # the paper's

Arms: TypeAlias = Mapping[str, float | str] | Sequence[float] | np.ndarray | float
"""What fixes a bandit's choice: by its name, or in the order of the variant's name."""


class Machinery(NamedTuple):
    """The functions that a switch is made of: what decides the compiled program."""

    controller: Controller
    meta: MetaController


@functools.lru_cache
def make_machinery(
    rule: homeostasis.Rule = "saturated",
    signal: Callable[[Signals], Float[Array, ""]] | Signal | None = None,
    bandit: Callable[[int], Bandit] = proportional,
) -> Machinery:
    """Cached, so that all switches of one kind share one compiled program."""
    signals = dict(SIGNALS)
    if signal is not None:
        own = signal if isinstance(signal, Signal) else stateless(signal)
        signals = dict.fromkeys(signals, own)
    return Machinery(make_controller(signals, rule), make_metacontroller(bandit))


class SwitchState(NamedTuple):
    """All of it arrays; what has an axis B is of one stream, the rest of all."""

    controllers: ControllerState
    choices: Int[Array, "B D"]
    returns: Float[Array, "B"]
    periods: periods.PeriodsState
    meta: MetaState
    key: Array
    steps: Int[Array, ""]
    sums: Float[Array, "S"]
    """Of `STATISTICS`, over the finished episodes that had them."""
    counts: Float[Array, "S"]


def begin(
    machinery: Machinery, menu: Menu, streams: int, seed: int | Int[Array, ""]
) -> SwitchState:
    meta = machinery.meta.init(menu)
    offer = machinery.meta.offer(meta)
    keys = jax.random.split(jax.random.key(seed), streams)
    choices, arms = jax.vmap(metacontroller.draw, in_axes=(0, None))(keys, offer)
    fresh = jax.tree.map(lambda leaf: jnp.stack([leaf] * streams), periods.init())
    return SwitchState(
        controllers=jax.vmap(machinery.controller.init)(keys, arms),
        choices=choices,
        returns=jnp.zeros(streams),
        periods=fresh,
        meta=meta,
        key=jax.random.key_data(jax.random.key(seed)),
        steps=jnp.zeros((), jnp.int32),
        sums=jnp.zeros(len(STATISTICS)),
        counts=jnp.zeros(len(STATISTICS)),
    )


def advance(
    machinery: Machinery, state: SwitchState, signals: Signals
) -> tuple[Bool[Array, "B"], SwitchState]:
    """One step of all streams. Each field of `signals` has the axis [B]."""
    streams = signals.is_first.shape[0]
    key = jax.random.fold_in(jax.random.wrap_key_data(state.key), state.steps)
    draw_key, step_key = jax.random.split(key)
    # A stream that never began an episode begins one now, said or not.
    first = signals.is_first | (state.periods.steps == 0)
    # The reward that arrives with a first observation is the last of the episode before.
    state = state._replace(returns=state.returns + signals.reward)
    turn = functools.partial(turn_episodes, machinery, draw_key, first)
    state = jax.lax.cond(jnp.any(first), turn, lambda same: same, state)
    modes, controllers = jax.vmap(machinery.controller.step)(
        jax.random.split(step_key, streams),
        signals._replace(is_first=first),
        state.controllers,
    )
    return modes, state._replace(
        controllers=controllers,
        periods=jax.vmap(periods.step)(modes, first, state.periods),
        steps=state.steps + 1,
    )


def turn_episodes(
    machinery: Machinery, key: Array, first: Bool[Array, "B"], state: SwitchState
) -> SwitchState:
    """Where a new episode begins: feeds the old one back, then draws an arm."""
    ended = first & (state.periods.steps > 0)

    def feed(stream: Int[Array, ""], meta: MetaState) -> MetaState:
        fed = machinery.meta.update(
            meta,
            state.choices[stream],
            state.returns[stream],
            state.periods.steps[stream],
        )
        return jax.tree.map(lambda new, old: jnp.where(ended[stream], new, old), fed, meta)

    meta = jax.lax.fori_loop(0, first.shape[0], feed, state.meta)
    sums, counts = tally(state, ended)
    offer = machinery.meta.offer(meta)
    keys = jax.random.split(key, first.shape[0])
    choices, arms = jax.vmap(metacontroller.draw, in_axes=(0, None))(keys, offer)

    def choose(new: Array, old: Array) -> Array:
        return jnp.where(first.reshape(-1, *[1] * (new.ndim - 1)), new, old)

    arms = jax.tree.map(choose, arms, state.controllers.arm)
    return state._replace(
        controllers=state.controllers._replace(arm=arms),
        choices=choose(choices, state.choices),
        returns=jnp.where(first, 0.0, state.returns),
        meta=meta,
        sums=sums,
        counts=counts,
    )


def tally(
    state: SwitchState, counted: Bool[Array, "B"]
) -> tuple[Float[Array, "S"], Float[Array, "S"]]:
    """Adds the episodes of the `counted` streams to the sums; NaN is not counted."""
    stats = jax.vmap(periods.summary)(state.periods)
    rates = jax.vmap(periods.entry_rate)(state.periods)
    lengths = state.periods.steps.astype(jnp.float32)
    values = jnp.stack(
        [stats.p, stats.median, stats.relative_median, rates, state.returns, lengths]
    )
    known = counted[None] & ~jnp.isnan(values)
    sums = state.sums + jnp.sum(jnp.where(known, values, 0.0), axis=1)
    return sums, state.counts + jnp.sum(known, axis=1, dtype=jnp.float32)


_begin = jax.jit(begin, static_argnums=(0, 2))
_advance = jax.jit(advance, static_argnums=0, donate_argnums=1)
_tally = jax.jit(tally)
_offer = jax.jit(lambda meta, state: meta.offer(state), static_argnums=0)


class Switch:
    """Decides, step by step and for many streams at once, whether to explore.

    Args:
      variant: a name of the paper's grammar, or a `Variant`.
      streams: how many environments run side by side.
      seed: of all random choices.
      arms: fixes what a bandit would choose. A mapping such as `{"exploit": 0.01}`, one
        number if the variant has one bandit, or one a bandit in the order of the name.
      signal: your own trigger signal in place of the paper's: a function of `Signals`, or
        a `Signal` with a memory. It must be high where exploring is due.
      bandit: makes a bandit from a number of arms; see `sidequest.switching.bandits`.
      rule: of homeostasis, "saturated" or "printed".
    """

    def __init__(
        self,
        variant: str | Variant,
        streams: int = 1,
        seed: int = 0,
        arms: Arms | None = None,
        *,
        signal: Callable[[Signals], Float[Array, ""]] | Signal | None = None,
        bandit: Callable[[int], Bandit] = proportional,
        rule: homeostasis.Rule = "saturated",
    ):
        if streams < 1:
            raise ValueError(f"streams is {streams}; a switch serves 1 or more")
        self.variant = parse(variant)
        self.streams = streams
        self._needed = () if signal is not None else self.variant.signals
        self._machinery = make_machinery(rule, signal, bandit)
        self._fixed = name_arms(self.variant, arms)
        menu = fix_arms(menu_of(self.variant), self._fixed)
        self._state = _begin(self._machinery, menu, streams, seed)

    def step(
        self,
        *,
        reward: ArrayLike = 0.0,
        discount: ArrayLike = DISCOUNT,
        value: ArrayLike | None = None,
        is_first: ArrayLike = False,
        action_mismatch: ArrayLike | None = None,
        value_variance: ArrayLike | None = None,
        novelty: ArrayLike = 0.0,
    ) -> Bool[np.ndarray, "B"]:
        """Tells what arrived at this step; returns who explores now: True for explore.

        Each argument is one number a stream, or one for all.

        Args:
          reward: what arrived with this observation. With the first observation of an
            episode that is the last reward of the episode before it (or 0).
          discount: your discount; 0 if the episode terminated.
          value: V(s) of this observation, the greatest Q-value.
          is_first: whether this is the first step of an episode.
          action_mismatch: needed by `informed:mismatch`; see `triggers.action_mismatch`.
          value_variance: needed by `informed:variance`; see `triggers.value_variance`.
          novelty: for a signal of your own.
        """
        given = {
            "reward": reward,
            "discount": discount,
            "value": value,
            "action_mismatch": action_mismatch,
            "value_variance": value_variance,
            "novelty": novelty,
        }
        for name in self._needed:
            if given[name] is None:
                raise ValueError(f"{self.variant} needs {name}: pass {name}=...")
        numbers = {name: self._row(name, data) for name, data in given.items()}
        first = self._row("is_first", is_first).astype(bool)
        modes, self._state = _advance(
            self._machinery, self._state, Signals(is_first=first, **numbers)
        )
        return np.array(modes)

    def _row(self, name: str, data: ArrayLike | None) -> Float[np.ndarray, "B"]:
        row = np.asarray(0.0 if data is None else data, np.float32)
        if row.shape not in ((), (self.streams,)):
            raise ValueError(
                f"{name} has the shape {row.shape}; expected one number, "
                f"or one for each of the {self.streams} streams"
            )
        if not np.isfinite(row).all():
            raise ValueError(f"{name} holds a number that is not finite: {row}")
        return np.broadcast_to(row, self.streams)

    def summary(self) -> dict[str, Any]:
        """Means over all episodes so far, those still open included, and the bandits."""
        sums, counts = _tally(self._state, self._state.periods.steps > 0)
        with np.errstate(invalid="ignore"):
            means = np.asarray(sums) / np.asarray(counts)
        return {
            **dict(zip(STATISTICS, map(float, means), strict=True)),
            "episodes": int(counts[STATISTICS.index("length")]),
            "bandits": self.probabilities(),
        }

    def probabilities(self) -> dict[str, dict[float, float]]:
        """Of each bandit's arms, by its name and the arm's number."""
        offer = _offer(self._machinery.meta, self._state.meta)
        rows = np.asarray(offer.probabilities).tolist()
        return {
            name: dict(zip(arms, rows[DIMENSIONS.index(name)], strict=False))
            for name, arms in self.variant.bandits().items()
            if name not in self._fixed
        }

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on later: names and NumPy arrays."""
        leaves = jax.tree_util.tree_leaves_with_path(self._state)
        arrays = {jax.tree_util.keystr(path): np.array(leaf) for path, leaf in leaves}
        return {"variant": str(self.variant), **arrays}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Goes on from `state_dict()` of a switch of the same variant and streams."""
        if saved.get("variant") != str(self.variant):
            raise ValueError(
                f"the saved state is of {saved.get('variant')}, this is {self.variant}"
            )
        leaves, structure = jax.tree_util.tree_flatten_with_path(self._state)
        restored = []
        for path, leaf in leaves:
            name = jax.tree_util.keystr(path)
            data = np.asarray(saved[name]) if name in saved else None
            if data is None or data.shape != leaf.shape or data.dtype != leaf.dtype:
                found = "missing" if data is None else f"{data.dtype}{data.shape}"
                raise ValueError(
                    f"saved state: {name} is {found}, expected {leaf.dtype}{leaf.shape}"
                )
            if name.startswith(".meta.menu") and not np.array_equal(data, leaf):
                raise ValueError(
                    f"the saved state has other arms: {name} is {data.tolist()}"
                )
            restored.append(jnp.asarray(data))
        self._state = jax.tree_util.tree_unflatten(structure, restored)


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

"""`Switch`: when to explore, for an agent of your own, in NumPy, PyTorch or anything.

switch = Switch("XU-intra(10,informed,p*,X)", streams=8)
while True:
    modes = switch.step(reward=r, discount=d, value=q.max(-1), is_first=first)
    action = np.where(modes, explore_action, greedy_action)
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from numpy.typing import ArrayLike

from sidequest.switching import homeostasis
from sidequest.switching.bandits import Bandit, proportional
from sidequest.switching.metacontroller import (
    DIMENSIONS,
    Arms,
    fix_arms,
    menu_of,
    name_arms,
)
from sidequest.switching.streams import STATISTICS, advance, begin, make_machinery, tally
from sidequest.switching.triggers import Signal
from sidequest.switching.variants import Variant, parse
from sidequest.types import Signals

DISCOUNT = 0.997  # the paper's

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

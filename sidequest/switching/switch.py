"""`Switch`: when to explore, for an agent of your own, in NumPy, PyTorch or anything.

switch = Switch("XU-intra(10,informed,p*,X)", streams=8)
while True:
    modes = switch.step(reward=r, discount=d, value=q.max(-1), is_first=first)
    action = np.where(modes, explore_action, greedy_action)

`Switch` is a shell over two pure functions, `init` and `advance`, which join controllers,
bandits and statistics for a batch of environments; inside `jit`, `vmap` or `scan` use them.
"""

import functools
from collections.abc import Callable, Mapping
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
    Arms,
    Episodes,
    MetaController,
    MetaState,
    VariantArrays,
    fix_arms,
    make_metacontroller,
    name_arms,
    variant_arrays,
)
from sidequest.switching.triggers import SIGNALS, Signal, stateless
from sidequest.switching.variants import Variant, parse
from sidequest.types import Signals

DISCOUNT = 0.997  # the paper's
_STATISTICS = ("p_X", "med_X", "rmed_X", "realised_rate", "return", "length")

_SignalFunction: TypeAlias = Callable[[Signals], Float[Array, ""]] | Signal


class Functions(NamedTuple):
    """The functions that a switch is made of: they determine the compiled program."""

    controller: Controller
    meta: MetaController


@functools.lru_cache
def make_functions(
    rule: homeostasis.Rule = "saturated",
    signal: _SignalFunction | None = None,
    bandit: Callable[[int], Bandit] = proportional,
) -> Functions:
    """Returns the functions of a switch; cached, so that switches share one program."""
    signals = dict(SIGNALS)
    if signal is not None:
        own = signal if isinstance(signal, Signal) else stateless(signal)
        signals = dict.fromkeys(signals, own)
    return Functions(make_controller(signals, rule), make_metacontroller(bandit))


class SwitchState(NamedTuple):
    """Arrays with an axis [B] for environments, and arrays of all environments together."""

    controllers: ControllerState
    choices: Int[Array, "B D"]
    returns: Float[Array, "B"]
    periods: periods.PeriodsState
    meta: MetaState
    key: Array
    steps: Int[Array, ""]
    sums: Float[Array, "S"]
    """Of `_STATISTICS`, over the finished episodes that had them."""
    counts: Float[Array, "S"]


def init(
    functions: Functions, variant: VariantArrays, size: int, seed: int | Int[Array, ""]
) -> SwitchState:
    """Returns the state of `size` environments before their first step."""
    meta = functions.meta.init(variant)
    key, init_key = jax.random.split(jax.random.key(seed))
    keys = jax.random.split(init_key, size)
    choices, arms = _draw_arms(functions, meta, keys)
    fresh = jax.tree.map(lambda leaf: jnp.stack([leaf] * size), periods.init())
    return SwitchState(
        controllers=jax.vmap(functions.controller.init)(keys, arms),
        choices=choices,
        returns=jnp.zeros(size),
        periods=fresh,
        meta=meta,
        key=jax.random.key_data(key),
        steps=jnp.zeros((), jnp.int32),
        sums=jnp.zeros(len(_STATISTICS)),
        counts=jnp.zeros(len(_STATISTICS)),
    )


def advance(
    functions: Functions, state: SwitchState, signals: Signals
) -> tuple[Bool[Array, "B"], SwitchState]:
    """Advances all environments by one step; each field of `signals` has the axis [B]."""
    size = signals.is_first.shape[0]
    key = jax.random.fold_in(jax.random.wrap_key_data(state.key), state.steps)
    draw_key, step_key = jax.random.split(key)
    # The first step of all is the first of an episode, whether marked or not.
    first = signals.is_first | (state.periods.steps == 0)
    # The reward that arrives with a first observation is the last of the episode before.
    state = state._replace(returns=state.returns + signals.reward)
    start = functools.partial(_start_episodes, functions, draw_key, first)
    state = jax.lax.cond(jnp.any(first), start, lambda same: same, state)
    modes, controllers = jax.vmap(functions.controller.step)(
        jax.random.split(step_key, size),
        signals._replace(is_first=first),
        state.controllers,
    )
    return modes, state._replace(
        controllers=controllers,
        periods=jax.vmap(periods.step)(modes, first, state.periods),
        steps=state.steps + 1,
    )


def _start_episodes(
    functions: Functions, key: Array, first: Bool[Array, "B"], state: SwitchState
) -> SwitchState:
    """Updates the bandits with the episodes that ended, and draws arms for new ones."""
    ended = first & (state.periods.steps > 0)
    episodes = Episodes(state.choices, state.returns, state.periods.steps)
    meta = functions.meta.update(state.meta, episodes, ended)
    sums, counts = _count_episodes(state, ended)
    choices, arms = _draw_arms(functions, meta, jax.random.split(key, first.shape[0]))

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


def _draw_arms(functions: Functions, meta: MetaState, keys: Array):
    probabilities = functions.meta.arm_probabilities(meta)
    return jax.vmap(metacontroller.draw, in_axes=(0, None))(keys, probabilities)


def _count_episodes(
    state: SwitchState, counted: Bool[Array, "B"]
) -> tuple[Float[Array, "S"], Float[Array, "S"]]:
    """Adds the `counted` environments' episodes to the sums; NaN is not counted."""
    stats = jax.vmap(periods.summary)(state.periods)
    rates = jax.vmap(periods.entry_rate)(state.periods)
    lengths = state.periods.steps.astype(jnp.float32)
    values = jnp.stack(
        [stats.p, stats.median, stats.relative_median, rates, state.returns, lengths]
    )
    known = counted[None] & ~jnp.isnan(values)
    sums = state.sums + jnp.sum(jnp.where(known, values, 0.0), axis=1)
    return sums, state.counts + jnp.sum(known, axis=1, dtype=jnp.float32)


_compiled_init = jax.jit(init, static_argnums=(0, 2))
_compiled_advance = jax.jit(advance, static_argnums=0, donate_argnums=1)
_compiled_count = jax.jit(_count_episodes)
_compiled_probabilities = jax.jit(
    lambda meta, state: meta.arm_probabilities(state).probabilities, static_argnums=0
)


class Switch:
    """Decides, step by step and for many environments at once, whether to explore.

    Args:
      variant: a name of the paper's grammar, or a `Variant`.
      streams: the number of environments.
      seed: of all random choices.
      arms: fixes what a bandit would choose. A mapping such as `{"exploit": 0.01}`, one
        number if the variant has one bandit, or one a bandit in the order of the name.
      signal: your own trigger signal in place of the paper's: a function of `Signals`, or
        a `Signal` with a state. It must be high where exploring is due.
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
        signal: _SignalFunction | None = None,
        bandit: Callable[[int], Bandit] = proportional,
        rule: homeostasis.Rule = "saturated",
    ):
        if streams < 1:
            raise ValueError(f"streams is {streams}; a switch serves 1 or more")
        self.variant = parse(variant)
        self.streams = streams
        self._needed = () if signal is not None else self.variant.signals
        self._functions = make_functions(rule, signal, bandit)
        self._fixed = name_arms(self.variant, arms)
        arrays = fix_arms(variant_arrays(self.variant), self._fixed)
        self._state = _compiled_init(self._functions, arrays, streams, seed)

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
        """Advances every environment by one step and returns which of them explore.

        Each argument is one number an environment, or one for all.

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
        modes, self._state = _compiled_advance(
            self._functions, self._state, Signals(is_first=first, **numbers)
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
        """Returns means over all episodes so far, open ones included, and the bandits."""
        sums, counts = _compiled_count(self._state, self._state.periods.steps > 0)
        with np.errstate(invalid="ignore"):
            means = np.asarray(sums) / np.asarray(counts)
        return {
            **dict(zip(_STATISTICS, map(float, means), strict=True)),
            "episodes": int(counts[_STATISTICS.index("length")]),
            "bandits": self.probabilities(),
        }

    def probabilities(self) -> dict[str, dict[float, float]]:
        """Returns the probability of each bandit's arms, by bandit and arm."""
        rows = _compiled_probabilities(self._functions.meta, self._state.meta)
        rows = np.asarray(rows).tolist()
        return {
            name: dict(zip(arms, rows[DIMENSIONS.index(name)], strict=False))
            for name, arms in self.variant.bandits().items()
            if name not in self._fixed
        }

    def state_dict(self) -> dict[str, Any]:
        """Returns everything needed to resume later: names and NumPy arrays."""
        leaves = jax.tree_util.tree_leaves_with_path(self._state)
        arrays = {jax.tree_util.keystr(path): np.array(leaf) for path, leaf in leaves}
        return {"variant": str(self.variant), **arrays}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Resumes from the `state_dict()` of a switch of the same variant and size."""
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
            if name.startswith(".meta.variant") and not np.array_equal(data, leaf):
                raise ValueError(
                    f"the saved state has other arms: {name} is {data.tolist()}"
                )
            restored.append(jnp.asarray(data))
        self._state = jax.tree_util.tree_unflatten(structure, restored)

"""Many streams at once, as pure functions: controllers, bandits and statistics together.

`begin` makes the state, `advance` takes one step of all streams. `Switch` is a shell over
these two; inside `jit`, `vmap` or `scan` use them as they are.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from sidequest.switching import homeostasis, metacontroller, periods
from sidequest.switching.bandits import Bandit, proportional
from sidequest.switching.controllers import Controller, ControllerState, make_controller
from sidequest.switching.metacontroller import (
    Episodes,
    Menu,
    MetaController,
    MetaState,
    make_metacontroller,
)
from sidequest.switching.triggers import SIGNALS, Signal, stateless
from sidequest.types import Signals

STATISTICS = ("p_X", "med_X", "rmed_X", "realised_rate", "return", "length")


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
    key, begin_key = jax.random.split(jax.random.key(seed))
    keys = jax.random.split(begin_key, streams)
    choices, arms = jax.vmap(metacontroller.draw, in_axes=(0, None))(keys, offer)
    fresh = jax.tree.map(lambda leaf: jnp.stack([leaf] * streams), periods.init())
    return SwitchState(
        controllers=jax.vmap(machinery.controller.init)(keys, arms),
        choices=choices,
        returns=jnp.zeros(streams),
        periods=fresh,
        meta=meta,
        key=jax.random.key_data(key),
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

    episodes = Episodes(state.choices, state.returns, state.periods.steps)
    meta = machinery.meta.update(state.meta, episodes, ended)
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

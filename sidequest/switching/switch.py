"""All of switching for a batch of environments, as two pure functions.

`init` and `step` of `make_switch` join controllers, bandits and statistics. They run on
NumPy arrays and, with the same decisions, inside JAX's `jit`, `vmap` and `scan`. `Switch`
(shell.py) is the same with the state inside.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from sidequest.switching import homeostasis, metacontroller, periods
from sidequest.switching.arrays import (
    ZERO,
    choose,
    columns,
    fill,
    may_hold,
    namespace,
    repeat,
    tree_map,
    update_if_any,
)
from sidequest.switching.bandits import Bandit, proportional
from sidequest.switching.controllers import Controller, ControllerState, make_controller
from sidequest.switching.metacontroller import (
    DIMENSIONS,
    ArmProbabilities,
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
from sidequest.types import AnyArray, Mode, Signals

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

DISCOUNT = 0.997  # the paper's
UNIFORMS = 1 + len(DIMENSIONS)
"""Uniform random numbers that a step of one environment takes: for its mode and its arm."""
STATISTICS = ("p_X", "med_X", "rmed_X", "realised_rate", "return", "length")
_LARGEST = float(np.finfo(np.float32).max)
_PLAIN = {np.ndarray}  # types of what `_step` need not convert
_SHARED = 4  # a bandit's update waits for a quarter of the environments

SignalFunction: TypeAlias = Callable[[Signals], Any] | Signal


class Finished(NamedTuple):
    """Holds what statistics and bandits need of an episode."""

    choices: Int[AnyArray, "D B"]
    returns: Float[AnyArray, "B"]
    periods: periods.PeriodsState


class SwitchState(NamedTuple):
    """Arrays whose last axis is the environments', and arrays of all of them together."""

    controllers: ControllerState
    choices: Int[AnyArray, "D B"]
    returns: Float[AnyArray, "B"]
    periods: periods.PeriodsState
    begins: Bool[AnyArray, "B"]
    """Whether the next step is the first of an episode, marked or not."""
    meta: MetaState
    arms: ArmProbabilities
    finished: Finished
    """The last episode of each environment."""
    waiting: Bool[AnyArray, "B"]
    """Whether statistics and bandits have yet to be updated with it."""
    sums: Float[AnyArray, "S"]
    """Of `STATISTICS`, over the finished episodes that had them."""
    counts: Int[AnyArray, "S"]


class SwitchFunctions(NamedTuple):
    """Pure functions, for NumPy and for JAX's `jit`, `vmap` and `scan`."""

    init: Callable[[int], SwitchState]
    """(streams) -> the state of that many environments before their first step."""
    step: Callable[..., tuple[Mode, SwitchState]]
    """(state, uniforms, signals, is_last=None) -> (modes, state).

    `uniforms` are random numbers [UNIFORMS, B] in [0, 1); each field of `signals` has the
    axis [B]. `is_last` marks environments whose episode is over, see `Switch.step`.
    """


def make_switch(
    variant: str | Variant,
    arms: Arms | None = None,
    *,
    signal: SignalFunction | None = None,
    bandit: Callable[[int], Bandit] = proportional,
    rule: homeostasis.Rule = "saturated",
) -> SwitchFunctions:
    """Returns the functions that a `Switch` of these arguments is made of."""
    variant = parse(variant)
    if signal is not None and not variant.informed:
        raise ValueError(f"{variant} reads no signal; signal= is for informed ones")
    if not (signal is None or callable(signal) or isinstance(signal, Signal)):
        raise ValueError(f"signal is {signal!r}; it is a function, or a `Signal`")
    if not callable(bandit):
        raise ValueError(
            f"bandit is {bandit!r:.60}; it is a function that makes one from a number of "
            "arms, such as sidequest.switching.bandits.ucb"
        )
    fixed = name_arms(variant, arms)
    arrays = fix_arms(variant_arrays(variant), fixed)
    sources, rates = {}, 1
    if variant.informed:
        own = SIGNALS[str(variant.trigger)] if signal is None else _own_signal(signal)
        sources[str(variant.trigger)] = own
        rates = int(arrays.in_use[DIMENSIONS.index("exploit")])
    controller = make_controller(sources, rule, rates)
    adapted = [name for name in variant.bandits() if name not in fixed]
    meta = make_metacontroller(bandit, dimensions=adapted)
    adapts = bool(adapted) or bool(arrays.share.any())
    needed = variant.signals if signal is None else ()
    return _join(_Parts(controller, meta, arrays, adapts, needed))


class _Parts(NamedTuple):
    """Holds what a variant's functions are made of."""

    controller: Controller
    meta: MetaController
    arrays: VariantArrays
    """The variant; only `_init` reads it, so what the others compile serves all."""
    adapts: bool
    """Whether arms are drawn for each episode; otherwise all have the same one."""
    needed: tuple[str, ...] = ()
    """Fields of `Signals` that the trigger reads."""


def _join(parts: _Parts) -> SwitchFunctions:
    """Returns the functions below, made for these parts."""
    return SwitchFunctions(partial(_init, parts), partial(_step, parts))


def _init(parts: _Parts, streams: int) -> SwitchState:
    meta = parts.meta.init(parts.arrays)
    probabilities = parts.meta.arm_probabilities(meta)
    uniforms = np.zeros((len(DIMENSIONS), streams), np.float32)
    choices, arm = metacontroller.draw(uniforms, probabilities)
    returns, one = np.zeros(streams, np.float32), periods.init()
    rest = repeat(tuple(parts.controller.init(arm)[1:]), streams)
    return SwitchState(
        controllers=ControllerState(arm, *rest),
        choices=choices,
        returns=returns,
        periods=repeat(one, streams),
        begins=np.ones(streams, bool),
        meta=meta,
        arms=probabilities,
        finished=Finished(choices, returns, repeat(one, streams)),
        waiting=np.zeros(streams, bool),
        sums=np.zeros(len(STATISTICS), np.float32),
        counts=np.zeros(len(STATISTICS), np.int32),
    )


def _step(
    parts: _Parts,
    state: SwitchState,
    uniforms: Float[AnyArray, "4 B"],
    signals: Signals,
    is_last: Bool[AnyArray, "B"] | None = None,
) -> tuple[Mode, SwitchState]:
    if uniforms.shape != (expected := (UNIFORMS, len(state.begins))):
        # A single row would pass for many variants: one coin for all environments.
        raise ValueError(f"uniforms has the shape {uniforms.shape}, not {expected}")
    xp: Any = np
    if {type(state.begins), type(uniforms), *map(type, signals)} != _PLAIN:
        xp, uniforms, signals = _as_arrays(parts, state, uniforms, signals)
    first, begins = signals.is_first.astype(bool, copy=False), state.begins
    if may_hold(begins):  # also where the caller does not mark it
        first = first | begins
    last = None if is_last is None else xp.asarray(is_last, bool)
    if last is not None:
        first = first & ~last
    if first is not signals.is_first:
        signals = signals._replace(is_first=first)
    # The reward that arrives with a first observation belongs to the episode before.
    returns = state.returns + signals.reward
    if may_hold(first):
        start = partial(_start_episodes, parts, uniforms[1:], first, returns)
        state = update_if_any(first, start, state)
        returns = xp.where(first, ZERO, returns)
        begins = begins & ~first
    before = state.controllers
    modes, controllers = parts.controller.step(uniforms[0], signals, before)
    if last is None:
        counted = periods.step(modes, first, state.periods)
    else:  # what waits keeps its mode, and nothing of it changes
        begins, plays = last, ~last
        modes = xp.where(last, before.mode, modes)
        controllers = choose(plays, controllers, before)
        counted = periods.step(modes, first, state.periods)
        counted = choose(plays, counted, state.periods)
    return modes, state._replace(
        controllers=controllers, returns=returns, periods=counted, begins=begins
    )


def _as_arrays(
    parts: _Parts, state: SwitchState, uniforms: Any, signals: Signals
) -> tuple[Any, Any, Signals]:
    """Returns a library and the numbers as its arrays; signals that were not given are 0 if
    the trigger does not read them."""
    for name in parts.needed:
        if getattr(signals, name) is None:
            raise ValueError(f"the trigger needs {name}: pass Signals({name}=...)")
    signals = Signals(*[ZERO if row is None else row for row in signals])
    xp = namespace(state.begins, uniforms, *signals)
    rows = _as_rows(xp, signals, len(state.begins))
    return xp, xp.asarray(uniforms, np.float32), rows


def _as_rows(xp: Any, signals: Signals, environments: int) -> Signals:
    """Returns the signals as rows [B] of booleans and float32, the types of the state."""
    first, *numbers = signals
    zeros = xp.zeros(environments, np.float32)
    rows = [
        zeros if number is ZERO else zeros + xp.asarray(number, np.float32)
        for number in numbers
    ]
    return Signals(xp.asarray(first, bool), *rows)


def _start_episodes(
    parts: _Parts,
    uniforms: Float[AnyArray, "D B"],
    first: Bool[AnyArray, "B"],
    returns: Float[AnyArray, "B"],
    state: SwitchState,
) -> SwitchState:
    """Keeps the episodes that ended, and draws arms for those that start."""
    count = partial(_count_finished, parts)
    ended = first & (state.periods.steps > 0)
    state = update_if_any(ended & state.waiting, count, state)
    episodes = Finished(state.choices, returns, state.periods)
    waiting = state.waiting | ended
    state = state._replace(
        finished=fill(ended, columns(ended, episodes)[1], state.finished),
        waiting=waiting,
    )
    if not parts.adapts:
        return state
    # Counting takes as long as some steps, so with many environments several episodes
    # share it.
    due = waiting & (waiting.sum() * _SHARED >= len(first))
    state = update_if_any(due, count, state)
    drawn = metacontroller.draw(columns(first, uniforms)[1], state.arms)
    choices, arm = fill(first, drawn, (state.choices, state.controllers.arm))
    return state._replace(controllers=state.controllers._replace(arm=arm), choices=choices)


def _count_finished(parts: _Parts, state: SwitchState) -> SwitchState:
    """Updates statistics and bandits with the episodes that wait."""
    waiting, finished = state.waiting, state.finished
    sums, counts = count_episodes(state.sums, state.counts, finished, waiting)
    state = state._replace(sums=sums, counts=counts, waiting=waiting & False)
    if not parts.adapts:
        return state
    lengths = finished.periods.steps
    episodes = Episodes(finished.choices.T, finished.returns, lengths)
    meta = parts.meta.update(state.meta, episodes, waiting)
    return state._replace(meta=meta, arms=parts.meta.arm_probabilities(meta))


def _own_signal(signal: SignalFunction) -> Signal:
    """Returns the user's signal; it may compute with any array library."""
    source = signal if isinstance(signal, Signal) else stateless(signal)

    def init() -> Any:
        memory = source.init()
        tree_map(_refuse_objects, memory)
        return memory

    def step(signals: Signals, memory: Any) -> tuple[Any, Any, Any]:
        xp, shape = namespace(signals.is_first), signals.is_first.shape
        x, ready, new = source.step(_as_rows(xp, signals, *shape), memory)
        if x is None or np.shape(x) not in ((), shape):
            given = "None" if x is None else f"the shape {np.shape(x)}"
            raise ValueError(
                f"signal returned {given}; it returns a number for each environment"
            )
        x = xp.asarray(x, np.float32)
        if not x.ndim:
            x = xp.broadcast_to(x, shape)
        return x, xp.asarray(ready, bool), _keep_shapes(xp, memory, new)

    return Signal(init, step)


def _refuse_objects(memory: Any) -> None:
    if np.asarray(memory).dtype.hasobject:
        raise ValueError(
            f"signal remembers {memory!r}; its init returns an array or tuples of arrays"
        )


def _keep_shapes(xp: Any, memory: Any, new: Any) -> Any:
    """Returns the new memory in the structure of the last one, which saving relies on."""

    def keep(old: Any, new: Any) -> Any:
        new = xp.asarray(new)
        if new.shape != old.shape:
            raise ValueError(f"{new.shape} instead of {old.shape}")
        return new.astype(xp.result_type(new, old))  # NumPy keeps what an environment had

    try:
        return tree_map(keep, memory, new)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"signal returned a memory of another shape than init's: {error}"
        ) from None


def count_episodes(
    sums: Float[AnyArray, "S"],
    counts: Int[AnyArray, "S"],
    episodes: Finished,
    counted: Bool[AnyArray, "B"],
) -> tuple[Float[AnyArray, "S"], Int[AnyArray, "S"]]:
    """Adds the `counted` episodes; numbers that are not finite are left out."""
    xp = namespace(counted)
    counted, (_, returns, modes) = columns(counted, episodes)
    stats, rates = periods.summary(modes), periods.entry_rate(modes)
    values = xp.stack([*stats[:3], rates, returns, modes.steps.astype(np.float32)])
    known = counted & xp.isfinite(values)
    sums = sums + xp.where(known, values, ZERO).sum(1)
    counts = (counts + known.sum(1)).astype(np.int32)
    return xp.clip(sums, -_LARGEST, _LARGEST), counts

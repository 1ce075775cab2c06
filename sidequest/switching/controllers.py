"""The controller: signals in, the mode of each step out (section 2).

Every granularity of the paper is the same function with other numbers. An episode starts
in explore mode with some probability, and each mode has an *ending*: what ends a period
of it, and at which number of steps, probability or target rate.

                        start     exploit period ends     explore period ends
    experiment-level-X    1         never                   never
    experiment-level-G    0         never                   never
    episode-level-0.3     0.3       never                   never
    step-level-0.01       0.01      coin 0.01               coin 0.99
    intra(10,blind,100,G) 0         counter 100             counter 10
    intra(10,blind,0.01,X) 1        coin 0.01               counter 10
    intra(=,informed,p,G) 0         informed p              informed p

All of it is arrays in the state, so one compiled function serves every variant and
every arm, and a population of variants is one `vmap`.

Timing: the mode of step t is decided from what is known at t, before a_t is taken, and
a period of n steps is n actions:

    intra(2,blind,3,G)    t     0 1 2 3 4 5 6 7 8 9 | 0 1 2
                          mode  G G G X X G G G X X | G G G     (a new episode)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sidequest.switching import homeostasis
from sidequest.switching.arrays import (
    FALSE,
    NAN,
    ONE_STEP,
    ZERO,
    branch,
    choose,
    may_hold,
    namespace,
    overwrite,
    surely_all,
)
from sidequest.switching.triggers import SIGNALS, Signal
from sidequest.switching.variants import PAPER_ARMS
from sidequest.types import AnyArray, Mode, Signals

if TYPE_CHECKING:
    from jaxtyping import Float, Int


class Ending(NamedTuple):
    """Holds what ends a period of one mode."""

    kind: Int[AnyArray, ""]
    """NEVER, COUNTER, COIN or INFORMED; the same in all episodes."""
    amount: Float[AnyArray, "*B"]
    """Steps for a counter, a probability for a coin, a target rate for informed."""


class Arm(NamedTuple):
    """The settings of one episode, as numbers."""

    start: Float[AnyArray, "*B"]
    """Probability that the episode starts in explore mode."""
    exploit: Ending
    explore: Ending
    signal: Int[AnyArray, ""]
    """Index of the signal that an informed ending reads."""
    place: Int[AnyArray, "*B"]
    """Which of the target rates it has."""


class ControllerState(NamedTuple):
    arm: Arm
    mode: Mode
    elapsed: Int[AnyArray, "*B"]
    """Actions taken so far in the present period."""
    memories: tuple[Any, ...]
    """The state of each signal."""
    homeostat: homeostasis.HomeostasisState
    signal: Float[AnyArray, "*B"]
    """The trigger's signal at the last step; NaN if it had none."""
    probability: Float[AnyArray, "*B"]
    """The probability of a switch that the last step used."""


class Controller(NamedTuple):
    """Pure functions of one environment or of a batch."""

    init: Callable[[Arm], ControllerState]
    step: Callable[
        [Float[AnyArray, "*B"], Signals, ControllerState], tuple[Mode, ControllerState]
    ]
    """(uniform random number, signals, state) -> (mode, state)."""


def make_controller(
    signals: Mapping[str, Signal] = SIGNALS,
    rule: homeostasis.Rule = "saturated",
    rates: int = PAPER_ARMS.width,
) -> Controller:
    """Returns a controller that reads `signals`; `Arm.signal` is an index into them.

    Episodes have one of `rates` target rates, each with a scale of its own in homeostasis.
    Without signals it serves blind variants, and costs half as much.
    """
    homeostasis.find_rule(rule)
    sources = tuple(signals.values())

    def init(arm: Arm) -> ControllerState:
        return ControllerState(
            arm=arm,
            mode=np.zeros((), bool),
            elapsed=np.zeros((), np.int32),
            memories=tuple(source.init() for source in sources),
            homeostat=homeostasis.init(rates),
            signal=np.array(np.nan, np.float32),
            probability=np.zeros((), np.float32),
        )

    def step(
        uniform: Float[AnyArray, "*B"], signals: Signals, state: ControllerState
    ) -> tuple[Mode, ControllerState]:
        # One uniform number serves the coin, the homeostat and the starting mode:
        # a step needs only one of them.
        first, arm, before = signals.is_first, state.arm, state.mode
        xp = namespace(uniform, first, before)
        elapsed, starts = state.elapsed.astype(np.float32), may_hold(first)
        exploit = branch(arm.exploit.kind, _ENDINGS, arm.exploit.amount, elapsed, ~before)
        explore = branch(arm.explore.kind, _ENDINGS, arm.explore.amount, elapsed, before)
        probability = exploit[0] + explore[0]
        if sources:
            x, ready, memories = _read(sources, signals, state)
            informed = ready & (exploit[1] | explore[1])
            # A signal that is not finite is ignored: it would spoil the averages for good.
            if not surely_all(abs(x) < homeostasis.HUGE):
                informed, x = informed & xp.isfinite(x), homeostasis.bounded(x)
            homeostat = state.homeostat
            if starts:
                informed = informed & ~first
                homeostat = homeostasis.turn_to(arm.place, homeostat)
            # The averages outlive the episode, and include only steps with a decision.
            # Explore periods have no target rate, or that of exploit periods.
            rate = arm.exploit.amount
            observed = homeostasis.observe(x, rate, homeostat, rule)
            homeostat, signal = choose(informed, (observed, x.copy()), (homeostat, NAN))
            probability = overwrite(probability, informed, homeostat.probability)
        else:
            memories, homeostat, signal = state.memories, state.homeostat, state.signal
        elapsed = state.elapsed + ONE_STEP
        if starts:
            probability = xp.where(first, arm.start, probability)
            before, elapsed = before & ~first, xp.where(first, ONE_STEP, elapsed)
        drawn = uniform < probability
        mode, elapsed = drawn ^ before, overwrite(elapsed, drawn, ONE_STEP)
        return mode, ControllerState(
            arm, mode, elapsed, memories, homeostat, signal, probability
        )

    return Controller(init, step)


def _counter(amount: Any, elapsed: Any, marks: Any) -> tuple[Any, Any]:
    return ((elapsed >= amount) & marks).astype(np.float32), FALSE


_ENDINGS = (
    lambda amount, elapsed, marks: (amount * ZERO, FALSE),  # never
    _counter,
    lambda amount, elapsed, marks: (amount * marks, FALSE),  # a coin
    lambda amount, elapsed, marks: (ZERO, marks),  # informed
)
"""By the kind of an ending: (its amount, steps of the period, marks of the mode) ->
(probability that the period ends, if that is blind; where homeostasis is to be asked)."""


def _read(
    sources: tuple[Signal, ...], signals: Signals, state: ControllerState
) -> tuple[Float[AnyArray, "*B"], Any, tuple[Any, ...]]:
    """Steps every signal and returns the value of the arm's own."""
    x, ready, memory = sources[0].step(signals, state.memories[0])
    memories = [memory]
    for index in range(1, len(sources)):
        other, other_ready, memory = sources[index].step(signals, state.memories[index])
        memories.append(memory)
        xp, chosen = namespace(signals.is_first, state.mode), state.arm.signal == index
        x = xp.where(chosen, other, x)
        ready = xp.where(chosen, other_ready, ready)
    return x, ready, tuple(memories)

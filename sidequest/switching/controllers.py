"""The controller: one environment's signals in, the mode of each step out (section 2).

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

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from sidequest.switching import homeostasis
from sidequest.switching.triggers import COIN, COUNTER, INFORMED, SIGNALS, Signal
from sidequest.types import Key, Mode, Signals


class Ending(NamedTuple):
    """What ends a period of one mode."""

    kind: Int[Array, ""]
    """NEVER, COUNTER, COIN or INFORMED."""
    amount: Float[Array, ""]
    """Steps for a counter, a probability for a coin, a target rate for informed."""


class Arm(NamedTuple):
    """The settings of one episode, as numbers."""

    start: Float[Array, ""]
    """Probability that the episode starts in explore mode."""
    exploit: Ending
    explore: Ending
    signal: Int[Array, ""]
    """Index of the signal that an informed ending reads."""


class ControllerState(NamedTuple):
    arm: Arm
    mode: Mode
    elapsed: Int[Array, ""]
    """Actions taken so far in the present period."""
    memories: tuple[Any, ...]
    """The state of each signal."""
    homeostat: homeostasis.HomeostasisState
    signal: Float[Array, ""]
    """The trigger's signal at the last step; NaN if it had none."""
    probability: Float[Array, ""]
    """The probability of a switch that the last step used."""


class Controller(NamedTuple):
    """Pure functions of one environment; `vmap` makes the batch."""

    init: Callable[[Key, Arm], ControllerState]
    step: Callable[[Key, Signals, ControllerState], tuple[Mode, ControllerState]]


def make_controller(
    signals: Mapping[str, Signal] = SIGNALS, rule: homeostasis.Rule = "saturated"
) -> Controller:
    """Returns a controller that reads `signals`; `Arm.signal` is an index into them."""
    sources = tuple(signals.values())

    def init(key: Key, arm: Arm) -> ControllerState:
        del key
        return ControllerState(
            arm=arm,
            mode=jnp.bool_(False),
            elapsed=jnp.zeros((), jnp.int32),
            memories=tuple(source.init() for source in sources),
            homeostat=homeostasis.init(),
            signal=jnp.float32(jnp.nan),
            probability=jnp.zeros(()),
        )

    def step(
        key: Key, signals: Signals, state: ControllerState
    ) -> tuple[Mode, ControllerState]:
        # One uniform number serves the coin, the homeostat and the starting mode:
        # a step needs only one of them.
        uniform = jax.random.uniform(key)
        ending = _current_ending(state)
        x, ready, memories = _read(sources, signals, state)
        informed = (ending.kind == INFORMED) & ready & ~signals.is_first
        # A signal that is not finite is ignored: it would spoil the averages for good.
        informed &= jnp.isfinite(x)
        # The averages outlive the episode, and include only steps with a decision.
        rate = jnp.where(informed, ending.amount, 1.0)
        observed = homeostasis.observe(x, rate, state.homeostat, rule)
        homeostat = jax.tree.map(
            lambda new, old: jnp.where(informed, new, old), observed, state.homeostat
        )
        probability = jnp.select(
            [ending.kind == COUNTER, ending.kind == COIN, informed],
            [
                (state.elapsed >= ending.amount).astype(jnp.float32),
                ending.amount,
                homeostat.probability,
            ],
            0.0,
        )
        probability = jnp.where(signals.is_first, state.arm.start, probability)
        drawn = uniform < probability
        mode = jnp.where(signals.is_first, drawn, state.mode ^ drawn)
        restarts = signals.is_first | drawn
        return mode, ControllerState(
            arm=state.arm,
            mode=mode,
            elapsed=jnp.where(restarts, 1, state.elapsed + 1),
            memories=memories,
            homeostat=homeostat,
            signal=jnp.where(informed, x, jnp.nan),
            probability=probability,
        )

    return Controller(init, step)


def _current_ending(state: ControllerState) -> Ending:
    """Returns what may end the present period."""
    return jax.tree.map(
        lambda explore, exploit: jnp.where(state.mode, explore, exploit),
        state.arm.explore,
        state.arm.exploit,
    )


def _read(
    sources: tuple[Signal, ...], signals: Signals, state: ControllerState
) -> tuple[Float[Array, ""], Bool[Array, ""], tuple[Any, ...]]:
    """Steps every signal and returns the value of the arm's own."""
    rows = [
        source.step(signals, memory)
        for source, memory in zip(sources, state.memories, strict=True)
    ]
    values, readiness, memories = zip(*rows, strict=True)
    chosen = [state.arm.signal == index for index in range(len(rows))]
    x = jnp.select(chosen, values, 0.0)
    return x, jnp.select(chosen, readiness, False), memories

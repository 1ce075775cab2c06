"""Homeostasis: a scalar signal in, switches at a target rate out (appendix A, Algorithm 1).

The signal's scale may be anything and may drift; the rate of switching stays at the
target. With time-scale tau = min(t, 100 / rate), at each step t

    mean      <-  (1 - 1/tau) mean     + 1/tau x
    variance  <-  (1 - 1/tau) variance + 1/tau (x - mean)^2
    z          =  (x - mean) / sqrt(variance),   x+ = exp(z)
    scale     <-  (1 - 1/tau) scale    + 1/tau x+
    switch     ~  Bernoulli(min(1, rate x+ / scale))

Two rules:

`printed` is that algorithm. Heavy tails break it: |z| can reach sqrt(tau), so one spike
adds up to exp(sqrt(tau)) / tau to the scale and silences the trigger for a long time.

`saturated` (default) fixes that in two steps. It caps x+ at the value for which the
probability is 1 already: more carries no information. And since averages lag behind a
signal that drifts, and start empty, a slow gain makes good what they owe:

    switch     ~  Bernoulli(p),   p = min(1, rate gain x+ / scale)
    log(gain) <-  log(gain) + (rate - p) / 10

so that sum(p) = T rate - 10 log(gain_T), whatever the signal does. Where nothing
saturates or drifts the gain stays near 1 and this is the printed rule.

Both keep log(scale) instead of scale, so that nothing overflows: exp(316) is an ordinary
value of x+ at rate 0.001. A signal that does not vary has z = 0 and switches at the rate.

A bandit may give each episode another rate. The mean and the variance are the signal's own
and serve all rates. Scale and gain also depend on where x+ is capped, and so on the rate:
there is one of each for every rate. With shared ones, rates of 0.1 and 0.0001 alternately
came out at 0.8 and 36 times their targets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from sidequest.switching.arrays import (
    ONE,
    ONE_STEP,
    ZERO,
    locate,
    namespace,
    put,
    surely_all,
    take,
    tree_map,
)
from sidequest.types import AnyArray, Key

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

Rule = Literal["saturated", "printed"]

# tau = _HORIZON / rate: the averages span this many switches.
_HORIZON = np.array(100.0, np.float32)
# The gain responds within this many switches, well inside _HORIZON.
_GAIN_HORIZON = np.array(10.0, np.float32)
_FLAT = np.array(1e-12, np.float32)  # a variance below _FLAT * mean^2 is rounding
_LEAST_RATIO = np.array(1e-5, np.float32)  # of x+ / scale; `_saturated` needs it
# A signal beyond it counts as this: its square must fit in float32.
HUGE = np.array(1e18, np.float32)


class Scale(NamedTuple):
    """Holds what depends on the target rate."""

    count: Int[AnyArray, "*B"]
    """Signals so far."""
    log: Float[AnyArray, "*B"]
    """Log of the average of x+."""
    gain: Float[AnyArray, "*B"]
    """Correction of the saturated rule; the printed rule leaves it at 1."""


class HomeostasisState(NamedTuple):
    """Averages of one environment's signal, over all its episodes."""

    seen: Int[AnyArray, "*B"]
    """Signals so far."""
    mean: Float[AnyArray, "*B"]
    variance: Float[AnyArray, "*B"]
    scale: Scale
    """Scale of the signal at the present target rate."""
    probability: Float[AnyArray, "*B"]
    """Probability of a switch, from the last signal."""
    place: Int[AnyArray, "*B"]
    """Which of `scales` the present one is."""
    scales: Scale
    """Scales of all target rates [rates *B]; the present one's has to be stored again."""


def init(rates: int = 1) -> HomeostasisState:
    """Returns the state before the first signal, for this many target rates."""
    scale = Scale(np.zeros((), np.int32), np.zeros((), np.float32), np.ones((), np.float32))
    return HomeostasisState(
        seen=np.zeros((), np.int32),
        mean=np.zeros((), np.float32),
        variance=np.ones((), np.float32),
        scale=scale,
        probability=np.zeros((), np.float32),
        place=np.zeros((), np.int32),
        scales=Scale(*(np.repeat(number, rates) for number in scale)),
    )


def step(
    key: Key | Float[AnyArray, "*B"],
    signal: Float[AnyArray, "*B"],
    rate: Float[AnyArray, "*B"],
    state: HomeostasisState,
    rule: Rule = "saturated",
    place: int | Int[AnyArray, "*B"] = 0,
) -> tuple[Bool[AnyArray, "*B"], HomeostasisState]:
    """Takes in one signal and decides whether to switch at this step.

    `key` is a key of JAX, or the uniform random number itself. Signals and rates may be of
    several environments [B], also at the first step after `init`. A signal that is not
    finite is ignored: it would spoil the averages for good. So is one at a rate of 0, at
    which nothing switches. A rate above 1 counts as 1. If several rates take turns, begin
    with `init(rates)`, and say by `place` which of them this one is.
    """
    rates = len(state.scales.log)
    if isinstance(place, int) and not 0 <= place < rates:
        raise ValueError(f"place is {place}; the state was made by init({rates})")
    xp = namespace(signal, rate, state.mean)
    shape = np.broadcast_shapes(*map(np.shape, (signal, rate, state.mean)))
    signal, rate = (
        xp.broadcast_to(xp.asarray(number, np.float32), shape) for number in (signal, rate)
    )
    place = xp.broadcast_to(xp.asarray(place, np.int32), shape)
    if shape and not np.ndim(state.mean):
        state = tree_map(
            lambda leaf: xp.broadcast_to(leaf[..., None], (*leaf.shape, *shape)), state
        )
    known = xp.isfinite(signal) & (rate > 0)
    rate = xp.where(rate > 0, xp.minimum(rate, ONE), ONE)
    state = turn_to(place, state)
    seen = observe(bounded(xp.where(known, signal, ZERO)), rate, state, rule)
    ignored = state._replace(probability=ZERO)
    state = tree_map(lambda new, old: xp.where(known, new, old), seen, ignored)
    if not str(getattr(key, "dtype", "float")).startswith("float"):
        import jax

        key = jax.random.uniform(key, shape)
    return key < state.probability, state


def turn_to(place: Int[AnyArray, "*B"], state: HomeostasisState) -> HomeostasisState:
    """Returns the state with the scale at this place as the present one."""
    rates = len(state.scales.log)
    if rates == 1:
        return state
    xp = namespace(place, state.place, state.scale.log)
    place = xp.array(place)  # a copy, which NumPy may write into
    before, now = (locate(xp.asarray(each), rates) for each in (state.place, place))
    scales = tree_map(lambda all, own: put(all, before, own), state.scales, state.scale)
    scale = tree_map(lambda all: take(all, now), scales)
    return state._replace(scale=scale, place=place, scales=scales)


def bounded(signal: Float[AnyArray, "*B"]) -> Float[AnyArray, "*B"]:
    """Returns the signal with the largest size that `observe` can take in."""
    return namespace(signal).clip(signal, -HUGE, HUGE)


def observe(
    signal: Float[AnyArray, "*B"],
    rate: Float[AnyArray, "*B"],
    state: HomeostasisState,
    rule: Rule = "saturated",
) -> HomeostasisState:
    """Takes in one signal without drawing; the state holds the probability of a switch.

    The signal is `bounded`, and the rate is that of the state's present scale.
    """
    xp, scale, longest = namespace(signal, state.mean), state.scale, _HORIZON / rate
    # The mean and the variance have seen all signals, a scale those of its rate.
    seen, count = state.seen + ONE_STEP, scale.count + ONE_STEP
    tau = xp.minimum(seen.astype(np.float32), longest)
    scale_tau = xp.minimum(count.astype(np.float32), longest)
    mean = state.mean + (signal - state.mean) / tau
    error = signal - mean
    variance = state.variance + (error * error - state.variance) / tau
    varies, divisor = _FLAT * (mean * mean) < variance, variance
    if not surely_all(varies):
        error, divisor = error * varies, variance + ~varies
    z = error / xp.sqrt(divisor)
    change, probability, gain = find_rule(rule)(
        xp, z - scale.log, rate, scale_tau, scale.gain
    )
    # `change` is formed apart: added term by term to the log, its small parts would
    # drown in float32 when tau is 10^6.
    scale = Scale(count, scale.log + change, gain)
    place, scales = state.place, state.scales
    return HomeostasisState(seen, mean, variance, scale, probability, place, scales)


def _printed(xp: Any, excess, rate, tau, gain):
    """`excess` is log(x+ / scale). In logs throughout: exp(excess) may overflow."""
    change = xp.logaddexp(xp.log1p(-ONE / tau), excess - xp.log(tau))
    log_probability = xp.log(rate) + excess - change
    return change, xp.exp(xp.minimum(log_probability, ZERO)), gain


def _saturated(xp: Any, excess, rate, tau, gain):
    """The cap bounds x+ / scale by 1 / (rate gain), so that plain numbers will do."""
    scaled_rate = rate * gain
    # At the first signal of a rate the growth would round to -1, and its log to -inf.
    ratio = xp.maximum(xp.minimum(xp.exp(excess), ONE / scaled_rate), _LEAST_RATIO)
    growth = (ratio - ONE) / tau
    probability = xp.minimum(scaled_rate * ratio / (ONE + growth), ONE)
    gain = gain * xp.exp((rate - probability) / _GAIN_HORIZON)
    return xp.log1p(growth), probability, gain


_RULES = {"saturated": _saturated, "printed": _printed}


def find_rule(rule: Rule) -> Callable[..., Any]:
    """Returns the function of a rule; raises a ValueError if there is none of this name."""
    if not isinstance(rule, str) or rule not in _RULES:
        raise ValueError(f"rule is {rule!r}; it is 'saturated' or 'printed'")
    return _RULES[rule]

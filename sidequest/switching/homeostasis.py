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
there is one of each for every decade of rates. With shared ones, rates of 0.1 and 0.0001
alternately came out at 0.8 and 36 times their targets.
"""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float, Int

from sidequest.types import Key

Rule = Literal["saturated", "printed"]

_HORIZON = 100.0  # tau = _HORIZON / rate: the averages span this many switches
_GAIN_HORIZON = 10.0  # the gain responds within this many switches, well inside _HORIZON
_FLAT = 1e-12  # a variance below _FLAT * mean^2 is rounding, not signal
_DECADES = 8  # rates from 1 to 10^-7; lower ones share the last
_HUGE = 1e18  # a signal beyond it counts as this: its square must fit in float32


class HomeostasisState(NamedTuple):
    """Averages of one environment's signal, over all its episodes."""

    count: Int[Array, "decades"]
    """Signals so far; for each decade of rates."""
    mean: Float[Array, ""]
    variance: Float[Array, ""]
    log_scale: Float[Array, "decades"]
    """Log of the average of x+; for each decade of rates."""
    gain: Float[Array, "decades"]
    """Correction of the saturated rule; the printed rule leaves it at 1."""
    probability: Float[Array, ""]
    """Probability of the last decision."""


def init() -> HomeostasisState:
    """Returns the state before the first signal."""
    return HomeostasisState(
        count=jnp.zeros(_DECADES, jnp.int32),
        mean=jnp.zeros(()),
        variance=jnp.ones(()),
        log_scale=jnp.zeros(_DECADES),
        gain=jnp.ones(_DECADES),
        probability=jnp.zeros(()),
    )


def step(
    key: Key,
    signal: Float[ArrayLike, ""],
    rate: Float[ArrayLike, ""],
    state: HomeostasisState,
    rule: Rule = "saturated",
) -> tuple[Bool[Array, ""], HomeostasisState]:
    """Takes in one signal and decides whether to switch at this step."""
    state = observe(jnp.asarray(signal), jnp.asarray(rate), state, rule)
    return jax.random.uniform(key) < state.probability, state


def observe(
    signal: Float[Array, ""],
    rate: Float[Array, ""],
    state: HomeostasisState,
    rule: Rule = "saturated",
) -> HomeostasisState:
    """Takes in one signal without drawing; the state holds the probability of a switch."""
    # A comparison with every decade is cheaper than a gather and a scatter.
    here = jnp.arange(_DECADES) == jnp.clip(jnp.round(-jnp.log10(rate)), 0, _DECADES - 1)
    count = state.count + here
    # The mean and the variance have seen all signals, a scale those of its decade.
    tau = jnp.minimum(jnp.sum(count).astype(jnp.float32), _HORIZON / rate)
    signal = jnp.clip(signal, -_HUGE, _HUGE)
    mean = state.mean + (signal - state.mean) / tau
    variance = state.variance + (jnp.square(signal - mean) - state.variance) / tau
    flat = variance <= _FLAT * jnp.square(mean)
    z = jnp.where(flat, 0.0, (signal - mean) / jnp.sqrt(jnp.where(flat, 1.0, variance)))
    decide = {"saturated": _saturated, "printed": _printed}.get(rule)
    if decide is None:
        raise ValueError(f"rule is {rule!r}; it is 'saturated' or 'printed'")
    own, log_scale, gain = (
        jnp.sum(jnp.where(here, each, 0)) for each in (count, state.log_scale, state.gain)
    )
    tau = jnp.minimum(own.astype(jnp.float32), _HORIZON / rate)
    change, probability, gain = decide(z - log_scale, rate, tau, own, gain)
    return HomeostasisState(
        count=count,
        mean=mean,
        variance=variance,
        # `change` is formed apart: added term by term to log_scale, its small parts
        # would drown in float32 when tau is 10^6.
        log_scale=state.log_scale + jnp.where(here, change, 0.0),
        gain=jnp.where(here, gain, state.gain),
        probability=probability,
    )


def _printed(excess, rate, tau, count, gain):
    """`excess` is log(x+ / scale). In logs throughout: exp(excess) may overflow."""
    del count
    change = jnp.logaddexp(jnp.log1p(-1.0 / tau), excess - jnp.log(tau))
    log_probability = jnp.log(rate) + excess - change
    return change, jnp.exp(jnp.minimum(log_probability, 0.0)), gain


def _saturated(excess, rate, tau, count, gain):
    """The cap bounds x+ / scale by 1 / (rate gain), so that plain numbers will do."""
    ratio = jnp.exp(excess)
    # At t = 1 there is no scale yet to compare with.
    ratio = jnp.where(count > 1, jnp.minimum(ratio, 1.0 / (rate * gain)), ratio)
    growth = (ratio - 1.0) / tau
    probability = jnp.minimum(1.0, rate * gain * ratio / (1.0 + growth))
    gain = gain * jnp.exp((rate - probability) / _GAIN_HORIZON)
    return jnp.log1p(growth), probability, gain

"""A variant on synthetic signals: what `explain` and the illustrations show.

The controllers, homeostats and bandits are the real ones; only their input signals are
synthetic. Most rewards arrive as predicted, so that the value-promise error is small; in a
few patches of every episode they do not.
"""

import functools
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from sidequest.switching.metacontroller import (
    VariantArrays,
    fix_arms,
    name_arms,
    variant_arrays,
)
from sidequest.switching.switch import (
    DISCOUNT,
    Functions,
    SwitchState,
    advance,
    init,
    make_functions,
)
from sidequest.switching.variants import Variant
from sidequest.types import Signals, Trace

_PATCH = 30  # steps


def simulate(
    variant: Variant,
    *,
    steps: int = 1_000,
    episode: int = 500,
    seed: int = 0,
    arms: Mapping[str, float] | None = None,
    surprise: Float[np.ndarray, "T"] | None = None,
) -> Trace:
    """Runs one environment for `steps` steps in episodes of `episode` steps.

    `surprise` is the agent's uncertainty at each step; by default it is high in a few
    patches of every episode.
    """
    if steps < 1 or episode < 1:
        raise ValueError(f"steps is {steps} and episode is {episode}; both are 1 or more")
    rng = np.random.default_rng(seed)
    if surprise is None:
        surprise = _patches(rng, steps, episode)
    signals = _synthetic_signals(rng, surprise, episode)
    arrays = fix_arms(variant_arrays(variant), name_arms(variant, arms))
    rows = jax.tree.map(lambda column: jnp.asarray(column)[:, None], signals)
    modes, signal, probability = _run(make_functions(), arrays, seed, rows)
    return Trace(
        modes=np.asarray(modes),
        is_first=signals.is_first,
        signal=np.asarray(signal),
        probability=np.asarray(probability),
        reward=signals.reward,
    )


@functools.partial(jax.jit, static_argnums=0)
def _run(
    functions: Functions, variant: VariantArrays, seed: Int[Array, ""], rows: Signals
) -> tuple[Bool[Array, "T"], Float[Array, "T"], Float[Array, "T"]]:
    """Returns modes, signals and probabilities; compiled once for all variants."""

    def step(state: SwitchState, row: Signals):
        modes, state = advance(functions, state, row)
        controllers = state.controllers
        return state, (modes[0], controllers.signal[0], controllers.probability[0])

    return jax.lax.scan(step, init(functions, variant, 1, seed), rows)[1]


def _patches(rng: np.random.Generator, steps: int, episode: int) -> Float[np.ndarray, "T"]:
    """Returns 1 in three stretches of every episode, 0 elsewhere."""
    surprise = np.zeros(steps, np.float32)
    width = min(_PATCH, max(1, episode // 10))
    for begin_at in range(0, steps, episode):
        for offset in rng.integers(width, max(width + 1, episode - width), 3):
            surprise[begin_at + offset : begin_at + offset + width] = 1.0
    return surprise


def _synthetic_signals(
    rng: np.random.Generator, surprise: Float[np.ndarray, "T"], episode: int
) -> Signals:
    """Returns rewards that are mostly predicted, and values that predict only those."""
    steps = len(surprise)
    time = np.arange(steps)
    is_first = time % episode == 0
    predicted = ((time % 40 == 39) & ~is_first).astype(np.float32)
    unpredicted = surprise * (rng.random(steps) < 0.25)
    value = np.zeros(steps + 1, np.float32)
    for t in reversed(range(steps)):
        ends = (t + 1) % episode == 0
        ahead = 0.0 if t + 1 == steps or ends else predicted[t + 1]
        value[t] = ahead + DISCOUNT * (0.0 if ends else value[t + 1])
    noise = rng.normal(0.0, 0.02, steps) + surprise * rng.normal(0.0, 0.3, steps)
    doubt = np.clip(0.1 + 0.5 * surprise + rng.normal(0.0, 0.05, steps), 0.0, 1.0)
    return Signals(
        is_first=is_first,
        reward=(predicted + unpredicted).astype(np.float32),
        discount=np.full(steps, DISCOUNT, np.float32),
        value=(value[:-1] + noise).astype(np.float32),
        action_mismatch=doubt.astype(np.float32),
        value_variance=np.square(doubt).astype(np.float32),
        novelty=doubt.astype(np.float32),
    )

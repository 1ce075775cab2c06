"""A variant on synthetic signals: what `explain` and the illustrations show.

The controllers, homeostats and bandits are the real ones; only their input signals are
synthetic. Most rewards arrive as predicted, so that the value-promise error is small; in a
few patches of every episode they do not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from sidequest.switching.periods import periods
from sidequest.switching.switch import DISCOUNT, UNIFORMS, make_switch
from sidequest.switching.variants import Variant
from sidequest.types import Signals, Trace

if TYPE_CHECKING:
    from jaxtyping import Float

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
    if len(surprise) != steps:
        raise ValueError(f"surprise has {len(surprise)} numbers for {steps} steps")
    signals = _synthetic_signals(rng, surprise, episode)
    functions = make_switch(variant, arms)
    state, rows = functions.init(1), []
    with np.errstate(all="ignore"):
        for t in range(steps):
            row = Signals(*(column[t : t + 1] for column in signals))
            uniforms = rng.random((UNIFORMS, 1), np.float32)
            _, state = functions.step(state, uniforms, row)
            played = state.controllers
            rows.append((played.mode[0], played.signal[0], played.probability[0]))
    modes, signal, probability = map(np.array, zip(*rows, strict=True))
    return Trace(modes, signals.is_first, signal, probability, signals.reward)


def characteristics(trace, *, cut: bool = True) -> tuple[float, float]:
    """Returns (p_X, med_X) of all steps; the median is NaN if nothing explored.

    An episode's end ends a period, unless `cut` is False. `trace` has `modes` and
    `is_first`.
    """
    ends = np.flatnonzero(trace.is_first) if cut else []
    apart = np.insert(trace.modes, ends, False)
    return float(trace.modes.mean()), float(periods(apart).median)


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

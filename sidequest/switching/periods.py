"""How much, and in what portions, an episode explored: p_X, med_X, rmed_X (section 2.1).

An explore *period* is an unbroken run of explore steps. With L the episode's length,

    p_X = explore steps / L      med_X = median(n_X)      rmed_X = median(n_X / L)

A period still open when the episode ends counts with the length it has. An episode
without any has p_X = 0 and no median (NaN).

`periods` takes a whole trace. The streaming form sees one step at a time and keeps, in
place of the trace, a histogram of period lengths: exact up to 128 steps, 16 bins an
octave above, each with the sum of its lengths so that equal lengths stay exact.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from sidequest.types import Mode

_EXACT = 128
_PER_OCTAVE = 16
_BINS = _EXACT + 8 * _PER_OCTAVE  # up to 32768 steps; longer periods share the last bin


class PeriodStats(NamedTuple):
    """Explore periods of one episode, or of a batch of them."""

    p: float | Float[Array, ""]
    median: float | Float[Array, ""]
    relative_median: float | Float[Array, ""]
    lengths: Int[np.ndarray, "N"] | None = None
    """Every explore period, in order; None where they were not kept."""


def periods(trace) -> PeriodStats:
    """Returns the statistics of a trace: booleans (True explores) or a text such as "GGXX".

    >>> periods("GXXGGX")
    PeriodStats(p=0.5, median=1.5, relative_median=0.25, lengths=array([2, 1]))
    """
    if isinstance(trace, str):
        wrong = set(trace.upper()) - {"G", "X"}
        if wrong:
            raise ValueError(f"a trace is made of G and X; found {sorted(wrong)}")
        trace = [letter == "X" for letter in trace.upper()]
    modes = np.asarray(trace)
    if modes.ndim != 1 or not modes.size:
        raise ValueError(f"a trace is one row of modes; got the shape {modes.shape}")
    if modes.dtype.kind not in "biuf":
        raise ValueError(f"modes are booleans, or one text of G and X; got {modes.dtype}")
    modes = modes.astype(bool)
    edges = np.flatnonzero(np.diff(np.concatenate(([False], modes, [False]))))
    lengths = edges[1::2] - edges[::2]
    median = float(np.median(lengths)) if lengths.size else float("nan")
    return PeriodStats(float(modes.mean()), median, median / modes.size, lengths)


class PeriodsState(NamedTuple):
    """The state of the streaming form: the present episode of one environment."""

    steps: Int[Array, ""]
    explored: Int[Array, ""]
    open_length: Int[Array, ""]
    """Length of the present explore period; 0 in exploit mode."""
    started_exploring: Bool[Array, ""]
    counts: Int[Array, "N"]
    sums: Float[Array, "N"]


def init() -> PeriodsState:
    """Returns the state before the first step."""
    zero = jnp.zeros((), jnp.int32)
    counts = jnp.zeros(_BINS, jnp.int32)
    return PeriodsState(zero, zero, zero, jnp.bool_(False), counts, jnp.zeros(_BINS))


def step(mode: Mode, is_first: Bool[Array, ""], state: PeriodsState) -> PeriodsState:
    """Adds the mode of one step; `is_first` starts a new episode."""
    open_before = jnp.where(is_first, 0, state.open_length)
    closes = (open_before > 0) & ~mode
    counts, sums = _insert(state, open_before, closes)
    return PeriodsState(
        steps=jnp.where(is_first, 0, state.steps) + 1,
        explored=jnp.where(is_first, 0, state.explored) + mode,
        open_length=jnp.where(mode, open_before + 1, 0),
        started_exploring=jnp.where(is_first, mode, state.started_exploring),
        counts=jnp.where(is_first, 0, counts),
        sums=jnp.where(is_first, 0.0, sums),
    )


def summary(state: PeriodsState) -> PeriodStats:
    """Returns the statistics of the episode so far."""
    counts, sums = _insert(state, state.open_length, state.open_length > 0)
    cumulative = jnp.cumsum(counts)
    total = cumulative[-1]
    mean_in_bin = sums / jnp.maximum(counts, 1)

    def ranked(rank: Int[Array, ""]) -> Float[Array, ""]:
        return mean_in_bin[jnp.sum(cumulative <= rank)]

    middle = (ranked((total - 1) // 2) + ranked(total // 2)) / 2
    median = jnp.where(total > 0, middle, jnp.nan)
    steps = jnp.maximum(state.steps, 1)
    return PeriodStats(state.explored / steps, median, median / steps)


def number(state: PeriodsState) -> Int[Array, ""]:
    """Returns the number of explore periods so far, an open one included."""
    return jnp.sum(state.counts) + (state.open_length > 0)


def entry_rate(state: PeriodsState) -> Float[Array, ""]:
    """Returns switches to explore per exploit step; NaN if no step exploited."""
    entries = number(state) - state.started_exploring
    return entries / (state.steps - state.explored)


def _insert(
    state: PeriodsState, length: Int[Array, ""], happens: Bool[Array, ""]
) -> tuple[Int[Array, "N"], Float[Array, "N"]]:
    size = length.astype(jnp.float32)
    octaves = jnp.log2(jnp.maximum(size, _EXACT) / _EXACT)
    coarse = _EXACT + jnp.floor(_PER_OCTAVE * octaves).astype(jnp.int32)
    index = jnp.where(length <= _EXACT, length - 1, jnp.minimum(coarse, _BINS - 1))
    # A comparison with every bin is one kernel with all around it; a scatter is one alone.
    here = (jnp.arange(_BINS) == index) & happens
    return state.counts + here, state.sums + jnp.where(here, size, 0.0)

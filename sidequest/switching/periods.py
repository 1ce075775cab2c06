"""How much, and in what portions, an episode explored: p_X, med_X, rmed_X (section 2.1).

An explore *period* is an unbroken run of explore steps. With L the episode's length,

    p_X = explore steps / L      med_X = median(n_X)      rmed_X = median(n_X / L)

A period still open when the episode ends counts with the length it has. An episode
without any has p_X = 0 and no median (NaN).

`periods` takes a whole trace. The streaming form sees one step at a time and keeps, in
place of the trace, a histogram of period lengths: exact up to 128 steps, 16 bins an
octave above, each with the sum of its lengths so that equal lengths stay exact.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sidequest.switching.arrays import (
    NAN,
    NO_STEP,
    ONE_STEP,
    add_columns,
    clear,
    may_hold,
    namespace,
    overwrite,
    pick,
)
from sidequest.types import AnyArray, Mode

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

_EXACT = 128
_PER_OCTAVE = 16
_BINS = _EXACT + 8 * _PER_OCTAVE
_LONGEST = 2**8 * _EXACT  # longer periods share the last bin


class PeriodStats(NamedTuple):
    """Explore periods of one episode, or of a batch of them."""

    p: float | Float[AnyArray, "*B"]
    median: float | Float[AnyArray, "*B"]
    relative_median: float | Float[AnyArray, "*B"]
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
    """The state of the streaming form: the present episode."""

    steps: Int[AnyArray, "*B"]
    explored: Int[AnyArray, "*B"]
    open_length: Int[AnyArray, "*B"]
    """Length of the present explore period; 0 in exploit mode."""
    started_exploring: Bool[AnyArray, "*B"]
    counts: Int[AnyArray, "N *B"]
    sums: Float[AnyArray, "N *B"]


def init() -> PeriodsState:
    """Returns the state before the first step."""
    zero = np.zeros((), np.int32)
    counts, sums = np.zeros(_BINS, np.int32), np.zeros(_BINS, np.float32)
    return PeriodsState(zero, zero, zero, np.zeros((), bool), counts, sums)


def step(mode: Mode, is_first: Bool[AnyArray, "*B"], state: PeriodsState) -> PeriodsState:
    """Adds the mode of one step; `is_first` starts a new episode."""
    if may_hold(is_first):
        xp, same = namespace(is_first), ~is_first
        state = PeriodsState(
            steps=state.steps * same,
            explored=state.explored * same,
            open_length=state.open_length * same,
            started_exploring=xp.where(is_first, mode, state.started_exploring),
            counts=clear(state.counts, is_first),
            sums=clear(state.sums, is_first),
        )
    open_length = overwrite(state.open_length + ONE_STEP, ~mode, NO_STEP)
    closes = open_length < state.open_length
    counts, sums = _insert(state.counts, state.sums, state.open_length, closes)
    steps, explored = state.steps + ONE_STEP, state.explored + mode
    return PeriodsState(steps, explored, open_length, state.started_exploring, counts, sums)


def summary(state: PeriodsState) -> PeriodStats:
    """Returns the statistics of the episode so far."""
    xp = namespace(state.steps)
    counts, sums = xp.array(state.counts), xp.array(state.sums)
    counts, sums = _insert(counts, sums, state.open_length, state.open_length > 0)
    cumulative = xp.cumsum(counts, axis=0)
    total = cumulative[-1]
    mean_in_bin = sums / xp.maximum(counts, 1).astype(np.float32)

    def ranked(rank: Int[AnyArray, "*B"]) -> Float[AnyArray, "*B"]:
        place = xp.minimum((cumulative <= rank).sum(0), _BINS - 1)
        return pick(mean_in_bin, place)

    middle = (ranked((total - 1) // 2) + ranked(total // 2)) / 2
    median = xp.where(total > 0, middle, NAN)
    steps = xp.maximum(state.steps, 1).astype(np.float32)
    return PeriodStats(state.explored.astype(np.float32) / steps, median, median / steps)


def number(state: PeriodsState) -> Int[AnyArray, "*B"]:
    """Returns the number of explore periods so far, an open one included."""
    return state.counts.sum(0) + (state.open_length > 0)


def entry_rate(state: PeriodsState) -> Float[AnyArray, "*B"]:
    """Returns switches to explore per exploit step; NaN if no step exploited."""
    xp = namespace(state.steps)
    exploited = (state.steps - state.explored).astype(np.float32)
    entries = (number(state) - state.started_exploring).astype(np.float32)
    return entries / xp.where(exploited > 0, exploited, NAN)


def _insert(
    counts: Int[AnyArray, "N *B"],
    sums: Float[AnyArray, "N *B"],
    length: Int[AnyArray, "*B"],
    happens: Bool[AnyArray, "*B"],
) -> tuple[Int[AnyArray, "N *B"], Float[AnyArray, "N *B"]]:
    """Adds a period of this length to the histogram where it happens."""
    if not may_hold(happens):
        return counts, sums
    xp = namespace(happens)
    if xp is np:
        index = _bin_table().take(np.minimum(length, _LONGEST))
    else:
        index = _bin(xp, length)
    rows = (ONE_STEP, length.astype(np.float32))
    return add_columns((counts, sums), happens, index, rows)


def _bin(xp: Any, length: Int[AnyArray, "*B"]) -> Int[AnyArray, "*B"]:
    """Returns the bin of the histogram for a period of this length."""
    octaves = xp.log2(xp.maximum(length.astype(np.float32), _EXACT) / _EXACT)
    coarse = _EXACT + xp.floor(_PER_OCTAVE * octaves).astype(np.int32)
    return xp.where(length <= _EXACT, length - 1, xp.minimum(coarse, _BINS - 1))


@functools.cache
def _bin_table() -> Int[np.ndarray, "lengths"]:
    """Returns the bin of every length up to the last bin; looking up costs less."""
    return _bin(np, np.arange(_LONGEST + 1, dtype=np.int32))

"""p_X, med_X and rmed_X: of whole traces, and streaming."""

import doctest
import math
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sidequest
from sidequest.switching import periods as streaming
from sidequest.switching.periods import PeriodStats, periods

LONGEST = 4_096  # traces are filled up to this, so that one compiled program reads all


@pytest.mark.parametrize(
    "trace, p, median, relative, lengths",
    [
        ("GXXGGX", 3 / 6, 1.5, 1.5 / 6, [2, 1]),
        ("X", 1.0, 1.0, 1.0, [1]),
        ("GXGXXGXXX", 6 / 9, 2.0, 2 / 9, [1, 2, 3]),
        ("XXGGGGGGGG", 0.2, 2.0, 0.2, [2]),
        ("XGXXXXXXXX", 0.9, 4.5, 0.45, [1, 8]),
        ("xxxx", 1.0, 4.0, 1.0, [4]),
        # a period still open at the end counts with the length it has
        ("GGGGGGGXXX", 0.3, 3.0, 0.3, [3]),
        # neighbours merge: two draws in a row are one period
        ("GXXGXXXXGG", 0.6, 3.0, 0.3, [2, 4]),
    ],
)
def test_by_hand(trace, p, median, relative, lengths):
    stats = periods(trace)
    assert stats.p == pytest.approx(p)
    assert stats.median == median
    assert stats.relative_median == pytest.approx(relative)
    assert stats.lengths.tolist() == lengths


def test_an_episode_that_never_explored_has_no_median():
    stats = periods("GGGG")
    assert stats.p == 0.0
    assert math.isnan(stats.median) and math.isnan(stats.relative_median)
    assert stats.lengths.tolist() == []


def test_a_trace_may_be_anything_that_is_a_row_of_booleans():
    expected = periods("GXXG")._replace(lengths=None)
    for trace in ([False, True, True, False], [0, 1, 1, 0], jnp.array([0, 1, 1, 0], bool)):
        assert periods(trace)._replace(lengths=None) == expected


@pytest.mark.parametrize(
    "trace, message",
    [
        ("GXY", r"made of G and X; found \['Y'\]"),
        ("", r"one row of modes; got the shape \(0,\)"),
        ([], r"one row of modes; got the shape \(0,\)"),
        ([[True], [False]], r"one row of modes; got the shape \(2, 1\)"),
        (True, r"one row of modes; got the shape \(\)"),
        (["G", "X"], "booleans, or one text of G and X; got <U1"),
    ],
)
def test_what_is_no_trace_is_refused(trace, message):
    with pytest.raises(ValueError, match=message):
        periods(trace)


def test_the_example_in_the_docstring():
    module = sys.modules["sidequest.switching.periods"]
    found = doctest.testmod(module, extraglobs={"periods": periods})
    assert found.attempted == 1 and found.failed == 0


def test_it_is_a_public_name():
    assert sidequest.periods is periods
    assert sidequest.PeriodStats is PeriodStats
    assert PeriodStats._fields == ("p", "median", "relative_median", "lengths")


# Streaming: one step at a time, without the trace.


def _stream(modes, is_first, steps):
    def step(t, state):
        return streaming.step(modes[t], is_first[t], state)

    return jax.lax.fori_loop(0, steps, step, streaming.init())


def _read(modes, is_first, steps):
    state = _stream(modes, is_first, steps)
    stats = streaming.summary(state)
    return stats, streaming.number(state), streaming.entry_rate(state)


read_stream = jax.jit(_read)
read_streams = jax.jit(jax.vmap(_read))


def padded(modes: np.ndarray) -> np.ndarray:
    return np.pad(np.asarray(modes, bool), (0, LONGEST - len(modes)))


def stream(modes: np.ndarray, starts=(0,)):
    """Statistics of the last of the episodes that begin at `starts`."""
    is_first = np.zeros(LONGEST, bool)
    is_first[list(starts)] = True
    stats, number, rate = read_stream(padded(modes), is_first, len(modes))
    return [float(x) for x in (stats.p, stats.median, stats.relative_median, number, rate)]


def whole(modes: np.ndarray):
    """The same from the whole trace."""
    modes = np.asarray(modes, bool)
    stats = periods(modes)
    entries = np.sum(modes[1:] & ~modes[:-1])
    with np.errstate(invalid="ignore", divide="ignore"):
        rate = np.float64(entries) / np.sum(~modes)
    return [stats.p, stats.median, stats.relative_median, len(stats.lengths), rate]


def trace_of(runs: list[int], starts_exploring: bool) -> np.ndarray:
    """Runs of explore and exploit steps in turn."""
    exploring = (np.arange(len(runs)) % 2 == 0) == starts_exploring
    return np.repeat(exploring, runs)[:LONGEST]


@settings(max_examples=50)
@given(st.lists(st.integers(1, 128), min_size=1, max_size=20), st.booleans())
def test_streaming_is_exact_up_to_128_steps(runs, starts_exploring):
    modes = trace_of(runs, starts_exploring)
    np.testing.assert_allclose(stream(modes), whole(modes), rtol=1e-6)


@settings(max_examples=50)
@given(st.lists(st.integers(1, 1_500), min_size=1, max_size=20), st.booleans())
def test_streaming_is_within_5_per_cent_above(runs, starts_exploring):
    modes = trace_of(runs, starts_exploring)
    np.testing.assert_allclose(stream(modes), whole(modes), rtol=0.05)


def test_equal_lengths_stay_exact_above_128():
    modes = trace_of([7, 777, 3, 777, 11, 777], starts_exploring=False)
    assert stream(modes)[1] == 777.0


def test_a_period_of_a_whole_long_episode():
    # The longest bins: up to 32768 steps, each within 5%.
    state = streaming.init()._replace(steps=jnp.int32(100_000))
    for length in (129, 4_095, 20_000, 31_000):
        closed = state._replace(open_length=jnp.int32(length))
        assert float(jax.jit(streaming.summary)(closed).median) == length


@settings(max_examples=50)
@given(st.lists(st.booleans(), min_size=2, max_size=60), st.data())
def test_an_episode_start_forgets_what_was(modes, data):
    start = data.draw(st.integers(1, len(modes) - 1))
    np.testing.assert_allclose(
        stream(np.array(modes), (0, start)), whole(np.array(modes[start:])), rtol=1e-6
    )


def test_a_batch_is_the_same_as_one_by_one():
    rng = np.random.default_rng(0)
    lengths = [1, 10, 100, 1_000, 4_000]
    traces = [rng.random(n) < 0.1 * (1 + i) for i, n in enumerate(lengths)]
    first = np.zeros((len(traces), LONGEST), bool)
    first[:, 0] = True
    rows = np.stack([padded(modes) for modes in traces])
    stats, number, rate = read_streams(rows, first, np.array(lengths))
    together = np.stack([stats.p, stats.median, stats.relative_median, number, rate], 1)
    apart = np.array([stream(modes) for modes in traces])
    np.testing.assert_array_equal(together, apart.astype(np.float32))


def test_before_any_step_there_is_nothing():
    stats = streaming.summary(streaming.init())
    assert float(stats.p) == 0.0
    assert math.isnan(float(stats.median))

"""Simulations: real controllers on synthetic signals."""

import numpy as np
import pytest

import sidequest
from sidequest.switching.simulation import simulate
from tests.switching.play import PAPER_VARIANTS, draw_trace

STEPS = 2_000


def play(name: str, **arguments):
    return simulate(sidequest.parse(name), **{"steps": STEPS, **arguments})


def test_a_counter_is_drawn_as_it_is():
    trace = play("XU-intra(2,blind,3,G)", episode=8)
    drawn = draw_trace(trace.modes, trace.is_first)
    assert drawn == "|".join(["GGGXXGGG"] * (STEPS // 8))


def test_every_variant_plays():
    for name in PAPER_VARIANTS:
        trace = play(name, episode=700)
        assert all(column.shape == (STEPS,) for column in trace)
        assert np.flatnonzero(trace.is_first).tolist() == [0, 700, 1_400]
        assert np.isfinite(trace.signal).any() == sidequest.parse(name).informed


def test_informed_switching_happens_where_the_surprise_is():
    surprise = np.zeros(STEPS, np.float32)
    surprise[1_000:1_200] = 1.0
    name = "XU-intra(5,informed:variance,0.05,G)"
    trace = play(name, episode=STEPS, surprise=surprise)
    assert trace.modes[1_000:1_200].mean() > 2 * trace.modes[500:1_000].mean()


def test_the_same_seed_is_the_same_simulation():
    one, same, other = (play("XU-step-level-0.5", seed=s) for s in (0, 0, 1))
    assert (one.modes == same.modes).all()
    assert (one.modes != other.modes).any()


def test_arms_may_be_fixed():
    arms = {"explore": 1, "exploit": 4}
    trace = play("XU-intra(*,blind,n*,X)", episode=STEPS, arms=arms)
    assert draw_trace(trace.modes, trace.is_first) == "XGGGG" * (STEPS // 5)


def test_nothing_to_play_is_refused():
    with pytest.raises(ValueError, match="steps is 0 and episode is 500"):
        play("XU-step-level-0.5", steps=0)
    with pytest.raises(ValueError, match="surprise has 5 numbers for 2000 steps"):
        play("XU-step-level-0.5", surprise=np.zeros(5, np.float32))

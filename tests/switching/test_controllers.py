"""Controllers: golden traces, written by hand, and the statistics of the random ones."""

import numpy as np
import pytest

from sidequest.switching.periods import periods
from tests.switching.play import draw_trace, make_signals, play, trace

# Golden traces. Dots are the steps of a stream, a bar begins an episode.
# fmt: off
GOLDEN = [
    # experiment-level: one mode for ever
    ("XU-experiment-level-G",        ".....|..", "GGGGG|GG"),
    ("XU-experiment-level-X",        ".....|..", "XXXXX|XX"),
    # episode-level: one mode an episode
    ("XU-episode-level-1.0",         ".....|..", "XXXXX|XX"),
    # step-level: a coin at every step, the first one too
    ("XU-step-level-1.0",            ".....|..", "XXXXX|XX"),
    # blind counter: n_G actions, then n_X; an episode that ends inside a period ends it
    ("XU-intra(2,blind,3,G)", ".............|...", "GGGXXGGGXXGGG|GGG"),
    ("XU-intra(2,blind,3,G)", "....|......",       "GGGX|GGGXXG"),
    ("XU-intra(2,blind,3,G)", "..|..|....|.",      "GG|GG|GGGX|G"),
    ("XU-intra(2,blind,3,X)", "...........|...",   "XXGGGXXGGGX|XXG"),
    ("XU-intra(2,blind,3,X)", ".|...|......",      "X|XXG|XXGGGX"),
    ("XU-intra(1,blind,1,G)", ".....|...",         "GXGXG|GXG"),
    ("XU-intra(10,blind,2,G)", "..............",   "GGXXXXXXXXXXGG"),
    ("XU-intra(1,blind,9,X)", "............",      "XGGGGGGGGGXG"),
    # blind coin, here one that always falls: exploit periods of one action
    ("XU-intra(2,blind,1.0,G)", "........|..",     "GXXGXXGX|GX"),
    ("XU-intra(2,blind,1.0,X)", "........|..",     "XXGXXGXX|XX"),
    # symmetric: explore periods end as exploit periods do
    ("XU-intra(=,blind,3,G)", "..........|....",   "GGGXXXGGGX|GGGX"),
    ("XU-intra(=,blind,3,X)", "..........|....",   "XXXGGGXXXG|XXXG"),
    ("XU-intra(=,blind,1.0,G)", ".....|..",        "GXGXG|GX"),
    ("XU-intra(=,blind,1.0,X)", ".....|..",        "XGXGX|XG"),
    # value promise: the first k = 5 steps of an episode decide nothing
    ("XU-intra(2,informed,1.0,G)", "...........|.......", "GGGGGXXGXXG|GGGGGXX"),
    ("XU-intra(2,informed,1.0,X)", "...........|.......", "XXGGGXXGXXG|XXGGGXX"),
    ("XU-intra(9,informed,1.0,G)", "....|......|...",     "GGGG|GGGGGX|GGG"),
    ("XU-intra(=,informed,1.0,G)", ".........|.......",   "GGGGGXGXG|GGGGGXG"),
    ("XU-intra(=,informed,1.0,X)", ".........|.......",   "XXXXXGXGX|XXXXXGX"),
    # the other two signals have no memory: they may decide from the second step on
    ("XU-intra(2,informed:mismatch,1.0,G)", ".......|..", "GXXGXXG|GX"),
    ("XU-intra(2,informed:variance,1.0,X)", ".......|..", "XXGXXGX|XX"),
    ("XU-intra(=,informed:variance,1.0,G)", ".....|..",   "GXGXG|GX"),
]
# fmt: on


@pytest.mark.parametrize("variant, steps, modes", GOLDEN)
def test_golden_trace(variant, steps, modes):
    assert trace(variant, steps) == modes


@pytest.mark.parametrize("mode", ["XI", "XS", "Xγ"])
def test_what_exploring_does_changes_nothing_about_when(mode):
    assert trace(f"{mode}-intra(2,blind,3,G)", 10) == "GGGXXGGGXX"


@pytest.mark.parametrize(
    "variant, arms, modes",
    [
        ("XU-episode-level-*", {"start": "X"}, "XXXXXXXXXXXX"),
        ("XU-episode-level-*", {"start": "G"}, "GGGGGGGGGGGG"),
        ("XU-intra(*,blind,2,G)", {"explore": 3}, "GGXXXGGXXXGG"),
        ("XU-intra(3,blind,n*,G)", {"exploit": 2}, "GGXXXGGXXXGG"),
        ("XU-intra(3,blind,p*,G)", {"exploit": 1.0}, "GXXXGXXXGXXX"),
        ("XU-intra(*,blind,n*,X)", {"explore": 1, "exploit": 4}, "XGGGGXGGGGXG"),
        ("XU-intra(=,blind,n*,G)", {"exploit": 4}, "GGGGXXXXGGGG"),
        ("XU-intra(*,informed,p*,G)", {"explore": 3, "exploit": 1.0}, "GGGGGXXXGXXX"),
    ],
)
def test_golden_trace_of_a_fixed_arm(variant, arms, modes):
    assert trace(variant, len(modes), arms=arms) == modes


@pytest.mark.parametrize(
    "variant, length, modes",
    [
        # of an episode of 10 steps: 30% is 3 steps, 20% is 2
        ("XU-intra(20%,blind,30%,G)", 10, "GGGXXGGGXXGG"),
        ("XU-intra(20%,blind,30%,X)", 10, "XXGGGXXGGGXX"),
        ("XU-intra(=,blind,30%,G)", 10, "GGGXXXGGGXXX"),
        ("XU-intra(1,blind,30%,G)", 10, "GGGXGGGXGGGX"),
        ("XU-intra(20%,informed:mismatch,1.0,G)", 10, "GXXGXXGXXGXX"),
        # never less than one step
        ("XU-intra(1%,blind,2%,G)", 10, "GXGXGXGXGXGX"),
        # 26% of 10 is 2.6: to the nearest
        ("XU-intra(26%,blind,1,G)", 10, "GXXXGXXXGXXX"),
        # nothing is known yet: an episode is taken to have 1000 steps
        ("XU-intra(0.2%,blind,0.3%,G)", None, "GGGXXGGGXXGG"),
    ],
)
def test_golden_trace_of_a_share_of_the_episode(variant, length, modes):
    assert trace(variant, len(modes), length=length) == modes


@pytest.mark.parametrize("n_g", ["100", "0.05", "0.9"])
def test_ten_explore_steps_are_exactly_ten_actions(n_g):
    modes, _ = play(f"XU-intra(10,blind,{n_g},G)", make_signals(4_992))
    lengths = periods(modes).lengths
    assert len(lengths) > 40
    assert set(lengths[:-1]) == {10}  # the last one may be truncated


def test_a_counter_of_100_and_10_explores_one_step_in_eleven():
    modes, _ = play("XU-intra(10,blind,100,G)", make_signals(4_992))
    assert periods(modes[:4_950]).p == pytest.approx(1 / 11)  # 45 cycles of 110 steps


# Informed: when the homeostat is asked, and when not.


def test_the_homeostat_sees_decisions_only():
    signals = make_signals(17, "..........|.......")
    modes, states = play("XU-intra(3,informed,1.0,G)", signals)
    asked = ["?" if known else "." for known in np.isfinite(states.signal)]
    #                                             k = 5: the window is full from t = 5 on
    assert draw_trace(modes, signals.is_first) == "GGGGGXXXGX|GGGGGXX"
    assert "".join(asked) == ".....?...?" + ".....?."
    assert states.homeostat.seen.tolist() == [
        *[0] * 5,
        *[1] * 4,
        *[2] * 6,
        3,
        3,
    ]


def test_homeostat_outlives_the_episode_and_the_window_does_not():
    signals = make_signals(30, "." * 10 + "|" + "." * 20, value=np.arange(30.0))
    _, states = play("XU-intra(1,informed,0.001,G)", signals, seed=1)
    # Ten steps, k = 5: five decisions. They are still there in the next episode ...
    assert states.homeostat.seen[[9, 10, 14, 15]].tolist() == [5, 5, 5, 6]
    # ... while the window is filled anew: nothing compares values of two episodes.
    assert np.isnan(states.signal[10:15]).all()
    # Values rise by 1 a step with nothing earned, so every gap of 5 steps is 5.
    np.testing.assert_allclose(states.signal[[5, 9, 15, 20]], 5.0)
    np.testing.assert_allclose(states.homeostat.mean[-1], 5.0)


def test_no_trigger_and_no_average_while_the_window_fills():
    signals = make_signals(50, 5, value=np.arange(50.0))  # episodes too short for k = 5
    modes, states = play("XU-intra(1,informed,1.0,G)", signals)
    assert not modes.any()
    assert not states.homeostat.seen.any()
    assert np.isnan(states.signal).all()


def test_symmetric_informed_listens_in_both_modes():
    _, states = play("XU-intra(=,informed,0.5,G)", make_signals(64))
    assert states.homeostat.seen[-1] == 64 - 5


def test_the_initial_period_is_not_a_decision():
    _, states = play("XU-intra(3,informed:mismatch,1.0,X)", make_signals(5))
    #  t    0 1 2 3 4
    # mode  X X X G X
    assert states.homeostat.seen.tolist() == [0, 0, 0, 0, 1]
    assert states.probability.tolist() == [1.0, 0.0, 0.0, 1.0, 1.0]


def test_an_informed_trigger_fires_where_the_signal_is_high():
    steps = 40_000
    spikes = np.arange(steps) % 100 == 50
    noise = np.random.default_rng(0).random(steps)
    signals = make_signals(steps, action_mismatch=0.01 * noise + spikes)
    modes, _ = play("XU-intra(1,informed:mismatch,0.01,G)", signals)
    late = slice(steps // 2, None)
    assert modes[late][spikes[late]].mean() > 0.9
    assert modes[late][~spikes[late]].mean() < 0.005


def test_the_signal_of_another_trigger_does_not_matter():
    rng = np.random.default_rng(0)
    doubt, noise = rng.random(500), rng.random(500)
    one = make_signals(500, 100, value_variance=doubt)
    two = make_signals(500, 100, value_variance=doubt, value=noise, action_mismatch=noise)
    variant = "XU-intra(2,informed:variance,0.1,G)"
    modes_one, _ = play(variant, one)
    modes_two, _ = play(variant, two)
    assert modes_one.any()
    assert modes_one.tolist() == modes_two.tolist()


# Random variants: frequencies and independence. 4 standard deviations are allowed.


def assert_frequency(events, probability, what=""):
    error = np.sqrt(probability * (1 - probability) / len(events))
    assert abs(np.mean(events) - probability) < 4 * error, what


def test_episode_level_draws_a_mode_for_each_episode():
    modes, _ = play("XU-episode-level-0.3", make_signals(40_000, 20))
    episodes = modes.reshape(-1, 20)
    assert (episodes == episodes[:, :1]).all()
    assert_frequency(episodes[:, 0], 0.3)
    assert_frequency(episodes[1:, 0][episodes[:-1, 0]], 0.3, "after an explore episode")


def test_step_level_draws_every_step_anew():
    modes, _ = play("XU-step-level-0.3", make_signals(40_000, 10))
    assert_frequency(modes, 0.3)
    assert_frequency(modes[1:][modes[:-1]], 0.3, "after an explore step")
    assert_frequency(modes[1:][~modes[:-1]], 0.3, "after an exploit step")
    assert_frequency(modes[::10], 0.3, "at first steps")


@pytest.mark.parametrize("rate", [0.1, 0.02])
def test_a_coin_is_tossed_at_exploit_steps_only(rate):
    # The rate counts switches per exploit step, so exploit periods last 1 / rate.
    modes, _ = play(f"XU-intra(10,blind,{rate},G)", make_signals(40_000))
    entered = modes[1:] & ~modes[:-1]
    assert_frequency(entered[~modes[:-1]], rate)
    expected = 10 / (10 + 1 / rate)
    assert np.mean(modes) == pytest.approx(expected, rel=0.1)


def test_an_informed_rate_counts_exploit_steps():
    rng = np.random.default_rng(0)
    signals = make_signals(40_000, action_mismatch=rng.random(40_000))
    modes, _ = play("XU-intra(10,informed:mismatch,0.05,G)", signals)
    entered = modes[1:] & ~modes[:-1]
    assert np.mean(entered[~modes[:-1]]) == pytest.approx(0.05, rel=0.05)
    assert np.mean(modes) == pytest.approx(10 / (10 + 20), rel=0.05)


def test_symmetric_switching_explores_half_of_the_time():
    signals = make_signals(40_000)
    for variant in ["XU-intra(=,blind,0.1,G)", "XU-intra(=,informed,0.1,G)"]:
        modes, _ = play(variant, signals)
        assert np.mean(modes) == pytest.approx(0.5, abs=0.03)
        assert np.mean(modes[1:] != modes[:-1]) == pytest.approx(0.1, rel=0.1)


def test_the_seed_decides():
    one, again, other = (trace("XU-step-level-0.5", 64, seed=seed) for seed in (0, 0, 1))
    assert one == again
    assert one != other

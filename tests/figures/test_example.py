"""The picture of one variant's example."""

import numpy as np

from sidequest.figures.example import draw_example, switches
from tests.figures.traces import trace_of


def texts(figure) -> str:
    return " ".join(text.get_text() for text in figure.texts)


def test_switches_are_inside_episodes_only():
    to_explore, to_exploit = switches(trace_of("GXXG|XGX"))
    assert np.flatnonzero(to_explore).tolist() == [1, 6]
    assert np.flatnonzero(to_exploit).tolist() == [3, 5]


def test_a_blind_example_has_two_panels_and_an_informed_one_three():
    blind = trace_of("GGXX|GXGG")
    signal = np.linspace(0.0, 1.0, 8, dtype=np.float32)
    assert len(draw_example(blind, "a name").axes) == 2
    informed = draw_example(blind._replace(signal=signal), "a name")
    assert len(informed.axes) == 3
    curve, marks = informed.axes[0].lines[:2]
    np.testing.assert_array_equal(curve.get_ydata(), signal)
    assert marks.get_xdata().tolist() == [2.5, 5.5]  # the middles of steps 2 and 5


def test_a_counter_is_shown_on_a_linear_axis_and_a_coin_on_a_logarithmic_one():
    trace = trace_of("GGXX")
    counter = trace._replace(probability=np.array([0, 0, 1, 0], np.float32))
    coin = trace._replace(probability=np.array([0, 0.01, 0.01, 0.1], np.float32))
    assert draw_example(counter, "a name").axes[0].get_yscale() == "linear"
    assert draw_example(coin, "a name").axes[0].get_yscale() == "log"


def test_rewards_are_marked_and_numbers_are_said():
    trace = trace_of("GGXX")._replace(reward=np.array([0, 1, 0, 2], np.float32))
    figure = draw_example(trace, "the name")
    assert figure.axes[-1].lines[-1].get_xdata().tolist() == [1.5, 3.5]
    assert "the name" in texts(figure)
    assert "= 0.50" in texts(figure) and "2 steps" in texts(figure)


def test_an_example_that_never_explores_has_no_median():
    assert "nan" not in texts(draw_example(trace_of("GGG|GGG"), "the name"))

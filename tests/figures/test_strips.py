"""Strips: bars where the modes are, in the colours of the modes."""

import math

import numpy as np
import pytest
from matplotlib.colors import to_rgba

import sidequest
from sidequest.figures import style as look
from sidequest.figures.strips import (
    Period,
    characteristics,
    draw_strip,
    last_steps,
    split_periods,
)
from tests.figures.traces import trace_of


def bars(collection) -> list[tuple[float, float]]:
    """(left, right) of each bar of a strip."""
    boxes = [path.get_extents() for path in collection.get_paths()]
    return [(box.x0, box.x1) for box in boxes]


def test_periods_end_with_the_mode_or_the_episode():
    trace = trace_of("GGXX|XG")
    assert split_periods(trace) == [
        Period(0, 2, False),
        Period(2, 2, True),
        Period(4, 1, True),
        Period(5, 1, False),
    ]
    assert split_periods(trace, cut=False) == [
        Period(0, 2, False),
        Period(2, 3, True),
        Period(5, 1, False),
    ]


@pytest.mark.parametrize("text", ["GXXGGX", "X", "XXXX", "GXGXXXGG"])
def test_characteristics_agree_with_periods_on_one_episode(text):
    stats = sidequest.periods(text)
    assert characteristics(trace_of(text)) == (stats.p, stats.median)


def test_characteristics_of_several_episodes():
    assert characteristics(trace_of("GXXX|XGGG")) == (0.5, 2.0)
    assert characteristics(trace_of("GXXX|XGGG"), cut=False) == (0.5, 4.0)
    p, median = characteristics(trace_of("GGG"))
    assert p == 0 and math.isnan(median)


def test_last_steps_keeps_the_end_of_every_column():
    end = last_steps(trace_of("GGG|XGX"), 3)
    assert end.modes.tolist() == [True, False, True]
    assert end.is_first.tolist() == [True, False, False]
    assert all(len(column) == 3 for column in end)


def test_a_strip_has_bars_at_the_right_places_in_the_right_colours():
    axes = look.new_figure(4, 1).subplots()
    draw_strip(axes, trace_of("GGXX|XGGX"), row=2.0)
    exploit, explore, boundaries = axes.collections
    assert bars(exploit) == [(0, 8)]
    assert bars(explore) == [(2, 4), (4, 5), (7, 8)]
    assert tuple(exploit.get_facecolor()[0]) == to_rgba(look.BLUE)
    assert tuple(explore.get_facecolor()[0]) == to_rgba(look.MAGENTA)
    assert [segment[0, 0] for segment in boundaries.get_segments()] == [4]
    low, high = (c.get_paths()[0].get_extents() for c in (exploit, explore))
    assert high.y0 < low.y0 < 2.0 < low.y1 < high.y1  # the cue for those who see no hue


def test_the_two_colours_differ_in_lightness():
    def luminance(colour: str) -> float:
        return float(np.dot(to_rgba(colour)[:3], (0.2126, 0.7152, 0.0722)))

    assert luminance(look.BLUE) > 1.8 * luminance(look.MAGENTA)


def test_saving_twice_gives_the_same_bytes(tmp_path):
    for suffix in look.SUFFIXES:
        written = []
        for name in ("one", "two"):
            figure = look.new_figure(2, 1)
            draw_strip(figure.subplots(), trace_of("GGXX"))
            written.append(look.save(figure, tmp_path / f"{name}{suffix}").read_bytes())
        assert written[0] == written[1]
    with pytest.raises(ValueError, match=".png, .svg"):
        look.save(look.new_figure(1, 1), tmp_path / "one.jpg")

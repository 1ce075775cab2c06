"""Illustrations: strips, the figures that the real controllers play, an example."""

import itertools
import math
import struct

import numpy as np
import pytest
from matplotlib.colors import to_rgba

import sidequest
from sidequest.cli import main
from sidequest.figures import illustrations, style
from sidequest.figures.illustrations import (
    Row,
    Scene,
    _draw_characteristics,
    _explore_periods,
    _place_points,
    _write_name,
    draw_example,
    draw_granularities,
    draw_strip,
    read_stage,
    switches,
)
from sidequest.switching.simulation import characteristics
from sidequest.switching.variants import parse
from tests.figures.traces import trace_of

FIGURE_1, FIGURE_2 = read_stage("figure-1"), read_stage("figure-2")
REAL, PLAYED = illustrations.play, {}


def play(stage, scene):
    """The real controllers, once for all tests."""
    key = (stage.episode, stage.shown, scene)
    if key not in PLAYED:
        PLAYED[key] = REAL(stage, scene)
    return PLAYED[key]


def bars(collection) -> list[tuple[float, float]]:
    """(left, right) of each bar of a strip."""
    boxes = [path.get_extents() for path in collection.get_paths()]
    return [(box.x0, box.x1) for box in boxes]


def test_explore_periods_end_with_the_mode_or_the_episode():
    assert _explore_periods(trace_of("GGXX|XG")) == [(2, 2), (4, 1)]


@pytest.mark.parametrize("text", ["GXXGGX", "X", "XXXX", "GXGXXXGG"])
def test_characteristics_agree_with_periods_on_one_episode(text):
    stats = sidequest.periods(text)
    assert characteristics(trace_of(text)) == (stats.p, stats.median)


def test_characteristics_of_several_episodes():
    assert characteristics(trace_of("GXXX|XGGG")) == (0.5, 2.0)
    assert characteristics(trace_of("GXXX|XGGG"), cut=False) == (0.5, 4.0)
    p, median = characteristics(trace_of("GGG"))
    assert p == 0 and math.isnan(median)


def test_a_strip_has_bars_at_the_right_places_in_the_right_colours():
    axes = style.new_figure(4, 1).subplots()
    draw_strip(axes, trace_of("GGXX|XGGX"), row=2.0)
    exploit, explore, boundaries = axes.collections
    assert bars(exploit) == [(0, 8)]
    assert bars(explore) == [(2, 4), (4, 5), (7, 8)]
    assert tuple(exploit.get_facecolor()[0]) == to_rgba(style.BLUE)
    assert tuple(explore.get_facecolor()[0]) == to_rgba(style.MAGENTA)
    assert [segment[0, 0] for segment in boundaries.get_segments()] == [4]
    low, high = (c.get_paths()[0].get_extents() for c in (exploit, explore))
    assert high.y0 < low.y0 < 2.0 < low.y1 < high.y1  # the cue for those who see no hue


def test_the_two_colours_differ_in_lightness():
    def luminance(colour: str) -> float:
        return float(np.dot(to_rgba(colour)[:3], (0.2126, 0.7152, 0.0722)))

    assert luminance(style.BLUE) > 1.8 * luminance(style.MAGENTA)


def test_saving_twice_gives_the_same_bytes(tmp_path):
    for suffix in style.SUFFIXES:
        written = []
        for name in ("one", "two"):
            figure = style.new_figure(2, 1)
            draw_strip(figure.subplots(), trace_of("GGXX"))
            written.append(style.save(figure, tmp_path / f"{name}{suffix}").read_bytes())
        assert written[0] == written[1]
    with pytest.raises(ValueError, match=".png, .svg"):
        style.save(style.new_figure(1, 1), tmp_path / "one.jpg")


@pytest.fixture(scope="module")
def rows():
    played = {one: play(FIGURE_1, one) for one in FIGURE_1.scenes}
    return {one.label: Row(one.label, one.variant, trace) for one, trace in played.items()}


@pytest.fixture(scope="module")
def points(rows):
    return _place_points(list(rows.values()))


def test_every_variant_has_a_canonical_name():
    for name in ("figure-1", "figure-2", "figure-2-appendix", "readme"):
        stage = read_stage(name)
        names = [scene.variant for scene in (*stage.scenes, *stage.signals)]
        names += [variant for group in stage.groups for variant in group["variants"]]
        assert [str(parse(variant)) for variant in names] == names


def test_figure_1_keeps_the_promises_of_its_caption(points):
    assert list(points) == list("ABCDEFG")
    assert points["A"][0] == 1.0
    assert points["A"][1] > FIGURE_1.episode  # not ended by an episode's end
    assert points["B"][1] == FIGURE_1.episode
    assert points["C"][1] == 1
    shares = [points[letter][0] for letter in "CDEF"]
    assert max(shares) - min(shares) < 0.05
    assert abs(np.mean(shares) - 0.2) < 0.05
    assert points["D"][1] == points["E"][1] == 5
    assert points["F"][1] > points["D"][1]
    for letter in "DEFG":
        assert 1 < points[letter][1] < FIGURE_1.episode
    assert points["G"][0] > 0.5


def test_d_is_spread_out_and_e_explores_toward_the_end(rows):
    def share_of_late_steps(letter: str) -> float:
        episodes = rows[letter].trace.modes.reshape(FIGURE_1.shown, -1)
        return episodes[:, FIGURE_1.episode // 2 :].sum() / episodes.sum()

    assert share_of_late_steps("D") == 0.5
    assert share_of_late_steps("E") > 0.75


def test_b_has_both_kinds_of_episodes_and_none_is_mixed(rows):
    episodes = rows["B"].trace.modes.reshape(FIGURE_1.shown, -1)
    assert set(episodes.mean(1)) == {0.0, 1.0}


def test_figure_1_draws_every_row_and_every_point(rows, points):
    left, right = draw_granularities(list(rows.values()), FIGURE_1.episode).axes
    assert [label.get_text() for label in left.get_yticklabels()] == list("ABCDEFG")
    dots = {(x, y) for line in right.lines for x, y in zip(*line.get_data(), strict=True)}
    assert {(median, p) for p, median in points.values()} <= dots
    assert right.get_xscale() == "log"


def test_letters_of_points_that_coincide_are_apart():
    figure = style.new_figure(3, 3)
    axes = figure.subplots()
    near = {"D": (0.2, 5.0), "E": (0.19, 5.0), "F": (0.2, 20.0)}
    _draw_characteristics(axes, near, episode=100)
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in axes.texts if text.get_text() in near]
    assert len(boxes) == 3
    assert not any(one.overlaps(two) for one, two in itertools.combinations(boxes, 2))


@style.styled
@pytest.mark.parametrize("episode", [11, 30, 99, 100, 1_000, 20_000])
def test_names_of_granularities_do_not_meet(episode):
    strip = trace_of("GGXX" * 3)
    figure = draw_granularities([Row("E", "XU-intra(2,blind,2,G)", strip)], episode)
    figure.draw_without_rendering()
    names = ("step-level", "intra-episodic", "episode-level", "experiment")
    texts = [text for text in figure.axes[1].texts if text.get_text() in names]
    boxes = sorted((text.get_window_extent() for text in texts), key=lambda box: box.x0)
    assert len(boxes) == 4
    assert all(one.x1 < two.x0 for one, two in itertools.pairwise(boxes))


def test_each_group_of_figure_2_differs_in_its_choice_alone():
    bases = []
    for group in FIGURE_2.groups:
        names = group["variants"]
        choices = [name.partition("(")[2].removesuffix(")").split(",") for name in names]
        differing = {i for i in range(4) if len({choice[i] for choice in choices}) > 1}
        assert differing == {group["choice"]}
        bases.append(set(names))
    assert len(set.intersection(*bases)) == 1  # one variant is in every group


def test_different_choices_make_different_strips():
    for group in FIGURE_2.groups:
        traces = [play(FIGURE_2, Scene(name)) for name in group["variants"]]
        assert len({trace.modes.tobytes() for trace in traces}) == len(traces)


def test_the_choice_in_question_is_the_bold_part_of_the_name():
    axes = style.new_figure(3, 1).subplots()
    _write_name(axes, "XU-intra(10,informed,0.01,X)", 0.0, choice=1)
    plain, bold = (text.get_text() for text in axes.texts)
    assert bold.rstrip("\N{NO-BREAK SPACE}") == "informed"
    assert plain == "XU-intra(10,        ,0.01,X)"
    assert len(bold) == len("informed,0.01,X)")


def test_the_command_writes_every_figure_and_says_where(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(illustrations, "play", play)
    with pytest.raises(SystemExit) as caught:
        main(["figures", "illustrations", "--out", str(tmp_path / "new")])
    assert not caught.value.code
    printed = capsys.readouterr().out.split()
    names = ("figure-1", "figure-2", "figure-2-appendix", "readme")
    expected = [
        tmp_path / "new" / f"{name}{end}" for name in names for end in style.SUFFIXES
    ]
    assert printed == [str(path) for path in expected]
    assert all(path.stat().st_size > 20_000 for path in expected)
    header = (tmp_path / "new" / "readme.png").read_bytes()[16:24]
    assert struct.unpack(">II", header) == (1600, 500)


def test_what_cannot_be_drawn_is_refused(capsys, tmp_path):
    (tmp_path / "file").write_text("in the way")
    for arguments, code, says in (
        (["nonsense"], 2, "name a folder of runs, or illustrations"),
        (["illustrations", "--out", str(tmp_path / "file")], 73, "cannot write"),
    ):
        with pytest.raises(SystemExit) as caught:
            main(["figures", *arguments])
        assert caught.value.code == code
        assert says in capsys.readouterr().err


def test_help_names_every_option(capsys):
    with pytest.raises(SystemExit):
        main(["figures", "--help"])
    text = capsys.readouterr().out
    assert "--out" in text and "illustrations" in text


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

"""The paper's illustrations, played by the real controllers."""

import struct

import numpy as np
import pytest

from sidequest.cli import main
from sidequest.cli.figures import play
from sidequest.figures import scenes
from sidequest.figures import style as look
from sidequest.figures.illustrations import (
    Point,
    draw_characteristics,
    draw_granularities,
    place_points,
    write_name,
)
from sidequest.switching.variants import parse


@pytest.fixture(scope="module")
def rows():
    return {row.label: row for row in play(scenes.FIGURE_1, *scenes.GRANULARITIES)}


@pytest.fixture(scope="module")
def points(rows):
    return {point.label: point for point in place_points(list(rows.values()))}


def test_every_scene_has_a_canonical_name():
    groups = (*scenes.DESIGN_SPACE, *scenes.DESIGN_SPACE_APPENDIX)
    cast = [scene for group in groups for scene in group.scenes]
    for scene in (*cast, *scenes.GRANULARITIES, *scenes.IN_BRIEF, scenes.PROMISE):
        assert str(parse(scene.variant)) == scene.variant


def test_figure_1_keeps_the_promises_of_its_caption(points):
    assert list(points) == list("ABCDEFG")
    assert points["A"].p == 1.0
    assert points["A"].median > scenes.FIGURE_1.episode  # not ended by an episode's end
    assert points["B"].median == scenes.FIGURE_1.episode
    assert points["C"].median == 1
    shares = [points[letter].p for letter in "CDEF"]
    assert max(shares) - min(shares) < 0.05
    assert abs(np.mean(shares) - 0.2) < 0.05
    assert points["D"].median == points["E"].median == 5
    assert points["F"].median > points["D"].median
    for letter in "DEFG":
        assert 1 < points[letter].median < scenes.FIGURE_1.episode
    assert points["G"].p > 0.5


def test_d_is_spread_out_and_e_explores_toward_the_end(rows):
    def share_of_late_steps(letter: str) -> float:
        episodes = rows[letter].trace.modes.reshape(scenes.FIGURE_1.shown, -1)
        return episodes[:, scenes.FIGURE_1.episode // 2 :].sum() / episodes.sum()

    assert share_of_late_steps("D") == 0.5
    assert share_of_late_steps("E") > 0.75


def test_b_has_both_kinds_of_episodes_and_none_is_mixed(rows):
    episodes = rows["B"].trace.modes.reshape(scenes.FIGURE_1.shown, -1)
    assert set(episodes.mean(1)) == {0.0, 1.0}


def test_figure_1_draws_every_row_and_every_point(rows, points):
    left, right = draw_granularities(list(rows.values()), scenes.FIGURE_1.episode).axes
    assert [label.get_text() for label in left.get_yticklabels()] == list("ABCDEFG")
    dots = {(x, y) for line in right.lines for x, y in zip(*line.get_data(), strict=True)}
    assert {(point.median, point.p) for point in points.values()} <= dots
    assert right.get_xscale() == "log"


def test_points_that_coincide_share_a_label():
    axes = look.new_figure(3, 3).subplots()
    near = [Point("D", 0.2, 5.0), Point("E", 0.19, 5.0), Point("F", 0.2, 20.0)]
    draw_characteristics(axes, near, episode=100)
    written = {text.get_text() for text in axes.texts}
    assert {"D, E", "F"} <= written and "D" not in written


def test_each_group_of_figure_2_differs_in_its_choice_alone():
    bases = []
    for group in scenes.DESIGN_SPACE:
        names = [scene.variant for scene in group.scenes]
        choices = [name.partition("(")[2].removesuffix(")").split(",") for name in names]
        differing = {i for i in range(4) if len({choice[i] for choice in choices}) > 1}
        assert differing == {group.choice}
        bases.append(set(names))
    assert len(set.intersection(*bases)) == 1  # one variant is in every group


def test_different_choices_make_different_strips():
    for group in scenes.DESIGN_SPACE:
        played = play(scenes.FIGURE_2, *group.scenes)
        strips = {row.trace.modes.tobytes() for row in played}
        assert len(strips) == len(played)


def test_the_choice_in_question_is_the_bold_part_of_the_name():
    axes = look.new_figure(3, 1).subplots()
    write_name(axes, "XU-intra(10,informed,0.01,X)", 0.0, choice=1)
    plain, bold = (text.get_text() for text in axes.texts)
    assert bold.rstrip("\N{NO-BREAK SPACE}") == "informed"
    assert plain == "XU-intra(10,        ,0.01,X)"
    assert len(bold) == len("informed,0.01,X)")


def test_the_command_writes_every_figure_and_says_where(capsys, tmp_path):
    with pytest.raises(SystemExit) as caught:
        main(["figures", "illustrations", "--out", str(tmp_path / "new")])
    assert not caught.value.code
    printed = capsys.readouterr().out.split()
    names = ("figure-1", "figure-2", "figure-2-appendix", "readme")
    expected = [
        tmp_path / "new" / f"{name}{end}" for name in names for end in look.SUFFIXES
    ]
    assert printed == [str(path) for path in expected]
    assert all(path.stat().st_size > 20_000 for path in expected)
    header = (tmp_path / "new" / "readme.png").read_bytes()[16:24]
    assert struct.unpack(">II", header) == (1600, 500)


def test_what_cannot_be_drawn_is_refused(capsys, tmp_path):
    (tmp_path / "file").write_text("in the way")
    for arguments, says in (
        (["nonsense"], "name a folder of runs, or illustrations"),
        (["illustrations", "--out", str(tmp_path / "file")], "cannot write"),
    ):
        with pytest.raises(SystemExit) as caught:
            main(["figures", *arguments])
        assert caught.value.code == 2
        assert says in capsys.readouterr().err


def test_help_names_every_option(capsys):
    with pytest.raises(SystemExit):
        main(["figures", "--help"])
    text = capsys.readouterr().out
    assert "--out" in text and "illustrations" in text

"""The look of variants, and what all figures share."""

import itertools

import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from sidequest.figures import style
from sidequest.study.studies import STUDIES
from sidequest.switching.variants import parse
from tests.figures.made_up import VARIANTS
from tests.reliability.test_disk import largest_file


def test_a_variant_looks_the_same_whatever_its_explore_mode():
    assert style.look("XU-step-level-0.01") == style.look("step-level-0.01")
    assert style.look("Xγ-step-level-0.01") == style.look("XI-step-level-0.01")
    assert style.look("XU-step-level-0.01").letter == "C"


def test_every_setting_of_every_study_has_a_letter_and_a_colour_of_its_own():
    names = {name[3:] for study in STUDIES.values() for name in study.variants}
    assert names <= {*style._LOOKS}
    looks = [style.look(name) for name in names | {name[3:] for name in VARIANTS}]
    assert len({one.letter for one in looks}) == len(looks)
    assert not {one.letter for one in looks} & {"G", "X"}  # those are modes
    assert len({colour for _, colour, _ in style._LOOKS.values()}) == len(style._LOOKS)
    for name in style._LOOKS:
        assert str(parse(f"XU-{name}")) == f"XU-{name}"


def test_settings_that_the_paper_does_not_name_have_two_letters():
    assert len(style.look("XU-step-level-0.3").letter) == 2
    assert style.look("XU-step-level-0.3") == style.look("XI-step-level-0.3")


def test_settings_of_one_colour_have_several_markers():
    looks = [style.look(f"XU-step-level-0.{number}") for number in range(200, 900)]
    assert len({one.colour for one in looks}) == 20
    assert len({(one.colour, one.marker) for one in looks}) == 100


def test_the_legend_has_each_setting_once_by_letter():
    names = [
        "XI-step-level-0.01",
        "XU-step-level-0.3",
        "XU-step-level-0.01",
        "XU-episode-level-*",
    ]
    labels = [str(key.get_label()) for key in style.keys(names)]
    assert [label.partition("  ")[2] for label in labels] == [
        "step-level-0.01",
        "episode-level-*",
        "step-level-0.3",
    ]


@pytest.mark.parametrize(
    ("title", "letters", "lines"),
    [
        ("XU  minatar:breakout", 20, ["XU  minatar:breakout"]),
        ("minigrid:empty_8x8", 12, ["minigrid:", "empty_8x8"]),
        ("A\nminigrid:empty_8x8", 12.7, ["A", "minigrid:", "empty_8x8"]),
        ("montezuma_revenge", 16, ["montezuma_", "revenge"]),
        ("a_long_name_without_suite", 10, ["a_long_", "name_", "without_", "suite"]),
        ("thisnameisonelongword", 10, ["thisnameis", "onelongwor", "d"]),
        ("$x", 9, [r"\$x"]),
    ],
)
def test_titles_that_do_not_fit_are_broken(title, letters, lines):
    assert style.fit(title, letters).split("\n") == lines


@pytest.mark.parametrize(
    ("number", "lengths"), [(0, []), (3, [3]), (5, [3, 2]), (7, [4, 3])]
)
def test_rows_are_as_equal_as_possible(number, lengths):
    assert [len(row) for row in style.in_rows(range(number), 4)] == lengths


def test_letters_stay_clear_of_each_other_and_of_points():
    figure = style.new_figure(3, 3)
    axes = figure.subplots()
    points = [(letter, "black", 0.5 + 0.01 * i, 0.5) for i, letter in enumerate("ABCDEF")]
    style.write_letters(axes, points, 7)
    figure.draw_without_rendering()
    boxes = [Text.get_window_extent(text) for text in axes.texts]  # without the lines
    assert not any(one.overlaps(two) for one, two in itertools.combinations(boxes, 2))
    dots = axes.transData.transform([(x, y) for _, _, x, y in points])
    assert not any(box.contains(*dot) for box in boxes for dot in dots)
    assert all(axes.bbox.contains(box.x0, box.y0) for box in boxes)


@pytest.mark.parametrize(
    ("values", "low", "high"), [([0, 0], 0, 1), ([3, 5], 0, 5), ([-4, -2], -4, 0)]
)
def test_an_axis_shows_zero(values, low, high):
    axes = style.new_figure(3, 3).subplots()
    axes.plot(values)
    style.show_zero(axes)
    bottom, top = axes.get_ylim()
    assert bottom == pytest.approx(low - 0.04 * (high - low))
    assert top == pytest.approx(low + 1.06 * (high - low))


@pytest.mark.parametrize("suffix", style.SUFFIXES)
def test_a_full_disk_leaves_the_picture_that_was_there(suffix, tmp_path):
    path, figure = tmp_path / f"picture{suffix}", Figure()
    figure.text(0.5, 0.5, "picture")
    path.write_bytes(b"before")
    with largest_file(100), pytest.raises(OSError):
        style.save(figure, path)
    assert path.read_bytes() == b"before" and list(tmp_path.iterdir()) == [path]
    style.save(figure, path)
    assert path.stat().st_size > 1_000

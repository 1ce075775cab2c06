"""Learning curves of made-up runs whose right answer is known."""

import numpy as np
import pytest

from sidequest.figures import style as look
from sidequest.figures.curves import Style, draw_panel, read_curve, read_curves
from sidequest.figures.reading import read_records
from sidequest.records import Recorder

STEP, INTRA = "XU-step-level-0.01", "XU-intra(10,blind,100,G)"
STYLES = {"step": Style("#ff0000", "o"), "intra": Style("#00ff00", "s")}


def make_run(folder, variant, seed, evaluations):
    """A run whose evaluations are {frames: returns}."""
    recorder = Recorder(folder, {"variant": variant, "game": "game:one", "seed": seed})
    for frames, returns in evaluations.items():
        rows = [{"frames": frames, "return": one, "length": 1} for one in returns]
        recorder.write("evaluations", rows)
    return recorder


@pytest.fixture
def lines(tmp_path):
    make_run(tmp_path / "a", STEP, 0, {1e6: [1, 3], 2e6: [4], 3e6: [6]}).finish()
    make_run(tmp_path / "b", STEP, 1, {1e6: [6], 2e6: [10]}).close()  # still going
    make_run(tmp_path / "c", INTRA, 0, {}).close()  # not evaluated yet
    runs = read_records(tmp_path).runs
    return {"step": runs[:2], "intra": runs[2:]}


def test_a_point_is_the_mean_of_its_episodes(lines):
    curve = read_curve(lines["step"][0])
    np.testing.assert_array_equal(curve.frames, [1e6, 2e6, 3e6])
    np.testing.assert_array_equal(curve.returns, [2.0, 4.0, 6.0])
    assert read_curves(lines["intra"]) == []


def test_a_line_is_the_mean_over_seeds_as_far_as_all_go_and_the_band_spans_them(lines):
    axes = look.new_figure(3, 3).subplots()
    draw_panel(axes, lines, STYLES)
    mean = axes.lines[-1]
    assert mean.get_label() == STEP and mean.get_color() == "#ff0000"
    np.testing.assert_allclose(mean.get_xdata(), [1.0, 2.0])
    np.testing.assert_allclose(mean.get_ydata(), [4.0, 7.0])
    (band,) = axes.collections
    heights = band.get_paths()[0].vertices[:, 1]
    assert (heights.min(), heights.max()) == (2.0, 10.0)
    longest = max(axes.lines, key=lambda line: len(line.get_xdata()))
    np.testing.assert_allclose(longest.get_ydata(), [2.0, 4.0, 6.0])  # a seed's own line
    assert axes.get_xlabel() == "million frames"


def test_a_coarse_run_that_went_further_ends_where_the_other_does(tmp_path):
    make_run(tmp_path / "a", STEP, 0, {1e3: [0], 3e3: [4]}).finish()
    make_run(tmp_path / "b", STEP, 1, {1e3: [0], 1.5e3: [1], 2e3: [8]}).close()
    axes = look.new_figure(3, 3).subplots()
    draw_panel(axes, {"step": read_records(tmp_path).runs}, STYLES)
    np.testing.assert_allclose(axes.lines[-1].get_xdata(), [1.0, 1.5, 2.0])
    np.testing.assert_allclose(axes.lines[-1].get_ydata(), [0.0, 1.0, 5.0])


def test_seeds_with_other_cadences_meet_where_both_are(tmp_path):
    make_run(tmp_path / "a", STEP, 0, {1e3: [0], 2e3: [2], 3e3: [4]}).finish()
    make_run(tmp_path / "b", STEP, 1, {1.5e3: [10], 2.5e3: [20]}).finish()
    axes = look.new_figure(3, 3).subplots()
    draw_panel(axes, {"step": read_records(tmp_path).runs}, STYLES)
    np.testing.assert_allclose(axes.lines[-1].get_xdata(), [1.5, 2.5])
    np.testing.assert_allclose(axes.lines[-1].get_ydata(), [(1 + 10) / 2, (3 + 20) / 2])
    assert axes.get_xlabel() == "thousand frames"

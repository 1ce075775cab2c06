"""Learning curves of made-up runs whose right answer is known."""

import numpy as np
import pytest

from sidequest.figures.curves import draw_curves, read_curves
from sidequest.runs.records import Recorder


def make_run(folder, variant, game, seed, evaluations):
    """A run whose evaluations are {frames: returns}."""
    recorder = Recorder(folder, {"variant": variant, "game": game, "seed": seed})
    for frames, returns in evaluations.items():
        recorder.write(
            "evaluations",
            [{"frames": frames, "return": one, "length": 1} for one in returns],
        )
    return recorder


@pytest.fixture
def study(tmp_path):
    step, intra = "XU-step-level-0.01", "XU-intra(10,blind,100,G)"
    make_run(tmp_path / "a", step, "game:one", 0, {1e6: [1, 3], 2e6: [4]}).finish()
    make_run(tmp_path / "b", step, "game:one", 1, {1e6: [6], 2e6: [10]}).finish()
    # Still going: one evaluation less than the others; and one that has none at all.
    make_run(tmp_path / "c", intra, "game:two", 0, {1e6: [5.0]}).close()
    make_run(tmp_path / "d", intra, "game:one", 0, {}).close()
    return tmp_path


def test_runs_are_read_finished_or_not(study):
    curves = read_curves(study)
    assert [(curve.game, curve.seed) for curve in curves] == [
        ("game:one", 0),
        ("game:one", 1),
        ("game:two", 0),
    ]
    np.testing.assert_array_equal(curves[0].frames, [1e6, 2e6])
    np.testing.assert_array_equal(curves[0].returns, [2.0, 4.0])


def test_a_line_is_the_mean_over_seeds_and_the_band_spans_them(study):
    figure = draw_curves(read_curves(study))
    first, second = figure.axes
    assert (first.get_title(), second.get_title()) == ("game:one", "game:two")
    (mean,) = [line for line in first.lines if line.get_label().startswith("XU-step")]
    assert mean.get_label() == "XU-step-level-0.01 (2 seeds)"
    np.testing.assert_allclose(mean.get_xdata(), [1.0, 2.0])
    np.testing.assert_allclose(mean.get_ydata(), [4.0, 7.0])
    (band,) = first.collections
    heights = band.get_paths()[0].vertices[:, 1]
    assert (heights.min(), heights.max()) == (2.0, 10.0)
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["XU-step-level-0.01 (2 seeds)", "XU-intra(10,blind,100,G) (1 seeds)"]

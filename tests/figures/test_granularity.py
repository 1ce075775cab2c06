"""Figure 10."""

import numpy as np

from sidequest.figures.granularity import curves_show, draw_learning_curves
from tests.figures.made_up import GAMES, Cell
from tests.figures.seen import labelled, panels_of


def test_learning_curves_have_a_panel_for_each_mode_and_game(records):
    figure = draw_learning_curves(records)
    panels = panels_of(figure)
    assert list(panels) == [f"{m}  {game}" for m in ("XU", "XI", "XS") for game in GAMES]
    line = labelled(panels["XU  minatar:breakout"], "XU-step-level-0.01")
    np.testing.assert_allclose(line.get_ydata()[-1], 31.0)  # seeds score 30 and 32


def test_what_is_shown_is_said(records, study_of):
    assert "the highest mean is intra-episodic in 2" in curves_show(records)
    alone = study_of(Cell("XU-step-level-0.01", GAMES[0], 0, 5.0))
    assert draw_learning_curves(alone) is None
    assert "two granularities" in curves_show(alone)

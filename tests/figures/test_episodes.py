"""Figures 5 and 12, and figure 1 from records."""

import numpy as np
from matplotlib.colors import to_rgba

from sidequest.figures import style
from sidequest.figures.episodes import (
    _draw_episodes,
    all_episodes,
    blind_and_informed,
    granularities,
)
from tests.figures.made_up import GAMES, Cell
from tests.figures.seen import labelled, notes_of, panels_of

BLIND, INFORMED = "XU-intra(10,blind,100,G)", "XU-intra(10,informed,0.01,G)"


def bars(collection):
    """(left, right, middle) of each bar."""
    boxes = [path.get_extents() for path in collection.get_paths()]
    return [(box.x0, box.x1, (box.y0 + box.y1) / 2) for box in boxes]


def test_rows_are_episodes_and_bars_are_periods():
    axes = style.new_figure(3, 2).subplots()
    _draw_episodes(axes, ["GGXXG", "XGGGGGGGX"], longest=7)
    exploit, explore = axes.collections
    assert bars(exploit) == [(0, 5, 0), (0, 7, 1)]
    assert bars(explore) == [(2, 4, 0), (0, 1, 1)]  # the last X lies beyond what is shown
    assert tuple(exploit.get_facecolor()[0]) == to_rgba(style.BLUE)
    assert tuple(explore.get_facecolor()[0]) == to_rgba(style.MAGENTA)
    heights = [c.get_paths()[0].get_extents().height for c in (exploit, explore)]
    assert heights[0] < heights[1]  # the cue for those who see no hue


def test_blind_stands_left_of_informed_with_both_curves_beside(plots):
    figure = plots["episodes"].figure
    first, second, curves = figure.axes[:3]
    assert first.get_ylabel() == GAMES[0]
    assert first.get_title() == f"{BLIND}\n$p_X$ = 0.07"  # 30 of 400 steps
    assert second.get_title() == f"{INFORMED}\n$p_X$ = 0.10"  # 40 of 400
    assert len(bars(first.collections[0])) == len(bars(second.collections[0])) == 15
    starts = {left for left, _, _ in bars(first.collections[1])}
    assert starts == {100, 210, 320}  # every row alike
    assert len({left for left, _, _ in bars(second.collections[1])}) > 20
    for name, score in ((BLIND, 61.0), (INFORMED, 71.0)):
        np.testing.assert_allclose(labelled(curves, name).get_ydata()[-1], score)


def test_every_intra_episodic_variant_has_a_panel(plots):
    figure = plots["episodes-all"].figure
    shown = [axes.get_title() for axes in figure.axes if axes.get_visible()]
    assert len(shown) == 2 * 22 and set(shown) == set(panels_of(figure))
    assert not any("level" in title for title in shown)


def test_granularities_are_real_strips_of_equal_length(plots):
    figure, caption, _ = plots["granularities"]
    left, right = figure.axes
    assert [label.get_text() for label in left.get_yticklabels()] == list("ABCDE")
    assert left.get_xlim() == (0, 5 * 400)
    assert any("minatar:breakout" in text.get_text() for text in figure.texts)
    assert right.get_xscale() == "log"
    assert "XU-experiment-level-X 1.00" in caption


def test_what_is_shown_is_said(plots, study_of):
    assert "blind p_X 0.07, unevenness 0.00" in plots["episodes"].caption
    assert f"{BLIND} 0.07" in plots["episodes-all"].caption
    alone = study_of(Cell(BLIND, GAMES[0], 0, 1.0))
    assert blind_and_informed(alone) is None
    nothing = study_of(Cell(BLIND, GAMES[0], 0, 1.0, share=0.0))
    assert all_episodes(nothing) is None and granularities(nothing) is None


def test_episodes_are_drawn_without_repetition_and_in_order(study_of):
    records = study_of(*(Cell(INFORMED, GAMES[0], seed, 1.0) for seed in (0, 1)))
    (first, *_), (again, *_) = (all_episodes(records).figure.axes for _ in range(2))
    assert bars(first.collections[1]) == bars(again.collections[1])
    starts = [left for left, _, _ in bars(first.collections[1])]
    assert len(set(starts)) > 40  # each of the 15 episodes has four periods of its own


def test_few_episodes_of_a_run_that_is_going_are_drawn_and_noted(study_of):
    cells = [Cell(name, GAMES[0], 0, 1.0, share=0.2) for name in (BLIND, INFORMED)]
    figure = blind_and_informed(study_of(*cells)).figure
    assert len(bars(figure.axes[0].collections[0])) == 4  # 20 are recorded in a whole run
    assert "2 runs still training or interrupted" in notes_of(figure)

"""Figures 5 and 12, and figure 1 from records."""

import numpy as np
from matplotlib.colors import to_rgba

from sidequest.figures import style as look
from sidequest.figures.episodes import (
    all_episodes_show,
    blind_and_informed_show,
    draw_all_episodes,
    draw_blind_and_informed,
    draw_episodes,
    draw_from,
    draw_real_granularities,
    granularities_show,
)
from tests.figures.made_up import GAMES, Cell
from tests.figures.seen import labelled, notes_of, panels_of

BLIND, INFORMED = "XU-intra(10,blind,100,G)", "XU-intra(10,informed,0.01,G)"


def bars(collection):
    """(left, right, middle) of each bar."""
    boxes = [path.get_extents() for path in collection.get_paths()]
    return [(box.x0, box.x1, (box.y0 + box.y1) / 2) for box in boxes]


def test_rows_are_episodes_and_bars_are_periods():
    axes = look.new_figure(3, 2).subplots()
    draw_episodes(axes, ["GGXXG", "XGGGGGGGX"], longest=7)
    exploit, explore = axes.collections
    assert bars(exploit) == [(0, 5, 0), (0, 7, 1)]
    assert bars(explore) == [(2, 4, 0), (0, 1, 1)]  # the last X lies beyond what is shown
    assert tuple(exploit.get_facecolor()[0]) == to_rgba(look.BLUE)
    assert tuple(explore.get_facecolor()[0]) == to_rgba(look.MAGENTA)
    heights = [c.get_paths()[0].get_extents().height for c in (exploit, explore)]
    assert heights[0] < heights[1]  # the cue for those who see no hue


def test_episodes_are_drawn_without_repetition_and_in_order():
    episodes = [str(number) for number in range(40)]
    drawn = draw_from(np.random.default_rng(0), episodes, 15)
    assert len(set(drawn)) == 15 and [int(one) for one in drawn] == sorted(map(int, drawn))
    assert draw_from(np.random.default_rng(0), episodes, 15) == drawn
    assert draw_from(np.random.default_rng(0), ["G", "X"], 15) == ["G", "X"]


def test_blind_stands_left_of_informed_with_both_curves_beside(records):
    figure = draw_blind_and_informed(records)
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


def test_every_intra_episodic_variant_has_a_panel(records):
    figure = draw_all_episodes(records)
    shown = [axes.get_title() for axes in figure.axes if axes.get_visible()]
    assert len(shown) == 2 * 22 and set(shown) == set(panels_of(figure))
    assert not any("level" in title for title in shown)


def test_granularities_are_real_strips_of_equal_length(records):
    figure = draw_real_granularities(records)
    left, right = figure.axes
    assert [label.get_text() for label in left.get_yticklabels()] == list("ABCDE")
    assert left.get_xlim() == (0, 5 * 400)
    assert any("minatar:breakout" in text.get_text() for text in figure.texts)
    assert right.get_xscale() == "log"
    assert "XU-experiment-level-X 1.00" in granularities_show(records)


def test_what_is_shown_is_said(records, study_of):
    said = blind_and_informed_show(records)
    assert "blind p_X 0.07, unevenness 0.00" in said
    assert f"{BLIND} 0.07" in all_episodes_show(records)
    alone = study_of(Cell(BLIND, GAMES[0], 0, 1.0))
    assert draw_blind_and_informed(alone) is None
    assert "informed" in blind_and_informed_show(alone)
    nothing = study_of(Cell(BLIND, GAMES[0], 0, 1.0, share=0.0))
    assert draw_all_episodes(nothing) is None and draw_real_granularities(nothing) is None
    assert "traces" in all_episodes_show(nothing) and "traces" in granularities_show(
        nothing
    )


def test_few_episodes_of_a_run_that_is_going_are_drawn_and_noted(study_of):
    cells = [Cell(name, GAMES[0], 0, 1.0, share=0.2) for name in (BLIND, INFORMED)]
    figure = draw_blind_and_informed(study_of(*cells))
    assert len(bars(figure.axes[0].collections[0])) == 4  # 20 are recorded in a whole run
    assert "2 runs are still going" in notes_of(figure)

"""Figures 5 and 12, and figure 1 from records."""

import numpy as np
from matplotlib.colors import to_rgb

from sidequest.figures import style
from sidequest.figures.episodes import (
    _draw_episodes,
    all_episodes,
    blind_and_informed,
    granularities,
)
from tests.figures.made_up import GAMES, Cell
from tests.figures.seen import labelled

BLIND, INFORMED = "XU-intra(10,blind,100,G)", "XU-intra(10,informed,0.01,G)"


def bars(axes, colour):
    """(left, right, middle) of each bar of a colour."""
    found = [
        one
        for one in axes.collections
        if one.get_facecolor()[0][:3].tolist() == [*to_rgb(colour)]
    ]
    boxes = [path.get_extents() for one in found for path in one.get_paths()]
    return [(box.x0, box.x1, (box.y0 + box.y1) / 2) for box in boxes]


def test_rows_are_episodes_and_bars_are_periods():
    axes = style.new_figure(3, 2).subplots()
    _draw_episodes(axes, ["GGXXG", "XGGGGGGGX"], longest=7)
    assert bars(axes, style.BLUE) == [(0, 5, 0), (0, 7, 1)]
    # The last X lies beyond what is shown.
    assert bars(axes, style.MAGENTA) == [(2, 4, 0), (0, 1, 1)]


def test_blind_stands_left_of_informed_with_both_curves_beside(plots):
    figure = plots["episodes"].figure
    first, second, curves = figure.axes[:3]
    assert first.get_ylabel() == GAMES[0]
    assert first.get_title() == f"{BLIND}\n$p_X$ = 0.07"  # 30 of 400 steps
    assert second.get_title() == f"{INFORMED}\n$p_X$ = 0.10"  # 40 of 400
    assert len(bars(first, style.BLUE)) == len(bars(second, style.BLUE)) == 15
    starts = {left for left, _, _ in bars(first, style.MAGENTA)}
    assert starts == {100, 210, 320}  # every row alike
    assert len({left for left, _, _ in bars(second, style.MAGENTA)}) > 20
    for name, score in ((BLIND, 61.0), (INFORMED, 71.0)):
        np.testing.assert_allclose(labelled(curves, name).get_ydata()[-1], score)


def test_figure_12_has_a_row_for_each_game_and_the_papers_columns(study_of):
    columns = [f"XU-intra(10,blind,{steps},G)" for steps in (100, 1000)]
    columns += [f"XU-intra(10,informed,{rate},G)" for rate in (0.01, 0.001)]
    others = ["XU-intra(10,informed,p*,X)", "XI-intra(10,blind,100,G)"]
    cells = [Cell(name, game, 0, 1.0) for name in [*others, *columns] for game in GAMES]
    axes = all_episodes(study_of(*cells)).figure.axes
    assert [one.get_title() for one in axes[:4]] == columns
    assert len(axes) == 4 * len(GAMES)
    assert [one.get_ylabel() for one in axes[::4]] == list(GAMES)


def test_other_studies_show_what_they_have(study_of):
    names = [f"XI-intra({n},blind,n*,G)" for n in (1, 2, 3, 4, 5)]
    cells = [Cell(name, GAMES[0], 0, 1.0) for name in names]
    axes = all_episodes(study_of(*cells)).figure.axes
    assert [one.get_title() for one in axes] == names[:4]


def test_figure_5_has_the_papers_games(study_of):
    games = ("alien", "frostbite", "gravitar")
    cells = [Cell(name, game, 0, 1.0) for name in (BLIND, INFORMED) for game in games]
    figure = blind_and_informed(study_of(*cells)).figure
    assert [axes.get_ylabel() for axes in figure.axes[::3]] == ["frostbite", "gravitar"]


def test_granularities_are_real_strips_of_equal_length(plots):
    figure, caption, _ = plots["granularities"]
    left, right = figure.axes
    assert [label.get_text() for label in left.get_yticklabels()] == list("ABCDE")
    assert left.get_xlim() == (0, 5 * 400)
    assert any("minatar:breakout" in text.get_text() for text in figure.texts)
    assert right.get_xscale() == "log"
    assert "to 1.00 (XU-experiment-level-X)" in caption


def test_what_is_shown_is_said(plots, study_of):
    _, caption, table = plots["episodes"]
    assert "less evenly spaced than blind ones on 2 of 2 games" in caption
    blind = table.row(0, named=True)
    assert (blind["variant"], blind["p_X"], blind["unevenness"]) == (BLIND, 0.075, 0.0)
    assert f"from 0.07 ({BLIND})" in plots["episodes-all"].caption
    alone = study_of(Cell(BLIND, GAMES[0], 0, 1.0))
    assert blind_and_informed(alone) is None
    nothing = study_of(Cell(BLIND, GAMES[0], 0, 1.0, share=0.0))
    assert all_episodes(nothing) is None and granularities(nothing) is None


def test_episodes_are_drawn_without_repetition_and_in_order(study_of):
    records = study_of(*(Cell(INFORMED, GAMES[0], seed, 1.0) for seed in (0, 1)))
    (first, *_), (again, *_) = (all_episodes(records).figure.axes for _ in range(2))
    assert bars(first, style.MAGENTA) == bars(again, style.MAGENTA)
    starts = [left for left, _, _ in bars(first, style.MAGENTA)]
    assert len(set(starts)) > 40  # each of the 15 episodes has four periods of its own


def test_few_episodes_of_a_run_that_is_going_are_drawn(study_of):
    cells = [Cell(name, GAMES[0], 0, 1.0, share=0.2) for name in (BLIND, INFORMED)]
    figure = blind_and_informed(study_of(*cells)).figure
    assert len(bars(figure.axes[0], style.BLUE)) == 4  # 20 are recorded in a whole run

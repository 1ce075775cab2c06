"""Figures 4 and 11."""

import numpy as np

from sidequest.figures.space import explore_space, explore_space_all
from tests.figures.made_up import EPISODES, GAMES, Cell, late_p_of
from tests.figures.seen import legend_of, panels_of

ADAPTIVE, FIXED = "XU-intra(=,informed,p*,G)", "XU-intra(10,blind,100,G)"


def marks(axes, marker):
    """Places of all marks of a kind, as (x, y)."""
    return [
        (line.get_xdata()[0], line.get_ydata()[0])
        for line in axes.lines
        if line.get_marker() == marker
    ]


def test_squares_are_the_first_tenth_and_crosses_the_last(study_of):
    cells = [
        Cell(name, GAMES[0], 0, score) for name, score in ((ADAPTIVE, 3.0), (FIXED, 5.0))
    ]
    figure = explore_space(study_of(*cells)).figure
    panel, scores = figure.axes
    late, slope = late_p_of(ADAPTIVE), 0.3 / (EPISODES - 1)
    # The first tenth has episodes 1 to 4, the last 37 to 40.
    early = late + slope * (EPISODES - np.mean([1, 2, 3, 4]))
    end = late + slope * (EPISODES - np.mean([37, 38, 39, 40]))
    squares, crosses = marks(panel, "s"), marks(panel, "x")
    np.testing.assert_allclose(squares[0], (early / 4, early))
    np.testing.assert_allclose(crosses[0], (end / 4, end))
    fixed = late_p_of(FIXED)
    np.testing.assert_allclose(squares[1], (fixed / 4, fixed))
    np.testing.assert_allclose(crosses[1], (fixed / 4, fixed))
    assert legend_of(figure) == [
        "A  intra(=,informed,p*,G)",
        "B  intra(10,blind,100,G)",
    ]
    assert [text.get_text() for text in panel.texts] == ["A", "B"]
    assert [tick.get_text() for tick in scores.get_xticklabels()] == ["A", "B"]
    dots = marks(scores, "o")
    np.testing.assert_allclose(dots, [(0, 3.0), (1, 5.0)])


def test_scores_span_the_seeds(study_of):
    cells = [Cell(FIXED, GAMES[0], seed, score) for seed, score in ((0, 2.0), (1, 8.0))]
    _, scores = explore_space(study_of(*cells)).figure.axes
    (bar,) = scores.collections
    np.testing.assert_allclose(bar.get_segments()[0][:, 1], [2.0, 8.0])


def test_the_main_figure_has_eight_settings_and_the_other_one_all(plots):
    main, whole = (plots[name].figure for name in ("explore-space", "explore-space-all"))
    assert len(legend_of(main)) == 8 and len(legend_of(whole)) == 15
    settings = {entry.partition("  ")[2] for entry in legend_of(main)}
    assert "episode-level-*" in settings and "step-level-0.01" not in settings
    titles = [title for title in panels_of(whole) if title]
    assert titles == [f"{mode}  {game}" for mode in ("XU", "XI", "XS") for game in GAMES]


def test_the_same_setting_has_the_same_letter_in_every_mode(study_of):
    other = FIXED.replace("XU", "XI")
    cells = [Cell(name, GAMES[0], 0, 1.0) for name in (ADAPTIVE, FIXED, other)]
    panels = panels_of(explore_space_all(study_of(*cells)).figure)
    assert [t.get_text() for t in panels[f"XI  {GAMES[0]}"].texts] == ["B"]


def test_crosses_on_top_of_each_other_share_a_label(study_of):
    records = study_of(
        Cell("XI-intra(10,informed:mismatch,p*,X)", GAMES[0], 0, 1.0),
        Cell("XI-intra(10,informed:variance,p*,X)", GAMES[0], 0, 1.0),
    )
    panel = explore_space(records).figure.axes[0]
    assert [text.get_text() for text in panel.texts] == ["A,B"]


def test_what_is_shown_is_said(plots, study_of):
    plot = plots["explore-space-all"]
    assert "p_X fell by more than 0.02 in 16 of 16 places" in plot.caption
    assert len(plot.table) == 2 * 32  # every variant on every game
    nothing = study_of(Cell(FIXED, GAMES[0], 0, 1.0, share=0.0))
    assert explore_space(nothing) is None

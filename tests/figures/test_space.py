"""Figures 4 and 11."""

import numpy as np

from sidequest.figures import space, style
from sidequest.figures.space import explore_space
from tests.figures import made_up
from tests.figures.made_up import EPISODES, GAMES, Cell, late_p_of
from tests.figures.seen import legend_of, notes_of, panels_of

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
    looks = [style.look(name) for name in (ADAPTIVE, FIXED)]
    letters = [own.letter for own in looks]
    assert legend_of(figure) == [
        f"{letters[0]}  {ADAPTIVE[3:]}",
        f"{letters[1]}  {FIXED[3:]}",
    ]
    assert [text.get_text() for text in panel.texts] == letters
    assert [tick.get_text() for tick in scores.get_xticklabels()] == letters
    assert marks(scores, looks[0].marker) == [(0, 3.0)]
    assert marks(scores, looks[1].marker) == [(1, 5.0)]


def test_scores_span_three_seeds_and_two_are_dots(study_of):
    for values in ((2.0, 5.0, 8.0), (2.0, 8.0)):
        cells = [Cell(FIXED, GAMES[0], seed, one) for seed, one in enumerate(values)]
        _, scores = explore_space(study_of(*cells)).figure.axes
        seeds = scores.lines[0]
        np.testing.assert_allclose(seeds.get_ydata(), [2.0, 8.0])
        assert (seeds.get_linestyle() == "-") == (len(values) == 3)
        np.testing.assert_allclose(scores.lines[1].get_ydata(), [5.0])


def test_a_variant_without_a_place_is_not_said_to_have_never_explored(
    study_of, monkeypatch
):
    """Its episodes are long: none ended in the last tenth."""
    rows = made_up.episode_rows

    def early(variant):
        return rows(variant)[: 20 if str(variant) == FIXED else None]

    monkeypatch.setattr(made_up, "episode_rows", early)
    records = study_of(Cell(FIXED, GAMES[0], 0, 3.0), Cell(ADAPTIVE, GAMES[0], 0, 3.0))
    why = "Not drawn, as no episode that explored ended in the last 10% of training"
    assert f"{why}: {FIXED}." in notes_of(explore_space(records).figure)


def test_a_variant_that_one_game_lacks_is_named_with_the_game(study_of, monkeypatch):
    rows, silent = made_up.evaluation_rows, []

    def remember(cell):
        silent.append(cell.game == GAMES[1] and cell.variant == FIXED)
        return rows(cell)

    def episodes(variant, rows=made_up.episode_rows):
        none = {"p_X": 0.0, "med_X": None, "rmed_X": None} if silent[-1] else {}
        return [row | none for row in rows(variant)]

    monkeypatch.setattr(made_up, "evaluation_rows", remember)
    monkeypatch.setattr(made_up, "episode_rows", episodes)
    cells = [Cell(name, game, 0, 3.0) for name in (FIXED, ADAPTIVE) for game in GAMES]
    notes = notes_of(explore_space(study_of(*cells)).figure)
    assert f"in the last 10% of training: {FIXED} on {GAMES[1]}." in notes


def test_the_axis_of_long_periods_names_two_numbers(study_of, monkeypatch):
    whole = [row | {"rmed_X": 1.0} for row in made_up.episode_rows(made_up.parse(FIXED))]
    monkeypatch.setattr(made_up, "episode_rows", lambda variant: whole)
    panel = explore_space(study_of(Cell(FIXED, GAMES[0], 0, 3.0))).figure.axes[0]
    low, high = panel.get_xlim()
    assert sum(low <= tick <= high for tick in panel.get_xticks()) >= 2


def test_agents_that_learned_nothing_are_hollow(study_of):
    """Random play has a mean of 0.41 on Breakout."""
    cells = [Cell(FIXED, GAMES[0], seed, 0.0) for seed in (0, 1)]
    cells += [Cell(ADAPTIVE, GAMES[0], seed, 50.0) for seed in (0, 1)]
    _, scores = explore_space(study_of(*cells)).figure.axes
    means = {
        line.get_ydata()[0]: line for line in scores.lines if len(line.get_xdata()) == 1
    }
    assert means[0.0].get_markerfacecolor() == "white"
    assert means[50.0].get_markerfacecolor() == style.look(ADAPTIVE).colour


def test_figure_4_has_the_papers_settings_modes_and_games(study_of):
    settings = (*space._SETTINGS, "intra(10,blind,100,G)")
    games = ("frostbite", "gravitar", "hero", "montezuma_revenge", "ms_pacman", "phoenix")
    cells = [
        Cell(f"{mode}-{setting}", game, 0, 1.0)
        for mode in ("XU", "XI", "XS")
        for setting in settings
        for game in games
    ]
    figure = explore_space(study_of(*cells)).figure
    shown = ("frostbite", "gravitar", "montezuma_revenge", "phoenix")
    titles = [title for title in panels_of(figure) if title]
    assert titles == [f"{mode}  {game}" for mode in ("XU", "XI") for game in shown]
    assert [entry.partition("  ")[2] for entry in legend_of(figure)] == [*settings[:5]]


def test_a_study_of_another_mode_shows_it(study_of):
    name = ADAPTIVE.replace("XU", "XS")
    figure = explore_space(study_of(Cell(name, GAMES[0], 0, 1.0))).figure
    assert f"XS  {GAMES[0]}" in panels_of(figure)


def test_the_other_figure_has_everything(plots):
    figure = plots["explore-space-all"].figure
    assert len(legend_of(figure)) == 15
    titles = [title for title in panels_of(figure) if title]
    assert titles == [f"{mode}  {game}" for mode in ("XU", "XI", "XS") for game in GAMES]


def test_letters_that_would_collide_are_apart(study_of):
    """Both crosses lie in the same place."""
    names = [f"XI-intra(10,informed:{kind},p*,X)" for kind in ("mismatch", "variance")]
    records = study_of(*(Cell(name, GAMES[0], 0, 1.0) for name in names))
    figure = explore_space(records).figure
    panel = figure.axes[0]
    figure.draw_without_rendering()
    first, second = (text.get_window_extent() for text in panel.texts)
    assert {text.get_text() for text in panel.texts} == {"R", "S"}
    assert not first.overlaps(second)
    (x, y), *_ = marks(panel, "x")
    point = panel.transData.transform((x, y))
    assert not first.contains(*point) and not second.contains(*point)


def test_what_is_shown_is_said(plots, study_of):
    plot = plots["explore-space-all"]
    assert "it fell by more than 0.02 in 16 of 16 cases with a bandit" in plot.caption
    assert len(plot.table) == 2 * 32  # every variant on every game
    without_bandits = explore_space(study_of(Cell(FIXED, GAMES[0], 0, 1.0)))
    assert without_bandits.caption == "XU: at the end p_X is 0.30."
    nothing = study_of(Cell(FIXED, GAMES[0], 0, 1.0, share=0.0))
    assert explore_space(nothing) is None

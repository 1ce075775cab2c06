"""Every score, interquartile means, and the probability of improvement."""

import numpy as np

from sidequest.figures.uncertainty import improvement, interquartile_means, scores
from tests.figures.made_up import GAMES, VARIANTS, Cell, score_of
from tests.figures.seen import notes_of, panels_of

STEP, INTRA = "XU-step-level-0.01", "XU-intra(10,informed,p*,X)"


def rows(axes):
    """The value of each row by its name, and the spans in their order."""
    names = [tick.get_text().partition(" ")[0] for tick in axes.get_yticklabels()]
    marks = [line for line in axes.lines if len(line.get_xdata()) == 1]
    values = {names[int(m.get_ydata()[0])]: m.get_xdata()[0] for m in marks}
    spans = [
        segment[:, 0].tolist() for c in axes.collections for segment in c.get_segments()
    ]
    spans += [[*line.get_xdata()] for line in axes.lines if len({*line.get_ydata()}) == 1]
    spans = [one for one in spans if len(one) > 1]
    return values, spans


def test_all_scores_are_there_raw(plots):
    figure, caption, _ = plots["scores"]
    panels = panels_of(figure)
    assert list(panels) == list(GAMES)
    values, spans = rows(panels[GAMES[0]])
    assert values == {name: score_of(name, 0) + 1 for name in VARIANTS}
    assert spans[0] == [10.0, 12.0]
    assert len({tick.get_text()[-1] for tick in figure.axes[0].get_yticklabels()}) > 10
    assert "32 variants, 2 games and 128 runs." in caption
    assert "Most often the best: XS-intra(10,blind,100,G), on 2 of 2." in caption


def test_interquartile_means_are_ranked(study_of):
    """Scores 1, 2, 3, 10 without the ends: 2.5; scaled between the worst and the best."""
    cells = [Cell(STEP, "game:a", seed, s) for seed, s in enumerate((1.0, 2.0, 3.0, 10.0))]
    cells += [
        Cell(INTRA, "game:a", seed, s) for seed, s in enumerate((5.0, 5.0, 5.0, 21.0))
    ]
    figure, caption, table = interquartile_means(study_of(*cells))
    (panel,) = figure.axes
    values, spans = rows(panel)
    assert list(values) == [INTRA, STEP]
    np.testing.assert_allclose([values[INTRA], values[STEP]], [4 / 20, 1.5 / 20])
    assert len(spans) == 2 and spans[1][0] < 1.5 / 20 < spans[1][1]
    assert panel.get_xlabel() == "score: 0 the worst, 1 the best run of this study"
    assert table["variant"].to_list() == [INTRA, STEP]
    assert f"Highest: {INTRA}, 0.20; lowest: {STEP}, 0.08" in caption


def test_a_single_variant_is_ranked_with_no_other(study_of):
    cells = [Cell(STEP, GAMES[0], seed, 3.0) for seed in range(3)]
    plot = interquartile_means(study_of(*cells))
    assert plot.caption == f"{STEP}: 1.00 over 1 game."


def test_equal_variants_are_not_ranked(study_of):
    names = [STEP, INTRA, "XU-episode-level-*"]
    cells = [Cell(name, "game:a", 0, 3.0) for name in names]
    assert interquartile_means(study_of(*cells)).caption == (
        f"{STEP}, {INTRA} and {names[2]}: 0.00 over 1 game."
    )
    cells.append(Cell("XU-experiment-level-G", "game:a", 0, 1.0))
    assert interquartile_means(study_of(*cells)).caption == (
        f"Highest: {STEP}, {INTRA} and {names[2]}, 1.00; "
        "lowest: XU-experiment-level-G, 0.00, over 1 game."
    )


def test_variants_that_lack_a_game_are_left_out_and_named(study_of):
    cells = [Cell(STEP, game, 0, 2.0) for game in GAMES]
    cells += [Cell("XU-episode-level-*", game, 0, 3.0) for game in GAMES]
    plot = interquartile_means(study_of(*cells, Cell(INTRA, GAMES[0], 0, 9.0)))
    figure = plot.figure
    assert set(rows(figure.axes[0])[0]) == {STEP, "XU-episode-level-*"}
    assert f"as they lack a game: {INTRA}" in notes_of(figure)
    assert "The intervals of" not in plot.caption  # one seed has no interval


def test_the_probability_of_improvement_by_hand(study_of):
    cells = [Cell(INTRA, "game:a", seed, s) for seed, s in enumerate((1.0, 5.0))]
    cells += [Cell(STEP, "game:a", seed, s) for seed, s in enumerate((0.0, 3.0))]
    figure, caption, _ = improvement(study_of(*cells))
    ((title, panel),) = panels_of(figure).items()
    assert title == f"{INTRA} beats …"
    values, spans = rows(panel)
    assert values == {STEP: 0.75} and not spans
    assert "Too few seeds for intervals" in caption


def test_three_seeds_have_an_interval_on_two_games(study_of):
    def three(game: str) -> list[Cell]:
        better = [Cell(INTRA, game, seed, 9.0 + seed) for seed in range(3)]
        return better + [Cell(STEP, game, seed, float(seed)) for seed in range(3)]

    assert "Too few seeds for intervals" in improvement(study_of(*three("game:a"))).caption
    cells = [*three("game:a"), *three("game:b")]
    figure, caption, _ = improvement(study_of(*cells))
    assert rows(figure.axes[0])[1] == [[1.0, 1.0]]
    assert (
        "against 1 other: the interval is above one half for 1, below it for 0" in caption
    )


def test_each_mode_has_a_panel(plots):
    titles = list(panels_of(plots["improvement"].figure))
    assert titles == [f"{m}-intra(10,informed,p*,X) beats …" for m in ("XU", "XI", "XS")]


def test_nothing_to_compare(study_of):
    nothing = study_of(Cell(STEP, GAMES[0], 0, 1.0, share=0.0))
    for plot in (scores, interquartile_means, improvement):
        assert plot(nothing) is None

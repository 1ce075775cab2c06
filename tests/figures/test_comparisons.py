"""Figures 8, 15 and 16."""

import numpy as np

from sidequest.figures.comparisons import (
    correction_shows,
    draw_correction,
    draw_modes,
    draw_triggers,
    modes_show,
    triggers_show,
)
from tests.figures.made_up import GAMES, SETTINGS, Cell, score_of
from tests.figures.seen import labelled, legend_of, notes_of, panels_of

INTRA = "XI-intra(10,informed,p*,X)"


def ends(axes):
    return [line.get_ydata()[-1] for line in axes.lines if line.get_linewidth() > 1]


def test_three_triggers_on_each_game(records):
    figure = draw_triggers(records)
    panels = panels_of(figure)
    assert list(panels) == [f"XI-intra(10,·,p*,X)\n{game}" for game in GAMES]
    assert legend_of(figure) == ["value promise", "action mismatch", "value variance"]
    names = [INTRA.replace("informed", kind) for kind in ("informed", "informed:mismatch")]
    for name in names:
        line = labelled(panels[f"XI-intra(10,·,p*,X)\n{GAMES[0]}"], name)
        np.testing.assert_allclose(line.get_ydata()[-1], score_of(name, 0) + 1)
    assert "value variance 281, action mismatch 271, value promise 181" in triggers_show(
        records
    )


def test_a_trigger_that_is_missing_is_named(study_of):
    other = INTRA.replace("informed", "informed:variance")
    cells = [Cell(name, GAMES[0], 0, 1.0) for name in (INTRA, other)]
    figure = draw_triggers(study_of(*cells, Cell(INTRA, GAMES[1], 0, 1.0)))
    assert len(panels_of(figure)) == 1  # on the other game there is nothing to compare
    assert legend_of(figure) == ["value promise", "value variance"]
    assert "Not in these records: informed:mismatch" in notes_of(figure)
    alone = study_of(Cell(INTRA, GAMES[0], 0, 1.0))
    assert draw_triggers(alone) is None and "trigger alone" in triggers_show(alone)


def test_runs_with_and_without_correction_are_told_apart_by_their_settings(records):
    figure = draw_correction(records)
    panels = panels_of(figure)
    assert list(panels) == [f"{INTRA}\n{game}" for game in GAMES]
    assert legend_of(figure) == ["Watkins: traces are cut", "uncorrected"]
    np.testing.assert_allclose(ends(panels[f"{INTRA}\n{GAMES[0]}"]), [181.0, 105.0])
    said = correction_shows(records)
    assert "Watkins: traces are cut 181, uncorrected 105" in said


def test_a_seed_run_by_default_and_by_hand_counts_once(study_of):
    records = study_of(
        Cell(INTRA, GAMES[0], 0, 4.0),
        Cell(INTRA, GAMES[0], 0, 6.0, {"learning.watkins": True}),
        Cell(INTRA, GAMES[0], 0, 9.0, {"learning.watkins": False}),
    )
    (panel,) = panels_of(draw_correction(records)).values()
    np.testing.assert_allclose(ends(panel), [6.0, 9.0])
    alone = study_of(Cell(INTRA, GAMES[0], 0, 4.0))
    assert draw_correction(alone) is None and "watkins" in correction_shows(alone)


def test_modes_are_columns_and_games_are_rows(records):
    figure = draw_modes(records)
    panels = panels_of(figure)
    assert list(panels) == [f"{m}  {game}" for game in GAMES for m in ("XU", "XI", "XS")]
    assert legend_of(figure) == list(SETTINGS[2:6])
    for mode in ("XU", "XI", "XS"):
        wanted = [score_of(f"{mode}-{one}", 0) + 1 for one in SETTINGS[2:6]]
        np.testing.assert_allclose(ends(panels[f"{mode}  {GAMES[1]}"]), wanted)
    heights = {panels[f"{mode}  {GAMES[0]}"].get_ylim() for mode in ("XU", "XI", "XS")}
    assert len(heights) == 1  # so that modes can be compared by eye
    assert "XS  minigrid:door_key_6x6: intra(10,blind,100,G) 321" in modes_show(records)


def test_one_game_puts_the_panels_side_by_side(study_of):
    cells = [
        Cell(f"{mode}-step-level-0.01", GAMES[0], 0, 1.0, share=share)
        for mode, share in (("XU", 1.0), ("XI", 0.5))
    ]
    figure = draw_modes(study_of(*cells))
    first, second = figure.axes
    assert first.get_subplotspec().rowspan == second.get_subplotspec().rowspan
    assert "1 run is still going" in notes_of(figure)
    alone = study_of(cells[0])
    assert draw_modes(alone) is None and "two explore modes" in modes_show(alone)

"""Figure 3."""

import numpy as np

from sidequest.figures.aggregate import aggregate_shows, draw_aggregate
from sidequest.figures.reading import read_records
from sidequest.records import Recorder
from tests.figures.made_up import GAMES, Cell
from tests.figures.seen import labelled, legend_of, notes_of, panels_of

STEP, INTRA = "XU-step-level-0.01", "XU-intra(10,informed,p*,X)"


def test_the_aggregate_has_a_mean_and_a_median_for_each_mode(records):
    figure = draw_aggregate(records)
    panels = panels_of(figure)
    modes = ("XU", "XI", "XS")
    assert list(panels) == [f"{m}  {name}" for m in modes for name in ("mean", "median")]
    assert legend_of(figure) == [
        "experiment-level-X",
        "experiment-level-G",
        "step-level-0.01",
        "episode-level-*",
        "intra(10,informed,p*,X)",
    ]
    assert "Not in these records: XS-experiment-level-X" in notes_of(figure)
    last = [line.get_ydata()[-1] for line in panels["XU  mean"].lines]
    assert last == sorted(last)  # as the scores of the made-up variants are


def test_the_aggregate_by_hand(study_of):
    """Two games, random play at 0.411 and 0.526; the best runs of the study score 8, 4."""
    one, two = "minatar:breakout", "minatar:asterix"
    records = study_of(
        Cell(STEP, one, 0, 4.0),
        Cell(STEP, two, 0, 4.0),
        Cell(INTRA, one, 0, 8.0),
        Cell(INTRA, one, 1, 6.0),
        Cell(INTRA, two, 0, 2.0),
    )
    figure = draw_aggregate(records)
    panel = panels_of(figure)["XU  mean"]
    line = labelled(panel, "intra-episodic")
    np.testing.assert_allclose(line.get_xdata()[[0, -1]], [10, 100])
    first, second = (7.0 - 0.411) / (8 - 0.411), (2.0 - 0.526) / (4 - 0.526)
    np.testing.assert_allclose(line.get_ydata()[-1], (first + second) / 2)
    halfway = line.get_ydata()[np.isclose(line.get_xdata(), 50)]
    first, second = (3.5 - 0.411) / (8 - 0.411), (1.0 - 0.526) / (4 - 0.526)
    np.testing.assert_allclose(halfway, (first + second) / 2)
    assert "best run of this study" in panel.get_ylabel().replace("\n", " ")
    assert "One seed only" in notes_of(figure)


def test_the_median_of_three_games_is_the_middle_one(study_of):
    """From 0 to 1 between the study's worst and best run, games score 0, 0.5 and 1."""
    scores = {"game:a": (2.0, 8.0), "game:b": (5.0, 8.0), "game:c": (8.0, 2.0)}
    cells = [Cell(INTRA, game, 0, intra) for game, (intra, _) in scores.items()]
    cells += [Cell(STEP, game, 0, step) for game, (_, step) in scores.items()]
    cells += [Cell("XU-episode-level-*", game, 0, 2.0) for game in scores]
    panels = panels_of(draw_aggregate(study_of(*cells)))
    last = {
        name: labelled(panels[f"XU  {name}"], "step-level").get_ydata()[-1]
        for name in ("mean", "median")
    }
    np.testing.assert_allclose([last["mean"], last["median"]], [2 / 3, 1.0])


def test_atari_is_named_human_normalised(study_of):
    records = study_of(Cell(STEP, "pong", 0, 5.0), Cell(INTRA, "pong", 0, 14.6))
    panel = panels_of(draw_aggregate(records))["XU  mean"]
    assert panel.get_ylabel() == "human-normalised score"
    np.testing.assert_allclose(labelled(panel, "intra-episodic").get_ydata()[-1], 1.0)


def test_atari_has_a_human_capped_mean(study_of):
    """Pong: -20.7 random, 14.6 human. Frostbite: 65.2 and 4334.7. The step-level line
    ends at 1.5 and 0.5; halfway its returns are 16.125 and 1,099.975."""
    records = study_of(
        Cell(STEP, "pong", 0, 32.25),
        Cell(STEP, "frostbite", 0, 2199.95),
        Cell(INTRA, "pong", 0, 14.6),
        Cell(INTRA, "frostbite", 0, 65.2),
    )
    figure = draw_aggregate(records)
    panels = panels_of(figure)
    assert list(panels) == ["XU  mean", "XU  median", "XU  human-capped mean"]
    for name, end in (("mean", 1.0), ("human-capped mean", 0.75)):
        line = labelled(panels[f"XU  {name}"], "step-level")
        np.testing.assert_allclose(line.get_ydata()[-1], end)
    halfway = line.get_ydata()[np.isclose(line.get_xdata(), 50)]
    np.testing.assert_allclose(halfway, (1.0 + (1099.975 - 65.2) / 4269.5) / 2)
    assert "counts as 1 at most" in notes_of(figure)
    said = aggregate_shows(records)
    assert "mean step-level 1.00, intra-episodic 0.50; median" in said
    assert "human-capped mean step-level 0.75, intra-episodic 0.50." in said


def test_without_human_scores_nothing_is_capped(records, study_of):
    mixed = study_of(
        *(Cell(name, game, 0, 5.0) for name in (STEP, INTRA) for game in ("pong", GAMES[0]))
    )
    for one in (records, mixed):
        figure = draw_aggregate(one)
        assert not any("capped" in title for title in panels_of(figure))
        assert "capped" not in notes_of(figure) + aggregate_shows(one)


def test_modes_of_atari_have_a_row_each(study_of):
    names = [f"{mode}-{name[3:]}" for mode in ("XU", "XI") for name in (STEP, INTRA)]
    figure = draw_aggregate(study_of(*(Cell(name, "pong", 0, 5.0) for name in names)))
    assert figure.axes[0].get_gridspec().get_geometry() == (2, 3)
    assert [axes.get_title()[:2] for axes in figure.axes] == ["XU"] * 3 + ["XI"] * 3


def test_games_that_a_line_lacks_are_left_out_and_named(study_of):
    cells = [Cell(name, GAMES[0], 0, 5.0) for name in (STEP, INTRA)]
    figure = draw_aggregate(study_of(*cells, Cell(STEP, GAMES[1], 0, 900.0)))
    assert f"XU: 1 game, minatar:breakout; not every line has {GAMES[1]}." in notes_of(
        figure
    )


def test_a_game_that_one_mode_lacks_stays_for_the_others(study_of):
    cells = [Cell(name, game, 0, 5.0) for name in (STEP, INTRA) for game in GAMES]
    soft = [name.replace("XU", "XS") for name in (STEP, INTRA)]
    figure = draw_aggregate(study_of(*cells, *(Cell(n, GAMES[0], 0, 5.0) for n in soft)))
    assert "XU: 2 games" in notes_of(figure) and "XS: 1 game" in notes_of(figure)


def test_a_run_that_was_cut_short_ends_its_line_early(study_of):
    records = study_of(
        Cell(STEP, GAMES[0], 0, 5.0), Cell(INTRA, GAMES[0], 0, 9.0, share=0.5)
    )
    figure = draw_aggregate(records)
    panel = panels_of(figure)["XU  mean"]
    assert labelled(panel, "intra-episodic").get_xdata()[-1] == 50
    assert labelled(panel, "step-level").get_xdata()[-1] == 100
    assert "1 run is still going" in notes_of(figure) and "(50%)" in notes_of(figure)


def test_what_is_shown_is_said(records, study_of):
    said = "XU, last 10% of training, 2 games: mean intra-episodic"
    assert said in aggregate_shows(records)
    alone = study_of(Cell(STEP, GAMES[0], 0, 5.0))
    assert draw_aggregate(alone) is None
    assert "two granularities" in aggregate_shows(alone)


def test_what_is_said_is_the_last_tenth_and_not_the_last_point(tmp_path):
    """Pong from -20.7 to 14.6: returns of -20.7, 14.6 and 14.6 are 2/3, of 14.6 alone 1."""
    for name, late in ((STEP, (-20.7, 14.6, 14.6)), (INTRA, (14.6, 14.6, 14.6))):
        recorder = Recorder(
            tmp_path / name[:6], {"variant": name, "game": "pong", "seed": 0}
        )
        for frames, one in zip((500, 910, 920, 1_000), (0.0, *late), strict=True):
            rows = [{"frames": frames, "return": one, "length": 1}]
            recorder.write("evaluations", rows)
        recorder.finish()
    said = aggregate_shows(read_records(tmp_path))
    assert "mean intra-episodic 1.00, step-level 0.67" in said

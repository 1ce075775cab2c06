"""Figure 14."""

import numpy as np

from sidequest.figures.arms import bandits_show, draw_bandits, read_arms
from sidequest.figures.reading import read_records
from sidequest.records import Recorder
from tests.figures.made_up import GAMES, Cell
from tests.figures.seen import notes_of

G, X = "XU-intra(=,blind,n*,G)", "XU-intra(=,blind,n*,X)"
BOTH = "XU-intra(*,blind,n*,X)"


def arms(axes):
    return {
        line.get_label(): line.get_ydata()
        for line in axes.lines
        if not line.get_label().startswith("_")
    }


def test_a_line_for_each_arm_a_row_for_each_starting_mode(study_of):
    cells = [Cell(name, GAMES[0], seed, 1.0) for name in (X, G) for seed in (0, 1)]
    figure = draw_bandits(study_of(*cells))
    titles = [axes.get_title(loc="left").splitlines()[0] for axes in figure.axes]
    assert titles == [f"{G}: exploit steps", f"{X}: exploit steps"]
    lines = arms(figure.axes[0])
    assert list(lines) == ["10", "100", "1000", "10000"]
    np.testing.assert_allclose(lines["10"][[0, -1]], [0.25, 0.7])
    np.testing.assert_allclose(lines["1000"][[0, -1]], [0.25, 0.1])
    labels = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert labels == list(lines)


def test_two_bandits_of_a_variant_have_a_row_each(study_of):
    figure = draw_bandits(study_of(Cell(BOTH, GAMES[0], 0, 1.0)))
    titles = [axes.get_title(loc="left").splitlines()[0] for axes in figure.axes]
    assert titles == [f"{BOTH}: explore steps", f"{BOTH}: exploit steps"]


def test_whole_episodes_are_chosen_by_mode_and_rates_are_called_rates(study_of):
    episode, informed = "XU-episode-level-*", "XU-intra(10,informed,p*,X)"
    records = study_of(*(Cell(name, GAMES[0], 0, 1.0) for name in (episode, informed)))
    first, second = draw_bandits(records).axes
    assert list(arms(first)) == ["G", "X"]
    assert second.get_title(loc="left").startswith(f"{informed}: switching rate")
    assert f"{episode}, bandit `start`" in bandits_show(records)
    assert "minatar:breakout G (0.70)" in bandits_show(records)


def test_the_mean_goes_as_far_as_the_shortest_run(study_of):
    cells = [Cell(G, GAMES[0], 0, 1.0), Cell(G, GAMES[0], 1, 1.0, share=0.5)]
    figure = draw_bandits(study_of(*cells))
    assert len(arms(figure.axes[0])["10"]) == 5
    assert "1 run is still going" in notes_of(figure)


def test_a_line_is_the_mean_over_seeds(tmp_path):
    for seed, chance in enumerate((0.2, 0.6)):
        info = {"variant": G, "game": "game:a", "seed": seed, "frames": 10}
        recorder = Recorder(tmp_path / str(seed), info)
        row = {"frames": 5, "bandit": "exploit"}
        arms = ((10.0, chance), (100.0, 1 - chance))
        recorder.write("bandits", [row | {"arm": a, "probability": p} for a, p in arms])
        recorder.finish()
    found = read_arms(read_records(tmp_path).runs, "exploit")
    np.testing.assert_allclose(found.probabilities[10.0], [0.4])
    np.testing.assert_allclose(found.probabilities[100.0], [0.6])


def test_a_panel_without_runs_says_so_and_leaves_its_neighbours_alone(study_of):
    cells = [
        Cell(G, GAMES[0], 0, 1.0),
        Cell(X, GAMES[0], 0, 1.0),
        Cell(X, GAMES[1], 0, 1.0),
    ]
    first, empty, third, fourth = draw_bandits(study_of(*cells)).axes
    assert [text.get_text() for text in empty.texts] == ["no runs"]
    for axes in (first, third, fourth):
        assert axes.get_ylim() == (0, 1) and len(axes.get_yticks()) > 1


def test_what_does_not_fit_is_named(records, study_of):
    assert "Not drawn: 14 bandits" in notes_of(draw_bandits(records))
    nothing = study_of(Cell("XU-step-level-0.01", GAMES[0], 0, 1.0))
    assert draw_bandits(nothing) is None and "no run has a bandit" in bandits_show(nothing)

"""How agents switched: figures 6, 7, 13 and 14, and switching rates."""

import math

import numpy as np
import pytest

from sidequest.environments.scores import KNOWN
from sidequest.figures import style
from sidequest.figures.data import read_records
from sidequest.figures.switching import (
    bandit_arms,
    counter_vs_coin,
    counter_vs_coin_all,
    starting_modes,
    switching_rates,
)
from sidequest.records import Recorder
from tests.figures import made_up
from tests.figures.made_up import EPISODES, FRAMES, GAMES, STEPS, Cell, late_p_of
from tests.figures.seen import labelled, legend_of, notes_of, panels_of

G, X = "XU-intra(=,blind,n*,G)", "XU-intra(=,blind,n*,X)"
BOTH = "XU-intra(*,blind,n*,X)"
COUNT, COIN = "XU-intra(10,blind,n*,X)", "XU-intra(10,blind,p*,X)"
FIXED, ADAPTIVE = "XU-intra(10,informed,0.01,G)", "XU-intra(10,informed,p*,X)"


def test_one_is_the_best_seed_and_the_rest_are_shares(study_of):
    records = study_of(
        *(Cell(G, "game:a", seed, score) for seed, score in enumerate((10.0, 20.0, 0.0))),
        Cell(X, "game:a", 0, 40.0),
        Cell(G, "game:b", 0, 8.0),
        Cell(X, "game:b", 0, -2.0),
    )
    figure, said, table = starting_modes(records)
    (panel,) = panels_of(figure).values()
    assert panel.get_title() == "XU-intra(=,blind,n*,·)"
    assert [tick.get_text() for tick in panel.get_xticklabels()] == ["game:a", "game:b"]
    means = {
        (line.get_color(), round(line.get_xdata()[0])): line.get_ydata()[0]
        for line in panel.lines
        if len({*line.get_xdata()}) == 1 and len(line.get_xdata()) == 1
    }
    exploit, explore = style.look(G).colour, style.look(X).colour
    assert means == {
        (exploit, 0): 0.25,
        (explore, 0): 1.0,
        (exploit, 1): 1.0,
        (explore, 1): 0.0,  # a score below 0 is drawn at 0
    }
    spans = [line.get_ydata() for line in panel.lines if len({*line.get_ydata()}) == 2]
    np.testing.assert_allclose(spans, [[0.0, 0.5]])  # of the three seeds
    low, high = panel.get_ylim()
    assert low < 0 and 1 < high < 1.2
    assert legend_of(figure) == [f"J  {G[3:]}", f"K  {X[3:]}"]
    assert said.endswith("higher mean in 1 of 2 games.")  # one seed has no range
    assert table["mean share"].to_list() == [0.25, 1.0, 1.0, 0.0]


def test_seeds_that_do_not_overlap_are_counted_where_there_are_three(study_of):
    scores = {"game:a": ((1.0, 2.0, 3.0), (4.0, 5.0, 6.0)), "game:b": ((1.0,), (2.0,))}
    scores["game:c"] = ((1.0, 2.0, 3.0), (2.5, 5.0, 6.0))
    cells = [
        Cell(name, game, seed, score)
        for game, both in scores.items()
        for name, own in zip((G, X), both, strict=True)
        for seed, score in enumerate(own)
    ]
    said = starting_modes(study_of(*cells)).caption
    assert "in 3 of 3 games; seeds do not overlap in 1 of 2 with 3 or more of each." in said


@style.styled
@pytest.mark.parametrize("number", [20, 57])
def test_names_of_many_games_do_not_overlap(study_of, number):
    """Lines of slanted text are apart by their spacing times the sine of the slant."""
    games = sorted(KNOWN, key=len)[-number:]
    figure = starting_modes(
        study_of(*(Cell(name, game, 0, 1.0) for name in (G, X) for game in games))
    ).figure
    figure.draw_without_rendering()
    (axes,) = figure.axes
    label, (first, second) = axes.get_xticklabels()[0], axes.transData.transform(np.eye(2))
    apart = abs(first[0] - second[0]) * math.sin(math.radians(label.get_rotation()))
    assert apart > label.get_fontsize() * figure.dpi / 72


def test_scores_below_zero_have_no_share_and_are_named(study_of):
    cells = [Cell(G, "pong", 0, -20.0), Cell(X, "pong", 0, -19.0)]
    assert starting_modes(study_of(*cells)) is None
    cells += [Cell(G, "game:a", 0, 1.0), Cell(X, "game:a", 0, 2.0)]
    assert "no score is above 0: pong" in notes_of(starting_modes(study_of(*cells)).figure)


def test_the_legend_has_only_the_pairs_that_are_drawn(study_of):
    pairs = [(G.replace("=", str(n)), X.replace("=", str(n))) for n in range(1, 9)]
    cells = [Cell(name, "game:a", 0, 1.0) for pair in pairs for name in pair]
    figure = starting_modes(study_of(*cells)).figure
    assert len(panels_of(figure)) == 6 and len(legend_of(figure)) == 12
    assert "Not drawn: " in notes_of(figure)


def test_each_mode_has_its_panel(plots):
    assert list(panels_of(plots["starting-mode"].figure)) == [
        "XU-intra(=,blind,n*,·)",
        "XI-intra(=,blind,n*,·)",
    ]


def test_without_a_partner_no_starts_are_compared(study_of):
    assert starting_modes(study_of(Cell(G, GAMES[0], 0, 1.0))) is None


def test_each_episode_is_a_point_coloured_by_its_time(study_of):
    records = study_of(Cell(COUNT, GAMES[0], 0, 4.0), Cell(COIN, GAMES[0], 0, 8.0))
    figure = counter_vs_coin(records).figure
    count, coin, curves = figure.axes[:3]
    (points,) = count.collections
    order = np.argsort(points.get_array())
    numbers = np.arange(1, EPISODES + 1)
    np.testing.assert_allclose(points.get_array()[order], numbers / EPISODES)
    p = late_p_of(COUNT) + 0.3 * (EPISODES - numbers) / (EPISODES - 1)
    np.testing.assert_allclose(points.get_offsets()[order], np.stack([p / 4, p], axis=1))
    assert count.get_xlim() == coin.get_xlim() and count.get_ylim() == coin.get_ylim()
    assert COUNT in count.get_title() and COIN in coin.get_title()
    assert f"spread of $p_X$ {p.std():.2f}" in count.get_title()
    np.testing.assert_allclose(labelled(curves, COIN).get_ydata()[-1], 8.0)
    assert curves.get_xlim()[0] == 0 and FRAMES == 1_000_000


def test_figure_7_is_one_game_with_both_modes_and_figure_13_is_all(study_of):
    games = ("alien", "frostbite")
    names = (COUNT, COIN, COUNT.replace("XU", "XI"), COIN.replace("XU", "XI"))
    records = study_of(*(Cell(name, game, 0, 4.0) for name in names for game in games))

    def rows(figure):
        titles = [
            axes.get_title() for axes in figure.axes if "blind,n*" in axes.get_title()
        ]
        return [title.partition("-")[0] for title in titles]

    figure, said, _ = counter_vs_coin(records)
    assert rows(figure) == ["frostbite  XU", "frostbite  XI"]
    assert "than with the counter in 2 of 2 comparisons" in said
    whole = counter_vs_coin_all(records).figure
    assert rows(whole) == [f"{game}  {mode}" for mode in ("XU", "XI") for game in games]


def test_one_game_needs_no_second_figure(study_of):
    records = study_of(*(Cell(name, GAMES[0], 0, 4.0) for name in (COUNT, COIN)))
    assert counter_vs_coin(records) is not None and counter_vs_coin_all(records) is None


def test_episodes_that_never_explored_are_counted(study_of, monkeypatch):
    rows = made_up.episode_rows

    def some_silent(variant):
        made = rows(variant)
        return [row | {"p_X": 0.0, "rmed_X": None} for row in made[:7]] + made[7:]

    monkeypatch.setattr(made_up, "episode_rows", some_silent)
    records = study_of(Cell(COUNT, GAMES[0], 0, 4.0), Cell(COIN, GAMES[0], 0, 8.0))
    count = counter_vs_coin(records).figure.axes[0]
    assert f"; 7 of {EPISODES} never explored" in count.get_title()
    assert not count.texts  # nothing is written over points
    assert len(count.collections[0].get_offsets()) == EPISODES - 7


def test_a_run_that_is_going_has_fewer_points(study_of):
    records = study_of(
        Cell(COUNT, GAMES[0], 0, 4.0, share=0.5), Cell(COIN, GAMES[0], 0, 8.0)
    )
    figure = counter_vs_coin(records).figure
    assert len(figure.axes[0].collections[0].get_offsets()) == EPISODES // 2
    assert counter_vs_coin(study_of(Cell(COUNT, GAMES[0], 0, 4.0))) is None


def arms(axes):
    return {
        line.get_label(): line.get_ydata()
        for line in axes.lines
        if not line.get_label().startswith("_")
    }


def test_a_line_for_each_arm_a_row_for_each_starting_mode(study_of):
    cells = [Cell(name, GAMES[0], seed, 1.0) for name in (X, G) for seed in (0, 1)]
    figure = bandit_arms(study_of(*cells)).figure
    titles = [axes.get_title(loc="left").splitlines()[0] for axes in figure.axes]
    assert titles == [f"{G}: exploit steps", f"{X}: exploit steps"]
    lines = arms(figure.axes[0])
    assert list(lines) == ["10", "100", "1000", "10000"]
    np.testing.assert_allclose(lines["10"][[0, -1]], [0.25, 0.7])
    np.testing.assert_allclose(lines["1000"][[0, -1]], [0.25, 0.1])
    labels = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert labels == list(lines)


def test_figure_14_has_the_starting_modes_alone_on_all_games(study_of):
    games = [f"game:{letter}" for letter in "abcdefg"]
    names = (G, X, "XU-episode-level-*", COIN)
    records = study_of(*(Cell(name, game, 0, 1.0) for name in names for game in games))
    figure, said, table = bandit_arms(records)
    assert len(figure.axes) == 2 * 7
    assert f"{G}: 10 in 7; {X}: 10 in 7" in said
    assert len(table) == 2 * 7 * 4  # final probabilities alone


def test_two_bandits_of_a_variant_have_a_row_each(study_of):
    figure, said, _ = bandit_arms(study_of(Cell(BOTH, GAMES[0], 0, 1.0)))
    assert f"{BOTH}, explore steps: 1 in 1; {BOTH}, exploit steps: 10 in 1." in said
    titles = [axes.get_title(loc="left").splitlines()[0] for axes in figure.axes]
    assert titles == [f"{BOTH}: explore steps", f"{BOTH}: exploit steps"]


def test_whole_episodes_are_chosen_by_mode_and_rates_are_called_rates(study_of):
    episode, informed = "XU-episode-level-*", "XU-intra(10,informed,p*,X)"
    records = study_of(*(Cell(name, GAMES[0], 0, 1.0) for name in (episode, informed)))
    figure, said, _ = bandit_arms(records)
    first, second = figure.axes
    assert list(arms(first)) == ["G", "X"]
    assert second.get_title(loc="left").startswith(f"{informed}: switching rate")
    assert f"{episode}: G in 1; {informed}: 0.1 in 1." in said


def test_equally_likely_arms_are_no_preference(study_of, monkeypatch):
    rows = made_up.bandit_rows

    def uniform(variant):
        return [row | {"probability": 0.25} for row in rows(variant)]

    monkeypatch.setattr(made_up, "bandit_rows", uniform)
    said = bandit_arms(study_of(*(Cell(G, game, 0, 1.0) for game in GAMES))).caption
    assert said == f"Likeliest arm at the end, by games: {G}: none in 2."


def test_the_mean_goes_as_far_as_the_shortest_run(study_of):
    cells = [Cell(G, GAMES[0], 0, 1.0), Cell(G, GAMES[0], 1, 1.0, share=0.5)]
    figure = bandit_arms(study_of(*cells)).figure
    assert len(arms(figure.axes[0])["10"]) == 5


def test_a_line_is_the_mean_over_seeds(tmp_path):
    for seed, chance in enumerate((0.2, 0.6)):
        info = {"variant": G, "game": "game:a", "seed": seed, "frames": 10}
        recorder = Recorder(tmp_path / str(seed), info)
        row = {"frames": 5, "bandit": "exploit"}
        arms = ((10.0, chance), (100.0, 1 - chance))
        recorder.write("bandits", [row | {"arm": a, "probability": p} for a, p in arms])
        recorder.finish()
    table = bandit_arms(read_records(tmp_path)).table
    assert table["arm"].to_list() == ["10", "100"]
    np.testing.assert_allclose(table["final probability"], [0.4, 0.6])


def test_a_panel_without_runs_says_so_and_leaves_its_neighbours_alone(study_of):
    cells = [
        Cell(G, GAMES[0], 0, 1.0),
        Cell(X, GAMES[0], 0, 1.0),
        Cell(X, GAMES[1], 0, 1.0),
    ]
    first, empty, third, fourth = bandit_arms(study_of(*cells)).figure.axes
    assert [text.get_text() for text in empty.texts] == ["no runs"]
    for axes in (first, third, fourth):
        assert axes.get_ylim() == (0, 1) and len(axes.get_yticks()) > 1


def test_bandits_that_do_not_fit_are_named(study_of):
    names = [f"XU-intra({n},blind,n*,G)" for n in range(1, 11)]
    figure = bandit_arms(study_of(*(Cell(name, GAMES[0], 0, 1.0) for name in names))).figure
    assert f"Not drawn: {names[8]} and {names[9]}." in notes_of(figure)
    assert bandit_arms(study_of(Cell("XU-step-level-0.01", GAMES[0], 0, 1.0))) is None


def test_a_run_has_a_rate_for_each_target(study_of):
    records = study_of(Cell(FIXED, GAMES[0], 0, 1.0), Cell(ADAPTIVE, GAMES[0], 0, 1.0))
    rates = switching_rates(records).table
    assert rates["target_rate"].to_list() == [0.01, 0.0001, 0.001, 0.01, 0.1]
    np.testing.assert_allclose(rates["realised / target"], 1.05)
    exploit_steps = EPISODES / 2 * STEPS * (1 - late_p_of(FIXED))  # of the second half
    assert rates["switches"][0] == pytest.approx(0.0105 * exploit_steps)


def test_episodes_count_by_their_exploit_steps(study_of, monkeypatch):
    """0.02 of 100 exploit steps and 0.01 of 300: 5 of 400 switch."""
    made = made_up.episode_rows(made_up.parse(FIXED))[-2:]
    made[0] |= {"realised_rate": 0.02, "length": 200, "p_X": 0.5}
    made[1] |= {"realised_rate": 0.01, "length": 300, "p_X": 0.0}
    monkeypatch.setattr(made_up, "episode_rows", lambda variant: made)
    (rate,) = switching_rates(study_of(Cell(FIXED, GAMES[0], 0, 1.0))).table.to_dicts()
    assert (rate["switches"], rate["realised / target"]) == pytest.approx((5, 5 / 4))


def test_marks_lie_at_realised_over_target(plots):
    figure, said, _ = plots["switching-rates"]
    panels = panels_of(figure)
    assert list(panels) == list(GAMES)
    marks = [line for line in panels[GAMES[0]].lines if len(line.get_xdata()) == 1]
    np.testing.assert_allclose([mark.get_ydata()[0] for mark in marks], 1.05)
    assert f"E  {ADAPTIVE[3:]}" in legend_of(figure)
    assert "is 1.05; four in five lie from 1.05 to 1.05" in said


def test_rates_at_which_few_switches_are_expected_are_not_summed_up(study_of, monkeypatch):
    """Of 100 exploit steps at a rate of 0.01, one switch; there is none."""
    made = made_up.episode_rows(made_up.parse(FIXED))[-1:]
    made[0] |= {"realised_rate": 0.0, "length": 200, "p_X": 0.5}
    monkeypatch.setattr(made_up, "episode_rows", lambda variant: made)
    figure, said, _ = switching_rates(study_of(Cell(FIXED, GAMES[0], 0, 1.0)))
    assert said.startswith("At no rate were 100 or more switches to be expected")
    assert figure.axes[0].get_ylim()[0] < 0  # the mark at 0 is not cut in half


def test_variants_that_count_steps_have_no_rate(study_of):
    records = study_of(Cell("XU-intra(10,blind,100,G)", GAMES[0], 0, 1.0))
    assert switching_rates(records) is None


def test_symmetric_informed_variants_have_no_rate_of_one_mode(study_of):
    records = study_of(Cell("XU-intra(=,informed,0.01,G)", GAMES[0], 0, 1.0))
    assert switching_rates(records) is None
    coin = study_of(Cell("XU-intra(=,blind,0.01,G)", GAMES[0], 0, 1.0))
    assert switching_rates(coin) is not None

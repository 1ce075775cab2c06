"""Figures 7 and 13."""

import numpy as np

from sidequest.figures.coins import count_and_coin_show, draw_count_and_coin
from tests.figures.made_up import EPISODES, FRAMES, GAMES, Cell, late_p_of
from tests.figures.seen import labelled, notes_of

COUNT, COIN = "XU-intra(10,blind,n*,X)", "XU-intra(10,blind,p*,X)"


def test_each_episode_is_a_point_coloured_by_its_time(study_of):
    records = study_of(Cell(COUNT, GAMES[0], 0, 4.0), Cell(COIN, GAMES[0], 0, 8.0))
    figure = draw_count_and_coin(records)
    count, coin, curves = figure.axes[:3]
    (points,) = count.collections
    order = np.argsort(points.get_array())
    numbers = np.arange(1, EPISODES + 1)
    np.testing.assert_allclose(points.get_array()[order], numbers / EPISODES)
    p = late_p_of(COUNT) + 0.3 * (EPISODES - numbers) / (EPISODES - 1)
    np.testing.assert_allclose(points.get_offsets()[order], np.stack([p / 4, p], axis=1))
    assert count.get_xlim() == coin.get_xlim() and count.get_ylim() == coin.get_ylim()
    assert count.get_title().startswith(COUNT) and coin.get_title().startswith(COIN)
    assert f"spread of $p_X$: {p.std():.2f}" in count.get_title()
    np.testing.assert_allclose(labelled(curves, COIN).get_ydata()[-1], 8.0)
    assert curves.get_xlim()[0] == 0 and FRAMES == 1_000_000


def test_the_coin_of_the_made_up_study_is_the_wider(records):
    said = count_and_coin_show(records)
    assert "greater with the coin in 4 of 4 comparisons" in said
    labels = [axes.get_ylabel() for axes in draw_count_and_coin(records).axes]
    assert [label for label in labels if "p_X" in label] == [
        f"{game}\n$p_X$" for game in 2 * GAMES
    ]


def test_episodes_that_never_explored_are_counted(study_of, monkeypatch):
    from tests.figures import made_up

    rows = made_up.episode_rows

    def some_silent(variant):
        made = rows(variant)
        return [row | {"p_X": 0.0, "rmed_X": None} for row in made[:7]] + made[7:]

    monkeypatch.setattr(made_up, "episode_rows", some_silent)
    records = study_of(Cell(COUNT, GAMES[0], 0, 4.0), Cell(COIN, GAMES[0], 0, 8.0))
    count = draw_count_and_coin(records).axes[0]
    assert [text.get_text() for text in count.texts] == ["7 episodes never explored"]
    assert len(count.collections[0].get_offsets()) == EPISODES - 7


def test_a_run_that_is_going_has_fewer_points_and_is_noted(study_of):
    records = study_of(
        Cell(COUNT, GAMES[0], 0, 4.0, share=0.5), Cell(COIN, GAMES[0], 0, 8.0)
    )
    figure = draw_count_and_coin(records)
    assert len(figure.axes[0].collections[0].get_offsets()) == EPISODES // 2
    assert "1 run is still going" in notes_of(figure)
    alone = study_of(Cell(COUNT, GAMES[0], 0, 4.0))
    assert draw_count_and_coin(alone) is None and "coin" in count_and_coin_show(alone)

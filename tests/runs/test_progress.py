"""Numbers of how runs are going, worked by hand."""

import math
from pathlib import Path

import numpy as np
import pytest

from sidequest.runs.progress import (
    EPISODES,
    LATELY,
    Chunk,
    Recent,
    Stopwatch,
    Teller,
    favourites,
)
from sidequest.runs.spec import Favourite, RunSpec
from sidequest.switching.variants import PAPER_ARMS, parse
from sidequest.types import EpisodeSummary
from tests.runs.tiny import TINY

NAN = math.nan


def summaries(finished, **columns) -> EpisodeSummary:
    finished = np.array(finished, bool)
    blank = {name: np.full(finished.shape, NAN) for name in EpisodeSummary._fields}
    columns = {name: np.array(values, float) for name, values in columns.items()}
    return EpisodeSummary(**{**blank, **columns, "finished": finished})


def test_the_first_lap_counts_only_while_it_is_alone():
    watch = Stopwatch()
    first = watch.lap(100, 5, 50.0)  # it compiled
    assert first.lately == 2.0
    assert all(map(math.isnan, first[1:]))
    second = watch.lap(100, 9, 0.5)
    assert second == pytest.approx((200.0, 200.0, 8.0, 200.0))


def test_the_rates_fade_and_the_mean_does_not():
    watch = Stopwatch()
    watch.lap(0, 0, 1.0)
    watch.lap(100, 10, 1.0)
    speed = watch.lap(400, 10, 2.0)
    kept = math.exp(-2.0 / LATELY)
    assert speed.mean == pytest.approx(500 / 3)
    assert speed.lately == pytest.approx((100 * kept + 400) / (kept + 2))
    assert speed.updates == pytest.approx(10 * kept / (kept + 2))
    assert speed.mean < speed.ahead < speed.lately


def test_means_are_of_the_newest_episodes():
    recent = Recent()
    assert all(map(math.isnan, recent.means()))
    recent.add(
        summaries(
            [[1, 0], [1, 1]],
            episode_return=[[1, 99], [2, 6]],
            p_X=[[0.1, 9], [0.2, 0.3]],
            realised_rate=[[0.01, 9], [NAN, 0.03]],
            target_rate=[[0.02, 9], [0.5, 0.04]],
        )
    )
    # The second never exploited: nothing of it is compared with its target.
    assert recent.means() == pytest.approx((3.0, 0.2, 0.02, 0.03))
    full = np.ones(EPISODES + 7)
    recent.add(summaries(full, episode_return=[1e9] * 7 + [5] * EPISODES))
    assert recent.means().episode_return == 5.0
    recent.add(summaries(np.zeros(3)))
    assert recent.means().episode_return == 5.0


def test_favourites_by_hand():
    variant = parse("XU-intra(*,informed,p*,X)")
    probabilities = np.zeros((3, 4))
    probabilities[1] = 0.1, 0.2, 0.4, 0.3  # exploit: .1 .01 .001 .0001
    probabilities[2, :3] = 1 / 3  # explore: of equals the first
    assert favourites(probabilities, variant, PAPER_ARMS) == [
        Favourite("explore", 1.0, pytest.approx(1 / 3)),
        Favourite("exploit", 0.001, 0.4),
    ]
    assert favourites(probabilities, parse("XU-step-level-0.1"), PAPER_ARMS) == []


def teller(game: str, seeds: int) -> Teller:
    variant = parse("XU-intra(10,informed,p*,X)")
    runs = [RunSpec(variant, game, seed, Path("x"), TINY, 0) for seed in range(seeds)]
    return Teller(runs, PAPER_ARMS, total=1_000)


def tell(teller: Teller, members: int, frames: int, evaluations):
    ended = summaries(np.ones((members, 1)), episode_return=np.arange(members)[:, None])
    probabilities = np.full((members, 3, 4), 0.25)
    chunk = Chunk(100, 2.0, frames // 10, ended, probabilities)
    return teller.tell(chunk, frames=frames, fill=0.5, evaluations=evaluations)


def test_one_run_of_a_game_with_human_scores():
    one = teller("frostbite", 1)
    first = tell(one, 1, 100, [NAN])
    assert math.isnan(first.seconds_left) and math.isnan(first.human[0])
    second = tell(one, 1, 200, [4334.7])  # a human's score
    assert second.human == [1.0]
    assert (second.rate, second.update_rate) == pytest.approx((50.0, 5.0))
    assert second.seconds_left == pytest.approx(800 / 50)
    assert second.favourites == [Favourite("exploit", 0.1, 0.25)]
    assert tell(one, 1, 1_100, [0.0]).seconds_left == 0  # whole chunks are played


def test_runs_side_by_side_are_added_up():
    four = teller("minatar:breakout", 4)
    tell(four, 4, 100, [NAN] * 4)
    second = tell(four, 4, 200, [1.0] * 4)
    assert second.returns == [0.0, 1.0, 2.0, 3.0]
    assert (second.rate, second.update_rate) == pytest.approx((200.0, 20.0))
    assert second.seconds_left == pytest.approx(800 / 50)
    assert not second.human and not second.favourites

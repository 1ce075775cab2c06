"""Statistics against SciPy, and by hand."""

import math
from statistics import NormalDist

import numpy as np
import pytest
import scipy.stats

from sidequest.environments.registry import check
from sidequest.environments.scores import human_normalised
from sidequest.figures.statistics import (
    KNOWN,
    bootstrap,
    capped_mean_over_games,
    choose_scale,
    has_learned,
    improvement,
    interquartile_mean,
    mean_over_games,
    median_over_games,
    resample,
    seeds_needed,
)


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 7, 8, 30])
def test_the_interquartile_mean_is_scipys_trimmed_mean(rng, n):
    scores = rng.normal(size=(3, n))
    ours = interquartile_mean([scores])
    np.testing.assert_allclose(ours, scipy.stats.trim_mean(scores, 0.25, axis=1))


def test_the_interquartile_mean_by_hand():
    assert interquartile_mean([np.array([9.0, 1.0, 2.0, 100.0])]) == 5.5


def test_games_count_alike_however_many_seeds_they_have():
    strata = [np.array([1.0, 1.0, 1.0, 1.0]), np.array([3.0]), np.array([8.0])]
    assert mean_over_games(strata) == 4.0
    assert median_over_games(strata) == 3.0
    assert interquartile_mean(strata) == 1.5  # 1 1 1 1 3 8 without the ends is 1 1 1 3


def test_the_capped_mean_by_hand():
    """Seeds of 0.5 and 3 count as 0.5 and 1; below a random policy nothing is cut."""
    strata = [np.array([0.5, 3.0]), np.array([2.0, 1.0]), np.array([-0.5, -0.25])]
    assert capped_mean_over_games(strata) == pytest.approx((0.75 + 1.0 - 0.375) / 3)
    seeds = [capped_mean_over_games([game[[seed]] for game in strata]) for seed in (0, 1)]
    assert seeds == pytest.approx([1 / 3, 1.75 / 3])
    assert np.mean(seeds) == pytest.approx(capped_mean_over_games(strata))


def test_the_capped_mean_caps_every_point_of_a_curve():
    strata = [np.array([[0.5, 0.5], [4.0, 0.5]]), np.array([[0.0], [0.5]])]  # [T, seeds]
    np.testing.assert_allclose(capped_mean_over_games(strata), [0.25, (0.75 + 0.5) / 2])


@pytest.mark.parametrize("ties", [False, True])
def test_the_probability_of_improvement_is_scipys_u(rng, ties):
    x, y = rng.normal(0.4, size=6), rng.normal(size=5)
    if ties:
        x, y = np.round(x), np.round(y)
    u = scipy.stats.mannwhitneyu(x, y).statistic
    assert improvement([x], [y]) == pytest.approx(u / 30)


def test_the_probability_of_improvement_by_hand():
    x = [np.array([1.0, 2.0]), np.array([5.0])]
    y = [np.array([2.0, 0.0]), np.array([6.0])]
    # Pairs of the first game: 1>2 no, 1>0 yes, 2=2 half, 2>0 yes: 2.5 of 4; second: 0.
    assert improvement(x, y) == 0.5 * (2.5 / 4)
    assert improvement(x, y) + improvement(y, x) == 1.0


def test_the_bootstrap_agrees_with_scipys_percentile_interval(rng):
    scores = rng.exponential(size=25)
    low, value, high = bootstrap(rng, mean_over_games, [scores], resamples=20_000)
    theirs = scipy.stats.bootstrap(
        (scores,), np.mean, method="percentile", n_resamples=20_000, rng=3
    ).confidence_interval
    assert value == pytest.approx(scores.mean())
    assert low == pytest.approx(theirs.low, abs=0.02)
    assert high == pytest.approx(theirs.high, abs=0.02)


def test_resamples_are_stratified(rng):
    strata = [np.array([1.0, 2.0]), np.array([10.0, 20.0, 30.0])]
    first, second = resample(rng, strata, 500)
    assert first.shape == (500, 2) and second.shape == (500, 3)
    assert set(np.unique(first)) == {1.0, 2.0}
    assert set(np.unique(second)) == {10.0, 20.0, 30.0}


def test_with_one_seed_there_is_no_interval(rng):
    interval = bootstrap(rng, mean_over_games, [np.array([2.0]), np.array([4.0])])
    assert interval.value == 3.0
    assert math.isnan(interval.low) and math.isnan(interval.high)


def test_the_same_generator_gives_the_same_interval():
    strata, again = [np.arange(6.0)], [np.random.default_rng(1) for _ in "ab"]
    one, two = (bootstrap(rng, interquartile_mean, strata) for rng in again)
    assert one == two and one.low < one.value < one.high


def test_intervals_cover_the_truth_about_as_often_as_they_say(rng):
    """95% of 300 intervals of 40 normal scores; percentile intervals are a bit short."""
    hits = 0
    for _ in range(300):
        scores = rng.normal(size=40)
        low, _, high = bootstrap(rng, mean_over_games, [scores], resamples=400)
        hits += low <= 0 <= high
    assert 0.90 < hits / 300 < 0.985


# One scale for several games, never two kinds at once

SCORES = np.array([2.0, 6.0])


def test_atari_is_human_normalised():
    scale = choose_scale({"frostbite": SCORES, "pong": SCORES})
    assert (scale.kind, scale.label) == ("human", "human-normalised score")
    assert scale.apply("pong", np.array([3.0]))[0] == human_normalised("pong", 3.0)


def test_games_with_a_known_maximum_go_from_random_to_it():
    scale = choose_scale({"classic:cartpole": SCORES, "minigrid:door_key_6x6": SCORES})
    assert scale.kind == "possible"
    np.testing.assert_allclose(
        scale.apply("classic:cartpole", np.array([21.3, 500.0])),
        [0, 1],
    )


def test_one_game_without_a_maximum_changes_the_scale_of_all():
    scale = choose_scale({"classic:cartpole": SCORES, "minatar:breakout": SCORES})
    assert scale.kind == "study"
    assert "best run of this study" in scale.label and "random" in scale.label
    assert scale.ends["minatar:breakout"] == (KNOWN["minatar:breakout"].random, 6.0)


def test_human_scores_are_not_mixed_with_others():
    assert choose_scale({"pong": SCORES, "classic:cartpole": SCORES}).kind == "study"


def test_an_unknown_game_is_scaled_by_the_study_alone():
    scale = choose_scale({"pong": SCORES, "my:game": SCORES})
    assert scale.kind == "min-max" and "worst" in scale.label
    np.testing.assert_allclose(scale.apply("my:game", SCORES), [0, 1])


def test_a_game_in_which_all_score_the_same_has_no_division_by_zero():
    scale = choose_scale({"my:game": np.array([5.0, 5.0])})
    np.testing.assert_array_equal(scale.apply("my:game", np.array([5.0])), [0.0])


def test_reference_scores_are_of_games_that_there_are():
    for game, known in KNOWN.items():
        check(game)
        assert known.possible is None or known.possible > known.random


def test_so_many_seeds_tell_an_improvement_from_none(rng):
    """By simulation: normal scores of which one beats the other with probability 0.65."""
    needed = [seeds_needed(comparisons) for comparisons in (1, 2, 3, 4, 5, 8)]
    assert needed == [59, 30, 20, 15, 12, 8], "as docs/guide/report.md says"
    distance, told = 2**0.5 * NormalDist().inv_cdf(0.65), 0
    for _ in range(200):
        x, y = rng.normal(size=(2, 5, seeds_needed(5)))
        low, _, _ = bootstrap(rng, improvement, [*(x + distance)], [*y], resamples=200)
        told += low > 0.5
    assert 0.7 < told / 200 < 0.9


@pytest.mark.parametrize(
    "game, score, episodes, learned",
    [
        ("classic:cartpole", 9.5, 10, False),  # a pole that falls at once
        ("classic:cartpole", 45.2, 10, False),  # 21.3 + 5% of the way to 500 is 45.24
        ("classic:cartpole", 45.3, 10, True),
        ("classic:cartpole", 45.3, 1, False),  # 21.3 + 2.326 * 11 is 46.9
        ("minatar:breakout", 0.87, 10, False),  # 0.393 + 2.326 * 0.65 / sqrt(10) is 0.871
        ("minatar:breakout", 0.88, 10, True),
        ("pong", -20.0, 10, True),  # only the mean is known
        ("mine:corridor", 1.0, 10, None),
        ("pong", None, 0, None),
    ],
)
def test_what_counts_as_having_learned(game, score, episodes, learned):
    assert has_learned(game, score, episodes) is learned

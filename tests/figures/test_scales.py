"""One scale for several games, never two kinds at once."""

import numpy as np
import pytest

from sidequest.environments.registry import check
from sidequest.environments.scores import human_normalised
from sidequest.figures.statistics import KNOWN, choose_scale

SCORES = np.array([2.0, 6.0])


def test_atari_is_human_normalised():
    scale = choose_scale({"frostbite": SCORES, "pong": SCORES})
    assert (scale.kind, scale.label) == ("human", "human-normalised score")
    assert scale.apply("pong", np.array([3.0]))[0] == human_normalised("pong", 3.0)


def test_games_with_a_known_maximum_go_from_random_to_it():
    scale = choose_scale({"classic:cartpole": SCORES, "minigrid:door_key_6x6": SCORES})
    assert scale.kind == "possible"
    np.testing.assert_allclose(
        scale.apply("classic:cartpole", np.array([22.23, 500.0])), [0, 1]
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


@pytest.mark.parametrize("game", KNOWN)
def test_reference_scores_are_of_games_that_there_are(game):
    check(game)
    known = KNOWN[game]
    assert known.possible is None or known.possible > known.random

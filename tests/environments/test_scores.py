"""Human-normalised scores."""

import pytest

from sidequest.environments import atari
from sidequest.environments.scores import KNOWN, human_normalised

HUMAN = {game: known for game, known in KNOWN.items() if known.human is not None}


def test_the_57_games_are_all_shipped():
    assert len(HUMAN) == 57
    assert set(HUMAN) <= set(atari.rom_names())


def test_random_is_zero_and_human_is_one():
    for game, reference in HUMAN.items():
        assert human_normalised(game, reference.random) == 0.0
        assert human_normalised(game, reference.human) == 1.0


def test_by_hand():
    # (2200 - 65.2) / (4334.7 - 65.2)
    assert human_normalised("frostbite", 2200.0) == pytest.approx(0.500012, abs=1e-6)
    assert human_normalised("skiing", -17098.1 - 12761.2) == pytest.approx(-1.0)


def test_a_game_without_scores():
    assert human_normalised("adventure", 1.0) is None
    assert human_normalised("classic:cartpole", 1.0) is None
    assert human_normalised("frostbite", None) is None

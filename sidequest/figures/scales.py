"""One scale for the scores of several games. Never two kinds of it in one figure.

Of these the first that all games of a figure have is used, and the axis names it:

    human           0 a random policy, 1 a human; for Atari (environments/scores.py)
    possible        0 a random policy, 1 the greatest return that the game allows
    study           0 a random policy, 1 the best run of the study
    min-max         0 the worst run of the study, 1 the best

The last two rank the runs of one study and say nothing across studies.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from sidequest.environments.scores import SCORES


class Known(NamedTuple):
    """What is known about the returns of a game that no human's score is known for."""

    random: float
    possible: float | None = None
    """The greatest return there can be; None where there is no bound to speak of."""


# Mean return of uniform random play over 190 to 84,000 episodes, measured by
#
#     sidequest train XU-experiment-level-X --game GAME --frames 500k \
#         --set replay.warm_up=99999 --set replay.ratio=0.01
#
# (Breakout 200k), which explores all the time and hardly learns: the mean of the column
# `return` of its table `episodes`. The greatest return is what the reward's definition
# says: CartPole ends after 500 steps of reward 1; deep sea pays 1 less 0.01 for the way;
# the memory chain 1; MiniGrid 1 less what the steps cost, so that 1 bounds it. MinAtar
# has no bound.
KNOWN: dict[str, Known] = {
    "bsuite:deep_sea": Known(-0.0012, 0.99),
    "bsuite:deep_sea_10": Known(-0.0040, 0.99),
    "bsuite:deep_sea_20": Known(-0.0050, 0.99),
    "bsuite:memory_chain": Known(-0.0034, 1.0),
    "classic:cartpole": Known(22.23, 500.0),
    "minatar:asterix": Known(0.526),
    "minatar:breakout": Known(0.411),
    "minatar:freeway": Known(0.448),
    "minatar:seaquest": Known(0.096),
    "minatar:space_invaders": Known(4.16),
    "minigrid:door_key_5x5": Known(0.049, 1.0),
    "minigrid:door_key_6x6": Known(0.030, 1.0),
    "minigrid:door_key_8x8": Known(0.017, 1.0),
    "minigrid:empty_5x5": Known(0.236, 1.0),
    "minigrid:empty_6x6": Known(0.174, 1.0),
    "minigrid:empty_8x8": Known(0.113, 1.0),
    "minigrid:empty_16x16": Known(0.051, 1.0),
    "minigrid:empty_random_8x8": Known(0.240, 1.0),
    "minigrid:four_rooms": Known(0.023, 1.0),
    "minigrid:unlock": Known(0.027, 1.0),
}


class Scale(NamedTuple):
    """What is 0 and what is 1 in each game."""

    kind: str
    label: str
    """For an axis."""
    ends: dict[str, tuple[float, float]]

    def apply(self, game: str, score: Float[np.ndarray, "*batch"]) -> np.ndarray:
        zero, one = self.ends[game]
        return (score - zero) / (one - zero)


def choose_scale(finals: Mapping[str, Float[np.ndarray, "N"]]) -> Scale:
    """The first kind of scale that every game has; `finals` are all runs' scores."""
    games = list(finals)
    if games and all(game in SCORES for game in games):
        ends = {game: (SCORES[game].random, SCORES[game].human) for game in games}
        return Scale("human", "human-normalised score", ends)
    known = {game: KNOWN[game] for game in games if game in KNOWN}
    possible = {
        game: (one.random, one.possible)
        for game, one in known.items()
        if one.possible is not None
    }
    if games and len(possible) == len(games):
        return Scale("possible", "score: 0 random play, 1 the greatest possible", possible)
    zeros = _random_scores(games)
    if len(zeros) == len(games):
        label = "score: 0 random play, 1 the best run of this study"
        return Scale("study", label, _ends(finals, lambda game, _: zeros[game]))
    label = "score: 0 the worst, 1 the best run of this study"
    return Scale("min-max", label, _ends(finals, lambda _, scores: float(scores.min())))


def _random_scores(games: list[str]) -> dict[str, float]:
    known = {game: SCORES[game].random for game in games if game in SCORES}
    return known | {game: KNOWN[game].random for game in games if game in KNOWN}


def _ends(
    finals: Mapping[str, Float[np.ndarray, "N"]], zero_of: Callable[..., float]
) -> dict[str, tuple[float, float]]:
    """From a game's zero to its best run; a game in which no run beats the zero has no
    scale, and keeps its raw distances from zero."""
    ends = {}
    for game, scores in finals.items():
        zero, best = zero_of(game, scores), float(np.max(scores))
        ends[game] = (zero, best if best > zero else zero + 1.0)
    return ends

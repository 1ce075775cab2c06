"""Atari scores of a random policy and of a human, scores between the two, and what is known
about the returns of other games.

The numbers of Atari are those that the literature shares. They were collected with 1 to 30
no-op starts and without sticky actions; using them with sticky actions is the custom.
"""

from typing import NamedTuple

_TABLE = """
alien 227.8 7127.7              amidar 5.8 1719.5              assault 222.4 742.0
asterix 210.0 8503.3            asteroids 719.1 47388.7        atlantis 12850.0 29028.1
bank_heist 14.2 753.1           battle_zone 2360.0 37187.5     beam_rider 363.9 16926.5
berzerk 123.7 2630.4            bowling 23.1 160.7             boxing 0.1 12.1
breakout 1.7 30.5               centipede 2090.9 12017.0       chopper_command 811.0 7387.8
crazy_climber 10780.5 35829.4   defender 2874.5 18688.9        demon_attack 152.1 1971.0
double_dunk -18.6 -16.4         enduro 0.0 860.5               fishing_derby -91.7 -38.7
freeway 0.0 29.6                frostbite 65.2 4334.7          gopher 257.6 2412.5
gravitar 173.0 3351.4           hero 1027.0 30826.4            ice_hockey -11.2 0.9
jamesbond 29.0 302.8            kangaroo 52.0 3035.0           krull 1598.0 2665.5
kung_fu_master 258.5 22736.3    montezuma_revenge 0.0 4753.3   ms_pacman 307.3 6951.6
name_this_game 2292.3 8049.0    phoenix 761.4 7242.6           pitfall -229.4 6463.7
pong -20.7 14.6                 private_eye 24.9 69571.3       qbert 163.9 13455.0
riverraid 1338.5 17118.0        road_runner 11.5 7845.0        robotank 2.2 11.9
seaquest 68.4 42054.7           skiing -17098.1 -4336.9        solaris 1236.3 12326.7
space_invaders 148.0 1668.7     star_gunner 664.0 10250.0      surround -10.0 6.5
tennis -23.8 -8.3               time_pilot 3568.0 5229.2       tutankham 11.4 167.6
up_n_down 533.4 11693.2         venture 0.0 1187.5             video_pinball 16256.9 17667.9
wizard_of_wor 563.5 4756.5      yars_revenge 3092.9 54576.9    zaxxon 32.5 9173.3
"""


class _Reference(NamedTuple):
    """Mean episode returns of the two reference players of a game."""

    random: float
    human: float


_WORDS = _TABLE.split()
SCORES = {
    game: _Reference(float(random), float(human))
    for game, random, human in zip(_WORDS[::3], _WORDS[1::3], _WORDS[2::3], strict=True)
}


def human_normalised(game: str, score: float) -> float:
    """Returns (score - random) / (human - random): 0 for a random policy, 1 for a human.

    Raises:
        ValueError: There are no reference scores for this game.
    """
    if game not in SCORES:
        raise ValueError(f"No human score is known for {game!r}.")
    reference = SCORES[game]
    return (score - reference.random) / (reference.human - reference.random)


class Known(NamedTuple):
    """What is known about the returns of a game that no human's score is known for."""

    random: float
    """Mean return of uniform random play."""
    spread: float = 0.0
    """Standard deviation of the return of its episodes; 0 where nobody measured it."""
    possible: float | None = None
    """The highest return there can be; None where there is no bound to speak of."""


# Mean and standard deviation of the return of uniform random play, with the sticky actions
# that the suites have by default, over 128 to 19,000 episodes: 64 environments for 3,000
# steps (Freeway 5,100). The highest return is what the reward's definition says: CartPole
# ends after 500 steps of reward 1; deep sea pays 1 less 0.01 for the way; the memory chain
# 1; MiniGrid 1 less what the steps cost, so that 1 bounds it. MinAtar has no bound.
KNOWN: dict[str, Known] = {
    "bsuite:deep_sea": Known(-0.00126, 0.061, 0.99),
    "bsuite:deep_sea_10": Known(-0.0038, 0.034, 0.99),
    "bsuite:deep_sea_20": Known(-0.005, 0.0011, 0.99),
    "bsuite:memory_chain": Known(0.00606, 1, 1.0),
    "classic:cartpole": Known(21.3, 11, 500.0),
    "minatar:asterix": Known(0.506, 0.87),
    "minatar:breakout": Known(0.393, 0.65),
    "minatar:freeway": Known(0.383, 0.56),
    "minatar:seaquest": Known(0.105, 0.41),
    "minatar:space_invaders": Known(4.08, 3.2),
    "minigrid:door_key_5x5": Known(0.0445, 0.14, 1.0),
    "minigrid:door_key_6x6": Known(0.0144, 0.077, 1.0),
    "minigrid:door_key_8x8": Known(0.0143, 0.094, 1.0),
    "minigrid:empty_5x5": Known(0.243, 0.3, 1.0),
    "minigrid:empty_6x6": Known(0.174, 0.26, 1.0),
    "minigrid:empty_8x8": Known(0.111, 0.22, 1.0),
    "minigrid:empty_16x16": Known(0.0716, 0.18, 1.0),
    "minigrid:empty_random_8x8": Known(0.243, 0.34, 1.0),
    "minigrid:four_rooms": Known(0.0206, 0.12, 1.0),
    "minigrid:unlock": Known(0.023, 0.11, 1.0),
}

"""Atari scores of a random policy and of a human, and scores between the two.

The numbers are the ones that the literature shares. They were collected with 1 to 30
no-op starts and without sticky actions; using them with sticky actions is the custom.
"""

from typing import NamedTuple


class Reference(NamedTuple):
    """Mean episode returns of the two reference players of a game."""

    random: float
    human: float


SCORES = {
    "alien": Reference(227.8, 7127.7),
    "amidar": Reference(5.8, 1719.5),
    "assault": Reference(222.4, 742.0),
    "asterix": Reference(210.0, 8503.3),
    "asteroids": Reference(719.1, 47388.7),
    "atlantis": Reference(12850.0, 29028.1),
    "bank_heist": Reference(14.2, 753.1),
    "battle_zone": Reference(2360.0, 37187.5),
    "beam_rider": Reference(363.9, 16926.5),
    "berzerk": Reference(123.7, 2630.4),
    "bowling": Reference(23.1, 160.7),
    "boxing": Reference(0.1, 12.1),
    "breakout": Reference(1.7, 30.5),
    "centipede": Reference(2090.9, 12017.0),
    "chopper_command": Reference(811.0, 7387.8),
    "crazy_climber": Reference(10780.5, 35829.4),
    "defender": Reference(2874.5, 18688.9),
    "demon_attack": Reference(152.1, 1971.0),
    "double_dunk": Reference(-18.6, -16.4),
    "enduro": Reference(0.0, 860.5),
    "fishing_derby": Reference(-91.7, -38.7),
    "freeway": Reference(0.0, 29.6),
    "frostbite": Reference(65.2, 4334.7),
    "gopher": Reference(257.6, 2412.5),
    "gravitar": Reference(173.0, 3351.4),
    "hero": Reference(1027.0, 30826.4),
    "ice_hockey": Reference(-11.2, 0.9),
    "jamesbond": Reference(29.0, 302.8),
    "kangaroo": Reference(52.0, 3035.0),
    "krull": Reference(1598.0, 2665.5),
    "kung_fu_master": Reference(258.5, 22736.3),
    "montezuma_revenge": Reference(0.0, 4753.3),
    "ms_pacman": Reference(307.3, 6951.6),
    "name_this_game": Reference(2292.3, 8049.0),
    "phoenix": Reference(761.4, 7242.6),
    "pitfall": Reference(-229.4, 6463.7),
    "pong": Reference(-20.7, 14.6),
    "private_eye": Reference(24.9, 69571.3),
    "qbert": Reference(163.9, 13455.0),
    "riverraid": Reference(1338.5, 17118.0),
    "road_runner": Reference(11.5, 7845.0),
    "robotank": Reference(2.2, 11.9),
    "seaquest": Reference(68.4, 42054.7),
    "skiing": Reference(-17098.1, -4336.9),
    "solaris": Reference(1236.3, 12326.7),
    "space_invaders": Reference(148.0, 1668.7),
    "star_gunner": Reference(664.0, 10250.0),
    "surround": Reference(-10.0, 6.5),
    "tennis": Reference(-23.8, -8.3),
    "time_pilot": Reference(3568.0, 5229.2),
    "tutankham": Reference(11.4, 167.6),
    "up_n_down": Reference(533.4, 11693.2),
    "venture": Reference(0.0, 1187.5),
    "video_pinball": Reference(16256.9, 17667.9),
    "wizard_of_wor": Reference(563.5, 4756.5),
    "yars_revenge": Reference(3092.9, 54576.9),
    "zaxxon": Reference(32.5, 9173.3),
}


def human_normalised(game: str, score: float) -> float:
    """0 is the random policy's score, 1 the human's: (s - random) / (human - random).

    Raises:
        ValueError: There are no reference scores for this game.
    """
    if game not in SCORES:
        raise ValueError(f"No human score is known for {game!r}.")
    reference = SCORES[game]
    return (score - reference.random) / (reference.human - reference.random)

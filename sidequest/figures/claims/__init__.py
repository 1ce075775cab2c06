"""The paper's claims, and the rule by which each is judged from records.

A rule is the same for every study and is shown beside its verdict. "Not supported" says
that these runs did not pass it; only where a verdict says that the data point the other
way do they speak against the claim. All claims rest on finished runs, two seeds a cell at
least, and compare only cells of the same game, budget and settings.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from sidequest.figures import rules
from sidequest.figures.data import Records
from sidequest.figures.pairs import blind_partner, counting_partner
from sidequest.figures.rules import Verdict

_IMPROVES = (
    "The lower end of the 95% stratified bootstrap interval of the probability of "
    "improvement is above 0.5"
)


class Claim(NamedTuple):
    """One sentence of the paper that records can speak to."""

    name: str
    sentence: str
    """In our words."""
    paper: str
    needs: str
    """Which variants and how many games."""
    rule: str
    judge: Callable[[Records], Verdict]


def _granularity_claim(mode: str, words: str) -> Claim:
    return Claim(
        f"granularity-{mode}",
        f"With {words}, intra-episodic exploration does better than step-level, "
        "episode-level and experiment-level exploration.",
        "section 3.2, figure 3",
        f"{mode}-intra(10,informed,p*,X) and {mode}'s four baselines on two games.",
        f"{_IMPROVES} against each of the four baselines, every game counting the same.",
        partial(rules.headline_beats_baselines, mode=mode),
    )


_PERFORMANCE = (
    _granularity_claim("XU", "random actions as explore mode (XU)"),
    _granularity_claim("XI", "intrinsic reward as explore mode (XI)"),
    Claim(
        "some-variant",
        "On each game some intra-episodic variant brings a clear gain, though not the "
        "same one everywhere.",
        "appendix C, learning curves",
        "The four baselines and an intra-episodic variant of the same explore mode, on "
        "two games.",
        "For each game and explore mode, one intra-episodic variant's worst seed is "
        "above the best seed of every baseline. The variant is chosen after the fact, "
        "so that many variants with few seeds pass more easily.",
        rules.some_variant_gains,
    ),
    Claim(
        "informed-scores",
        "An informed trigger scores better than a blind one that switches as often.",
        "section 3.3, figure 5 (right)",
        "Pairs such as intra(10,informed,0.01,G) and intra(10,blind,100,G), on two games.",
        f"{_IMPROVES}, informed over blind, every pair and game counting the same.",
        partial(
            rules.improves,
            partner=blind_partner,
            what="an informed variant and a blind one of the same rate",
        ),
    ),
    Claim(
        "starting-mode",
        "Whether an episode starts exploring or exploiting matters, and which is better "
        "depends on the game.",
        "sections 2.2 and 3.3, figure 6",
        "A blind intra-episodic variant with both starting modes, on two games.",
        "For one and the same variant there is a game on which every seed that starts "
        "exploring beats every seed that starts exploiting, and a game on which it is "
        "the other way round.",
        rules.starting_mode_depends_on_game,
    ),
    Claim(
        "coin-scores",
        "Switching by a coin scores better than switching by a counter.",
        "section 3.3, figure 7 (right)",
        "Pairs such as intra(10,blind,p*,X) and intra(10,blind,n*,X), on two games.",
        f"{_IMPROVES}, coin over counter, every pair and game counting the same.",
        partial(
            rules.improves,
            partner=counting_partner,
            what="a blind variant both with a coin and with a counter",
        ),
    ),
    Claim(
        "off-policy",
        "Off-policy correction is not needed: without it scores are the same or "
        "slightly better.",
        "section 4 and appendices A.3 and C",
        "A variant with and without trace cutting (learning.watkins), on two games.",
        "Supported if the upper end of the 95% interval of the probability that "
        f"correction improves is below {rules.EQUIVALENT}; not supported if the lower "
        "end is above 0.5; too wide an interval is not enough data.",
        rules.correction_is_not_needed,
    ),
    Claim(
        "soft-similar",
        "Softer modes (XS) perform much like the all-or-nothing ones (XU).",
        "appendix B.1",
        "The same setting with XS and with XU, on two games.",
        "Supported if the 95% interval of the probability that XS improves lies between "
        f"{1 - rules.EQUIVALENT} and {rules.EQUIVALENT}; not supported if it lies on "
        "one side of 0.5; else it is not enough data.",
        rules.soft_is_similar,
    ),
    Claim(
        "soft-flatter",
        "Softer modes (XS) depend less on the choice of granularity and trigger than XU.",
        'appendix B.1 ("possibly")',
        f"{rules.SETTINGS_NEEDED} settings with both XS and XU, on two games.",
        "The best and the worst setting's mean scores lie closer together with XS in "
        "more than half of the games.",
        rules.soft_is_flatter,
    ),
    Claim(
        "mismatch",
        "Of three informed triggers, action mismatch has an edge, with XI.",
        "appendix B.2",
        "The same XI variant with the three informed triggers, on two games.",
        f"{_IMPROVES} against value promise and against variance, every game counting the "
        "same.",
        rules.mismatch_beats_other_triggers,
    ),
)

_BEHAVIOUR = (
    Claim(
        "amount",
        "How much an agent explores (p_X) does not suffice to predict its score: when "
        "it does matters too.",
        "section 3.3, figure 4",
        f"{rules.PAIRS_NEEDED} pairs of intra-episodic or episode-level variants whose "
        "p_X on a game is the same.",
        f"Of pairs whose mean p_X differs by less than {rules.SIMILAR_P}, more have "
        "scores that do not overlap over seeds than chance explains: the binomial "
        f"probability of at least this many is below {rules.RARE}. Pairs are treated as "
        "independent.",
        rules.amount_is_not_enough,
    ),
    Claim(
        "adaptation",
        "Bandits change how much agents explore over the course of training.",
        "section 3.3, figure 4",
        "A variant with a bandit.",
        "In at least half of the cases (variant and game), with every seed, a bandit "
        f"has moved at least {rules.SHIFTED} of its probability between arms, and p_X "
        "moves in the same direction from the first to the last tenth of training, by "
        f"{rules.MOVED} or more on average. (p_X alone would not do: it also falls "
        "when episodes get longer.)",
        rules.bandits_adapt,
    ),
    Claim(
        "counting-bandit",
        "A bandit over the number of exploit steps turns exploration down during training.",
        "section 3.3 (long exploit periods are preferred)",
        "A variant with n*.",
        "In more than half of the cases (variant and game), with every seed, p_X falls "
        "from the first to the last tenth of training and the bandit comes to prefer "
        "longer exploit periods than at the start.",
        rules.counting_bandit_lowers,
    ),
    Claim(
        "little",
        "High scores need p_X to come down far below a half.",
        "section 3.3, figure 4",
        "Two games on which intra-episodic or episode-level variants differ: one "
        f"explores more than {rules.MUCH} of its steps at the end, another less than "
        f"{rules.LITTLE}.",
        "In more than half of the games (and explore modes) the best variant's p_X over "
        f"the last tenth of training is below {rules.LITTLE}.",
        rules.best_explore_little,
    ),
    Claim(
        "symmetric",
        "Symmetric switching explores about half of the time.",
        "section 2.2",
        "A symmetric variant (=).",
        f"On every game the mean p_X of all episodes is within {rules.HALF} of 0.5.",
        rules.symmetric_is_half,
    ),
    Claim(
        "uneven",
        "Explore periods of an informed trigger are spaced less evenly than those of a "
        "blind one that explores as much.",
        "section 3.3, figure 5",
        "Pairs such as intra(10,informed,0.01,G) and intra(10,blind,100,G) whose "
        f"recorded p_X differs by a factor of at most {rules.SAME_AMOUNT}, with "
        f"{rules.PERIODS_NEEDED} recorded exploit periods a run.",
        "The unevenness of a run is the standard deviation of its exploit periods' "
        "lengths over their mean: 0 for a counter, about 1 for a coin. In more than "
        "half of the comparisons every informed seed is above every blind one.",
        rules.informed_is_uneven,
    ),
    Claim(
        "start-bandit",
        "With symmetric blind switching, bandits prefer longer periods when episodes "
        "start exploiting than when they start exploring.",
        "section 3.3 and appendix C",
        "intra(=,blind,n*,G) and intra(=,blind,n*,X).",
        "In more than half of the comparisons, the mean log10 of the number of steps "
        "under the bandit's probabilities in the last tenth of training is greater with "
        "every seed that starts with G.",
        rules.start_changes_switching,
    ),
    Claim(
        "coin-diversity",
        "Switching by a coin spans a wider range of p_X than switching by a counter.",
        "section 3.3, figure 7",
        "Pairs such as intra(10,blind,p*,X) and intra(10,blind,n*,X).",
        "In more than half of the comparisons the standard deviation of p_X over "
        "episodes is greater with every seed of the coin.",
        rules.coin_is_more_diverse,
    ),
    Claim(
        "homeostasis",
        "Homeostasis holds the target rate of switching, whatever the scale of the signal.",
        "section 2.3 and appendix A.4",
        f"An informed variant, and target rates at which {rules.SWITCHES_NEEDED} "
        "switches are to be expected.",
        "Over the second half of training, all switches to explore over all exploit "
        f"steps are within {rules.WITHIN:.0%} of the target, for "
        f"{rules.MOST:.0%} of the target rates of all variants and games.",
        rules.homeostasis_holds,
    ),
)

CLAIMS = _PERFORMANCE + _BEHAVIOUR

NOT_JUDGED = (
    "Statements about single Atari games (Phoenix, Montezuma's Revenge, Frostbite): "
    "each is one cell of the paper's figures, and shows in the score table where a "
    "study has that game.",
    "That bandits adapt alike with XU and with XI, and that long explore periods suit "
    "XI better than XU: the paper itself advises against comparing the two, since XI "
    "trains a second head.",
    "That two bandits at once can disturb each other, and that a bandit's choices "
    "should be few: advice, without an experiment in the paper.",
    "The explore mode with a shorter discount (Xγ): the paper reports no conclusive "
    "results.",
)
"""What no rule here judges, and why."""


def judge_all(records: Records) -> list[tuple[Claim, Verdict]]:
    """Returns every claim with its verdict."""
    return [(claim, claim.judge(records)) for claim in CLAIMS]

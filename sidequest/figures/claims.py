"""The paper's claims, and the rule by which each is judged from records.

A rule is the same for every study and is shown beside its verdict; assets/texts.toml states
both in words. "Not supported" says that these runs did not pass it; only where a verdict
says that the data point the other way do they speak against the claim. All claims rest on
finished runs, two seeds a cell at least, and compare only cells of the same game, budget
and settings.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from sidequest.figures import rules
from sidequest.figures.data import Records, texts
from sidequest.figures.pairs import blind_partner, counting_partner
from sidequest.figures.rules import Verdict


class Claim(NamedTuple):
    """One sentence of the paper that records can speak to."""

    name: str
    judge: Callable[[Records], Verdict]
    sentence: str
    """The claim in our words."""
    paper: str
    needs: str
    """Which variants and how many games."""
    rule: str


_JUDGE: dict[str, Callable[[Records], Verdict]] = {
    "granularity-XU": partial(rules.headline_beats_baselines, mode="XU"),
    "granularity-XI": partial(rules.headline_beats_baselines, mode="XI"),
    "some-variant": rules.some_variant_gains,
    "informed-scores": partial(
        rules.improves,
        partner=blind_partner,
        what="an informed variant and a blind one of the same rate",
    ),
    "starting-mode": rules.starting_mode_depends_on_game,
    "coin-scores": partial(
        rules.improves,
        partner=counting_partner,
        what="a blind variant both with a coin and with a counter",
    ),
    "off-policy": rules.correction_is_not_needed,
    "soft-similar": rules.soft_is_similar,
    "soft-flatter": rules.soft_is_flatter,
    "mismatch": rules.mismatch_beats_other_triggers,
    "amount": rules.amount_is_not_enough,
    "adaptation": rules.bandits_adapt,
    "counting-bandit": rules.counting_bandit_lowers,
    "little": rules.best_explore_little,
    "symmetric": rules.symmetric_is_half,
    "uneven": rules.informed_is_uneven,
    "start-bandit": rules.start_changes_switching,
    "coin-diversity": rules.coin_is_more_diverse,
    "homeostasis": rules.homeostasis_holds,
}

CLAIMS = tuple(
    Claim(
        name,
        _JUDGE[name],
        **{key: text.format_map(vars(rules)) for key, text in entry.items()},
    )
    for name, entry in texts("claims").items()
)


def judge_all(records: Records) -> list[tuple[Claim, Verdict]]:
    """Returns every claim with its verdict."""
    return [(claim, claim.judge(records)) for claim in CLAIMS]

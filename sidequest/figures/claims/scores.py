"""Rules for claims about scores. Each takes all records and gives a verdict.

Scores are final performances: mean return over the last 10% of training. They are compared
game by game, so that no scale between games is needed.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from sidequest.figures.claims.cells import (
    Match,
    by_mode_and_place,
    judged_cells,
    match,
    match_watkins,
)
from sidequest.figures.claims.partners import (
    Partner,
    greedy_start_partner,
    other_trigger,
    same_as,
    uniform_partner,
)
from sidequest.figures.claims.verdicts import (
    NOT_SUPPORTED,
    Verdict,
    chance_of_improvement,
    decide,
    in_words,
    lacking,
    listed,
    names_of,
    not_enough,
)
from sidequest.figures.notes import count
from sidequest.figures.reading import Records
from sidequest.figures.statistics import Interval
from sidequest.switching.variants import parse

BASELINES = (
    "experiment-level-X",
    "experiment-level-G",
    "step-level-0.01",
    "episode-level-*",
)
HEADLINE = "intra(10,informed,p*,X)"
EQUIVALENT = 0.75  # how often a run may win before two variants count as different
SETTINGS_NEEDED = 3


def headline_beats_baselines(records: Records, mode: str) -> Verdict:
    """The paper's intra-episodic variant against each of the four baselines."""
    cells = judged_cells(records.runs, "evaluations")
    headline = parse(f"{mode}-{HEADLINE}")
    baselines = [parse(f"{mode}-{name}") for name in BASELINES]
    return better_than_each(
        {str(one): match(cells, same_as(headline, one)) for one in baselines}, str(headline)
    )


def better_than_each(comparisons: Mapping[str, Sequence[Match]], name: str) -> Verdict:
    """Every one of the comparisons must pass; without one of them nothing is decided."""
    numbers, gaps = [], []
    found: dict[str, list[str]] = {"better than": [], "like": [], "worse than": []}
    for other, matches in comparisons.items():
        gap = lacking(matches, 2, f"both {name} and {other}")
        if gap:
            gaps.append(gap.sentence)
        if matches:
            chance = chance_of_improvement(matches)
            where = listed(names_of(matches))
            numbers.append((f"{name} over {other}, {where}", in_words(chance)))
            found[place_in(chance)].append(other)
    if gaps:
        return not_enough(gaps[0], numbers)
    texts = {
        "better than": "clearly better than {}",
        "like": "not clearly different from {}",
        "worse than": "clearly worse than {}, where the data point the other way",
    }
    said = [texts[how].format(listed(others)) for how, others in found.items() if others]
    sentence = f"{name} is {'; '.join(said)}."
    return decide(len(found["better than"]) == len(comparisons), sentence, numbers)


def place_in(chance: Interval) -> str:
    """On which side of 0.5 the whole interval lies."""
    if chance.low > 0.5:
        return "better than"
    return "worse than" if chance.high < 0.5 else "like"


def improves(records: Records, partner: Partner, what: str) -> Verdict:
    """One kind of variant against its partners, all games and pairs together."""
    matches = match(judged_cells(records.runs, "evaluations"), partner)
    gap = gap_in(matches, what)
    if gap:
        return gap
    chance = chance_of_improvement(matches)
    numbers = [("all pairs and games", in_words(chance)), *each_match(matches)]
    sentence = (
        f"Over {count(len(matches), 'comparison')} on {listed(names_of(matches))} the "
        f"probability of improvement is {in_words(chance)}."
    )
    if chance.high < 0.5:
        sentence += " The data point the other way."
    return decide(chance.low > 0.5, sentence, numbers)


def gap_in(matches: Sequence[Match], what: str) -> Verdict | None:
    """The verdict if there are fewer than two games, with the scores there are."""
    verdict = lacking(matches, 2, what)
    return verdict and verdict._replace(numbers=tuple(each_match(matches)))


def each_match(matches: Sequence[Match]) -> list[tuple[str, str]]:
    return [
        (
            f"{one.text}, {one.game}",
            f"{one.first.scores.mean():.4g} against {one.second.scores.mean():.4g}",
        )
        for one in matches
    ]


def mismatch_beats_other_triggers(records: Records) -> Verdict:
    cells = judged_cells(records.runs, "evaluations")
    comparisons = {
        f"the same with {other}": match(cells, other_trigger("informed:mismatch", other))
        for other in ("informed", "informed:variance")
    }
    return better_than_each(comparisons, "XI with informed:mismatch")


def some_variant_gains(records: Records) -> Verdict:
    """On each game, for each explore mode, a variant that stands clear of all baselines."""
    numbers, games, gained = [], set(), []
    for mode, members in by_mode_and_place(judged_cells(records.runs, "evaluations")):
        base = [one for one in members if str(one.variant) in names_of_baselines(mode)]
        intra = [one for one in members if one.variant.granularity == "intra"]
        if len(base) < len(BASELINES) or not intra:
            continue
        game = members[0].game
        best = max(intra, key=lambda cell: cell.scores.min())
        rival = max(base, key=lambda cell: cell.scores.max())
        games.add(game)
        gained.append(best.scores.min() > rival.scores.max())
        numbers.append(
            (
                f"{game}: worst seed of {best.label} against best seed of {rival.label}",
                f"{best.scores.min():.4g} against {rival.scores.max():.4g}",
            )
        )
    if len(games) < 2:
        return not_enough(
            "Fewer than two games have all four baselines and an intra-episodic variant "
            "with two finished seeds each.",
            numbers,
        )
    sentence = (
        f"An intra-episodic variant stands clear of the baselines in {sum(gained)} of "
        f"{count(len(gained), 'case')} (explore mode and game)."
    )
    return decide(all(gained), sentence, numbers)


def names_of_baselines(mode: str) -> list[str]:
    return [f"{mode}-{name}" for name in BASELINES]


def starting_mode_depends_on_game(records: Records) -> Verdict:
    """One game where starting with X clearly helps, one where it clearly harms."""
    matches = match(judged_cells(records.runs, "evaluations"), greedy_start_partner)
    gap = gap_in(matches, "a blind variant with both starting modes")
    if gap:
        return gap
    helps = listed(dict.fromkeys(one.game for one in matches if one.apart > 0)) or "no game"
    harms = listed(dict.fromkeys(one.game for one in matches if one.apart < 0)) or "no game"
    sentence = (
        f"Starting with explore is clearly better on {helps} and clearly worse on {harms}."
    )
    same = {one.first.variant for one in matches if one.apart > 0} & {
        one.first.variant for one in matches if one.apart < 0
    }
    return decide(bool(same), sentence, each_match(matches))


def correction_is_not_needed(records: Records) -> Verdict:
    matches = match_watkins(judged_cells(records.runs, "evaluations"))
    gap = gap_in(matches, "a variant both with and without trace cutting")
    if gap:
        return gap
    return no_worse(matches, "with trace cutting over without")


def soft_is_similar(records: Records) -> Verdict:
    matches = match(judged_cells(records.runs, "evaluations"), uniform_partner)
    gap = gap_in(matches, "a setting with both XS and XU")
    if gap:
        return gap
    return no_worse(matches, "XS over XU", both=True)


def no_worse(matches: Sequence[Match], what: str, *, both: bool = False) -> Verdict:
    """The first wins at most three times in four; if `both`, so does the second."""
    chance = chance_of_improvement(matches)
    numbers = [(what, in_words(chance)), *each_match(matches)]
    games = listed(names_of(matches))
    sentence = f"On {games} the probability of improvement, {what}, is {in_words(chance)}."
    if chance.low > 0.5 or (both and chance.high < 0.5):
        return Verdict(NOT_SUPPORTED, sentence, tuple(numbers))
    if chance.high < EQUIVALENT and (not both or chance.low > 1 - EQUIVALENT):
        return decide(True, sentence, numbers)
    return not_enough(sentence + " The interval is too wide to tell.", numbers)


def soft_is_flatter(records: Records) -> Verdict:
    """How far the best and the worst setting lie apart, for XS and for XU."""
    matches = match(judged_cells(records.runs, "evaluations"), uniform_partner)
    places: dict[tuple, list[Match]] = {}
    for one in matches:
        places.setdefault(one.first.place, []).append(one)
    numbers, flatter, games = [], [], set()
    for members in places.values():
        if len(members) < SETTINGS_NEEDED:
            continue
        soft, uniform = (
            np.ptp([cell.scores.mean() for cell in side])
            for side in zip(*members, strict=True)
        )
        games.add(members[0].game)
        flatter.append(bool(soft < uniform))
        numbers.append(
            (
                f"{members[0].game}, {len(members)} settings",
                f"XS {soft:.4g}, XU {uniform:.4g}",
            )
        )
    if len(games) < 2:
        return not_enough(
            "Fewer than two games have three settings with both XS and XU.", numbers
        )
    sentence = (
        f"The settings' scores lie closer together with XS in {sum(flatter)} of "
        f"{count(len(flatter), 'case')}."
    )
    return decide(sum(flatter) > len(flatter) / 2, sentence, numbers)

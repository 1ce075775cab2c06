"""Rules for claims about how much agents explore, and how bandits change that."""

import itertools
from collections.abc import Sequence
from math import comb

import numpy as np
from jaxtyping import Float

from sidequest.figures.claims.cells import Cell, Match, by_mode_and_place, judged_cells
from sidequest.figures.claims.measures import (
    changes,
    early_and_late,
    mean_p,
    prefers_longer,
    shifted,
)
from sidequest.figures.claims.verdicts import Verdict, decide, listed, names_of, not_enough
from sidequest.figures.notes import count
from sidequest.figures.reading import Records

SIMILAR_P = 0.05  # two variants explore the same amount
PAIRS_NEEDED = 5
RARE = 0.05
MOVED = 0.05  # in p_X, from the first tenth of training to the last
LITTLE, MUCH = 0.25, 0.4  # p_X "far below 0.5", and what there must be to compare with
SHIFTED = 0.15  # probability that a bandit has moved between its arms
HALF = 0.1  # how far from 0.5 "about a half" may be


def amount_is_not_enough(records: Records) -> Verdict:
    """Variants with the same p_X: do their scores lie apart more often than by chance?

    If n and m scores come from one distribution, all of one side beat all of the other
    with a probability of 2 / C(n + m, n).
    """
    pairs = []
    for _, members in by_mode_and_place(adaptive_kinds(records)):
        amounts = [mean_p(cell) for cell in members]
        for i, j in itertools.combinations(range(len(members)), 2):
            if abs(amounts[i] - amounts[j]) < SIMILAR_P:
                pairs.append(Match(members[i], members[j]))
    if len(pairs) < PAIRS_NEEDED:
        return not_enough(
            f"{count(len(pairs), 'pair')} of variants had the same p_X on a game; the rule "
            f"needs {PAIRS_NEEDED}."
        )
    apart = sum(one.apart != 0 for one in pairs)
    sizes = [(len(one.first.scores), len(one.second.scores)) for one in pairs]
    luck = at_least(apart, len(pairs), max(2 / comb(n + m, n) for n, m in sizes))
    sentence = (
        f"On {listed(names_of(pairs))}, {apart} of {count(len(pairs), 'pair')} with the "
        f"same p_X have scores that do not overlap. So many or more have a probability of "
        f"{luck:.2g} by chance."
    )
    words = ("the second is better", "overlap", "the first is better")
    numbers = [(f"{one.text}, {one.game}", words[one.apart + 1]) for one in pairs]
    return decide(luck < RARE, sentence, numbers)


def at_least(hits: int, trials: int, chance: float) -> float:
    """P(Binomial(trials, chance) >= hits)."""
    terms = (
        comb(trials, k) * chance**k * (1 - chance) ** (trials - k)
        for k in range(hits, trials + 1)
    )
    return sum(terms)


def best_explore_little(records: Records) -> Verdict:
    """The p_X at the end of training of each game's best variant."""
    numbers, little, games = [], [], set()
    for _, members in by_mode_and_place(adaptive_kinds(records)):
        late = [np.mean([early_and_late(run, "p_X")[1] for run in c.runs]) for c in members]
        if not (max(late) > MUCH and min(late) < LITTLE):
            continue
        best = int(np.argmax([cell.scores.mean() for cell in members]))
        games.add(members[best].game)
        little.append(bool(late[best] < LITTLE))
        numbers.append(
            (f"{members[best].game}: {members[best].label}", f"p_X {late[best]:.3f}")
        )
    if len(games) < 2:
        return not_enough(
            f"Fewer than two games have both a variant that explored more than {MUCH} of "
            f"its steps at the end and one that explored less than {LITTLE}.",
            numbers,
        )
    sentence = (
        f"The best variant explored less than {LITTLE} of its steps at the end in "
        f"{sum(little)} of {count(len(little), 'case')} (explore mode and game)."
    )
    return decide(sum(little) > len(little) / 2, sentence, numbers)


def bandits_adapt(records: Records) -> Verdict:
    """Does p_X move in the same direction with every seed, and do the bandits prefer?

    p_X alone would not do: it also falls when episodes get longer.
    """
    cells = judged_cells(records.runs, "episodes", "bandits")
    if not cells:
        return not_enough("No variant with a bandit has two finished seeds.")
    moves = [changes(cell) for cell in cells]
    moved = [
        abs(move.mean()) >= MOVED
        and same_sign(move)
        and min(map(shifted, cell.runs)) >= SHIFTED
        for cell, move in zip(cells, moves, strict=True)
    ]
    up = sum(bool(yes and one.mean() > 0) for yes, one in zip(moved, moves, strict=True))
    sentence = (
        f"p_X moved in {sum(moved)} of {count(len(cells), 'case')} (variant and game): up "
        f"in {up}, down in {sum(moved) - up}."
    )
    return decide(sum(moved) >= len(cells) / 2, sentence, change_numbers(cells, moves))


def counting_bandit_lowers(records: Records) -> Verdict:
    """Variants whose bandit chooses the number of exploit steps: does p_X fall?

    The bandit must come to prefer longer periods, too: p_X also falls when episodes get
    longer.
    """
    cells = judged_cells(records.runs, "episodes", "bandits")
    cells = [
        one
        for one in cells
        if one.variant.exploit
        and one.variant.exploit.unit == "steps"
        and one.variant.exploit.adaptive
    ]
    if not cells:
        return not_enough("No variant with n* has two finished seeds.")
    moves = [changes(cell) for cell in cells]
    fell = [
        move.max() < 0 and all(prefers_longer(run) for run in cell.runs)
        for cell, move in zip(cells, moves, strict=True)
    ]
    sentence = (
        f"p_X fell, and the bandit came to prefer longer exploit periods, with every seed "
        f"in {sum(fell)} of {count(len(cells), 'case')} (variant and game)."
    )
    return decide(sum(fell) > len(cells) / 2, sentence, change_numbers(cells, moves))


def symmetric_is_half(records: Records) -> Verdict:
    cells = judged_cells(records.runs, "episodes")
    cells = [
        one for one in cells if one.variant.explore and one.variant.explore.unit == "same"
    ]
    if not cells:
        return not_enough("No symmetric variant (=) has two finished seeds.")
    amounts = [mean_p(cell) for cell in cells]
    near = sum(abs(one - 0.5) <= HALF for one in amounts)
    sentence = (
        f"p_X lies within {HALF} of a half in {near} of {count(len(cells), 'case')} "
        f"(variant and game); it ranges from {min(amounts):.2f} to {max(amounts):.2f}."
    )
    numbers = [
        (f"{cell.label}, {cell.game}", f"{amount:.3f}")
        for cell, amount in zip(cells, amounts, strict=True)
    ]
    return decide(near == len(cells), sentence, numbers)


def adaptive_kinds(records: Records) -> list[Cell]:
    """What figure 4 shows: intra-episodic variants and the episodic baseline."""
    cells = judged_cells(records.runs, "evaluations", "episodes")
    return [one for one in cells if one.variant.granularity in ("intra", "episode")]


def same_sign(values: Float[np.ndarray, "N"]) -> bool:
    return bool((values > 0).all() or (values < 0).all())


def change_numbers(
    cells: Sequence[Cell], moves: Sequence[Float[np.ndarray, "N"]]
) -> list[tuple[str, str]]:
    return [
        (
            f"{cell.label}, {cell.game}",
            f"p_X {move.mean():+.3f}, bandit moved {min(map(shifted, cell.runs)):.2f}",
        )
        for cell, move in zip(cells, moves, strict=True)
    ]

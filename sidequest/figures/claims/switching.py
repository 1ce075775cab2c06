"""Rules for claims about when agents switch: how evenly, how diversely, how often."""

from collections.abc import Callable, Sequence

import numpy as np

from sidequest.figures.claims.cells import Match, judged_cells, match
from sidequest.figures.claims.measures import (
    exploit_periods,
    p_of,
    preferred_steps,
    switches,
    traced_p,
    unevenness,
)
from sidequest.figures.claims.partners import (
    blind_partner,
    counting_partner,
    greedy_start_partner,
)
from sidequest.figures.claims.verdicts import (
    Verdict,
    decide,
    lacking,
    listed,
    names_of,
    not_enough,
)
from sidequest.figures.notes import count
from sidequest.figures.reading import Records, Run

SAME_AMOUNT = 1.5  # greatest ratio of two p_X that count as the same amount
PERIODS_NEEDED = 20
SWITCHES_NEEDED = 400  # their noise is 5% then
WITHIN = 0.1
MOST = 0.9


def informed_is_uneven(records: Records) -> Verdict:
    """Spread of the exploit periods' lengths, over their mean, in recorded episodes."""
    matches = [
        one
        for one in match(judged_cells(records.runs, "traces"), blind_partner)
        if comparable(one)
    ]
    what = "an informed variant and a blind one of the same rate and the same p_X, recorded"
    return lacking(matches, 1, what) or every_seed_above(
        matches, unevenness, "The informed trigger is more uneven", "unevenness"
    )


def comparable(one: Match) -> bool:
    """Both explored about as much, and have enough exploit periods to look at."""
    amounts = [np.mean([traced_p(run) for run in cell.runs]) for cell in one]
    periods = [min(len(exploit_periods(run)) for run in cell.runs) for cell in one]
    ratio = max(amounts) / max(min(amounts), 1e-9)
    return bool(ratio <= SAME_AMOUNT) and min(periods) >= PERIODS_NEEDED


def coin_is_more_diverse(records: Records) -> Verdict:
    """Standard deviation of p_X over a run's episodes, by a coin and by a counter."""
    matches = match(judged_cells(records.runs, "episodes"), counting_partner)
    what = "a blind variant both with a coin and with a counter"
    return lacking(matches, 1, what) or every_seed_above(
        matches,
        lambda run: float(np.nanstd(p_of(run))),
        "The coin has a wider spread of p_X",
        "spread",
    )


def start_changes_switching(records: Records) -> Verdict:
    """Symmetric blind switching: which number of steps the bandit likes at the end."""
    cells = judged_cells(records.runs, "bandits")
    matches = [
        Match(one.second, one.first)  # starting with G first: it is said to be slower
        for one in match(cells, greedy_start_partner)
        if one.first.variant.explore
        and one.first.variant.explore.unit == "same"
        and one.first.variant.exploit
        and one.first.variant.exploit.adaptive
    ]
    what = "a symmetric blind variant with n* and both starting modes"
    return lacking(matches, 1, what) or every_seed_above(
        matches,
        preferred_steps,
        "Starting with G, the bandit prefers longer periods",
        "mean log10 of the steps",
    )


def homeostasis_holds(records: Records) -> Verdict:
    """Switches for each exploit step over the second half of training, over the target."""
    numbers, held = [], []
    for cell in judged_cells(records.runs, "episodes"):
        if not cell.variant.informed:
            continue
        for target, (made, asked) in switches(cell.runs).items():
            if asked < SWITCHES_NEEDED:
                continue
            ratio = made / asked
            held.append(abs(ratio - 1) <= WITHIN)
            name = f"{cell.label}, {cell.game}, target {target:g}"
            numbers.append((name, f"realised {ratio:.3f} of it"))
    if not held:
        return not_enough(
            "No informed variant with two finished seeds has a target rate at which "
            f"{SWITCHES_NEEDED} switches were to be expected in the second half."
        )
    sentence = (
        f"The realised rate is within {WITHIN:.0%} of the target in {sum(held)} of "
        f"{count(len(held), 'case')} (variant, game and target rate)."
    )
    return decide(sum(held) >= MOST * len(held), sentence, numbers)


def every_seed_above(
    matches: Sequence[Match], measure: Callable[[Run], float], what: str, noun: str
) -> Verdict:
    """In more than half of the matches every seed of the first is above the second's."""
    numbers, above = [], []
    for one in matches:
        first, second = ([measure(run) for run in cell.runs] for cell in one)
        above.append(min(first) > max(second))
        numbers.append(
            (f"{one.text}, {one.game}: {noun}", f"{span(first)} against {span(second)}")
        )
    sentence = (
        f"{what} with every seed in {sum(above)} of "
        f"{count(len(above), 'comparison')} on {listed(names_of(matches))}."
    )
    return decide(sum(above) > len(above) / 2, sentence, numbers)


def span(values: Sequence[float]) -> str:
    return f"{min(values):.3g} to {max(values):.3g}"

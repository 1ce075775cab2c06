"""The rules by which claims are judged: each takes all records and returns a verdict.

A rule compares *cells*: the runs of one variant on one game, which differ in nothing but
the seed. Two cells are compared only if they share game, budget and settings, so that no
scale between games is needed. What is compared with what follows from the paper's names
(`figures.pairs`). Scores are final performances: mean return over the last 10% of training.
"""

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import comb
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import polars as pl
from jaxtyping import Float

from sidequest.figures.data import (
    WATKINS,
    Records,
    count,
    exploit_periods,
    listed,
    of_runs,
    read_traces,
    read_variant,
)
from sidequest.figures.pairs import (
    GRANULARITIES,
    Partner,
    blind_partner,
    counting_partner,
    greedy_start_partner,
    other_trigger,
    same_as,
    uniform_partner,
)
from sidequest.figures.statistics import Interval, bootstrap, improvement
from sidequest.switching.variants import Variant, parse

_State: TypeAlias = Literal["supported", "not supported", "not enough data"]
_SUPPORTED: _State = "supported"
_NOT_SUPPORTED: _State = "not supported"
_NOT_ENOUGH: _State = "not enough data"
STATES = (_SUPPORTED, _NOT_SUPPORTED, _NOT_ENOUGH)

*_BASELINES, _HEADLINE = GRANULARITIES.values()
_SEED = 0  # of the bootstrap: the same records give the same page
_SEEDS_NEEDED = 2
EQUIVALENT = (0.25, 0.75)  # how often a run may win where two variants count as the same
SETTINGS_NEEDED = 3
SIMILAR_P = 0.05  # two variants explore the same amount
PAIRS_NEEDED = 5
RARE = 0.05
MOVED = 0.05  # in p_X, from the first tenth of training to the last
LITTLE, MUCH = 0.25, 0.4  # p_X "far below 0.5", and what there must be to compare with
SHIFTED = 0.15  # probability that a bandit has moved between its arms
HALF = 0.1  # how far from 0.5 "about a half" may be
SAME_AMOUNT = 1.5  # greatest ratio of two p_X that count as the same amount
PERIODS_NEEDED = 20
SWITCHES_NEEDED = 400  # their noise is 5% then
WITHIN = 0.1
MOST = 0.9

_Numbers: TypeAlias = Sequence[tuple[str, str]]
"""What was compared, and the result."""


class Verdict(NamedTuple):
    """The state of a claim in the records of one study."""

    state: _State
    sentence: str
    numbers: _Numbers = ()


class _Case(NamedTuple):
    """One of the comparisons that a rule counts."""

    game: str
    what: str
    result: str
    passed: bool


class Cell(NamedTuple):
    """The runs of one variant on one game, with one budget and one choice of settings."""

    label: str
    """The variant's name, with the settings in which cells of the study differ."""
    variant: Variant
    game: str
    place: tuple[str, str, str]
    """Cells may be compared if this is the same: game, budget, settings."""
    runs: pl.DataFrame
    """Rows of `Records.runs`."""

    def column(self, name: str) -> Float[np.ndarray, "N"]:
        """Returns a column of the runs, seed by seed."""
        return self.runs[name].cast(pl.Float64()).to_numpy()

    @property
    def scores(self) -> Float[np.ndarray, "N"]:
        return self.column("score")

    @property
    def name(self) -> str:
        return f"{self.label}, {self.game}"


class Match(NamedTuple):
    """A cell and the one that it is held against."""

    first: Cell
    second: Cell

    @property
    def game(self) -> str:
        return self.first.game

    @property
    def name(self) -> str:
        return f"{self.first.label} over {self.second.label}, {self.game}"

    @property
    def apart(self) -> int:
        """1 if every seed of the first beats every seed of the second, -1 if it is the
        other way round, 0 if their ranges overlap."""
        x, y = self.first.scores, self.second.scores
        return int(x.min() > y.max()) - int(x.max() < y.min())


# Cells and matches


def judged_cells(runs: pl.DataFrame, *tables: str) -> list[Cell]:
    """Returns cells that a claim may rest on: two finished seeds, with these tables."""
    sound = runs.filter(
        "finished", pl.col("mode").is_not_null(), *(pl.col(one) > 0 for one in tables)
    )
    if "evaluations" in tables:
        sound = sound.drop_nulls("score")
    place = ("game", "budget", "settings")
    cells = []
    for own in sound.partition_by("label", *place, maintain_order=True):
        first = own.row(0, named=True)
        variant = read_variant(first["variant"])
        if variant is not None and own["seed"].n_unique() >= _SEEDS_NEEDED:
            where = (first["game"], first["budget"], first["settings"])
            cells.append(Cell(first["label"], variant, first["game"], where, own))
    return cells


def match(cells: Sequence[Cell], partner: Partner) -> list[Match]:
    """Returns each cell with its partner's cell of the same game, budget and settings."""
    known = {(cell.variant, cell.place): cell for cell in cells}
    return [
        Match(cell, known[other, cell.place])
        for cell in cells
        if (other := partner(cell.variant)) and (other, cell.place) in known
    ]


def _match_watkins(cells: Sequence[Cell]) -> list[Match]:
    """Returns each cell with trace cutting and the same one without."""

    def kind(cell: Cell) -> tuple:
        game, budget, settings = cell.place
        rest = {key: one for key, one in json.loads(settings).items() if key != WATKINS}
        return cell.variant, game, budget, json.dumps(rest, sort_keys=True)

    cut = {kind(cell): cell for cell in cells if cell.runs["watkins"][0]}
    uncut = {kind(cell): cell for cell in cells if not cell.runs["watkins"][0]}
    return [Match(cell, uncut[key]) for key, cell in cut.items() if key in uncut]


def _by_mode_and_place(cells: Iterable[Cell]) -> Iterator[tuple[str, list[Cell]]]:
    """Groups cells that share the explore mode, the game, the budget and the settings."""
    groups: dict[tuple, list[Cell]] = {}
    for cell in cells:
        groups.setdefault((cell.variant.mode, cell.place), []).append(cell)
    for (mode, _), members in groups.items():
        yield mode, members


def _games_of(matches: Iterable[Match]) -> list[str]:
    return list(dict.fromkeys(one.game for one in matches))


# Verdicts


def _not_enough(why: str, numbers: _Numbers = ()) -> Verdict:
    return Verdict(_NOT_ENOUGH, why, numbers)


def _decide(passed: bool, sentence: str, numbers: _Numbers = ()) -> Verdict:
    return Verdict(_SUPPORTED if passed else _NOT_SUPPORTED, sentence, numbers)


def _most(
    cases: Sequence[_Case],
    sentence: str,
    gap: str,
    *,
    games: int = 1,
    share: float | None = None,
) -> Verdict:
    """Judges whether most of the cases passed, if enough games have one.

    Args:
        sentence: States the result; `{}` is filled with `3 of 4 cases`.
        gap: States what is missing otherwise.
        share: How many must pass at least; by default more than half.
    """
    numbers = [(one.what, one.result) for one in cases]
    if len({one.game for one in cases}) < games:
        return _not_enough(gap, numbers)
    hits = sum(one.passed for one in cases)
    enough = hits > len(cases) / 2 if share is None else hits >= share * len(cases)
    tally = f"{hits} of {count(len(cases), 'case')}"
    return _decide(enough, sentence.replace("{}", tally), numbers)


def _lacking(matches: Sequence[Match], games: int, what: str) -> Verdict | None:
    """Returns the verdict if fewer games than needed have what is to be compared."""
    found = _games_of(matches)
    if len(found) >= games:
        return None
    seeds = f"{_SEEDS_NEEDED} finished seeds each, same budget and settings"
    if not found:
        return _not_enough(f"No game has {what} ({seeds}).")
    sentence = f"Only {listed(found)} has {what} ({seeds}); the claim needs {games} games."
    return _not_enough(sentence, _each_match(matches))


def _improvement(matches: Sequence[Match]) -> Interval:
    """Returns P(a run of the first beats one of the second), with its 95% interval.

    Each match counts the same.
    """
    first = [one.first.scores for one in matches]
    second = [one.second.scores for one in matches]
    return bootstrap(np.random.default_rng(_SEED), improvement, first, second)


def _in_words(interval: Interval) -> str:
    return f"{interval.value:.2f} (95% interval {interval.low:.2f} to {interval.high:.2f})"


def _each_match(matches: Sequence[Match]) -> _Numbers:
    means = [[cell.scores.mean() for cell in one] for one in matches]
    return [
        (one.name, f"{first:.4g} against {second:.4g}")
        for one, (first, second) in zip(matches, means, strict=True)
    ]


# Rules about scores


def headline_beats_baselines(records: Records, mode: str) -> Verdict:
    """Compares the paper's intra-episodic variant with each of the four baselines."""
    cells = judged_cells(records.runs, "evaluations")
    headline = parse(f"{mode}-{_HEADLINE}")
    baselines = [parse(f"{mode}-{one}") for one in _BASELINES]
    comparisons = {str(one): match(cells, same_as(headline, one)) for one in baselines}
    return _better_than_each(comparisons, str(headline))


def mismatch_beats_other_triggers(records: Records) -> Verdict:
    """Compares action mismatch with the two other informed triggers."""
    cells, mine = judged_cells(records.runs, "evaluations"), "informed:mismatch"
    comparisons = {
        f"the same with {other}": match(cells, other_trigger(mine, other))
        for other in ("informed", "informed:variance")
    }
    return _better_than_each(comparisons, f"XI with {mine}")


def _better_than_each(comparisons: Mapping[str, Sequence[Match]], name: str) -> Verdict:
    """Judges a variant that must beat all others; if one is missing, nothing is decided."""
    numbers, gaps = [], []
    better, like, worse = [], [], []
    for other, matches in comparisons.items():
        gap = _lacking(matches, 2, f"both {name} and {other}")
        if gap:
            gaps.append(gap.sentence)
        if matches:
            chance = _improvement(matches)
            where = listed(_games_of(matches))
            numbers.append((f"{name} over {other}, {where}", _in_words(chance)))
            side = better if chance.low > 0.5 else worse if chance.high < 0.5 else like
            side.append(other)
    if gaps:
        return _not_enough(gaps[0], numbers)
    parts = []
    if better:
        parts.append(f"clearly better than {listed(better)}")
    if like:
        parts.append(f"not clearly different from {listed(like)}")
    if worse:
        parts.append(f"clearly worse than {listed(worse)}: the data point the other way")
    sentence = f"{name} is {'; '.join(parts)}."
    return _decide(len(better) == len(comparisons), sentence, numbers)


def improves(records: Records, partner: Partner, what: str) -> Verdict:
    """Compares one kind of variant with its partners, all games and pairs together."""
    matches = match(judged_cells(records.runs, "evaluations"), partner)
    if gap := _lacking(matches, 2, what):
        return gap
    chance = _improvement(matches)
    numbers = [("all pairs and games", _in_words(chance)), *_each_match(matches)]
    sentence = (
        f"Over {count(len(matches), 'comparison')} on {listed(_games_of(matches))} the "
        f"probability of improvement is {_in_words(chance)}."
    )
    if chance.high < 0.5:
        sentence += " The data point the other way."
    return _decide(chance.low > 0.5, sentence, numbers)


def some_variant_gains(records: Records) -> Verdict:
    """Looks, for each game and explore mode, for a variant that is above all baselines."""
    cases = []
    for mode, members in _by_mode_and_place(judged_cells(records.runs, "evaluations")):
        names = [f"{mode}-{one}" for one in _BASELINES]
        base = [one for one in members if str(one.variant) in names]
        intra = [one for one in members if one.variant.granularity == "intra"]
        if len(base) < len(names) or not intra:
            continue
        best = max(intra, key=lambda cell: cell.scores.min())
        rival = max(base, key=lambda cell: cell.scores.max())
        low, high = best.scores.min(), rival.scores.max()
        what = f"worst seed of {best.label} against best seed of {rival.label}"
        result = f"{low:.4g} against {high:.4g}"
        cases.append(_Case(best.game, f"{best.game}: {what}", result, bool(low > high)))
    return _most(
        cases,
        "An intra-episodic variant is above all baselines in {} (explore mode and game).",
        "Fewer than two games have all four baselines and an intra-episodic variant with "
        "two finished seeds each.",
        games=2,
        share=1.0,
    )


def starting_mode_depends_on_game(records: Records) -> Verdict:
    """Looks for a game where starting with X clearly helps, and one where it harms."""
    matches = match(judged_cells(records.runs, "evaluations"), greedy_start_partner)
    if gap := _lacking(matches, 2, "a blind variant with both starting modes"):
        return gap
    helps = [one for one in matches if one.apart > 0]
    harms = [one for one in matches if one.apart < 0]
    better, worse = (listed(_games_of(own)) or "no game" for own in (helps, harms))
    sentence = (
        f"Starting with explore is clearly better on {better} and clearly worse on {worse}."
    )
    same = {one.first.variant for one in helps} & {one.first.variant for one in harms}
    return _decide(bool(same), sentence, _each_match(matches))


def correction_is_not_needed(records: Records) -> Verdict:
    """Compares runs with trace cutting and without."""
    matches = _match_watkins(judged_cells(records.runs, "evaluations"))
    gap = _lacking(matches, 2, "a variant both with and without trace cutting")
    return gap or _no_worse(matches, "with trace cutting over without")


def soft_is_similar(records: Records) -> Verdict:
    """Compares XS and XU on the same settings."""
    matches = match(judged_cells(records.runs, "evaluations"), uniform_partner)
    gap = _lacking(matches, 2, "a setting with both XS and XU")
    return gap or _no_worse(matches, "XS over XU", both=True)


def _no_worse(matches: Sequence[Match], what: str, *, both: bool = False) -> Verdict:
    """Tests that the first wins at most three times in four; if `both`, the second too."""
    chance = _improvement(matches)
    numbers = [(what, _in_words(chance)), *_each_match(matches)]
    games = listed(_games_of(matches))
    sentence = f"On {games} the probability of improvement, {what}, is {_in_words(chance)}."
    if chance.low > 0.5 or (both and chance.high < 0.5):
        return _decide(False, sentence, numbers)
    if chance.high < EQUIVALENT[1] and (not both or chance.low > EQUIVALENT[0]):
        return _decide(True, sentence, numbers)
    return _not_enough(sentence + " The interval is too wide to tell.", numbers)


def soft_is_flatter(records: Records) -> Verdict:
    """Compares how far the best and the worst setting are apart, for XS and for XU."""
    places: dict[tuple, list[Match]] = {}
    for one in match(judged_cells(records.runs, "evaluations"), uniform_partner):
        places.setdefault(one.first.place, []).append(one)
    cases = []
    for (game, *_), members in places.items():
        if len(members) >= SETTINGS_NEEDED:
            soft = np.ptp([one.first.scores.mean() for one in members])
            uniform = np.ptp([one.second.scores.mean() for one in members])
            what, result = (
                f"{game}, {len(members)} settings",
                f"XS {soft:.4g}, XU {uniform:.4g}",
            )
            cases.append(_Case(game, what, result, bool(soft < uniform)))
    return _most(
        cases,
        "The settings' scores are closer together with XS in {}.",
        "Fewer than two games have three settings with both XS and XU.",
        games=2,
    )


# Rules about how much agents explore, and how bandits change that


def amount_is_not_enough(records: Records) -> Verdict:
    """Tests whether scores of variants with the same p_X differ more often than by chance.

    If n and m scores come from one distribution, all of one side beat all of the other
    with a probability of 2 / C(n + m, n).
    """
    pairs = [
        Match(first, second)
        for _, members in _by_mode_and_place(_partly_exploring(records))
        for first, second in itertools.combinations(members, 2)
        if abs(_mean_p(first) - _mean_p(second)) < SIMILAR_P
    ]
    if len(pairs) < PAIRS_NEEDED:
        return _not_enough(
            f"{count(len(pairs), 'pair')} of variants had the same p_X on a game; the rule "
            f"needs {PAIRS_NEEDED}."
        )
    apart = sum(one.apart != 0 for one in pairs)
    sizes = [(len(one.first.runs), len(one.second.runs)) for one in pairs]
    luck = binomial_tail(apart, len(pairs), max(2 / comb(n + m, n) for n, m in sizes))
    sentence = (
        f"On {listed(_games_of(pairs))}, {apart} of {count(len(pairs), 'pair')} with the "
        f"same p_X have scores that do not overlap. By chance, at least this many would "
        f"occur with probability {luck:.2g}."
    )
    words = ("the second is better", "overlap", "the first is better")
    numbers = [(one.name, words[one.apart + 1]) for one in pairs]
    return _decide(luck < RARE, sentence, numbers)


def binomial_tail(hits: int, trials: int, chance: float) -> float:
    """Returns P(Binomial(trials, chance) >= hits)."""
    terms = (
        comb(trials, k) * chance**k * (1 - chance) ** (trials - k)
        for k in range(hits, trials + 1)
    )
    return sum(terms)


def best_explore_little(records: Records) -> Verdict:
    """Looks at the p_X at the end of training of each game's best variant."""
    cases = []
    for _, members in _by_mode_and_place(_partly_exploring(records)):
        late = [cell.column("late_p_X").mean() for cell in members]
        if max(late) > MUCH and min(late) < LITTLE:
            best = int(np.argmax([cell.scores.mean() for cell in members]))
            what = f"{members[best].game}: {members[best].label}"
            result = f"p_X {late[best]:.3f}"
            cases.append(_Case(members[best].game, what, result, bool(late[best] < LITTLE)))
    return _most(
        cases,
        f"The best variant explored less than {LITTLE} of its steps at the end in {{}} "
        "(explore mode and game).",
        f"Fewer than two games have both a variant that explored more than {MUCH} of its "
        f"steps at the end and one that explored less than {LITTLE}.",
        games=2,
    )


def _partly_exploring(records: Records) -> list[Cell]:
    """Returns what figure 4 shows: intra-episodic variants and the episodic baseline."""
    cells = judged_cells(records.runs, "evaluations", "episodes")
    return [one for one in cells if one.variant.granularity in ("intra", "episode")]


def _mean_p(cell: Cell) -> float:
    return float(cell.column("mean_p_X").mean())


def bandits_adapt(records: Records) -> Verdict:
    """Tests whether p_X moves in the same direction with every seed, and bandits prefer.

    p_X alone would not do: it also falls when episodes get longer.
    """
    cases, up = [], 0
    for cell in judged_cells(records.runs, "episodes", "bandits"):
        move, shifted = _changes(cell), cell.column("shifted").min() >= SHIFTED
        same = (move > 0).all() or (move < 0).all()
        moved = bool(same and shifted and abs(move.mean()) >= MOVED)
        up += bool(moved and move[0] > 0)
        cases.append(_Case(cell.game, cell.name, _change_of(cell), moved))
    down = sum(one.passed for one in cases) - up
    return _most(
        cases,
        f"p_X moved in {{}} (variant and game): up in {up}, down in {down}.",
        "No variant with a bandit has two finished seeds.",
        share=0.5,
    )


def counting_bandit_lowers(records: Records) -> Verdict:
    """Tests whether p_X falls where a bandit chooses the number of exploit steps.

    The bandit must come to prefer longer periods, too: p_X also falls when episodes get
    longer.
    """
    cases = []
    for cell in judged_cells(records.runs, "episodes", "bandits"):
        exploit = cell.variant.exploit
        if exploit and exploit.unit == "steps" and exploit.adaptive:
            longer = (cell.column("preferred") > cell.column("even")).all()
            fell = bool(longer and _changes(cell).max() < 0)
            cases.append(_Case(cell.game, cell.name, _change_of(cell), fell))
    return _most(
        cases,
        "p_X fell, and the bandit came to prefer longer exploit periods, with every seed "
        "in {} (variant and game).",
        "No variant with n* has two finished seeds.",
    )


def _changes(cell: Cell) -> Float[np.ndarray, "N"]:
    """Returns the change of p_X from the first to the last tenth of training, by seed."""
    return cell.column("late_p_X") - cell.column("early_p_X")


def _change_of(cell: Cell) -> str:
    moved = cell.column("shifted").min()
    return f"p_X {_changes(cell).mean():+.3f}, bandit moved {moved:.2f}"


def symmetric_is_half(records: Records) -> Verdict:
    """Looks at the mean p_X of symmetric variants."""
    cells = [
        one
        for one in judged_cells(records.runs, "episodes")
        if one.variant.explore and one.variant.explore.unit == "same"
    ]
    amounts = [_mean_p(cell) for cell in cells] or [0.0]
    return _most(
        [
            _Case(cell.game, cell.name, f"{amount:.3f}", abs(amount - 0.5) <= HALF)
            for cell, amount in zip(cells, amounts, strict=False)
        ],
        f"p_X is within {HALF} of a half in {{}} (variant and game); it ranges from "
        f"{min(amounts):.2f} to {max(amounts):.2f}.",
        "No symmetric variant (=) has two finished seeds.",
        share=1.0,
    )


# Rules about when agents switch: how evenly, how diversely, how often


def informed_is_uneven(records: Records) -> Verdict:
    """Compares the spread of the exploit periods' lengths, over their mean."""
    matches = match(judged_cells(records.runs, "traces"), blind_partner)
    compared = [run for one in matches for cell in one for run in cell.runs["run"]]
    chosen = records.traces.filter(pl.col("run").is_in(compared))
    steps = pl.col("steps")
    periods = exploit_periods(read_traces(records, chosen, "modes"))
    spread = periods.group_by("run").agg(
        periods=pl.len(), unevenness=steps.std(ddof=0) / steps.mean()
    )
    amounts = chosen.group_by("run").agg(
        p_X=pl.col("explored").sum() / pl.col("length").sum()
    )
    measured = amounts.join(spread, on="run", how="left").with_columns(
        pl.col("periods").fill_null(0)
    )

    def comparable(one: Match) -> bool:
        first, second = (of_runs(measured, cell.runs) for cell in one)
        p_X = [float(own["p_X"].to_numpy().mean()) for own in (first, second)]
        enough = pl.concat([first, second])["periods"] >= PERIODS_NEEDED
        return max(p_X) / max(min(p_X), 1e-9) <= SAME_AMOUNT and bool(enough.all())

    return _every_seed_above(
        [one for one in matches if comparable(one)],
        dict(measured.select("run", "unevenness").iter_rows()),
        "an informed variant and a blind one of the same rate and the same p_X, recorded",
        "The informed trigger is more uneven",
        "unevenness",
    )


def coin_is_more_diverse(records: Records) -> Verdict:
    """Compares the standard deviation of p_X over episodes, by a coin and by a counter."""
    matches = match(judged_cells(records.runs, "episodes"), counting_partner)
    return _every_seed_above(
        matches,
        dict(records.runs.select("run", "std_p_X").iter_rows()),
        "a blind variant both with a coin and with a counter",
        "The coin has a wider spread of p_X",
        "spread",
    )


def start_changes_switching(records: Records) -> Verdict:
    """Compares the steps that bandits of symmetric blind variants prefer at the end."""
    matches = [
        Match(one.second, one.first)  # starting with G first: it is said to be slower
        for one in match(judged_cells(records.runs, "bandits"), greedy_start_partner)
        if (explore := one.first.variant.explore)
        and explore.unit == "same"
        and (exploit := one.first.variant.exploit)
        and exploit.adaptive
    ]
    return _every_seed_above(
        matches,
        dict(records.runs.select("run", "preferred").iter_rows()),
        "a symmetric blind variant with n* and both starting modes",
        "Starting with G, the bandit prefers longer periods",
        "mean log10 of the steps",
    )


def _every_seed_above(
    matches: Sequence[Match], values: Mapping[int, float], needed: str, what: str, noun: str
) -> Verdict:
    """Tests that, in most matches, every seed of the first is above the second's."""
    if gap := _lacking(matches, 1, needed):
        return gap
    cases = []
    for one in matches:
        first, second = ([values[run] for run in cell.runs["run"]] for cell in one)
        spans = [f"{min(own):.3g} to {max(own):.3g}" for own in (first, second)]
        above = min(first) > max(second)
        cases.append(_Case(one.game, f"{one.name}: {noun}", " against ".join(spans), above))
    games = listed(_games_of(matches))
    return _most(cases, f"{what} with every seed in {{}} on {games}.", "")


def homeostasis_holds(records: Records) -> Verdict:
    """Compares switches per exploit step in the second half of training with the target."""
    cases = []
    counts = records.switches.filter("second_half").drop("second_half")
    for cell in judged_cells(records.runs, "episodes"):
        if not cell.variant.informed:
            continue
        totals = of_runs(counts, cell.runs).drop("run").group_by("target_rate").sum()
        totals = totals.filter(pl.col("asked") >= SWITCHES_NEEDED).sort("target_rate")
        for target, made, asked in totals.iter_rows():
            what, ratio = f"{cell.name}, target {target:g}", made / asked
            held = abs(ratio - 1) <= WITHIN
            cases.append(_Case(cell.game, what, f"realised {ratio:.3f} of it", held))
    return _most(
        cases,
        f"The realised rate is within {WITHIN:.0%} of the target in {{}} (variant, game "
        "and target rate).",
        "No informed variant with two finished seeds has a target rate at which "
        f"{SWITCHES_NEEDED} switches were to be expected in the second half.",
        share=MOST,
    )

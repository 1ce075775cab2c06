"""The paper's claims, and the rules by which each is judged from records.

assets/texts.toml states each claim and its rule in words. A rule compares *cells*: the
finished runs of one variant on one game, three seeds at least, which differ in nothing
but the seed. Two cells are compared only if they share game, budget and settings, so that
no scale between games is needed. What is compared with what follows from the paper's names
(`figures.pairs`). Scores are final performances: mean return over the last 10% of training.

No claim rests on agents that learned nothing (`statistics.has_learned`): a comparison of
scores is left out if neither side learned, and behaviour counts only where the agent
learned, each by the majority of its seeds. A single failed run stays in, as to leave it
out would favour variants that fail often. "Cannot tell" is the verdict where games or
seeds are too few; "not supported" says that there were enough and the rule was not passed.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from math import comb, exp, fsum, lgamma, log, log1p
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import polars as pl
from jaxtyping import Float

from sidequest.figures import pairs, statistics
from sidequest.figures.data import (
    Records,
    exploit_periods,
    most_learned,
    of_runs,
    read_traces,
    without_watkins,
)
from sidequest.figures.statistics import FEWEST_SEEDS, Interval, seeds_needed
from sidequest.figures.style import listed, listed_games, texts
from sidequest.switching.variants import Amount, Variant, parse
from sidequest.wording import plural, rounded

_State: TypeAlias = Literal["supported", "contradicted", "not supported", "cannot tell"]
STATES: tuple[_State, ...] = ("supported", "contradicted", "not supported", "cannot tell")

# Numbers of the rules; their texts in assets/texts.toml quote them by these names.
TELL = {games: seeds_needed(games) for games in (1, 2, 5, 8)}
"""Seeds of each variant that tell a probability of improvement of 0.65 from one half."""
EQUIVALENT = (0.25, 0.75)  # how often a run may win where two variants count as the same
SETTINGS_NEEDED = 3
SIMILAR_P = 0.05  # two variants explore the same amount
PAIRS_NEEDED = 5
RARE = 0.01  # not 0.05, as pairs that share a variant are not independent
MOVED = 0.05  # in p_X, from the first tenth of training to the last
LITTLE, MUCH = 0.25, 0.4  # p_X "far below 0.5", and what there must be to compare with
SHIFTED = 0.15  # probability that a bandit has moved between its arms
HALF = 0.1  # how far from 0.5 "about a half" may be
SAME_AMOUNT = 1.5  # largest ratio of two p_X that count as the same amount
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
    place: tuple[str, str, str]
    """Cells may be compared if this is the same: game, budget, settings."""
    runs: pl.DataFrame
    """Rows of `Records.runs`."""

    @property
    def game(self) -> str:
        return self.place[0]

    @property
    def name(self) -> str:
        return f"{self.label}, {self.game}"

    def column(self, name: str) -> Float[np.ndarray, "N"]:
        """Returns a column of the runs, seed by seed."""
        return self.runs[name].cast(pl.Float64()).to_numpy()

    def mean(self, column: str) -> float:
        return float(self.column(column).mean())

    @property
    def learned(self) -> bool:
        """Whether most seeds learned; those of a game without a known bound count."""
        return self.runs.select(most_learned().fill_null(True)).item()


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
    def learned(self) -> bool:
        return self.first.learned or self.second.learned

    @property
    def means(self) -> tuple[str, str]:
        """The comparison, and both mean scores in words."""
        first, second = (cell.mean("score") for cell in self)
        return self.name, f"{rounded(first)} against {rounded(second)}"

    def apart(self, column: str = "score") -> int:
        """Returns 1 if every seed of the first is above every seed of the second, -1 if it
        is the other way round, 0 if their ranges overlap."""
        x, y = (cell.column(column) for cell in self)
        return int(x.min() > y.max()) - int(x.max() < y.min())


# Cells and matches


def judged_cells(runs: pl.DataFrame, *tables: str) -> list[Cell]:
    """Returns cells that a claim may rest on: finished seeds enough, with these tables.

    Cells of agents that learned nothing are among them only if scores are asked for.
    """
    sound = runs.filter(
        "finished", pl.col("mode").is_not_null(), *(pl.col(one) > 0 for one in tables)
    )
    if "evaluations" in tables:
        sound = sound.drop_nulls("score")
    kind = ("label", "variant", "game", "budget", "settings")
    cells = [
        Cell(label, parse(name), (*place,), own)
        for (label, name, *place), own in sound.group_by(*kind, maintain_order=True)
        if own["seed"].n_unique() >= FEWEST_SEEDS
    ]
    return [one for one in cells if one.learned or "evaluations" in tables]


def match(cells: Sequence[Cell], partner: pairs.Partner) -> list[Match]:
    """Returns each cell with its partner's cell of the same game, budget and settings."""
    known = {(cell.variant, cell.place): cell for cell in cells}
    matches = [
        Match(cell, known[other, cell.place])
        for cell in cells
        if (other := partner(cell.variant)) and (other, cell.place) in known
    ]
    return [one for one in matches if one.learned]


def _match_watkins(cells: Sequence[Cell]) -> list[Match]:
    """Returns each cell with trace cutting and the same one without."""

    def kind(cell: Cell) -> tuple:
        game, budget, settings = cell.place
        return cell.variant, game, budget, without_watkins(settings)

    cut = {kind(cell): cell for cell in cells if cell.runs["watkins"][0]}
    uncut = {kind(cell): cell for cell in cells if not cell.runs["watkins"][0]}
    matches = [Match(cell, uncut[key]) for key, cell in cut.items() if key in uncut]
    return [one for one in matches if one.learned]


def _baselines(mode: str) -> list[str]:
    *names, _ = pairs.GRANULARITIES.values()
    return [f"{mode}-{name}" for name in names]


def _by_mode_and_place(cells: Iterable[Cell]) -> Iterator[list[Cell]]:
    """Groups cells that share the explore mode, the game, the budget and the settings."""
    groups: dict[tuple, list[Cell]] = {}
    for cell in cells:
        groups.setdefault((cell.variant.mode, cell.place), []).append(cell)
    yield from groups.values()


def _games_of(found: Iterable[Match | _Case]) -> list[str]:
    return list(dict.fromkeys(one.game for one in found))


# Verdicts


def _decide(passed: bool, sentence: str, numbers: _Numbers) -> Verdict:
    return Verdict("supported" if passed else "not supported", sentence, numbers)


def _lacking(
    found: Iterable[Match | _Case], games: int, numbers: _Numbers, of: str = "each variant"
) -> Verdict:
    """Returns the verdict where fewer games than needed have what is to be compared."""
    where = listed_games(_games_of(found))
    have = f"Only {where} has" if where else "No game has"
    needed = f"; the claim needs {games} games" if games > 1 else ""
    sentence = (
        f"{have} what this needs: {FEWEST_SEEDS} finished seeds of {of}, and "
        f"agents that learned{needed}."
    )
    return Verdict("cannot tell", sentence, numbers)


def _shortage(matches: Sequence[Match]) -> str:
    """Returns a sentence if the seeds are too few to say that there is no difference."""
    seeds = min(len(cell.runs) for one in matches for cell in one)
    needed = seeds_needed(len(matches))
    if seeds >= needed:
        return ""
    return (
        f"These are {plural(len(matches), 'comparison')} of {seeds} seeds; to tell a "
        f"probability of improvement of 0.65 from 0.5 takes {needed} seeds of each variant."
    )


def _most(
    records: Records,
    cases: Callable[[Records], Iterator[_Case]],
    result: str,
    *,
    games: int = 1,
    share: float | None = None,
) -> Verdict:
    """Judges whether most of the cases passed, if enough games have one.

    Args:
        result: The sentence to state; `{}` is filled with `3 of 4 cases`.
        share: How many must pass at least; by default more than half.
    """
    found = list(cases(records))
    numbers = [(one.what, one.result) for one in found]
    if len(_games_of(found)) < games:
        return _lacking(found, games, numbers)
    hits = sum(one.passed for one in found)
    enough = hits > len(found) / 2 if share is None else hits >= share * len(found)
    tally = f"{hits} of {plural(len(found), 'case')}"
    return _decide(enough, result.replace("{}", tally), numbers)


def _improvement(matches: Sequence[Match]) -> Interval:
    """Returns P(a run of the first beats one of the second), matches counting the same."""
    first, second = (
        [cell.column("score") for cell in own] for own in zip(*matches, strict=True)
    )
    rng = np.random.default_rng(0)  # the same records give the same page
    return statistics.bootstrap(rng, statistics.improvement, first, second)


def _beats(records: Records, name: str, rivals: Mapping[str, pairs.Partner]) -> Verdict:
    """Judges whether a kind of variant improves on each of its rivals, on two games."""
    cells = judged_cells(records.runs, "evaluations")
    found = {rival: match(cells, partner) for rival, partner in rivals.items()}
    chances = {rival: _improvement(own) for rival, own in found.items() if own}
    numbers = [
        (f"{name} over {rival}, {listed_games(_games_of(found[rival]))}", str(chance))
        for rival, chance in chances.items()
    ]
    if len(rivals) == 1:
        numbers += [one.means for own in found.values() for one in own]
    for rival, own in found.items():
        if len(_games_of(own)) < 2:
            return _lacking(own, 2, numbers, f"{name} and {rival}")
    better = [rival for rival, chance in chances.items() if chance.low > 0.5]
    worse = [rival for rival, chance in chances.items() if chance.high < 0.5]
    like = [rival for rival in rivals if rival not in better + worse]
    sides = {
        "clearly better than": better,
        "not clearly different from": like,
        "clearly worse than": worse,
    }
    parts = [f"{words} {listed(own)}" for words, own in sides.items() if own]
    where = listed_games(_games_of(one for own in found.values() for one in own))
    sentence = f"On {where}, {name} is {'; '.join(parts)}"
    if len(rivals) == 1:
        sentence += f": the probability of improvement is {next(iter(chances.values()))}"
    if worse:
        return Verdict("contradicted", sentence + ".", numbers)
    for rival in like:
        if shortage := _shortage(found[rival]):
            return Verdict("cannot tell", f"{sentence}. {shortage}", numbers)
    return _decide(not like, sentence + ".", numbers)


def _beats_baselines(mode: str) -> Callable[[Records], Verdict]:
    """Compares the paper's intra-episodic variant with each of the four baselines."""
    headline = parse(f"{mode}-{pairs.GRANULARITIES['intra-episodic']}")
    rivals = {name: pairs.same_as(headline, parse(name)) for name in _baselines(mode)}
    return partial(_beats, name=str(headline), rivals=rivals)


def _no_better(
    records: Records,
    find: Callable[[list[Cell]], list[Match]],
    what: str,
    *,
    both: bool = False,
) -> Verdict:
    """Tests that the first wins at most three times in four; if `both`, the second too."""
    matches = find(judged_cells(records.runs, "evaluations"))
    numbers = [one.means for one in matches]
    if len(_games_of(matches)) < 2:
        return _lacking(matches, 2, numbers)
    chance = _improvement(matches)
    numbers = [(what, str(chance)), *numbers]
    games = listed_games(_games_of(matches))
    sentence = f"On {games} the probability of improvement, {what}, is {chance}."
    if chance.low > 0.5 or (both and chance.high < 0.5):
        return Verdict("contradicted", sentence, numbers)
    if chance.high < EQUIVALENT[1] and (not both or chance.low > EQUIVALENT[0]):
        return Verdict("supported", sentence, numbers)
    return Verdict("cannot tell", sentence + " The interval is too wide.", numbers)


def _above(matches: Iterable[Match], column: str, noun: str) -> Iterator[_Case]:
    """Tests whether every seed of the first is above every seed of the second."""
    for one in matches:
        own = [cell.column(column) for cell in one]
        spans = " against ".join(
            f"{rounded(x.min(), 3)} to {rounded(x.max(), 3)}" for x in own
        )
        yield _Case(one.game, f"{one.name}: {noun}", spans, one.apart(column) > 0)


# Rules about scores


def _some_variant_gains(records: Records) -> Iterator[_Case]:
    """Looks, for each game and explore mode, for a variant that is above all baselines."""
    for members in _by_mode_and_place(judged_cells(records.runs, "evaluations")):
        names = _baselines(members[0].variant.mode)
        base = [one for one in members if str(one.variant) in names]
        intra = [one for one in members if one.variant.granularity == "intra"]
        if len(base) == len(names) and intra and any(one.learned for one in members):
            best = max(intra, key=lambda cell: cell.column("score").min())
            rival = max(base, key=lambda cell: cell.column("score").max())
            low, high = best.column("score").min(), rival.column("score").max()
            what = f"worst seed of {best.label} against best seed of {rival.label}"
            result = f"{rounded(low)} against {rounded(high)}"
            yield _Case(best.game, f"{best.game}: {what}", result, bool(low > high))


def _starting_mode_depends_on_game(records: Records) -> Verdict:
    """Looks for a game where starting with X clearly helps, and one where it harms."""
    matches = match(judged_cells(records.runs, "evaluations"), pairs.greedy_start_partner)
    numbers = [one.means for one in matches]
    if len(_games_of(matches)) < 2:
        return _lacking(matches, 2, numbers)
    by_variant: dict[Variant, list[Match]] = {}
    for one in matches:
        by_variant.setdefault(one.first.variant, []).append(one)
    clear = {
        f" ({variant})" if len(by_variant) > 1 else "": own
        for variant, own in by_variant.items()
        if any(one.apart() for one in own)
    }
    parts = []
    for variant, own in (clear or {"": matches}).items():
        better, worse = (
            listed_games(one.game for one in own if one.apart() == side) or "no game"
            for side in (1, -1)
        )
        parts.append(f"clearly better on {better} and clearly worse on {worse}{variant}")
    sentence = f"Starting with explore is {'; '.join(parts)}."
    shortage = _shortage(matches)
    if shortage and not clear:
        return Verdict("cannot tell", f"{sentence} {shortage}", numbers)
    both = any({1, -1} <= {one.apart() for one in own} for own in clear.values())
    return _decide(both, sentence, numbers)


def _soft_is_flatter(records: Records) -> Iterator[_Case]:
    """Compares how far the best and the worst setting are apart, for XS and for XU."""
    places: dict[tuple, list[Match]] = {}
    for one in match(judged_cells(records.runs, "evaluations"), pairs.uniform_partner):
        places.setdefault(one.first.place, []).append(one)
    for (game, *_), members in places.items():
        if len(members) >= SETTINGS_NEEDED:
            means = [[cell.mean("score") for cell in one] for one in members]
            soft, uniform = np.ptp(means, axis=0)
            what = f"{game}, {len(members)} settings"
            result = f"XS {rounded(soft)}, XU {rounded(uniform)}"
            yield _Case(game, what, result, bool(soft < uniform))


# Rules about how much agents explore, and how bandits change that


def _partly_exploring(runs: pl.DataFrame) -> list[Cell]:
    """Returns what figure 4 shows: intra-episodic variants and the episodic baseline."""
    cells = judged_cells(runs, "evaluations", "episodes")
    return [one for one in cells if one.variant.granularity in ("intra", "episode")]


def _amount_is_not_enough(records: Records) -> Verdict:
    """Tests whether scores of variants with the same p_X differ more often than by chance.

    If n and m scores come from one distribution, all of one side beat all of the other
    with a probability of 2 / C(n + m, n).
    """
    same = [
        Match(first, second)
        for members in _by_mode_and_place(_partly_exploring(records.runs))
        for first, second in itertools.combinations(members, 2)
        if abs(first.mean("mean_p_X") - second.mean("mean_p_X")) < SIMILAR_P
        and (first.learned or second.learned)
    ]
    if len(same) < PAIRS_NEEDED:
        found = f"{plural(len(same), 'pair')} of variants had the same p_X on a game"
        return Verdict("cannot tell", f"{found}; the rule needs {PAIRS_NEEDED}.")
    apart = [one.apart() for one in same]
    differ = len(same) - apart.count(0)
    sizes = [[len(cell.runs) for cell in one] for one in same]
    luck = binomial_tail(differ, len(same), max(2 / comb(n + m, n) for n, m in sizes))
    where = listed_games(_games_of(same))
    by_chance = f"of {luck:.2g}" if luck >= 1e-4 else "below 0.0001"
    sentence = (
        f"On {where}, {differ} of {plural(len(same), 'pair')} with the same p_X have "
        "scores that do not overlap. By chance, at least this many would occur with "
        f"a probability {by_chance}."
    )
    words = {-1: "the second is better", 0: "overlap", 1: "the first is better"}
    numbers = [(one.name, words[side]) for one, side in zip(same, apart, strict=True)]
    shortage = _shortage(same)
    if luck >= RARE and shortage:
        return Verdict("cannot tell", f"{sentence} {shortage}", numbers)
    return _decide(luck < RARE, sentence, numbers)


def binomial_tail(hits: int, trials: int, chance: float) -> float:
    """Returns P(Binomial(trials, chance) >= hits)."""
    # By logarithms: a binomial coefficient of many trials is no floating-point number.
    return fsum(
        exp(
            lgamma(trials + 1)
            - lgamma(k + 1)
            - lgamma(trials - k + 1)
            + k * log(chance)
            + (trials - k) * log1p(-chance)
        )
        for k in range(hits, trials + 1)
    )


def _best_explore_little(records: Records) -> Iterator[_Case]:
    """Looks at the p_X at the end of training of each game's best variant."""
    known = records.runs.drop_nulls("late_p_X")  # of which an episode ended then
    for members in _by_mode_and_place(_partly_exploring(known)):
        late = [cell.mean("late_p_X") for cell in members]
        if max(late) > MUCH and min(late) < LITTLE:
            best = max(members, key=lambda cell: cell.mean("score"))
            p_X, what = best.mean("late_p_X"), f"{best.game}: {best.label}"
            if best.learned:
                yield _Case(best.game, what, f"p_X {p_X:.3f}", p_X < LITTLE)


def _bandits_adapt(records: Records, *, counting: bool = False) -> Iterator[_Case]:
    """Tests whether p_X moves in the same direction with every seed, and bandits prefer.

    If `counting`, only bandits over the number of exploit steps count, p_X must fall and
    the bandit prefer longer periods. p_X alone would not do: it also falls when episodes
    get longer.
    """
    # Where episodes are long, none may have ended in a tenth of training.
    known = records.runs.drop_nulls(["early_p_X", "late_p_X"])
    for cell in judged_cells(known, "episodes", "bandits"):
        move = cell.column("late_p_X") - cell.column("early_p_X")
        shifted = cell.column("shifted").min()
        if not counting:
            same = (move > 0).all() or (move < 0).all()
            passed = same and shifted >= SHIFTED and abs(move.mean()) >= MOVED
        elif cell.variant.exploit == Amount("steps"):
            longer = cell.column("preferred") > cell.column("even")
            passed = longer.all() and (move < 0).all()
        else:
            continue
        result = f"p_X {move.mean():+.3f}, bandit moved {shifted:.2f}"
        yield _Case(cell.game, cell.name, result, bool(passed))


def _symmetric_is_half(records: Records) -> Iterator[_Case]:
    """Looks at the mean p_X of symmetric variants."""
    for cell in judged_cells(records.runs, "episodes"):
        if cell.variant.explore == Amount("same"):
            p_X = cell.mean("mean_p_X")
            yield _Case(cell.game, cell.name, f"{p_X:.3f}", abs(p_X - 0.5) <= HALF)


# Rules about when agents switch: how evenly, how diversely, how often


def _informed_is_uneven(records: Records) -> Iterator[_Case]:
    """Compares the spread of the exploit periods' lengths, over their mean."""
    matches = match(judged_cells(records.runs, "traces"), pairs.blind_partner)
    compared = [run for one in matches for cell in one for run in cell.runs["run"]]
    chosen = records.traces.filter(pl.col("run").is_in(compared))
    steps, explored = pl.col("steps"), pl.col("explored").sum() / pl.col("length").sum()
    spread = exploit_periods(read_traces(records, chosen, "modes")).group_by("run")
    spread = spread.agg(periods=pl.len(), unevenness=steps.std(ddof=0) / steps.mean())
    amounts = chosen.group_by("run").agg(p_X=explored).join(spread, on="run", how="left")
    runs = of_runs(records.runs, amounts, "p_X", "periods", "unevenness")
    for one in match(judged_cells(runs), pairs.blind_partner):
        low, high = sorted(cell.mean("p_X") for cell in one)
        periods = [cell.column("periods").min() for cell in one]
        if high <= SAME_AMOUNT * low and all(few >= PERIODS_NEEDED for few in periods):
            yield from _above([one], "unevenness", "unevenness")


def _coin_is_more_diverse(records: Records) -> Iterator[_Case]:
    """Compares the standard deviation of p_X over episodes, by a coin and by a counter."""
    matches = match(judged_cells(records.runs, "episodes"), pairs.counting_partner)
    return _above(matches, "std_p_X", "spread")


def _start_changes_switching(records: Records) -> Iterator[_Case]:
    """Compares the steps that bandits of symmetric blind variants prefer at the end."""
    matches = [
        Match(one.second, one.first)  # starting with G first: it is said to be slower
        for one in match(judged_cells(records.runs, "bandits"), pairs.greedy_start_partner)
        if one.first.variant.explore == Amount("same")
    ]
    return _above(matches, "preferred", "mean log10 of the steps")


def _homeostasis_holds(records: Records) -> Iterator[_Case]:
    """Compares switches per exploit step in the second half of training with the target."""
    counts = records.switches.filter("second_half").drop("second_half")
    for cell in judged_cells(records.runs, "episodes"):
        if cell.variant.informed:
            totals = of_runs(counts, cell.runs).drop("run").group_by("target_rate").sum()
            totals = totals.filter(pl.col("asked") >= SWITCHES_NEEDED).sort("target_rate")
            for target, made, asked in totals.iter_rows():
                what, ratio = f"{cell.name}, target {target:g}", made / asked
                held = abs(ratio - 1) <= WITHIN
                yield _Case(cell.game, what, f"realised {ratio:.3f} of it", held)


# All claims

_JUDGE: dict[str, Callable[..., Verdict]] = {
    "granularity-XU": _beats_baselines("XU"),
    "granularity-XI": _beats_baselines("XI"),
    "some-variant": partial(_most, cases=_some_variant_gains, games=2, share=1.0),
    "informed-scores": partial(
        _beats,
        name="an informed trigger",
        rivals={"a blind one of the same rate": pairs.blind_partner},
    ),
    "starting-mode": _starting_mode_depends_on_game,
    "coin-scores": partial(
        _beats, name="switching by a coin", rivals={"by a counter": pairs.counting_partner}
    ),
    "off-policy": partial(
        _no_better, find=_match_watkins, what="with trace cutting over without"
    ),
    "soft-similar": partial(
        _no_better,
        find=partial(match, partner=pairs.uniform_partner),
        what="XS over XU",
        both=True,
    ),
    "soft-flatter": partial(_most, cases=_soft_is_flatter, games=2),
    "mismatch": partial(
        _beats,
        name="XI with informed:mismatch",
        rivals={
            f"the same with {other}": pairs.other_trigger("informed:mismatch", other)
            for other in ("informed", "informed:variance")
        },
    ),
    "amount": _amount_is_not_enough,
    "adaptation": partial(_most, cases=_bandits_adapt, share=0.5),
    "counting-bandit": partial(_most, cases=partial(_bandits_adapt, counting=True)),
    "little": partial(_most, cases=_best_explore_little, games=2),
    "symmetric": partial(_most, cases=_symmetric_is_half, share=1.0),
    "uneven": partial(_most, cases=_informed_is_uneven),
    "start-bandit": partial(_most, cases=_start_changes_switching),
    "coin-diversity": partial(_most, cases=_coin_is_more_diverse),
    "homeostasis": partial(_most, cases=_homeostasis_holds, share=MOST),
}


def _make_claims() -> Iterator[Claim]:
    """Joins each rule with its texts, in which `{NAME}` is a number of this file; the text
    named `result` is an argument of the rule."""
    for name, entry in texts("claims").items():
        words = {key: text.format_map(globals()) for key, text in entry.items()}
        result = {"result": words.pop("result")} if "result" in words else {}
        yield Claim(name, partial(_JUDGE[name], **result), **words)


CLAIMS = tuple(_make_claims())


def judge_all(records: Records) -> list[tuple[Claim, Verdict]]:
    """Returns every claim with its verdict."""
    return [(claim, claim.judge(records)) for claim in CLAIMS]

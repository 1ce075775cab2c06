"""What the report says first: what was run, what stands out, how far to trust it."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import polars as pl

from sidequest.figures.claims import Claim, Verdict
from sidequest.figures.data import Records, distinct
from sidequest.figures.gallery import Drawn
from sidequest.figures.statistics import FEWEST_SEEDS, seeds_needed
from sidequest.figures.style import count, listed, listed_games

_Judged = Sequence[tuple[Claim, Verdict]]
_MOST_CLAIMS, _MOST_GAMES, _MOST_NAMES = 3, 6, 4  # that are named
_FEW = 0.25  # share of variants that learned, below which a budget was too small


class Summary(NamedTuple):
    """The page's first lines, each a sentence or a few."""

    lead: str
    warnings: list[str]
    """Why the study is too small to judge by, if it is."""
    findings: list[str]
    trust: list[str]


def summarise(records: Records, judged: _Judged, drawn: Iterable[Drawn]) -> Summary:
    """Returns the summary of a study, of the verdicts on the claims and of a figure."""
    runs = records.runs
    planned = len(runs) + len(records.missing) + len(records.left_out)
    if not len(runs):
        waiting = f" {count(planned, 'run')} planned." if planned else ""
        return Summary(f"No run has been started yet.{waiting}", [], [], [])
    cells = _cells(runs)
    lead = (
        f"{count(runs['variant'].n_unique(), 'variant')}, "
        f"{count(runs['game'].n_unique(), 'game')}, {_range(cells['seeds'], 'seed')}, "
        f"{_range(runs['frames'], 'frame')} each: "
        f"{runs['finished'].sum()} of {count(planned, 'run')} finished."
    )
    granularities = [
        f"Granularities: {one.caption}"
        for one in drawn
        if one.paths and one.entry.name == "aggregate"
    ]
    findings = [*_learned(cells), *granularities, *_decided(judged)]
    return Summary(lead, list(_warnings(cells)), findings, list(_trust(records, cells)))


def _cells(runs: pl.DataFrame) -> pl.DataFrame:
    """Returns each variant on each game: its seeds, its score, and whether it learned.

    `learned` is that of most seeds; null where nobody knows what random play scores.
    """
    learned = pl.col("learned").cast(pl.Float64()).mean() > 0.5
    cells = runs.filter("usual").group_by("variant", "game", maintain_order=True)
    return cells.agg(learned, pl.mean("score"), seeds=pl.n_unique("seed"))


def _range(numbers: pl.Series, noun: str) -> str:
    """Returns `3 seeds`, or `2 to 5 seeds`."""
    low, high = numbers.sort().gather([0, -1])
    several = noun if high == 1 else f"{noun}s"
    return f"{high:,} {several}" if low == high else f"{low:,} to {high:,} {several}"


def _warnings(cells: pl.DataFrame) -> Iterator[str]:
    """Says whether seeds or budgets are too few for a verdict."""
    games = distinct(cells, "game")
    seeds, needed = cells["seeds"].sort()[-1], seeds_needed(len(games))
    if seeds < FEWEST_SEEDS:
        yield (
            f"This is a demonstration. A variant has {count(seeds, 'seed')}, which can "
            "neither support nor contradict a claim, so there are no verdicts and no "
            f"intervals; they need at least {FEWEST_SEEDS}. `sidequest study --list` has "
            "larger studies."
        )
    elif seeds < needed:
        yield (
            f"Up to {count(seeds, 'seed')} on {count(len(games), 'game')} show only large "
            "differences: to tell a probability of improvement of 0.65 from 0.5 takes "
            f"{needed} seeds of each variant."
        )
    learned = cells.group_by("game", maintain_order=True).agg(pl.mean("learned"))
    poor = distinct(learned.filter(pl.col("learned") < _FEW), "game")
    if poor:
        yield (
            f"On {listed_games(poor)} few variants have learned: the budget is too small "
            "to compare them there."
        )


def _learned(cells: pl.DataFrame) -> Iterator[str]:
    """Says how many variants learned on each game, and which is the best."""
    scored = cells.drop_nulls("score")
    games = distinct(scored, "game")
    for game in games[:_MOST_GAMES]:
        own = scored.filter(game=game)
        best: dict[str, Any] = own.sort("score", descending=True).row(0, named=True)
        able = distinct(own.filter("learned"), "variant")
        which = f" ({listed(able)})" if 0 < len(able) <= _MOST_NAMES else ""
        learned = f"{len(able)} of {count(own.height, 'variant')} learned{which}; "
        top = f"best is {best['variant']} with a mean return of {best['score']:.3g}"
        yield f"{game}: {learned if own['learned'].count() else ''}{top}."
    if len(games) > _MOST_GAMES:
        yield f"{count(len(games) - _MOST_GAMES, 'more game')}: see the scores."


def _decided(judged: _Judged) -> Iterator[str]:
    """States the claims that these records support, and those that they contradict."""
    for state in ("supported", "contradicted"):
        own = [one for one in judged if one[1].state == state]
        for claim, verdict in own[:_MOST_CLAIMS]:
            yield f"{state.capitalize()}: {claim.sentence} {verdict.sentence}"
        if len(own) > _MOST_CLAIMS:
            yield f"{count(len(own) - _MOST_CLAIMS, 'more claim')} {state}."


def _trust(records: Records, cells: pl.DataFrame) -> Iterator[str]:
    yield "Scores are mean returns of the greedy policy over the last 10% of training."
    failed = cells["learned"].count() - cells["learned"].sum()
    if failed:
        yield (
            f"In {failed} of {cells.height} cases (variant and game) the agent learned "
            "nothing; no claim rests on a comparison of two of them, nor on how they "
            "explored."
        )
    unfinished = len(records.runs.filter(~pl.col("finished"))) + len(records.missing)
    if unfinished:
        yield f"Of the plan, {count(unfinished, 'run')} not finished."

"""How certain results are: every final score, interquartile means with intervals, and the
probability of improvement. Beyond the paper, which shows ranges of three seeds."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from sidequest.figures import statistics, style
from sidequest.figures.curves import evaluated_runs, final_scores
from sidequest.figures.data import Plot, Records, count, distinct, gap_notes, groups, some
from sidequest.figures.pairs import MODES, known, modes_in, representatives
from sidequest.figures.statistics import Strata, bootstrap, choose_scale, iqm_of_runs

_ROW = 0.175  # inches, of a variant's line
_MOST_GAMES = 5
_MODE_STYLES: dict[str, tuple[str, str]] = dict(zip(MODES, style.LINES, strict=False))
_OTHER = ("#777777", "o")


class _Scores(NamedTuple):
    """Normalised final scores of the variants that have every game."""

    games: list[str]
    scale: str
    strata: Mapping[str, Strata]
    runs: pl.DataFrame
    """The runs of these variants and games."""
    left_out: list[str]
    """Sentences about variants and games that are left out."""


def _normalised_scores(records: Records) -> _Scores | None:
    """Returns variants on the games that most of them have, all on one scale.

    A variant that lacks a game is left out: its average would be over other games.
    """
    runs = evaluated_runs(records)
    if runs.is_empty():
        return None
    names = distinct(runs, "variant")
    has = {name: frozenset(runs.filter(variant=name)["game"]) for name in names}

    def votes(games: frozenset[str]) -> tuple[int, int]:
        """Returns how many variants have all these games, times how many these are."""
        return sum(games <= own for own in has.values()) * len(games), len(games)

    common = max(has.values(), key=votes)
    chosen = [name for name, own in has.items() if common <= own]
    games = [game for game in distinct(runs, "game") if game in common]
    scale = choose_scale(final_scores(runs, games))
    strata = {
        name: scale.apply_all(final_scores(runs.filter(variant=name), games))
        for name in chosen
    }
    left_out = []
    if other := [game for game in distinct(runs, "game") if game not in games]:
        left_out.append(f"Some variants lack {some(other)}: left out.")
    if lacking := [name for name in has if name not in chosen]:
        left_out.append(f"Left out, as they lack a game: {some(lacking)}.")
    shown = runs.filter(pl.col("variant").is_in(chosen), pl.col("game").is_in(games))
    return _Scores(games, scale.label, strata, shown, left_out)


def _mode_keys(names: Sequence[str]) -> list[Line2D]:
    styles = {mode: _MODE_STYLES[mode] for mode in modes_in(names)}
    return [
        Line2D([], [], color=colour, marker=marker, ls="", label=mode)
        for mode, (colour, marker) in styles.items()
    ]


def _draw_rows(axes: Axes, names: Sequence[str], table: pl.DataFrame) -> None:
    """Draws `value`, and a bar from `low` to `high`, of each variant; first at the top."""
    for name, low, value, high in table.select("variant", "low", "value", "high").rows():
        variant = known([name]).get(name)
        colour, marker = _MODE_STYLES[variant.mode] if variant else _OTHER
        y = names.index(name)
        if low is not None:
            axes.hlines(y, low, high, colors=colour, lw=2.2, alpha=0.55)
        axes.plot(value, y, marker, color=colour, ms=4.5)
    axes.set_yticks(range(len(names)), [style.plain(name) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(axis="y", color="#eeeeee", lw=0.6)
    axes.set_axisbelow(True)


@style.styled
def scores(records: Records) -> Plot | None:
    """Plots a row for each variant, a panel for each game: seeds' mean and range, raw."""
    runs = evaluated_runs(records)
    if runs.is_empty():
        return None
    score = pl.col("score")
    table = runs.group_by("variant", "game", maintain_order=True).agg(
        low=score.min(), value=score.mean(), high=score.max(), seeds=pl.len()
    )
    names, games = distinct(runs, "variant"), distinct(runs, "game")
    variants = known(names)  # those of one explore mode stand together
    places = {name: MODES.index(variants[name].mode) for name in variants}
    names.sort(key=lambda name: places.get(name, len(MODES)))
    gaps = gap_notes(records, runs)
    rest = games[_MOST_GAMES:]
    notes = [
        "Raw returns over the last 10% of training: mean of the seeds, bar from the worst "
        "to the best.",
        *([f"Not drawn: {some(rest, 8)}."] if rest else []),
        *gaps,
    ]
    title, keys = "Final scores of every variant", _mode_keys(names)
    figure = style.compose(0.6 + _ROW * len(names), title=title, keys=keys, notes=notes)
    grid = figure.subplots(1, len(games[:_MOST_GAMES]), squeeze=False, sharey=True)[0]
    for axes, game in zip(grid, games, strict=False):
        _draw_rows(axes, names, table.filter(game=game))
        axes.set_title(style.plain(game), fontsize=style.SMALL)
        axes.set_xlabel("return")
    sentences = [f"{count(len(names), 'variant')}, {count(len(runs), 'run')}."]
    for (game,), own in table.group_by("game", maintain_order=True):
        ranked = own.sort("value", maintain_order=True).select("value", "variant").rows()
        (least, worst), (most, best) = ranked[0], ranked[-1]
        sentences.append(f"{game}: from {least:.3g} ({worst}) to {most:.3g} ({best}).")
    return Plot(figure, " ".join([*sentences, *gaps]), table)


@style.styled
def interquartile_means(records: Records) -> Plot | None:
    """Plots the interquartile mean of each variant over all games and seeds, best first."""
    found = _normalised_scores(records)
    if found is None:
        return None
    rows = []
    for name, strata in found.strata.items():
        interval = bootstrap(np.random.default_rng(0), iqm_of_runs, strata)
        rows.append({"variant": name, **interval._asdict()})
    table = pl.DataFrame(rows).sort("value", descending=True, maintain_order=True)
    table = table.fill_nan(None)  # with one seed there is no interval
    gaps = [*found.left_out, *gap_notes(records, found.runs)]
    notes = [
        f"Middle half of all runs of {some(found.games, 7)}. Bars: 95% stratified "
        "bootstrap over seeds; with few seeds they are too short.",
        *gaps,
    ]
    names = table["variant"].to_list()
    title, keys = "Interquartile mean", _mode_keys(names)
    figure = style.compose(0.6 + _ROW * len(names), title=title, keys=keys, notes=notes)
    axes = figure.subplots()
    _draw_rows(axes, names, table)
    axes.set_xlabel(style.plain(found.scale))
    best, worst = table.row(0, named=True), table.row(-1, named=True)
    reach = table[1:].filter(pl.col("high") >= pl.lit(best["low"], pl.Float64()))
    caption = (
        f"Highest: {best['variant']}, {best['value']:.2f}; lowest: {worst['variant']}, "
        f"{worst['value']:.2f}, over {count(len(found.games), 'game')}. The intervals of "
        f"{len(reach)} of {len(table) - 1} others reach that of the best. "
        f"Scale: {found.scale}."
    )
    return Plot(figure, " ".join([caption, *gaps]), table)


@style.styled
def improvement(records: Records) -> Plot | None:
    """Plots how often a run of the paper's intra-episodic variant beats a run of another.

    A panel for each mode; right of the middle line the intra-episodic variant wins.
    """
    found = _normalised_scores(records)
    strata = found.strata if found else {}
    rows = []
    for mode in modes_in(strata):
        chosen = representatives(strata, mode).get("intra-episodic")
        for other, variant in known(strata).items():
            if chosen and variant.mode == mode and other != chosen:
                rng = np.random.default_rng(0)
                pair = strata[chosen], strata[other]
                interval = bootstrap(rng, statistics.improvement, *pair)._asdict()
                rows.append({"chosen": chosen, "variant": other, **interval})
    if found is None or not rows:
        return None
    table = pl.DataFrame(rows).fill_nan(None)
    gaps = [*found.left_out, *gap_notes(records, found.runs)]
    notes = [
        "Share of pairs of runs, one of each, in which the first scores more; ties count "
        f"half; averaged over {some(found.games, 7)}. Bars: 95% stratified bootstrap; with "
        "few seeds they are too short.",
        *gaps,
    ]
    panels = groups(table, "chosen")
    heights = [0.55 + _ROW * len(own) for own in panels]
    title = "Probability of improvement"
    figure = style.compose(sum(heights), title=title, notes=notes)
    grid = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
    sentences = []
    for axes, own in zip(grid, panels, strict=True):
        chosen = own["chosen"][0]
        _draw_rows(axes, own["variant"].to_list(), own)
        axes.axvline(0.5, color=style.GREY, lw=0.8, ls=(0, (4, 3)), zorder=0)
        axes.set_xlim(-0.03, 1.03)
        title = style.plain(f"{chosen} beats …")
        axes.set_title(title, fontsize=style.SMALL, loc="left")
        above = own.filter(pl.col("low") > 0.5)["variant"].to_list()
        below = own.filter(pl.col("high") < 0.5)["variant"].to_list()
        sentences.append(
            f"{chosen} against {count(len(own), 'other')}: the interval is above one half "
            f"for {len(above)} ({some(above) or 'none'}), below it for {len(below)} "
            f"({some(below) or 'none'})."
        )
    grid[-1].set_xlabel("probability")
    return Plot(figure, " ".join([*sentences, *gaps]), table)

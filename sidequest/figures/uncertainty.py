"""How certain results are: every final score, interquartile means with intervals, and the
probability of improvement. Beyond the paper, which shows ranges of three seeds."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from sidequest.figures import statistics, style
from sidequest.figures.curves import evaluated_runs, final_scores, summarise
from sidequest.figures.data import Plot, Records, distinct, groups, most_learned
from sidequest.figures.pairs import known, modes_in, representatives
from sidequest.figures.statistics import Strata, bootstrap, choose_scale, interquartile_mean
from sidequest.switching.variants import MODES
from sidequest.wording import plural

_ROW = 0.175  # inches, of a variant's line
_MOST_GAMES = 7


class _Scores(NamedTuple):
    """Normalised final scores of the variants that have every game."""

    scale: str
    strata: Mapping[str, Strata]
    games: list[str]
    notes: list[str]
    """Sentences about the games, and about what is left out."""


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
    notes = [f"Over {style.some(games, 7)}."]
    if other := [game for game in distinct(runs, "game") if game not in games]:
        notes.append(f"Some variants lack {style.some(other)}: left out.")
    if lacking := [name for name in has if name not in chosen]:
        notes.append(f"Left out, as they lack a game: {style.some(lacking)}.")
    return _Scores(scale.label, strata, games, notes)


def _name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Writes the variants' names and letters left of their rows; the first at the top."""
    labels = [style.plain(f"{name}   {style.look(name).letter}") for name in names]
    axes.set_yticks(range(len(names)), labels)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(axis="y", color="#eeeeee", lw=0.6)
    axes.set_axisbelow(True)


def _draw_intervals(axes: Axes, table: pl.DataFrame) -> None:
    """Draws `value` of each variant, and a bar from `low` to `high` where there is one."""
    for y, (name, low, value, high) in enumerate(
        table.select("variant", "low", "value", "high").rows()
    ):
        _, colour, marker = style.look(name)
        if low is not None:
            axes.hlines(y, low, high, colors=colour, lw=2.2, alpha=0.55)
        axes.plot(value, y, marker, color=colour, ms=4.5)
    _name_rows(axes, table["variant"].to_list())


def scores(records: Records) -> Plot | None:
    """Plots a row for each variant, a panel for each game: seeds' mean and range, raw."""
    runs = evaluated_runs(records)
    if runs.is_empty():
        return None
    games, order = distinct(runs, "game"), [*MODES, None]
    names = distinct(runs, "variant")
    names.sort(key=lambda name: order.index(runs.filter(variant=name)["mode"][0]))
    shown, rest = style.at_most(games, _MOST_GAMES)

    def draw(axes: Axes, game: str) -> None:
        for y, name in enumerate(names):
            own = runs.filter(variant=name, game=game)
            if len(own):
                hollow = own.select(most_learned()).item() is False
                values = own["score"].to_list()
                style.draw_seeds(axes, y, values, name, across=True, hollow=hollow)
        _name_rows(axes, names)
        axes.set_title(style.fit(game, 118 / len(shown)), fontsize=style.SMALL - 0.5)
        axes.xaxis.set_major_locator(MaxNLocator(max(2, 12 // len(shown))))
        axes.xaxis.set_major_formatter(
            lambda x, _: f"{x / 1e3:g}k" if abs(x) >= 1e3 else f"{x:g}"
        )
        style.show_zero(axes, "x")
        axes.set_xlabel("return")

    figure = style.draw_panels(
        "scores",
        [shown],
        draw,
        0.6 + _ROW * len(names),
        options={"sharey": True},
        notes=rest,
    )
    table = summarise(runs, "variant", "game")
    best = table.filter(pl.col("mean") == pl.max("mean").over("game"))
    wins = best.unique("game", keep="none")["variant"].value_counts(sort=True).rows()
    size = f"{plural(len(names), 'variant')}, {plural(len(games), 'game')}"
    caption = f"{size} and {plural(len(runs), 'run')}."
    (name, number), (_, second) = [*wins, ("", 0), ("", 0)][:2]
    if number > second:
        caption += f" Most often the best: {name}, on {number} of {len(games)}."
    return Plot(figure, caption, table)


def interquartile_means(records: Records) -> Plot | None:
    """Plots the interquartile mean of each variant over all games and seeds, best first."""
    found = _normalised_scores(records)
    if found is None:
        return None
    rows = []
    for name, strata in found.strata.items():
        interval = bootstrap(np.random.default_rng(0), interquartile_mean, strata)
        rows.append({"variant": name, **interval._asdict()})
    table = pl.DataFrame(rows).sort("value", descending=True, maintain_order=True)
    table = table.fill_nan(None)  # with few seeds there is no interval
    figure = style.compose("iqm", 0.6 + _ROW * len(table), notes=found.notes)
    axes = figure.subplots()
    for y, (name, low) in enumerate(table.select("variant", "low").rows()):
        if low is None:
            values = np.concatenate(found.strata[name])
            look = {"color": style.look(name).colour, "ms": 3, "mfc": "none", "mew": 0.7}
            axes.plot(values, np.full(len(values), y), "o", **look)
    _draw_intervals(axes, table)
    axes.set_xlabel(style.plain(found.scale))
    shown = [(name, f"{one:z.2f}") for name, one in table.select("variant", "value").rows()]
    best, worst = style.equal_first(shown), style.equal_first(shown[::-1])[::-1]
    where = plural(len(found.games), "game")
    if len(best) == len(shown):
        return Plot(figure, f"{style.some(best)}: {shown[0][1]} over {where}.", table)
    caption = (
        f"Highest: {style.some(best)}, {shown[0][1]}; lowest: {style.some(worst)}, "
        f"{shown[-1][1]}, over {where}."
    )
    if (low := table["low"][0]) is not None:
        reach = table[1:].filter(pl.col("high") >= low)
        others = f"{len(reach)} of {len(table) - 1} others"
        caption += f" The intervals of {others} reach that of the best."
    return Plot(figure, caption, table)


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
    panels = groups(table, "chosen")

    def draw(axes: Axes, own: pl.DataFrame) -> None:
        _draw_intervals(axes, own)
        axes.axvline(0.5, color=style.GREY, lw=0.8, ls=(0, (4, 3)), zorder=0)
        axes.set_xlim(-0.03, 1.03)
        title = style.plain(f"{own['chosen'][0]} beats …")
        axes.set_title(title, fontsize=style.SMALL, loc="left")
        axes.set_xlabel("probability")

    heights = [0.55 + _ROW * len(own) for own in panels]
    figure = style.draw_panels(
        "improvement",
        [[own] for own in panels],
        draw,
        sum(heights) / len(heights),
        options={"height_ratios": heights},
        notes=found.notes,
    )
    sentences = []
    for own in panels:
        above, below = own.filter(pl.col("low") > 0.5), own.filter(pl.col("high") < 0.5)
        others = plural(len(own), "other")
        sentences.append(
            f"{own['chosen'][0]} against {others}: the interval is above one half for "
            f"{len(above)}, below it for {len(below)}."
        )
    if table["low"].is_null().all():
        sentences = ["Too few seeds for intervals, so nothing here is decided."]
    table = table.rename({"chosen": "run of", "variant": "beats a run of"})
    return Plot(figure, " ".join(sentences), table)

"""Learning curves: the return of the greedy policy over environment frames.

The four granularities over all games (figure 3), variants game by game (figure 10), and
curves that compare one choice: the informed triggers (figure 8), off-policy correction
(figure 15) and the explore modes (figure 16).
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from textwrap import wrap
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from sidequest.figures import statistics, style
from sidequest.figures.data import (
    Plot,
    Records,
    arrange,
    distinct,
    groups,
    of_runs,
    without_watkins,
)
from sidequest.figures.pairs import modes_in, representatives
from sidequest.figures.statistics import Interval, Scale
from sidequest.switching.variants import MODES
from sidequest.wording import plural

_COLUMNS = 4
_BINS = 40
_MOST_SETTINGS = 4  # that explore modes are compared on
_FEW_LINES = 3  # whose bands do not hide each other
_MOST_LINES = 8  # in one panel
_CAPPED = "Human-capped: a run's score on a game counts as 1 at most."
_CUT, _UNCUT = "Watkins: traces are cut", "uncorrected"


def evaluated_runs(records: Records) -> pl.DataFrame:
    """Returns the runs that may be compared: of the usual settings, with a score."""
    return records.runs.filter("usual", pl.col("score").is_not_null())


def summarise(runs: pl.DataFrame, *columns: str) -> pl.DataFrame:
    """Returns mean, worst and best score over the seeds of each group of runs."""
    score = pl.col("score")
    return runs.group_by(columns, maintain_order=True).agg(
        pl.len().alias("seeds"),
        score.mean().alias("mean"),
        score.min().alias("worst seed"),
        score.max().alias("best seed"),
    )


def bin_curves(records: Records, runs: pl.DataFrame, *panel: str) -> pl.DataFrame:
    """Returns the mean return of each run in 40 equal bins of its panel's budget.

    A bin without an evaluation lies on the line between its neighbours. A bin counts if a
    run has half of it behind it: a run that is much shorter than others may have no row.

    Args:
        panel: Columns of runs that are drawn over one axis.

    Returns:
        `run`, `return`, and where a bin ends: `share` of the budget and `frames`.
    """
    budgets = runs.rename({"frames": "limit"})
    episodes = of_runs(records.evaluations, budgets, "limit", *panel).drop_nulls("return")
    limit = pl.max_horizontal("limit", "frames").max().over(panel)
    episodes = episodes.with_columns(limit=limit, share=pl.col("frames") / limit)
    number = (pl.col("share") * _BINS - 1e-6).ceil().clip(1).cast(pl.Int64())
    means = episodes.group_by("run", bin=number).agg(pl.mean("return"))
    bins = pl.DataFrame({"bin": range(1, _BINS + 1)}).with_columns(
        share=pl.col("bin") / _BINS
    )
    return (
        episodes.group_by("run", "limit", maintain_order=True)
        .agg(end=pl.max("share"))
        .join(bins, how="cross")
        .filter(pl.col("share") <= pl.col("end") + 0.5 / _BINS)
        .join(means, on=["run", "bin"], how="left", maintain_order="left")
        .select(
            "run",
            "share",
            pl.col("return").interpolate().over("run"),
            frames=pl.col("share") * pl.col("limit"),
        )
        .drop_nulls("return")
    )


def _end_places(axes: Axes, end: float, number: int) -> list[float]:
    """Returns where the final scores of some lines stand, right of where training ends."""
    axes.axvline(end, color=style.GREY, lw=0.5, ls=":")
    axes.set_xlim(0, end * (1.06 + 0.04 * number))
    # Few and round, as numbers of four digits fill a narrow panel.
    ticks = MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]).tick_values(0, end)
    axes.set_xticks([tick for tick in ticks if tick <= end])
    return [end * (1.06 + 0.04 * i) for i in range(number)]


def _draw_line(axes: Axes, x: np.ndarray, mean: np.ndarray, **look: Any) -> None:
    marks = {"ms": 3.5, "markevery": max(1, len(x) // 8), "lw": 1.5, "zorder": 3}
    axes.plot(x, mean, **marks | look)


def draw_curves(
    axes: Axes,
    curves: pl.DataFrame,
    runs: pl.DataFrame,
    line: str = "variant",
    changes: Mapping[str, dict[str, Any]] | None = None,
) -> None:
    """Draws binned curves of runs of one game, with a line for each value of a column.

    Few lines have bands from the worst to the best seed. Right of all lines stand the final
    scores of their seeds.

    Args:
        changes: What differs from the look of the variant, by the column's value.
    """
    curves = of_runs(curves, runs, *{line, "variant"})
    if curves.is_empty():
        style.say_empty(axes)
        return
    end = curves["frames"].to_numpy().max()
    unit, name = style.frame_unit(end)
    lines = groups(curves, line)
    for own, place in zip(lines, _end_places(axes, end / unit, len(lines)), strict=True):
        variant, label = own["variant"][0], own[line][0]
        wide = own.pivot("run", index="frames", values="return").drop_nulls()
        x, seeds = wide["frames"].to_numpy() / unit, wide.drop("frames").to_numpy()
        look = style.look(variant).line | (changes or {}).get(label, {})
        if len(lines) <= _FEW_LINES and seeds.shape[1] >= statistics.FEWEST_SEEDS:
            ends = seeds.min(axis=1), seeds.max(axis=1)
            axes.fill_between(x, *ends, color=look["color"], alpha=0.15, lw=0)
        _draw_line(axes, x, seeds.mean(axis=1), label=style.plain(label), **look)
        finals = runs.join(own, on="run", how="semi")["score"].drop_nulls()
        hollow = look.get("mfc") == "white"
        style.draw_seeds(axes, place, finals.to_list(), variant, hollow=hollow)
    axes.set_xlabel(name)
    style.show_zero(axes)


def _compare(
    name: str,
    records: Records,
    runs: pl.DataFrame,
    line: str = "variant",
    changes: Mapping[str, dict[str, Any]] | None = None,
    keys: Sequence[Line2D] = (),
    notes: Sequence[str] = (),
    **options: Any,
) -> Plot | None:
    """Plots the runs of each `panel`; each `section` begins a new row of at most four.

    The caption says how often each line has the highest mean. Runs that are too short to
    have a curve are left out.
    """
    curves = bin_curves(records, runs, "panel")
    runs = runs.join(curves, on="run", how="semi", maintain_order="left")
    if runs.is_empty():
        return None
    sections = [distinct(own, "panel") for own in groups(runs, "section")]
    if max(map(len, sections)) == 1:  # one game: side by side
        sections = [distinct(runs, "panel")]

    rows = [row for section in sections for row in style.in_rows(section, _COLUMNS)]

    def draw(axes: Axes, panel: str) -> None:
        draw_curves(axes, curves, runs.filter(panel=panel), line, changes)
        axes.set_title(style.fit(panel, 120 / max(map(len, rows))))

    figure = style.draw_panels(
        name,
        rows,
        draw,
        1.75,
        ylabels=["return"],
        options=options,
        keys=keys or style.keys(distinct(runs, "variant")),
        notes=notes,
    )
    table = summarise(runs, *dict.fromkeys(["variant", line, "game"]))
    winners = _winners(runs, line)
    caption = f"Highest final mean. {' '.join(winners)}" if winners else ""
    return Plot(figure, caption, table)


def _winners(runs: pl.DataFrame, line: str) -> list[str]:
    """Says, for each mode with several lines, how often each has the highest mean."""
    label = "setting" if line == "variant" else line
    sentences = []
    for mode in modes_in(distinct(runs, "variant")):
        means = runs.filter(mode=mode).group_by("panel", label).agg(pl.mean("score"))
        if means[label].n_unique() == 1:
            continue
        best = means.filter(pl.col("score") == pl.max("score").over("panel"))
        tied = pl.when(pl.len().over("panel") > 1).then(pl.lit("no difference"))
        first = best.with_columns(tied.otherwise(label).alias("first")).unique("panel")
        wins = (
            first["first"].value_counts().sort("count", "first", descending=[True, False])
        )
        said = style.listed(f"{name} in {number}" for name, number in wins.rows())
        games = runs.filter(mode=mode)["game"].n_unique()
        panels = plural(len(first), "game" if len(first) == games else "panel")
        sentences.append(f"{mode}, {panels}: {said}.")
    return sentences


# The four granularities


def _granularity_runs(records: Records) -> pl.DataFrame:
    """Returns the runs of the variant that stands for each granularity of each mode.

    Modes with a single one compare nothing and are left out.
    """
    runs = evaluated_runs(records)
    names = distinct(runs, "variant")
    chosen = [[*representatives(names, mode).values()] for mode in modes_in(names)]
    return arrange(runs, variant=[name for own in chosen if len(own) > 1 for name in own])


def learning_curves(records: Records) -> Plot | None:
    """Plots a panel of learning curves for each explore mode and game (figure 10).

    Where a mode has too many variants for one panel, one stands for each granularity, as in
    the paper.
    """
    runs, lines, notes = evaluated_runs(records), [], []
    for mode in modes_in(distinct(runs, "variant")):
        shown = every = distinct(runs.filter(mode=mode), "variant")
        if len(every) > _MOST_LINES:
            stand = [*representatives(every, mode).values()]
            shown = stand if len(stand) > 1 else every[:_MOST_LINES]
            said = f"{len(shown)} of {len(every)} variants. The final scores show all."
            notes.append(f"{mode}: {said}")
        lines += shown
    panel = pl.concat_str("mode", "game", separator="  ")
    runs = arrange(runs, variant=lines).with_columns(section="mode", panel=panel)
    return _compare("learning-curves", records, runs, notes=notes)


def final_scores(
    runs: pl.DataFrame, games: Sequence[str]
) -> dict[str, Float[np.ndarray, "N"]]:
    """Returns the final scores of the runs of each game."""
    return {game: runs.filter(game=game)["score"].to_numpy() for game in games}


def _average(
    curves: pl.DataFrame, runs: pl.DataFrame, scale: Scale, function: Callable
) -> tuple[np.ndarray, np.ndarray, Interval, list[float]]:
    """Returns a statistic over games of one variant's scores, from its curves and runs.

    Shares of the budget, the statistic there, at the end, and there of each seed alone.
    """
    games = distinct(runs, "game")
    wide = curves.pivot("run", index="share", values="return").drop_nulls()
    numbers = {game: runs.filter(game=game)["run"] for game in games}
    returns = {game: wide.select(map(str, own)).to_numpy() for game, own in numbers.items()}
    curve = np.asarray(function(scale.apply_all(returns)))
    finals = scale.apply_all(final_scores(runs, games))
    score = statistics.bootstrap(np.random.default_rng(0), function, finals)
    seeds = [
        float(function([scores[[k]] for scores in finals]))
        for k in range(min(map(len, finals)))
    ]
    return wide["share"].to_numpy(), curve, score, seeds


def aggregate(records: Records) -> Plot | None:
    """Plots mean and median over games, a panel for each explore mode (figure 3).

    Modes are panels of their own, so each has the games that all its lines have: an average
    over other games would be another quantity. Fewer than three games have no median of
    their own. Where human scores are known for all games, there is the human-capped mean.
    A run that is too short to have a curve is left out.
    """
    every = _granularity_runs(records)
    curves = bin_curves(records, every, "mode", "game")
    begun = every.join(curves, on="run", how="semi", maintain_order="left")
    variants = pl.col("variant").n_unique()
    runs = begun.filter(variants.over("mode", "game") == variants.over("mode"))
    runs = runs.filter(variants.over("mode") > 1)
    if runs.is_empty():
        return None
    curves = of_runs(curves, runs, "mode", "variant")
    games = {own["mode"][0]: distinct(own, "game") for own in groups(runs, "mode")}
    # From all runs of these games, so that figures of one study share a scale.
    finals = final_scores(evaluated_runs(records), distinct(runs, "game"))
    scale = statistics.choose_scale(finals)
    functions = {"mean": statistics.mean_over_games, "median": statistics.median_over_games}
    if scale.kind == "human":  # only where 1 is a human's score is there a point to cap at
        functions["human-capped mean"] = statistics.capped_mean_over_games
    panels = [
        [(mode, name) for name in functions if name != "median" or len(own) > 2]
        for mode, own in games.items()
    ]
    notes = [*([_CAPPED] if scale.kind == "human" else []), *_game_notes(every, games)]
    candidates = evaluated_runs(records).filter(pl.col("mode").is_in([*games]))
    if len(distinct(candidates, "variant")) > len(distinct(every, "variant")):
        notes.append("One variant stands for each granularity. The final scores show all.")
    if short := len(every) - len(begun):
        notes.append(f"Left out: {plural(short, 'run')} too short to have a curve.")
    rows = []

    def draw(axes: Axes, panel: tuple[str, str]) -> None:
        mode, name = panel
        lines = groups(curves.filter(mode=mode), "variant")
        for own, place in zip(lines, _end_places(axes, 100, len(lines)), strict=True):
            variant = own["variant"][0]
            shown = runs.filter(variant=variant).sort("seed")
            share, curve, score, seeds = _average(own, shown, scale, functions[name])
            look = style.look(variant).line
            _draw_line(axes, 100 * share, curve, label=variant, **look)
            style.draw_seeds(axes, place, seeds, variant, middle=score.value)
            row = {"variant": variant, "statistic": name, "score": score.value}
            row |= {"95% from": score.low, "95% to": score.high}
            rows.append({**row, "games": len(games[mode]), "seeds": len(seeds)})
        axes.set_xlabel("% of the budget")
        axes.set_title(f"{mode}  {name}" if len(games[mode]) > 1 else f"{mode}")
        style.show_zero(axes)

    rows_of_modes = style.in_rows(panels, _COLUMNS // max(map(len, panels)))
    figure = style.draw_panels(
        "aggregate",
        [list(itertools.chain(*modes)) for modes in rows_of_modes],
        draw,
        2.5,
        ylabels=["\n".join(wrap(scale.label, 32))],
        keys=style.keys(distinct(runs, "variant")),
        notes=notes,
    )
    table = pl.DataFrame(rows).fill_nan(None)  # few seeds have no interval
    ends = " ".join(_best_and_worst(table, games))
    caption = f"Over the last 10% of training ({scale.label}). {ends}"
    return Plot(figure, caption, table)


def _best_and_worst(table: pl.DataFrame, games: Mapping[str, list[str]]) -> list[str]:
    """Says, for each explore mode, which variants have the highest and the lowest mean."""
    sentences = []
    for mode, own in games.items():
        ranked = table.filter(pl.col("variant").str.starts_with(mode), statistic="mean")
        ranked = ranked.sort("score", maintain_order=True).select("variant", "score").rows()
        shown = [(name, f"{score:z.2f}") for name, score in ranked]
        worst, best = style.equal_first(shown), style.equal_first(shown[::-1])[::-1]
        said = (
            f"{style.listed(best)} {'is' if len(best) == 1 else 'are'} best "
            f"({shown[-1][1]}), {style.listed(worst)} worst ({shown[0][1]})"
        )
        if len(best) == len(shown):
            said = f"no difference (all {shown[0][1]})"
        sentences.append(f"{mode}, {plural(len(own), 'game')}: {said}.")
    return sentences


def _game_notes(runs: pl.DataFrame, games: Mapping[str, list[str]]) -> list[str]:
    """Names the games that each mode is averaged over, and those that a line lacks."""
    notes: dict[str, list[str]] = {}
    for mode, own in games.items():
        rest = [one for one in distinct(runs.filter(mode=mode), "game") if one not in own]
        lacking = f"; not every line has {style.some(rest)}" if rest else ""
        said = f"{plural(len(own), 'game')}, {style.some(own, 7)}{lacking}."
        notes.setdefault(said, []).append(mode)
    return [f"{style.listed(modes)}: {said}" for said, modes in notes.items()]


# Curves that compare one choice


def informed_triggers(records: Records) -> Plot | None:
    """Plots the informed triggers of one variant against each other (figure 8)."""
    # The variant without the trigger, which is the second of its arguments.
    section = pl.col("variant").str.replace(",[^,]*", ",·")
    runs = evaluated_runs(records).filter(pl.col("setting").str.contains(",informed"))
    runs = runs.with_columns(section=section)
    runs = runs.with_columns(panel=pl.concat_str("section", "game", separator="\n"))
    triggers = pl.col("variant").n_unique()
    runs = runs.filter(triggers.over("panel") > 1)
    runs = runs.sort(triggers.over("section"), descending=True, maintain_order=True)
    return _compare("informed-triggers", records, runs)


def off_policy(records: Records) -> Plot | None:
    """Plots runs with and without trace cutting that share everything else (figure 15)."""
    others = pl.col("settings").map_elements(without_watkins, return_dtype=pl.String())
    usual = others.filter("usual").first().over("variant", "game")
    runs = records.runs.filter(others == usual).drop_nulls("score")
    runs = runs.with_columns(
        section="variant",
        panel=pl.concat_str("variant", "game", separator="\n"),
        correction=pl.when("watkins").then(pl.lit(_CUT)).otherwise(pl.lit(_UNCUT)),
    )
    runs = runs.filter(pl.col("correction").n_unique().over("panel") > 1)
    # The default and the same choice made by hand are one: a seed counts once.
    runs = runs.unique(["panel", "correction", "seed"], keep="last", maintain_order=True)
    looks: dict[str, dict[str, Any]] = {_CUT: {}, _UNCUT: {"ls": "--", "mfc": "white"}}
    plain = {"color": style.INK, "marker": "o", "ms": 4}
    keys = [Line2D([], [], label=name, **plain | own) for name, own in looks.items()]
    return _compare("off-policy", records, runs, "correction", looks, keys)


def explore_modes(records: Records) -> Plot | None:
    """Plots the same settings with different explore modes, game by game (figure 16)."""
    runs = evaluated_runs(records).with_columns(
        section="game", panel=pl.concat_str("mode", "game", separator="  ")
    )
    settings = runs.group_by("setting", maintain_order=True).agg(modes=pl.n_unique("mode"))
    shared = settings.filter(pl.col("modes") > 1)
    shared = shared.sort("modes", descending=True, maintain_order=True)[:_MOST_SETTINGS]
    order = {"game": distinct(runs, "game"), "mode": [*MODES]}
    runs = arrange(runs, **order, setting=shared["setting"].to_list())
    # Modes on one game are compared by eye, so their axes are the same.
    return _compare("explore-modes", records, runs, sharey="row")

"""Learning curves: the return of the greedy policy over environment frames.

The four granularities over all games (figure 3) and game by game (figure 10), and curves
that compare one choice: the informed triggers (figure 8), off-policy correction (figure 15)
and the explore modes (figure 16).
"""

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any, TypeAlias

import numpy as np
import polars as pl
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sidequest.figures import style
from sidequest.figures.data import (
    Plot,
    Records,
    absent_note,
    count,
    distinct,
    gap_notes,
    listed,
    of_runs,
    some,
)
from sidequest.figures.pairs import (
    GRANULARITIES,
    modes_in,
    representatives,
    shared_settings,
    trigger_groups,
)
from sidequest.figures.statistics import (
    Scale,
    Strata,
    band,
    capped_mean_over_games,
    choose_scale,
    mean_over_games,
    median_over_games,
)

LineStyle: TypeAlias = dict[str, Any]
"""How a line looks, for matplotlib; hue, lightness and marker differ together."""

_GRANULARITY_STYLES: dict[str, LineStyle] = {
    "experiment-level X": {"color": "#999999", "marker": "X", "lw": 1.2},
    "experiment-level G": {"color": "#333333", "marker": "v", "lw": 1.2},
    "step-level": {"color": "#0072b2", "marker": "o", "lw": 1.5},
    "episode-level": {"color": "#e69f00", "marker": "s", "lw": 1.5},
    "intra-episodic": {"color": "#c7322b", "marker": "D", "lw": 2.0},
}
_TRIGGERS = {
    "informed": "value promise",
    "informed:mismatch": "action mismatch",
    "informed:variance": "value variance",
}
_CORRECTIONS = {"cut": "Watkins: traces are cut", "uncut": "uncorrected"}
_COLUMNS = 4
_GRID = np.linspace(0.0, 1.0, 41)[1:]  # shares of the budget at which games are averaged
_RESAMPLES = 400
_SPREAD = "Lines are means over seeds; bands reach from the worst to the best seed."
_CAPPED = "Human-capped: a run's score on a game counts as 1 at most."


def evaluated_runs(records: Records) -> pl.DataFrame:
    """Returns the runs that may be compared: of the usual settings, with a score."""
    return records.runs.filter("usual", pl.col("score").is_not_null())


def read_curves(records: Records, runs: pl.DataFrame, *columns: str) -> pl.DataFrame:
    """Returns the mean return of each evaluation: `run`, `frames`, `return`, and columns
    of the runs."""
    return (
        of_runs(records.evaluations, runs, *columns)
        .drop_nulls("return")
        .group_by("run", *columns, "frames")
        .agg(pl.col("return").mean())
        .sort("run", "frames")
    )


def draw_curves(
    axes: Axes, records: Records, runs: pl.DataFrame, styles: Mapping[str, LineStyle]
) -> None:
    """Draws one game: the curves of runs, a line for each value of their column `line`."""
    curves = read_curves(records, runs, "line", "variant")
    if curves.is_empty():
        style.say_empty(axes)
        return
    unit, name = style.frame_unit(curves["frames"].to_numpy().max())
    for label in distinct(runs, "line"):
        seeds = [
            (one["frames"].to_numpy() / unit, one["return"].to_numpy())
            for one in curves.filter(line=label).partition_by("run", maintain_order=True)
        ]
        if seeds:
            variant = curves.filter(line=label)["variant"][0]
            _draw_line(axes, seeds, {**styles[label], "label": variant})
    axes.set_xlim(left=0)
    axes.set_xlabel(name)


def _draw_line(
    axes: Axes,
    seeds: Sequence[tuple[Float[np.ndarray, "T"], Float[np.ndarray, "T"]]],
    look: LineStyle,
) -> None:
    """Draws the mean of the seeds, a band from worst to best, and each as a thin line.

    Seeds are compared as far as the shortest goes, and interpolated between evaluations.
    """
    start = max(frames[0] for frames, _ in seeds)
    end = min(frames[-1] for frames, _ in seeds)
    shared = [frames[(frames >= start) & (frames <= end)] for frames, _ in seeds]
    x = max(shared, key=len)
    if not len(x):
        x = np.array([max(start, end)])
    returns = np.stack([np.interp(x, *seed) for seed in seeds])
    if len(seeds) > 1:
        ends = returns.min(axis=0), returns.max(axis=0)
        axes.fill_between(x, *ends, color=look["color"], alpha=0.13, lw=0)
        for seed in seeds:
            axes.plot(*seed, color=look["color"], lw=0.4, alpha=0.6)
    marks = {"markersize": 3.5, "markevery": max(1, len(x) // 8)}
    axes.plot(x, returns.mean(axis=0), **look, **marks, zorder=3)


def style_keys(styles: Mapping[str, LineStyle], names: Mapping[str, str]) -> list[Line2D]:
    """Returns the legend's lines: one for each label in `names`, with the text to show."""
    return [
        Line2D([], [], **styles[label], markersize=4, label=style.plain(text))
        for label, text in names.items()
    ]


def some_styles(labels: Sequence[str]) -> dict[str, LineStyle]:
    """Returns a style for each label."""
    styles = {}
    for i, label in enumerate(labels):
        colour, marker = style.LINES[i % len(style.LINES)]
        styles[label] = {"color": colour, "marker": marker, "lw": 1.5}
    return styles


def _draw_panels(
    records: Records,
    runs: pl.DataFrame,
    styles: Mapping[str, LineStyle],
    *,
    title: str,
    names: Mapping[str, str],
    notes: Sequence[str],
) -> Figure:
    """Draws the runs of each `panel` in rows of at most four; a `section` begins a new row.

    `names` are the legend's texts by the label of the line.
    """
    panels = runs["section", "panel"].unique(maintain_order=True)
    sections = [
        own["panel"].to_list() for _, own in panels.group_by("section", maintain_order=True)
    ]
    if max(map(len, sections)) == 1:  # one game: side by side
        sections = [panels["panel"].to_list()]
    columns = min(_COLUMNS, max(map(len, sections)))
    rows = [
        section[i : i + columns]
        for section in sections
        for i in range(0, len(section), columns)
    ]
    keys, notes = style_keys(styles, names), [_SPREAD, *notes]
    figure = style.compose(1.75 * len(rows), title=title, keys=keys, notes=notes)
    grid = figure.subplots(len(rows), columns, squeeze=False)
    for cells, row in zip(grid, rows, strict=True):
        for axes, panel in zip(cells, row, strict=False):
            draw_curves(axes, records, runs.filter(panel=panel), styles)
            axes.set_title(style.plain(panel))
        for axes in cells[len(row) :]:
            axes.set_visible(False)
        cells[0].set_ylabel("return")
    return figure


def _final_means(runs: pl.DataFrame, *columns: str) -> pl.DataFrame:
    """Returns the mean score of each line of each panel, in the order of the panels."""
    lines = runs.group_by(*columns, "panel", "line", maintain_order=True)
    return lines.agg(pl.col("score").mean(), seeds=pl.len())


# The four granularities


def _granularity_runs(records: Records) -> pl.DataFrame:
    """Returns the runs of the variant that stands for each granularity of each mode.

    The column `line` names the granularity. Modes with a single one compare nothing and are
    left out.
    """
    runs = evaluated_runs(records)
    names = distinct(runs, "variant")
    parts = [runs.with_columns(line=pl.lit("")).clear()]
    for mode in modes_in(names):
        chosen = representatives(names, mode)
        if len(chosen) > 1:
            parts += [
                runs.filter(variant=name).with_columns(line=pl.lit(granularity))
                for granularity, name in chosen.items()
            ]
    return pl.concat(parts)


def _legend_names(runs: pl.DataFrame) -> dict[str, str]:
    """Returns the legend's texts: names of the variants without the explore mode."""
    settings = {
        granularity: sorted(distinct(runs.filter(line=granularity), "setting"))
        for granularity in GRANULARITIES
    }
    return {granularity: " or ".join(own) for granularity, own in settings.items() if own}


def _missing_notes(records: Records, runs: pl.DataFrame) -> list[str]:
    expected = [
        f"{mode}-{setting}"
        for mode in distinct(runs, "mode")
        for setting in GRANULARITIES.values()
    ]
    return [*absent_note(expected, distinct(runs, "variant")), *gap_notes(records, runs)]


@style.styled
def learning_curves(records: Records) -> Plot | None:
    """Plots a panel of learning curves for each explore mode and game (figure 10)."""
    panel = pl.concat_str("mode", "game", separator="  ")
    runs = _granularity_runs(records).with_columns(section="mode", panel=panel)
    if runs.is_empty():
        return None
    table = _final_means(runs, "mode")
    best = table.sort("score", descending=True, maintain_order=True)
    best = best.group_by("mode", "panel", maintain_order=True).agg(pl.col("line").first())
    sentences = []
    for mode in distinct(runs, "mode"):
        winners = best.filter(mode=mode)["line"].value_counts(sort=True).rows()
        said = ", ".join(f"{granularity} in {number}" for granularity, number in winners)
        games = count(sum(number for _, number in winners), "game")
        sentences.append(f"{mode}: of {games}, the highest mean is {said}.")
    notes = _missing_notes(records, runs)
    title, names = "Return of the greedy policy, by granularity", _legend_names(runs)
    looks = {"title": title, "names": names, "notes": notes}
    figure = _draw_panels(records, runs, _GRANULARITY_STYLES, **looks)
    return Plot(figure, " ".join([*sentences, *notes]), table)


def scale_for(runs: pl.DataFrame, games: Sequence[str]) -> Scale:
    """Returns a scale from all runs of these games, so that figures of a study share it."""
    return choose_scale(
        {game: runs.filter(game=game)["score"].to_numpy() for game in games}
    )


def final_strata(runs: pl.DataFrame, games: Sequence[str], scale: Scale) -> Strata:
    """Returns the final scores of each game's runs, on a scale."""
    return [scale.apply(game, runs.filter(game=game)["score"].to_numpy()) for game in games]


@style.styled
def aggregate(records: Records) -> Plot | None:
    """Plots mean and median over games, a panel for each explore mode (figure 3).

    Modes are panels of their own, so each has the games that all its lines have: an average
    over other games would be another quantity. Where human scores are known for all games,
    there is the human-capped mean too.
    """
    every = _granularity_runs(records)
    lines = pl.col("line").n_unique()
    runs = every.filter(lines.over("mode", "game") == lines.over("mode"))
    if runs.is_empty():
        return None
    games = {
        str(mode): distinct(own, "game")
        for (mode,), own in runs.group_by("mode", maintain_order=True)
    }
    scale = scale_for(evaluated_runs(records), distinct(runs, "game"))
    statistics = {"mean": mean_over_games, "median": median_over_games}
    if scale.kind == "human":  # only where 1 is a human's score is there a point to cap at
        statistics["human-capped mean"] = capped_mean_over_games
    parts = []
    for own in runs.partition_by("mode", "line"):
        mode, granularity = own["mode"][0], own["line"][0]
        shares, strata = _along_budget(records, own, games[mode], scale)
        finals = final_strata(own, games[mode], scale)
        for name, statistic in statistics.items():
            rng = np.random.default_rng(0)
            low, high = band(rng, statistic, strata, resamples=_RESAMPLES)
            line = {"mode": mode, "statistic": name, "granularity": granularity}
            line |= {"share": shares, "low": low, "value": statistic(strata), "high": high}
            parts.append(pl.DataFrame({**line, "final": float(statistic(finals))}))
    table = pl.concat(parts)
    every = every.filter(pl.col("mode").is_in(list(games)))
    missing = _missing_notes(records, every)
    notes = [
        "Bands: 95% bootstrap over seeds.",
        *([_CAPPED] if scale.kind == "human" else []),
        *_game_notes(every, games),
        *missing,
    ]
    figure = _draw_aggregate(table, scale.label, _legend_names(every), notes)
    sentences = _say_finals(table, games)
    caption = " ".join([*sentences, f"Scale: {scale.label}.", *missing])
    return Plot(figure, caption, table)


def _along_budget(
    records: Records, runs: pl.DataFrame, games: Sequence[str], scale: Scale
) -> tuple[Float[np.ndarray, "T"], Strata]:
    """Returns shares of the budget that every run has reached, and the scores there."""
    limits = runs.rename({"frames": "limit"})
    newest = pl.col("frames").max().over("run")
    share = pl.col("frames") / pl.max_horizontal("limit", newest)
    curves = read_curves(records, limits, "game", "limit").with_columns(share=share)
    ends = curves.group_by("run").agg(
        start=pl.col("share").min(), end=pl.col("share").max()
    )
    start, end = ends["start"].to_numpy().max(), ends["end"].to_numpy().min()
    grid = _GRID[(_GRID >= start - 1e-9) & (_GRID <= end + 1e-9)]
    grid = grid if len(grid) else np.array([end])
    strata = []
    for game in games:
        seeds = curves.filter(game=game).partition_by("run")
        returns = [np.interp(grid, one["share"], one["return"]) for one in seeds]
        strata.append(scale.apply(game, np.stack(returns, axis=-1)))
    return grid, strata


def _game_notes(runs: pl.DataFrame, games: Mapping[str, list[str]]) -> list[str]:
    """Names the games that each mode is averaged over, and those that a line lacks."""
    notes = []
    for mode, own in games.items():
        rest = [one for one in distinct(runs.filter(mode=mode), "game") if one not in own]
        lacking = f"; not every line has {some(rest)}" if rest else ""
        notes.append(f"{mode}: {count(len(own), 'game')}, {some(own, 7)}{lacking}.")
    return notes


def _draw_aggregate(
    table: pl.DataFrame, scale: str, names: Mapping[str, str], notes: Sequence[str]
) -> Figure:
    panels = table.partition_by("mode", "statistic", as_dict=True, maintain_order=True)
    statistics = distinct(table, "statistic")
    # Modes stay together.
    columns = min(_COLUMNS - _COLUMNS % len(statistics), len(panels))
    rows = -(-len(panels) // columns)
    title = f"{listed(statistics).capitalize()} over games"
    keys = style_keys(_GRANULARITY_STYLES, names)
    figure = style.compose(2.5 * rows, title=title, keys=keys, notes=notes)
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes, ((mode, statistic), panel) in zip(grid.flat, panels.items(), strict=False):
        for (granularity,), line in panel.group_by("granularity", maintain_order=True):
            look = _GRANULARITY_STYLES[str(granularity)]
            x = 100 * line["share"].to_numpy()
            ends = line["low"], line["high"]
            axes.fill_between(x, *ends, color=look["color"], alpha=0.13, lw=0)
            marks = {"markersize": 3.5, "markevery": max(1, len(x) // 6)}
            axes.plot(x, line["value"], **look, **marks, label=granularity)
        axes.set_xlim(0, 102)
        axes.set_xlabel("% of the budget")
        axes.set_title(f"{mode}  {statistic}")
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    for row in grid:
        row[0].set_ylabel("\n".join(wrap(scale, 32)))
    return figure


def _say_finals(table: pl.DataFrame, games: Mapping[str, list[str]]) -> list[str]:
    """Ranks the granularities of each mode by their scores at the end, best first."""
    finals = table.unique(["mode", "statistic", "granularity"], maintain_order=True)
    finals = finals.sort("final", descending=True, maintain_order=True)
    sentences = []
    for mode, own in games.items():
        ranks = []
        for statistic in distinct(table, "statistic"):
            rows = finals.filter(mode=mode, statistic=statistic)
            scores = rows.select("granularity", "final").rows()
            ranked = ", ".join(
                f"{granularity} {final:.2f}" for granularity, final in scores
            )
            ranks.append(f"{statistic} {ranked}")
        number = count(len(own), "game")
        sentences.append(f"{mode}, last 10% of training, {number}: {'; '.join(ranks)}.")
    return sentences


# Curves that compare one choice


@style.styled
def informed_triggers(records: Records) -> Plot | None:
    """Plots the informed triggers of one variant against each other (figure 8)."""
    runs = evaluated_runs(records)
    parts = [runs.with_columns(section=pl.lit(""), line=pl.lit("")).clear()]
    for group in trigger_groups(distinct(runs, "variant")):
        name = next(iter(group.values())).replace("informed:", "").split(",")
        section = ",".join([name[0], "·", *name[2:]])
        parts += [
            runs.filter(variant=one).with_columns(
                section=pl.lit(section), line=pl.lit(kind)
            )
            for kind, one in group.items()
        ]
    panel = pl.concat_str("section", "game", separator="\n")
    runs = pl.concat(parts).with_columns(panel=panel)
    runs = runs.filter(pl.col("line").n_unique().over("panel") > 1)
    present = [kind for kind in _TRIGGERS if kind in distinct(runs, "line")]
    names = {kind: _TRIGGERS[kind] for kind in present}
    notes = absent_note(_TRIGGERS, present)
    return _compare(records, runs, "Three signals to switch by", names, notes)


@style.styled
def off_policy(records: Records) -> Plot | None:
    """Plots runs with and without trace cutting that share everything else (figure 15)."""
    runs = records.runs.drop_nulls("score").with_columns(
        section="variant",
        panel=pl.concat_str("variant", "game", separator="\n"),
        line=pl.when("watkins").then(pl.lit("cut")).otherwise(pl.lit("uncut")),
    )
    runs = runs.filter(pl.col("line").n_unique().over("panel") > 1)
    # The default and the same choice made by hand are one: a seed counts once.
    runs = runs.unique(["panel", "line", "seed"], keep="last", maintain_order=True)
    return _compare(records, runs, "Off-policy correction", _CORRECTIONS)


@style.styled
def explore_modes(records: Records) -> Plot | None:
    """Plots the same settings with different explore modes, game by game (figure 16)."""
    runs = evaluated_runs(records).with_columns(
        section="game", panel=pl.concat_str("mode", "game", separator="  "), line="setting"
    )
    names = distinct(runs, "variant")
    settings = shared_settings(names)
    ordered = [
        runs.filter(game=game, mode=mode, setting=setting)
        for game in distinct(runs, "game")
        for mode in modes_in(names)
        for setting in settings
    ]
    runs = pl.concat(ordered) if ordered else runs.clear()
    title = "The same settings with different explore modes"
    plot = _compare(records, runs, title, {one: one for one in settings})
    if plot:
        for own in runs.partition_by("game"):
            _share_heights(plot.figure, distinct(own, "panel"))
    return plot


def _share_heights(figure: Figure, titles: Sequence[str]) -> None:
    """Gives panels the same axis, so that they can be compared by eye."""
    panels = [axes for axes in figure.axes if axes.get_title() in map(style.plain, titles)]
    lows, highs = zip(*(axes.get_ylim() for axes in panels), strict=True)
    for axes in panels:
        axes.set_ylim(min(lows), max(highs))


def _compare(
    records: Records,
    runs: pl.DataFrame,
    title: str,
    names: Mapping[str, str],
    notes: Sequence[str] = (),
) -> Plot | None:
    """Plots panels of curves; the caption ranks the lines of each by their final means."""
    if runs.is_empty():
        return None
    table = _final_means(runs)
    sentences = ["Final means."]
    for (panel,), own in table.group_by("panel", maintain_order=True):
        ranked = own.sort("score", descending=True, maintain_order=True)
        scores = [
            f"{names[line]} {score:.3g}" for line, score in ranked["line", "score"].rows()
        ]
        sentences.append(f"{str(panel).replace(chr(10), ' on ')}: {', '.join(scores)}.")
    gaps = gap_notes(records, runs)
    looks = {"title": title, "names": names, "notes": [*notes, *gaps]}
    figure = _draw_panels(records, runs, some_styles(list(names)), **looks)
    return Plot(figure, " ".join([*sentences, *gaps]), table)

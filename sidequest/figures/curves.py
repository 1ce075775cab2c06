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
    groups,
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


def _read_curves(records: Records, runs: pl.DataFrame, *columns: str) -> pl.DataFrame:
    """Returns the mean return of each evaluation: `run`, `frames`, `return`, and columns
    of the runs."""
    return (
        of_runs(records.evaluations, runs, *columns)
        .drop_nulls("return")
        .group_by("run", *columns, "frames")
        .agg(pl.col("return").mean())
        .sort("run", "frames")
    )


def label_lines(runs: pl.DataFrame, variants: Mapping[str, str]) -> pl.DataFrame:
    """Returns the runs of some variants, given by their label, which is put in `line`."""
    nothing = runs.clear().with_columns(line=pl.lit("", pl.String()))
    labelled = [
        runs.filter(variant=name).with_columns(line=pl.lit(label))
        for label, name in variants.items()
    ]
    return pl.concat([nothing, *labelled])


def _ranked(frame: pl.DataFrame, label: str, value: str, digits: str) -> str:
    """Returns `a 3.1, b 2.0`: labels with their values, greatest first."""
    rows = frame.sort(value, descending=True, maintain_order=True).select(label, value)
    return ", ".join(f"{name} {number:{digits}}" for name, number in rows.iter_rows())


def draw_curves(
    axes: Axes, records: Records, runs: pl.DataFrame, styles: Mapping[str, LineStyle]
) -> None:
    """Draws one game: the curves of runs, a line for each value of their column `line`."""
    curves = _read_curves(records, runs, "line", "variant")
    if curves.is_empty():
        style.say_empty(axes)
        return
    unit, name = style.frame_unit(curves["frames"].to_numpy().max())
    for line in groups(curves, "line"):
        seeds = [
            (one["frames"].to_numpy() / unit, one["return"].to_numpy())
            for one in groups(line, "run")
        ]
        look = {**styles[line["line"][0]], "label": line["variant"][0]}
        _draw_line(axes, seeds, look)
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
    title: str,
    styles: Mapping[str, LineStyle],
    names: Mapping[str, str],
    notes: Sequence[str],
) -> Figure:
    """Draws the runs of each `panel` in rows of at most four; a `section` begins a new row.

    `names` are the legend's texts by the label of the line.
    """
    sections = [distinct(own, "panel") for own in groups(runs, "section")]
    if max(map(len, sections)) == 1:  # one game: side by side
        sections = [distinct(runs, "panel")]
    rows = [row for section in sections for row in style.in_rows(section, _COLUMNS)]
    keys, notes = style_keys(styles, names), [_SPREAD, *notes]
    figure = style.compose(1.75 * len(rows), title=title, keys=keys, notes=notes)
    for cells, row in zip(style.add_panels(figure, rows), rows, strict=True):
        for axes, panel in zip(cells, row, strict=True):
            draw_curves(axes, records, runs.filter(panel=panel), styles)
            axes.set_title(style.plain(panel))
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
    chosen = [representatives(names, mode) for mode in modes_in(names)]
    chosen = [variants for variants in chosen if len(variants) > 1]
    return pl.concat([label_lines(runs, variants) for variants in [{}, *chosen]])


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
    looks = _GRANULARITY_STYLES, _legend_names(runs)
    title = "Return of the greedy policy, by granularity"
    figure = _draw_panels(records, runs, title, *looks, notes)
    return Plot(figure, " ".join([*sentences, *notes]), table)


def final_scores(
    runs: pl.DataFrame, games: Sequence[str]
) -> dict[str, Float[np.ndarray, "N"]]:
    """Returns the final scores of the runs of each game."""
    return {game: runs.filter(game=game)["score"].to_numpy() for game in games}


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
    games = {own["mode"][0]: distinct(own, "game") for own in groups(runs, "mode")}
    # From all runs of these games, so that figures of one study share a scale.
    scale = choose_scale(final_scores(evaluated_runs(records), distinct(runs, "game")))
    statistics = {"mean": mean_over_games, "median": median_over_games}
    if scale.kind == "human":  # only where 1 is a human's score is there a point to cap at
        statistics["human-capped mean"] = capped_mean_over_games
    parts = []
    for own in groups(runs, "mode", "line"):
        mode, granularity = own["mode"][0], own["line"][0]
        shares, strata = _along_budget(records, own, games[mode], scale)
        finals = scale.apply_all(final_scores(own, games[mode]))
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
    curves = _read_curves(records, limits, "game", "limit").with_columns(share=share)
    seeds = curves.group_by("run").agg(start=pl.min("share"), end=pl.max("share"))
    start, end = seeds["start"].to_numpy().max(), seeds["end"].to_numpy().min()
    grid = _GRID[(_GRID >= start - 1e-9) & (_GRID <= end + 1e-9)]
    grid = grid if len(grid) else np.array([end])
    returns = {}
    for game in games:
        seeds = groups(curves.filter(game=game), "run")
        lines = [np.interp(grid, one["share"], one["return"]) for one in seeds]
        returns[game] = np.stack(lines, axis=-1)
    return grid, scale.apply_all(returns)


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
    statistics = distinct(table, "statistic")
    columns = _COLUMNS - _COLUMNS % len(statistics)  # modes stay together
    rows = style.in_rows(groups(table, "mode", "statistic"), columns)
    title = f"{listed(statistics).capitalize()} over games"
    keys = style_keys(_GRANULARITY_STYLES, names)
    figure = style.compose(2.5 * len(rows), title=title, keys=keys, notes=notes)
    for cells, row in zip(style.add_panels(figure, rows), rows, strict=True):
        for axes, panel in zip(cells, row, strict=True):
            for line in groups(panel, "granularity"):
                granularity = line["granularity"][0]
                look = _GRANULARITY_STYLES[granularity]
                x, ends = 100 * line["share"], (line["low"], line["high"])
                axes.fill_between(x, *ends, color=look["color"], alpha=0.13, lw=0)
                marks = {"markersize": 3.5, "markevery": max(1, len(x) // 6)}
                axes.plot(x, line["value"], **look, **marks, label=granularity)
            axes.set_xlim(0, 102)
            axes.set_xlabel("% of the budget")
            axes.set_title(f"{panel['mode'][0]}  {panel['statistic'][0]}")
        cells[0].set_ylabel("\n".join(wrap(scale, 32)))
    return figure


def _say_finals(table: pl.DataFrame, games: Mapping[str, list[str]]) -> list[str]:
    """Ranks the granularities of each mode by their scores at the end, best first."""
    finals = table.unique(["mode", "statistic", "granularity"], maintain_order=True)
    sentences = []
    for mode, own in games.items():
        ranks = "; ".join(
            f"{one['statistic'][0]} {_ranked(one, 'granularity', 'final', '.2f')}"
            for one in groups(finals.filter(mode=mode), "statistic")
        )
        number = count(len(own), "game")
        sentences.append(f"{mode}, last 10% of training, {number}: {ranks}.")
    return sentences


# Curves that compare one choice


@style.styled
def informed_triggers(records: Records) -> Plot | None:
    """Plots the informed triggers of one variant against each other (figure 8)."""
    runs = evaluated_runs(records)
    found = trigger_groups(distinct(runs, "variant"))
    runs = pl.concat([label_lines(runs, variants) for variants in [{}, *found]])
    # The variant without the trigger, which is the second of its arguments.
    section = pl.col("variant").str.replace(",[^,]*", ",·")
    runs = runs.with_columns(section=section)
    runs = runs.with_columns(panel=pl.concat_str("section", "game", separator="\n"))
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
    if plot is None:
        return None
    # Modes on one game are compared by eye, so their axes are the same.
    for own in groups(runs, "game"):
        titles = [style.plain(panel) for panel in distinct(own, "panel")]
        panels = [axes for axes in plot.figure.axes if axes.get_title() in titles]
        lows, highs = zip(*(axes.get_ylim() for axes in panels), strict=True)
        for axes in panels:
            axes.set_ylim(min(lows), max(highs))
    return plot


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
    table = _final_means(
        runs.with_columns(name=pl.col("line").replace_strict(names)), "name"
    )
    sentences = ["Final means."]
    for own in groups(table, "panel"):
        panel = own["panel"][0].replace("\n", " on ")
        sentences.append(f"{panel}: {_ranked(own, 'name', 'score', '.3g')}.")
    gaps = gap_notes(records, runs)
    looks = some_styles(list(names)), names
    figure = _draw_panels(records, runs, title, *looks, [*notes, *gaps])
    return Plot(figure, " ".join([*sentences, *gaps]), table)

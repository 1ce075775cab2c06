"""Learning curves: the return of the greedy policy over environment frames.

The four granularities over all games (figure 3) and game by game (figure 10), and curves
that compare one choice: the informed triggers (figure 8), off-policy correction (figure 15)
and the explore modes (figure 16).
"""

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any, Literal

import numpy as np
import polars as pl
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from sidequest.figures import style
from sidequest.figures.data import (
    Plot,
    Records,
    count,
    distinct,
    groups,
    listed,
    of_runs,
    some,
)
from sidequest.figures.pairs import (
    modes_in,
    representatives,
    shared_settings,
    trigger_groups,
)
from sidequest.figures.statistics import (
    FEWEST_SEEDS,
    band,
    capped_mean_over_games,
    choose_scale,
    mean_over_games,
    median_over_games,
)

_COLUMNS = 4
_BINS = 40
_RESAMPLES = 400
_HOW_TO_READ = (
    "Lines are means over seeds and bins of frames. Bands reach from the worst to the best "
    "seed; fewer than three seeds are thin lines."
)
_BANDS = {
    "min-max": "Bands: worst to best seed; fewer than three seeds are thin lines.",
    "bootstrap": "Bands: 95% bootstrap over seeds; fewer than three seeds are thin lines.",
}
_CAPPED = "Human-capped: a run's score on a game counts as 1 at most."
_CUT, _UNCUT = "Watkins: traces are cut", "uncorrected"


def evaluated_runs(records: Records) -> pl.DataFrame:
    """Returns the runs that may be compared: of the usual settings, with a score."""
    return records.runs.filter("usual", pl.col("score").is_not_null())


def of_variants(runs: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """Returns the runs of some variants, in the order of the names."""
    return pl.concat([runs.clear(), *(runs.filter(variant=name) for name in names)])


def few_learned() -> pl.Expr:
    """Returns whether most of some runs are known to have learned nothing."""
    return 2 * pl.col("learned").fill_null(True).sum() <= pl.len()


def summarise(runs: pl.DataFrame, *columns: str) -> pl.DataFrame:
    """Returns mean, worst and best score over the seeds of each group of runs."""
    score = pl.col("score")
    return runs.group_by(columns, maintain_order=True).agg(
        pl.len().alias("seeds"),
        score.mean().alias("mean"),
        score.min().alias("worst seed"),
        score.max().alias("best seed"),
    )


def _bin_curves(records: Records, runs: pl.DataFrame) -> pl.DataFrame:
    """Returns the mean return of each run in 40 equal bins of its game's budget.

    A bin without an evaluation lies on the line between its neighbours. A bin counts if a
    run has half of it behind it.

    Returns:
        `run`, `game`, `variant`, `return`, and where a bin ends: `share` of the budget and
        `frames`.
    """
    cell = ["run", "game", "variant", "limit"]
    limits = runs.rename({"frames": "limit"})
    episodes = of_runs(records.evaluations, limits, *cell[1:]).drop_nulls("return")
    limit = pl.max_horizontal("limit", "frames").max().over("game")
    episodes = episodes.with_columns(limit=limit, share=pl.col("frames") / limit)
    number = (pl.col("share") * _BINS - 1e-6).ceil().clip(1).cast(pl.Int64())
    means = episodes.group_by("run", bin=number).agg(pl.mean("return"))
    bins = pl.DataFrame({"bin": range(1, _BINS + 1)}).with_columns(
        share=pl.col("bin") / _BINS
    )
    return (
        episodes.group_by(cell, maintain_order=True)
        .agg(end=pl.max("share"))
        .join(bins, how="cross")
        .filter(pl.col("share") <= pl.col("end") + 0.5 / _BINS)
        .join(means, on=["run", "bin"], how="left", maintain_order="left")
        .with_columns(
            pl.col("return").interpolate().over("run"),
            frames=pl.col("share") * pl.col("limit"),
        )
        .drop_nulls("return")
    )


def _draw_line(
    axes: Axes,
    x: Float[np.ndarray, "T"],
    mean: Float[np.ndarray, "T"],
    seeds: Float[np.ndarray, "T seeds"],
    ends: tuple[Any, Any] | None = None,
    **look: Any,
) -> None:
    """Draws a mean with the band of its seeds, or with a thin line for each of a few."""
    if seeds.shape[1] >= FEWEST_SEEDS:
        ends = ends or (seeds.min(axis=1), seeds.max(axis=1))
        axes.fill_between(x, *ends, color=look["color"], alpha=0.15, lw=0)
    elif seeds.shape[1] > 1:
        axes.plot(x, seeds, color=look["color"], lw=0.5, alpha=0.7)
    marks = {"ms": 3.5, "markevery": max(1, len(x) // 8), "lw": 1.5, "zorder": 3}
    axes.plot(x, mean, **marks | look)


def draw_curves(
    axes: Axes,
    records: Records,
    runs: pl.DataFrame,
    line: str = "variant",
    changes: Mapping[str, dict[str, Any]] | None = None,
) -> None:
    """Draws the learning curves of one game, with a line for each value of a column.

    Args:
        changes: What differs from the look of the variant, by the column's value.
    """
    curves = of_runs(_bin_curves(records, runs), runs, *{line} - {"variant"})
    if curves.is_empty():
        style.say_empty(axes)
        return
    unit, name = style.frame_unit(curves.select(pl.max("frames")).item())
    for own in groups(curves, line):
        variant, label = own["variant"][0], own[line][0]
        wide = own.pivot("run", index="frames", values="return").drop_nulls()
        seeds = wide.drop("frames").to_numpy()
        look = style.look(variant).line | (changes or {}).get(label, {})
        x = wide["frames"].to_numpy() / unit
        _draw_line(axes, x, seeds.mean(axis=1), seeds, label=style.plain(label), **look)
    axes.set_xlim(left=0)
    axes.set_xlabel(name)
    style.show_zero(axes)


def _compare(
    records: Records,
    runs: pl.DataFrame,
    title: str,
    line: str = "variant",
    changes: Mapping[str, dict[str, Any]] | None = None,
    keys: Sequence[Line2D] = (),
    **options: Any,
) -> Plot | None:
    """Plots the runs of each `panel`; each `section` begins a new row of at most four.

    The caption says how often each line has the highest mean.
    """
    if runs.is_empty():
        return None
    sections = [distinct(own, "panel") for own in groups(runs, "section")]
    if max(map(len, sections)) == 1:  # one game: side by side
        sections = [distinct(runs, "panel")]

    def draw(axes: Axes, panel: str) -> None:
        draw_curves(axes, records, runs.filter(panel=panel), line, changes)
        axes.set_title(style.plain(panel))

    figure = style.draw_panels(
        [row for section in sections for row in style.in_rows(section, _COLUMNS)],
        draw,
        1.75,
        ylabels=["return"],
        options=options,
        title=title,
        keys=keys or style.keys(distinct(runs, "variant")),
        notes=[_HOW_TO_READ],
    )
    table = summarise(runs, *dict.fromkeys(["variant", line, "game"]))
    caption = f"Highest final mean. {' '.join(_winners(runs, line))}"
    return Plot(figure, caption, table)


def _winners(runs: pl.DataFrame, line: str) -> list[str]:
    """Says, for each explore mode, in how many panels each line has the highest mean."""
    label = "setting" if line == "variant" else line
    sentences = []
    for mode in modes_in(distinct(runs, "variant")):
        means = runs.filter(mode=mode).group_by("panel", label).agg(pl.mean("score"))
        best = means.filter(pl.col("score") == pl.max("score").over("panel"))
        tied = pl.when(pl.len().over("panel") > 1).then(pl.lit("no difference"))
        first = best.with_columns(tied.otherwise(label).alias("first")).unique("panel")
        wins = (
            first["first"].value_counts().sort("count", "first", descending=[True, False])
        )
        said = listed(f"{name} in {number}" for name, number in wins.rows())
        sentences.append(f"{mode}, {count(len(first), 'game')}: {said}.")
    return sentences


# The four granularities


def _granularity_runs(records: Records) -> pl.DataFrame:
    """Returns the runs of the variant that stands for each granularity of each mode.

    Modes with a single one compare nothing and are left out.
    """
    runs = evaluated_runs(records)
    names = distinct(runs, "variant")
    chosen = [[*representatives(names, mode).values()] for mode in modes_in(names)]
    return of_variants(runs, [name for own in chosen if len(own) > 1 for name in own])


@style.styled
def learning_curves(records: Records) -> Plot | None:
    """Plots a panel of learning curves for each explore mode and game (figure 10)."""
    panel = pl.concat_str("mode", "game", separator="  ")
    runs = _granularity_runs(records).with_columns(section="mode", panel=panel)
    return _compare(records, runs, "Return of the greedy policy, by granularity")


def final_scores(
    runs: pl.DataFrame, games: Sequence[str]
) -> dict[str, Float[np.ndarray, "N"]]:
    """Returns the final scores of the runs of each game."""
    return {game: runs.filter(game=game)["score"].to_numpy() for game in games}


@style.styled
def aggregate(
    records: Records, bands: Literal["min-max", "bootstrap"] = "min-max"
) -> Plot | None:
    """Plots mean and median over games, a panel for each explore mode (figure 3).

    Modes are panels of their own, so each has the games that all its lines have: an average
    over other games would be another quantity. Fewer than three games have no median of
    their own. Where human scores are known for all games, there is the human-capped mean.
    """
    every = _granularity_runs(records)
    variants = pl.col("variant").n_unique()
    runs = every.filter(variants.over("mode", "game") == variants.over("mode"))
    if bands == "bootstrap":  # modes with too few seeds have no intervals
        fewest = pl.len().over("variant", "game").min().over("mode")
        runs = runs.filter(fewest >= FEWEST_SEEDS)
    if runs.is_empty():
        return None
    games = {own["mode"][0]: distinct(own, "game") for own in groups(runs, "mode")}
    # From all runs of these games, so that figures of one study share a scale.
    scale = choose_scale(final_scores(evaluated_runs(records), distinct(runs, "game")))
    functions = {"mean": mean_over_games, "median": median_over_games}
    if scale.kind == "human":  # only where 1 is a human's score is there a point to cap at
        functions["human-capped mean"] = capped_mean_over_games
    panels = [
        (mode, name)
        for mode, own in games.items()
        for name in functions
        if name != "median" or len(own) > 2
    ]
    rows = []

    def draw(axes: Axes, panel: tuple[str, str]) -> None:
        mode, name = panel
        function = functions[name]
        curves = _bin_curves(records, runs.filter(mode=mode))
        for line in groups(curves, "variant"):
            variant = line["variant"][0]
            own = runs.filter(variant=variant).sort("seed")
            wide = line.pivot("run", index="share", values="return").drop_nulls()
            returns = {
                game: wide.select(map(str, own.filter(game=game)["run"])).to_numpy()
                for game in games[mode]
            }
            strata = scale.apply_all(returns)
            fewest = min(scores.shape[1] for scores in strata)
            seeds = [function([scores[:, [k]] for scores in strata]) for k in range(fewest)]
            ends = None
            if bands == "bootstrap":
                rng = np.random.default_rng(0)
                ends = band(rng, function, strata, resamples=_RESAMPLES)
            x, mean = 100 * wide["share"].to_numpy(), np.asarray(function(strata))
            look = style.look(variant).line
            _draw_line(axes, x, mean, np.stack(seeds, 1), ends, label=variant, **look)
            final = function(scale.apply_all(final_scores(own, games[mode])))
            row = {"variant": variant, "statistic": name, "score": float(final)}
            rows.append({**row, "games": len(games[mode]), "seeds": fewest})
        axes.set_xlim(0, 102)
        axes.set_xlabel("% of the budget")
        axes.set_title(f"{mode}  {name}" if len(games[mode]) > 1 else f"{mode}")
        style.show_zero(axes)

    widest = max(sum(mode == one for one, _ in panels) for mode in games)
    figure = style.draw_panels(
        style.in_rows(panels, _COLUMNS - _COLUMNS % widest),  # modes stay together
        draw,
        2.5,
        ylabels=["\n".join(wrap(scale.label, 32))],
        title=f"{listed({name: 0 for _, name in panels}).capitalize()} over games",
        keys=style.keys(distinct(runs, "variant")),
        notes=[
            _BANDS[bands],
            *([_CAPPED] if scale.kind == "human" else []),
            *_game_notes(every, games),
        ],
    )
    table = pl.DataFrame(rows)
    sentences = []
    for mode, own in games.items():
        ranked = table.filter(pl.col("variant").str.starts_with(mode), statistic="mean")
        ranked = ranked.sort("score", maintain_order=True).select("variant", "score").rows()
        (worst, least), (best, most) = ranked[0], ranked[-1]
        sentences.append(
            f"{mode}, {count(len(own), 'game')}: {best} is best "
            f"({most:z.2f}), {worst} worst ({least:z.2f})."
        )
    caption = f"Over the last 10% of training ({scale.label}). {' '.join(sentences)}"
    return Plot(figure, caption, table)


def _game_notes(runs: pl.DataFrame, games: Mapping[str, list[str]]) -> list[str]:
    """Names the games that each mode is averaged over, and those that a line lacks."""
    notes: dict[str, list[str]] = {}
    for mode, own in games.items():
        rest = [one for one in distinct(runs.filter(mode=mode), "game") if one not in own]
        lacking = f"; not every line has {some(rest)}" if rest else ""
        said = f"{count(len(own), 'game')}, {some(own, 7)}{lacking}."
        notes.setdefault(said, []).append(mode)
    return [f"{listed(modes)}: {said}" for said, modes in notes.items()]


# Curves that compare one choice


@style.styled
def informed_triggers(records: Records) -> Plot | None:
    """Plots the informed triggers of one variant against each other (figure 8)."""
    runs = evaluated_runs(records)
    found = trigger_groups(distinct(runs, "variant"))
    runs = of_variants(runs, [name for own in found for name in own.values()])
    # The variant without the trigger, which is the second of its arguments.
    section = pl.col("variant").str.replace(",[^,]*", ",·")
    runs = runs.with_columns(section=section)
    runs = runs.with_columns(panel=pl.concat_str("section", "game", separator="\n"))
    runs = runs.filter(pl.col("variant").n_unique().over("panel") > 1)
    return _compare(records, runs, "Three signals to switch by")


@style.styled
def off_policy(records: Records) -> Plot | None:
    """Plots runs with and without trace cutting that share everything else (figure 15)."""
    runs = records.runs.drop_nulls("score").with_columns(
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
    return _compare(records, runs, "Off-policy correction", "correction", looks, keys)


@style.styled
def explore_modes(records: Records) -> Plot | None:
    """Plots the same settings with different explore modes, game by game (figure 16)."""
    runs = evaluated_runs(records).with_columns(
        section="game", panel=pl.concat_str("mode", "game", separator="  ")
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
    # Modes on one game are compared by eye, so their axes are the same.
    title = "The same settings with different explore modes"
    return _compare(records, runs, title, sharey="row")

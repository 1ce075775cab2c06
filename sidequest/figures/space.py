"""Characteristic space: how much and in what portions variants explored, and what they
scored (figure 4; figure 11 for all games and variants)."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes

from sidequest.figures import style
from sidequest.figures.data import Plot, Records, arrange, distinct, groups, most_learned
from sidequest.figures.pairs import known
from sidequest.switching.variants import MODES
from sidequest.wording import plural

_COLUMNS = 4
_GAMES = ("frostbite", "gravitar", "montezuma_revenge", "phoenix")  # of figure 4
_SETTINGS = (
    *("episode-level-*", "intra(10,informed,p*,X)", "intra(*,blind,n*,G)"),
    *("intra(*,informed,p*,G)", "intra(=,informed,p*,G)"),
)
_MOST_SETTINGS = 8
_TICKS = (0, 0.01, 0.1, 0.3, 0.6, 1)  # of p_X


def explore_space(records: Records) -> Plot | None:
    """Plots the settings of figure 4 with XU and XI, on its games.

    A study that lacks any of them shows its own intra-episodic settings, adaptive ones
    first, and its first four games.
    """
    runs = records.runs.filter("usual")
    in_paper = runs.filter(pl.col("mode").is_in(["XU", "XI"]))
    runs = in_paper if len(in_paper) else runs
    games = distinct(runs, "game")
    games = [game for game in _GAMES if game in games] or games[:_COLUMNS]
    runs = runs.filter(pl.col("game").is_in(games))
    settings = [one for one in _SETTINGS if one in distinct(runs, "setting")]
    if len(settings) < len(_SETTINGS):
        variants = known(distinct(runs, "variant"))
        shown = [n for n, v in variants.items() if v.granularity in ("intra", "episode")]
        shown.sort(key=lambda name: not variants[name].bandits())
        settings = [*dict.fromkeys(name.partition("-")[2] for name in shown)]
    settings = settings[:_MOST_SETTINGS]
    return _plot("explore-space", runs.filter(pl.col("setting").is_in(settings)))


def explore_space_all(records: Records) -> Plot | None:
    """Plots all games and all variants (figure 11)."""
    return _plot("explore-space-all", records.runs.filter("usual"))


def _plot(name: str, runs: pl.DataFrame) -> Plot | None:
    runs = runs.drop_nulls("mode")
    points = _points(runs)
    if points.is_empty():
        return None
    places = points.select(pl.min_horizontal("early_rmed_X", "late_rmed_X"))
    least = min(max(places.to_numpy().min(), 1e-5) / 2, 0.05)  # the axis names two numbers
    rows = _rows(points)
    planes = []

    def draw(axes: Axes, item: tuple[str, list[dict[str, Any]]]) -> None:
        kind, panel = item
        if kind == "scores":
            _draw_scores(axes, panel)
            return
        _draw_points(axes, panel)
        axes.set_xlim(least, 1.5)  # the same everywhere
        title = f"{panel[0]['mode']}  {panel[0]['game']}"
        axes.set_title(style.fit(title, 120 / max(map(len, rows))))
        planes.append((axes, panel))

    kinds = ("plane", "scores")
    figure = style.draw_panels(
        name,
        [[(kind, one.to_dicts()) for one in row] for row in rows for kind in kinds],
        draw,
        1.65,
        ylabels=["$p_X$ (square-root scale)", "final score"],
        options={"height_ratios": [2.1, 1.2] * len(rows)},
        keys=style.keys(distinct(points, "setting"), marker="s"),
        notes=_silent_note(points, runs),
    )
    figure.draw_without_rendering()  # letters are placed in the final layout
    for axes, panel in planes:
        late = [(one["variant"], one["late_rmed_X"], one["late_p_X"]) for one in panel]
        letters = [(*style.look(name)[:2], x, y) for name, x, y in late]
        early = [(one["early_rmed_X"], one["early_p_X"]) for one in panel]
        style.write_letters(axes, letters, style.SMALL - 1, early)
    caption = " ".join(_sentences(points))
    names = {
        "early_p_X": "p_X, first 10%",
        "late_p_X": "p_X, last 10%",
        "early_rmed_X": "rmed_X, first 10%",
        "late_rmed_X": "rmed_X, last 10%",
        "mean": "mean score",
    }
    return Plot(figure, caption, points.drop("scores", "setting", "hollow").rename(names))


def _points(runs: pl.DataFrame) -> pl.DataFrame:
    """Returns where each variant was at the start and at the end of training on each game.

    Means over seeds of rmed_X and p_X; without variants of which no episode that explored
    has ended in the last 10%. By mode, and by letter.
    """
    cell = ["mode", "game", "setting", "variant"]
    ends = ["early_p_X", "late_p_X", "early_rmed_X", "late_rmed_X"]
    points = (
        runs.group_by(cell, maintain_order=True)
        .agg(
            pl.mean(*ends),
            mean=pl.mean("score"),
            scores=pl.col("score").drop_nulls(),
            hollow=~most_learned().fill_null(True),
        )
        .drop_nulls("late_rmed_X")
    )
    begun = pl.col("early_rmed_X").is_not_null()  # else it did not explore so early
    early = {
        f"early_{name}": pl.when(begun).then(f"early_{name}").otherwise(f"late_{name}")
        for name in ("rmed_X", "p_X")
    }
    letters = [style.look(name).letter for name in points["variant"]]
    points = points.with_columns(**early, letter=pl.Series(letters, dtype=pl.String()))
    points = points.sort(pl.col("letter").str.len_chars(), "letter")
    return arrange(points, mode=[*MODES], game=distinct(runs, "game"))


def _rows(points: pl.DataFrame) -> list[Sequence[pl.DataFrame]]:
    """Returns the points of each panel: modes begin new rows, of at most four games."""
    if points["game"].n_unique() == 1:  # one game: the modes side by side
        return [groups(points, "mode")]
    modes = [groups(own, "game") for own in groups(points, "mode")]
    return [row for panels in modes for row in style.in_rows(panels, _COLUMNS)]


def _silent_note(points: pl.DataFrame, runs: pl.DataFrame) -> list[str]:
    """Names the variants that a panel lacks, because none of their episodes that ended in
    the last 10% of training explored; or because none ended then."""
    played = runs.filter(pl.col("episodes") > 0)
    absent = []
    for own in groups(played.join(points, on=["variant", "game"], how="anti"), "variant"):
        name, games = own["variant"][0], distinct(own, "game")
        everywhere = len(games) == played.filter(variant=name)["game"].n_unique()
        absent.append(name if everywhere else f"{name} on {style.listed_games(games)}")
    why = "Not drawn, as no episode that explored ended in the last 10% of training"
    return [f"{why}: {style.some(absent, 8)}."] if absent else []


def _draw_points(axes: Axes, points: Sequence[Mapping[str, Any]]) -> None:
    """Draws squares and crosses; both axes give room to small values."""
    for point in points:
        colour = style.look(point["variant"]).colour
        x0, y0 = point["early_rmed_X"], point["early_p_X"]
        x, y = point["late_rmed_X"], point["late_p_X"]
        axes.plot([x0, x], [y0, y], "-", color=colour, lw=1.0, alpha=0.7)
        axes.plot(x0, y0, "s", color=colour, ms=4.5, mfc="white", mew=1.2)
        axes.plot(x, y, "x", color=colour, ms=5.5, mew=1.8)
    style.use_log_axis(axes)
    root = (lambda p: np.sign(p) * np.abs(p) ** 0.5), (lambda r: np.sign(r) * r**2)
    axes.set_yscale("function", functions=root)
    axes.set_yticks(_TICKS, [f"{tick:g}" for tick in _TICKS])
    axes.set_ylim(-0.003, 1.12)
    axes.set_xlabel("rmed$_X$, share of the episode")


def _draw_scores(axes: Axes, points: Sequence[Mapping[str, Any]]) -> None:
    """Draws the final scores of each variant over its letter."""
    for x, point in enumerate(points):
        if point["scores"]:
            seeds = point["scores"], point["variant"]
            style.draw_seeds(axes, x, *seeds, hollow=point["hollow"])
    axes.set_xticks(range(len(points)), [point["letter"] for point in points])
    axes.set_xlim(-0.6, len(points) - 0.4)
    style.show_zero(axes)


def _sentences(points: pl.DataFrame) -> list[str]:
    """Says how far the crosses span, and how often p_X fell while bandits adapted."""
    variants = known(distinct(points, "variant"))
    adaptive = [name for name, variant in variants.items() if variant.bandits()]
    sentences = []
    for mode in distinct(points, "mode"):
        own = points.filter(mode=mode)
        adapted = own.filter(pl.col("variant").is_in(adaptive))
        fell = adapted.filter(pl.col("late_p_X") < pl.col("early_p_X") - 0.02)
        low, high = (f"{end:.2f}" for end in (own["late_p_X"].min(), own["late_p_X"].max()))
        said = f"{mode}: at the end p_X {f'spans {low} to' if low != high else 'is'} {high}"
        if len(adapted):
            cases = f"{len(fell)} of {plural(len(adapted), 'case')}"
            said += f"; it fell by more than 0.02 in {cases} with a bandit"
        sentences.append(f"{said}.")
    return sentences

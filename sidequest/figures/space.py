"""Characteristic space: how much and in what portions variants explored, and what they
scored (figure 4; figure 11 for all games and variants)."""

import string
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from sidequest.figures import style
from sidequest.figures.data import Plot, Records, count, distinct, gap_notes, groups, some
from sidequest.figures.pairs import known, modes_in

_MAIN_GAMES = _COLUMNS = 4
_MAIN_VARIANTS = 8
_HOW_TO_READ = (
    "Square: mean over the first 10% of training; cross: over the last 10%; the line joins "
    "them. Letters stand at the cross. Below, final scores: mean of the seeds, and a bar "
    "from the worst to the best."
)


def explore_space(records: Records) -> Plot | None:
    """Plots the main variants, on at most four games (figure 4).

    These are intra-episodic variants and the episodic baseline: at most eight settings,
    adaptive ones first, as those are the ones that move.
    """
    runs = records.runs.filter("usual")
    runs = runs.filter(pl.col("game").is_in(distinct(runs, "game")[:_MAIN_GAMES]))
    variants = known(distinct(runs, "variant"))
    shown = [n for n, v in variants.items() if v.granularity in ("intra", "episode")]
    shown.sort(key=lambda name: not variants[name].bandits())
    settings = list(dict.fromkeys(name.partition("-")[2] for name in shown))
    return _plot(records, runs.filter(pl.col("setting").is_in(settings[:_MAIN_VARIANTS])))


def explore_space_all(records: Records) -> Plot | None:
    """Plots all games and all variants (figure 11)."""
    return _plot(records, records.runs.filter("usual"))


@style.styled
def _plot(records: Records, runs: pl.DataFrame) -> Plot | None:
    runs = runs.drop_nulls("mode")
    points = _points(runs)
    if points.is_empty():
        return None
    settings = distinct(points, "setting")
    alphabet = [*string.ascii_uppercase]
    alphabet += [a + b for a in alphabet for b in alphabet]
    looks = {
        setting: (alphabet[i], style.LINES[i % len(style.LINES)][0])
        for i, setting in enumerate(settings)
    }
    keys = []
    for setting, (letter, colour) in looks.items():
        label = style.plain(f"{letter}  {setting}")
        keys.append(Line2D([], [], color=colour, marker="s", ms=4, label=label))
    gaps = gap_notes(records, runs)
    notes = [_HOW_TO_READ, *_silent_note(points, runs), *gaps]
    rows = _rows(points)
    title = "How much, and in what portions, agents explored, and what they scored"
    figure = style.compose(3.3 * len(rows), title=title, keys=keys, notes=notes)
    twice, heights = [row for row in rows for _ in "ab"], [2.1, 1.2] * len(rows)
    grid = style.add_panels(figure, twice, height_ratios=heights)
    least = points.select(pl.min_horizontal("early_rmed_X", "late_rmed_X").min()).item()
    for upper, lower, row in zip(grid[::2], grid[1::2], rows, strict=True):
        for above, below, panel in zip(upper, lower, row, strict=True):
            own = panel.to_dicts()
            _draw_points(above, own, looks)
            above.set_xlim(max(least, 1e-5) / 2, 2.0)  # the same everywhere
            above.set_title(style.plain(f"{own[0]['mode']}  {own[0]['game']}"))
            own.sort(key=lambda point: settings.index(point["setting"]))
            _draw_scores(below, own, looks)
        upper[0].set_ylabel("$p_X$, share of explore steps")
        lower[0].set_ylabel("final score")
    return Plot(figure, " ".join([*_sentences(points), *gaps]), points)


def _points(runs: pl.DataFrame) -> pl.DataFrame:
    """Returns where each variant was at the start and at the end of training on each game.

    Means over seeds of rmed_X and p_X; without variants that never explored, or of which no
    episode has ended.
    """
    ends = ["early_rmed_X", "early_p_X", "late_rmed_X", "late_p_X"]
    score = pl.col("score")
    points = (
        runs.group_by("mode", "game", "setting", maintain_order=True)
        .agg(pl.mean(*ends), score.mean(), low=score.min(), high=score.max())
        .drop_nulls(["late_rmed_X", "late_p_X"])
    )
    begun = pl.col("early_rmed_X").is_not_null() & pl.col("early_p_X").is_not_null()
    early = [
        pl.when(begun)
        .then(f"early_{name}")
        .otherwise(f"late_{name}")
        .alias(f"early_{name}")
        for name in ("rmed_X", "p_X")
    ]
    points = points.with_columns(early)
    modes = modes_in(distinct(runs, "variant"))
    return pl.concat([points.clear(), *(points.filter(mode=mode) for mode in modes)])


def _rows(points: pl.DataFrame) -> list[Sequence[pl.DataFrame]]:
    """Returns the points of each panel: modes begin new rows, of at most four games."""
    if points["game"].n_unique() == 1:  # one game: the modes side by side
        return [groups(points, "mode")]
    modes = [groups(own, "game") for own in groups(points, "mode")]
    return [row for panels in modes for row in style.in_rows(panels, _COLUMNS)]


def _silent_note(points: pl.DataFrame, runs: pl.DataFrame) -> list[str]:
    """Names the variants that have no place, because they never explored."""
    played = runs.filter(pl.col("episodes") > 0)
    absent = distinct(played.join(points, on=["mode", "setting"], how="anti"), "variant")
    return [f"No explore periods, so no place: {some(absent)}."] if absent else []


def _draw_points(
    axes: Axes, points: Sequence[Mapping[str, Any]], looks: Mapping[str, tuple[str, str]]
) -> None:
    """Draws squares and crosses over a logarithmic axis of rmed_X."""
    labels = []
    for point in points:
        letter, colour = looks[point["setting"]]
        x0, y0 = point["early_rmed_X"], point["early_p_X"]
        x, y = point["late_rmed_X"], point["late_p_X"]
        axes.plot([x0, x], [y0, y], "-", color=colour, lw=1.0, alpha=0.7)
        axes.plot(x0, y0, "s", color=colour, ms=4.5, mfc="white", mew=1.2)
        axes.plot(x, y, "x", color=colour, ms=5.5, mew=1.8)
        labels.append((letter, x, y))
    style.use_log_axis(axes)
    style.label_points(axes, labels, offset=(4, 3), size=style.SMALL)
    axes.set_ylim(-0.04, 1.08)
    axes.set_xlabel("rmed$_X$, share of the episode")


def _draw_scores(
    axes: Axes, points: Sequence[Mapping[str, Any]], looks: Mapping[str, tuple[str, str]]
) -> None:
    """Draws final scores: the mean, and a bar from the worst to the best seed."""
    for x, point in enumerate(points):
        if point["score"] is not None:
            _, colour = looks[point["setting"]]
            axes.vlines(x, point["low"], point["high"], colors=colour, lw=2.2)
            axes.plot(x, point["score"], "o", color=colour, ms=4)
    letters = [looks[point["setting"]][0] for point in points]
    axes.set_xticks(range(len(points)), letters)
    axes.set_xlim(-0.6, len(points) - 0.4)
    axes.margins(y=0.12)


def _sentences(points: pl.DataFrame) -> list[str]:
    """Says how far the crosses span, and how often p_X fell while bandits adapted."""
    names = points.select(pl.concat_str("mode", "setting", separator="-")).to_series()
    adaptive = [bool(known([name])[name].bandits()) for name in names]
    points = points.with_columns(adaptive=pl.Series(adaptive, dtype=pl.Boolean))
    sentences = []
    for mode in distinct(points, "mode"):
        own = points.filter(mode=mode)
        adapted = own.filter("adaptive")
        fell = adapted.filter(pl.col("late_p_X") < pl.col("early_p_X") - 0.02)
        p, rmed = own["late_p_X"].to_numpy(), own["late_rmed_X"].to_numpy()
        sentences.append(
            f"{mode}: at the end p_X spans {p.min():.2f} to {p.max():.2f} and rmed_X "
            f"{rmed.min():.2g} to {rmed.max():.2g}; p_X fell by more than 0.02 in "
            f"{len(fell)} of {count(len(adapted), 'place')} where a bandit adapts it."
        )
    return sentences

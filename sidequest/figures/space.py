"""Characteristic space: how much and in what portions variants explored, and what they
scored (figure 4; figure 11 for all games and variants)."""

import string
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sidequest.figures import style as look
from sidequest.figures.claims.cells import final_score
from sidequest.figures.claims.measures import early_and_late
from sidequest.figures.notes import count, gap_notes, some
from sidequest.figures.pairs import known, modes_in, setting_of
from sidequest.figures.reading import (
    Records,
    Run,
    column,
    games_of,
    plain_runs,
    variants_of,
)

MAIN_GAMES = COLUMNS = 4
MAIN_VARIANTS = 8
HOW_TO_READ = (
    "Square: mean over the first 10% of training; cross: over the last 10%; the line joins "
    "them. Letters stand at the cross. Below, final scores: mean of the seeds, and a bar "
    "from the least to the greatest."
)
NEEDS = (
    "Nothing to draw yet: this needs training episodes (table `episodes`) of variants that "
    "explore for part of an episode."
)


class Point(NamedTuple):
    """Where a variant was at the start and at the end of training on one game."""

    setting: str
    early: tuple[float, float]
    """(rmed_X, p_X), means over seeds."""
    late: tuple[float, float]
    scores: list[float]
    """Final performance of each seed that was evaluated."""


def place(runs: Sequence[Run]) -> Point | None:
    """None for a variant that never explored, or of which no episode has ended."""
    rmed = np.array([early_and_late(run, "rmed_X") for run in runs])
    share = np.array([early_and_late(run, "p_X") for run in runs])
    ends = [
        (_mean(rmed[:, phase]), _mean(share[:, phase]))
        for phase in (0, 1)  # first and last 10%
    ]
    if not np.isfinite(ends[1]).all():
        return None
    early = ends[0] if np.isfinite(ends[0]).all() else ends[1]
    scores = [score for run in runs if np.isfinite(score := final_score(run))]
    return Point(setting_of(runs[0].variant), early, ends[1], scores)


def _mean(values: np.ndarray) -> float:
    good = values[np.isfinite(values)]
    return float(good.mean()) if len(good) else float("nan")


def pick_main(names: Sequence[str]) -> list[str]:
    """Figure 4: intra-episodic variants and the episodic baseline.

    At most eight settings, adaptive ones first: those are the ones that move.
    """
    variants = known(names)
    shown = [n for n, v in variants.items() if v.granularity in ("intra", "episode")]
    shown.sort(key=lambda name: not variants[name].bandits())
    settings = list(dict.fromkeys(map(setting_of, shown)))[:MAIN_VARIANTS]
    return [name for name in names if setting_of(name) in settings]


def points_of(
    runs: Sequence[Run], names: Iterable[str]
) -> dict[tuple[str, str], list[Point]]:
    """Points by (mode, game), for those that have any."""
    points: dict[tuple[str, str], list[Point]] = {}
    variants = known(names)
    for mode in modes_in(variants):
        for game in games_of(runs):
            for name in variants:
                own = [run for run in runs if (run.variant, run.game) == (name, game)]
                if variants[name].mode == mode and own and (point := place(own)):
                    points.setdefault((mode, game), []).append(point)
    return points


def letters_of(points: Mapping[tuple[str, str], Sequence[Point]]) -> dict[str, str]:
    """A letter for each setting, the same for all explore modes."""
    settings = dict.fromkeys(point.setting for own in points.values() for point in own)
    alphabet = [
        *string.ascii_uppercase,
        *(a + b for a in string.ascii_uppercase for b in string.ascii_uppercase),
    ]
    return dict(zip(settings, alphabet, strict=False))


def draw_space(records: Records) -> Figure | None:
    """Figure 4: the main variants, on at most four games."""
    runs = plain_runs(records)
    games = games_of(runs)[:MAIN_GAMES]
    shown = [run for run in runs if run.game in games]
    names = pick_main(variants_of(shown))
    return _draw(records, [run for run in shown if run.variant in names], names)


def draw_whole_space(records: Records) -> Figure | None:
    """Figure 11: all games and all variants."""
    runs = plain_runs(records)
    return _draw(records, runs, variants_of(runs))


def _draw(records: Records, runs: Sequence[Run], names: Sequence[str]) -> Figure | None:
    points = points_of(runs, names)
    if not points:
        return None
    letters = letters_of(points)
    colours = {key: look.LINES[i % len(look.LINES)][0] for i, key in enumerate(letters)}
    rows = _rows(points)
    columns = max(len(row) for row in rows)
    keys = [
        Line2D(
            [],
            [],
            color=colours[key],
            marker="s",
            ms=4,
            label=look.plain(f"{letter}  {key}"),
        )
        for key, letter in letters.items()
    ]
    drawn = [run for run in runs if (known([run.variant]) and run.variant in names)]
    notes = [HOW_TO_READ, *_silent(points, runs), *gap_notes(records, drawn)]
    title = "How much, and in what portions, agents explored, and what they scored"
    figure = look.compose(3.3 * len(rows), title=title, keys=keys, notes=notes)
    places = [place for own in points.values() for p in own for place in (p.early, p.late)]
    limits = max(min(x for x, _ in places), 1e-5) / 2, 2.0  # the same everywhere
    heights = [2.1, 1.2] * len(rows)
    grid = figure.subplots(2 * len(rows), columns, squeeze=False, height_ratios=heights)
    for number, row in enumerate(rows):
        upper, lower = grid[2 * number], grid[2 * number + 1]
        for above, below, (mode, game) in zip(upper, lower, row, strict=False):
            draw_points(above, points[mode, game], letters, colours)
            above.set_xlim(limits)
            draw_scores(below, points[mode, game], letters, colours)
            above.set_title(look.plain(f"{mode}  {game}"), fontsize=look.MEDIUM)
        for axes in (*upper[len(row) :], *lower[len(row) :]):
            axes.set_visible(False)
        upper[0].set_ylabel("$p_X$, share of explore steps", fontsize=look.SMALL)
        lower[0].set_ylabel("final score", fontsize=look.SMALL)
    return figure


def _rows(points: Iterable[tuple[str, str]]) -> list[list[tuple[str, str]]]:
    """Modes begin new rows; a row has at most four games."""
    rows = []
    places = list(points)
    if len({game for _, game in places}) == 1:  # one game: the modes side by side
        return [places]
    for mode in dict.fromkeys(mode for mode, _ in places):
        own = [one for one in places if one[0] == mode]
        rows += [own[i : i + COLUMNS] for i in range(0, len(own), COLUMNS)]
    return rows


def _silent(
    points: Mapping[tuple[str, str], list[Point]], runs: Sequence[Run]
) -> list[str]:
    """Names the variants that have no place, because they never explored."""
    shown = {(mode, p.setting) for (mode, _), own in points.items() for p in own}
    played = [run for run in runs if len(column(run, "episodes", "p_X")[0])]
    variants = known(variants_of(played))
    absent = [n for n, v in variants.items() if (v.mode, setting_of(n)) not in shown]
    return [f"No explore periods, so no place: {some(absent)}."] if absent else []


def draw_points(
    axes: Axes,
    points: Sequence[Point],
    letters: Mapping[str, str],
    colours: Mapping[str, str],
) -> None:
    """Squares and crosses over a logarithmic axis of rmed_X."""
    for point in points:
        colour = colours[point.setting]
        (x0, y0), (x1, y1) = point.early, point.late
        axes.plot([x0, x1], [y0, y1], "-", color=colour, lw=1.0, alpha=0.7)
        axes.plot(x0, y0, "s", color=colour, ms=4.5, mfc="white", mew=1.2)
        axes.plot(x1, y1, "x", color=colour, ms=5.5, mew=1.8)
    for (x, y), text in _merge(points, letters).items():
        axes.annotate(
            text,
            (x, y),
            (4, 3),
            textcoords="offset points",
            size=look.SMALL,
            weight="bold",
            color=look.INK,
        )
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.minorticks_off()
    axes.set_ylim(-0.04, 1.08)
    axes.set_xlabel("rmed$_X$, share of the episode", fontsize=look.SMALL)
    look.tidy(axes)


def _merge(
    points: Sequence[Point], letters: Mapping[str, str]
) -> dict[tuple[float, float], str]:
    """One label a place: crosses that lie on top of each other share it."""
    labels: dict[tuple[float, float], str] = {}
    for point in points:
        x, y = point.late
        near = [
            at for at in labels if abs(np.log10(at[0] / x)) < 0.12 and abs(at[1] - y) < 0.06
        ]
        letter = letters[point.setting]
        if near:
            labels[near[0]] += f",{letter}" if labels[near[0]].count(",") < 5 else "…"
        else:
            labels[x, y] = letter
    return labels


def draw_scores(
    axes: Axes,
    points: Sequence[Point],
    letters: Mapping[str, str],
    colours: Mapping[str, str],
) -> None:
    """Final scores in the order of the letters; a bar from the least to the greatest."""
    order = sorted(points, key=lambda point: list(letters).index(point.setting))
    for x, point in enumerate(order):
        if point.scores:
            colour = colours[point.setting]
            axes.vlines(x, min(point.scores), max(point.scores), colors=colour, lw=2.2)
            axes.plot(x, np.mean(point.scores), "o", color=colour, ms=4)
    axes.set_xticks(range(len(order)), [letters[point.setting] for point in order])
    axes.set_xlim(-0.6, len(order) - 0.4)
    axes.margins(y=0.12)
    look.tidy(axes)


def space_shows(records: Records) -> str:
    """How far the crosses span, and how often p_X fell while bandits adapted."""
    runs = plain_runs(records)
    points = points_of(runs, variants_of(runs))
    if not points:
        return NEEDS
    sentences = []
    for mode in dict.fromkeys(mode for mode, _ in points):
        own = [p for (m, _), found in points.items() if m == mode for p in found]
        share = [point.late[1] for point in own]
        rmed = [point.late[0] for point in own]
        adaptive = [p for p in own if known([f"{mode}-{p.setting}"]) and _adapts(mode, p)]
        fell = sum(point.late[1] < point.early[1] - 0.02 for point in adaptive)
        sentences.append(
            f"{mode}: at the end p_X spans {min(share):.2f} to {max(share):.2f} and rmed_X "
            f"{min(rmed):.2g} to {max(rmed):.2g}; p_X fell by more than 0.02 in {fell} of "
            f"{count(len(adaptive), 'place')} where a bandit adapts it."
        )
    return " ".join([*sentences, *gap_notes(records, runs)])


def _adapts(mode: str, point: Point) -> bool:
    (variant,) = known([f"{mode}-{point.setting}"]).values()
    return bool(variant.bandits())

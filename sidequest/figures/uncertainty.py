"""How sure one can be: every final score, interquartile means with intervals, and the
probability of improvement. Beyond the paper, which shows ranges of three seeds."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sidequest.figures import style as look
from sidequest.figures.aggregate import final_strata, scale_for
from sidequest.figures.claims.cells import final_score
from sidequest.figures.granularity import evaluated_runs
from sidequest.figures.notes import count, gap_notes, some
from sidequest.figures.pairs import MODES, known, modes_in, representatives
from sidequest.figures.reading import (
    Records,
    Run,
    games_of,
    runs_of,
    variants_of,
)
from sidequest.figures.statistics import (
    Interval,
    Scale,
    Strata,
    bootstrap,
    improvement,
    iqm_of_runs,
)

ROW = 0.175  # inches, of a variant's line
MOST_GAMES = 5
MODE_STYLES: dict[str, tuple[str, str]] = dict(zip(MODES, look.LINES, strict=False))
OTHER = ("#777777", "o")
NEEDS = "Nothing to draw yet: no run has been evaluated."
NEEDS_PAIR = (
    "Nothing to draw yet: this needs an intra-episodic variant and another variant of the "
    "same explore mode on the same games."
)


class Scores(NamedTuple):
    """Normalised final scores of the variants that have every game."""

    scale: Scale
    games: list[str]
    strata: Mapping[str, Strata]
    left_out: list[str]
    """Variants that lack one of the games: their average would be over other games."""
    other_games: list[str]
    """Games that some of the variants lack."""


def normalised_scores(runs: Sequence[Run]) -> Scores | None:
    """Variants on the games that most of them have, all on one scale."""
    names, every = variants_of(runs), games_of(runs)
    if not names:
        return None
    has = {name: {run.game for run in runs if run.variant == name} for name in names}
    common = max((frozenset(own) for own in has.values()), key=lambda own: _votes(own, has))
    games = [game for game in every if game in common]
    chosen = [name for name in names if common <= has[name]]
    scale = scale_for(runs, games)
    strata = {
        name: final_strata([run for run in runs if run.variant == name], games, scale)
        for name in chosen
    }
    left_out = [name for name in names if name not in chosen]
    return Scores(
        scale, games, strata, left_out, [one for one in every if one not in games]
    )


def _votes(games: frozenset[str], has: Mapping[str, set[str]]) -> tuple[int, int]:
    """How many variants have all of these games, weighed by how many games these are."""
    return sum(games <= own for own in has.values()) * len(games), len(games)


def style_of(name: str) -> tuple[str, str]:
    """Colour and marker of a variant's explore mode."""
    variant = known([name]).get(name)
    return MODE_STYLES.get(variant.mode, OTHER) if variant else OTHER


def mode_keys(names: Sequence[str]) -> list[Line2D]:
    return [
        Line2D(
            [],
            [],
            color=MODE_STYLES[mode][0],
            marker=MODE_STYLES[mode][1],
            ls="",
            label=mode,
        )
        for mode in modes_in(names)
    ]


def by_mode(names: Sequence[str]) -> list[str]:
    """Variants of one explore mode together, else in their order."""
    variants = known(names)
    modes = {name: MODES.index(variants[name].mode) for name in variants}
    return sorted(names, key=lambda name: modes.get(name, len(MODES)))


def draw_interval(axes: Axes, y: float, interval: Interval, style: tuple[str, str]) -> None:
    colour, marker = style
    if np.isfinite(interval.low):
        axes.hlines(y, interval.low, interval.high, colors=colour, lw=2.2, alpha=0.55)
    axes.plot(interval.value, y, marker, color=colour, ms=4.5)


def label_rows(axes: Axes, names: Sequence[str]) -> None:
    """First name at the top."""
    axes.set_yticks(range(len(names)), [look.plain(name) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(axis="y", color="#eeeeee", lw=0.6)
    axes.set_axisbelow(True)
    look.tidy(axes)


def draw_scores(records: Records) -> Figure | None:
    """A row for each variant, a panel for each game: seeds' mean and range, raw."""
    runs = evaluated_runs(records)
    if not runs:
        return None
    names, games = by_mode(variants_of(runs)), games_of(runs)[:MOST_GAMES]
    rest = games_of(runs)[MOST_GAMES:]
    notes = [
        "Raw returns over the last 10% of training: mean of the seeds, bar from the "
        "least to the greatest.",
        *([f"Not drawn: {some(rest, 8)}."] if rest else []),
        *gap_notes(records, runs),
    ]
    height = 0.6 + ROW * len(names)
    title = "Final scores of every variant"
    figure = look.compose(height, title=title, keys=mode_keys(names), notes=notes)
    grid = figure.subplots(1, len(games), squeeze=False, sharey=True)[0]
    for axes, game in zip(grid, games, strict=True):
        for y, name in enumerate(names):
            scores = [final_score(run) for run in runs_of(runs, name, game)]
            if scores:
                span = Interval(min(scores), float(np.mean(scores)), max(scores))
                draw_interval(axes, y, span, style_of(name))
        axes.set_title(look.plain(game), fontsize=look.SMALL)
        axes.set_xlabel("return", fontsize=look.SMALL)
        label_rows(axes, names)
    return figure


def scores_show(records: Records) -> str:
    """The highest and the lowest mean, game by game."""
    runs = evaluated_runs(records)
    if not runs:
        return NEEDS
    sentences = [f"{count(len(variants_of(runs)), 'variant')}, {count(len(runs), 'run')}."]
    for game in games_of(runs):
        means = {
            name: float(np.mean([final_score(run) for run in own]))
            for name in variants_of(runs)
            if (own := runs_of(runs, name, game))
        }
        best, worst = max(means, key=lambda n: means[n]), min(means, key=lambda n: means[n])
        sentences.append(
            f"{game}: from {means[worst]:.3g} ({worst}) to {means[best]:.3g} ({best})."
        )
    return " ".join([*sentences, *gap_notes(records, runs)])


def iqm_intervals(scores: Scores) -> dict[str, Interval]:
    """Best first."""
    found = {
        name: bootstrap(np.random.default_rng(0), iqm_of_runs, strata)
        for name, strata in scores.strata.items()
    }
    return dict(sorted(found.items(), key=lambda item: -item[1].value))


def draw_iqm(records: Records) -> Figure | None:
    """Interquartile mean of each variant over all games and seeds, best first."""
    runs = evaluated_runs(records)
    scores = normalised_scores(runs)
    if scores is None:
        return None
    intervals = iqm_intervals(scores)
    shown = [run for run in runs if run.variant in intervals and run.game in scores.games]
    notes = [
        f"Middle half of all runs of {some(scores.games, 7)}. Bars: 95% stratified "
        "bootstrap over seeds; with few seeds they are too short.",
        *_left_out(scores),
        *gap_notes(records, shown),
    ]
    names = list(intervals)
    height = 0.6 + ROW * len(names)
    figure = look.compose(
        height, title="Interquartile mean", keys=mode_keys(names), notes=notes
    )
    axes = figure.subplots()
    for y, name in enumerate(names):
        draw_interval(axes, y, intervals[name], style_of(name))
    axes.set_xlabel(look.plain(scores.scale.label), fontsize=look.SMALL)
    label_rows(axes, names)
    return figure


def iqm_shows(records: Records) -> str:
    """The best, the worst, and how many cannot be told from the best."""
    runs = evaluated_runs(records)
    scores = normalised_scores(runs)
    if scores is None:
        return NEEDS
    intervals = iqm_intervals(scores)
    names = list(intervals)
    best, worst = names[0], names[-1]
    reach = [n for n in names[1:] if intervals[n].high >= intervals[best].low]
    text = (
        f"Highest: {best}, {intervals[best].value:.2f}; lowest: {worst}, "
        f"{intervals[worst].value:.2f}, over {count(len(scores.games), 'game')}. The "
        f"intervals of {len(reach)} of {len(names) - 1} others reach that of the best. "
        f"Scale: {scores.scale.label}."
    )
    return " ".join([text, *_left_out(scores), *gap_notes(records, runs)])


def improvements(scores: Scores) -> dict[str, tuple[str, dict[str, Interval]]]:
    """For each mode its intra-episodic representative, and how often it beats others."""
    found = {}
    for mode in modes_in(scores.strata):
        chosen = representatives(scores.strata, mode).get("intra-episodic")
        others = [
            n for n, v in known(scores.strata).items() if v.mode == mode and n != chosen
        ]
        if chosen and others:
            intervals = {
                other: bootstrap(
                    np.random.default_rng(0),
                    improvement,
                    scores.strata[chosen],
                    scores.strata[other],
                )
                for other in others
            }
            found[mode] = (chosen, intervals)
    return found


def draw_improvement(records: Records) -> Figure | None:
    """A panel for each mode; right of the middle line the intra-episodic variant wins."""
    runs = evaluated_runs(records)
    scores = normalised_scores(runs)
    found = improvements(scores) if scores else {}
    if scores is None or not found:
        return None
    shown = [
        run for run in runs if run.variant in scores.strata and run.game in scores.games
    ]
    notes = [
        "Share of pairs of runs, one of each, in which the first scores more; ties count "
        f"half; averaged over {some(scores.games, 7)}. Bars: 95% stratified bootstrap; "
        "with few seeds they are too short.",
        *_left_out(scores),
        *gap_notes(records, shown),
    ]
    heights = [0.55 + ROW * len(own) for _, own in found.values()]
    figure = look.compose(sum(heights), title="Probability of improvement", notes=notes)
    grid = figure.subplots(len(found), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, (mode, (chosen, own)) in zip(grid, found.items(), strict=True):
        for y, interval in enumerate(own.values()):
            draw_interval(axes, y, interval, MODE_STYLES[mode])
        axes.axvline(0.5, color=look.GREY, lw=0.8, ls=(0, (4, 3)), zorder=0)
        axes.set_xlim(-0.03, 1.03)
        axes.set_title(look.plain(f"{chosen} beats …"), fontsize=look.SMALL, loc="left")
        label_rows(axes, list(own))
    grid[-1].set_xlabel("probability", fontsize=look.SMALL)
    return figure


def improvement_shows(records: Records) -> str:
    """Against how many others the interval lies above, or below, one half."""
    runs = evaluated_runs(records)
    scores = normalised_scores(runs)
    found = improvements(scores) if scores else {}
    if scores is None or not found:
        return NEEDS_PAIR
    sentences = []
    for chosen, own in found.values():
        above = [name for name, interval in own.items() if interval.low > 0.5]
        below = [name for name, interval in own.items() if interval.high < 0.5]
        sentences.append(
            f"{chosen} against {count(len(own), 'other')}: the interval is above one half "
            f"for {len(above)} ({some(above) or 'none'}), below it for {len(below)} "
            f"({some(below) or 'none'})."
        )
    return " ".join([*sentences, *_left_out(scores), *gap_notes(records, runs)])


def _left_out(scores: Scores) -> list[str]:
    notes = []
    if scores.other_games:
        notes.append(f"Some variants lack {some(scores.other_games)}: left out.")
    if scores.left_out:
        notes.append(f"Left out, as they lack a game: {some(scores.left_out)}.")
    return notes

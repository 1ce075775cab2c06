"""The four granularities over all games: mean and median (figure 3).

Where a human's scores are known for all of them, the human-capped mean too (appendix,
"Training and evaluation protocols").
"""

from collections.abc import Callable, Mapping, Sequence
from textwrap import wrap
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sidequest.figures import style as look
from sidequest.figures.claims.cells import final_score
from sidequest.figures.claims.verdicts import listed
from sidequest.figures.curves import GRANULARITY_STYLES, read_curves, style_keys
from sidequest.figures.granularity import (
    NEEDS,
    all_lines,
    evaluated_runs,
    flat,
    legend_names,
    missing_notes,
)
from sidequest.figures.notes import count, some
from sidequest.figures.reading import Records, Run, games_of, on_game
from sidequest.figures.statistics import (
    Batch,
    Scale,
    band,
    capped_mean_over_games,
    choose_scale,
    mean_over_games,
    median_over_games,
)

GRID = np.linspace(0.0, 1.0, 41)[1:]  # shares of the budget at which games are averaged
RESAMPLES = 400
STATISTICS = {"mean": mean_over_games, "median": median_over_games}
CAPPED = "human-capped mean"
COLUMNS = 4


class Aggregate(NamedTuple):
    """One line of figure 3: scores of each game's seeds along the budget."""

    shares: Float[np.ndarray, "T"]
    strata: list[Float[np.ndarray, "T N"]]
    finals: list[Float[np.ndarray, "N"]]
    """Over the last 10% of training."""


def shared_games(lines: Mapping[str, Sequence[Run]]) -> list[str]:
    """Games that every line has: an average over other games would be another quantity."""
    first, *rest = (games_of(runs) for runs in lines.values())
    return [game for game in first if all(game in games for games in rest)]


def scale_for(runs: Sequence[Run], games: Sequence[str]) -> Scale:
    """From all runs of these games, so that figures of one study share a scale."""
    return choose_scale(
        {
            game: np.array([final_score(run) for run in on_game(runs, game)])
            for game in games
        }
    )


def final_strata(
    runs: Sequence[Run], games: Sequence[str], scale: Scale
) -> list[Float[np.ndarray, "N"]]:
    """Final scores of each game's runs, on a scale."""
    return [
        scale.apply(game, np.array([final_score(run) for run in on_game(runs, game)]))
        for game in games
    ]


def statistics_on(scale: Scale) -> dict[str, Callable[..., Batch]]:
    """By name. Only where 1 is a human's score is there something to cap at."""
    if scale.kind != "human":
        return STATISTICS
    return STATISTICS | {CAPPED: capped_mean_over_games}


def aggregate(runs: Sequence[Run], games: Sequence[str], scale: Scale) -> Aggregate:
    """Scores along the budget, as far as every run has been evaluated."""
    curves = read_curves(runs)
    shares = {
        id(curve): curve.frames / max(curve.run.frames, curve.frames[-1])
        for curve in curves
    }
    start = max(own[0] for own in shares.values())
    end = min(own[-1] for own in shares.values())
    grid = GRID[(GRID >= start - 1e-9) & (GRID <= end + 1e-9)]
    grid = grid if len(grid) else np.array([end])
    strata = [
        scale.apply(
            game,
            np.stack(
                [
                    np.interp(grid, shares[id(curve)], curve.returns)
                    for curve in curves
                    if curve.run.game == game
                ],
                axis=-1,
            ),
        )
        for game in games
    ]
    return Aggregate(grid, strata, final_strata(runs, games, scale))


class Aggregates(NamedTuple):
    """Figure 3: the lines of each explore mode, on one scale."""

    scale: Scale
    games: dict[str, list[str]]
    """What each mode's lines are averaged over."""
    lines: dict[str, dict[str, Aggregate]]


def aggregates(records: Records) -> Aggregates | None:
    """Modes are panels of their own, so each has the games that all its lines have."""
    lines = all_lines(records)
    games = {mode: shared_games(own) for mode, own in lines.items()}
    games = {mode: own for mode, own in games.items() if own}
    if not games:
        return None
    union = list(dict.fromkeys(game for own in games.values() for game in own))
    scale = scale_for(evaluated_runs(records), union)
    found = {
        mode: {
            key: aggregate([run for run in runs if run.game in own], own, scale)
            for key, runs in lines[mode].items()
        }
        for mode, own in games.items()
    }
    return Aggregates(scale, games, found)


def draw_aggregate(records: Records) -> Figure | None:
    """Figure 3: a panel for each explore mode and statistic."""
    found = aggregates(records)
    if found is None:
        return None
    lines = {mode: own for mode, own in all_lines(records).items() if mode in found.games}
    statistics = statistics_on(found.scale)
    capped = "Human-capped: a run's score on a game counts as 1 at most."
    notes = [
        "Bands: 95% bootstrap over seeds.",
        *([capped] if CAPPED in statistics else []),
        *game_notes(lines, found.games),
        *missing_notes(records, lines),
    ]
    pairs = [(mode, name) for mode in found.lines for name in statistics]
    columns = min(COLUMNS - COLUMNS % len(statistics), len(pairs))  # modes stay together
    figure = look.compose(
        2.5 * -(-len(pairs) // columns),
        title=f"{listed(statistics).capitalize()} over games",
        keys=style_keys(GRANULARITY_STYLES, legend_names(lines)),
        notes=notes,
    )
    grid = figure.subplots(-(-len(pairs) // columns), columns, squeeze=False)
    for axes, (mode, name) in zip(grid.flat, pairs, strict=False):
        draw_aggregate_panel(axes, found.lines[mode], statistics[name])
        axes.set_title(f"{mode}  {name}", fontsize=look.MEDIUM)
    for axes in grid.flat[len(pairs) :]:
        axes.set_visible(False)
    for row in grid:
        row[0].set_ylabel("\n".join(wrap(found.scale.label, 32)), fontsize=look.SMALL)
    return figure


def game_notes(
    lines: Mapping[str, Mapping[str, Sequence[Run]]], games: Mapping[str, list[str]]
) -> list[str]:
    """Over which games each mode is averaged, and which not all of its lines have."""
    notes = []
    for mode, own in games.items():
        rest = [game for game in games_of(flat({mode: lines[mode]})) if game not in own]
        lacking = f"; not every line has {some(rest)}" if rest else ""
        notes.append(f"{mode}: {count(len(own), 'game')}, {some(own, 7)}{lacking}.")
    return notes


def draw_aggregate_panel(
    axes: Axes, lines: Mapping[str, Aggregate], statistic: Callable[..., Batch]
) -> None:
    for granularity, line in lines.items():
        style, x = GRANULARITY_STYLES[granularity], 100 * line.shares
        low, high = band(
            np.random.default_rng(0), statistic, line.strata, resamples=RESAMPLES
        )
        axes.fill_between(x, low, high, color=style.colour, alpha=0.13, lw=0)
        axes.plot(
            x,
            statistic(line.strata),
            color=style.colour,
            lw=style.width,
            marker=style.marker,
            markersize=3.5,
            markevery=max(1, len(x) // 6),
            label=granularity,
        )
    axes.set_xlim(0, 102)
    axes.set_xlabel("% of the budget", fontsize=look.SMALL)
    look.tidy(axes)


def aggregate_shows(records: Records) -> str:
    """What the panels show, of the final scores; best first."""
    found = aggregates(records)
    if found is None:
        return NEEDS
    sentences = []
    for mode, lines in found.lines.items():
        told = []
        for name, statistic in statistics_on(found.scale).items():
            finals = {key: float(statistic(line.finals)) for key, line in lines.items()}
            ranked = sorted(finals, key=lambda key: -finals[key])
            told.append(
                f"{name} " + ", ".join(f"{key} {finals[key]:.2f}" for key in ranked)
            )
        games = count(len(found.games[mode]), "game")
        sentences.append(f"{mode}, last 10% of training, {games}: {'; '.join(told)}.")
    sentences.append(f"Scale: {found.scale.label}.")
    return " ".join([*sentences, *missing_notes(records, all_lines(records))])

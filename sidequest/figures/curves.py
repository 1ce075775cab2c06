"""Learning curves: the greedy evaluator's return over environment frames, game by game."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sidequest.figures.look import MEDIUM, SMALL, new_figure, tidy
from sidequest.runs.records import RUN_FILE, read_run, read_table

# Told apart by lightness and by the marker as well as by the hue (Okabe and Ito 2008).
LINES = (
    ("#0072b2", "o"),
    ("#d55e00", "s"),
    ("#009e73", "^"),
    ("#cc79a7", "D"),
    ("#56b4e9", "v"),
    ("#e69f00", "P"),
    ("#333333", "X"),
    ("#999933", "*"),
)


class Curve(NamedTuple):
    """One run: mean return of each evaluation."""

    variant: str
    game: str
    seed: int
    frames: Float[np.ndarray, "T"]
    returns: Float[np.ndarray, "T"]


def read_curves(folder: Path) -> list[Curve]:
    """The runs below a folder that have been evaluated at least once, finished or not."""
    curves = []
    for path in sorted(folder.rglob(RUN_FILE)):
        run, table = read_run(path.parent), read_table(path.parent, "evaluations")
        if not len(table):
            continue
        frames, returns = (table[name].to_numpy() for name in ("frames", "return"))
        points = np.unique(frames)
        means = np.array([returns[frames == point].mean() for point in points])
        curves.append(
            Curve(run["variant"], run["game"], run["seed"], points.astype(float), means)
        )
    return curves


def draw_curves(curves: Sequence[Curve]) -> Figure:
    """A panel a game, a line a variant: mean over seeds, band from least to greatest."""
    games = list(dict.fromkeys(curve.game for curve in curves))
    variants = list(dict.fromkeys(curve.variant for curve in curves))
    styles = {name: LINES[i % len(LINES)] for i, name in enumerate(variants)}
    columns = min(3, len(games))
    rows = -(-len(games) // columns)
    key_height = 0.16 * -(-len(variants) // 2) + 0.1
    height = 2.4 * rows + key_height
    figure = new_figure(max(3.4 * columns, 5.4), height)
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes, game in zip(grid.flat, games, strict=False):
        draw_game(axes, [curve for curve in curves if curve.game == game], styles)
    for axes in grid.flat[len(games) :]:
        axes.set_visible(False)
    handles = {}
    for axes in grid.flat[: len(games)]:
        handles |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    figure.legend(
        handles.values(),
        handles.keys(),
        loc="lower center",
        ncols=2,
        fontsize=SMALL,
        frameon=False,
    )
    figure.tight_layout(rect=(0, key_height / height, 1, 1))
    return figure


def draw_game(
    axes: Axes, curves: Sequence[Curve], styles: dict[str, tuple[str, str]]
) -> None:
    """One panel; seeds are drawn as thin lines, cut where the shortest of them ends."""
    for variant, (colour, marker) in styles.items():
        own = [curve for curve in curves if curve.variant == variant]
        if not own:
            continue
        length = min(len(curve.frames) for curve in own)
        frames = own[0].frames[:length] / 1e6
        returns = np.stack([curve.returns[:length] for curve in own])
        axes.fill_between(
            frames, returns.min(axis=0), returns.max(axis=0), color=colour, alpha=0.12, lw=0
        )
        for row in returns:
            axes.plot(frames, row, color=colour, lw=0.4, alpha=0.6)
        axes.plot(
            frames,
            returns.mean(axis=0),
            color=colour,
            lw=1.6,
            marker=marker,
            markersize=3.5,
            markevery=max(1, length // 8),
            label=f"{variant} ({len(own)} seeds)",
        )
    axes.set_title(curves[0].game, fontsize=MEDIUM)
    axes.set_xlabel("million frames", fontsize=SMALL)
    axes.set_ylabel("return of the greedy policy", fontsize=SMALL)
    tidy(axes)

"""Counting steps against drawing a coin: two ways to switch blindly (figures 7 and 13)."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure

from sidequest.figures import style as look
from sidequest.figures.curves import draw_panel, some_styles, style_keys
from sidequest.figures.notes import gap_notes, some
from sidequest.figures.pairs import Pair, counter_and_coin
from sidequest.figures.reading import (
    Records,
    Run,
    column,
    games_of,
    on_game,
    plain_runs,
    runs_of,
    variants_of,
)

MOST_POINTS = 1_000  # of a panel; drawn at random
MOST_ROWS = 8
KINDS = ("step count", "coin")
NEEDS = (
    "Nothing to draw yet: this needs training episodes of two blind variants that switch "
    "as often, one by counting and one by a coin, such as XU-intra(10,blind,n*,X) and "
    "XU-intra(10,blind,p*,X)."
)


class Cloud(NamedTuple):
    """Episodes as points; those that never explored have no period and are counted."""

    time: Float[np.ndarray, "N"]
    """When an episode ended, as a share of the budget."""
    rmed: Float[np.ndarray, "N"]
    p: Float[np.ndarray, "N"]
    spread: float
    """Standard deviation of p_X over all episodes, with those that never explored."""
    silent: int


def read_cloud(runs: Sequence[Run]) -> Cloud | None:
    """Training episodes of all seeds."""
    parts = []
    for run in runs:
        frames, rmed, p = column(run, "episodes", "frames", "rmed_X", "p_X")
        parts.append(np.stack([frames / max(1, run.frames), rmed, p]))
    time, rmed, p = np.concatenate(parts, axis=1) if parts else np.zeros((3, 0))
    known = np.isfinite(p)
    if not known.any():
        return None
    explored = known & np.isfinite(rmed) & (rmed > 0)
    return Cloud(
        time[explored],
        rmed[explored],
        p[explored],
        float(p[known].std()),
        int((known & ~explored).sum()),
    )


def cloud_pairs(runs: Sequence[Run]) -> list[tuple[str, Pair]]:
    """(game, pair) where both have episodes: for each game one pair for each mode."""
    found = []
    for game in games_of(runs):
        own = [run for run in on_game(runs, game) if len(column(run, "episodes", "p_X")[0])]
        modes = set()
        for pair in counter_and_coin(variants_of(own)):
            mode = pair.first.partition("-")[0]
            if mode not in modes:
                modes.add(mode)
                found.append((game, pair))
    return sorted(found, key=lambda one: one[1].first.partition("-")[0], reverse=True)


def draw_count_and_coin(records: Records) -> Figure | None:
    """A row for each game: both clouds of episodes, and both learning curves."""
    runs = plain_runs(records)
    every = cloud_pairs(runs)
    rows = every[:MOST_ROWS]
    if not rows:
        return None
    styles = some_styles(KINDS)
    shown = [
        run for game, pair in rows for name in pair for run in runs_of(runs, name, game)
    ]
    rest = [f"{pair.first} on {game}" for game, pair in every[MOST_ROWS:]]
    notes = [
        f"Each point is a training episode, at most {MOST_POINTS:,} drawn at random; light "
        "points are late in training.",
        *([f"Not drawn: {some(rest)}."] if rest else []),
        *gap_notes(records, shown),
    ]
    figure = look.compose(
        2.1 * len(rows),
        title="Blind switching by step count and by coin",
        keys=style_keys(styles, dict(zip(KINDS, KINDS, strict=True))),
        notes=notes,
    )
    grid = figure.subplots(len(rows), 3, squeeze=False)
    points = None
    for cells, (game, pair) in zip(grid, rows, strict=True):
        clouds = [read_cloud(runs_of(runs, name, game)) for name in pair]
        for axes, name, cloud in zip(cells, pair, clouds, strict=False):
            points = draw_cloud(axes, cloud) or points
            spread = f"spread of $p_X$: {cloud.spread:.2f}" if cloud else "no episodes"
            axes.set_title(look.plain(name) + f"\n{spread}", fontsize=look.SMALL)
        _share_limits(list(cells[:2]), [cloud for cloud in clouds if cloud])
        cells[0].set_ylabel(look.plain(game) + "\n$p_X$", fontsize=look.SMALL)
        lines = {
            kind: runs_of(runs, name, game) for kind, name in zip(KINDS, pair, strict=True)
        }
        draw_panel(cells[2], lines, styles)
        cells[2].set_title("return", fontsize=look.SMALL)
    if points is not None:
        bar = figure.colorbar(
            points, ax=grid[:, :2], location="bottom", aspect=50, pad=0.02
        )
        bar.set_label("time in training", fontsize=look.SMALL)
        bar.set_ticks([0, 1], labels=["start", "end"], fontsize=look.SMALL)
        bar.ax.set_xlim(0, 1)
    return figure


def draw_cloud(axes: Axes, cloud: Cloud | None) -> PathCollection | None:
    """rmed_X against p_X; dark is early, light is late."""
    look.tidy(axes)
    axes.set_ylim(-0.03, 1.05)
    if cloud is None or not len(cloud.p):
        return None
    rng = np.random.default_rng(0)
    chosen = rng.permutation(len(cloud.p))[:MOST_POINTS]
    points = axes.scatter(
        cloud.rmed[chosen],
        cloud.p[chosen],
        c=cloud.time[chosen],
        cmap="plasma",
        vmin=0.0,
        vmax=1.1,
        s=5,
        linewidths=0,
        alpha=0.7,
    )
    axes.set_xscale("log")
    axes.set_xlabel("rmed$_X$", fontsize=look.SMALL)
    if cloud.silent:
        text = f"{cloud.silent:,} episodes never explored"
        axes.text(
            0.97,
            0.03,
            text,
            size=look.SMALL - 1,
            color=look.NOTE,
            ha="right",
            transform=axes.transAxes,
        )
    return points


def _share_limits(cells: Sequence[Axes], clouds: Sequence[Cloud]) -> None:
    """The two clouds of a row can be compared only on the same axes."""
    rmed = np.concatenate([cloud.rmed for cloud in clouds]) if clouds else np.zeros(0)
    for axes in cells:
        if len(rmed):
            axes.set_xlim(rmed.min() / 1.5, max(1.0, rmed.max()) * 1.5)
            axes.xaxis.set_major_formatter("{x:g}")
            axes.xaxis.minorticks_off()


def count_and_coin_show(records: Records) -> str:
    """Which of the two has the wider spread of p_X, game by game."""
    runs = plain_runs(records)
    rows = cloud_pairs(runs)
    if not rows:
        return NEEDS
    told, wider = [], 0
    for game, pair in rows:
        clouds = [read_cloud(runs_of(runs, name, game)) for name in pair]
        spreads = [cloud.spread if cloud else float("nan") for cloud in clouds]
        wider += spreads[1] > spreads[0]
        mode = pair.first.partition("-")[0]
        told.append(f"{mode} on {game} {spreads[0]:.2f} by count, {spreads[1]:.2f} by coin")
    shown = [
        run for game, pair in rows for name in pair for run in runs_of(runs, name, game)
    ]
    head = (
        f"The standard deviation of p_X over episodes is greater with the coin in {wider} "
        f"of {len(rows)} comparisons: {'; '.join(told)}."
    )
    return " ".join([head, *gap_notes(records, shown)])

"""Bandits over training: the probability of each arm (figure 14)."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars
from jaxtyping import Float
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sidequest.figures import style as look
from sidequest.figures.notes import count, gap_notes, some
from sidequest.figures.pairs import known, start_pairs
from sidequest.figures.reading import (
    Records,
    Run,
    games_of,
    plain_runs,
    runs_of,
    table,
    variants_of,
)

MOST_ROWS = 8
COLUMNS = 4
NEEDS_BANDITS = "Nothing to draw yet: no run has a bandit (table `bandits`)."


class Arms(NamedTuple):
    """One bandit over training: mean over seeds of each arm's probability."""

    frames: Float[np.ndarray, "T"]
    probabilities: dict[float, Float[np.ndarray, "T"]]


def read_arms(runs: Sequence[Run], bandit: str) -> Arms | None:
    """As far as the shortest of the runs goes."""
    tables = [
        frame.filter(polars.col("bandit") == bandit)
        for run in runs
        if len(frame := table(run, "bandits"))
    ]
    tables = [frame for frame in tables if len(frame)]
    if not tables:
        return None
    frames = min((frame["frames"].unique().sort().to_numpy() for frame in tables), key=len)
    frames = frames.astype(float)
    probabilities = {}
    for arm in tables[0]["arm"].unique(maintain_order=True):
        rows = []
        for frame in tables:
            own = frame.filter(polars.col("arm") == arm)
            rows.append(
                np.interp(frames, own["frames"].to_numpy(), own["probability"].to_numpy())
            )
        probabilities[float(arm)] = np.mean(rows, axis=0)
    return Arms(frames, dict(sorted(probabilities.items())))


def bandit_rows(runs: Sequence[Run]) -> list[tuple[str, str]]:
    """(variant, bandit) of each row: pairs of starting modes first, then the others."""
    names = variants_of(run for run in runs if len(table(run, "bandits")))
    paired = [name for pair in start_pairs(names) for name in pair]
    ordered = list(dict.fromkeys([*paired, *names]))
    variants = known(ordered)
    return [(name, bandit) for name in variants for bandit in variants[name].bandits()]


def draw_bandits(records: Records) -> Figure | None:
    """Figure 14: a row for each bandit, a panel for each game, a line for each arm."""
    runs = plain_runs(records)
    every = bandit_rows(runs)
    rows = every[:MOST_ROWS]
    games = games_of(run for run in runs if run.variant in {name for name, _ in rows})
    shown = games[:COLUMNS]
    if not rows:
        return None
    left_out = [
        *([f"{count(len(every) - len(rows), 'bandit')}"] if len(every) > len(rows) else []),
        *games[COLUMNS:],
    ]
    drawn = [run for run in runs if run.variant in dict(rows) and run.game in shown]
    notes = [
        "Means over seeds. Dotted: the uniform choice that every bandit begins with.",
        *([f"Not drawn: {some(left_out, 8)}."] if left_out else []),
        *gap_notes(records, drawn),
    ]
    title = "What the bandits preferred over training"
    figure = look.compose(1.7 * len(rows), title=title, notes=notes)
    grid = figure.subplots(len(rows), len(shown), squeeze=False)
    for cells, (name, bandit) in zip(grid, rows, strict=True):
        for axes, game in zip(cells, shown, strict=True):
            draw_arms(axes, read_arms(runs_of(runs, name, game), bandit), bandit)
            axes.set_title(look.plain(game), fontsize=look.SMALL, loc="left")
        header = look.plain(f"{name}: {chosen_by(name, bandit)}\n{shown[0]}")
        cells[0].set_title(header, fontsize=look.SMALL, loc="left")
        cells[0].set_ylabel("probability", fontsize=look.SMALL)
        legend_arms(list(cells))
    return figure


def chosen_by(name: str, bandit: str) -> str:
    """What a bandit chooses, in words."""
    (variant,) = known([name]).values()
    if bandit == "start":
        return "mode of an episode"
    if bandit == "explore":
        return "explore steps"
    rate = variant.exploit is not None and variant.exploit.unit == "rate"
    return "switching rate" if rate else "exploit steps"


def legend_arms(cells: Sequence[Axes]) -> None:
    """Right of the row, from whichever panel has lines."""
    for axes in cells:
        handles, labels = axes.get_legend_handles_labels()
        if handles:
            cells[-1].legend(
                handles,
                labels,
                loc="center left",
                bbox_to_anchor=(1.0, 0.5),
                fontsize=look.SMALL,
                frameon=False,
                handlelength=1.6,
                labelspacing=0.25,
            )
            return


def draw_arms(axes: Axes, arms: Arms | None, bandit: str) -> None:
    """From the least arm (dark) to the greatest (light), each with its marker."""
    axes.set_ylim(0, 1)
    look.tidy(axes)
    if arms is None:
        look.say_empty(axes)
        return
    unit, name = look.frame_unit(arms.frames[-1])
    number = len(arms.probabilities)
    axes.axhline(1 / number, color=look.GREY, lw=0.7, ls=":")
    for i, (arm, probability) in enumerate(arms.probabilities.items()):
        axes.plot(
            arms.frames / unit,
            probability,
            color=colormaps["viridis"](0.9 * i / max(1, number - 1)),
            marker=look.LINES[i % len(look.LINES)][1],
            markersize=3,
            markevery=max(1, len(arms.frames) // 6),
            lw=1.3,
            label=arm_name(arm, bandit),
        )
    axes.set_xlim(left=0)
    axes.set_xlabel(name, fontsize=look.SMALL)


def arm_name(arm: float, bandit: str) -> str:
    """A number of steps or a rate; the bandit over whole episodes chooses a mode."""
    return ("G", "X")[int(arm)] if bandit == "start" else f"{arm:g}"


def bandits_show(records: Records) -> str:
    """The arm that each bandit of a starting pair preferred at the end."""
    runs = plain_runs(records)
    rows = bandit_rows(runs)
    if not rows:
        return NEEDS_BANDITS
    sentences = []
    for name, bandit in rows[:MOST_ROWS]:
        told = []
        for game in games_of(run for run in runs if run.variant == name):
            arms = read_arms(runs_of(runs, name, game), bandit)
            if arms:
                last = {arm: float(line[-1]) for arm, line in arms.probabilities.items()}
                best = max(last, key=lambda arm: last[arm])
                told.append(f"{game} {arm_name(best, bandit)} ({last[best]:.2f})")
        sentences.append(
            f"{name}, bandit `{bandit}`, likeliest arm at the end: {', '.join(told)}."
        )
    drawn = [run for run in runs if run.variant in dict(rows)]
    return " ".join([*sentences, *gap_notes(records, drawn)])

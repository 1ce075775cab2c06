"""Realised against target switching rates: does homeostasis hold what it was asked for?

A switch to explore, for each exploit step. The target is a share of exploit steps, so
episodes are weighed by theirs: switches of all episodes over exploit steps of all.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sidequest.figures import style as look
from sidequest.figures.notes import count, gap_notes
from sidequest.figures.pairs import known
from sidequest.figures.reading import (
    Records,
    Run,
    column,
    games_of,
    plain_runs,
)

TOLERANCE = 0.1
HIGHEST = 2.0  # of the axis
ENOUGH = 100  # switches: the noise of their number is 10% then
KINDS = {
    "blind": ("coin", look.LINES[0]),
    "informed": ("value promise", look.LINES[1]),
    "informed:mismatch": ("action mismatch", look.LINES[2]),
    "informed:variance": ("value variance", look.LINES[3]),
}
NEEDS = (
    "Nothing to draw yet: this needs training episodes of a variant with a switching rate, "
    "such as XU-intra(10,informed,0.01,G)."
)


class Rate(NamedTuple):
    """One run at one target rate."""

    run: Run
    trigger: str
    target: float
    realised: float
    switches: float
    """How many it rests on: their number has a standard deviation of about its root."""


def read_rates(runs: Sequence[Run]) -> list[Rate]:
    """Each run at each rate that was asked of it."""
    found = []
    for run in runs:
        trigger = triggers(run)
        if trigger is None:
            continue
        names = ("target_rate", "realised_rate", "length", "p_X")
        targets, realised, length, p = column(run, "episodes", *names)
        steps = length * (1 - p)
        good = np.isfinite(targets) & np.isfinite(realised) & (steps > 0)
        for target in np.unique(targets[good]):
            own = good & (targets == target)
            switches = float((realised * steps)[own].sum())
            rate = switches / float(steps[own].sum())
            found.append(Rate(run, trigger, float(target), rate, switches))
    return found


def triggers(run: Run) -> str | None:
    """The trigger of an intra-episodic variant that switches at a rate, else None."""
    variant = known([run.variant]).get(run.variant)
    if variant is None or variant.granularity != "intra" or variant.exploit is None:
        return None
    return variant.trigger if variant.exploit.unit == "rate" else None


def draw_rates(records: Records) -> Figure | None:
    """Realised over target: 1 is what was asked for. A panel a game, at most six."""
    rates = read_rates(plain_runs(records))
    if not rates:
        return None
    games = games_of(rate.run for rate in rates)
    shown, rest = games[:6], games[6:]
    kinds = [kind for kind in KINDS if any(rate.trigger == kind for rate in rates)]
    keys = [
        Line2D(
            [], [], color=KINDS[k][1][0], marker=KINDS[k][1][1], ls="", label=KINDS[k][0]
        )
        for k in kinds
    ]
    notes = [
        "One mark a run and target rate. Band: within 10% of the target. Bars: two "
        "standard deviations of as many independent switches. Triangles: off the scale.",
        *([f"Not drawn: {', '.join(rest)}."] if rest else []),
        *gap_notes(records, list({r.run.folder: r.run for r in rates}.values())),
    ]
    columns = min(3, len(shown))
    rows = -(-len(shown) // columns)
    title = "Realised switching rate as a multiple of the target"
    figure = look.compose(2.1 * rows, title=title, keys=keys, notes=notes)
    grid = figure.subplots(rows, columns, squeeze=False, sharey=True)
    for axes, game in zip(grid.flat, shown, strict=False):
        axes.axhspan(1 - TOLERANCE, 1 + TOLERANCE, color="#eeeeee", lw=0)
        axes.axhline(1.0, color=look.GREY, lw=0.8)
        own = [rate for rate in rates if rate.run.game == game]
        for rate in own:
            _draw_rate(axes, rate, kinds)
        axes.set_xscale("log")
        axes.set_xlim(
            min(r.target for r in rates) / 2.5, max(r.target for r in rates) * 2.5
        )
        axes.set_ylim(0, HIGHEST)
        axes.set_title(look.plain(game), fontsize=look.MEDIUM)
        axes.set_xlabel("target rate, switches an exploit step", fontsize=look.SMALL)
        look.tidy(axes)
    for axes in grid.flat[len(shown) :]:
        axes.set_visible(False)
    for row in grid:
        row[0].set_ylabel("realised / target", fontsize=look.SMALL)
    return figure


def _draw_rate(axes: Axes, rate: Rate, kinds: Sequence[str]) -> None:
    """Beside each other by trigger and seed, so that marks do not hide each other."""
    _, (colour, marker) = KINDS[rate.trigger]
    shift = 1.25 ** (kinds.index(rate.trigger) - (len(kinds) - 1) / 2) * 1.03 ** (
        rate.run.seed % 5
    )
    ratio = rate.realised / rate.target
    if ratio > HIGHEST:
        axes.plot(rate.target * shift, 0.97 * HIGHEST, "^", color=colour, ms=4, mfc="white")
        return
    if rate.switches > 0:
        half = 2 * ratio / np.sqrt(rate.switches)
        axes.vlines(
            rate.target * shift,
            max(0, ratio - half),
            min(HIGHEST, ratio + half),
            colors=colour,
            lw=0.7,
            alpha=0.6,
        )
    axes.plot(rate.target * shift, ratio, marker, color=colour, ms=3.5)


def rates_show(records: Records) -> str:
    """How many lie within 10% of what was asked for, of those with switches enough."""
    rates = read_rates(plain_runs(records))
    if not rates:
        return NEEDS
    sentences = []
    for kind, (name, _) in KINDS.items():
        own = [rate for rate in rates if rate.trigger == kind]
        enough = [rate for rate in own if rate.switches >= ENOUGH]
        close = sum(abs(rate.realised / rate.target - 1) <= TOLERANCE for rate in enough)
        if enough:
            sentences.append(f"{name}: {close} of {count(len(enough), 'case')} within 10%.")
        elif own:
            sentences.append(f"{name}: no case has 100 switches yet.")
    text = "Runs at a target rate with at least 100 switches. " + " ".join(sentences)
    return " ".join(
        [text, *gap_notes(records, list({r.run.folder: r.run for r in rates}.values()))]
    )

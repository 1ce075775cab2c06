"""The starting mode and what it does to scores (figure 6)."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from sidequest.figures import style as look
from sidequest.figures.claims.cells import final_score
from sidequest.figures.notes import count, gap_notes, some
from sidequest.figures.pairs import Pair, start_pairs
from sidequest.figures.reading import (
    Records,
    Run,
    games_of,
    plain_runs,
    runs_of,
    variants_of,
)

MOST_PANELS = 6
NEEDS = (
    "Nothing to draw yet: this needs evaluated runs of two variants that differ in the "
    "starting mode alone, such as XU-intra(=,blind,n*,G) and XU-intra(=,blind,n*,X)."
)


class Bars(NamedTuple):
    """Scores of the two starting modes on one game, as shares of the greater mean."""

    game: str
    exploit: Float[np.ndarray, "N"]
    explore: Float[np.ndarray, "M"]


def start_bars(runs: Sequence[Run], pair: Pair) -> tuple[list[Bars], list[str]]:
    """Bars of the games that both have, and games whose scores have no share to speak of.

    The greater of the two means is 1. Where it is not above 0, there is no such scale.
    """
    bars, without = [], []
    for game in games_of(runs):
        scores = [
            np.array([final_score(run) for run in runs_of(runs, name, game)])
            for name in pair
        ]
        scores = [own[np.isfinite(own)] for own in scores]
        if not all(map(len, scores)):
            continue
        best = max(float(own.mean()) for own in scores)
        if best <= 0:
            without.append(game)
        else:
            bars.append(Bars(game, scores[0] / best, scores[1] / best))
    return bars, without


def all_bars(records: Records) -> tuple[dict[Pair, list[Bars]], list[str]]:
    runs = plain_runs(records)
    found, without = {}, []
    for pair in start_pairs(variants_of(runs)):
        bars, games = start_bars(runs, pair)
        if bars:
            found[pair] = bars
        without += games
    return found, list(dict.fromkeys(without))


def draw_starts(records: Records) -> Figure | None:
    """Figure 6: a panel for each pair of variants, two bars for each game."""
    found, without = all_bars(records)
    if not found:
        return None
    pairs = list(found)[:MOST_PANELS]
    runs = [
        run for run in plain_runs(records) if any(run.variant in pair for pair in pairs)
    ]
    notes = [
        "1 is the greater of the two means; thin lines: least to greatest seed.",
        *(
            [f"No share to show, as no score is above 0: {some(without)}."]
            if without
            else []
        ),
        *(
            [f"{len(found) - len(pairs)} more pairs are not drawn."]
            if len(found) > MOST_PANELS
            else []
        ),
        *gap_notes(records, runs),
    ]
    keys = [
        Patch(facecolor=look.BLUE, label="starts in exploit mode (G)"),
        Patch(
            facecolor=look.MAGENTA,
            hatch="///",
            edgecolor="white",
            label="starts in explore mode (X)",
        ),
    ]
    columns = min(2, len(pairs))
    rows = -(-len(pairs) // columns)
    figure = look.compose(2.2 * rows, title="The starting mode", keys=keys, notes=notes)
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes, pair in zip(grid.flat, pairs, strict=False):
        draw_bars(axes, found[pair])
        axes.set_title(
            look.plain(pair.first.removesuffix("G)") + "·)"), fontsize=look.MEDIUM
        )
    for axes in grid.flat[len(pairs) :]:
        axes.set_visible(False)
    for row in grid:
        row[0].set_ylabel("share of the better mean", fontsize=look.SMALL)
    return figure


def draw_bars(axes: Axes, bars: Sequence[Bars]) -> None:
    """Exploit left, explore right and hatched."""
    for x, one in enumerate(bars):
        for shift, scores, colour, hatch in (
            (-0.2, one.exploit, look.BLUE, None),
            (0.2, one.explore, look.MAGENTA, "///"),
        ):
            axes.bar(
                x + shift,
                scores.mean(),
                0.38,
                color=colour,
                hatch=hatch,
                edgecolor="white",
                lw=0,
            )
            if len(scores) > 1:
                axes.vlines(x + shift, scores.min(), scores.max(), colors=look.INK, lw=0.9)
    axes.axhline(1.0, color=look.GREY, lw=0.6, ls=(0, (4, 3)), zorder=0)
    axes.axhline(0.0, color=look.INK, lw=0.6)
    axes.set_xlim(-0.6, len(bars) - 0.4)
    slanted = len(bars) > 3
    names = [look.plain(one.game) for one in bars]
    axes.set_xticks(
        range(len(bars)), names, rotation=25 * slanted, ha="right" if slanted else "center"
    )
    look.tidy(axes)


def starts_show(records: Records) -> str:
    """Where each start is ahead, and where no seed of one reaches those of the other."""
    found, without = all_bars(records)
    if not found:
        return NEEDS
    sentences = []
    for pair, bars in found.items():
        ahead = [one.game for one in bars if one.explore.mean() > one.exploit.mean()]
        apart = [
            one.game
            for one in bars
            if one.explore.min() > one.exploit.max()
            or one.exploit.min() > one.explore.max()
        ]
        sentences.append(
            f"{pair.first} against {pair.second}: starting with exploration has the higher "
            f"mean in {len(ahead)} of {count(len(bars), 'game')}; seeds do not overlap in "
            f"{len(apart)}."
        )
    if without:
        sentences.append(f"Without a score above 0: {some(without)}.")
    runs = [
        run for run in plain_runs(records) if any(run.variant in pair for pair in found)
    ]
    return " ".join([*sentences, *gap_notes(records, runs)])

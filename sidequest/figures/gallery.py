"""All figures of a study, in the order in which the report shows them."""

from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import NamedTuple

import polars as pl

from sidequest.figures import (
    aggregate,
    arms,
    coins,
    comparisons,
    episodes,
    granularity,
    rates,
    reading,
    space,
    starts,
    uncertainty,
)
from sidequest.figures.data import Plot, Records, texts
from sidequest.figures.style import SUFFIXES, save


class Entry(NamedTuple):
    """One figure: what it is, and how it is drawn."""

    name: str
    """The stem of its files' names."""
    draw: Callable[[Records], Plot | None]
    title: str
    paper: str
    """The paper's figure, such as `Figure 3`, or `beyond the paper`."""
    look_for: str
    needs: str
    """What records must hold, for there to be something to draw."""


class Drawn(NamedTuple):
    """A figure whose files are written."""

    entry: Entry
    caption: str
    """What these runs show, or what the figure needs."""
    paths: tuple[Path, ...]
    """None where there is nothing to draw."""


def draw_gallery(
    records: Records, out: Path, only: Collection[str] = ()
) -> Iterator[Drawn]:
    """Draws each figure once and writes it; removes the files of one that has no runs.

    Args:
        out: The folder to write to; made if it is not there.
        only: Names of figures; by default all.
    """
    for entry in GALLERY:
        if only and entry.name not in only:
            continue
        paths = tuple(out / f"{entry.name}{suffix}" for suffix in SUFFIXES)
        plot = entry.draw(records)
        if plot is None:
            for path in paths:
                path.unlink(missing_ok=True)
            yield Drawn(entry, f"Nothing to draw yet: this needs {entry.needs}.", ())
        else:
            for path in paths:
                save(plot.figure, path)
            yield Drawn(entry, plot.caption, paths)


def _old(draw, show):
    def plot(records):
        old = reading.read_records(records.folder)
        figure = draw(old)
        return Plot(figure, show(old), pl.DataFrame()) if figure else None

    return plot


_DRAW: dict[str, Callable[[Records], Plot | None]] = {
    "granularities": _old(episodes.draw_real_granularities, episodes.granularities_show),
    "aggregate": _old(aggregate.draw_aggregate, aggregate.aggregate_shows),
    "learning-curves": _old(granularity.draw_learning_curves, granularity.curves_show),
    "explore-space": _old(space.draw_space, space.space_shows),
    "explore-space-all": _old(space.draw_whole_space, space.space_shows),
    "episodes": _old(episodes.draw_blind_and_informed, episodes.blind_and_informed_show),
    "episodes-all": _old(episodes.draw_all_episodes, episodes.all_episodes_show),
    "starting-mode": _old(starts.draw_starts, starts.starts_show),
    "bandit-arms": _old(arms.draw_bandits, arms.bandits_show),
    "count-and-coin": _old(coins.draw_count_and_coin, coins.count_and_coin_show),
    "informed-triggers": _old(comparisons.draw_triggers, comparisons.triggers_show),
    "off-policy": _old(comparisons.draw_correction, comparisons.correction_shows),
    "explore-modes": _old(comparisons.draw_modes, comparisons.modes_show),
    "scores": _old(uncertainty.draw_scores, uncertainty.scores_show),
    "iqm": _old(uncertainty.draw_iqm, uncertainty.iqm_shows),
    "improvement": _old(uncertainty.draw_improvement, uncertainty.improvement_shows),
    "switching-rates": _old(rates.draw_rates, rates.rates_show),
}
GALLERY = tuple(Entry(name, _DRAW[name], **text) for name, text in texts("figures").items())

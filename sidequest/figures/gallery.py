"""All figures of a study, in the order in which the report shows them."""

from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import NamedTuple

import polars as pl

from sidequest.figures import curves, episodes, space, switching, uncertainty
from sidequest.figures.data import Plot, Records
from sidequest.figures.style import SUFFIXES, save, styled, texts


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
    notes: str = ""
    """How to read the picture; below it."""


class Drawn(NamedTuple):
    """A figure whose files are written."""

    entry: Entry
    caption: str
    """What these runs show, or what the figure needs."""
    paths: tuple[Path, ...] = ()
    """None where there is nothing to draw."""
    table: pl.DataFrame | None = None
    """The numbers that it shows."""


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
            yield Drawn(entry, f"Nothing to draw yet: this needs {entry.needs}.")
        else:
            for path in paths:
                save(plot.figure, path)
            yield Drawn(entry, plot.caption, paths, plot.table)


_DRAW: dict[str, Callable[[Records], Plot | None]] = {
    "granularities": episodes.granularities,
    "aggregate": curves.aggregate,
    "learning-curves": curves.learning_curves,
    "explore-space": space.explore_space,
    "explore-space-all": space.explore_space_all,
    "episodes": episodes.blind_and_informed,
    "episodes-all": episodes.all_episodes,
    "starting-mode": switching.starting_modes,
    "bandit-arms": switching.bandit_arms,
    "count-and-coin": switching.counter_vs_coin,
    "count-and-coin-all": switching.counter_vs_coin_all,
    "informed-triggers": curves.informed_triggers,
    "off-policy": curves.off_policy,
    "explore-modes": curves.explore_modes,
    "scores": uncertainty.scores,
    "iqm": uncertainty.interquartile_means,
    "improvement": uncertainty.improvement,
    "switching-rates": switching.switching_rates,
}
GALLERY = tuple(
    Entry(name, styled(_DRAW[name]), **text) for name, text in texts("figures").items()
)

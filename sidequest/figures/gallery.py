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
from sidequest.figures.data import Plot, Records
from sidequest.figures.style import SUFFIXES, save


class Entry(NamedTuple):
    """One figure: what it is, and how it is drawn."""

    name: str
    """The stem of its files' names."""
    title: str
    paper: str
    """The paper's figure, such as `Figure 3`, or `beyond the paper`."""
    look_for: str
    needs: str
    """What records must hold, for there to be something to draw."""
    draw: Callable[[Records], Plot | None]


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


_BEYOND = "beyond the paper"
_NEEDS_TRACES = "a recorded episode (table `traces`)"
_NEEDS_GRANULARITIES = (
    "evaluated runs of at least two granularities of one explore mode, such as "
    "XU-step-level-0.01 and XU-intra(10,informed,p*,X)"
)
_NEEDS_EPISODES = (
    "training episodes (table `episodes`) of variants that explore for part of an episode"
)
_NEEDS_SCORES = "a run that has been evaluated"

GALLERY: tuple[Entry, ...] = (
    Entry(
        "granularities",
        "What the granularities look like",
        "Figure 1",
        "Left, real episodes of each granularity, one after the other. Right, the same on "
        "the plane of p_X and med_X: the yellow area is what only switching within "
        "episodes can reach.",
        _NEEDS_TRACES,
        _old(episodes.draw_real_granularities, episodes.granularities_show),
    ),
    Entry(
        "aggregate",
        "Mean and median over games",
        "Figure 3",
        "Whether the intra-episodic line (red) ends above the step-level, episode-level "
        "and experiment-level ones in every panel, and whether the bands overlap. The "
        "axis says what 0 and 1 are.",
        _NEEDS_GRANULARITIES,
        _old(aggregate.draw_aggregate, aggregate.aggregate_shows),
    ),
    Entry(
        "learning-curves",
        "Learning curves by granularity",
        "Figure 10",
        "The lines of figure 3 game by game. An average can hide that one granularity wins "
        "on one game and loses on another.",
        _NEEDS_GRANULARITIES,
        _old(granularity.draw_learning_curves, granularity.curves_show),
    ),
    Entry(
        "explore-space",
        "How variants explored, and what they scored",
        "Figure 4",
        "Whether variants cover different parts of the plane, in which direction bandits "
        "move them from square to cross, and whether p_X alone tells the final score.",
        _NEEDS_EPISODES,
        _old(space.draw_space, space.space_shows),
    ),
    Entry(
        "explore-space-all",
        "How all variants explored, on all games",
        "Figure 11",
        "The same for everything that was run, with the baselines.",
        _NEEDS_EPISODES,
        _old(space.draw_whole_space, space.space_shows),
    ),
    Entry(
        "episodes",
        "Episodes of blind and informed variants",
        "Figure 5",
        "Two variants that explore as much. Blind periods are evenly spaced; informed ones "
        "should cluster where the agent is unsure and leave long stretches alone.",
        "recorded episodes (table `traces`) of a blind variant and of the informed one "
        "that switches as often, such as XU-intra(10,blind,100,G) and "
        "XU-intra(10,informed,0.01,G)",
        _old(episodes.draw_blind_and_informed, episodes.blind_and_informed_show),
    ),
    Entry(
        "episodes-all",
        "Episodes of every intra-episodic variant",
        "Figure 12",
        "How long periods are, how evenly they are spaced, and how much one episode "
        "differs from the next where a bandit or a coin decides.",
        _NEEDS_TRACES,
        _old(episodes.draw_all_episodes, episodes.all_episodes_show),
    ),
    Entry(
        "starting-mode",
        "The effect of the starting mode",
        "Figure 6",
        "Either start can help or harm. Look whether the better one differs between games, "
        "and whether the seeds' ranges are apart.",
        "evaluated runs of two variants that differ in the starting mode alone, such as "
        "XU-intra(=,blind,n*,G) and XU-intra(=,blind,n*,X)",
        _old(starts.draw_starts, starts.starts_show),
    ),
    Entry(
        "bandit-arms",
        "What the bandits preferred",
        "Figure 14",
        "Whether arms leave the dotted line at all, and whether the preferred durations "
        "differ between the starting modes.",
        "a run with a bandit (table `bandits`)",
        _old(arms.draw_bandits, arms.bandits_show),
    ),
    Entry(
        "count-and-coin",
        "Switching by step count and by coin",
        "Figures 7 and 13",
        "Whether the coin's cloud of episodes is wider in p_X than the counter's, and "
        "whether its curve is higher.",
        "training episodes of two blind variants that switch as often, one by counting and "
        "one by a coin, such as XU-intra(10,blind,n*,X) and XU-intra(10,blind,p*,X)",
        _old(coins.draw_count_and_coin, coins.count_and_coin_show),
    ),
    Entry(
        "informed-triggers",
        "Three informed triggers",
        "Figure 8",
        "Which signal makes the best moment to explore: broken value promises, two heads "
        "that rank actions differently, or two heads whose values differ.",
        "evaluated runs that differ in the informed trigger alone, such as "
        "XI-intra(10,informed,p*,X) and XI-intra(10,informed:mismatch,p*,X)",
        _old(comparisons.draw_triggers, comparisons.triggers_show),
    ),
    Entry(
        "off-policy",
        "Off-policy correction",
        "Figure 15",
        "Whether cutting traces at actions that were not greedy (Watkins) matters. The "
        "paper found no gain from it.",
        "evaluated runs of one variant with and without the setting learning.watkins",
        _old(comparisons.draw_correction, comparisons.correction_shows),
    ),
    Entry(
        "explore-modes",
        "Explore modes on the same settings",
        "Figure 16",
        "Whether the order of the settings is the same for every explore mode, and how far "
        "the modes differ from each other on one game.",
        "the same setting with two explore modes, such as XU-step-level-0.01 and "
        "XI-step-level-0.01",
        _old(comparisons.draw_modes, comparisons.modes_show),
    ),
    Entry(
        "scores",
        "Final scores of every variant",
        _BEYOND,
        "All variants at a glance, in raw returns. Long bars are seeds that disagree.",
        _NEEDS_SCORES,
        _old(uncertainty.draw_scores, uncertainty.scores_show),
    ),
    Entry(
        "iqm",
        "Interquartile means",
        _BEYOND,
        "The interquartile mean leaves out the best and the worst quarter of runs, so that "
        "no single lucky run decides. Variants whose bars overlap cannot be ranked.",
        _NEEDS_SCORES,
        _old(uncertainty.draw_iqm, uncertainty.iqm_shows),
    ),
    Entry(
        "improvement",
        "Probability of improvement",
        _BEYOND,
        "How often a run of the paper's intra-episodic variant beats a run of another. A "
        "bar that crosses one half decides nothing.",
        "an intra-episodic variant and another variant of the same explore mode on the "
        "same games",
        _old(uncertainty.draw_improvement, uncertainty.improvement_shows),
    ),
    Entry(
        "switching-rates",
        "Realised against target switching rates",
        _BEYOND,
        "Marks on the line at 1 switched at the target rate. Homeostasis is to hold the "
        "rate whatever the signal; a coin does so by itself.",
        "training episodes of a variant with a switching rate, such as "
        "XU-intra(10,informed,0.01,G)",
        _old(rates.draw_rates, rates.rates_show),
    ),
)

"""All figures of a study, in the order in which the report shows them."""

from collections.abc import Callable
from typing import NamedTuple

from matplotlib.figure import Figure

from sidequest.figures import (
    aggregate,
    arms,
    coins,
    comparisons,
    episodes,
    granularity,
    rates,
    space,
    starts,
    uncertainty,
)
from sidequest.figures.reading import Records


class Entry(NamedTuple):
    """One figure: what it is, how it is drawn, and what to say about it."""

    name: str
    """The stem of its files' names."""
    title: str
    paper: str
    """The paper's figure, such as `Figure 3`, or `beyond the paper`."""
    look_for: str
    draw: Callable[[Records], Figure | None]
    """None where there is nothing to draw."""
    shows: Callable[[Records], str]
    """What these runs show, computed from them, and what is missing."""


BEYOND = "beyond the paper"

GALLERY: tuple[Entry, ...] = (
    Entry(
        "granularities",
        "What the granularities look like",
        "Figure 1",
        "Left, real episodes of each granularity, one after the other. Right, the same on "
        "the plane of p_X and med_X: the yellow area is what only switching within "
        "episodes can reach.",
        episodes.draw_real_granularities,
        episodes.granularities_show,
    ),
    Entry(
        "aggregate",
        "Mean and median over games",
        "Figure 3",
        "Whether the intra-episodic line (red) ends above the step-level, episode-level "
        "and experiment-level ones in every panel, and whether the bands overlap. The "
        "axis says what 0 and 1 are.",
        aggregate.draw_aggregate,
        aggregate.aggregate_shows,
    ),
    Entry(
        "learning-curves",
        "Learning curves by granularity",
        "Figure 10",
        "The lines of figure 3 game by game. An average can hide that one granularity wins "
        "on one game and loses on another.",
        granularity.draw_learning_curves,
        granularity.curves_show,
    ),
    Entry(
        "explore-space",
        "How variants explored, and what they scored",
        "Figure 4",
        "Whether variants cover different parts of the plane, in which direction bandits "
        "move them from square to cross, and whether p_X alone tells the final score.",
        space.draw_space,
        space.space_shows,
    ),
    Entry(
        "explore-space-all",
        "How all variants explored, on all games",
        "Figure 11",
        "The same for everything that was run, with the baselines.",
        space.draw_whole_space,
        space.space_shows,
    ),
    Entry(
        "episodes",
        "Episodes of blind and informed variants",
        "Figure 5",
        "Two variants that explore as much. Blind periods are evenly spaced; informed ones "
        "should cluster where the agent is unsure and leave long stretches alone.",
        episodes.draw_blind_and_informed,
        episodes.blind_and_informed_show,
    ),
    Entry(
        "episodes-all",
        "Episodes of every intra-episodic variant",
        "Figure 12",
        "How long periods are, how evenly they are spaced, and how much one episode "
        "differs from the next where a bandit or a coin decides.",
        episodes.draw_all_episodes,
        episodes.all_episodes_show,
    ),
    Entry(
        "starting-mode",
        "The effect of the starting mode",
        "Figure 6",
        "Either start can help or harm. Look whether the better one differs between games, "
        "and whether the seeds' ranges are apart.",
        starts.draw_starts,
        starts.starts_show,
    ),
    Entry(
        "bandit-arms",
        "What the bandits preferred",
        "Figure 14",
        "Whether arms leave the dotted line at all, and whether the preferred durations "
        "differ between the starting modes.",
        arms.draw_bandits,
        arms.bandits_show,
    ),
    Entry(
        "count-and-coin",
        "Switching by step count and by coin",
        "Figures 7 and 13",
        "Whether the coin's cloud of episodes is wider in p_X than the counter's, and "
        "whether its curve is higher.",
        coins.draw_count_and_coin,
        coins.count_and_coin_show,
    ),
    Entry(
        "informed-triggers",
        "Three informed triggers",
        "Figure 8",
        "Which signal makes the best moment to explore: broken value promises, two heads "
        "that rank actions differently, or two heads whose values differ.",
        comparisons.draw_triggers,
        comparisons.triggers_show,
    ),
    Entry(
        "off-policy",
        "Off-policy correction",
        "Figure 15",
        "Whether cutting traces at actions that were not greedy (Watkins) matters. The "
        "paper found no gain from it.",
        comparisons.draw_correction,
        comparisons.correction_shows,
    ),
    Entry(
        "explore-modes",
        "Explore modes on the same settings",
        "Figure 16",
        "Whether the order of the settings is the same for every explore mode, and how far "
        "the modes differ from each other on one game.",
        comparisons.draw_modes,
        comparisons.modes_show,
    ),
    Entry(
        "scores",
        "Final scores of every variant",
        BEYOND,
        "All variants at one look, in raw returns. Long bars are seeds that disagree.",
        uncertainty.draw_scores,
        uncertainty.scores_show,
    ),
    Entry(
        "iqm",
        "Interquartile means",
        BEYOND,
        "The interquartile mean leaves out the best and the worst quarter of runs, so that "
        "no single lucky run decides. Variants whose bars overlap cannot be ranked.",
        uncertainty.draw_iqm,
        uncertainty.iqm_shows,
    ),
    Entry(
        "improvement",
        "Probability of improvement",
        BEYOND,
        "How often a run of the paper's intra-episodic variant beats a run of another. A "
        "bar that crosses one half decides nothing.",
        uncertainty.draw_improvement,
        uncertainty.improvement_shows,
    ),
    Entry(
        "switching-rates",
        "Realised against target switching rates",
        BEYOND,
        "Marks on the line at 1 switched as often as they were asked to. Homeostasis is to "
        "hold the rate whatever the signal; a coin does so by itself.",
        rates.draw_rates,
        rates.rates_show,
    ),
)

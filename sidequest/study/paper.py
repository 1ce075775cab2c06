"""The paper's experiments: which variants each of its figures shows.

    figure  label                         what                              runs
    1       fig:timescales-intuition      granularities, drawn              none
    2       fig:intra-code                design space, drawn               none
    3       fig:timescales                aggregate scores                  GRANULARITIES
    4       fig:explore-space             p_X against rmed_X                SPACE
    5       fig:spike_analysis            blind against informed            MOMENTS
    6       fig:start-mode                starting modes                    STARTS
    7       fig:xi-step-vs-prob           steps against probability         PARAMETERS
    8       fig:app-informed-triggers-xi  three informed triggers           TRIGGERS
    9       fig:intra-code-more           design space again, drawn         none
    10      fig:learning-curves           figure 3 by game                  GRANULARITIES
    11      fig:app-explore-space         figure 4, all games and variants  WIDE_SPACE
    12      fig:spike-analysis-many       figure 5, two rates, all games    MOMENTS
    13      fig:adaptive-example-many     figure 7, all games               PARAMETERS
    14      fig:app-fig6                  figure 6's bandits                STARTS
    15      fig:app-off-policy            trace cutting on and off          CUTTING
    16      fig:app-xu-xs-xi              three explore modes               EXPLORE_MODES

The paper names variants in its text and captions (sections 3.1 to 3.3, appendices B and C);
its legends are pictures. Where text and captions leave a choice open, the comment says what
was chosen.
"""

from sidequest.study.grids import Grid, Study, unique

GAMES = (
    *("frostbite", "gravitar", "hero", "montezuma_revenge"),
    *("ms_pacman", "phoenix", "star_gunner"),
)
# Figure 4 shows "a subset of 4"; the text speaks of three of them. Gravitar, the other
# game of figure 5, is the fourth here.
FOUR_GAMES = ("frostbite", "gravitar", "montezuma_revenge", "phoenix")
HEADLINE = "intra(10,informed,p*,X)"


def with_modes(modes: str, *settings: str) -> tuple[str, ...]:
    """`with_modes("XU XI", "step-level-0.01")`: each setting in each explore mode."""
    return tuple(f"{mode}-{setting}" for mode in modes.split() for setting in settings)


GRANULARITIES = with_modes(
    "XU XI",
    *("experiment-level-X", "experiment-level-G"),
    *("step-level-0.01", "episode-level-*", HEADLINE),
)
# Section 3.3 speaks of "an episodic baseline", "blind, doubly adaptive", its informed
# equivalent, and "symmetric, informed". Starting modes are not named; G is the default.
SPACE = with_modes(
    "XU XI",
    *("episode-level-*", HEADLINE, "intra(*,blind,n*,G)"),
    *("intra(*,informed,p*,G)", "intra(=,informed,p*,G)"),
)
# "All variants tried" are not listed; these are all that are named anywhere.
WIDE_SPACE = unique(
    (
        *SPACE,
        *with_modes(
            "XU XI",
            *("intra(100,informed,p*,X)", "intra(=,blind,n*,G)", "intra(=,blind,n*,X)"),
            *("intra(10,blind,n*,G)", "intra(10,blind,p*,G)"),
        ),
    )
)
# n_X = 10 and p_X = 0.1 are the caption's, and so are both rates of figure 12.
MOMENTS_AT_ONE_RATE = ("XU-intra(10,blind,100,G)", "XU-intra(10,informed,0.01,G)")
MOMENTS = (
    *MOMENTS_AT_ONE_RATE,
    *("XU-intra(10,blind,1000,G)", "XU-intra(10,informed,0.001,G)"),
)
# Symmetric and blind, by the caption of figure 14.
STARTS = with_modes("XU XI", "intra(=,blind,n*,G)", "intra(=,blind,n*,X)")
# XI by the figure's label. Explore periods of 10 steps and G are our choice.
PARAMETERS = with_modes("XI", "intra(10,blind,n*,G)", "intra(10,blind,p*,G)")
TRIGGERS = with_modes(
    "XI",
    *(HEADLINE, "intra(10,informed:mismatch,p*,X)", "intra(10,informed:variance,p*,X)"),
)
# The variant is not named; it is the headline here. XI cuts unless it is told not to.
CUTTING = with_modes("XI", HEADLINE)
NO_CUTTING = (("learning.watkins", False),)
# "The same 4 experimental settings" are not named. These differ in granularity and trigger,
# which is what appendix B.1 says XS is less affected by.
EXPLORE_MODES = with_modes(
    "XU XS XI",
    *("step-level-0.01", "episode-level-*", HEADLINE, "intra(*,blind,n*,G)"),
)

FIGURES = {
    "fig3": ("Four granularities, all games together", (Grid(GRANULARITIES, GAMES),)),
    "fig4": ("The space of exploration on four games", (Grid(SPACE, FOUR_GAMES),)),
    "fig5": (
        "Blind against informed moments",
        (Grid(MOMENTS_AT_ONE_RATE, ("frostbite", "gravitar")),),
    ),
    "fig6": ("Starting modes", (Grid(STARTS, GAMES),)),
    "fig7": ("Counting steps against tossing a coin", (Grid(PARAMETERS, ("frostbite",)),)),
    "fig8": ("Three informed triggers", (Grid(TRIGGERS, GAMES),)),
    "fig10": ("Four granularities, game by game", (Grid(GRANULARITIES, GAMES),)),
    "fig11": ("The space of exploration, all of it", (Grid(WIDE_SPACE, GAMES),)),
    "fig12": ("Blind against informed moments, all games", (Grid(MOMENTS, GAMES),)),
    "fig13": (
        "Counting steps against tossing a coin, all games",
        (Grid(PARAMETERS, GAMES),),
    ),
    "fig14": ("Starting modes and what the bandits prefer", (Grid(STARTS, GAMES),)),
    "fig15": (
        "Trace cutting on and off",
        (Grid(CUTTING, GAMES), Grid(CUTTING, GAMES, NO_CUTTING)),
    ),
    "fig16": ("Three explore modes on four settings", (Grid(EXPLORE_MODES, GAMES),)),
}
"""Figures that need runs: title and grids."""

EVERYTHING = unique(grid for _, grids in FIGURES.values() for grid in grids)


def paper_study(name: str, title: str, grids: tuple[Grid, ...]) -> Study:
    """At the paper's budget (appendix A.3)."""
    return Study(name, title, grids, seeds=3, frames=2_000_000_000, preset="paper")

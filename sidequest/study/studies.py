"""All studies by name, each with a twin of test size, `NAME/tiny`."""

import difflib

from sidequest.errors import UnknownStudy
from sidequest.study import paper
from sidequest.study.grids import Grid, Settings, Study, tiny, unique

DEFAULT = "quick"

# One or two of everything that the paper's figures compare.
MAIN_VARIANTS = unique(
    (
        *paper.GRANULARITIES,
        *paper.SPACE,
        *paper.MOMENTS_AT_ONE_RATE,
        *paper.STARTS,
        *paper.PARAMETERS,
        *paper.TRIGGERS,
        *paper.EXPLORE_MODES,
    )
)


def main_grids(*games: str) -> tuple[Grid, ...]:
    return (
        Grid(MAIN_VARIANTS, games),
        Grid(paper.CUTTING, games, paper.NO_CUTTING),
    )


# Fewer filters, and a replay that fits so few frames: for minutes. The replay ratio is the
# preset's; with less of it the agents learn next to nothing in so short a time.
QUICK_SETTINGS: Settings = (
    ("network.channels", (8,)),
    ("replay.capacity", 20_000),
    ("replay.warm_up", 2_000),
    ("evaluation.interval", 8_000),
    ("evaluation.traces", 60),
)
# A game with long episodes, where moments can be seen; few variants, since it is slower.
QUICK_SECOND = unique(
    (
        *paper.GRANULARITIES,
        *paper.MOMENTS_AT_ONE_RATE,
        *(name for name in paper.STARTS if name.startswith("XU")),
    )
)

_STUDIES = (
    Study(
        name="quick",
        title="Every comparison of the paper on two small games, in minutes",
        grids=(
            *main_grids("classic:cartpole"),
            Grid(QUICK_SECOND, ("minigrid:empty_6x6",)),
        ),
        seeds=2,
        frames=30_000,
        preset="small",
        settings=QUICK_SETTINGS,
    ),
    Study(
        name="small",
        title="Every comparison of the paper on three small games, in an hour or so",
        grids=main_grids("minatar:breakout", "minigrid:door_key_5x5", "classic:cartpole"),
        seeds=3,
        frames=100_000,
        preset="small",
    ),
    Study(
        name="gpu",
        title="Every comparison of the paper on five JAX-native games, on one GPU",
        grids=main_grids(
            *("minatar:breakout", "minatar:space_invaders", "minatar:asterix"),
            *("minatar:freeway", "minigrid:door_key_6x6"),
        ),
        seeds=5,
        frames=2_000_000,
        preset="small",
    ),
    paper.paper_study("paper", "The paper: seven Atari games", paper.EVERYTHING),
    *(
        paper.paper_study(f"paper/{figure}", title, grids)
        for figure, (title, grids) in paper.FIGURES.items()
    ),
)

STUDIES: dict[str, Study] = {
    study.name: study for whole in _STUDIES for study in (whole, tiny(whole))
}


def find(name: str) -> Study:
    """A study by name.

    Raises:
        UnknownStudy: With the nearest names.
    """
    if name in STUDIES:
        return STUDIES[name]
    nearest = difflib.get_close_matches(name.lower(), STUDIES, 3, cutoff=0.5)
    hint = f" Did you mean {' or '.join(nearest)}?" if nearest else ""
    raise UnknownStudy(
        f"There is no study called {name!r}.{hint} `sidequest study --list` has all."
    )

"""Studies as data: grids of variants, games and seeds, and the paper's studies by name.

Figures 1, 2 and 9 of the paper are drawn without runs; `_FIGURES` has the others. The
paper names variants in its text and captions (sections 3.1 to 3.3, appendices B and C); its
legends are images. Where text and captions leave a choice open, a comment says what was
chosen.
"""

import itertools
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from sidequest.config import PRESETS, Config, change
from sidequest.environments import registry
from sidequest.errors import ConfigError, InvalidRequest, unknown
from sidequest.runs.spec import Checkpointing, RunSpec, run_folder
from sidequest.switching.variants import Variant, parse

Settings: TypeAlias = tuple[tuple[str, Any], ...]
"""Changes to a preset, in order, such as `(("replay.ratio", 1.0),)`."""
_LEAST_BETWEEN_CHECKPOINTS = 25_000  # frames: a short run is quicker repeated than resumed


class Grid(NamedTuple):
    """Every variant on every game."""

    variants: tuple[str, ...]
    games: tuple[str, ...]
    settings: Settings = ()
    """Settings on top of the study's; they become a part of the runs' names."""


class Study(NamedTuple):
    """The runs that answer one question."""

    name: str
    title: str
    grids: tuple[Grid, ...]
    """Where grids overlap, there is one run."""
    seeds: int
    frames: int
    preset: Literal["small", "paper"]
    settings: Settings = ()
    """Settings of all runs, on top of the preset."""
    first_seed: int = 0
    workers: int | None = None
    """Processes that train side by side, unless the user chooses."""
    memory: int | None = None
    """Bytes for the frames in replay, on emulators; None: what the device has left."""
    checkpoint_replay: bool = True
    """Whether checkpoints of runs on emulators hold replay."""

    @property
    def games(self) -> tuple[str, ...]:
        return _unique(game for grid in self.grids for game in grid.games)

    @property
    def variants(self) -> tuple[str, ...]:
        return _unique(name for grid in self.grids for name in grid.variants)


class Job(NamedTuple):
    """One run of a study."""

    spec: RunSpec
    """The run; its folder is relative to the study's."""
    settings: Settings
    """Settings that distinguish this run from others of the same variant."""

    @property
    def id(self) -> str:
        """Returns its name, such as `XU-step-level-0.01/frostbite/0`."""
        extra = "".join(f"+{name}={value}" for name, value in self.settings)
        return f"{self.spec.variant}{extra}/{self.spec.game}/{self.spec.seed}"

    def spec_in(self, folder: Path) -> RunSpec:
        """Returns the run with its place in this folder of the study."""
        return self.spec._replace(folder=folder / self.spec.folder)


def jobs_of(study: Study) -> tuple[Job, ...]:
    """Returns all runs of a study, each once, grid by grid."""
    parsed = {name: parse(name) for name in study.variants}
    seeds = range(study.first_seed, study.first_seed + study.seeds)
    every = max(Checkpointing().interval(study.frames), _LEAST_BETWEEN_CHECKPOINTS)
    checkpoints = Checkpointing(min(every, study.frames), study.checkpoint_replay)
    jobs: dict[str, Job] = {}
    for grid in study.grids:
        for game in grid.games:
            config = _config_for(study, grid, game)
            for name, seed in itertools.product(grid.variants, seeds):
                folder = _folder(parsed[name], game, seed, grid.settings)
                spec = RunSpec(
                    *(parsed[name], game, seed, folder, config, study.frames),
                    memory=study.memory,
                    checkpoints=checkpoints,
                )
                job = Job(spec, grid.settings)
                jobs.setdefault(job.id, job)
    return tuple(jobs.values())


def _folder(variant: Variant, game: str, seed: int, settings: Settings) -> Path:
    """Returns for example `XI-intra-…-X-watkins-False/frostbite/seed-0`."""
    extra = "".join(
        f"-{name.split('.')[1]}-{re.sub(r'[^A-Za-z0-9_]+', '_', str(value))}"
        for name, value in settings
    )
    top, *rest = run_folder(Path(), variant, game, seed).parts
    return Path(top + extra, *rest)


def _config_for(study: Study, grid: Grid, game: str) -> Config:
    """Returns the settings of a grid's runs: those of the preset for this kind of game,
    raw frames of emulators or small observations, then the study's, then the grid's."""
    preset = study.preset
    if preset == "paper" and not registry.is_atari(game):
        raise ConfigError(f"the paper's settings are for Atari's frames, not for {game}")
    if preset == "small" and registry.kind(game) == "frames":
        preset = "small-frames"
    return change(PRESETS[preset], **dict(study.settings), **dict(grid.settings))


def narrow(
    study: Study,
    games: Sequence[str] = (),
    variants: Sequence[str] = (),
    seeds: int | None = None,
    first_seed: int | None = None,
    frames: int | None = None,
) -> Study:
    """Returns a part of a study, or one with other numbers; empty and None change nothing.

    A game that the study does not have gets all its variants, and a variant that it does
    not have is run on all its games.
    """
    for game in games:
        registry.check(game)
    names = _unique(str(parse(name)) for name in variants)
    new_games = [game for game in games if game not in study.games]
    known = {str(parse(name)) for name in study.variants}

    def chosen(grid: Grid) -> Grid:
        kept = [game for game in games if game in grid.games or game in new_games]
        wanted = [name for name in grid.variants if str(parse(name)) in names]
        return grid._replace(
            games=tuple(kept) if games else grid.games,
            variants=tuple(wanted) if variants else grid.variants,
        )

    new_variants = tuple(name for name in names if name not in known)
    grids = [*map(chosen, study.grids), Grid(new_variants, tuple(games) or study.games)]
    return study._replace(
        grids=tuple(grid for grid in grids if grid.games and grid.variants),
        seeds=study.seeds if seeds is None else seeds,
        first_seed=study.first_seed if first_seed is None else first_seed,
        frames=study.frames if frames is None else frames,
    )


def find(name: str) -> Study:
    """Returns the study of this name, or raises `InvalidRequest` with the nearest names."""
    if name not in STUDIES:
        raise InvalidRequest(unknown("study", name, STUDIES))
    return STUDIES[name]


def _unique(items: Iterable[Any]) -> tuple:
    """Removes repetitions and keeps the order."""
    return tuple(dict.fromkeys(items))


def _with_modes(modes: str, *settings: str) -> tuple[str, ...]:
    """`_with_modes("XU XI", "step-level-0.01")`: each setting in each explore mode."""
    return tuple(f"{mode}-{setting}" for mode in modes.split() for setting in settings)


_GAMES = (
    *("frostbite", "gravitar", "hero", "montezuma_revenge"),
    *("ms_pacman", "phoenix", "star_gunner"),
)
# Figure 4 shows "a subset of 4"; the text speaks of three of them. Gravitar, the other
# game of figure 5, is the fourth here.
_FOUR_GAMES = ("frostbite", "gravitar", "montezuma_revenge", "phoenix")
_HEADLINE = "intra(10,informed,p*,X)"

_GRANULARITIES = _with_modes(
    "XU XI",
    *("experiment-level-X", "experiment-level-G"),
    *("step-level-0.01", "episode-level-*", _HEADLINE),
)
# Section 3.3 speaks of "an episodic baseline", "blind, doubly adaptive", its informed
# equivalent, and "symmetric, informed". Starting modes are not named; G is the default.
_SPACE = _with_modes(
    "XU XI",
    *("episode-level-*", _HEADLINE, "intra(*,blind,n*,G)"),
    *("intra(*,informed,p*,G)", "intra(=,informed,p*,G)"),
)
# "All variants tried" are not listed; these are all that are named anywhere.
_WIDE_SPACE = _SPACE + _with_modes(
    "XU XI",
    *("intra(100,informed,p*,X)", "intra(=,blind,n*,G)", "intra(=,blind,n*,X)"),
    *("intra(10,blind,n*,G)", "intra(10,blind,p*,G)"),
)
# n_X = 10 and p_X = 0.1 are the caption's, and so are both rates of figure 12.
_MOMENTS_AT_ONE_RATE = ("XU-intra(10,blind,100,G)", "XU-intra(10,informed,0.01,G)")
_MOMENTS = (
    *_MOMENTS_AT_ONE_RATE,
    *("XU-intra(10,blind,1000,G)", "XU-intra(10,informed,0.001,G)"),
)
# Symmetric and blind, by the caption of figure 14.
_STARTS = _with_modes("XU XI", "intra(=,blind,n*,G)", "intra(=,blind,n*,X)")
# XI by the figure's label, XU by its caption. Explore periods of 10 steps and G are our
# choice.
_PARAMETERS = _with_modes("XU XI", "intra(10,blind,n*,G)", "intra(10,blind,p*,G)")
_TRIGGERS = _with_modes(
    "XI",
    *(_HEADLINE, "intra(10,informed:mismatch,p*,X)", "intra(10,informed:variance,p*,X)"),
)
# The variant is not named; it is the headline here. XI cuts traces by default.
_CUTTING = _with_modes("XI", _HEADLINE)
_NO_CUTTING = (("learning.watkins", False),)
# "The same 4 experimental settings" are not named. These differ in granularity and trigger,
# which is what appendix B.1 says XS is less affected by.
_EXPLORE_MODES = _with_modes(
    "XU XS XI",
    *("step-level-0.01", "episode-level-*", _HEADLINE, "intra(*,blind,n*,G)"),
)

_FIGURES = {
    "fig3": ("Four granularities, all games together", (Grid(_GRANULARITIES, _GAMES),)),
    "fig4": ("The space of exploration on four games", (Grid(_SPACE, _FOUR_GAMES),)),
    "fig5": (
        "Blind against informed moments",
        (Grid(_MOMENTS_AT_ONE_RATE, ("frostbite", "gravitar")),),
    ),
    "fig6": ("Starting modes", (Grid(_STARTS, _GAMES),)),
    "fig7": ("Counting steps against tossing a coin", (Grid(_PARAMETERS, ("frostbite",)),)),
    "fig8": ("Three informed triggers", (Grid(_TRIGGERS, _GAMES),)),
    "fig10": ("Four granularities, game by game", (Grid(_GRANULARITIES, _GAMES),)),
    "fig11": ("The space of exploration, all of it", (Grid(_WIDE_SPACE, _GAMES),)),
    "fig12": ("Blind against informed moments, all games", (Grid(_MOMENTS, _GAMES),)),
    "fig13": (
        "Counting steps against tossing a coin, all games",
        (Grid(_PARAMETERS, _GAMES),),
    ),
    "fig14": ("Starting modes and what the bandits prefer", (Grid(_STARTS, _GAMES),)),
    "fig15": (
        "Trace cutting on and off",
        (Grid(_CUTTING, _GAMES), Grid(_CUTTING, _GAMES, _NO_CUTTING)),
    ),
    "fig16": ("Three explore modes on four settings", (Grid(_EXPLORE_MODES, _GAMES),)),
}
"""Figures that need runs: title and grids."""

_EVERYTHING = _unique(grid for _, grids in _FIGURES.values() for grid in grids)

# One or two of everything that the paper's figures compare.
_MAIN_GAMES = ("minatar:breakout", "minigrid:door_key_5x5", "classic:cartpole")
_MAIN_VARIANTS = _unique(
    (*_GRANULARITIES, *_SPACE, *_MOMENTS_AT_ONE_RATE, *_STARTS)
    + (*_PARAMETERS, *_TRIGGERS, *_EXPLORE_MODES)
)


def _paper_study(name: str, title: str, grids: tuple[Grid, ...]) -> Study:
    """Returns a study with the paper's budget of 2 billion frames and 200,000 updates
    (appendix A.3); with these settings that many updates take 2.049 billion frames."""
    return Study(name, title, grids, seeds=3, frames=2_049_000_000, preset="paper")


# Five granularities, a blind and an informed trigger of one rate, and the headline's blind
# partner: one program a game, so that nearly all of a quick study's time goes into seeds.
_QUICK_VARIANTS = (
    *(name for name in _GRANULARITIES if name.startswith("XU")),
    *(*_MOMENTS_AT_ONE_RATE, "XU-intra(10,blind,n*,X)"),
)
# One game with a reward at every step, one with a single reward at the goal.
_QUICK_GAMES = ("classic:cartpole", "minigrid:empty_6x6")
# Fewer filters, and a replay that fits so few frames: for runs of minutes. The replay ratio
# is the preset's; with a lower one the agents learn almost nothing in so short a time.
_QUICK_SETTINGS: Settings = (
    ("network.channels", (8,)),
    ("replay.capacity", 20_000),
    ("replay.ratio", 2.0),
    ("replay.warm_up", 2_000),
    ("evaluation.interval", 5_000),
    ("evaluation.traces", 60),
)

_WHOLE_STUDIES = (
    Study(
        name="quick",
        title="When to explore: eight ways on two small games, in minutes",
        grids=(Grid(_QUICK_VARIANTS, _QUICK_GAMES),),
        seeds=5,
        frames=40_000,
        preset="small",
        settings=_QUICK_SETTINGS,
    ),
    Study(
        name="small",
        title="Every comparison of the paper on three small games, in an hour or two",
        grids=(
            Grid(_MAIN_VARIANTS, _MAIN_GAMES),
            Grid(_CUTTING, _MAIN_GAMES, _NO_CUTTING),
        ),
        seeds=3,
        frames=100_000,
        preset="small",
    ),
    Study(
        name="gpu",
        title="The paper's main comparisons on five JAX-native games, on one GPU",
        grids=(
            Grid(
                (
                    *(name for name in _GRANULARITIES if name.startswith("XU")),
                    *(_MOMENTS_AT_ONE_RATE + _STARTS[:2] + _PARAMETERS[:2]),
                    *_with_modes("XI", "step-level-0.01", "episode-level-*", _HEADLINE),
                ),
                (
                    *("minatar:breakout", "minatar:space_invaders", "minatar:asterix"),
                    *("minatar:freeway", "minigrid:door_key_6x6"),
                ),
            ),
        ),
        seeds=8,
        frames=3_000_000,
        preset="small",
        # While one compiles or writes tables, the others keep the GPU busy.
        workers=4,
    ),
    Study(
        name="atari",
        title="Four granularities on two Atari games, four runs at a time on one GPU",
        grids=(
            Grid(
                (
                    *("XU-step-level-0.01", "XU-episode-level-*"),
                    *_with_modes("XU XI", _HEADLINE),
                ),
                ("ms_pacman", "frostbite"),
            ),
        ),
        seeds=3,
        frames=20_000_000,
        preset="paper",
        # A hundredth of the paper's frames: each is replayed more often, by actors with
        # newer parameters.
        settings=(
            ("acting.environments", 384),
            ("acting.sync_interval", 40),
            ("replay.ratio", 6.0),
        ),
        workers=4,
        memory=12 * 10**9,
        checkpoint_replay=False,
    ),
    _paper_study("paper", "The paper: seven Atari games", _EVERYTHING),
    *(
        _paper_study(f"paper/{figure}", title, grids)
        for figure, (title, grids) in _FIGURES.items()
    ),
)

# Games with episodes of a few steps, for studies of test size that take a minute.
_TINY_GAMES = ("probe:memory_10", "probe:two_step")
_TINY_SETTINGS: Settings = (
    ("network.pre_units", 8),
    ("network.core_units", 8),
    ("network.post_units", 0),
    ("network.head_units", 8),
    ("acting.environments", 8),
    ("replay.capacity", 4_000),
    ("replay.warm_up", 500),
    ("learning.batch_size", 8),
    ("novelty.units", 8),
    ("evaluation.interval", 1_000),
    ("evaluation.episodes", 2),
    ("evaluation.traces", 20),
)


def _tiny(study: Study) -> Study:
    """Returns a study of test size with the same variants, on tasks of a few steps."""
    tiny = dict(zip(study.games, _TINY_GAMES, strict=False))
    games = [[tiny.get(game, _TINY_GAMES[0]) for game in one.games] for one in study.grids]
    return Study(
        name=f"{study.name}/tiny",
        title=f"{study.title} (test size)",
        grids=tuple(
            grid._replace(games=_unique(own))
            for grid, own in zip(study.grids, games, strict=True)
        ),
        seeds=1,
        frames=4_096,
        preset="small",
        settings=_TINY_SETTINGS,
    )


STUDIES: dict[str, Study] = {
    study.name: study for whole in _WHOLE_STUDIES for study in (whole, _tiny(whole))
}
"""All studies by name, each followed by its version of test size, `NAME/tiny`."""

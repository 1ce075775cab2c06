"""Studies as data: grids of variants, games and seeds, and the runs that they come to."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from sidequest.config import PRESETS, Config, change
from sidequest.environments import registry
from sidequest.errors import ConfigError
from sidequest.runs.spec import RunSpec, folder_name
from sidequest.switching.variants import Variant, parse

Settings: TypeAlias = tuple[tuple[str, Any], ...]
"""Such as `(("replay.ratio", 1.0),)`: changes to a preset, in order."""

# Games with episodes of a few steps, for twins that test the whole way in seconds.
STAND_INS = ("probe:memory_10", "probe:two_step")
TINY_FRAMES = 4_096
TINY: Settings = (
    ("network.pre_units", 8),
    ("network.core_units", 8),
    ("network.post_units", 0),
    ("network.head_units", 8),
    ("acting.streams", 8),
    ("replay.capacity", 4_000),
    ("replay.warm_up", 500),
    ("learning.batch_size", 8),
    ("novelty.units", 8),
    ("evaluation.interval", 1_000),
    ("evaluation.episodes", 2),
    ("evaluation.traces", 20),
)


class Grid(NamedTuple):
    """Every variant on every game."""

    variants: tuple[str, ...]
    games: tuple[str, ...]
    settings: Settings = ()
    """On top of the study's; they become a part of the runs' names."""


class Study(NamedTuple):
    """What is run to answer a question."""

    name: str
    title: str
    grids: tuple[Grid, ...]
    """Where they overlap, the run is made once."""
    seeds: int
    frames: int
    preset: Literal["small", "paper"]
    settings: Settings = ()
    """Of all runs, on top of the preset."""

    @property
    def games(self) -> tuple[str, ...]:
        return unique(game for grid in self.grids for game in grid.games)

    @property
    def variants(self) -> tuple[str, ...]:
        return unique(name for grid in self.grids for name in grid.variants)


class Job(NamedTuple):
    """One run of a study."""

    variant: Variant
    game: str
    seed: int
    frames: int
    preset: str
    base: Settings
    """Of the study."""
    settings: Settings
    """That set this run apart from others of the same variant."""

    @property
    def id(self) -> str:
        """`XI-intra(10,informed,p*,X)+learning.watkins=False/frostbite/0`."""
        extra = "".join(f"+{name}={value}" for name, value in self.settings)
        return f"{self.variant}{extra}/{self.game}/{self.seed}"

    @property
    def folder(self) -> Path:
        """Inside the study's folder: `XI-intra-…-X-watkins-False/frostbite/seed-0`."""
        extra = "".join(
            f"-{name.split('.')[1]}-{re.sub(r'[^A-Za-z0-9_]+', '_', str(value))}"
            for name, value in self.settings
        )
        game = self.game.replace(":", "-")
        return Path(folder_name(self.variant) + extra, game, f"seed-{self.seed}")

    @property
    def config(self) -> Config:
        return change(PRESETS[self.preset], **dict(self.base), **dict(self.settings))

    def spec(self, study_folder: Path) -> RunSpec:
        folder = study_folder / self.folder
        return RunSpec(self.variant, self.game, self.seed, folder, self.config, self.frames)


def jobs_of(study: Study) -> tuple[Job, ...]:
    """All runs of a study, each once, grid by grid."""
    parsed = {name: parse(name) for name in study.variants}
    return unique(
        Job(
            variant=parsed[name],
            game=game,
            seed=seed,
            frames=study.frames,
            preset=preset_for(study.preset, game),
            base=study.settings,
            settings=grid.settings,
        )
        for grid in study.grids
        for game in grid.games
        for name in grid.variants
        for seed in range(study.seeds)
    )


def preset_for(preset: str, game: str) -> str:
    """The preset by its kind of game: raw frames of emulators, or small observations."""
    if is_atari(game):
        return {"small": "small-frames"}.get(preset, preset)
    if preset == "paper":
        raise ConfigError(f"the paper's settings are for Atari's frames, not for {game}")
    return preset


def is_atari(game: str) -> bool:
    return ":" not in game


def narrow(
    study: Study,
    games: Sequence[str] = (),
    variants: Sequence[str] = (),
    seeds: int | None = None,
    frames: int | None = None,
) -> Study:
    """A part of a study, or one with other numbers; empty and None leave things be.

    A game that the study does not have gets all its variants, and a variant that it does
    not have is run on all its games.
    """
    for game in games:
        registry.check(game)
    names = unique(str(parse(name)) for name in variants)
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
        frames=study.frames if frames is None else frames,
    )


def tiny(study: Study) -> Study:
    """The twin of a study that takes a minute: all variants, on tasks of a few steps."""
    stand_ins = dict(zip(study.games, STAND_INS, strict=False))
    grids = [
        grid._replace(
            games=unique(stand_ins.get(game, STAND_INS[0]) for game in grid.games)
        )
        for grid in study.grids
    ]
    return Study(
        name=f"{study.name}/tiny",
        title=f"{study.title} (test size)",
        grids=tuple(grids),
        seeds=1,
        frames=TINY_FRAMES,
        preset="small",
        settings=TINY,
    )


def unique(items) -> tuple:
    """Without repetitions, in order."""
    return tuple(dict.fromkeys(items))

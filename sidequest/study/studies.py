"""Studies as data: grids of variants, games and seeds. studies.toml has them all."""

import itertools
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from sidequest.config import PRESETS, Config, change, check, evaluate_often
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
    """Bytes for the frames in replay, on Atari; None: what the device has left."""
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
            memory = study.memory if registry.is_atari(game) else None
            for name, seed in itertools.product(grid.variants, seeds):
                folder = _folder(parsed[name], game, seed, grid.settings)
                spec = RunSpec(
                    variant=parsed[name],
                    game=game,
                    seed=seed,
                    folder=folder,
                    config=config,
                    frames=study.frames,
                    memory=memory,
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
    raw frames of emulators or small observations, then the study's, then the grid's; raises
    `InvalidRequest` if these do not fit that preset."""
    preset = PRESETS[registry.fitting_preset(study.preset, game)]
    settings = dict(study.settings + grid.settings)
    config = change(evaluate_often(preset, study.frames), **settings)
    try:
        check(config)
    except ConfigError as fault:
        said = f"the settings of the study {study.name} do not fit {game}: {fault}"
        raise InvalidRequest(said) from None
    return config


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
    own = f"A study of your own, with the settings of {study.name}"
    grids = [*map(chosen, study.grids), Grid(new_variants, tuple(games) or study.games)]
    return study._replace(
        title=own if new_games or new_variants else study.title,
        grids=tuple(grid for grid in grids if grid.games and grid.variants),
        seeds=study.seeds if seeds is None else seeds,
        first_seed=study.first_seed if first_seed is None else first_seed,
        frames=study.frames if frames is None else frames,
    )


def find(name: str) -> Study:
    """Returns the study of this name, or raises `InvalidRequest` with the nearest names."""
    if name not in STUDIES:
        said = unknown("study", name, STUDIES, "sidequest study --list")
        raise InvalidRequest(
            f"{said} (one of your own: any of them with --variants, --games and --out)"
        )
    return STUDIES[name]


def _unique(items: Iterable[Any]) -> tuple:
    """Removes repetitions and keeps the order."""
    return tuple(dict.fromkeys(items))


def _read_studies() -> dict[str, Study]:
    """Reads studies.toml; each study is followed by its version of test size."""
    content = tomllib.loads((files(__package__ or "") / "studies.toml").read_text())
    lists, tiny, paper = content["lists"], content["tiny"], content["paper"]

    def members(names: Iterable[str]) -> tuple[str, ...]:
        found = (members(lists[name]) if name in lists else [name] for name in names)
        return _unique(itertools.chain(*found))

    def settings(changes: Mapping[str, Any]) -> Settings:
        def value(given: Any) -> Any:
            if given == "none":  # TOML has no null
                return None
            return tuple(given) if isinstance(given, list) else given

        return tuple((name, value(given)) for name, given in changes.items())

    def make(entry: dict[str, Any]) -> Study:
        grids = (
            Grid(
                members(grid["variants"]),
                members(grid["games"]),
                settings(grid.get("settings", {})),
            )
            for grid in entry["grids"]
        )
        own = {"grids": _unique(grids), "settings": settings(entry.get("settings", {}))}
        return Study(**entry | own)

    def shrink(study: Study) -> Study:
        smaller = dict.fromkeys(study.games, tiny["games"][0])
        smaller |= zip(study.games, tiny["games"], strict=False)
        grids = (
            grid._replace(games=_unique(smaller[game] for game in grid.games))
            for grid in study.grids
        )
        return Study(
            name=f"{study.name}/tiny",
            title=f"{study.title} (test size)",
            grids=tuple(grids),
            seeds=tiny["seeds"],
            frames=tiny["frames"],
            preset=tiny["preset"],
            settings=settings(tiny["settings"]),
        )

    figures = paper.pop("figures")
    everything = [grid for figure in figures.values() for grid in figure["grids"]]
    entries = [
        *content["studies"],
        paper | {"name": "paper", "grids": everything},
        *(paper | own | {"name": f"paper/{name}"} for name, own in figures.items()),
    ]
    whole = map(make, entries)
    return {study.name: study for one in whole for study in (one, shrink(one))}


STUDIES = _read_studies()
"""All studies by name, each followed by its version of test size, `NAME/tiny`."""

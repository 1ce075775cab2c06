"""From a folder of runs to what the figures draw. Nothing here needs JAX.

A folder is a study's, with `study.json` that says what was planned, or any other folder
with runs below it. Runs may be finished, going, or cut short. One whose files cannot be
read, such as a table that was torn when a disk failed, is left out, and told.
"""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars
from jaxtyping import Float

from sidequest.errors import CorruptFile, VariantError
from sidequest.figures.files import GROWING, check_tables, read_whole_table
from sidequest.records import RUN_FILE, read_run, read_study
from sidequest.switching.variants import Variant, parse


class Run(NamedTuple):
    """One run and where its tables are."""

    folder: Path
    variant: str
    game: str
    seed: int
    frames: int
    """The budget."""
    frames_done: int
    finished: bool
    settings: dict[str, Any]
    """Settings by dotted name in which a run differs from the preset, if a study says so;
    else those in which it differs from other runs of the same game."""
    info: dict[str, Any]
    """What run.json says."""


class LeftOut(NamedTuple):
    """A run that cannot be read."""

    folder: Path
    reason: str
    """One sentence, with the file."""


class Records(NamedTuple):
    """All runs below a folder."""

    name: str
    title: str
    folder: Path
    runs: tuple[Run, ...]
    missing: tuple[dict, ...]
    """Planned in study.json, but without a folder yet."""
    left_out: tuple[LeftOut, ...] = ()


def read_records(folder: Path) -> Records:
    """Finds the runs below a folder, in the study's order or else by their path.

    Of two runs of the same kind and seed, such as one started twice into two folders,
    the one that went further counts.

    Raises:
        CorruptFile: If study.json cannot be read.
    """
    plan = read_study(folder)
    planned = {folder / item["folder"]: item for item in plan.get("runs", [])}
    found = {path.parent for path in folder.rglob(RUN_FILE)}
    # Set aside by `--fresh`.
    found = {one for one in found if ".old-" not in one.name}
    ordered = [one for one in planned if one in found] + sorted(found - planned.keys())
    infos: dict[Path, dict[str, Any]] = {}
    left_out = []
    for one in ordered:
        try:
            info = read_run(one)
            if _is_a_run(info):
                check_tables(one)
                infos[one] = info
        except CorruptFile as fault:
            left_out.append(LeftOut(one, str(fault)))
    derived = _differing_settings(infos)
    runs = [
        _make_run(
            one,
            info,
            planned.get(one, {}).get("frames", info.get("frames", 0)),
            planned[one].get("settings", {}) if one in planned else derived[one],
        )
        for one, info in infos.items()
    ]
    return Records(
        name=plan.get("name", folder.resolve().name),
        title=plan.get("title", folder.resolve().name),
        folder=folder,
        runs=_furthest(runs),
        missing=tuple(item for one, item in planned.items() if one not in found),
        left_out=tuple(left_out),
    )


def table(run: Run, name: str) -> polars.DataFrame:
    """One of a run's tables; an empty frame if it has none. Read once while it is new.

    Raises:
        CorruptFile: If its file cannot be read.
    """
    return read_whole_table(run.folder, name)


def column(run: Run, name: str, *wanted: str) -> tuple[Float[np.ndarray, "N"], ...]:
    """Columns of a run's table as floats, NaN where there is no number; empty if none."""
    frame = table(run, name)
    return tuple(
        frame[one].cast(polars.Float64, strict=False).fill_null(np.nan).to_numpy()
        if one in frame.columns
        else np.full(len(frame), np.nan)
        for one in wanted
    )


def variant_of(run: Run) -> Variant | None:
    """The structure behind a run's name; None for a name that this version cannot read."""
    return read_variant(run.variant)


@cache
def read_variant(name: str) -> Variant | None:
    try:
        return parse(name)
    except VariantError:
        return None


def uses_watkins(run: Run) -> bool:
    """Whether traces are cut where the action was not greedy: Watkins' Q(lambda).

    The setting decides; where it is left open, variants with an intrinsic reward cut.
    """
    config = run.info.get("config", {}).get("learning", {})
    chosen = run.settings.get("learning.watkins", config.get("watkins"))
    variant = variant_of(run)
    return bool(variant and variant.mode == "XI") if chosen is None else bool(chosen)


def plain_runs(records: Records) -> list[Run]:
    """Runs that may be pooled: of each variant on each game those of the usual settings.

    A probe, such as trace cutting on and off, runs a variant with other settings beside
    the usual ones. The usual settings are the most frequent; of equally frequent ones
    the shortest, which is the study's default.
    """
    cells: dict[tuple[str, str], dict[str, list[Run]]] = {}
    for run in records.runs:
        kinds = cells.setdefault((run.variant, run.game), {})
        kinds.setdefault(_settings_key(run), []).append(run)
    usual = {
        cell: max(kinds, key=lambda kind: (len(kinds[kind]), -len(kind)))
        for cell, kinds in cells.items()
    }
    return [
        run for run in records.runs if _settings_key(run) == usual[run.variant, run.game]
    ]


def games_of(runs: Iterable[Run]) -> list[str]:
    return list(dict.fromkeys(run.game for run in runs))


def variants_of(runs: Iterable[Run]) -> list[str]:
    return list(dict.fromkeys(run.variant for run in runs))


def on_game(runs: Iterable[Run], game: str) -> list[Run]:
    return [run for run in runs if run.game == game]


def runs_of(runs: Iterable[Run], variant: str, game: str) -> list[Run]:
    """The seeds of one variant on one game."""
    return [run for run in runs if (run.variant, run.game) == (variant, game)]


_NONE = object()


def _is_a_run(info: Mapping[str, Any]) -> bool:
    return {"variant", "game", "seed"} <= info.keys()


def _make_run(
    folder: Path, info: dict[str, Any], frames: int, settings: dict[str, Any]
) -> Run:
    finished = bool(info.get("finished"))
    run = Run(
        folder=folder,
        variant=info["variant"],
        game=info["game"],
        seed=info["seed"],
        frames=int(frames),
        frames_done=0,
        finished=finished,
        settings=settings,
        info=info,
    )
    return run._replace(frames_done=_frames_done(run))


def _frames_done(run: Run) -> int:
    """The newest row of the tables that grow as it goes."""
    newest = 0.0
    for name in GROWING:
        (frames,) = column(run, name, "frames")
        newest = max([newest, *frames[-1:]])
    return int(newest)


def _differing_settings(infos: Mapping[Path, dict]) -> dict[Path, dict[str, Any]]:
    """Without a plan: what differs between the configs of the runs of a game."""
    flat = {one: _flatten(info.get("config") or {}) for one, info in infos.items()}
    differing = {}
    for one, info in infos.items():
        others = [flat[other] for other in infos if infos[other]["game"] == info["game"]]
        differing[one] = {
            key: value
            for key, value in flat[one].items()
            if any(other.get(key, _NONE) != value for other in others)
        }
    return differing


def _flatten(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat = {}
    for key, value in config.items():
        if isinstance(value, Mapping):
            flat |= _flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _settings_key(run: Run) -> str:
    return json.dumps(run.settings, sort_keys=True)


def _furthest(runs: list[Run]) -> tuple[Run, ...]:
    best: dict[tuple, Run] = {}
    for run in runs:
        kind = (run.variant, run.game, run.seed, _settings_key(run))
        if kind not in best or run.frames_done > best[kind].frames_done:
            best[kind] = run
    return tuple(best.values())

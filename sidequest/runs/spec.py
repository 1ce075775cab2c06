"""What one run is, and where it is written. Nothing here needs JAX."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from sidequest.config import (
    WITHOUT_EFFECT,
    Config,
    check,
    flatten,
    from_dict,
    recorded,
)
from sidequest.errors import InvalidRequest
from sidequest.records import RUN_FILE, plain, read_run
from sidequest.switching.variants import Variant, parse

_LONGEST_INTERVAL = 100_000_000


class Checkpointing(NamedTuple):
    """Says when checkpoints are written, and what they hold."""

    every: int | None = None
    """Frames between two checkpoints; None: see `interval`."""
    replay: bool = True
    """Whether checkpoints of hosted runs hold replay. Without it, a resumed run fills its
    replay again before it learns."""

    def interval(self, total: int) -> int:
        """Returns the frames between two checkpoints of a run of `total` frames.

        The default is a tenth of the run, so that no more than that is ever lost, and at
        most 40 minutes at the paper's 46 thousand frames a second.
        """
        return self.every or max(1, min(total // 10, _LONGEST_INTERVAL))


class RunSpec(NamedTuple):
    """One run: what is trained, how, for how long, and where its records go."""

    variant: Variant
    game: str
    seed: int
    folder: Path
    config: Config
    frames: int
    """Environment frames to train for."""
    memory: int | None = None
    """Bytes for the frames in replay, on emulators; None: what the device has left."""
    checkpoints: Checkpointing = Checkpointing()


def identity(spec: RunSpec) -> dict[str, Any]:
    """Returns what must be equal for a folder or a checkpoint to belong to this run, except
    settings `WITHOUT_EFFECT`; its memory and its checkpoints may change too."""
    head = {"variant": str(spec.variant), "game": spec.game, "seed": spec.seed}
    return plain({**head, "frames": spec.frames, **flatten(spec.config)})


def recorded_identity(run: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the identity of the run that a run.json describes."""
    head = {name: run.get(name) for name in ("variant", "game", "seed", "frames")}
    return {**head, **recorded(run.get("config", {}), str(run.get("game")))}


def is_finished(spec: RunSpec) -> bool:
    """Returns whether the folder holds the finished run.

    Raises:
        InvalidRequest: If the folder holds another run.
    """
    if not (spec.folder / RUN_FILE).exists():
        return False
    run = read_run(spec.folder)
    refuse_other(spec.folder, recorded_identity(run), identity(spec))
    return bool(run.get("finished"))


def read_spec(folder: Path) -> RunSpec:
    """Returns the run that the run.json in a folder describes.

    Raises:
        InvalidRequest: If run.json lacks something.
    """
    run = read_run(folder)
    try:
        config = from_dict(run["config"], run["game"])
        check(config)
        checkpoints = run.get("checkpoints", run.get("saving", {}))  # its former name
        return RunSpec(
            variant=parse(run["variant"]),
            game=run["game"],
            seed=run["seed"],
            folder=folder,
            config=config,
            frames=run["frames"],
            memory=run.get("memory"),
            checkpoints=Checkpointing(**checkpoints),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise InvalidRequest(
            f"{folder / RUN_FILE} does not describe a run: {error} is missing or invalid"
        ) from None


def refuse_other(path: Path, theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> None:
    """Raises `InvalidRequest` unless both are the same run; it says what differs."""
    differing = [
        f"{key} is {theirs.get(key, 'not set')}, here {ours.get(key, 'not set')}"
        for key in dict.fromkeys([*ours, *theirs])
        if key not in WITHOUT_EFFECT and theirs.get(key, ...) != ours.get(key, ...)
    ]
    if differing:
        raise InvalidRequest(
            f"{path} belongs to another run: {'; '.join(differing)}; choose another folder"
        )


def run_folder(out: Path, variant: Variant, game: str, seed: int) -> Path:
    """Returns the folder of a run's records below `out`."""
    place = re.sub(r"[^A-Za-z0-9_.-]", "-", game)
    return out / folder_name(variant) / place / f"seed-{seed}"


def folder_name(variant: Variant) -> str:
    """Returns a variant's name in letters, digits and hyphens, for paths and shells."""
    spoken = {"*": "star", "=": "same", "γ": "gamma", "%": "percent", ".": "_"}
    text = "".join(spoken.get(letter, letter) for letter in str(variant))
    return re.sub(r"[^A-Za-z0-9_]+", "-", text).strip("-")

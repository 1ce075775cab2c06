"""Where runs stand: finished, cut off with a checkpoint, or not begun.

A run is known by its `identity`, which is in its checkpoints and can be read off run.json.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax

from sidequest.config import Config, flatten, recorded
from sidequest.errors import NoCheckpoint, resume_command
from sidequest.records import (
    RUN_FILE,
    Recorder,
    describe_machine,
    now,
    plain,
    read_run,
)
from sidequest.runs import checkpoint
from sidequest.runs.manifest import Manifest, refuse_other
from sidequest.runs.pace import Pace
from sidequest.runs.spec import RunSpec

MACHINE = ("versions", "python", "cores", "device")
"""What may change between two sittings of a run, though the last bits may change too."""


class Standing(NamedTuple):
    """Where one run goes on."""

    run: RunSpec
    manifest: Manifest | None
    """Of the checkpoint; None: from the beginning."""
    state: Any
    """What the checkpoint holds."""
    company: bool = False
    """Whether it was begun beside other runs; see `members.devices_for`."""

    @property
    def frames(self) -> int:
        return self.manifest.frames if self.manifest else 0


def identity(run: RunSpec, config: Config, frames: int) -> dict[str, Any]:
    """What must be the same for a checkpoint to be of this run."""
    head = {"variant": str(run.variant), "game": run.game, "seed": run.seed}
    return plain({**head, "frames": frames, **flatten(config)})


def describe_run(
    run: RunSpec, config: Config, frames: int, pace: Pace, **more: Any
) -> dict[str, Any]:
    """What run.json says; `identity_of` reads it."""
    devices = jax.local_devices()
    return {
        "variant": str(run.variant),
        "game": run.game,
        "seed": run.seed,
        "frames": frames,
        "config": dataclasses.asdict(config),
        "pace": pace._asdict(),
        "device": f"{len(devices)} x {devices[0].device_kind}",
        **more,
        **describe_machine(),
    }


def identity_of(said: Mapping[str, Any]) -> dict[str, Any]:
    """The identity of the run that a run.json describes."""
    head = {name: said.get(name) for name in ("variant", "game", "seed", "frames")}
    return {**head, **recorded(said.get("config", {}))}


def is_finished(folder: Path, run: Mapping[str, Any]) -> bool:
    """Whether the folder holds the finished run; raises `OtherRun` if another's."""
    if not (folder / RUN_FILE).exists():
        return False
    said = read_run(folder)
    refuse_other(folder, identity_of(said), run)
    return bool(said.get("finished"))


def find_standing(
    run: RunSpec,
    wanted: Mapping[str, Any],
    like: Any,
    say: Callable[[str], None],
    **how: Any,
) -> Standing:
    """Looks for the newest good checkpoint of a run.

    Args:
        wanted: The run's `identity`.
        like: The structure of its state.
        how: Goes to `checkpoint.newest`.

    Raises:
        NoCheckpoint: If there are checkpoints, but none is good.
    """
    found = checkpoint.newest(run.folder, like, say, run=wanted, **how)
    if found:
        return Standing(run, *found)
    if checkpoint.listed(run.folder):
        raise NoCheckpoint(
            f"{run.folder} cannot go on: none of its checkpoints can be used. "
            f"{resume_command([run.folder])} --fresh sets the folder aside and starts anew"
        )
    return Standing(run, None, None)


def reopen(standing: Standing, said: Mapping[str, Any], say: Callable) -> Recorder:
    """The recorder of a run that is begun or goes on.

    Args:
        said: What run.json would say if the run was begun now.
    """
    folder = standing.run.folder
    if not (folder / RUN_FILE).exists():
        return Recorder(folder, said)
    changed = {
        name: [before, plain(said[name])]
        for name, before in read_run(folder).items()
        if name in MACHINE and before != plain(said[name])
    }
    for name, (before, here) in changed.items():
        say(f"{folder} began with {name} {before}, now {here}: the last bits may differ")
    played = standing.manifest is not None or any(folder.glob("*.jsonl"))
    if played and standing.manifest is None:
        say(f"{folder} has no checkpoint yet: it starts from the beginning")
    note = {"frames": standing.frames, "time": now(), "command": said["command"]}
    sizes = standing.manifest.records if standing.manifest else {}
    is_new = not (played or changed)  # its folder was made, and nothing more
    return Recorder.resume(folder, sizes, None if is_new else {**note, "changed": changed})


def by_progress(standings: Sequence[Standing]) -> list[list[Standing]]:
    """Groups of runs that are equally far, and were begun alike, in company or alone; the
    most advanced first."""
    groups: dict[tuple[int, bool], list[Standing]] = {}
    for standing in standings:
        groups.setdefault((standing.frames, standing.company), []).append(standing)
    return [groups[key] for key in sorted(groups, reverse=True)]

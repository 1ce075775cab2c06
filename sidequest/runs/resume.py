"""Where runs stand: finished, cut off with a checkpoint, or not begun.

A run is known by its `identity`, which is in its checkpoints and can be read off run.json.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax

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
from sidequest.runs.manifest import Manifest
from sidequest.runs.pace import Pace
from sidequest.runs.spec import RunSpec, identity

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


def describe_run(run: RunSpec, pace: Pace, **more: Any) -> dict[str, Any]:
    """Returns the content of a new run.json."""
    devices = jax.local_devices()
    return {
        "variant": str(run.variant),
        "game": run.game,
        "seed": run.seed,
        "frames": run.frames,
        "config": dataclasses.asdict(run.config),
        "pace": pace._asdict(),
        "device": f"{len(devices)} x {devices[0].device_kind}",
        **more,
        **describe_machine(),
    }


def find_standing(
    run: RunSpec,
    like: Any,
    say: Callable[[str], None],
    **how: Any,
) -> Standing:
    """Looks for the newest good checkpoint of a run.

    Args:
        like: The structure of its state.
        how: Goes to `checkpoint.newest`.

    Raises:
        NoCheckpoint: If there are checkpoints, but none is good.
    """
    found = checkpoint.newest(run.folder, like, say, run=identity(run), **how)
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

"""What `sidequest train` is to do: runs from the command line, or from folders."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from sidequest.errors import InvalidRequest
from sidequest.records import (
    RUN_FILE,
    RunExists,
    read_run,
    refuse_existing,
)
from sidequest.runs.process import lock_folders
from sidequest.runs.spec import Checkpointing, RunSpec, read_spec, run_folder


class Launch(NamedTuple):
    """Runs that are launched together."""

    runs: list[RunSpec]
    memory: int | None
    checkpoints: Checkpointing

    def checkpointing(self, every: int | None, replay: bool | None) -> "Launch":
        """Returns it with the options given about checkpoints."""
        checkpoints = self.checkpoints
        if every:
            checkpoints = checkpoints._replace(every=every)
        if replay is not None:
            checkpoints = checkpoints._replace(replay=replay)
        return self._replace(checkpoints=checkpoints)


def launches_to_resume(folders: Sequence[Path]) -> list[Launch]:
    """Runs of the same kind are launched together, as they were when they began."""
    launches: dict[str, Launch] = {}
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise InvalidRequest("a folder is named twice")
    for folder in folders:
        said = read_run(folder)
        if said.get("finished"):
            raise InvalidRequest(f"{folder} has finished; there is nothing to go on with")
        one = launch_of(folder)
        run = one.runs[0]
        key = repr((run.game, run.config, run.frames, one.memory, one.checkpoints))
        if key in launches:
            launches[key].runs.extend(one.runs)
        else:
            launches[key] = one
    return list(launches.values())


def again(folder: Path, out: Path) -> Launch:
    """The same run from its beginning, in a folder below `out`."""
    one = launch_of(folder)
    run = one.runs[0]
    place = run_folder(out, run.variant, run.game, run.seed)
    if place.resolve() == folder.resolve():
        raise InvalidRequest(
            f"{folder} is the run itself; choose another folder with --out"
        )
    return one._replace(runs=[run._replace(folder=place)])


def launch_of(folder: Path) -> Launch:
    """Returns one run as its run.json describes it."""
    from sidequest.environments import registry

    spec, run = read_spec(folder), read_run(folder)
    registry.check(spec.game)
    checkpoints = run.get("checkpoints", run.get("saving", {}))  # its former name
    return Launch([spec], run.get("memory"), Checkpointing(**checkpoints))


def fresh_folders(one: Launch, fresh: bool, may_go_on: bool) -> None:
    """Sets aside what is there, if asked to; refuses it if it is in the way."""
    for run in one.runs:
        if not (run.folder / RUN_FILE).exists():
            continue
        if fresh:
            set_aside(run.folder)
        elif not may_go_on:
            try:
                refuse_existing(run.folder)
            except RunExists as there:
                raise RunExists(f"{there}; --fresh sets it aside") from None


def set_aside(folder: Path) -> Path:
    """Renames a run's folder to the next free name beside it."""
    names = (folder.with_name(f"{folder.name}.old-{n}") for n in range(1, 10_000))
    aside = next(name for name in names if not name.exists())
    with lock_folders([folder]):
        folder.rename(aside)
    return aside

"""Trains runs, compiled or on emulators, from their settings to finished records.

Starting the same runs again is always right: finished runs are skipped, interrupted ones
resume from their newest good checkpoint, and the others begin. The life of every run is
`run`, then `_train`, then `_finish`; what comes after is detail.
"""

import contextlib
import dataclasses
import math
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

from sidequest.config import check
from sidequest.environments import registry
from sidequest.environments.base import CompiledEnvironment
from sidequest.errors import (
    ConfigError,
    Diverged,
    Interrupted,
    MachineError,
    resume_command,
)
from sidequest.records import (
    RUN_FILE,
    Recorder,
    describe_machine,
    now,
    plain,
    read_run,
    write_json,
)
from sidequest.runs import checkpoint, hosted, ondevice
from sidequest.runs.build import Agent, Chunk
from sidequest.runs.checkpoint import (
    CheckpointWriter,
    ResumePoint,
    Snapshot,
    find_resume_point,
)
from sidequest.runs.display import Display, Progress, ProgressMeter
from sidequest.runs.memory import replay_memory
from sidequest.runs.process import LOCK, StopSignal, lock_folders
from sidequest.runs.spec import (
    DEFAULT_CHECKPOINTS,
    Checkpointing,
    RunSpec,
    identity,
    is_finished,
)
from sidequest.runs.tables import Clock, RunLog

DIVERGED_FILE = "not_finite.json"
_FLUSHED_EVERY = 2.0
"""Seconds after which other processes see new rows: for many runs that takes a while."""
_TOLERATED = 2
"""Updates in a row that may be skipped because they were not finite."""
_MACHINE = ("versions", "python", "cores", "device")
"""What may change when a run resumes, though the last bits may change too."""


@runtime_checkable
class Runtime(Protocol):
    """Runs that train together: a compiled population, or one run on emulators."""

    resumes_episodes: bool
    """Whether a resumed run continues its episodes; new emulators start new ones."""

    @property
    def frames(self) -> int:
        """Frames of each run so far."""
        ...

    def advance(self) -> Chunk:
        """Trains for a while; returns what was recorded."""
        ...

    def snapshot(self, replay: bool) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Returns the arrays and the counters of each run, with or without replay."""
        ...

    def parameters(self) -> list:
        """Returns the newest Q-function of each run."""
        ...

    def report(self) -> str:
        """Returns a line to show at the end, if there is one."""
        ...

    def close(self) -> None:
        """Ends what it has started."""
        ...


@runtime_checkable
class Backend(Protocol):
    """What runs with the same heads share, and where they train."""

    agent: Agent
    state_spec: dict[str, Any]
    """Shapes of one run's state, as in checkpoints."""
    memory: int | None
    """Bytes for the frames in replay, on emulators."""
    parallel: bool
    """Whether runs train side by side; else in turn, with their state on the device."""

    def start(self, points: Sequence[ResumePoint], display: Display) -> Runtime:
        """Starts runs that are equally far."""
        ...


def run(
    runs: Sequence[RunSpec],
    display: Display,
    *,
    memory: int | None = None,
    checkpoints: Checkpointing = DEFAULT_CHECKPOINTS,
) -> None:
    """Trains runs: side by side where the game is compiled, in turn on emulators.

    Args:
        runs: Runs of one game, with one config and one number of frames. Those whose
            variants need the same heads share a program.
        memory: Bytes for the frames in replay, on emulators.

    Raises:
        SidequestError: If a run ended before its time, with all of them saved as they are.
    """
    check(runs[0].config)
    runs = [spec for spec in runs if not is_finished(spec)]
    if not runs:
        return
    groups = _group_by_heads(runs)
    backends = _make_backends(groups, memory, display)
    folders = [spec.folder for spec in runs]
    with lock_folders(folders), StopSignal(display.say) as stop, _explain_failures(runs):
        # Another process may have finished some before they were locked.
        groups = [[spec for spec in group if not is_finished(spec)] for group in groups]
        for backend, group in zip(backends, groups, strict=True):
            for spec in group:
                _create_folder(spec, backend, checkpoints, sharded=len(group) > 1)
        for backend, group in zip(backends, groups, strict=True):
            for batch in [group] if backend.parallel else [[spec] for spec in group]:
                for points in _resume_points(backend, batch, display):
                    _train(backend, points, display, checkpoints, stop)


def _train(
    backend: Backend,
    points: Sequence[ResumePoint],
    display: Display,
    checkpoints: Checkpointing,
    stop: StopSignal,
) -> None:
    """Trains runs that are equally far, from there to their end or to an interruption."""
    total = points[0].spec.frames
    folders = [point.spec.folder for point in points]
    every, resumed_at = checkpoints.interval(total), points[0].frames
    with (
        closing(_GroupLog(backend, points, display)) as log,
        closing(backend.start(points, display)) as runtime,
        CheckpointWriter(folders, every, display, resumed_at) as writer,
    ):
        log.restore(points, runtime.resumes_episodes)

        def take_snapshots() -> dict[Path, Snapshot]:
            snapshots = log.snapshots(runtime, checkpoints.replay)
            for folder, snapshot in snapshots.items():
                _refuse_not_finite(folder, snapshot.state["run"].learner)
            return snapshots

        if stop.requested:
            raise Interrupted(f"stopped at {runtime.frames:,} frames")
        while runtime.frames < total:
            before = runtime.frames
            chunk = runtime.advance()
            display.show(log.write(chunk, runtime.frames))
            _stop_if_diverged(log, runtime, writer)
            if runtime.frames >= total:
                break
            if stop.requested:
                writer.save_now(take_snapshots)
                raise Interrupted(f"saved at {runtime.frames:,} frames")
            if writer.is_due(before, runtime.frames):
                writer.save(take_snapshots)
        writer.wait()
        if report := runtime.report():
            display.say(report)
        _finish(log, runtime)


def _finish(log: "_GroupLog", runtime: Runtime) -> None:
    """Writes parameters and finished tables; checkpoints are not needed any more."""
    for run, q_function in enumerate(runtime.parameters()):
        recorder = log.recorders[run]
        checkpoint.save(recorder.folder / checkpoint.PARAMETERS, q_function)
        outcome = {"seconds": log.seconds[run], "frames_done": runtime.frames}
        recorder.finish(checkpoint.PARAMETERS, **outcome)
        shutil.rmtree(recorder.folder / checkpoint.FOLDER, ignore_errors=True)
        # Nobody writes it any more; a process killed from here on leaves no lock in it.
        (recorder.folder / LOCK).unlink(missing_ok=True)


def _make_backends(
    groups: Sequence[Sequence[RunSpec]], memory: int | None, display: Display
) -> Sequence[Backend]:
    """Builds an agent for each group of runs; raises `ConfigError` if that does not fit.

    This is the only place where compiled games and games on emulators differ.
    """
    first = groups[0][0]
    environment = registry.make(first.game, first.config.environment.sticky_actions)
    try:
        if isinstance(environment, CompiledEnvironment):
            return [ondevice.Backend(environment, group) for group in groups]
        variants = [spec.variant for group in groups for spec in group]
        memory = replay_memory(first.config, environment.spec, variants, memory)
        return [hosted.Backend(environment, group, memory, display) for group in groups]
    except ValueError as error:
        raise ConfigError(str(error)) from error


def _group_by_heads(runs: Sequence[RunSpec]) -> list[list[RunSpec]]:
    """Returns groups of runs that can share a program."""
    groups: dict[tuple[str, ...], list[RunSpec]] = {}
    for spec in runs:
        groups.setdefault(spec.variant.heads, []).append(spec)
    return list(groups.values())


def _resume_points(
    backend: Backend, runs: Sequence[RunSpec], display: Display
) -> list[list[ResumePoint]]:
    """Returns groups of runs that are equally far and have one program; the most advanced
    first."""
    groups: dict[tuple[int, bool], list[ResumePoint]] = {}
    for spec in runs:
        point = find_resume_point(
            spec,
            backend.state_spec,
            display.say,
            on_device=not backend.parallel,
            sharded=bool(read_run(spec.folder).get("sharded")),
        )
        groups.setdefault((point.frames, point.sharded), []).append(point)
    return [groups[key] for key in sorted(groups, reverse=True)]


def _create_folder(
    spec: RunSpec, backend: Backend, checkpoints: Checkpointing, sharded: bool
) -> None:
    """Writes run.json unless it is there, so that every run can be resumed from now on."""
    if not (spec.folder / RUN_FILE).exists():
        run = {
            "variant": str(spec.variant),
            "game": spec.game,
            "seed": spec.seed,
            "frames": spec.frames,
            "config": dataclasses.asdict(spec.config),
            "sticky_actions": registry.resolve_sticky_actions(
                spec.game, spec.config.environment.sticky_actions
            ),
            "pace": backend.agent.pace._asdict(),
            "memory": backend.memory,
            "checkpoints": checkpoints._asdict(),
            "sharded": sharded,
            **_describe_machine(),
        }
        Recorder(spec.folder, run).close()


def _describe_machine() -> dict[str, Any]:
    devices = jax.local_devices()
    return {
        "device": f"{len(devices)} x {devices[0].device_kind}",
        **describe_machine(),
    }


def _open_recorder(point: ResumePoint, say: Callable[[str], None]) -> Recorder:
    """Opens a run's tables, cut back to its checkpoint, and notes in run.json that it
    resumes, and what has changed since it began."""
    folder, machine = point.spec.folder, plain(_describe_machine())
    changed = {
        name: [before, machine[name]]
        for name, before in read_run(folder).items()
        if name in _MACHINE and before != machine[name]
    }
    for name, (before, here) in changed.items():
        say(f"{folder} began with {name} {before}, now {here}: the last bits may differ")
    played = point.snapshot is not None or any(folder.glob("*.jsonl"))
    if played and point.snapshot is None:
        say(f"{folder} has no checkpoint yet: it starts from the beginning")
    digests = point.snapshot.records if point.snapshot else {}
    note = None
    if played or changed:  # else its folder was created, and nothing more
        note = {"frames": point.frames, "time": now(), "command": machine["command"]}
        note["changed"] = changed
    return Recorder.resume(folder, digests, note)


class _GroupLog:
    """The host's side of runs that train together: their tables and their progress."""

    def __init__(self, backend: Backend, points: Sequence[ResumePoint], display: Display):
        self.specs = [point.spec for point in points]
        config, total = self.specs[0].config, self.specs[0].frames
        agent = backend.agent
        self._streams = agent.streams
        self._frames_per_step = agent.frames_per_step
        interval = total // config.evaluation.traces
        self._logs = [
            RunLog(spec.variant, agent.arms, agent.heads, interval) for spec in self.specs
        ]
        names = [(str(spec.variant), spec.seed) for spec in self.specs]
        self._meter = ProgressMeter(names, total)
        self._flushed = -math.inf  # when, by the clock
        self.seconds = [0.0] * len(points)
        self.newest_updates: list[dict[str, Any]] = [{} for _ in points]
        """The newest row of each run's table `learning`."""
        self.recorders: list[Recorder] = []
        for point in points:
            self.recorders.append(_open_recorder(point, display.say))

    def restore(self, points: Sequence[ResumePoint], resumes_episodes: bool) -> None:
        """Continues from the snapshots, from now on by the clock."""
        for run, point in enumerate(points):
            if point.snapshot:
                saved = point.snapshot.host["log"]
                self.seconds[run] = saved["seconds"]
                if saved["evaluation"] is not None:
                    self._meter.evaluations[run] = saved["evaluation"]
                self._logs[run].traces.restore(saved["trace"])
                if not resumes_episodes:
                    self._logs[run].traces.drop_open_episode()
        self._lap = time.perf_counter()

    def write(self, chunk: Chunk, frames: int) -> Progress:
        """Writes what a chunk recorded; returns what a display shows."""
        clock = Clock(chunk.start, self._streams, self._frames_per_step)
        columns = (self._logs, chunk.records, chunk.updates, chunk.evaluations)
        rows = [
            log.rows(record, clock, updates, evaluations)
            for log, record, updates, evaluations in zip(*columns, strict=True)
        ]
        for run, tables in enumerate(rows):
            for table, new in tables.items():
                self.recorders[run].write(table, new)
            if tables["learning"]:
                self.newest_updates[run] = tables["learning"][-1]
        lap, self._lap = self._lap, time.perf_counter()
        if self._lap - self._flushed >= _FLUSHED_EVERY:
            self._flushed = self._lap
            for recorder in self.recorders:
                recorder.flush()
        self.seconds = [seconds + self._lap - lap for seconds in self.seconds]
        return self._meter.update(
            rows,
            frames=frames,
            new_frames=frames - chunk.start,
            seconds=self._lap - lap,
            updates=chunk.updates[0],
            replay_fill=chunk.replay_fill,
        )

    def snapshots(self, runtime: Runtime, replay: bool) -> dict[Path, Snapshot]:
        """Returns a snapshot of each run, by its folder."""
        snapshots = {}
        for run, (state, counters) in enumerate(runtime.snapshot(replay)):
            log = {
                "seconds": self.seconds[run],
                "evaluation": self._meter.evaluations[run],
                "trace": self._logs[run].traces.snapshot(),
            }
            snapshots[self.specs[run].folder] = Snapshot(
                run=identity(self.specs[run]),
                frames=runtime.frames,
                host=plain({**counters, "log": log}),
                records=self.recorders[run].sync(),
                state=state,
            )
        return snapshots

    def close(self) -> None:
        """Closes the tables."""
        for recorder in self.recorders:
            recorder.close()


def _stop_if_diverged(log: _GroupLog, runtime: Runtime, writer: CheckpointWriter) -> None:
    """Raises `Diverged` if several updates in a row of a run were not finite.

    The learner skips such an update and counts it, so that parameters stay finite; one now
    and then does no harm. Several in a row mean that it will not recover. The checkpoints
    of such a run stay as they are; the others are saved, and can resume without it.
    """
    skipped = [int(row.get("skipped_in_a_row", 0)) for row in log.newest_updates]
    diverged = [run for run, count in enumerate(skipped) if count > _TOLERATED]
    if not diverged:
        return
    snapshots = log.snapshots(runtime, replay=True)
    errors = []
    for run in diverged:
        folder = log.specs[run].folder
        bad = not_finite(snapshots.pop(folder).state)
        report = {
            "frames": runtime.frames,
            "newest_update": log.newest_updates[run],
            "not_finite": bad,
        }
        write_json(folder / DIVERGED_FILE, report)
        where = f"; not finite: {', '.join(bad)}" if bad else ""
        errors.append(
            f"{folder} stopped at {runtime.frames:,} frames: {skipped[run]} updates in a "
            f"row were not finite{where}. {DIVERGED_FILE} there says more; the last "
            f"checkpoint is untouched. Try a smaller learning.learning_rate, or check the "
            f"game's rewards"
        )
    if snapshots:
        writer.save_now(lambda: snapshots)
    raise Diverged(errors[0])


def _refuse_not_finite(folder: Path, learner: Any) -> None:
    """Raises `Diverged` instead of saving a learner that is of no use to anybody."""
    bad = not_finite(learner)
    if bad:
        raise Diverged(
            f"{folder} stopped: {', '.join(bad)} are not finite. The last checkpoint is "
            f"untouched; try a smaller learning.learning_rate"
        )


def not_finite(tree: Any) -> dict[str, int]:
    """Returns the paths of arrays with numbers that are not finite, and how many."""
    found = {}
    for where, leaf in jax.tree_util.tree_leaves_with_path(tree):
        if jnp.issubdtype(leaf.dtype, np.floating):
            count = int(np.size(leaf) - np.isfinite(np.asarray(leaf, np.float32)).sum())
            if count:
                found[jax.tree_util.keystr(where)] = count
    return found


@contextlib.contextmanager
def _explain_failures(runs: Sequence[RunSpec]) -> Iterator[None]:
    """Adds how to resume after an interruption, and what to reduce if memory runs out."""
    try:
        yield
    except Interrupted as stop:
        left = [spec.folder for spec in runs if not read_run(spec.folder)["finished"]]
        raise Interrupted(f"{stop}; resume with: {resume_command(left)}") from None
    except (jax.errors.JaxRuntimeError, MemoryError) as error:
        # A GPU raises the first, a CPU the second.
        words = ("RESOURCE_EXHAUSTED", "Out of memory")
        if isinstance(error, MemoryError) or any(word in str(error) for word in words):
            raise MachineError(
                f"out of memory with {len(runs)} runs: use fewer seeds or variants at a "
                f"time, or less replay.capacity, acting.environments or "
                f"learning.batch_size (on Atari: --replay-memory)"
            ) from error
        raise

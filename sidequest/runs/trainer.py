"""Trains runs, compiled or on emulators, from their settings to finished records.

Starting the same runs again is always right: finished runs are skipped, interrupted ones
resume from their newest good checkpoint, and the others begin. The life of every run is
`run`, then `_train`, then `_finish`; what comes after is detail.
"""

import contextlib
import dataclasses
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

from sidequest.config import check
from sidequest.environments import registry
from sidequest.environments.base import CompiledEnvironment, HostedGame
from sidequest.errors import (
    ConfigError,
    CorruptFile,
    Diverged,
    Interrupted,
    MachineError,
    SidequestError,
    raise_together,
    release_frames,
    resume_command,
    writing,
)
from sidequest.records import RUN_FILE, Recorder, read_run, write_json
from sidequest.runs import checkpoint, hosted, ondevice
from sidequest.runs.build import Agent, build_agent
from sidequest.runs.checkpoint import (
    CheckpointWriter,
    ResumePoint,
    Snapshot,
    find_resume_point,
)
from sidequest.runs.display import Display
from sidequest.runs.memory import describe_replay, refuse_too_large, replay_memory, tiled
from sidequest.runs.process import LOCK, StopSignal, lock_folders
from sidequest.runs.spec import RunSpec, is_finished
from sidequest.runs.state import Chunk
from sidequest.runs.tables import GroupLog, describe_machine
from sidequest.wording import plural

DIVERGED_FILE = "not_finite.json"
_TOLERATED = 2
"""Updates in a row that may be skipped because they were not finite."""


@runtime_checkable
class Runtime(Protocol):
    """Runs that train together: a compiled population, or one run on emulators."""

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

    def close(self) -> None:
        """Ends what it has started."""
        ...


class _Program(NamedTuple):
    """Holds what runs with the same heads share."""

    agent: Agent
    state_spec: dict[str, Any]
    """Shapes of one run's state, as in checkpoints."""
    start: Callable[[Sequence[ResumePoint], Display], Runtime]
    """Starts runs that are equally far."""
    compiled: bool
    """Whether runs train side by side, and continue their episodes when they resume; on
    emulators they train in turn, keep their state on the device, and start new episodes."""
    memory: int | None = None
    """Bytes for the frames in replay, on emulators."""


def run(runs: Sequence[RunSpec], display: Display) -> None:
    """Trains runs: side by side where the game is compiled, in turn on emulators.

    Args:
        runs: Runs of one game, which differ in variant, seed and folder alone. Those whose
            variants need the same heads share a program.

    Raises:
        SidequestError: If a run ended before its time; those that do not train beside it
            were trained nevertheless, unless memory or the disk ran out.
        Interrupted: After a signal, even if all runs could finish.
    """
    check(runs[0].config)
    runs = [spec for spec in runs if not is_finished(spec)]
    if not runs:
        return
    programs = _make_programs(runs, display)
    folders = [spec.folder for spec in runs]
    failures: list[SidequestError] = []
    keep = partial(_keep_failure, failures, display if len(runs) > 1 else None)
    with lock_folders(folders), StopSignal(display.say) as stop, _explain_failures(runs):
        for program, group in programs:
            # Another process may have finished some before they were locked.
            group[:] = [spec for spec in group if not is_finished(spec)]
            for spec in group:
                _create_folder(spec, program, sharded=len(group) > 1)
        for program, group in programs:
            for batch in [group] if program.compiled else [[spec] for spec in group]:
                points = []
                for spec in batch:
                    with keep():
                        points.append(_resume_point(program, spec, display))
                for equal in _group_by_progress(points):
                    with keep():
                        _train(program, equal, display, stop)
        if stop.requested:  # too late for these runs, but others may be to follow
            said = [*map(str, failures), "stopped after all of these runs had ended"]
            raise Interrupted("\n".join(said))
    raise_together(failures)


def _train(
    program: _Program, points: Sequence[ResumePoint], display: Display, stop: StopSignal
) -> None:
    """Trains runs that are equally far, from there to their end or to an interruption."""
    total, checkpoints = points[0].spec.frames, points[0].spec.checkpoints
    folders = [point.spec.folder for point in points]
    every, resumed_at = checkpoints.interval(total), points[0].frames
    with (
        closing(_start(program, points, display)) as runtime,
        closing(GroupLog(program.agent, points, display, program.compiled)) as log,
        CheckpointWriter(folders, every, display, resumed_at) as writer,
    ):

        def take_snapshots() -> dict[Path, Snapshot]:
            return log.snapshots(runtime.snapshot(checkpoints.replay), runtime.frames)

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
        learns_after = program.agent.pace.warm_up * program.agent.frames_per_block
        if runtime.frames <= learns_after:
            display.say(
                f"no update was made: learning starts after {learns_after:,} frames (see "
                f"replay.warm_up), and {runtime.frames:,} were played"
            )
        _finish(log, runtime)


def _start(program: _Program, points: Sequence[ResumePoint], display: Display) -> Runtime:
    """Starts runs. From then on nobody else keeps what their checkpoints held, not even if
    that fails: the next run may need the memory."""
    try:
        return program.start(points, display)
    finally:
        for point in points:
            if point.snapshot:
                point.snapshot.state.clear()


def _finish(log: GroupLog, runtime: Runtime) -> None:
    """Writes parameters and finished tables; checkpoints are not needed any more."""
    for run, q_function in enumerate(runtime.parameters()):
        recorder = log.recorders[run]
        checkpoint.save(recorder.folder / checkpoint.PARAMETERS, q_function)
        outcome = {"seconds": log.seconds[run], "frames_done": runtime.frames}
        recorder.finish(checkpoint.PARAMETERS, **outcome)
        shutil.rmtree(recorder.folder / checkpoint.FOLDER, ignore_errors=True)
        # Nobody writes it any more; a process killed from here on leaves no lock in it.
        (recorder.folder / LOCK).unlink(missing_ok=True)


def _make_programs(
    runs: Sequence[RunSpec], display: Display
) -> list[tuple[_Program, list[RunSpec]]]:
    """Builds a program for each group of runs with the same heads; raises `ConfigError` if
    that does not fit. From here on, `_Program` says how compiled games and games on
    emulators differ."""
    groups: dict[tuple[str, ...], list[RunSpec]] = {}
    for spec in runs:
        groups.setdefault(spec.variant.heads, []).append(spec)
    config, variants = runs[0].config, [spec.variant for spec in runs]
    game = registry.make(runs[0].game, config.environment.sticky_actions)
    try:
        if isinstance(game, CompiledEnvironment):
            return [(_compiled_program(game, group), group) for group in groups.values()]
        requested = runs[0].memory
        if (runs[0].folder / RUN_FILE).exists():  # its checkpoints hold as much
            requested = read_run(runs[0].folder).get("memory", requested)
        memory = replay_memory(config, game.spec, variants, requested)
        return [
            (_hosted_program(game, group, memory, display), group)
            for group in groups.values()
        ]
    except ValueError as error:
        raise ConfigError(str(error)) from error


def _compiled_program(game: CompiledEnvironment, runs: Sequence[RunSpec]) -> _Program:
    variants = [spec.variant for spec in runs]
    agent = build_agent(runs[0].config, game.spec, variants)
    state = ondevice.state_spec(agent, game, variants[0])
    devices = ondevice.make_mesh(len(runs), sharded=len(runs) > 1).size
    refuse_too_large(state, len(runs), devices=devices)
    start = partial(ondevice.Population, agent, game)
    return _Program(agent, {"run": state}, start, compiled=True)


def _hosted_program(
    game: HostedGame, runs: Sequence[RunSpec], memory: int | None, display: Display
) -> _Program:
    variants = [spec.variant for spec in runs]
    agent = build_agent(runs[0].config, game.spec, variants, tiled(memory))
    state_spec = hosted.state_spec(agent, variants[0])
    state = state_spec["run"]._replace(replay=state_spec["replay"])
    refuse_too_large(state, 1, host_copy=hosted.HOST_COPY)
    display.say(describe_replay(agent, memory))
    start = partial(hosted.start_run, agent, game)
    return _Program(agent, state_spec, start, compiled=False, memory=memory)


def _create_folder(spec: RunSpec, program: _Program, sharded: bool) -> None:
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
            "pace": program.agent.pace._asdict(),
            "memory": program.memory,
            "checkpoints": spec.checkpoints._asdict(),
            "sharded": sharded,
            **describe_machine(),
        }
        Recorder(spec.folder, run).close()


@contextlib.contextmanager
def _keep_failure(
    failures: list[SidequestError], display: Display | None
) -> Iterator[None]:
    """Keeps what ended some runs for later, since others do not need them; says it at once
    if there is a display."""
    try:
        yield
    except (CorruptFile, Diverged, MachineError) as failure:
        release_frames(failure)
        failures.append(failure)
        if display:
            display.say(str(failure))
            failure.said = True


def _resume_point(program: _Program, spec: RunSpec, display: Display) -> ResumePoint:
    return find_resume_point(
        spec,
        program.state_spec,
        display.say,
        on_device=not program.compiled,
        sharded=bool(read_run(spec.folder).get("sharded")),
    )


def _group_by_progress(points: Sequence[ResumePoint]) -> list[list[ResumePoint]]:
    """Returns groups of runs that are equally far and have one program; the most advanced
    first."""
    groups: dict[tuple[int, bool], list[ResumePoint]] = {}
    for point in points:
        groups.setdefault((point.frames, point.sharded), []).append(point)
    return [groups[key] for key in sorted(groups, reverse=True)]


def _stop_if_diverged(log: GroupLog, runtime: Runtime, writer: CheckpointWriter) -> None:
    """Raises `Diverged` if several updates in a row of a run were not finite.

    The learner skips such an update and counts it, so that parameters stay finite; one now
    and then does no harm. Several in a row mean that it will not recover. The checkpoints
    of such a run stay as they are; the others are saved, and can resume without it.
    """
    skipped = [int(row.get("skipped_in_a_row", 0)) for row in log.newest_updates]
    diverged = [run for run, count in enumerate(skipped) if count > _TOLERATED]
    if not diverged:
        return
    snapshots = log.snapshots(runtime.snapshot(replay=True), runtime.frames)
    for run in diverged:
        folder = log.specs[run].folder
        report = {
            "frames": runtime.frames,
            "newest_update": log.newest_updates[run],
            "not_finite": not_finite(snapshots.pop(folder).state),
        }
        with writing(folder / DIVERGED_FILE):
            write_json(folder / DIVERGED_FILE, report)
    if snapshots:
        writer.save_now(lambda: snapshots)
    folders = " and ".join(str(log.specs[run].folder) for run in diverged)
    raise Diverged(
        f"{folders} stopped at {runtime.frames:,} frames: {skipped[diverged[0]]} updates "
        f"in a row were not finite. {DIVERGED_FILE} there says more; the last checkpoint "
        f"is untouched. Try a smaller learning.learning_rate, or check the game's rewards"
    )


def not_finite(tree: Any) -> dict[str, int]:
    """Returns the paths of arrays with numbers that are not finite, and how many."""
    counts = {
        path: int(np.size(leaf) - np.isfinite(np.asarray(leaf, np.float32)).sum())
        for path, leaf in checkpoint.by_path(tree).items()
        if jnp.issubdtype(leaf.dtype, np.floating)
    }
    return {path: count for path, count in counts.items() if count}


@contextlib.contextmanager
def _explain_failures(runs: Sequence[RunSpec]) -> Iterator[None]:
    """Adds how to resume after an interruption, and what to reduce if memory runs out."""
    try:
        yield
    except Interrupted as stop:
        left = [spec.folder for spec in runs if not is_finished(spec)]
        advice = f"; resume with: {resume_command(left)}" if left else ""
        raise Interrupted(f"{stop}{advice}") from None
    except (jax.errors.JaxRuntimeError, MemoryError) as error:
        # A GPU raises the first, a CPU the second.
        words = ("RESOURCE_EXHAUSTED", "Out of memory")
        if isinstance(error, MemoryError) or any(word in str(error) for word in words):
            raise MachineError(
                f"out of memory with {plural(len(runs), 'run')}: use fewer seeds or "
                f"variants at a time, or less replay.capacity, acting.environments or "
                f"learning.batch_size (on Atari: --replay-memory), or end other programs "
                f"that use this device's memory"
            ) from error
        raise

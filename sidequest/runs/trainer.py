"""Trains runs of one game: in a compiled population, or on emulators.

Starting the same runs again is always right: finished runs are skipped, interrupted ones
resume from their newest good checkpoint, and the others begin.
"""

import contextlib
from collections.abc import Iterator, Sequence

import jax

from sidequest.config import Config, check
from sidequest.environments import registry
from sidequest.environments.base import CompiledEnvironment, HostedGame
from sidequest.errors import ConfigError, Interrupted, MachineError, resume_command
from sidequest.records import RUN_FILE, Recorder, read_run
from sidequest.replay.store import raw_store
from sidequest.runs.assembly import assemble
from sidequest.runs.members import devices_for, member_of
from sidequest.runs.memory import refuse_too_large, tiled
from sidequest.runs.ondevice import make_loop
from sidequest.runs.pace import pace_of
from sidequest.runs.process import StopSignal, lock_folders
from sidequest.runs.resume import describe_run
from sidequest.runs.resume_hosted import HOST_COPY, like_saved
from sidequest.runs.spec import (
    DEFAULT_CHECKPOINTS,
    Checkpointing,
    Display,
    RunSpec,
    is_finished,
)
from sidequest.runs.state import Member, individuals
from sidequest.runs.train import train
from sidequest.runs.train_hosted import Plan, make_plan, train_hosted


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
    config = runs[0].config
    check(config)
    environment = registry.make(runs[0].game)
    runs = unfinished(runs)
    plan = None
    if isinstance(environment, HostedGame):
        variants = [one.variant for one in runs]
        plan = make_plan(config, environment.spec, variants, memory)
        memory = plan.memory
    refuse_impossible(runs, environment, config, plan)
    heard = StopSignal(display.say)
    with lock_folders([one.folder for one in runs]), heard as interrupts, told(runs):
        # Once more: another process may have finished some before we held them.
        runs = unfinished(runs)
        enrol(runs, memory, checkpoints)
        if isinstance(environment, CompiledEnvironment):
            for group in by_heads(runs):
                train(group, environment, display, checkpoints, interrupts)
            return
        for one in runs:
            display.say(f"{one.variant}, seed {one.seed}")
            train_hosted(one, environment, display, memory, checkpoints, interrupts)


def unfinished(runs: Sequence[RunSpec]) -> list[RunSpec]:
    return [run for run in runs if not is_finished(run)]


def by_heads(runs: Sequence[RunSpec]) -> list[list[RunSpec]]:
    """Runs that can share a program."""
    groups: dict[tuple[str, ...], list[RunSpec]] = {}
    for run in runs:
        groups.setdefault(run.variant.heads, []).append(run)
    return list(groups.values())


def refuse_impossible(
    runs: Sequence[RunSpec],
    environment: CompiledEnvironment | HostedGame,
    config: Config,
    plan: Plan | None,
) -> None:
    """Sizes that do not go together are told before anything is made."""
    for group in by_heads(runs):
        try:
            state = state_spec(group, environment, config, plan)
        except ValueError as error:
            raise ConfigError(str(error)) from error
        capacity, devices = config.replay.capacity, devices_for(len(group)).size
        if plan is None:
            refuse_too_large(state, len(group), capacity, devices=devices)
        else:
            refuse_too_large(state, 1, capacity, host_copy=HOST_COPY)


def state_spec(
    runs: Sequence[RunSpec],
    environment: CompiledEnvironment | HostedGame,
    config: Config,
    plan: Plan | None,
) -> Member:
    """Returns the shapes of one run's state; nothing is computed."""
    variants = [one.variant for one in runs]
    store = raw_store if plan is None else tiled(plan.memory)
    parts = assemble(config, environment.spec, variants, store)
    # Shapes alone: even what makes one run differ from another is not computed.
    one = jax.eval_shape(lambda: member_of(individuals(runs[:1], parts, config), 0))
    if isinstance(environment, CompiledEnvironment):
        loop = make_loop(parts, environment, pace_of(config))
        return jax.eval_shape(loop.init, one)
    assert plan is not None, "there is one for emulators"
    return like_saved(parts, one, plan.groups)["member"]


def enrol(runs: Sequence[RunSpec], memory: int | None, checkpoints: Checkpointing) -> None:
    """Makes every run's folder now, so that all of them can be resumed."""
    for group in by_heads(runs):
        more = {
            "memory": memory,
            "checkpoints": checkpoints._asdict(),
            "company": len(group) > 1,
        }
        for run in group:
            if not (run.folder / RUN_FILE).exists():
                said = describe_run(run, pace_of(run.config), **more)
                Recorder(run.folder, said).close()


@contextlib.contextmanager
def told(runs: Sequence[RunSpec]) -> Iterator[None]:
    """Says what to type after an interruption, and what to reduce if memory runs out."""
    try:
        yield
    except Interrupted as stop:
        left = [run.folder for run in runs if not read_run(run.folder)["finished"]]
        raise Interrupted(f"{stop}; go on with: {resume_command(left)}") from None
    except (jax.errors.JaxRuntimeError, MemoryError) as error:
        # A GPU says the first, a CPU the second.
        words = ("RESOURCE_EXHAUSTED", "Out of memory")
        if isinstance(error, MemoryError) or any(word in str(error) for word in words):
            raise MachineError(
                f"out of memory with {len(runs)} runs: take fewer seeds or variants at a "
                f"time, or less of replay.capacity, acting.streams or learning.batch_size "
                f"(on Atari: --replay-memory)"
            ) from error
        raise

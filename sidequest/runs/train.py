"""Trains a population on a JAX-native game, from the first round to finished records.

A run is one member: one variant, one game, one seed, one folder. Members that need the same
heads share one compiled program. Between chunks of rounds the host writes tables, evaluates
and shows progress; now and then it makes a checkpoint of every member, in its own folder.
A run that was cut off goes on from its checkpoint as if nothing had happened.
"""

import contextlib
from collections.abc import Sequence
from pathlib import Path

from sidequest.config import Config
from sidequest.environments.base import CompiledEnvironment
from sidequest.errors import Interrupted
from sidequest.records import RUN_FILE, read_run
from sidequest.runs.assembly import Parts, assemble
from sidequest.runs.breakdown import refuse_not_finite, report_breakdown
from sidequest.runs.checkpoint import Snapshot
from sidequest.runs.members import member_of
from sidequest.runs.pace import Pace, pace_of
from sidequest.runs.population import Population
from sidequest.runs.process import StopSignal
from sidequest.runs.resume import (
    Standing,
    by_progress,
    describe_run,
    find_standing,
    reopen,
)
from sidequest.runs.saving import Saver, leave_behind
from sidequest.runs.spec import Checkpointing, Display, RunSpec, identity


def train(
    runs: Sequence[RunSpec],
    environment: CompiledEnvironment,
    display: Display,
    saving: Checkpointing,
    interrupts: StopSignal | None = None,
) -> None:
    """Trains all runs, which have the same config and number of frames.

    Those that have finished are left alone, and those that were cut off go on. Runs that
    are equally far go side by side.
    """
    config, frames = runs[0].config, runs[0].frames
    parts = assemble(config, environment.spec, [run.variant for run in runs])
    pace = pace_of(config)
    like = Population([runs[0]], environment, config, parts, pace, frames).like()
    standings = [
        find_standing(run, like, display.say)._replace(
            company=began_in_company(run, len(runs) > 1)
        )
        for run in runs
    ]
    for group in by_progress(standings):
        sitting = Sitting(group, environment, config, parts, pace, frames, display)
        with contextlib.closing(sitting):
            sitting.train(saving, interrupts or StopSignal())


class Sitting:
    """Runs that are equally far, from here to their end or to an interruption."""

    def __init__(
        self,
        group: Sequence[Standing],
        environment: CompiledEnvironment,
        config: Config,
        parts: Parts,
        pace: Pace,
        frames: int,
        display: Display,
    ):
        self.runs = [standing.run for standing in group]
        self.group, self.total, self.display = group, frames, display
        self.identities = [identity(run) for run in self.runs]
        self.recorders = [
            reopen(
                standing,
                describe_run(standing.run, pace, company=standing.company),
                display.say,
            )
            for standing in group
        ]
        self.population = Population(
            self.runs, environment, config, parts, pace, frames, group[0].company
        )

    def train(self, saving: Checkpointing, interrupts: StopSignal) -> None:
        """Compiles, plays all chunks that are left, and finishes the records."""
        population, folders = self.population, [run.folder for run in self.runs]
        every, begun = saving.interval(self.total), self.group[0].frames
        with Saver(folders, every, self.display, begun) as saver:
            self.begin(interrupts)
            while population.frames < self.total:
                before = population.frames
                self.display.show(population.advance(self.recorders))
                self.refuse_breakdown(saver)
                if population.frames >= self.total:
                    break
                if interrupts.requested:
                    saver.save_now(self.snapshots)
                    raise Interrupted(f"saved at {population.frames:,} frames")
                if saver.is_due(before, population.frames):
                    saver.save(self.snapshots)
        self.finish()

    def close(self) -> None:
        for recorder in self.recorders:
            recorder.close()

    def begin(self, interrupts: StopSignal) -> None:
        """Compiles one program for all, and puts the members in."""
        population = self.population
        self.display.say(f"compiling one program for {len(self.runs)} runs …")
        manifests = [standing.manifest for standing in self.group]
        if all(manifests):
            population.go_on(
                [standing.state for standing in self.group],
                [manifest.host for manifest in manifests if manifest],
            )
        else:
            population.begin()
        seconds = population.compile()
        resumed = f"; going on at {population.frames:,} frames" if population.block else ""
        self.display.say(f"compiled in {seconds:.1f} s{resumed}")
        if interrupts.requested:
            raise Interrupted(f"stopped at {population.frames:,} frames")

    def snapshots(self) -> dict[Path, Snapshot]:
        """A copy of all that each run is, on the host."""
        population = self.population
        states = population.states()
        for run, state in zip(self.runs, states, strict=True):
            refuse_not_finite(run.folder, state.learner)
        return {
            recorder.folder: Snapshot(
                run=self.identities[member],
                frames=population.frames,
                host=population.host(member),
                records=recorder.sizes(),
                state=states[member],
            )
            for member, recorder in enumerate(self.recorders)
        }

    def refuse_breakdown(self, saver: Saver) -> None:
        """Stops if a member's learning broke down; its checkpoint stays as it was.

        The others are saved: they can go on without it.
        """
        population = self.population
        broken = [i for i, skips in enumerate(population.skips) if skips.is_breakdown]
        if not broken:
            return
        snapshots = self.snapshots()
        faults = [
            report_breakdown(
                self.runs[member].folder,
                population.frames,
                population.skips[member],
                member_of(population.metrics, member),
                snapshots.pop(self.runs[member].folder).state,
            )
            for member in broken
        ]
        if snapshots:
            saver.save_now(lambda: snapshots)
        raise faults[0]

    def finish(self) -> None:
        """Leaves parameters and finished tables; checkpoints have served."""
        population = self.population
        q_functions = population.q_functions()
        for member, recorder in enumerate(self.recorders):
            leave_behind(
                recorder,
                member_of(q_functions, member),
                seconds=population.seconds[member],
                frames=population.frames,
            )


def began_in_company(run: RunSpec, now: bool) -> bool:
    """What run.json says of it; of a run that begins, what is the case now."""
    if not (run.folder / RUN_FILE).exists():
        return now
    return bool(read_run(run.folder).get("company", now))

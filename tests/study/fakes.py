"""A display that remembers, and jobs that need no agent."""

import dataclasses

from sidequest.records import Recorder
from sidequest.runs.display import GroupDisplay, Log, StudyDisplay
from sidequest.study.scheduler import Group, Summary, run_groups
from sidequest.study.studies import Grid, Study, jobs_of


class Memory(StudyDisplay):
    """A display that keeps what it is told."""

    def __init__(self):
        super().__init__(Log(), runs=0, finished=0, frames=0, done=0)
        self.say = self.hear
        self.said: list[str] = []
        self.ends: list[tuple[str, str]] = []

    def hear(self, text):
        self.said.append(text)

    def shown(self):
        """Is called when a group shows progress."""

    def begin(self, label, game, runs, frames):
        return GroupMemory(self, label, game, runs, frames)


class GroupMemory(GroupDisplay):
    def __init__(self, study, *rest):
        super().__init__(study, *rest)
        self.memory = study

    def say(self, text):
        self.memory.say(text)

    def show(self, progress):
        self.memory.shown()

    def end(self, kind, reason):
        self.memory.ends.append((kind, reason))


def study(seeds: int, *variants: str, games=("probe:constant",), settings=()) -> Study:
    grid = Grid(variants or ("XU-step-level-0.01",), tuple(games), settings)
    return Study("fake", "A fake", (grid,), seeds, 1_000, "small")


def group(runs: int) -> Group:
    return Group(jobs_of(study(runs)))


def run_all(groups, executor, display) -> Summary:
    """Runs groups and returns what could not be trained."""
    summary = Summary({}, [], [])
    run_groups(groups, executor, display, summary)
    return summary


def finish_runs(group, folder, display):
    """Leaves finished records without training; seed 1 fails."""
    if any(job.spec.seed == 1 for job in group.jobs):
        raise RuntimeError("no such cartridge")
    for job in group.jobs:
        spec = job.spec_in(folder)
        run = {"variant": str(spec.variant), "game": spec.game, "seed": spec.seed}
        config = dataclasses.asdict(spec.config)
        recorder = Recorder(spec.folder, {**run, "frames": spec.frames, "config": config})
        recorder.finish()

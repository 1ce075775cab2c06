"""Which runs share a compiled program, and in which order they go."""

import os
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sidequest.runs.spec import Checkpointing
from sidequest.study.grids import Job, is_atari

# Members of one population: a member of preset `small` takes about 0.1 GB, and a bad one
# costs its neighbours some time. Of 64 and 128 an H200 makes 1.10 and 1.57 million steps/s.
MOST_MEMBERS = {"cpu": 32, "gpu": 128}
# Frames between two checkpoints of a run, at least: a short run is quicker made again.
LEAST_BETWEEN_CHECKPOINTS = 25_000


class Machine(NamedTuple):
    """What a group of runs may use."""

    kind: str
    """JAX's name of the platform: cpu, gpu or tpu."""
    devices: int
    """That members of a population share; on a CPU each core is one."""

    @property
    def most_members(self) -> int:
        return MOST_MEMBERS.get(self.kind, MOST_MEMBERS["gpu"])


class Group(NamedTuple):
    """Runs that go side by side: same game, heads, settings and frames."""

    jobs: tuple[Job, ...]
    lost: int = 0
    """How often a worker was lost with it."""
    busy: int = 0
    """How often another process was at it."""

    @property
    def frames(self) -> int:
        """Of all runs together."""
        return sum(job.frames for job in self.jobs)

    @property
    def label(self) -> str:
        first = self.jobs[0]
        if len(self.jobs) == 1:
            return first.id
        heads = " + ".join(first.variant.heads)
        extra = "".join(f", {name}={value}" for name, value in first.settings)
        return f"{first.game}, {heads}{extra}: {len(self.jobs)} runs"

    @property
    def checkpoints(self) -> Checkpointing:
        frames = self.jobs[0].frames
        usual = Checkpointing().interval(frames)
        return Checkpointing(every=max(usual, min(frames, LEAST_BETWEEN_CHECKPOINTS)))

    def halves(self) -> tuple["Group", "Group"]:
        middle = len(self.jobs) // 2
        return Group(self.jobs[:middle]), Group(self.jobs[middle:])


def plan(jobs: Iterable[Job], machine: Machine) -> list[Group]:
    """Every job once, in groups of one program each.

    One seed of everything comes first where groups are full, so that there is a whole
    picture early; within a seed, game by game.
    """
    jobs = list(jobs)
    games = {job.game: rank for rank, job in reversed([*enumerate(jobs)])}
    ordered = sorted(jobs, key=lambda job: (job.seed, games[job.game]))
    rank = {job: number for number, job in enumerate(ordered)}
    programs: dict[tuple, list[Job]] = {}
    for job in ordered:
        programs.setdefault(program(job), []).append(job)
    groups = [
        Group(tuple(part))
        for members in programs.values()
        for part in parts(members, machine)
    ]
    return sorted(groups, key=lambda group: rank[group.jobs[0]])


def program(job: Job) -> tuple:
    """Jobs for which this is the same can be members of one population."""
    alone = (str(job.variant), job.seed) if is_atari(job.game) else ()
    settings = (job.preset, job.base, job.settings, job.frames)
    return (job.game, job.variant.heads, settings, alone)


def parts(members: Sequence[Job], machine: Machine) -> list[Sequence[Job]]:
    """Cuts a list so that all devices are busy: a population is spread evenly over as
    many devices as divide it, so 11 runs on 2 cores go as 10 and 1."""
    devices = machine.devices
    most = max(1, machine.most_members // devices) * devices
    cut = []
    while members:
        size = min(most, len(members) // devices * devices) or len(members)
        cut.append(members[:size])
        members = members[size:]
    return cut


def machine_here() -> Machine:
    """What this process may use. Starts JAX."""
    import jax

    return Machine(jax.default_backend(), jax.local_device_count())


def cores_here() -> list[int]:
    """The numbers of the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))

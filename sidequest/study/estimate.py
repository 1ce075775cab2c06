"""How long a study will take and how much disk, from a short measurement.

The programs with most frames are measured first: as many runs as there are devices, for
some ten thousand frames, in a process of its own and a folder that is removed. When the
time for it is used up, the other programs count as the mean of those that were measured.
"""

import math
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from sidequest.runs.display import duration, short
from sidequest.runs.spec import Progress
from sidequest.study.conduct import Ending
from sidequest.study.folder import missing
from sidequest.study.grids import Job, Study
from sidequest.study.planning import Group, Machine, plan, program
from sidequest.study.workers import Share, Worker, kind_of, shares

MEASURING = 20.0  # seconds after which no further measurement begins
LONGEST = 60.0  # seconds for one of them, compilation included
FRAMES = 30_000  # that a measured run makes after its warm-up
TABLES = (".jsonl", ".parquet")


class Measured(NamedTuple):
    """What one program cost."""

    label: str
    compile: float
    """Seconds until the first chunk was done."""
    rate: float
    """Frames a second, of all runs together."""
    fixed: float
    """Bytes of a run that do not grow: parameters, checkpoints."""
    growing: float
    """Bytes a frame, of tables."""


def forecast(study: Study, jobs: Sequence[Job], folder: Path, workers: int) -> str:
    """What `--dry-run` prints."""
    left = missing(folder, jobs)
    share = shares(workers)[0]
    machine = Machine(kind_of(share), share.devices)
    groups = plan(left, machine)
    lines = [f"{study.name}: {study.title}", counts(study, jobs, left), ""]
    for group in groups if len(groups) <= 40 else groups[:20]:
        lines.append(
            f"  {len(group.jobs):>4} runs  {short(group.frames):>6}  {group.label}"
        )
    if len(groups) > 40:
        lines.append(f"   … and {len(groups) - 20} more groups")
    if not groups:
        return "\n".join([*lines, "Nothing is left to run."])
    begin = time.monotonic()
    measured = measure(groups, machine, begin)
    spent = time.monotonic() - begin
    return "\n".join([*lines, "", *summary(groups, measured, workers, spent)])


def counts(study: Study, jobs: Sequence[Job], left: Sequence[Job]) -> str:
    frames = sum(job.frames for job in left)
    return (
        f"{len(jobs)} runs of {len(study.variants)} variants, {len(study.games)} games and "
        f"{study.seeds} seeds, {short(study.frames)} frames each; "
        f"{len(left)} of them are to be made: {short(frames)} frames"
    )


def measure(
    groups: Sequence[Group], machine: Machine, begin: float
) -> dict[tuple, Measured]:
    """Programs by `program`, as many as there is time for."""
    share = shares(1)[0]
    frames: dict[tuple, int] = {}
    examples: dict[tuple, Group] = {}
    for group in groups:
        key = program(group.jobs[0])[:2]
        frames[key] = frames.get(key, 0) + group.frames
        examples.setdefault(key, group)
    measured = {}
    for key in sorted(frames, key=lambda key: -frames[key]):
        if time.monotonic() - begin > MEASURING:
            break
        few = Group(tuple(shorten(job) for job in examples[key].jobs[: machine.devices]))
        found = watch(few, share)
        if found is not None:
            measured[key] = found
    return measured


def shorten(job: Job) -> Job:
    return job._replace(frames=min(job.frames, 2 * job.config.replay.warm_up + FRAMES))


def watch(group: Group, share: Share) -> Measured | None:
    """Runs a group for a while; None if it did not come so far."""
    with tempfile.TemporaryDirectory() as place:
        begin = time.monotonic()
        worker = Worker(group, Path(place), share)
        shown: list[Progress] = []
        first = math.nan
        while (left := begin + LONGEST - time.monotonic()) > 0:
            if not worker.pipe.poll(left):
                break
            message = worker.read()
            if isinstance(message, Progress):
                first = time.monotonic() - begin if not shown else first
                shown.append(message)
            elif isinstance(message, Ending):
                break
        worker.process.kill()
        worker.end()
        if not shown:
            return None
        fixed, tables = sizes(Path(place))
    learning = shown[len(shown) // 3 :]  # the first part is warm-up
    members = len(group.jobs)
    return Measured(
        label=group.label,
        compile=first,
        rate=statistics.median(progress.rate for progress in learning),
        fixed=fixed / members,
        growing=tables / (members * shown[-1].frames),
    )


def sizes(folder: Path) -> tuple[int, int]:
    """Bytes of everything that does not grow with the run, and of tables."""
    fixed = tables = 0
    for path in folder.rglob("*"):
        if path.is_file():
            size = path.stat().st_size
            is_table = path.suffix in TABLES
            fixed, tables = fixed + size * (not is_table), tables + size * is_table
    return fixed, tables


def summary(
    groups: Sequence[Group],
    measured: dict[tuple, Measured],
    workers: int,
    spent: float,
) -> list[str]:
    if not measured:
        return [
            f"no estimate: in {duration(LONGEST)} no run of {groups[0].label} came so far "
            f"as to be measured here"
        ]
    mean = Measured(
        "mean",
        *(
            statistics.mean(column)
            for column in zip(*(m[1:] for m in measured.values()), strict=True)
        ),
    )
    seconds = disk = 0.0
    for group in groups:
        cost = measured.get(program(group.jobs[0])[:2], mean)
        seconds += cost.compile + group.frames / cost.rate
        disk += len(group.jobs) * cost.fixed + group.frames * cost.growing
    return [
        f"time  about {duration(seconds / workers)}",
        f"disk  about {size_text(disk)}",
        f"measured in {duration(spent)}:",
        *(
            f"  {m.label}: {short(m.rate)} frames/s, {m.compile:.0f} s to start"
            for m in measured.values()
        ),
        "programs that were not measured count as the mean of these",
    ]


def size_text(count: float) -> str:
    for size, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB")):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count / 1e3:.3g} kB"

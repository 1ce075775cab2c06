"""Estimates how long a study will take and how much disk, from a short measurement.

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

from sidequest.runs.display import Progress, duration, short
from sidequest.study.scheduler import Group, Outcome, missing, plan_groups
from sidequest.study.studies import Job, Study, jobs_of
from sidequest.study.workers import Share, Worker, split_machine

_MEASURING = 20.0  # seconds after which no further measurement begins
_LONGEST = 60.0  # seconds for one of them, compilation included
_FRAMES = 30_000  # that a measured run makes after its warm-up


class Cost(NamedTuple):
    """What the runs of one program cost."""

    startup: float
    """Seconds until the first chunk was done."""
    rate: float
    """Frames a second, of all runs together."""
    fixed: float
    """Bytes of a run that do not grow: parameters, checkpoints."""
    growing: float
    """Bytes of tables for each frame."""


def forecast(study: Study, folder: Path, workers: int) -> str:
    """Returns what `--dry-run` prints."""
    jobs = jobs_of(study)
    left = missing(folder, jobs)
    shares = split_machine(workers)
    groups = plan_groups(left, shares[0].machine)
    frames = sum(group.frames for group in groups)
    lines = [
        f"{study.name}: {study.title}",
        f"{len(jobs)} runs of {len(study.variants)} variants, {len(study.games)} games and "
        f"{study.seeds} seeds, {short(study.frames)} frames each; "
        f"{len(left)} of them are missing: {short(frames)} frames",
        "",
    ]
    for group in groups if len(groups) <= 40 else groups[:20]:
        lines.append(
            f"  {len(group.jobs):>4} runs  {short(group.frames):>6}  {group.label}"
        )
    if len(groups) > 40:
        lines.append(f"   … and {len(groups) - 20} more groups")
    if not groups:
        return "\n".join([*lines, "Nothing is left to run."])
    return "\n".join([*lines, "", *_estimate(groups, shares[0], workers)])


def _estimate(groups: Sequence[Group], share: Share, workers: int) -> list[str]:
    """Measures as many programs as there is time for, and sums up all groups."""
    begin = time.monotonic()
    programs: dict[tuple, list[Group]] = {}
    for group in groups:
        programs.setdefault(_program(group), []).append(group)
    frames = {key: sum(group.frames for group in programs[key]) for key in programs}
    costs: dict[tuple, Cost] = {}
    labels = []
    for key in sorted(programs, key=lambda key: -frames[key]):
        if time.monotonic() - begin > _MEASURING:
            break
        jobs = programs[key][0].jobs[: share.devices]
        few = Group(tuple(map(_shorten, jobs)))
        cost = measure(few, split_machine(1)[0])
        if cost is not None:
            costs[key] = cost
            labels.append(
                f"  {few.label}: {short(cost.rate)} frames/s, {cost.startup:.0f} s to start"
            )
    if not costs:
        return [
            f"no estimate: no run of {groups[0].label} could be measured here in "
            f"{duration(_LONGEST)}"
        ]
    mean = Cost(*map(statistics.mean, zip(*costs.values(), strict=True)))
    seconds = disk = 0.0
    for group in groups:
        cost = costs.get(_program(group), mean)
        seconds += cost.startup + group.frames / cost.rate
        disk += len(group.jobs) * cost.fixed + group.frames * cost.growing
    return [
        f"time  about {duration(seconds / workers)}",
        f"disk  about {_size_text(disk)}",
        f"measured in {duration(time.monotonic() - begin)}:",
        *labels,
        "programs that were not measured count as the mean of these",
    ]


def _program(group: Group) -> tuple:
    """Groups with equal keys are about equally fast."""
    spec = group.jobs[0].spec
    return spec.game, spec.variant.heads


def _shorten(job: Job) -> Job:
    frames = min(job.spec.frames, 2 * job.spec.config.replay.warm_up + _FRAMES)
    return job._replace(spec=job.spec._replace(frames=frames))


def measure(group: Group, share: Share) -> Cost | None:
    """Runs a group for a while; returns None if it reported no progress."""
    shown: list[Progress] = []
    startup = math.nan
    with tempfile.TemporaryDirectory() as place:
        begin = time.monotonic()
        worker = Worker(group, Path(place), share)
        while worker.pipe.poll(max(0.0, begin + _LONGEST - time.monotonic())):
            message = worker.read()
            if isinstance(message, Outcome):
                break
            if isinstance(message, Progress):
                startup = startup if shown else time.monotonic() - begin
                shown.append(message)
        worker.process.kill()
        worker.close()
        sizes: dict[bool, int] = {True: 0, False: 0}
        for path in filter(Path.is_file, Path(place).rglob("*")):
            sizes[path.suffix in (".jsonl", ".parquet")] += path.stat().st_size
    if not shown:
        return None
    runs = len(group.jobs)
    learning = shown[len(shown) // 3 :]  # the first part is warm-up
    return Cost(
        startup=startup,
        rate=statistics.median(progress.frame_rate for progress in learning),
        fixed=sizes[False] / runs,
        growing=sizes[True] / (runs * shown[-1].frames),
    )


def _size_text(count: float) -> str:
    for size, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB")):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count / 1e3:.3g} kB"

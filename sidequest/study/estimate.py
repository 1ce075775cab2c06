"""What `--dry-run` says: how many runs a study has, how long they take, what they need.

The program with most frames is measured: one run a core, or all that share a GPU, in a
process of its own and a folder that is removed. Where that takes too long, or the hardware
for it is not here, rates count that were measured elsewhere, and the text says so.
"""

import math
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from sidequest.environments import registry
from sidequest.runs.display import Progress
from sidequest.runs.process import raise_on_signals
from sidequest.study.scheduler import Group, Outcome, missing, plan_groups, program
from sidequest.study.studies import Study, jobs_of
from sidequest.study.workers import Share, Worker, split_machine
from sidequest.wording import duration, plural, short

_LONGEST = 40.0  # seconds for a measurement, compilation included
_FRAMES = 30_000  # that a measured run makes after its warm-up
_OVERHEAD = 0.7e9  # bytes of a process that trains, beside its runs


class Cost(NamedTuple):
    """Holds what the runs of one program cost."""

    startup: float
    """Seconds until the first chunk was done."""
    rate: float
    """Frames a second, of all runs together."""
    source: str
    """Where these numbers are from."""


_ELSEWHERE = {
    # By kind of machine, and whether games run on emulators. From docs/performance.md:
    # minatar:breakout with the preset small, populations of 16 and of 128; Ms. Pac-Man with
    # the preset paper.
    ("cpu", False): Cost(14, 10_200, "at replay ratio 2 on two cores of an AMD EPYC"),
    ("gpu", False): Cost(37, 1_570_000, "at replay ratio 2 on one NVIDIA H200"),
    ("gpu", True): Cost(140, 79_300, "on one NVIDIA H200, 16 cores and 1,536 emulators"),
}
# Bytes that a run of the paper's agent takes on the device: 4 million frames in replay, and
# an update at work (docs/performance.md).
_PAPER_REPLAY, _AT_WORK = 32.4e9, 4e9


def forecast(study: Study, folder: Path, workers: int) -> str:
    """Returns what `--dry-run` prints."""
    jobs = jobs_of(study)
    left = missing(folder, jobs)
    share = split_machine(workers)[0]
    groups = plan_groups(left, share.machine)
    sizes = {"variant": len(study.variants), "game": len(study.games), "seed": study.seeds}
    counts = ", ".join(plural(size, noun) for noun, size in sizes.items())
    lines = [
        f"{study.name}: {study.title}",
        f"{plural(len(jobs), 'run')} ({counts}) of {short(study.frames)} frames "
        f"each, {len(left)} missing",
    ]
    if not groups:
        return "\n".join([*lines, "Nothing is left to run."])
    lines += ["", f"{'game':<28}{'runs':>6}{'frames':>8}{'programs':>10}"]
    for game in study.games:
        own = [job for job in left if job.spec.game == game]
        programs = {program(job)[:-1] for job in own}
        frames = short(sum(job.spec.frames for job in own))
        lines.append(f"{game:<28}{len(own):>6}{frames:>8}{len(programs):>10}")
    return "\n".join([*lines, "", *_estimate(study, groups, share, workers)])


def _estimate(
    study: Study, groups: Sequence[Group], share: Share, workers: int
) -> list[str]:
    """Returns lines on time and memory."""
    largest = max(groups, key=lambda group: group.frames)
    hosted = registry.is_atari(largest.jobs[0].spec.game)
    on_cpu = share.machine.kind == "cpu" and not hosted
    if hosted and share.machine.kind == "cpu":
        measured = "the paper's agent needs a GPU, and there is none here"
        workers = study.workers or 1
    else:
        # A core is busy with one run; a GPU makes more of many.
        few = largest.jobs[: share.devices] if on_cpu else largest.jobs
        spec = few[0].spec
        per_step = registry.make(spec.game).spec.frames_per_step if hosted else 1
        frames = min(spec.frames, 2 * spec.config.replay.warm_up * per_step + _FRAMES)
        short_runs = (job._replace(spec=job.spec._replace(frames=frames)) for job in few)
        measured = measure(Group(tuple(short_runs)), share)
    workers = min(workers, len(groups))  # more have nothing to do
    beside = 1  # workers that add to the rate; on one device they share it
    if isinstance(measured, Cost):
        cost, notes = measured, []
        beside = workers if on_cpu else 1
    else:
        cost = _ELSEWHERE["cpu" if on_cpu else "gpu", hosted]
        notes = [f"        not measured here: {measured}"]
    frames = sum(group.frames for group in groups)
    seconds = cost.startup * len(groups) / workers + frames / (beside * cost.rate)
    lines = [
        f"time    about {duration(seconds)}, at {short(cost.rate)} frames/s as measured "
        f"{cost.source}",
        *notes,
    ]
    memory = workers * _memory(largest)
    if not math.isnan(memory):
        place = "" if on_cpu else " of the GPU"
        runs = plural(workers * len(largest.jobs), "run")
        lines.append(f"memory  about {memory / 1e9:.3g} GB{place}, with {runs} at a time")
    return lines


def _memory(group: Group) -> float:
    """Returns the bytes that a group of runs takes while it trains, about; NaN for games
    on the host whose replay is not that of Atari."""
    from sidequest.environments.base import CompiledEnvironment
    from sidequest.runs.build import build_agent
    from sidequest.runs.memory import nbytes
    from sidequest.runs.ondevice import state_spec

    job = group.jobs[0]
    environment = registry.make(job.spec.game)
    if not isinstance(environment, CompiledEnvironment):
        if not registry.is_atari(job.spec.game):
            return math.nan
        return len(group.jobs) * ((job.spec.memory or _PAPER_REPLAY) + _AT_WORK)
    variants = [one.spec.variant for one in group.jobs]
    agent = build_agent(job.spec.config, environment.spec, variants)
    size = nbytes(state_spec(agent, environment, variants[0]))
    return _OVERHEAD + 2 * size * len(variants)  # the runs, and a checkpoint of them


def measure(group: Group, share: Share) -> Cost | str:
    """Runs a group for a while; returns what it costs, or why that is not known."""
    game, runs = group.jobs[0].spec.game, plural(len(group.jobs), "run")
    shown: list[tuple[float, float]] = []  # seconds since the start, frames a second
    said = "starting"
    raise_on_signals()  # so that neither the folder nor the process stays
    with tempfile.TemporaryDirectory() as place:
        begin = time.monotonic()
        # Without programs that were compiled before: those of the study may not be.
        worker = Worker(group, Path(place), share._replace(cache=None))
        try:
            while worker.pipe.poll(max(0.0, begin + _LONGEST - time.monotonic())):
                message = worker.read()
                if isinstance(message, Outcome):
                    if message.kind != "done":
                        said = message.reason
                    break
                if isinstance(message, Progress):
                    shown.append((time.monotonic() - begin, message.frame_rate))
                else:
                    said = message
        finally:
            worker.process.kill()
            worker.close()
    if len(shown) < 2:
        return f"{runs} of {game} came no further in {_LONGEST:.0f} s than: {said}"
    learning = shown[len(shown) // 3 :]  # not the warm-up
    return Cost(
        startup=shown[0][0],
        rate=statistics.median(rate for _, rate in learning),
        source=f"here ({runs} of {game}; other games count as this one)",
    )

"""Trains what is missing of a study: runs in groups, wherever they run, whatever fails.

A group is a number of runs that share a compiled program. What happens when one ends:

    done          the next group starts
    failed        its halves are tried apart, and so on: a bad run is alone after a few
                  steps, and a group that was too large for the memory fits
    busy          another process holds it: tried again after all others, then apart
    lost          the worker died: tried again, then treated as failed
    interrupted   everything stops, and running groups are saved
"""

import contextlib
import itertools
import shlex
import sys
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

from sidequest.environments import registry
from sidequest.errors import Interrupted, RunBusy, SidequestError, writing
from sidequest.records import STUDY_FILE, now, read_study, write_failures, write_json
from sidequest.runs.display import Display, GroupDisplay, StudyDisplay, make_display
from sidequest.runs.process import raise_on_signals
from sidequest.runs.spec import is_finished
from sidequest.study.studies import Job, Study, jobs_of

SAVING = "interrupted: running groups are being stopped; a second Ctrl-C exits at once"
_STOPPED = "interrupted; the same command resumes the study from what is saved"
# Runs of one program: a run of preset `small` takes about 0.1 GB, and a bad one costs its
# neighbours some time. With 64 and 128 an H200 makes 1.10 and 1.57 million steps/s.
MOST_RUNS = {"cpu": 32, "gpu": 128}


class Machine(NamedTuple):
    """Holds what a group of runs may use."""

    kind: str
    """JAX's name of the platform: cpu, gpu or tpu."""
    devices: int
    """Number of devices that the runs share; on a CPU each core is one."""


class Group(NamedTuple):
    """Runs that train together: same game, heads, settings and frames."""

    jobs: tuple[Job, ...]
    was_lost: bool = False
    """Whether a worker was lost with it."""
    was_busy: bool = False
    """Whether another process held one of its runs."""

    @property
    def frames(self) -> int:
        """Frames of all runs together."""
        return sum(job.spec.frames for job in self.jobs)

    @property
    def label(self) -> str:
        first = self.jobs[0]
        if len(self.jobs) == 1:
            return first.id
        heads = " + ".join(first.spec.variant.heads)
        extra = "".join(f", {name}={value}" for name, value in first.settings)
        return f"{first.spec.game}, {heads}{extra}: {len(self.jobs)} runs"

    def halves(self) -> list["Group"]:
        middle = len(self.jobs) // 2
        parts = self.jobs[:middle], self.jobs[middle:]
        return [Group(part, was_busy=self.was_busy) for part in parts]


class Outcome(NamedTuple):
    """Says how a group ended."""

    group: Group
    kind: Literal["done", "failed", "busy", "lost", "interrupted"]
    reason: str = ""
    """One line."""
    traceback: str = ""


class Summary(NamedTuple):
    """Holds what could not be trained."""

    failures: dict[str, str]
    """Reasons by the ids of jobs."""
    tracebacks: list[str]
    busy: list[str]
    """Ids of jobs that another process held until the end."""


@runtime_checkable
class Executor(Protocol):
    """Runs groups: in this process, in workers, or on a cluster."""

    @property
    def machine(self) -> Machine: ...  # what each group may use

    @property
    def slots(self) -> int: ...  # how many groups run at a time

    def start(self, group: Group, display: GroupDisplay) -> None: ...

    def wait(self) -> Outcome: ...  # blocks until a group has ended

    def stop(self) -> None: ...  # saves and ends everything that runs


Launch: TypeAlias = Callable[[Group, Path, Display], None]
"""Trains the runs of a group below a study's folder."""


def train_group(group: Group, folder: Path, display: Display) -> None:
    """Trains all runs of a group in this process; those that have finished are skipped."""
    from sidequest.runs import trainer

    trainer.run([job.spec_in(folder) for job in group.jobs], display)


def run(
    study: Study,
    folder: Path,
    *,
    workers: int | None = None,
    cluster: str | None = None,
    quiet: bool = False,
    launch: Launch = train_group,
) -> Summary:
    """Trains every run of a study that its folder lacks, and notes there what failed.

    Args:
        workers: Number of processes to train in; by default this one.
        cluster: Address of a Ray cluster to train on.
        quiet: Print lines instead of bars.
        launch: Trains a group in this process.

    Raises:
        Interrupted: After a signal, with everything saved.
    """
    jobs = jobs_of(study)
    left = missing(folder, jobs)
    executor = make_executor(folder, workers, cluster, launch)
    write_plan(folder, study, jobs)
    write_failures(folder, {}, [])
    frames, frames_left = (sum(job.spec.frames for job in some) for some in (jobs, left))
    with make_display(quiet) as shown:
        display = StudyDisplay(
            shown,
            runs=len(jobs),
            finished=len(jobs) - len(left),
            frames=frames,
            done=frames - frames_left,
        )
        display.say(f"{study.name}: {study.title}")
        display.say(f"{display} in {folder}")
        summary = Summary({}, [], [])
        try:
            run_groups(plan_groups(left, executor.machine), executor, display, summary)
        finally:  # an interruption does not undo what has failed before it
            write_failures(folder, summary.failures, summary.tracebacks)
    return summary


def run_groups(
    groups: Sequence[Group], executor: Executor, display: StudyDisplay, summary: Summary
) -> None:
    """Runs all groups until everything is done that can be, and adds what cannot to the
    summary; see `run`."""
    waiting = deque(groups)
    running: dict[Group, GroupDisplay] = {}
    try:
        while waiting or running:
            while waiting and len(running) < executor.slots:
                group = waiting.popleft()
                game, runs = group.jobs[0].spec.game, len(group.jobs)
                running[group] = display.begin(group.label, game, runs, group.frames)
                executor.start(group, running[group])
            outcome = executor.wait()
            running.pop(outcome.group).end(outcome.kind, outcome.reason)
            again = _groups_to_retry(outcome, summary)
            if outcome.kind == "busy":
                waiting.extend(again)
            else:
                waiting.extendleft(reversed(again))
    except KeyboardInterrupt:
        with contextlib.suppress(OSError):  # there may be nobody to read it
            display.say(SAVING)
        executor.stop()
        raise Interrupted(_STOPPED) from None
    except BaseException:
        executor.stop()
        raise


def _groups_to_retry(outcome: Outcome, summary: Summary) -> list[Group]:
    """Returns what to try next after an outcome; notes runs that are given up."""
    group = outcome.group
    match outcome.kind:
        case "interrupted":
            raise Interrupted(_STOPPED)
        case "done":
            return []
        case "lost" if not group.was_lost:
            return [group._replace(was_lost=True)]
        case "busy" if not group.was_busy:
            return [group._replace(was_busy=True)]
    if len(group.jobs) > 1:
        return group.halves()
    for job in group.jobs:
        if outcome.kind == "busy":
            summary.busy.append(job.id)
        else:
            summary.failures[job.id] = outcome.reason
            details = outcome.traceback or outcome.reason
            summary.tracebacks.append(f"{job.id}\n{details}\n")
    return []


def plan_groups(jobs: Iterable[Job], machine: Machine) -> list[Group]:
    """Returns every job once, in groups that share a program.

    Where groups are full, one seed of everything comes first, so that all comparisons can
    be drawn early; within a seed, game by game.
    """
    jobs = list(jobs)
    games = list(dict.fromkeys(job.spec.game for job in jobs))
    ordered = sorted(jobs, key=lambda job: (job.spec.seed, games.index(job.spec.game)))
    rank = {job: number for number, job in enumerate(ordered)}
    programs: dict[tuple, list[Job]] = {}
    for job in ordered:
        programs.setdefault(program(job), []).append(job)
    groups = [
        Group(tuple(part)) for same in programs.values() for part in parts(same, machine)
    ]
    return sorted(groups, key=lambda group: rank[group.jobs[0]])


def program(job: Job) -> tuple:
    """Returns a key that is equal for jobs that can share a compiled program."""
    spec = job.spec
    hosted = registry.kind(spec.game) != "compiled"
    alone = (str(spec.variant), spec.seed) if hosted else ()
    return (spec.game, spec.variant.heads, spec.config, spec.frames, alone)


def parts(jobs: Sequence[Job], machine: Machine) -> list[Sequence[Job]]:
    """Splits a list into groups of about one size that keep all devices busy: a population
    is spread over as many devices as divide it, so 11 runs on 2 cores become 10 and 1."""
    devices = machine.devices
    most = max(1, MOST_RUNS["cpu" if machine.kind == "cpu" else "gpu"] // devices)
    whole = len(jobs) // devices * devices
    count = -(-whole // (most * devices))  # groups
    sizes = [whole // devices * (n + 1) // count * devices for n in range(count)]
    bounds = [0, *sizes, len(jobs)]
    return [jobs[a:b] for a, b in itertools.pairwise(bounds) if a < b]


def run_group(group: Group, folder: Path, display: Display, launch: Launch) -> Outcome:
    """Runs a group in this process and returns how it ended, whatever a run does wrong."""
    try:
        launch(group, folder, display)
    except (Interrupted, KeyboardInterrupt) as stop:
        return Outcome(group, "interrupted", str(stop) or "interrupted")
    except RunBusy as busy:
        return Outcome(group, "busy", str(busy))
    except Exception as error:
        return Outcome(group, "failed", _one_line(error), traceback.format_exc())
    return Outcome(group, "done")


def outcome_of_worker(outcome: Outcome, folder: Path) -> Outcome:
    """Returns how another process ended: if somebody interrupted it, it is lost, unless its
    runs had finished."""
    if outcome.kind != "interrupted":
        return outcome
    lost = missing(folder, outcome.group.jobs)
    return outcome._replace(kind="lost" if lost else "done")


def _one_line(error: Exception) -> str:
    """Returns `ValueError: message`, without the type where the message is for people."""
    first = (str(error).strip().splitlines() or [""])[0]
    first = first if len(first) < 300 else first[:300] + " …"
    if isinstance(error, SidequestError):
        return first
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


class InProcess:
    """Runs one group at a time in this process, when it is waited for."""

    slots = 1

    def __init__(self, folder: Path, launch: Launch):
        self._folder, self._launch = folder, launch
        self._started: list[tuple[Group, GroupDisplay]] = []

    @property
    def machine(self) -> Machine:
        return local_machine()

    def start(self, group: Group, display: GroupDisplay) -> None:
        self._started.append((group, display))

    def wait(self) -> Outcome:
        group, display = self._started.pop()
        return run_group(group, self._folder, display, self._launch)

    def stop(self) -> None:
        pass  # what ran here has ended already


def make_executor(
    folder: Path, workers: int | None, cluster: str | None, launch: Launch = train_group
) -> Executor:
    """Returns the requested executor: a cluster, workers, or this process."""
    if cluster is None and workers is None:
        return InProcess(folder, launch)
    if cluster is not None:
        from sidequest.study.cluster import connect

        executor = connect(cluster, folder)
    else:
        from sidequest.study.workers import Workers

        executor = Workers(folder, workers or 1)
    # By which `run_groups` has workers save; a run in this process listens to signals
    # itself. After Ray, which installs handlers of its own.
    raise_on_signals()
    return executor


def local_machine() -> Machine:
    """Returns what this process may use. Starts JAX."""
    import jax

    return Machine(jax.default_backend(), jax.local_device_count())


def missing(folder: Path, jobs: Iterable[Job]) -> list[Job]:
    """Returns the jobs without a finished run; raises `InvalidRequest` if a run there is
    not the planned one, for example of another budget."""
    return [job for job in jobs if not is_finished(job.spec_in(folder))]


def write_plan(folder: Path, study: Study, jobs: Sequence[Job]) -> None:
    """Writes study.json; runs that were planned at an earlier start stay in it."""
    before = read_study(folder)
    planned = {run["id"]: run for run in before.get("runs", [])}
    for job in jobs:
        planned[job.id] = {
            "id": job.id,
            "variant": str(job.spec.variant),
            "game": job.spec.game,
            "seed": job.spec.seed,
            "frames": job.spec.frames,
            "folder": job.spec.folder.as_posix(),
            "settings": dict(job.settings),
        }
    plan = {
        "name": study.name,
        "title": study.title,
        "started": before.get("started") or now(),
        "command": shlex.join(sys.argv),
        "preset": study.preset,
        "settings": dict(study.settings),
        "runs": list(planned.values()),
    }
    with writing(folder / STUDY_FILE):
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / STUDY_FILE, plan)

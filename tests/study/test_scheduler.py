"""Which runs train together, and that whatever one run does, the others are trained."""

import json
import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidequest.errors import CannotWrite, CorruptFile, Interrupted, RunBusy
from sidequest.records import STUDY_FILE, read_failures, read_study
from sidequest.study import scheduler
from sidequest.study.scheduler import (
    MOST_RUNS,
    SAVING,
    Group,
    InProcess,
    Machine,
    Outcome,
    make_executor,
    outcome_of_worker,
    parts,
    plan_groups,
    program,
    run_group,
    write_plan,
)
from sidequest.study.studies import Grid, Study, find, jobs_of
from sidequest.study.workers import Share
from tests.study.fakes import Memory, finish_runs, group, run_all, study

VARIANTS = (
    *("XU-step-level-0.01", "XS-step-level-0.01", "XI-step-level-0.01"),
    *("XU-intra(10,informed:mismatch,p*,X)", "XI-intra(10,informed:variance,p*,X)"),
)
GAMES = ("probe:constant", "probe:two_step", "frostbite")
WATKINS = (("learning.watkins", False),)


@given(
    variants=st.sets(st.sampled_from(VARIANTS), min_size=1),
    games=st.sets(st.sampled_from(GAMES), min_size=1),
    seeds=st.integers(1, 9),
    kind=st.sampled_from(["cpu", "gpu", "tpu"]),
    devices=st.integers(1, 12),
)
def test_every_run_once_and_one_program_a_group(variants, games, seeds, kind, devices):
    variants, games = tuple(sorted(variants)), tuple(sorted(games))
    grids = (Grid(variants, games), Grid(variants[:1], games, WATKINS))
    jobs = jobs_of(Study("s", "t", grids, seeds, 1_000, "small"))
    machine = Machine(kind, devices)
    groups = plan_groups(jobs, machine)
    planned = [job.id for one in groups for job in one.jobs]
    assert sorted(planned) == sorted(job.id for job in jobs)
    for one in groups:
        specs = [job.spec for job in one.jobs]
        assert len({program(job) for job in one.jobs}) == 1
        assert len({(spec.variant.heads, spec.game, spec.config) for spec in specs}) == 1
        assert len(specs) <= MOST_RUNS["cpu" if kind == "cpu" else "gpu"]
        assert len(specs) == 1 or specs[0].game != "frostbite"
        # No device idles while another has two runs to go.
        assert len(specs) < devices or len(specs) % devices == 0


def test_parts_keep_all_devices_busy():
    def sizes(count, kind, devices):
        return [len(part) for part in parts(jobs_of(study(count)), Machine(kind, devices))]

    assert sizes(11, "cpu", 2) == [10, 1]
    assert sizes(30, "cpu", 2) == [30]
    assert sizes(70, "cpu", 2) == [22, 24, 24]
    assert sizes(40, "cpu", 12) == [12, 24, 4]
    assert sizes(140, "gpu", 1) == [70, 70]  # one program for both
    assert sizes(1, "gpu", 4) == [1]


def test_one_seed_of_everything_comes_first():
    groups = plan_groups(jobs_of(find("paper")), Machine("gpu", 1))
    order = [job for one in groups for job in one.jobs]
    assert [job.spec.seed for job in order] == [0] * 259 + [1] * 259 + [2] * 259
    first = order[:37]
    assert {job.spec.game for job in first} == {"frostbite"}
    assert len({(str(job.spec.variant), job.settings) for job in first}) == 37


def test_quick_has_two_programs_and_short_runs_few_checkpoints():
    jobs = jobs_of(find("quick"))
    groups = plan_groups(jobs, Machine("cpu", 2))
    # Of 8 variants and 5 seeds; groups of one size need not be compiled twice.
    assert [len(group.jobs) for group in groups] == [20] * 4
    assert len({program(job) for job in jobs}) == 2
    assert jobs[0].spec.checkpoints.every == 25_000
    assert jobs_of(find("paper/fig7"))[0].spec.checkpoints.every == 100_000_000


class Launch:
    """Trains runs by noting their seeds; `does(seeds, calls)` may raise."""

    def __init__(self, does=lambda seeds, calls: None):
        self.does = does
        self.calls: list[list[int]] = []
        self.made: list[int] = []

    def __call__(self, group, folder, display):
        seeds = [job.spec.seed for job in group.jobs]
        self.calls.append(seeds)
        self.does(seeds, len(self.calls))
        self.made += seeds


def run(launch, groups, tmp_path):
    display = Memory()
    return run_all(groups, InProcess(tmp_path, launch), display), display


def two_groups():
    jobs = jobs_of(study(4))
    return [Group(jobs[:2]), Group(jobs[2:])]


def test_all_groups_are_run_in_order(tmp_path):
    launch = Launch()
    summary, display = run(launch, two_groups(), tmp_path)
    assert launch.calls == [[0, 1], [2, 3]]
    assert summary == ({}, [], [])
    assert display.ends == [("done", ""), ("done", "")]


def test_a_run_that_always_fails_takes_no_other_with_it(tmp_path):
    """Fault 33: one of six."""

    def does(seeds, calls):
        if 4 in seeds:
            raise ValueError("seed 4 is bad\nand says why at length")

    launch = Launch(does)
    summary, _ = run(launch, [group(6)], tmp_path)
    assert sorted(launch.made) == [0, 1, 2, 3, 5]
    assert summary.failures == {
        "XU-step-level-0.01/probe:constant/4": "ValueError: seed 4 is bad"
    }
    assert "at length" in summary.tracebacks[0] and "Traceback" in summary.tracebacks[0]
    # By halves: six, three (done), three, one (done), two, one, one.
    assert launch.calls == [[0, 1, 2, 3, 4, 5], [0, 1, 2], [3, 4, 5], [3], [4, 5], [4], [5]]


def test_a_group_too_large_for_the_memory_is_halved_until_it_fits(tmp_path):
    def does(seeds, calls):
        if len(seeds) > 2:
            raise MemoryError

    launch = Launch(does)
    summary, _ = run(launch, [group(8)], tmp_path)
    assert sorted(launch.made) == list(range(8)) and not summary.failures


def test_a_busy_group_is_tried_again_at_the_end(tmp_path):
    def does(seeds, calls):
        if calls == 1:
            raise RunBusy("process 7 is writing it")

    launch = Launch(does)
    summary, _ = run(launch, two_groups(), tmp_path)
    assert launch.calls == [[0, 1], [2, 3], [0, 1]]
    assert not summary.failures and not summary.busy


def test_runs_that_another_process_keeps_are_no_failures(tmp_path):
    def does(seeds, calls):
        if 1 in seeds:
            raise RunBusy("process 7 is writing it")

    launch = Launch(does)
    summary, _ = run(launch, [group(4)], tmp_path)
    assert sorted(launch.made) == [0, 2, 3]
    assert summary.busy == ["XU-step-level-0.01/probe:constant/1"] and not summary.failures


@pytest.mark.parametrize("stop", [Interrupted("SIGTERM"), KeyboardInterrupt()])
def test_a_signal_stops_everything(tmp_path, stop):
    def does(seeds, calls):
        raise stop

    launch = Launch(does)
    with pytest.raises(Interrupted, match="the same command"):
        run(launch, [group(2), group(3)], tmp_path)
    assert len(launch.calls) == 1


class Losing:
    """An executor whose groups end as told: one list of kinds for each number of runs."""

    slots, machine = 2, Machine("cpu", 1)

    def __init__(self, kinds):
        self.kinds, self.started, self.waiting, self.stopped = kinds, [], [], False

    def start(self, group, display):
        self.started.append([job.spec.seed for job in group.jobs])
        self.waiting.append(group)

    def wait(self):
        group = self.waiting.pop(0)
        kinds = self.kinds.get(len(group.jobs), [])
        return Outcome(group, kinds.pop(0) if kinds else "done", "killed")

    def stop(self):
        self.stopped = True


def test_the_runs_of_a_lost_worker_are_tried_once_more():
    executor = Losing({2: ["lost"]})
    summary = run_all([group(2), group(3)], executor, Memory())
    assert executor.started == [[0, 1], [0, 1, 2], [0, 1]]
    assert not summary.failures


def test_a_run_that_kills_every_worker_fails():
    executor = Losing({2: ["lost", "lost"], 1: ["done", "lost", "lost"]})
    summary = run_all([group(2)], executor, Memory())
    assert executor.started == [[0, 1], [0, 1], [0], [1], [1]]
    assert list(summary.failures.values()) == ["killed"]


def test_a_worker_that_was_interrupted_is_lost_unless_its_runs_had_finished(tmp_path):
    interrupted = Outcome(group(1), "interrupted", "stopped")
    assert outcome_of_worker(interrupted, tmp_path).kind == "lost"
    finish_runs(interrupted.group, tmp_path, Memory())
    assert outcome_of_worker(interrupted, tmp_path).kind == "done"
    failed = Outcome(group(1), "failed", "no")
    assert outcome_of_worker(failed, tmp_path) is failed


def test_an_executor_is_stopped_when_a_group_is_interrupted():
    executor = Losing({3: ["interrupted"]})
    with pytest.raises(Interrupted):
        run_all([group(3), group(2)], executor, Memory())
    assert executor.stopped


class Gone(Memory):
    """A display that nobody reads any more."""

    def hear(self, text):
        raise BrokenPipeError


@pytest.mark.parametrize("display", [Memory(), Gone()])
def test_control_c_is_answered_before_the_executor_saves(display):
    class Stopped(Losing):
        def wait(self):
            raise KeyboardInterrupt

        def stop(self):
            super().stop()
            self.answered = display.said == [SAVING]

    executor = Stopped({})
    with pytest.raises(Interrupted, match="the same command resumes"):
        run_all([group(2)], executor, display)
    assert executor.stopped
    assert executor.answered or isinstance(display, Gone)


@pytest.mark.parametrize("workers", [2, None])
def test_signals_come_as_exceptions_where_others_work(workers, tmp_path, monkeypatch):
    """The command's own answer to Ctrl-C exits at once, and workers could not save."""
    handlers = {}
    monkeypatch.setattr("signal.signal", handlers.__setitem__)
    monkeypatch.setattr("signal.getsignal", lambda number: signal.SIG_DFL)
    monkeypatch.setattr(
        "sidequest.study.workers.split_machine", lambda count: [Share()] * count
    )
    make_executor(tmp_path, workers, None)
    raising = signal.default_int_handler
    all_of_them = dict.fromkeys((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), raising)
    assert handlers == (all_of_them if workers else {})


@pytest.mark.parametrize(
    "error, reason",
    [
        (CannotWrite("for people"), "for people"),
        (ValueError("a\nb"), "ValueError: a"),
        (MemoryError(), "MemoryError"),
        (ValueError("x" * 1_000), f"ValueError: {'x' * 300} …"),
    ],
)
def test_reasons_are_one_line(error, reason, tmp_path):
    def fail(group, folder, display):
        raise error

    display = Memory().begin("label", "game", 1, 1_000)
    outcome = run_group(group(1), tmp_path, display, fail)
    assert outcome.kind == "failed" and outcome.reason == reason


def test_a_study_is_planned_and_trained_and_what_fails_is_tried_again(tmp_path, capsys):
    """Fault 33 from the outside: the others are there, and the failure is noted."""
    failed = "XU-step-level-0.01/probe:constant/1"
    reason = "RuntimeError: no such cartridge"
    for started in (5, 1):  # all three, then halves; then only the missing one
        summary = scheduler.run(study(3), tmp_path, quiet=True, launch=finish_runs)
        assert summary.failures == {failed: reason} and not summary.busy
        assert capsys.readouterr().err.count("== ") == started
    assert read_failures(tmp_path) == {failed: reason}
    assert "Traceback" in (tmp_path / "failures.txt").read_text()
    assert len(read_study(tmp_path)["runs"]) == 3
    assert len(list(tmp_path.rglob("run.json"))) == 2
    # Without it all is well, and the plan forgets nothing.
    assert scheduler.run(study(1), tmp_path, launch=finish_runs) == ({}, [], [])
    assert not (tmp_path / "failures.txt").exists()
    assert read_failures(tmp_path) == {}
    assert len(read_study(tmp_path)["runs"]) == 3


def test_what_failed_before_an_interruption_stays_noted(tmp_path):
    def fail_then_stop(group, folder, display):
        if group.jobs[0].spec.seed == 0:
            raise RuntimeError("no such cartridge")
        raise KeyboardInterrupt

    planned = study(2)
    with pytest.raises(Interrupted):
        scheduler.run(planned, tmp_path, quiet=True, launch=fail_then_stop)
    reason = "RuntimeError: no such cartridge"
    assert read_failures(tmp_path) == {"XU-step-level-0.01/probe:constant/0": reason}


def test_a_torn_plan_is_told_and_is_written_anew_without_it(tmp_path):
    two = study(2)
    write_plan(tmp_path, two, jobs_of(two))
    path = tmp_path / STUDY_FILE
    whole = path.read_text()
    for content in (whole[: len(whole) // 2], "", "[]", '{"runs": [{}]}', '{"runs": 1}'):
        path.write_text(content)
        with pytest.raises(CorruptFile, match=r"study.json cannot be read.*; move this"):
            write_plan(tmp_path, two, jobs_of(two))
        assert path.read_text() == content
    path.unlink()
    assert read_study(tmp_path) == {}
    write_plan(tmp_path, two, jobs_of(two))
    assert json.loads(path.read_text())["runs"] == json.loads(whole)["runs"]


@pytest.mark.parametrize("place", ["file/below", "/proc/nowhere"])
def test_a_folder_that_cannot_be_made_is_told(place, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(CannotWrite, match=r"cannot write .*--out") as fault:
        write_plan(tmp_path / place, study(1), jobs_of(study(1)))
    assert "--resume" not in str(fault.value)

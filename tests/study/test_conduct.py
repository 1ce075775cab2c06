"""Whatever one run does, the others are made: the policy, with a launch that is made up."""

import signal

import pytest

from sidequest.errors import Interrupted, RunBusy
from sidequest.study.board import Voice
from sidequest.study.conduct import SAVING, Ending, attempt, conduct, one_line
from sidequest.study.crews import Alone, hire
from sidequest.study.planning import Group
from sidequest.study.workers import Share
from tests.study.fakes import Memory, group, jobs


class Launch:
    """Makes runs by noting their seeds; `does(seeds, calls)` may raise."""

    def __init__(self, does=lambda seeds, calls: None):
        self.does = does
        self.calls: list[list[int]] = []
        self.made: list[int] = []

    def __call__(self, group, folder, display):
        seeds = [job.seed for job in group.jobs]
        self.calls.append(seeds)
        self.does(seeds, len(self.calls))
        self.made += seeds


def run(launch, groups, tmp_path):
    board = Memory()
    return conduct(groups, Alone(tmp_path, board, launch), board), board


def test_all_groups_are_run_in_order(tmp_path):
    launch = Launch()
    tally, board = run(launch, [Group(jobs(4)[:2]), Group(jobs(4)[2:])], tmp_path)
    assert launch.calls == [[0, 1], [2, 3]]
    assert tally == ({}, [], [])
    assert board.ends == [("done", ""), ("done", "")]


def test_a_cell_that_always_fails_takes_no_other_with_it(tmp_path):
    """Fault 33: one of six."""

    def does(seeds, calls):
        if 4 in seeds:
            raise ValueError("seed 4 is bad\nand says why at length")

    launch = Launch(does)
    tally, _ = run(launch, [group(6)], tmp_path)
    assert sorted(launch.made) == [0, 1, 2, 3, 5]
    assert tally.failures == {
        "XU-step-level-0.01/probe:constant/4": "ValueError: seed 4 is bad"
    }
    assert "at length" in tally.traces[0] and "Traceback" in tally.traces[0]
    # By halves: six, three (done), three, one (done), two, one, one.
    assert launch.calls == [[0, 1, 2, 3, 4, 5], [0, 1, 2], [3, 4, 5], [3], [4, 5], [4], [5]]


def test_a_group_too_large_for_the_memory_is_halved_until_it_fits(tmp_path):
    def does(seeds, calls):
        if len(seeds) > 2:
            raise MemoryError

    launch = Launch(does)
    tally, _ = run(launch, [group(8)], tmp_path)
    assert sorted(launch.made) == list(range(8)) and not tally.failures


def test_a_group_that_another_is_at_comes_again_at_the_end(tmp_path):
    def does(seeds, calls):
        if calls == 1:
            raise RunBusy("process 7 is writing it")

    launch = Launch(does)
    tally, _ = run(launch, [Group(jobs(4)[:2]), Group(jobs(4)[2:])], tmp_path)
    assert launch.calls == [[0, 1], [2, 3], [0, 1]]
    assert not tally.failures and not tally.busy


def test_runs_that_another_keeps_are_told_and_are_no_failures(tmp_path):
    def does(seeds, calls):
        if 1 in seeds:
            raise RunBusy("process 7 is writing it")

    launch = Launch(does)
    tally, _ = run(launch, [group(4)], tmp_path)
    assert sorted(launch.made) == [0, 2, 3]
    assert tally.busy == ["XU-step-level-0.01/probe:constant/1"] and not tally.failures


@pytest.mark.parametrize("stop", [Interrupted("SIGTERM"), KeyboardInterrupt()])
def test_a_signal_stops_everything(tmp_path, stop):
    def does(seeds, calls):
        raise stop

    launch = Launch(does)
    with pytest.raises(Interrupted, match="the same command"):
        run(launch, [group(2), group(3)], tmp_path)
    assert len(launch.calls) == 1


class Losing:
    """A crew whose workers are lost as told: one list of kinds for each number of runs."""

    room = 2

    def __init__(self, kinds):
        self.kinds, self.started, self.waiting, self.stopped = kinds, [], [], False

    def start(self, group):
        self.started.append([job.seed for job in group.jobs])
        self.waiting.append(group)

    def wait(self):
        group = self.waiting.pop(0)
        kinds = self.kinds.get(len(group.jobs), [])
        return Ending(group, kinds.pop(0) if kinds else "done", "killed")

    def stop(self):
        self.stopped = True


def test_a_lost_worker_s_runs_are_tried_once_more():
    crew = Losing({2: ["lost"]})
    tally = conduct([group(2), group(3)], crew, Memory())
    assert crew.started == [[0, 1], [0, 1, 2], [0, 1]]
    assert not tally.failures


def test_what_kills_every_worker_is_found_and_fails():
    crew = Losing({2: ["lost", "lost"], 1: ["done", "lost", "lost"]})
    tally = conduct([group(2)], crew, Memory())
    assert crew.started == [[0, 1], [0, 1], [0], [1], [1]]
    assert list(tally.failures.values()) == ["killed"]


def test_a_crew_is_stopped_when_it_is_interrupted():
    crew = Losing({3: ["interrupted"]})
    with pytest.raises(Interrupted):
        conduct([group(3), group(2)], crew, Memory())
    assert crew.stopped


class Stopped(Losing):
    """Somebody presses Ctrl-C while it waits."""

    def wait(self):
        raise KeyboardInterrupt


class Gone(Memory):
    """A board that nobody reads any more."""

    def note(self, text):
        raise BrokenPipeError


def test_control_c_is_answered_before_the_crew_saves():
    board = Memory()

    class Saving(Stopped):
        def stop(self):
            super().stop()
            board.note("saved")

    crew = Saving({})
    with pytest.raises(Interrupted, match="the same command goes on"):
        conduct([group(2)], crew, board)
    assert crew.stopped
    assert board.told[-2:] == [("note", SAVING), ("note", "saved")]


def test_a_crew_saves_even_if_nobody_reads():
    crew = Stopped({})
    with pytest.raises(Interrupted):
        conduct([group(2)], crew, Gone())
    assert crew.stopped


@pytest.mark.parametrize("workers", [2, None])
def test_signals_come_as_exceptions_where_others_work(workers, tmp_path, monkeypatch):
    """The command's own answer to Ctrl-C leaves at once, and workers could not save."""
    handlers = {}
    monkeypatch.setattr("signal.signal", handlers.__setitem__)
    monkeypatch.setattr("sidequest.study.workers.shares", lambda count: [Share()] * count)
    hire(tmp_path, Memory(), workers, None)
    raising = signal.default_int_handler
    both = {signal.SIGINT: raising, signal.SIGTERM: raising}
    assert handlers == (both if workers else {})


def test_reasons_are_one_line(tmp_path):
    assert one_line(RunBusy("for people")) == "for people"
    assert one_line(ValueError("a\nb")) == "ValueError: a"
    assert one_line(MemoryError()) == "MemoryError"

    def fails(group, folder, display):
        raise ValueError("x" * 1_000)

    ending = attempt(group(1), tmp_path, Voice(Memory(), group(1)), fails)
    assert ending.kind == "failed" and len(ending.reason) < 400

"""How emulators are grouped, and what is told while they are built."""

import threading
import time

import pytest

from sidequest.environments.base import HostedGame
from sidequest.errors import ConfigError
from sidequest.runs import emulators, hosted
from sidequest.runs.build import build_agent
from sidequest.runs.checkpoint import ResumePoint
from sidequest.runs.emulators import Guarded, build_groups, choose_groups
from sidequest.runs.spec import RunSpec
from tests.runs.test_hosted import TINY, VARIANT, Drawn


@pytest.mark.parametrize(
    "streams, groups",
    [
        # Too few for large groups: four, or what divides them.
        *((120, 4), (8, 4), (64, 4), (256, 4), (300, 4), (380, 4)),
        *((6, 3), (9, 3), (15, 3), (30, 3), (10, 5), (14, 7), (270, 3), (291, 3)),
        # Enough: as many groups as have 96 or more.
        *((384, 4), (480, 5), (512, 4), (576, 6), (600, 6), (672, 7), (700, 7)),
        *((768, 8), (1_000, 10), (1_024, 8), (4_096, 8), (485, 5)),
        *((960, 10), (1_152, 12), (1_536, 12), (3_072, 12)),
    ],
)
def test_the_choice_of_groups(streams, groups):
    assert choose_groups(streams) == groups
    assert streams % groups == 0


@pytest.mark.parametrize("streams", [0, 1, 2, 13, 17, 169])
def test_streams_that_make_no_groups_of_one_size(streams):
    with pytest.raises(ConfigError, match=f"acting.environments is {streams}; .* 3 to 12"):
        choose_groups(streams)


class Counted(list):
    def say(self, text): ...

    def count(self, text, done, of):
        self.append((text, done, of))

    def show(self, progress): ...


def test_construction_is_told_group_by_group():
    told = Counted()

    def build(groups, environments, seed, threads, progress):
        for group in range(groups):
            progress((group + 1) * environments, groups * environments)
        return [Drawn(range(environments)) for _ in range(groups)]

    game = HostedGame(build, Drawn.spec)
    training, evaluator = build_groups(
        game, "drawn", groups=2, environments=60, evaluators=4, seed=0, display=told
    )
    assert told == [
        ("built 30 of 64 emulators", 30, 64),
        ("built 60 of 64 emulators", 60, 64),
        ("built 64 of 64 emulators", 64, 64),
    ]
    for group in (*training, evaluator):
        group.close()


def test_no_emulator_stays_when_the_evaluator_cannot_be_built():
    built = []

    def build(groups, environments, seed, threads, progress):
        if built:
            raise OSError("no process left")
        built.extend(Drawn(range(environments)) for _ in range(groups))
        return built

    game, before = HostedGame(build, Drawn.spec), threading.active_count()
    with pytest.raises(OSError, match="no process left"):
        build_groups(
            game, "drawn", groups=2, environments=8, evaluators=4, seed=0, display=Counted()
        )
    assert threading.active_count() == before


@pytest.mark.parametrize(
    "cores, groups, threads", [(16, 8, 8), (16, 12, 6), (2, 4, 2), (1, 3, 2)]
)
def test_four_threads_a_core(monkeypatch, cores, groups, threads):
    monkeypatch.setattr(emulators, "available_cores", lambda: cores)
    assert emulators.choose_threads(groups) == threads


@pytest.fixture
def left(monkeypatch):
    """Exit codes with which watchdogs would have left this process."""
    left: list[int] = []
    monkeypatch.setattr(emulators.os, "_exit", lambda code: left.append(int(code)))
    monkeypatch.setattr(emulators, "_CHECKS", 3)
    return left


def test_an_emulator_that_hangs_ends_the_process(left, capfd, monkeypatch):
    """The thread that waits cannot be reached: the process leaves, with what is saved."""
    monkeypatch.setattr(emulators, "_CHECK_SECONDS", 0.1)

    class Hanging(Drawn):
        def recv(self):
            while not left:
                time.sleep(0.01)
            return super().recv()

    guarded = Guarded(Hanging([0, 1]), "drawn")
    guarded.recv()
    guarded.close()
    assert left == [71]
    assert "an emulator of drawn has not answered for 0 seconds" in capfd.readouterr().err


def test_no_emulator_stays_when_a_run_cannot_be_made(tmp_path, monkeypatch):
    """A device may be full before the run's state is on it."""
    closed = []

    class Closing(Drawn):
        def close(self):
            closed.append(len(self.streams))

    def build(groups, environments, seed, threads, progress):
        return [Closing(range(environments)) for _ in range(groups)]

    def fail(*_):
        raise MemoryError("the device is full")

    monkeypatch.setattr(hosted, "HostedRun", fail)
    agent = build_agent(TINY, Drawn.spec, [VARIANT])
    point = ResumePoint(RunSpec(VARIANT, "drawn", 0, tmp_path, TINY, 1_000), None, False)
    with pytest.raises(MemoryError, match="the device is full"):
        hosted.start_run(agent, HostedGame(build, Drawn.spec), [point], Counted())
    assert sum(closed) == TINY.acting.environments + TINY.evaluation.episodes


@pytest.mark.parametrize(
    ("calls", "hangs"),
    [
        ([1, 3, 5, 7, 9], False),  # always waiting, but never for the same call
        ([2, 2, 2, 2, 2], False),  # nobody waits
        ([1, 1, 1, 3, 3, 3], False),  # seen twice again, which is one check too few
        ([1, 1, 1, 1, 2], True),
    ],
)
def test_what_the_watchdog_takes_for_a_hang(left, monkeypatch, calls, hangs):
    """By what it sees at each check: calls begun and ended, odd while one is under way."""
    monkeypatch.setattr(emulators, "_CHECK_SECONDS", 600.0)  # its own thread sleeps
    guarded, checks = Guarded(Drawn([0, 1]), "drawn"), iter(calls)

    class Closed:
        def wait(self, seconds):
            guarded._calls = next(checks, None)
            return guarded._calls is None

    with monkeypatch.context() as patch:
        patch.setattr(guarded, "_closed", Closed())
        guarded._watch()
    guarded.close()
    assert left == ([71] if hangs else [])

"""Real studies of test size: interrupted, killed, shared; the records are the same."""

import multiprocessing
import os
import shutil
import signal
import threading
import time

import polars.testing
import pytest

from sidequest.config import SMALL, flatten
from sidequest.environments import registry
from sidequest.errors import Interrupted, InvalidRequest
from sidequest.records import TABLES, read_run, read_study, read_table
from sidequest.runs.process import SAVING, lock_folders
from sidequest.study import scheduler
from sidequest.study.scheduler import missing, train_group
from sidequest.study.studies import Grid, Study, jobs_of, narrow
from tests.reliability.harness import CHUNK, CHUNKS, CONFIG, GAME, VARIANT, compiling_once
from tests.runs.tiny import bargains

# Two runs in one program: that of the tests of reliability, so that it is compiled once.
registry._registered[GAME] = bargains
SETTINGS = tuple(
    (name, value)
    for name, value in flatten(CONFIG).items()
    if value != flatten(SMALL)[name]
)
STUDY = Study(
    name="example",
    title="Two runs",
    grids=(Grid((VARIANT,), (GAME,)),),
    seeds=2,
    frames=CHUNKS * CHUNK,
    preset="small",
    settings=SETTINGS,
)
JOBS = jobs_of(STUDY)
DONE = ({}, [], [])


def run(folder, **options):
    return scheduler.run(STUDY, folder, quiet=True, **options)


@pytest.fixture(scope="module", autouse=True)
def compile_once():
    with compiling_once(CONFIG):
        yield


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The study as nothing disturbed it."""
    folder = tmp_path_factory.mktemp("whole")
    assert run(folder) == DONE
    return folder


def assert_same_tables(folder, whole, job):
    for table in TABLES:
        mine, other = (read_table(one / job.spec.folder, table) for one in (folder, whole))
        polars.testing.assert_frame_equal(mine, other)


def test_the_plan_says_what_was_run(whole):
    plan = read_study(whole)
    assert plan["name"] == "example" and plan["title"] and plan["started"]
    assert [entry["id"] for entry in plan["runs"]] == [
        f"{VARIANT}/{GAME}/0",
        f"{VARIANT}/{GAME}/1",
    ]
    for entry in plan["runs"]:
        said = read_run(whole / entry["folder"])
        assert said["finished"] and said["frames"] == entry["frames"] == STUDY.frames
        assert said["variant"] == entry["variant"] and entry["settings"] == {}
        assert "resumed" not in said


class Interrupting:
    """Sends this process a signal after the first chunk, and lets its listener hear it."""

    def __init__(self, display):
        self.display, self.count = display, display.count
        self.heard = threading.Event()

    def say(self, text):
        self.display.say(text)
        if text.startswith("SIGTERM"):
            self.heard.set()

    def show(self, progress):
        os.kill(os.getpid(), signal.SIGTERM)
        self.heard.wait()


def test_a_signal_while_a_group_finishes_stops_the_study(tmp_path):
    class Late(Interrupting):
        def show(self, progress):
            if progress.frames >= progress.total:
                super().show(progress)

    def interrupt(group, folder, display):
        train_group(group, folder, Late(display))

    with pytest.raises(Interrupted):
        run(tmp_path, launch=interrupt)
    assert not missing(tmp_path, JOBS)


def test_interrupted_and_started_again_gives_the_same_tables(whole, tmp_path, capsys):
    def interrupt(group, folder, display):
        train_group(group, folder, Interrupting(display))

    with pytest.raises(Interrupted):
        run(tmp_path, launch=interrupt)
    assert f"   SIGTERM: {SAVING}\n" in capsys.readouterr().err  # through the display
    assert missing(tmp_path, JOBS) == list(JOBS)
    assert run(tmp_path) == DONE
    for job in JOBS:
        assert read_run(tmp_path / job.spec.folder)["resumed"]
        assert_same_tables(tmp_path, whole, job)


def test_what_is_done_is_not_touched_and_a_narrower_start_forgets_nothing(whole):
    before = {path: path.stat().st_mtime_ns for path in whole.rglob("*.parquet")}
    started = read_study(whole)["started"]
    part = narrow(STUDY, seeds=1)
    assert scheduler.run(part, whole) == DONE
    assert before == {path: path.stat().st_mtime_ns for path in whole.rglob("*.parquet")}
    assert len(read_study(whole)["runs"]) == 2
    assert read_study(whole)["started"] == started


def test_runs_of_another_budget_are_refused(whole):
    with pytest.raises(InvalidRequest):
        missing(whole, jobs_of(narrow(STUDY, frames=5_000)))


def test_two_runners_over_one_folder(tmp_path):
    """Fault 31: what another process holds is left to it."""
    with lock_folders([tmp_path / job.spec.folder for job in JOBS]):
        summary = run(tmp_path)
    assert summary == ({}, [], [job.id for job in JOBS])
    assert missing(tmp_path, JOBS) == list(JOBS)


@pytest.mark.slow
def test_a_runner_killed_in_the_middle(whole, tmp_path):
    """Fault 32: kill -9 with one run done; the next start makes the other."""
    done, other = JOBS
    shutil.copytree(whole / done.spec.folder, tmp_path / done.spec.folder)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.*")}
    runner = multiprocessing.get_context("spawn").Process(target=run, args=(tmp_path,))
    runner.start()
    try:
        while runner.is_alive() and not list(tmp_path.rglob("episodes.jsonl")):
            time.sleep(0.02)
    finally:
        runner.kill()
        runner.join()
    assert runner.exitcode == -signal.SIGKILL
    assert missing(tmp_path, JOBS) == [other]
    assert run(tmp_path) == DONE
    assert not missing(tmp_path, JOBS)
    assert before == {path: path.stat().st_mtime_ns for path in before}
    assert_same_tables(tmp_path, whole, other)

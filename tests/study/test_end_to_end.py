"""Real studies of test size: interrupted, killed, shared; the records are the same."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import polars
import polars.testing
import pytest

from sidequest.errors import Interrupted, OtherRun
from sidequest.records import TABLES, read_run, read_study, read_table, write_failures
from sidequest.runs.process import SAVING, lock_folders
from sidequest.study.conduct import conduct, launch_group
from sidequest.study.crews import Alone
from sidequest.study.folder import enrol, missing
from sidequest.study.grids import jobs_of, narrow
from sidequest.study.planning import Machine, plan
from sidequest.study.studies import find
from tests.study.fakes import Memory

STUDY = narrow(find("paper/fig5/tiny"), games=["probe:memory_10"])  # two runs, one program
MACHINE = Machine("cpu", 1)


def run(folder, board=None, study=STUDY):
    """What the command does, without its words."""
    jobs = jobs_of(study)
    left = missing(folder, jobs)
    enrol(folder, study, jobs)
    board = board or Memory()
    return conduct(plan(left, MACHINE), Alone(folder, board, launch_group), board), left


class Interrupting(Memory):
    """Sends this process a signal after the first chunk, and lets its listener hear it."""

    def show(self, group, progress):
        super().show(group, progress)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.5)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The study as nothing disturbed it."""
    folder = tmp_path_factory.mktemp("whole")
    tally, _ = run(folder)
    assert tally == ({}, [], [])
    return folder


def test_the_plan_says_what_was_run(whole):
    plan = read_study(whole)
    assert plan["name"] == "paper/fig5/tiny" and plan["title"] and plan["started"]
    assert [entry["id"] for entry in plan["runs"]] == [
        "XU-intra(10,blind,100,G)/probe:memory_10/0",
        "XU-intra(10,informed,0.01,G)/probe:memory_10/0",
    ]
    for entry in plan["runs"]:
        said = read_run(whole / entry["folder"])
        assert said["finished"] and said["frames"] == entry["frames"] == 4_096
        assert said["variant"] == entry["variant"] and entry["settings"] == {}
        assert "resumed" not in said


def test_interrupted_and_started_again_gives_the_same_tables(whole, tmp_path):
    board = Interrupting()
    with pytest.raises(Interrupted):
        run(tmp_path, board)
    assert ("say", f"SIGTERM: {SAVING}") in board.told  # not past the board, over its bars
    jobs = jobs_of(STUDY)
    assert len(missing(tmp_path, jobs)) == 2
    tally, left = run(tmp_path)
    assert len(left) == 2 and tally == ({}, [], [])
    for job in jobs:
        assert read_run(tmp_path / job.folder)["resumed"]
        for table in TABLES:
            mine = read_table(tmp_path / job.folder, table)
            polars.testing.assert_frame_equal(mine, read_table(whole / job.folder, table))


def test_what_is_done_is_not_touched(whole):
    before = {path: path.stat().st_mtime_ns for path in whole.rglob("*.parquet")}
    tally, left = run(whole)
    assert not left and tally == ({}, [], [])
    assert before == {path: path.stat().st_mtime_ns for path in whole.rglob("*.parquet")}


def test_a_narrower_start_forgets_nothing(whole):
    started = read_study(whole)["started"]
    part = narrow(STUDY, variants=["XU-intra(10,blind,100,G)"])
    run(whole, study=part)
    assert len(read_study(whole)["runs"]) == 2
    assert read_study(whole)["started"] == started


def test_runs_of_another_budget_are_refused(whole):
    with pytest.raises(OtherRun):
        missing(whole, jobs_of(narrow(STUDY, frames=5_000)))


def test_two_runners_over_one_folder(tmp_path):
    """Fault 31: what another process holds is left to it."""
    jobs = jobs_of(STUDY)
    with lock_folders([tmp_path / job.folder for job in jobs]):
        tally, _ = run(tmp_path)
    assert tally.busy == [job.id for job in jobs] and not tally.failures
    assert missing(tmp_path, jobs) == list(jobs)


@pytest.mark.slow
def test_a_runner_killed_in_the_middle(whole, tmp_path):
    """Fault 32: kill -9 with one run done; the next start makes the other."""
    done, other = jobs_of(STUDY)
    folder = tmp_path
    shutil.copytree(whole / done.folder, folder / done.folder)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    command = ["-m", "sidequest", "study", STUDY.name, "--games", *STUDY.games]
    runner = subprocess.Popen(
        [sys.executable, *command, "--out", str(folder), "--quiet"],
        stderr=subprocess.DEVNULL,
    )
    try:
        while runner.poll() is None and not list(folder.rglob("episodes.jsonl")):
            time.sleep(0.02)
    finally:
        runner.kill()
        runner.wait()
    assert runner.returncode == -signal.SIGKILL
    assert missing(folder, jobs_of(STUDY)) == [other]
    tally, made = run(folder)
    assert tally == ({}, [], []) and made == [other]
    assert not missing(folder, jobs_of(STUDY))
    assert before == {path: path.stat().st_mtime_ns for path in before}
    for table in TABLES:
        mine = read_table(folder / other.folder, table)
        polars.testing.assert_frame_equal(mine, read_table(whole / other.folder, table))


def test_failures_are_rewritten(tmp_path):
    write_failures(tmp_path, {"a/b/0": "ValueError: no"}, ["a/b/0\nTraceback …"])
    assert json.loads((tmp_path / "failures.json").read_text()) == {
        "a/b/0": "ValueError: no"
    }
    assert "Traceback" in (tmp_path / "failures.txt").read_text()
    write_failures(tmp_path, {}, [])
    assert json.loads((tmp_path / "failures.json").read_text()) == {}
    assert not (tmp_path / "failures.txt").exists()

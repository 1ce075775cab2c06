"""Who may write a folder, what the command says, and what it refuses."""

import contextlib
import dataclasses
import errno
import json
import os
import resource
import subprocess
import sys

import pytest

from sidequest.cli import main
from sidequest.cli.train import group_by_kind, run_to_repeat, runs_to_resume, set_aside
from sidequest.config import change, evaluate_often
from sidequest.errors import CannotWrite, InvalidRequest, RunBusy
from sidequest.records import ARRIVING, RUN_FILE, TABLES, Recorder, read_run, write_json
from sidequest.runs.process import LOCK, lock_folders
from sidequest.runs.spec import identity, is_finished, read_spec, refuse_other
from tests.reliability.harness import CONFIG

HOLDER = """
import sys, time
from pathlib import Path
from sidequest.runs.process import lock_folders
with lock_folders([Path(sys.argv[1])]):
    print("held", flush=True)
    time.sleep(600)
"""


def call(*arguments):
    with pytest.raises(SystemExit) as stopped:
        main(list(arguments))
    return stopped.value.code


def test_case_30_two_processes_and_one_folder(tmp_path):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "run")],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None and holder.stdout.readline() == "held\n"
    with pytest.raises(RunBusy, match=f"in use: process {holder.pid} on") as fault:
        with lock_folders([tmp_path / "run"]):
            raise AssertionError("two at a time")
    assert fault.value.exit_code == 75
    holder.kill()
    holder.communicate()
    # The file is still there, and names a process that is not: it is taken over.
    assert json.loads((tmp_path / "run" / LOCK).read_text())["pid"] == holder.pid
    with lock_folders([tmp_path / "run"]):
        assert json.loads((tmp_path / "run" / LOCK).read_text())["pid"] == os.getpid()
    assert not (tmp_path / "run").exists()  # nothing was in it


def test_all_folders_are_held_or_none(tmp_path):
    with lock_folders([tmp_path / "b"]):
        with pytest.raises(RunBusy), lock_folders([tmp_path / "a", tmp_path / "b"]):
            raise AssertionError
        with lock_folders([tmp_path / "a"]):
            pass


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.ENOLCK, errno.EIO])
def test_a_file_system_without_locks_is_written_nevertheless(tmp_path, monkeypatch, code):
    def flock(descriptor, operation):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("fcntl.flock", flock)
    expected = pytest.raises(CannotWrite, match="Input/output error")
    with expected if code == errno.EIO else contextlib.nullcontext():
        with lock_folders([tmp_path / "run"]):
            assert (tmp_path / "run" / LOCK).exists()


def test_many_runs_may_have_all_their_tables_open(tmp_path):
    run = {"variant": "XU-step-level-0.1", "game": "probe:constant", "seed": 2}
    folders = [tmp_path / str(number) for number in range(60)]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        with lock_folders(folders), contextlib.ExitStack() as opened:
            for folder in folders:
                recorder = opened.enter_context(contextlib.closing(Recorder(folder, run)))
                for table in TABLES:
                    recorder.write(table, [{"frames": 1}])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def create_run(folder, **more):
    run = {"variant": "XU-step-level-0.1", "game": "probe:constant", "seed": 2}
    config = json.loads(json.dumps(dataclasses.asdict(CONFIG)))
    Recorder(folder, {**run, "frames": 10, "config": config, **more}).close()
    return folder


def test_runs_of_one_kind_are_resumed_together(tmp_path):
    folders = [create_run(tmp_path / "a"), create_run(tmp_path / "b", seed=3)]
    folders.append(create_run(tmp_path / "c", frames=20))
    groups = group_by_kind(runs_to_resume(folders))
    assert [[run.seed for run in runs] for runs in groups] == [[2, 3], [2]]
    assert [runs[0].frames for runs in groups] == [10, 20]
    assert groups[0][0].config == CONFIG


def test_from_starts_the_same_again(tmp_path):
    run = run_to_repeat(create_run(tmp_path / "a"), tmp_path / "out")
    assert (str(run.variant), run.game, run.seed) == (
        *("XU-step-level-0.1", "probe:constant", 2),
    )
    assert run.folder == tmp_path / "out/XU-step-level-0_1/probe-constant/seed-2"
    assert (run.config, run.frames) == (CONFIG, 10)


def test_fresh_sets_a_folder_aside(tmp_path):
    folder = create_run(tmp_path / "seed-0")
    assert set_aside(folder) == tmp_path / "seed-0.old-1"
    assert not folder.exists() and (tmp_path / "seed-0.old-1" / RUN_FILE).exists()
    assert set_aside(create_run(folder)) == tmp_path / "seed-0.old-2"


def test_a_run_that_is_there_is_not_begun_again(tmp_path, capsys):
    options = ["XU-step-level-0.1", "--game", "probe:constant", "--out", str(tmp_path)]
    folder = create_run(tmp_path / "XU-step-level-0_1/probe-constant/seed-0", seed=0)
    assert call("train", *options) == 2
    said = capsys.readouterr().err
    assert f"resume it with: sidequest train --resume {folder}" in said
    assert "--fresh" in said
    write_json(folder / RUN_FILE, read_run(folder) | {"finished": "today"})
    assert call("train", *options) == 2
    assert not call("train", "--resume", str(folder))  # what is queued again may be done
    assert capsys.readouterr().out.startswith("nothing is left to resume")
    (folder / RUN_FILE).write_text("{")
    assert call("train", "--resume", str(folder)) == 66


def test_a_folder_above_runs_resumes_those_that_have_not_finished(tmp_path):
    one, two, done = (create_run(tmp_path / f"{name}/seed-0") for name in "abc")
    write_json(done / RUN_FILE, read_run(done) | {"finished": "today"})
    create_run(tmp_path / "a/seed-0.old-1")  # set aside by --fresh
    create_run(tmp_path / "b/seed-0" / ARRIVING)  # killed while files came from a cluster
    assert [run.folder for run in runs_to_resume([tmp_path])] == [one, two]
    assert [run.folder for run in runs_to_resume([two, done])] == [two]
    assert runs_to_resume([done]) == []
    with pytest.raises(InvalidRequest, match="a folder is named twice"):
        runs_to_resume([tmp_path, one])


def test_case_28_a_folder_of_another_run_is_refused(tmp_path):
    folder = create_run(tmp_path / "a")
    with pytest.raises(InvalidRequest, match="seed is 2, here 9"):
        is_finished(read_spec(folder)._replace(seed=9))


def test_a_run_may_be_evaluated_more_often_than_it_began(tmp_path):
    """Studies of former versions, which evaluated short runs less often, continue."""
    run = read_spec(create_run(tmp_path / "a"))
    often = evaluate_often(run.config, 10)
    assert often.evaluation.interval == 1 < run.config.evaluation.interval
    assert not is_finished(run._replace(config=often))
    refuse_other(tmp_path, identity(run), identity(run._replace(config=often)))
    with pytest.raises(InvalidRequest, match="evaluation.episodes is"):
        is_finished(run._replace(config=change(often, **{"evaluation.episodes": 99})))

"""What the machine may do to a run: its clock, its cores, its memory, who listens to it."""

import dataclasses
import itertools
import signal
import subprocess
import sys
import time

import jax
import pytest

from sidequest.errors import Interrupted, MachineError
from sidequest.records import RUN_FILE, read_run, write_json
from sidequest.runs import checkpoint, trainer
from sidequest.runs.checkpoint import FOLDER, listed
from tests.reliability import child
from tests.reliability.harness import CHUNK, OPTIONS, Watcher, results, run, specs

COMMAND = [sys.executable, "-m", "tests.reliability.child", "train", *OPTIONS]


@pytest.mark.slow
def test_case_39_a_clock_that_goes_backwards(tmp_path, monkeypatch):
    """An hour with each look at it. Rates go by another clock, checkpoints by frames."""
    written = []
    write = checkpoint.write

    def note(folder, snapshot):
        written.append(snapshot.frames)
        return write(folder, snapshot)

    monkeypatch.setattr(checkpoint, "write", note)
    backwards = itertools.count(time.time(), -3600.0)
    monkeypatch.setattr(time, "time", lambda: next(backwards))
    monkeypatch.setattr(time, "time_ns", lambda: int(1e9 * next(backwards)))
    begin = time.perf_counter()
    (one,) = specs(tmp_path, 0)
    watcher = run([one], chunks=4)
    elapsed = time.perf_counter() - begin
    assert written == [CHUNK, 2 * CHUNK, 3 * CHUNK]
    assert all(progress.frame_rate > 0 for progress in watcher.shown)
    assert 0 < read_run(one.folder)["seconds"] <= elapsed


def test_case_40_other_cores_are_told_and_noted(tmp_path):
    (one,) = specs(tmp_path, 0)
    with pytest.raises(Interrupted):
        run([one], Watcher(stop_after=1), chunks=2)
    here = read_run(one.folder)
    cores = here["cores"]
    versions = here["versions"] | {"jax": "0.1"}
    elsewhere = here | {"cores": cores + 7, "versions": versions}
    write_json(one.folder / RUN_FILE, elsewhere)
    watcher = run([one], chunks=2)
    told = [text for text in watcher.said if "began with" in text]
    parts = f"jax 0.1, now {jax.__version__}", f"cores {cores + 7}, now {cores}"
    assert told == [
        f"{one.folder} began with {part}: the last bits may differ" for part in parts
    ]
    assert read_run(one.folder)["resumed"][0]["changed"] == {
        "cores": [cores + 7, cores],
        "versions": [versions, here["versions"]],
    }


@pytest.mark.parametrize(
    "error",
    [
        jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to"),
        jax.errors.JaxRuntimeError("INTERNAL: Out of memory allocating 120 bytes."),
        MemoryError(),
    ],
)
def test_out_of_memory_is_told_in_one_line(tmp_path, error):
    with pytest.raises(
        MachineError, match="^out of memory with 2 runs: use fewer"
    ) as fault:
        with trainer._explain_failures(specs(tmp_path, 0, 1)):
            raise error
    assert fault.value.exit_code == 71 and "\n" not in str(fault.value)


def test_an_interruption_tells_how_to_resume_whatever_run_json_lacks(tmp_path):
    """`finished` may be missing in it; that was a KeyError."""
    (one,) = specs(tmp_path, 0)
    recorded = {"variant": str(one.variant), "game": one.game, "seed": 0}
    recorded |= {"frames": one.frames, "config": dataclasses.asdict(one.config)}
    one.folder.mkdir()
    write_json(one.folder / RUN_FILE, recorded)
    with pytest.raises(Interrupted, match="^saved; resume with: .*seed-0$"):
        with trainer._explain_failures([one]):
            raise Interrupted("saved")


def test_other_errors_are_not_taken_for_it(tmp_path):
    with pytest.raises(jax.errors.JaxRuntimeError, match="INVALID"):
        with trainer._explain_failures(specs(tmp_path, 0)):
            raise jax.errors.JaxRuntimeError("INVALID_ARGUMENT: shapes")


@pytest.mark.slow
def test_case_44_whoever_listens_may_leave(uninterrupted_process, tmp_path):
    """`sidequest train … 2>&1 | head -1`."""
    command = [*COMMAND, "--out", str(tmp_path)]
    process = child.launch(command, stderr=subprocess.STDOUT)
    assert process.stdout is not None and process.stdout.readline()
    process.stdout.close()
    assert process.wait() == 0
    found = [results(path.parent) for path in sorted(tmp_path.rglob("run.json"))]
    assert found == uninterrupted_process


@pytest.mark.slow
def test_case_44_nobody_listens_at_all(uninterrupted_process, tmp_path):
    """`sidequest train … >&- 2>&-`: no file of the run gets the number of a stream."""
    closed = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *COMMAND, "--out", str(tmp_path)]
    process = child.launch(closed)
    process.communicate()
    assert process.returncode == 0
    found = [results(path.parent) for path in sorted(tmp_path.rglob("run.json"))]
    assert found == uninterrupted_process


STUCK = """
import sys, time
from sidequest.runs import checkpoint
write_synced = checkpoint.write_synced
def stick(path, content):
    if int(path.parent.name.split("-")[1]) == {frames}:
        print("writing", file=sys.stderr, flush=True)
        time.sleep(600)
    write_synced(path, content)
checkpoint.write_synced = stick
sys.argv = {arguments!r}
import runpy
runpy.run_module("tests.reliability.child", run_name="__main__")
"""


@pytest.mark.slow
def test_case_06_killed_while_a_checkpoint_is_written(uninterrupted_process, tmp_path):
    """Its arrays are there, its manifest is not: the one before it is used."""
    arguments = ["child", "train", *OPTIONS, "--out", str(tmp_path)]
    frames = 8 * CHUNK
    code = STUCK.format(frames=frames, arguments=arguments)
    process = child.launch([sys.executable, "-c", code])
    said = child.stop(process, 0.5, signal.SIGKILL, since="writing")
    assert process.returncode == -signal.SIGKILL, said
    (first,) = child.unfinished(tmp_path)
    torn = [path.name for path in (tmp_path / first / FOLDER).glob(".part-*/*")]
    assert torn and "manifest.json" not in torn
    assert [int(path.name) for path in listed(tmp_path / first)] == [4 * CHUNK]
    process = child.start("train", "--resume", first, "--quiet")
    _, said = process.communicate()
    assert process.returncode == 0, said
    assert f"resuming at {4 * CHUNK:,} frames" in said
    found = [results(path.parent) for path in sorted(tmp_path.rglob("run.json"))]
    assert found == uninterrupted_process


def test_a_stream_that_was_closed_gets_its_number_back():
    code = (
        "import os, sys\n"
        "from sidequest.cli import open_closed_streams\n"
        "assert sys.stderr is None\n"
        "open_closed_streams()\n"
        "print('lost', file=sys.stderr, flush=True)\n"
        "print(os.open(os.devnull, os.O_RDONLY) > 2)\n"
    )
    closed = ["sh", "-c", 'exec "$@" 2>&-', "sh", sys.executable, "-c", code]
    done = subprocess.run(closed, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "True\n")

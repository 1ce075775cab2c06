"""A disk that is full or read-only costs nothing that was written before."""

import contextlib
import errno
import os
import resource
import time
from pathlib import Path

import numpy as np
import pytest

from sidequest import records
from sidequest.errors import CannotWrite
from sidequest.records import Recorder, read_table, write_failures
from sidequest.runs import checkpoint
from sidequest.runs.checkpoint import CheckpointWriter, Snapshot, listed
from sidequest.runs.process import lock_folders
from sidequest.study.cluster import Chunk, unpack
from tests.reliability.harness import Watcher

RUN = {"variant": "XU-step-level-0.1", "game": "tests:bargains", "seed": 0}


@contextlib.contextmanager
def largest_file(size: int):
    """No file may grow beyond this; Python ignores the signal, so writing fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def taken(folder, frames: int, size: int = 100_000):
    noise = np.random.default_rng(frames).normal(size=size)
    return lambda: {folder: Snapshot(RUN, frames, {}, {}, {"noise": noise})}


def test_case_21_disk_full_at_a_checkpoint(tmp_path):
    display = Watcher()
    with CheckpointWriter([tmp_path], 10, display) as saver:
        saver.save_now(taken(tmp_path, 10))
        before = {path: path.read_bytes() for path in tmp_path.rglob("*.*")}
        with largest_file(20_000):
            saver.save(taken(tmp_path, 20))
            saver.wait()
            (*_, said) = display.said
            assert "no checkpoint was written" in said
            assert (
                "the checkpoint at 10 frames is kept, training continues"
                in display.said[-1]
            )
            # If it is the last chance, the fault is raised.
            with pytest.raises(CannotWrite, match="cannot write .*checkpoints") as fault:
                saver.save_now(taken(tmp_path, 20))
            assert fault.value.exit_code == 73
        assert {path: path.read_bytes() for path in tmp_path.rglob("*.*")} == before
        assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == [
            "0" * 10 + "10"
        ]
        saver.save_now(taken(tmp_path, 30))  # there is room again
    assert [int(path.name) for path in listed(tmp_path)] == [30, 10]


def test_a_wait_for_the_checkpoint_before_is_a_pause(tmp_path, monkeypatch):
    write, display = checkpoint.write, Watcher()

    def write_slowly(folder, snapshot):
        time.sleep(0.5)
        return write(folder, snapshot)

    monkeypatch.setattr(checkpoint, "write", write_slowly)
    with CheckpointWriter([tmp_path], 10, display) as saver:
        saver.save(taken(tmp_path, 10))
        saver.save(taken(tmp_path, 20))
    paused = [float(said.split("paused for ")[1].split()[0]) for said in display.said]
    assert paused[0] < 0.4 < paused[1]


def test_no_memory_to_write_a_checkpoint(tmp_path, monkeypatch):
    """A stop said that the run was saved, and nothing was."""

    def write(folder, snapshot):
        raise MemoryError

    monkeypatch.setattr(checkpoint, "write", write)
    display = Watcher()
    with CheckpointWriter([tmp_path], 10, display) as saver:
        with pytest.raises(CannotWrite, match="cannot write .*MemoryError"):
            saver.save_now(taken(tmp_path, 10))
    assert display.said == [
        "no checkpoint was written: MemoryError(); there is none yet, training continues"
    ]


def test_only_the_newest_good_checkpoints_stay(tmp_path):
    with CheckpointWriter([tmp_path], 10, Watcher()) as saver:
        for frames in (10, 20, 30, 40):
            assert saver.is_due(frames - 5, frames) and not saver.is_due(frames, frames + 9)
            saver.save(taken(tmp_path, frames, 10))
    assert [int(path.name) for path in listed(tmp_path)] == [40, 30]
    assert checkpoint.KEPT == 2


def test_case_22_disk_full_at_a_row(tmp_path):
    """The run stops there: a table with a gap would be worse, and resuming has none."""
    recorder = Recorder(tmp_path / "run", RUN)
    row = {"frames": 1, "text": "x" * 500}
    recorder.write("episodes", [row] * 10)
    digests = recorder.sync()
    with largest_file(8_000):
        with pytest.raises(
            CannotWrite, match=r"episodes.jsonl.*resume with: sideq"
        ) as fault:
            for _ in range(10):
                recorder.write("episodes", [row])
        recorder.close()
    assert fault.value.exit_code == 73 and "\n" not in str(fault.value)
    assert read_table(tmp_path / "run", "episodes").height >= 10
    note = {"frames": 1, "time": "now", "command": "train", "changed": {}}
    again = Recorder.resume(tmp_path / "run", digests, note)
    again.write("episodes", [row | {"frames": 2}])
    again.close()
    assert read_table(tmp_path / "run", "episodes")["frames"].to_list() == [1] * 10 + [2]


def test_case_22_disk_full_when_the_last_rows_are_noted(tmp_path, monkeypatch):
    """They were left out of the finished tables, as if nobody had noted them."""
    recorder = Recorder(tmp_path, RUN)
    recorder.write("episodes", [{"frames": 1}])
    write = records.write_json

    def refuse(*_, **__):
        monkeypatch.setattr(records, "write_json", write)  # there is room again
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(records, "write_json", refuse)
    with pytest.raises(CannotWrite, match=r"digests.json: No space"):
        recorder.finish()
    recorder.finish()
    assert read_table(tmp_path, "episodes").height == 1


@pytest.mark.parametrize(
    "write, name",
    [
        (lambda path: checkpoint.save(path / "a.npz", np.zeros(5_000)), "a.npz"),
        (lambda path: write_failures(path, {"a run": "x" * 5_000}, []), "failures.json"),
        (lambda path: unpack(path, [Path("a")], [Chunk("a", b"x" * 5_000)]), "arriving"),
    ],
)
def test_a_full_disk_is_told_with_the_file(tmp_path, write, name):
    """It was said of standard output."""
    with largest_file(2_000), pytest.raises(CannotWrite, match=f"cannot write .*{name}"):
        write(tmp_path)


def test_disk_full_when_the_parameters_are_written(tmp_path):
    """That was said of standard output, without a word on how to resume."""
    Recorder(tmp_path, RUN).close()
    before = sorted(os.listdir(tmp_path))
    with largest_file(1_000):
        with pytest.raises(CannotWrite, match=r"parameters.npz: .*resume with: sideq"):
            checkpoint.save(tmp_path / "parameters.npz", {"noise": np.zeros(1_000)})
    assert sorted(os.listdir(tmp_path)) == before  # nothing half written takes up room


def test_case_23_a_folder_that_cannot_be_written(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        with pytest.raises(CannotWrite, match="Read-only file system") as fault:
            with lock_folders([tmp_path / "run"]):
                raise AssertionError("held what cannot be held")
    assert fault.value.exit_code == 73
    monkeypatch.setattr(records, "write_synced", refuse)
    with pytest.raises(CannotWrite, match=r"digests.json: Read-only"):
        Recorder(tmp_path / "other", RUN)

"""What is said of a folder that cannot be written fits what is in it."""

import errno

import pytest

from sidequest.cli import main
from sidequest.errors import cannot_write
from sidequest.records import Recorder

FULL = OSError(errno.ENOSPC, "No space left on device")


def test_a_run_that_is_there_can_be_resumed(tmp_path):
    Recorder(tmp_path, {"variant": "v", "game": "g", "seed": 0}).close()
    told = str(cannot_write(tmp_path / "episodes.jsonl", FULL))
    assert "episodes.jsonl: No space left on device. Nothing written before" in told
    assert told.endswith(f"resume with: sidequest train --resume {tmp_path}")


@pytest.mark.parametrize("place", ["", "missing", "file", "x" * 300])
def test_where_there_is_no_run_another_folder_is_to_be_chosen(place, tmp_path):
    (tmp_path / "file").touch()
    told = str(cannot_write(tmp_path / place / "run" / ".lock", FULL))
    assert "No run was started there" in told and "--out" in told
    assert "--resume" not in told


def test_runs_of_a_study_are_not_denied(tmp_path):
    (tmp_path / "study.json").touch()
    told = str(cannot_write(tmp_path / "study.json", FULL))
    assert "No run was started" not in told and "Existing runs are unchanged" in told


@pytest.mark.parametrize("out", ["file/below", "/proc/nowhere"])
def test_train_into_a_folder_that_cannot_be_made(out, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "file").touch()
    words = ["train", "XU-step-level-0.1", "--game", "probe:constant", "--frames", "1k"]
    with pytest.raises(SystemExit) as stopped:
        main([*words, "--quiet", "--out", str(tmp_path / out)])
    assert stopped.value.code == 73
    told = capsys.readouterr().err
    assert "No run was started there" in told and told.count("\n") == 1

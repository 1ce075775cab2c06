"""`sidequest train` and `evaluate` as a user calls them, on a game that takes seconds."""

import json
from pathlib import Path

import pytest

from sidequest.cli import main
from sidequest.records import TABLES, read_run, read_table


def run(*arguments):
    with pytest.raises(SystemExit) as stopped:
        main(list(arguments))
    return stopped.value.code


def test_train_then_evaluate(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    settings = ["evaluation.interval=2000", "replay.warm_up=1000", "evaluation.traces=10"]
    code = run(
        *("train", "XU-intra(10,informed,p*,X)", "--game", "probe:by_action"),
        *("--seeds", "2", "--seed", "5", "--frames", "4k", "--quiet"),
        *("--tensorboard", "--out", str(tmp_path)),
        *(word for setting in settings for word in ("--set", setting)),
    )
    assert not code
    folders = capsys.readouterr().out.split()
    assert [folder.rsplit("/", 1)[1] for folder in folders] == ["seed-5", "seed-6"]
    for folder in folders:
        assert read_run(folder)["finished"]
        assert read_run(folder)["variant"] == "XU-intra(10,informed,p*,X)"
        assert all(len(read_table(folder, table)) for table in TABLES)
        (events,) = (Path(folder) / "tensorboard").iterdir()
        assert events.stat().st_size > 1_000
    assert not run("evaluate", folders[0], "--episodes", "5", "--json")
    scores = json.loads(capsys.readouterr().out)
    assert scores["episodes"] == 5 and len(scores["returns"]) == 5
    assert run("train", "XU-step-level-0.1", "--game", "nonsense") == 2
    assert run("evaluate", str(tmp_path)) == 2

"""`sidequest train` and `evaluate` as a user calls them, on a game that takes seconds."""

import json
from pathlib import Path

from sidequest.environments import registry
from sidequest.records import TABLES, read_run, read_table
from tests.cli import run
from tests.reliability.harness import CHUNK, GAME, OPTIONS, VARIANT
from tests.runs.tiny import bargains


def test_train_then_evaluate(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(registry._registered, GAME, bargains)
    options = [word if word != str(24 * CHUNK) else str(6 * CHUNK) for word in OPTIONS]
    seeds = ["--seeds", 2, "--seed", 5]
    assert not run("train", *options, *seeds, "--tensorboard", "--out", tmp_path)
    folders = capsys.readouterr().out.split()
    assert [Path(folder).name for folder in folders] == ["seed-5", "seed-6"]
    for folder in folders:
        assert read_run(folder)["finished"] and read_run(folder)["variant"] == VARIANT
        assert all(len(read_table(folder, table)) for table in TABLES)
        (events,) = (Path(folder) / "tensorboard").iterdir()
        assert events.stat().st_size > 1_000
    assert not run("evaluate", folders[0], "--episodes", 5, "--json")
    scores = json.loads(capsys.readouterr().out)
    assert scores["episodes"] == 5 and len(scores["returns"]) == 5

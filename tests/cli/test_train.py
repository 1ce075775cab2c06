"""`sidequest train` and `evaluate` as a user calls them, on a game that takes seconds."""

import json
from pathlib import Path

from sidequest.records import TABLES, read_run, read_table
from sidequest.study.studies import find
from tests.cli import run

# The program of tests/study/test_end_to_end.py, so that it is compiled once for both.
STUDY = find("paper/fig5/tiny")
GAME = "probe:memory_10"


def test_train_then_evaluate(tmp_path, capsys):
    settings = [f"{name}={value}" for name, value in STUDY.settings]
    code = run(
        *("train", *STUDY.variants, "--game", GAME, "--seed", 5, "--frames", STUDY.frames),
        *("--quiet", "--tensorboard", "--out", tmp_path),
        *(word for setting in settings for word in ("--set", setting)),
    )
    assert not code
    folders = capsys.readouterr().out.split()
    assert [Path(folder).name for folder in folders] == ["seed-5", "seed-5"]
    for folder, variant in zip(folders, STUDY.variants, strict=True):
        assert read_run(folder)["finished"] and read_run(folder)["variant"] == variant
        tables = [table for table in TABLES if table != "bandits"]  # nothing is adapted
        assert all(len(read_table(folder, table)) for table in tables)
        (events,) = (Path(folder) / "tensorboard").iterdir()
        assert events.stat().st_size > 1_000
    assert not run("evaluate", folders[0], "--episodes", 5, "--json")
    scores = json.loads(capsys.readouterr().out)
    assert scores["episodes"] == 5 and len(scores["returns"]) == 5

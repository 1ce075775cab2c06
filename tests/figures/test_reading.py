"""Finding runs and reading their tables."""

import json

import numpy as np
import pytest

from sidequest.figures.reading import (
    column,
    plain_runs,
    read_records,
    read_variant,
    table,
    uses_watkins,
)
from sidequest.records import Recorder
from tests.figures.made_up import FRAMES, Cell, make_study, write_run

STEP, INTRA = "XU-step-level-0.01", "XI-intra(10,informed,p*,X)"


def test_a_study_is_read_in_its_own_order_with_what_is_missing(study_of):
    records = study_of(
        Cell(STEP, "game:b", 0, 5.0),
        Cell(INTRA, "game:a", 1, 5.0, share=0.4),
        Cell(STEP, "game:a", 0, 5.0, share=0.0),
    )
    assert records.name == "made-up" and records.title == "A made-up study"
    assert [(run.game, run.finished) for run in records.runs] == [
        ("game:b", True),
        ("game:a", False),
    ]
    assert [run.frames_done for run in records.runs] == [FRAMES, 0.4 * FRAMES]
    assert {run.frames for run in records.runs} == {FRAMES}
    assert [item["game"] for item in records.missing] == ["game:a"]


def test_any_folder_with_runs_below_it_will_do(tmp_path):
    write_run(tmp_path / "deep" / "down", Cell(STEP, "game:a", 3, 1.0))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "run.json").write_text("{}")  # somebody else's
    records = read_records(tmp_path)
    assert records.name == tmp_path.name and not records.missing
    assert [(run.variant, run.seed) for run in records.runs] == [(STEP, 3)]
    assert records.runs[0].settings == {}


def test_a_run_that_is_not_in_the_plan_is_read_too(tmp_path):
    make_study(tmp_path, [Cell(STEP, "game:a", 0, 1.0)])
    write_run(tmp_path / "extra", Cell(STEP, "game:a", 1, 1.0))
    assert [run.seed for run in read_records(tmp_path).runs] == [0, 1]


def test_of_a_run_started_twice_the_one_that_went_further_counts(tmp_path):
    write_run(tmp_path / "a", Cell(STEP, "game:a", 0, 1.0, share=0.3))
    write_run(tmp_path / "b", Cell(STEP, "game:a", 0, 1.0))
    (run,) = read_records(tmp_path).runs
    assert run.finished


def test_without_a_plan_settings_are_what_configs_differ_in(tmp_path):
    for name, ratio in (("a", 1.0), ("b", 2.0)):
        info = {"variant": STEP, "game": "game:a", "seed": 0, "frames": 10}
        config = {"replay": {"ratio": ratio, "capacity": 5}, "preset": "small"}
        Recorder(tmp_path / name, {**info, "config": config}).close()
    runs = read_records(tmp_path).runs
    assert [run.settings for run in runs] == [{"replay.ratio": 1.0}, {"replay.ratio": 2.0}]


def test_a_probe_with_settings_of_its_own_is_not_pooled(study_of):
    records = study_of(
        Cell(INTRA, "game:a", 0, 1.0),
        Cell(INTRA, "game:a", 0, 2.0, {"learning.watkins": False}),
        Cell(INTRA, "game:a", 0, 3.0, {"learning.watkins": True}),
    )
    (plain,) = plain_runs(records)
    assert plain.settings == {}
    assert [uses_watkins(run) for run in records.runs] == [True, False, True]


def test_settings_that_all_runs_of_a_variant_share_set_nothing_apart(study_of):
    records = study_of(
        Cell(STEP, "game:a", 0, 1.0, {"replay.ratio": 1.0}),
        Cell(STEP, "game:a", 1, 1.0, {"replay.ratio": 1.0}),
        Cell(INTRA, "game:a", 0, 1.0),
    )
    assert len(plain_runs(records)) == 3


def test_a_table_is_read_again_when_it_has_grown(tmp_path):
    run = {"variant": STEP, "game": "game:a", "seed": 0, "frames": 10}
    recorder = Recorder(tmp_path, run)
    recorder.write("evaluations", [{"frames": 1, "return": None}])
    (found,) = read_records(tmp_path).runs
    assert len(table(found, "evaluations")) == 1
    recorder.write("evaluations", [{"frames": 2, "return": 5}])
    recorder.close()
    frames, returns, nothing = column(found, "evaluations", "frames", "return", "absent")
    np.testing.assert_array_equal(frames, [1, 2])
    np.testing.assert_array_equal(returns, [np.nan, 5.0])
    assert np.isnan(nothing).all()
    assert column(found, "episodes", "frames")[0].shape == (0,)
    assert len(table(found, "traces")) == 0
    with pytest.raises(ValueError, match="no table"):
        table(found, "evaluation")


def test_a_name_that_cannot_be_read_is_no_variant():
    assert read_variant("<script>") is None
    assert str(read_variant(STEP)) == STEP


def test_the_plan_of_the_made_up_study_is_json(tmp_path):
    make_study(tmp_path, [Cell(STEP, "game:a", 0, 1.0)])
    assert json.loads((tmp_path / "study.json").read_text())["runs"][0]["frames"] == FRAMES

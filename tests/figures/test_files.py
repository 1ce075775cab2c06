"""Files that were cut in half: told in a sentence, and the other runs are drawn."""

import os
from pathlib import Path

import pytest

from sidequest.cli import main
from sidequest.errors import CorruptFile
from sidequest.figures.reading import read_records, table
from sidequest.figures.report.tables import gaps, lead
from sidequest.records import TABLES, Recorder, read_failures, read_study
from tests.figures.made_up import GAMES, Cell, folder_of, make_study

STEP = "XU-step-level-0.01"
CELLS = [Cell(STEP, GAMES[0], seed, 3.0) for seed in (0, 1)]


def run(*arguments: str | Path):
    with pytest.raises(SystemExit) as stopped:
        main(list(map(str, arguments)))
    return stopped.value.code


def tear(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


@pytest.fixture
def study(tmp_path) -> Path:
    return make_study(tmp_path / "study", CELLS)


@pytest.fixture
def torn(study) -> Path:
    """The folder of the first of two runs."""
    return study / folder_of(CELLS[0])


@pytest.mark.parametrize("name", TABLES)
def test_a_run_with_a_torn_table_is_left_out(study, torn, name):
    path = torn / f"{name}.parquet"
    if not path.exists():  # this variant has no bandit
        path.write_bytes((torn / "episodes.parquet").read_bytes())
    tear(path)
    records = read_records(study)
    assert [one.seed for one in records.runs] == [1] and not records.missing
    (left,) = records.left_out
    assert left.folder == torn and left.reason.startswith(f"{path} cannot be read; ")


def test_a_torn_run_file_and_a_bad_line_are_left_out(study, torn, tmp_path):
    tear(torn / "run.json")
    cut_off = {"variant": STEP, "game": GAMES[0], "seed": 5, "frames": 10}
    Recorder(study / "going", cut_off).close()
    (study / "going" / "episodes.jsonl").write_text('{"frames": 1}\nnonsense\n')
    reasons = [one.reason for one in read_records(study).left_out]
    assert len(reasons) == 2
    assert "run.json cannot be read" in reasons[0]
    assert "episodes.jsonl cannot be read" in reasons[1]


def test_damage_inside_a_table_is_told_when_it_is_read(study, torn):
    """Its end is whole, so that it is found only then."""
    (first, _) = read_records(study).runs
    path = torn / "traces.parquet"
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4)
        file.write(b"\xff" * (size // 2))
    assert len(read_records(study).runs) == 2
    with pytest.raises(CorruptFile, match="traces.parquet cannot be read"):
        table(first, "traces")


def test_the_report_names_what_was_left_out(study, torn):
    tear(torn / "episodes.parquet")
    records = read_records(study)
    assert "1 of 2 runs finished" in lead(records)
    told = gaps(records)
    assert "1 run not finished or not readable" in told
    assert "episodes.parquet cannot be read" in told


@pytest.mark.parametrize("content", ["", '{"name": "ma', "[]", '{"runs": [{"id": "a"}]}'])
def test_a_torn_plan_is_told(study, content):
    (study / "study.json").write_text(content)
    with pytest.raises(CorruptFile, match="study.json cannot be read; move this file"):
        read_study(study)


def test_torn_reasons_are_told(study):
    assert read_failures(study) == {}
    (study / "failures.json").write_text("{")
    with pytest.raises(CorruptFile, match="failures.json cannot be read"):
        read_failures(study)


def test_the_command_warns_and_draws_the_others(study, torn, capsys):
    tear(torn / "evaluations.parquet")
    assert not run("figures", study, "--only", "scores")
    told = capsys.readouterr()
    assert told.err.startswith(f"left out: {torn / 'evaluations.parquet'} cannot be read")
    assert told.err.count("\n") == 1 and len(told.out.split()) == 2


def test_the_command_refuses_if_nothing_can_be_read(study, capsys):
    for cell in CELLS:
        tear(study / folder_of(cell) / "episodes.parquet")
    assert run("figures", study) == 66
    assert capsys.readouterr().err.count("episodes.parquet cannot be read") == 2
    tear(study / "study.json")
    assert run("figures", study) == 66
    told = capsys.readouterr().err
    assert (
        told.startswith(f"{study / 'study.json'} cannot be read") and told.count("\n") == 1
    )

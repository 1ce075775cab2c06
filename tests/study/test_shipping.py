"""A run's folder in pieces, and put together again."""

import json

import pytest

from sidequest.study import shipping
from sidequest.study.shipping import Arrivals, pack, unpack

RUN = "XU/probe/seed-0"


def make_run(study, *, finished=None, frames=(100, 200), episodes=b"0123456789"):
    folder = study / RUN
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text(json.dumps({"finished": finished}))
    (folder / "episodes.jsonl").write_bytes(episodes)
    (folder / ".lock").write_text("held")
    (folder / "run.json.part").write_text("half")
    for number in frames:
        place = folder / "checkpoints" / f"{number:012d}"
        place.mkdir(parents=True, exist_ok=True)
        (place / "state.npz").write_bytes(b"x" * number)
        (place / "manifest.json").write_text(str(number))
    (folder / "checkpoints" / ".part-300").mkdir(parents=True, exist_ok=True)
    return folder


def contents(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def run(tmp_path):
    from pathlib import Path

    make_run(tmp_path / "there")
    return Path(RUN)


def test_what_a_run_needs_and_nothing_else(run, tmp_path, monkeypatch):
    monkeypatch.setattr(shipping, "PIECE", 7)
    pieces = list(pack(tmp_path / "there", run))
    assert max(len(piece.data) for piece in pieces) == 7
    unpack(tmp_path / "here", pieces)
    assert contents(tmp_path / "here" / RUN) == {
        "run.json": b'{"finished": null}',
        "episodes.jsonl": b"0123456789",
        "checkpoints/000000000200/state.npz": b"x" * 200,
        "checkpoints/000000000200/manifest.json": b"200",
    }


def test_a_shipment_that_was_cut_off_changes_nothing(run, tmp_path):
    unpack(tmp_path / "here", pack(tmp_path / "there", run))
    before = contents(tmp_path / "here" / RUN)
    make_run(tmp_path / "there", frames=(400,), episodes=b"0123456789abc")
    pieces = list(pack(tmp_path / "there", run))
    unpack(tmp_path / "here", pieces[:-1])
    after = contents(tmp_path / "here" / RUN)
    assert {path: after[path] for path in before} == before
    unpack(tmp_path / "here", pieces)
    after = contents(tmp_path / "here" / RUN)
    assert after["episodes.jsonl"] == b"0123456789abc"
    assert set(after) == {*before, *(path.replace("200", "400", 1) for path in before)}


def test_a_finished_run_leaves_no_lines_and_no_checkpoints(run, tmp_path):
    unpack(tmp_path / "here", pack(tmp_path / "there", run))
    there = make_run(tmp_path / "there", finished="today")
    (there / "episodes.jsonl").unlink()
    (there / "episodes.parquet").write_bytes(b"PAR1")
    unpack(tmp_path / "here", pack(tmp_path / "there", run))
    assert contents(tmp_path / "here" / RUN) == {
        "run.json": b'{"finished": "today"}',
        "episodes.parquet": b"PAR1",
    }


def test_runs_that_arrive_at_the_same_time(run, tmp_path):
    """Pieces of two groups may be mixed."""
    other = tmp_path / "there" / "other"
    other.mkdir()
    (other / "run.json").write_text('{"finished": null, "other": 1}')
    first = list(pack(tmp_path / "there", run))
    second = list(pack(tmp_path / "there", other.relative_to(tmp_path / "there")))
    arrivals = Arrivals(tmp_path / "here")
    for piece in [first[0], *second, *first[1:]]:
        arrivals.take(piece)
    assert contents(tmp_path / "here" / "other") == contents(other)
    assert (tmp_path / "here" / RUN / "episodes.jsonl").read_bytes() == b"0123456789"


def test_what_is_not_begun_is_nothing(tmp_path):
    from pathlib import Path

    assert list(pack(tmp_path, Path("nothing"))) == []

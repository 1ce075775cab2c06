"""A run's folder is sent as an archive in chunks, and put in place elsewhere."""

import io
import json
import tarfile
from pathlib import Path

import pytest

from sidequest.records import write_json
from sidequest.runs.checkpoint import listed
from sidequest.study import cluster
from sidequest.study.cluster import Chunk, Receiver, pack, unpack

RUN = Path("XU/probe/seed-0")
NAMED = {"variant": "XU", "game": "probe", "seed": 0}
DIGEST = {"size": 10, "sha256": "0" * 64}


def make_run(study, *, finished=None, frames=(100, 200), episodes=b"0123456789"):
    folder = study / RUN
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text(json.dumps(NAMED | {"finished": finished}))
    (folder / "episodes.jsonl").write_bytes(episodes)
    (folder / ".lock").write_text("held")
    (folder / ".123-run.json").write_text("half")
    for number in frames:
        place = folder / "checkpoints" / f"{number:012d}"
        place.mkdir(parents=True, exist_ok=True)
        (place / "state.npz").write_bytes(b"x" * number)
        (place / "manifest.json").write_text(str(number))
    (folder / "checkpoints" / ".part-300").mkdir(parents=True, exist_ok=True)
    return folder


def contents(folder, hidden=False):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and (hidden or not path.name.startswith("."))
    }


@pytest.fixture
def there(tmp_path):
    make_run(tmp_path / "there")
    return tmp_path / "there"


def test_what_a_run_needs_and_nothing_else(there, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "CHUNK_BYTES", 700)
    chunks = list(pack(there, RUN))
    assert len(chunks) > 3 and max(len(chunk.data) for chunk in chunks) == 700
    unpack(tmp_path / "here", [RUN], chunks)
    assert contents(tmp_path / "here" / RUN, hidden=True) == {
        "run.json": json.dumps(NAMED | {"finished": None}).encode(),
        "episodes.jsonl": b"0123456789",
        "checkpoints/000000000200/state.npz": b"x" * 200,
        "checkpoints/000000000200/manifest.json": b"200",
    }


def test_an_incomplete_archive_changes_nothing(there, tmp_path):
    here = tmp_path / "here"
    unpack(here, [RUN], pack(there, RUN))
    before = contents(here / RUN)
    make_run(there, frames=(400,), episodes=b"0123456789abc")
    chunks = list(pack(there, RUN))
    unpack(here, [RUN], chunks[:-1])
    assert contents(here / RUN) == before
    unpack(here, [RUN], chunks)
    after = contents(here / RUN, hidden=True)
    assert after["episodes.jsonl"] == b"0123456789abc"
    assert set(after) == {*before, *(path.replace("200", "400", 1) for path in before)}


def test_only_the_newest_checkpoints_stay(there, tmp_path):
    here = tmp_path / "here"
    for frames in (200, 400, 600, 800):
        make_run(there, frames=(frames,))
        unpack(here, [RUN], pack(there, RUN))
    assert [path.name for path in listed(here / RUN)] == ["000000000800", "000000000600"]


def test_lines_that_belong_to_a_finished_run_stay(there, tmp_path):
    folder, here = make_run(there), tmp_path / "here"
    run = NAMED | {"finished": "today", "digests": {"episodes.jsonl": DIGEST}}
    write_json(folder / "run.json", run)
    unpack(here, [RUN], pack(there, RUN))
    assert set(contents(here / RUN)) == {"run.json", "episodes.jsonl"}


def test_a_finished_run_leaves_no_lines_and_no_checkpoints(there, tmp_path):
    here = tmp_path / "here"
    unpack(here, [RUN], pack(there, RUN))
    folder = make_run(there, finished="today")
    (folder / "episodes.jsonl").unlink()
    (folder / "episodes.parquet").write_bytes(b"PAR1")
    unpack(here, [RUN], pack(there, RUN))
    assert contents(here / RUN, hidden=True) == {
        "run.json": json.dumps(NAMED | {"finished": "today"}).encode(),
        "episodes.parquet": b"PAR1",
    }


def test_a_run_that_finishes_while_it_is_packed_is_not_sent(there, monkeypatch):
    """It was finished where it arrived, and its tables were not there."""

    def finish(folder):
        make_run(there, finished="today")
        return []

    monkeypatch.setattr(cluster, "listed", finish)
    assert list(pack(there, RUN)) == []


def test_runs_that_arrive_at_the_same_time(there, tmp_path, monkeypatch):
    """Chunks of two runs may be mixed."""
    monkeypatch.setattr(cluster, "CHUNK_BYTES", 2_000)
    (there / "other").mkdir()
    (there / "other" / "run.json").write_text(json.dumps(NAMED))
    first, second = list(pack(there, RUN)), list(pack(there, Path("other")))
    receiver = Receiver(tmp_path / "here", [RUN, Path("other")])
    for chunk in [first[0], *second, *first[1:]]:
        receiver.add(chunk)
    assert contents(tmp_path / "here" / "other") == contents(there / "other")
    assert (tmp_path / "here" / RUN / "episodes.jsonl").read_bytes() == b"0123456789"


def test_a_run_that_has_not_begun_is_not_sent(tmp_path):
    assert list(pack(tmp_path, Path("nothing"))) == []


@pytest.mark.parametrize("run", ["../../../evil", "/tmp/evil", "other", ""])
def test_a_node_cannot_write_elsewhere(there, tmp_path, run):
    """Row 16: files named so were written outside the study's folder."""
    with pytest.raises(tarfile.TarError, match="nobody asked for"):
        unpack(tmp_path / "here", [RUN], [Chunk(run, b"data"), Chunk(run, b"")])
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


@pytest.mark.parametrize("name, link", [("../evil", None), ("run.json", "/etc/passwd")])
def test_names_and_links_in_an_archive_lead_nowhere_else(tmp_path, name, link):
    member = tarfile.TarInfo(name)
    if link:
        member.type, member.linkname = tarfile.SYMTYPE, link
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        tar.addfile(member)
    chunks = [Chunk(RUN.as_posix(), content.getvalue()), Chunk(RUN.as_posix(), b"")]
    with pytest.raises(tarfile.TarError):
        unpack(tmp_path, [RUN], chunks)
    assert not list(tmp_path.rglob("evil")) and not (tmp_path / RUN / "run.json").exists()

"""Tables on disk: while a run goes, after a crash, and when it is done."""

import json
import math
import os
import re
import shlex
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import polars
import pytest

from sidequest import records
from sidequest.errors import CannotWrite, CorruptFile, InvalidRequest
from sidequest.records import (
    DIGESTS_FILE,
    RUN_FILE,
    TABLES,
    Recorder,
    describe_machine,
    has_digests,
    plain,
    read_file,
    read_run,
    read_study,
    read_table,
    refuse_existing,
    write_json,
    write_synced,
)

RUN = {"variant": "XU-step-level-0.01", "game": "probe:constant", "seed": 3}
ROWS = [
    {"frames": 10, "return": np.float32(1.5), "med_X": np.nan, "length": np.int32(4)},
    {"frames": 20, "return": 2.5, "med_X": 3.0, "length": 5},
]


@pytest.fixture
def recorder(tmp_path):
    recorder = Recorder(tmp_path / "run", RUN)
    yield recorder
    recorder.close()


def test_rows_can_be_read_while_the_run_goes(recorder):
    recorder.write("episodes", ROWS[:1])
    recorder.flush()
    assert read_table(recorder.folder, "episodes")["return"].to_list() == [1.5]
    recorder.write("episodes", ROWS[1:])
    recorder.flush()
    table = read_table(str(recorder.folder), "episodes")
    assert table["frames"].to_list() == [10, 20]
    assert table["med_X"].to_list() == [None, 3.0]
    for column, value in RUN.items():
        assert table[column].to_list() == [value, value]
    # Any reader of JSON lines can, too.
    assert polars.read_ndjson(recorder.folder / "episodes.jsonl").equals(table)


def test_what_a_crash_left_unfinished_is_left_out(recorder):
    recorder.write("episodes", ROWS[:1])
    recorder.flush()
    recorder.write("episodes", ROWS[1:])
    path = recorder.folder / "episodes.jsonl"
    whole = path.read_bytes()
    last = whole[:-1].rfind(b"\n") + 1
    for end in (last, last + 1, len(whole) - 1, len(whole)):
        path.write_bytes(whole[:end])
        assert read_table(recorder.folder, "episodes")["frames"].to_list() == [10]
    path.write_bytes(whole[: last - 1])
    with pytest.raises(CorruptFile, match="does not have the digest"):
        read_table(recorder.folder, "episodes")


def test_without_digests_only_an_unfinished_line_is_left_out(recorder):
    """As a former version has left it; this one says that it is unchecked."""
    recorder.write("episodes", ROWS)
    recorder.flush()
    former = {**RUN, "finished": None}
    write_plain(recorder.folder / RUN_FILE, former)
    (recorder.folder / DIGESTS_FILE).unlink()
    assert read_run(recorder.folder) == former and not has_digests(former)
    path = recorder.folder / "episodes.jsonl"
    whole = path.read_bytes()
    last = whole[:-1].rfind(b"\n") + 1
    for end, rows in ((last - 1, 0), (last, 1), (last + 1, 1), (len(whole), 2)):
        path.write_bytes(whole[:end])
        assert len(read_table(recorder.folder, "episodes")) == rows
    polars.DataFrame({"frames": [1]}).write_parquet(recorder.folder / "learning.parquet")
    write_plain(recorder.folder / RUN_FILE, former | {"finished": "once"})
    assert len(read_table(recorder.folder, "learning")) == 1


def write_plain(path, content):
    path.write_text(json.dumps(content))


def test_a_table_that_was_cut_is_told_in_a_sentence(recorder):
    recorder.write("episodes", ROWS)
    recorder.finish(frames=20, seconds=1.25)
    path = recorder.folder / "episodes.parquet"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(CorruptFile, match=r"episodes\.parquet cannot be read"):
        read_table(recorder.folder, "episodes")


def test_a_finished_run_holds_the_same_in_parquet(recorder):
    recorder.write("episodes", ROWS)
    trace = {"modes": "GX", "signal": [math.nan, 0.5], "reward": [0.0, 1.0]}
    recorder.write("traces", [trace])
    recorder.write("learning", iter(()))
    recorder.flush()
    before = {name: read_table(recorder.folder, name) for name in TABLES}
    recorder.finish(frames=20, seconds=1.25)
    assert before["episodes"].height == 2 and before["traces"].height == 1
    for name in TABLES:
        assert read_table(recorder.folder, name).equals(before[name])
    files = sorted(path.name for path in recorder.folder.iterdir())
    assert files == ["episodes.parquet", "run.json", "traces.parquet"]
    assert polars.read_parquet(recorder.folder / "episodes.parquet").height == 2
    signal = read_table(recorder.folder, "traces")["signal"].to_list()
    assert signal == [[None, 0.5]]


def test_without_polars_a_finished_run_keeps_its_lines(recorder, monkeypatch):
    monkeypatch.setattr(records, "find_spec", lambda name: None)
    recorder.write("episodes", ROWS)
    recorder.flush()
    before = read_table(recorder.folder, "episodes")
    recorder.finish(frames=20, seconds=1.25)
    files = sorted(path.name for path in recorder.folder.iterdir())
    assert files == ["episodes.jsonl", "run.json"]
    assert read_table(recorder.folder, "episodes").equals(before)
    path = recorder.folder / "episodes.jsonl"
    path.write_bytes(path.read_bytes().replace(b"3", b"4"))
    with pytest.raises(CorruptFile, match=r"episodes\.jsonl cannot be read"):
        read_table(recorder.folder, "episodes")


def test_the_run_file_says_whether_the_run_has_finished(recorder):
    assert read_run(recorder.folder) == {**RUN, "digests": {}, "finished": None}
    assert has_digests(read_run(recorder.folder))
    recorder.finish(frames=20)
    run = read_run(recorder.folder)
    assert run["finished"] and run["frames"] == 20
    assert {name: run[name] for name in RUN} == RUN


def test_nothing_is_overwritten(recorder):
    recorder.write("episodes", ROWS)
    with pytest.raises(InvalidRequest, match="holds a run already; it has not finished"):
        Recorder(recorder.folder, RUN)
    other = recorder.folder.with_name("another")
    Recorder(other, RUN).close()
    with pytest.raises(InvalidRequest, match=f"--resume {recorder.folder} {other}; "):
        refuse_existing(recorder.folder, other, recorder.folder.with_name("free"))
    recorder.finish()
    with pytest.raises(InvalidRequest, match="holds a run already; choose another folder"):
        Recorder(recorder.folder, RUN)
    assert read_table(recorder.folder, "episodes").height == 2
    assert issubclass(InvalidRequest, ValueError)


def test_an_unknown_table_is_refused(recorder):
    with pytest.raises(ValueError, match="no table 'episode'"):
        recorder.write("episode", ROWS)


def test_a_table_that_was_never_written_is_empty(recorder):
    assert read_table(recorder.folder, "bandits").is_empty()


def test_numbers_become_json():
    value = {
        "a": np.float32(0.5),
        "b": np.arange(2),
        3: (np.bool_(True), float("inf"), None),
        "d": [np.nan, "text", {"e": -math.inf}],
    }
    expected = {"a": 0.5, "b": [0, 1], "3": [True, None, None]}
    expected["d"] = [None, "text", {"e": None}]
    assert plain(value) == expected
    json.dumps(plain(value), allow_nan=False)


def test_the_command_can_be_pasted_into_a_shell(monkeypatch):
    typed = ["sidequest", "train", "XU-intra(10,informed,p*,X)", "--game", "own game:make"]
    monkeypatch.setattr("sys.argv", typed)
    assert shlex.split(describe_machine()["command"]) == typed


def test_the_machine_is_described():
    described = describe_machine()
    assert set(described) == {
        *("versions", "python", "platform", "cores", "revision", "command", "started")
    }
    assert {"jax", "numpy", "equinox", "optax"} <= set(described["versions"])
    assert described["cores"] >= 1 and described["started"].endswith("+00:00")


def test_all_runs_of_a_process_have_the_revision_that_it_began_with(monkeypatch):
    revision = describe_machine()["revision"]
    edited = CompletedProcess((), 0, "edited meanwhile")
    monkeypatch.setattr(records.subprocess, "run", lambda *_, **__: edited)
    assert describe_machine()["revision"] == revision


def test_the_run_file_is_never_half_there(recorder):
    text = (recorder.folder / RUN_FILE).read_text()
    assert json.loads(text) and text.endswith("}\n")
    assert not list(recorder.folder.glob("*.part"))


def test_files_are_on_disk_before_the_run_has_finished(recorder, monkeypatch):
    """In this order: tables, their names, run.json, its name; then lines are deleted."""
    calls = []

    def note(name, call):
        def noted(first, *rest, **more):
            path = os.readlink(f"/proc/self/fd/{first}") if name == "fsync" else first
            what = Path(rest[0] if name == "replace" else path).name
            calls.append((name, re.sub(r"^\.\d+-", "", what)))
            return call(first, *rest, **more)

        return noted

    recorder.write("episodes", ROWS)
    write_synced(recorder.folder / "parameters.npz", b"numbers")
    recorder.flush()
    monkeypatch.setattr(os, "fsync", note("fsync", os.fsync))
    monkeypatch.setattr(os, "replace", note("replace", os.replace))
    monkeypatch.setattr(Path, "unlink", note("unlink", Path.unlink))
    recorder.finish("parameters.npz")
    expected = [
        ("fsync", "episodes.parquet"),
        ("replace", "episodes.parquet"),
        ("fsync", "run"),
        ("fsync", "run.json"),
        ("replace", "run.json"),
        ("fsync", "run"),
        ("unlink", "episodes.jsonl"),
        ("unlink", "digests.json"),
    ]
    parts = ("episodes.parquet", "run.json", "digests.json")
    begun = [one for one in calls if one not in [("unlink", part) for part in parts[:2]]]
    assert begun[-len(expected) :] == expected


def flip(path, position, bit):
    data = bytearray(path.read_bytes())
    data[position] ^= 1 << bit
    path.write_bytes(data)


def test_every_flipped_bit_of_a_finished_run_is_noticed(recorder):
    """Row 1 and 2 of what broke: polars aborts on some of these, and believes others."""
    recorder.write("episodes", ROWS)
    write_synced(recorder.folder / "parameters.npz", b"numbers")
    recorder.finish("parameters.npz")
    path = recorder.folder / "episodes.parquet"
    whole, dice = path.read_bytes(), np.random.default_rng(0)
    for _ in range(100):
        flip(path, dice.integers(len(whole)), dice.integers(8))
        with pytest.raises(CorruptFile, match=r"episodes.parquet cannot be read: .*digest"):
            read_table(recorder.folder, "episodes")
        path.write_bytes(whole)
    for data in (whole[:-1], whole + b"x", b""):
        path.write_bytes(data)
        with pytest.raises(CorruptFile, match="digest"):
            read_table(recorder.folder, "episodes")
    path.unlink()
    with pytest.raises(CorruptFile, match="No such file"):
        read_table(recorder.folder, "episodes")
    run = read_run(recorder.folder)
    assert read_file(recorder.folder, "parameters.npz", run) == b"numbers"
    flip(recorder.folder / "parameters.npz", 3, 0)
    with pytest.raises(CorruptFile, match="parameters.npz cannot be read"):
        read_file(recorder.folder, "parameters.npz", run)


def test_every_flipped_bit_of_a_run_file_is_noticed_or_without_effect(recorder):
    path, run = recorder.folder / RUN_FILE, read_run(recorder.folder)
    whole, noticed = path.read_bytes(), 0
    for position in range(8 * len(whole)):
        flip(path, position // 8, position % 8)
        try:
            assert read_run(recorder.folder) == run
        except CorruptFile:
            noticed += 1
        path.write_bytes(whole)
    assert noticed > 0.8 * 8 * len(whole)  # the rest is white space


def test_a_table_that_was_changed_while_it_grew_is_not_finished(recorder):
    """Row 3: it trained to the end, and ended with a traceback."""
    recorder.write("episodes", ROWS)
    flip(recorder.folder / "episodes.jsonl", 5, 0)
    recorder.write("episodes", ROWS)
    with pytest.raises(CorruptFile, match=r"episodes.jsonl cannot be read") as fault:
        recorder.finish()
    assert fault.value.exit_code == 66
    assert not read_run(recorder.folder)["finished"]


def test_the_digest_of_a_growing_table_costs_what_is_new(recorder, monkeypatch):
    recorder.write("episodes", ROWS)
    hashed = []
    lines = recorder._tables["episodes"]
    update = lines._hash.update

    class Hash:
        update = staticmethod(lambda data: (hashed.append(len(data)), update(data)))
        hexdigest = lines._hash.hexdigest

    lines._hash = Hash()
    before = lines.digest.size
    recorder.write("episodes", ROWS)
    recorder.flush()
    assert hashed == [before]
    assert read_table(recorder.folder, "episodes").height == 4


@pytest.mark.parametrize(
    "change, reason",
    [
        ({"seed": "3"}, "seed is '3'"),
        ({"seed": True}, "seed is True"),
        ({"seed": 10**30}, "seed is 1000"),
        ({"game": ["a"]}, r"game is \['a'\]"),
        ({"config": []}, r"config is \[\]"),
        ({"config": {"replay": 1}}, "config.replay is 1"),
        ({"resumed": {}}, "resumed is {}"),
        ({"resumed": [{"frames": 1}]}, r"it lacks resumed\[\].(time|command|changed)"),
        ({"checkpoints": {"every": "x", "replay": True}}, "checkpoints.every is 'x'"),
        ({"finished": 1}, "finished is 1"),
        ({"sha257": "x"}, "unknown key 'sha257'"),
        ({"digests": {}}, "does not have the digest"),
    ],
)
def test_a_run_file_of_another_form_is_told_in_a_line(tmp_path, change, reason):
    write_plain(tmp_path / RUN_FILE, {**RUN, **change})
    with pytest.raises(CorruptFile, match=f"run.json cannot be read: .*{reason}") as fault:
        read_run(tmp_path)
    assert "\n" not in str(fault.value)


@pytest.mark.parametrize("text", ["{}", "[]", "", "3", "null", "[" * 100_000, '"\\ud800"'])
def test_what_is_no_run_file_is_told_in_a_line(tmp_path, text):
    (tmp_path / RUN_FILE).write_text(text)
    with pytest.raises(CorruptFile, match="run.json cannot be read"):
        read_run(tmp_path)
    (tmp_path / RUN_FILE).unlink()
    with pytest.raises(InvalidRequest, match="holds no run.* in it$"):
        read_run(tmp_path)


def test_a_folder_above_runs_is_told_with_one_of_them(tmp_path):
    for place in ("v/g/seed-0", "v/h/seed-0"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / RUN_FILE).write_text("{}")
    for above in (tmp_path, tmp_path / "v", tmp_path / "v/g"):
        with pytest.raises(InvalidRequest, match="such as .*/v/g/seed-0$"):
            read_run(above)


PLANNED = {"id": "a", "variant": "v", "game": "g", "seed": 0, "folder": "v/g/seed-0"}


@pytest.mark.parametrize(
    "run, reason",
    [
        ({"folder": "../../elsewhere"}, "which leads elsewhere"),
        ({"folder": "/etc"}, "which leads elsewhere"),
        ({"folder": 1}, r"runs\[\].folder is 1"),
        ({"id": None}, r"runs\[\].id is None"),
        ({"settings": "x"}, r"runs\[\].settings is 'x'"),
        ({"frames": 1.5}, r"runs\[\].frames is 1.5"),
    ],
)
def test_a_plan_of_another_form_is_told_in_a_line(tmp_path, run, reason):
    for write in (write_json, write_plain):
        write(tmp_path / records.STUDY_FILE, {"runs": [PLANNED]})
        assert read_study(tmp_path) == {"runs": [PLANNED]}
        write(tmp_path / records.STUDY_FILE, {"runs": [PLANNED | run]})
        with pytest.raises(CorruptFile, match=f"study.json cannot be read: .*{reason}"):
            read_study(tmp_path)


@pytest.mark.parametrize("name", ["episodes.jsonl", RUN_FILE, DIGESTS_FILE])
def test_links_are_not_followed_when_writing(tmp_path, name):
    """Row 17: what a link leads to was overwritten."""
    outside = tmp_path / "outside"
    outside.write_text("mine")
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / f".{os.getpid()}-{name}").symlink_to(outside)
    if name == "episodes.jsonl":
        (folder / name).symlink_to(outside)
        with pytest.raises(CannotWrite, match="cannot write .*episodes.jsonl"):
            Recorder(folder, RUN).write("episodes", ROWS)
    else:
        recorder = Recorder(folder, RUN)
        (folder / name).unlink()
        (folder / name).symlink_to(outside)
        recorder.flush()
        write_json(folder / RUN_FILE, recorder.run)
        assert not (folder / name).is_symlink()
    assert outside.read_text() == "mine"

"""Tables on disk: while a run goes, after a crash, and when it is done."""

import json
import math

import numpy as np
import polars
import pytest

from sidequest.errors import CorruptFile, RunExists
from sidequest.records import (
    RUN_FILE,
    TABLES,
    Recorder,
    describe_machine,
    plain,
    read_run,
    read_table,
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
    assert read_table(recorder.folder, "episodes")["return"].to_list() == [1.5]
    recorder.write("episodes", ROWS[1:])
    table = read_table(str(recorder.folder), "episodes")
    assert table["frames"].to_list() == [10, 20]
    assert table["med_X"].to_list() == [None, 3.0]
    for column, value in RUN.items():
        assert table[column].to_list() == [value, value]
    # Any reader of JSON lines can, too.
    assert polars.read_ndjson(recorder.folder / "episodes.jsonl").equals(table)


def test_what_a_crash_left_unfinished_is_left_out(recorder):
    recorder.write("episodes", ROWS)
    path = recorder.folder / "episodes.jsonl"
    whole = path.read_bytes()
    last = whole[:-1].rfind(b"\n") + 1
    for end in (last, last + 1, len(whole) - 1):
        path.write_bytes(whole[:end])
        assert read_table(recorder.folder, "episodes")["frames"].to_list() == [10]
    path.write_bytes(whole[: last - 1])
    assert read_table(recorder.folder, "episodes").is_empty()


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


def test_the_run_file_says_whether_the_run_has_finished(recorder):
    assert read_run(recorder.folder) == {**RUN, "finished": None}
    recorder.finish(frames=20)
    run = read_run(recorder.folder)
    assert run["finished"] and run["frames"] == 20
    assert {name: run[name] for name in RUN} == RUN


def test_nothing_is_overwritten(recorder):
    recorder.write("episodes", ROWS)
    for _ in range(2):
        with pytest.raises(RunExists, match="holds a run already"):
            Recorder(recorder.folder, RUN)
        recorder.finish()
    assert read_table(recorder.folder, "episodes").height == 2
    assert issubclass(RunExists, ValueError)


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


def test_the_machine_is_described():
    described = describe_machine()
    assert set(described) == {
        *("versions", "python", "platform", "cores", "revision", "command", "started")
    }
    assert {"jax", "numpy", "equinox", "optax"} <= set(described["versions"])
    assert described["cores"] >= 1 and described["started"].endswith("+00:00")


def test_the_run_file_is_never_half_there(recorder):
    text = (recorder.folder / RUN_FILE).read_text()
    assert json.loads(text) and text.endswith("}\n")
    assert not list(recorder.folder.glob("*.part"))

"""docs/records.md lists what runs and studies write, no more and no less."""

import json
import re
from pathlib import Path

import polars
import pytest

from sidequest.errors import Interrupted
from sidequest.records import (
    FAILURES_FILE,
    IDENTITY,
    RUN_FILE,
    STUDY_FILE,
    TABLES,
    read_failures,
    read_run,
    read_study,
    read_table,
    write_failures,
)
from sidequest.study.scheduler import write_plan
from sidequest.study.studies import Grid, Study, jobs_of
from tests.reliability.harness import Watcher, run, specs

PAGE = Path(__file__).parents[1] / "docs" / "records.md"
PLACEHOLDERS = {
    "BANDIT": "start|exploit|explore",
    "HEAD": "extrinsic|intrinsic|short|twin",
    "SECTION.SETTING": r"\w+\.\w+",
    "LIBRARY": r"[\w-]+",
    "FILE": r"\w+\.(parquet|npz)",
    "ID": ".+",
}
TYPES = {
    "text": (str, polars.String),
    "integer": (int, polars.Int64),
    "number": (float, polars.Float64, polars.Int64),
    "list of numbers": (list, polars.List(polars.Float64)),
    "true or false": (bool, polars.Boolean),
    "object": (dict, None),
}


def documented() -> dict[str, dict[str, str]]:
    """The type of every documented name, by the heading of its table."""
    found: dict[str, dict[str, str]] = {}
    heading = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            heading = line.removeprefix("## ")
            found[heading] = {}
        elif line.startswith("| `"):
            name, kind, _unit, meaning = (cell.strip() for cell in line.split("|")[1:-1])
            assert meaning, line
            found[heading][name.strip("`")] = kind
    return found


def entry_of(name: str, entries: dict[str, str]) -> str:
    """The documented name that a written one is an example of."""
    for entry in entries:
        pattern = re.escape(entry)
        for placeholder, examples in PLACEHOLDERS.items():
            pattern = pattern.replace(re.escape(placeholder), f"({examples})")
        if re.fullmatch(pattern, name):
            return entry
    raise AssertionError(f"{name} is not documented")


def compare(written: dict[str, object], entries: dict[str, str]) -> None:
    """Every written name is documented with its type, and the other way round.

    Args:
        written: Types of columns, or values of keys, by name.
        entries: Documented types by name.
    """
    found = {name: entry_of(name, entries) for name in written}
    assert not entries.keys() - set(found.values()), "documented, but not written"
    for name, entry in found.items():
        value, kind = written[name], entries[entry]
        if value is not None and kind != "any":
            is_type = isinstance(value, polars.DataType | type)
            shown = value if is_type else type(value)
            assert shown in TYPES[kind], f"{name} is {shown}, documented as {kind}"


def flatten(value, name="") -> dict[str, object]:
    """The leaves of a JSON value by their dotted names; `[]` are a list's entries."""
    if isinstance(value, dict) and value and not name.endswith(("changed", "[].settings")):
        parts = [
            flatten(item, f"{name}.{key}" if name else key) for key, item in value.items()
        ]
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        parts = [flatten(item, f"{name}[]") for item in value]
    else:
        return {name: value}
    return {key: leaf for part in parts for key, leaf in part.items()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A run with bandits that was interrupted, resumed and finished."""
    (spec,) = specs(tmp_path_factory.mktemp("run"), 0)
    with pytest.raises(Interrupted):
        run([spec], Watcher(stop_after=1), chunks=4)
    run([spec], chunks=4)
    return spec.folder


@pytest.mark.parametrize("table", TABLES)
def test_every_column_is_documented(folder, table):
    everywhere = documented()["Columns of every table"]
    assert tuple(everywhere) == (*IDENTITY, "frames")
    schema = dict(read_table(folder, table).schema)
    assert tuple(schema)[:4] == tuple(everywhere)
    compare(schema, everywhere | documented()[table])


def test_every_key_of_run_json_is_documented(folder):
    compare(flatten(read_run(folder)), documented()[RUN_FILE])


def test_every_key_of_a_study_is_documented(tmp_path):
    grid = Grid(("XU-step-level-0.1",), ("probe:constant",), (("replay.ratio", 1.0),))
    settings = (("learning.discount", 0.9),)
    study = Study("made-up", "A study", (grid,), 1, 1_000, "small", settings)
    write_plan(tmp_path, study, jobs_of(study))
    compare(flatten(read_study(tmp_path)), documented()[STUDY_FILE])
    write_failures(tmp_path, {"some run": "no"}, ["Traceback …"])
    compare(dict(read_failures(tmp_path)), documented()[FAILURES_FILE])
    assert json.loads((tmp_path / STUDY_FILE).read_text())["runs"][0]["folder"]


def test_every_table_and_file_has_a_section():
    sections = {"Columns of every table", *TABLES, RUN_FILE, STUDY_FILE, FAILURES_FILE}
    assert set(documented()) == sections

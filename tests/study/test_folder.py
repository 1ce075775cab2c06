"""The plan on disk: what is said if it cannot be read or written."""

import json

import pytest

from sidequest.errors import CannotWrite, CorruptFile
from sidequest.records import STUDY_FILE, read_study
from sidequest.study.folder import enrol
from sidequest.study.grids import Grid, Study, jobs_of

STUDY = Study(
    name="example",
    title="Two runs",
    grids=(Grid(("XU-step-level-0.01",), ("probe:constant",)),),
    seeds=2,
    frames=1_000,
    preset="small",
)


def test_a_torn_plan_is_told_and_is_written_anew_without_it(tmp_path):
    enrol(tmp_path, STUDY, jobs_of(STUDY))
    path = tmp_path / STUDY_FILE
    whole = path.read_text()
    for content in (whole[: len(whole) // 2], "", "[]", '{"runs": [{}]}', '{"runs": 1}'):
        path.write_text(content)
        with pytest.raises(CorruptFile, match=r"study.json cannot be read; move this"):
            enrol(tmp_path, STUDY, jobs_of(STUDY))
        assert path.read_text() == content
    path.unlink()
    assert read_study(tmp_path) == {}
    enrol(tmp_path, STUDY, jobs_of(STUDY))
    assert json.loads(path.read_text())["runs"] == json.loads(whole)["runs"]


@pytest.mark.parametrize("place", ["file/below", "/proc/nowhere"])
def test_a_folder_that_cannot_be_made_is_told(place, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(CannotWrite, match=r"cannot write .*--out") as fault:
        enrol(tmp_path / place, STUDY, jobs_of(STUDY))
    assert "--resume" not in str(fault.value)

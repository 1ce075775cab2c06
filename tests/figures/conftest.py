"""The made-up study that most tests of figures draw; made, read and drawn once."""

from pathlib import Path

import pytest

from sidequest.figures.data import Plot, Records, read_records
from sidequest.figures.gallery import GALLERY
from tests.figures.made_up import Cell, all_cells, make_study


@pytest.fixture(scope="session")
def study_folder(tmp_path_factory) -> Path:
    """Every variant on two games with two seeds, all finished."""
    return make_study(tmp_path_factory.mktemp("made-up"), all_cells())


@pytest.fixture(scope="session")
def records(study_folder) -> Records:
    return read_records(study_folder)


@pytest.fixture(scope="session")
def plots(records) -> dict[str, Plot | None]:
    """Every figure of the made-up study, drawn once."""
    return {entry.name: entry.draw(records) for entry in GALLERY}


@pytest.fixture
def study_of(tmp_path):
    """Makes the records of a small study of given cells."""

    def make(*cells: Cell) -> Records:
        folder = Path(tmp_path) / f"study-{len(list(tmp_path.iterdir()))}"
        return read_records(make_study(folder, cells))

    return make

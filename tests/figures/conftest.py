"""The made-up study that most tests of figures draw; made once."""

from pathlib import Path

import pytest

from sidequest.figures import data, reading
from sidequest.figures.data import Plot, Records
from sidequest.figures.gallery import GALLERY
from tests.figures.made_up import Cell, all_cells, make_study

OLD = ("arms", "coins", "rates", "starts", "curves", "aggregate", "comparisons")
OLD += ("granularity", "space", "episodes", "uncertainty")


def reader(request):
    name = request.module.__name__.rpartition("test_")[2]
    return reading.read_records if name in OLD else data.read_records


@pytest.fixture(scope="session")
def study_folder(tmp_path_factory) -> Path:
    """Every variant on two games with two seeds, all finished."""
    return make_study(tmp_path_factory.mktemp("made-up"), all_cells())


@pytest.fixture(scope="module")
def records(study_folder, request):
    return reader(request)(study_folder)


@pytest.fixture(scope="session")
def plots(study_folder) -> dict[str, Plot | None]:
    """Every figure of the made-up study, drawn once."""
    records = data.read_records(study_folder)
    return {entry.name: entry.draw(records) for entry in GALLERY}


@pytest.fixture
def study_of(tmp_path, request):
    """Makes the records of a small study of given cells."""

    def make(*cells: Cell) -> Records:
        folder = Path(tmp_path) / f"study-{len(list(tmp_path.iterdir()))}"
        return reader(request)(make_study(folder, cells))

    return make

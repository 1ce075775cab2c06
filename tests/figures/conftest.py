"""The made-up study that most tests of figures draw; made once."""

from pathlib import Path

import pytest

from sidequest.figures.reading import Records, read_records
from tests.figures.made_up import Cell, all_cells, make_study


@pytest.fixture(scope="session")
def records(tmp_path_factory) -> Records:
    """Every variant on two games with two seeds, all finished."""
    return read_records(make_study(tmp_path_factory.mktemp("made-up"), all_cells()))


@pytest.fixture
def study_of(tmp_path):
    """Makes the records of a small study of given cells."""

    def make(*cells: Cell) -> Records:
        folder = Path(tmp_path) / f"study-{len(list(tmp_path.iterdir()))}"
        return read_records(make_study(folder, cells))

    return make

"""The run that no test here disturbs: all others must come to its results."""

import pytest

from tests.reliability import child
from tests.reliability.harness import OPTIONS, results


@pytest.fixture(scope="session")
def uninterrupted_process(tmp_path_factory):
    """What the command leaves behind if nothing happens to it."""
    folder = tmp_path_factory.mktemp("process")
    process = child.start("train", *OPTIONS, "--out", str(folder))
    _, said = process.communicate()
    assert process.returncode == 0, said
    return [results(path.parent) for path in sorted(folder.rglob("run.json"))]

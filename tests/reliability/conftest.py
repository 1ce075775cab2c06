"""The run that no test here disturbs: all others must come to its results."""

import pytest

from sidequest.runs.spec import Checkpointing
from tests.reliability.harness import CHUNK, PROCESS_CHUNKS, results, run, specs


@pytest.fixture(scope="session")
def uninterrupted_process(tmp_path_factory):
    """What the command writes if nothing happens to it: the same as in here."""
    (one,) = specs(tmp_path_factory.mktemp("process"), 0)
    run([one], chunks=PROCESS_CHUNKS, checkpoints=Checkpointing(10 * CHUNK))
    return [results(one.folder)]

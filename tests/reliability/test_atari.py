"""Real emulators: stopped by a signal, resumed, and the same command twice."""

import json
import signal
import sys

import numpy as np
import pytest

from sidequest.records import read_run, read_table
from sidequest.runs.checkpoint import FOLDER, listed, read_manifest
from tests.reliability import child
from tests.reliability.harness import results
from tests.reliability.test_machine import STUCK

pytestmark = pytest.mark.slow

BLOCK = 4 * 20 * 4  # streams, steps, frames of a step
BLOCKS, WARM_UP = 36, 3
OPTIONS = [
    *("XU-intra(10,informed,p*,X)", "--game", "frostbite", "--preset", "small"),
    *("--emulators", "4", "--frames", str(BLOCKS * BLOCK), "--replay-memory", "100MB"),
    *("--checkpoint-every", str(6 * BLOCK), "--quiet"),
    *("--set", "replay.capacity=4000", "--set", f"replay.warm_up={WARM_UP * BLOCK // 4}"),
    *("--set", "learning.batch_size=4"),
]


def play(folder, *more):
    """The command from start to end, or to a signal that it got; what it said."""
    process = child.start("train", *more)
    _, said = process.communicate()
    assert process.returncode == 0, said
    (run,) = folder.rglob("run.json")
    assert json.loads(run.read_text())["finished"]
    return run.parent


def test_the_same_command_twice(tmp_path):
    folders = [
        play(tmp_path / name, *OPTIONS, "--out", str(tmp_path / name)) for name in "ab"
    ]
    first, second = map(results, folders)
    assert {"episodes.parquet", "learning.parquet", "parameters.npz"} <= set(first)
    assert first == second


@pytest.mark.parametrize("replay", ["yes", "no"])
def test_stopped_by_a_signal_and_resumed(tmp_path, replay):
    arguments = [*OPTIONS, "--out", str(tmp_path), "--checkpoint-replay", replay]
    process = child.start("train", *arguments)
    said = child.stop(process, 0.2, signal.SIGTERM, since=f"saved at {12 * BLOCK:,} frames")
    assert process.returncode == 75, said
    (folder,) = (path.parent for path in tmp_path.rglob("run.json"))
    assert f"resume with: sidequest train --resume {folder}" in said
    manifest = read_manifest(listed(folder)[0])
    assert any("replay" in leaf for leaf in manifest.leaves) == (replay == "yes")
    stopped, paid = manifest.snapshot.frames, manifest.snapshot.host["updates"]
    assert 12 * BLOCK <= stopped < BLOCKS * BLOCK
    play(tmp_path, "--resume", str(folder), "--quiet")
    learning = read_table(folder, "learning")
    assert learning["frames"].is_sorted() and learning["frames"].n_unique() == len(learning)
    # One update a block, while the next is played: none is made twice, none is owed.
    updates = learning["updates"].to_numpy()
    assert set(np.diff(updates)) == {1}
    complete = stopped // BLOCK + 1  # when it was saved
    before, since = (paid, complete) if replay == "no" else (0, 0)
    assert updates[-1] == before + BLOCKS - 1 - since - WARM_UP
    assert read_table(folder, "episodes")["return"].null_count() == 0


def test_killed_while_a_checkpoint_with_replay_is_written(tmp_path):
    """kill -9 when its arrays are on disk and its manifest is not: the run resumes from the
    checkpoint before it, with a replay ratio that is exact from the first update on."""
    arguments = ["child", "train", *OPTIONS, "--out", str(tmp_path)]
    code = STUCK.format(frames=18 * BLOCK, arguments=arguments)
    process = child.launch([sys.executable, "-c", code])
    said = child.stop(process, 0.2, signal.SIGKILL, since="writing")
    assert process.returncode == -signal.SIGKILL, said
    (folder,) = (path.parent for path in tmp_path.rglob("run.json"))
    torn = [path.name for path in (folder / FOLDER).glob(".part-*/*")]
    assert torn == ["arrays.bin"]
    assert [int(path.name) for path in listed(folder)] == [12 * BLOCK, 6 * BLOCK]
    play(tmp_path, "--resume", str(folder), "--quiet")
    learning = read_table(folder, "learning")
    assert learning["frames"].is_sorted() and learning["frames"].n_unique() == len(learning)
    updates = learning["updates"].to_numpy()
    assert set(np.diff(updates)) == {1} and updates[-1] == BLOCKS - 1 - WARM_UP
    assert read_run(folder)["resumed"][0]["frames"] == 12 * BLOCK

"""Runs on emulators resume with everything but the emulators' inner state."""

import shutil

import numpy as np
import polars
import pytest

from sidequest.config import change
from sidequest.environments import registry
from sidequest.environments.base import HostedGame
from sidequest.errors import Interrupted, MachineError
from sidequest.records import read_table
from sidequest.runs import hosted, memory, trainer
from sidequest.runs.build import make_pace
from sidequest.runs.checkpoint import listed, read_manifest
from sidequest.runs.spec import Checkpointing, RunSpec
from tests.reliability.harness import Watcher, results
from tests.runs.test_hosted import GROUPS, LENGTH, SIZE, TINY, VARIANT, Drawn

STREAMS = GROUPS * SIZE
BLOCK = STREAMS * LENGTH * 4  # frames
BLOCKS = 14
STOP = 6
WARM_UP = 3
CONFIG = change(
    TINY,
    **{
        "replay.warm_up": WARM_UP * STREAMS * LENGTH,
        "evaluation.traces": 5,
        "evaluation.episodes": 4,
    },
)
MEMORY = 60_000_000


def build(groups: int, environments: int, seed: int, threads: int, progress):
    progress(groups * environments, groups * environments)
    return [Drawn(range(environments * g, environments * (g + 1))) for g in range(groups)]


GAME = HostedGame(build, Drawn.spec)


def spec(folder) -> RunSpec:
    return RunSpec(VARIANT, "tests:drawn", 0, folder, CONFIG, BLOCKS * BLOCK)


def play(folder, stop_after=None, replay=True, game=GAME):
    watcher = Watcher(stop_after)
    registry._registered["tests:drawn"] = lambda: game
    checkpoints = Checkpointing(2 * BLOCK, replay)
    run = spec(folder)._replace(memory=MEMORY, checkpoints=checkpoints)
    trainer.run([run], watcher)
    return watcher


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A run that was interrupted, with replay in its checkpoint."""
    folder = tmp_path_factory.mktemp("hosted") / "stopped"
    with pytest.raises(Interrupted, match=f"saved at {STOP * BLOCK:,} frames"):
        play(folder, stop_after=STOP)
    return folder


def test_a_run_keeps_the_memory_that_it_began_with(tmp_path, monkeypatch):
    """A study that resumed with less on the device could use no checkpoint."""
    registry._registered["tests:drawn"] = lambda: GAME
    for left in (300_000, 290_000):
        monkeypatch.setattr(memory, "_left_for_replay", lambda *_, left=left: left)
        ((program, (run,)),) = trainer._make_programs([spec(tmp_path / "run")], Watcher())
        assert program.memory == 300_000
        trainer._create_folder(run, program, sharded=False)


@pytest.mark.slow
def test_a_hosted_run_goes_on(stopped, tmp_path):
    copies = [shutil.copytree(stopped, tmp_path / name) for name in "ab"]
    for copy in copies:
        watcher = play(copy)
        assert [progress.frames // BLOCK for progress in watcher.shown] == list(
            range(STOP + 1, BLOCKS + 1)
        )
        # Replay has room for ten blocks; seven are in it where the first record ends.
        fills = [progress.replay_fill for progress in watcher.shown]
        assert fills[:5] == [0.7, 0.8, 0.9, 1.0, 1.0]
        assert any(said.startswith("replay may take 0.0 GB") for said in watcher.said)
        assert any(said.startswith("built 10 of 10 emulators") for said in watcher.said)
    # From the same checkpoint, twice the same.
    assert results(copies[0]) == results(copies[1])
    learning = read_table(copies[0], "learning")
    assert learning["frames"].is_sorted() and learning["frames"].n_unique() == len(learning)
    # The ratio is exact to the end: block n is paid for while block n + 1 is played.
    pace = make_pace(CONFIG)
    paid = (BLOCKS - 1 - pace.warm_up) * pace.numerator // pace.denominator
    assert learning["updates"][-1] == paid


@pytest.mark.slow
def test_episodes_in_flight_are_dropped(stopped, tmp_path):
    folder = shutil.copytree(stopped, tmp_path / "run")
    play(folder)
    episodes = read_table(folder, "episodes")
    # When the run was saved, one block more was complete than tables tell.
    resumed = (STOP + 1) * BLOCK
    for stream in range(STREAMS):
        own = episodes.filter(polars.col("stream") == stream)
        assert set(own["length"]) == {5 + stream}
        assert set(own["return"]) == {5.0 + stream}
        later = own.filter(polars.col("frames") >= resumed)["frames"].to_numpy()
        steps = (later - resumed) // (4 * STREAMS)
        # Emulators began anew: the first episode ends 5 + stream steps after.
        expected = np.arange(5 + stream, (BLOCKS - STOP - 1) * LENGTH, 5 + stream)
        np.testing.assert_array_equal(steps, expected)


@pytest.mark.slow
def test_without_replay_nothing_is_learned_or_owed_until_it_is_full(tmp_path):
    with pytest.raises(Interrupted):
        play(tmp_path / "run", stop_after=STOP, replay=False)
    path = listed(tmp_path / "run")[0]
    assert not any("replay" in leaf for leaf in read_manifest(path).leaves)
    done = read_manifest(path).snapshot.host["updates"]
    watcher = play(tmp_path / "run", replay=False)
    learning = read_table(tmp_path / "run", "learning")
    updates = []
    for progress in watcher.shown:
        rows = learning.filter(polars.col("frames") <= progress.frames)
        updates.append(max(done, rows["updates"].max()))
    pace = make_pace(CONFIG)
    blocks = STOP + 1  # complete when the run was saved
    expected = [
        done
        + max(number - 1 - blocks - pace.warm_up, 0) * pace.numerator // pace.denominator
        for number in range(STOP + 1, BLOCKS + 1)
    ]
    assert updates == expected
    assert max(np.diff(updates)) <= -(-pace.numerator // pace.denominator)


@pytest.mark.slow
def test_what_is_large_is_streamed(stopped, tmp_path, monkeypatch):
    """The same bytes, whether they were copied first or not."""
    monkeypatch.setattr(hosted, "HOST_COPY", 0)
    with pytest.raises(Interrupted):
        play(tmp_path / "run", stop_after=STOP)
    ours, theirs = listed(tmp_path / "run")[0], listed(stopped)[0]
    for file in ours.glob("*.bin"):
        assert file.read_bytes() == (theirs / file.name).read_bytes()


@pytest.mark.slow
def test_an_emulator_that_dies_is_told_in_one_line(stopped, tmp_path):
    folder = shutil.copytree(stopped, tmp_path / "run")

    class Dying(Drawn):
        def recv(self):
            if self.step == 2 * LENGTH:
                raise RuntimeError("emulator gone")
            return super().recv()

    def build_dying(groups: int, environments: int, seed: int, threads: int, progress):
        return [
            Dying(range(environments * g, environments * (g + 1))) for g in range(groups)
        ]

    with pytest.raises(MachineError, match="emulator of tests:drawn died .*gone") as fault:
        play(folder, game=HostedGame(build_dying, Drawn.spec))
    assert "\n" not in str(fault.value) and fault.value.exit_code == 71
    assert listed(folder)[0].name == listed(stopped)[0].name
    play(folder)

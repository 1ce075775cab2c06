"""A run on somebody else's environment, from its beginning to its film."""

import gc
import multiprocessing
import os
import subprocess
import sys
import weakref
from pathlib import Path
from unittest.mock import Mock

import jax
import numpy as np
import pytest

from sidequest.cli.train import parse_request
from sidequest.config import SMALL, SMALL_FRAMES, change, evaluate_often
from sidequest.environments import registry
from sidequest.errors import ConfigError, Interrupted, InvalidRequest, MachineError
from sidequest.records import read_run, read_table
from sidequest.runs import hosted, trainer
from sidequest.runs.evaluation import evaluate_run, load_player, play_episode
from sidequest.runs.spec import Checkpointing, RunSpec
from sidequest.study.scheduler import program
from sidequest.study.studies import find, jobs_of, narrow
from sidequest.switching.variants import parse
from tests.reliability.harness import Watcher
from tests.runs.tiny import TINY

OWN = "tests.environments.own:"
BLOCK, BLOCKS, STOP = 6 * 8, 14, 5
CONFIG = change(
    TINY,
    **{
        "acting.environments": 6,
        "replay.capacity": 20 * BLOCK,
        "evaluation.episodes": 2,
        "evaluation.traces": 100,  # all episodes
        "environment.sticky_actions": 0.2,
    },
)


def make_spec(folder: Path, game: str, seed: int = 0) -> RunSpec:
    variant, checkpoints = parse("XU-step-level-0.5"), Checkpointing(2 * BLOCK)
    spec = RunSpec(variant, OWN + game, seed, folder, CONFIG, BLOCKS * BLOCK)
    return spec._replace(checkpoints=checkpoints)


def train(folder: Path, game: str, stop_after: int | None = None) -> Watcher:
    watcher = Watcher(stop_after)
    trainer.run([make_spec(folder, game)], watcher)
    return watcher


def test_a_run_is_interrupted_resumed_evaluated_and_filmed(tmp_path):
    with pytest.raises(Interrupted, match=f"saved at {STOP * BLOCK} frames"):
        train(tmp_path, "walk", stop_after=STOP)
    watcher = train(tmp_path, "walk")
    assert [one.frames // BLOCK for one in watcher.shown] == [*range(STOP + 1, BLOCKS + 1)]
    run = read_run(tmp_path)
    assert run["finished"] and run["memory"] is None and run["sticky_actions"] == 0.2
    assert read_table(tmp_path, "learning")["updates"][-1] > 0
    episodes = read_table(tmp_path, "episodes")
    lengths, returns = episodes["length"].to_numpy(), episodes["return"].to_numpy()
    np.testing.assert_array_equal(returns, lengths < 50)  # 8 steps to the right, or none
    # What was interrupted is no episode; all others are whole.
    traced = read_table(tmp_path, "traces").select("frames", "length")
    assert traced.equals(episodes.filter(stream=0).select("frames", "length"))
    assert evaluate_run(tmp_path, 3, 0)["length"] <= 50
    episode = play_episode(load_player(tmp_path), seed=0, max_steps=20)
    assert episode.frames is not None and episode.frames.shape[1:] == (200, 27, 3)
    places = np.round(10 * episode.observations[:, 0]).astype(int)
    np.testing.assert_array_equal(episode.frames[:, 0, 0, 0], 100 + places)


def test_a_run_whose_environment_fails_ends_in_one_line(tmp_path):
    with pytest.raises(MachineError) as fault:
        train(tmp_path, "error")
    assert "own:error failed: KeyError: 'no such\\nroom' (" in str(fault.value)
    assert str(fault.value).endswith("the last checkpoint is untouched")
    assert "\n" not in str(fault.value) and fault.value.exit_code == 71
    assert not multiprocessing.active_children()


def test_a_run_whose_environment_fails_does_not_keep_others_from_training(
    tmp_path, monkeypatch
):
    start, started = hosted.start_run, []

    def start_run(*arguments):
        gc.collect()  # what checks types and shapes makes cycles
        assert not any(run() for run in started), "its replay is still in memory"
        run = start(*arguments)
        started.append(weakref.ref(run))
        return run

    monkeypatch.setattr(hosted, "start_run", start_run)
    specs = [make_spec(tmp_path / str(seed), "unlucky", seed) for seed in (0, 1)]
    watcher = Watcher()
    with pytest.raises(MachineError, match="own:unlucky failed: KeyError: 'no such") as one:
        trainer.run(specs, watcher)
    assert str(one.value) in watcher.said
    assert [bool(read_run(spec.folder)["finished"]) for spec in specs] == [False, True]
    assert len(started) == 2


def test_a_run_that_cannot_start_leaves_its_memory_to_the_next(tmp_path, monkeypatch):
    """Its replay was still on the device when the next run's was read."""
    specs = [make_spec(tmp_path / str(seed), "walk", seed) for seed in (0, 1)]
    for spec in specs:
        with pytest.raises(Interrupted):
            trainer.run([spec], Watcher(stop_after=1))
    find, found = trainer.find_resume_point, []

    def find_resume_point(*arguments, **options):
        gc.collect()
        assert not any(leaf() for leaf in found)
        point = find(*arguments, **options)
        found.extend(map(weakref.ref, jax.tree.leaves(point.snapshot.state["replay"])))
        return point

    monkeypatch.setattr(trainer, "find_resume_point", find_resume_point)
    monkeypatch.setattr(hosted, "start_run", Mock(side_effect=MachineError("no emulators")))
    with pytest.raises(MachineError, match="^no emulators\nno emulators$"):
        trainer.run(specs, Watcher())
    assert found


def request(game, **changed):
    options = dict.fromkeys(("seeds", "seed", "frames", "preset", "emulators"))
    options |= {"replay_memory": None, "set": (), **changed}
    return parse_request(("XU-step-level-0.1",), Path("runs"), game=game, **options)


@pytest.mark.parametrize(
    ("game", "preset", "folder"),
    [
        ("gymnasium:CartPole-v1", SMALL, "gymnasium-CartPole-v1"),
        ("gymnasium:ALE/Pong-v5", SMALL_FRAMES, "gymnasium-ALE-Pong-v5"),
        (OWN + "minigrid", SMALL, "tests.environments.own-minigrid"),
        ("examples.own_environment:corridor", SMALL, "examples.own_environment-corridor"),
    ],
)
def test_what_train_makes_of_such_a_name(game, preset, folder):
    (run,) = request(game)
    assert run.frames == 1_000_000
    assert run.config == evaluate_often(preset, run.frames)
    assert run.folder.parts[2] == folder


def test_emulators_are_for_games_on_the_host():
    (run,) = request("gymnasium:CartPole-v1", emulators=12)
    assert run.config.acting.environments == 12
    with pytest.raises(InvalidRequest, match="corridor has no emulators"):
        request("examples.own_environment:corridor", emulators=12)


def test_runs_of_a_study_train_alone_on_the_host():
    games = ["gymnasium:CartPole-v1", "examples.own_environment:corridor"]
    jobs = jobs_of(narrow(find("quick/tiny"), games, ["XU-step-level-0.1"], seeds=2))
    assert len(jobs) == 4 and len({program(job) for job in jobs}) == 3


def test_a_game_that_sets_jax_to_64_bits_is_refused(tmp_path):
    (run,) = request("examples.own_environment:corridor")
    jax.config.update("jax_enable_x64", True)
    try:
        registry._make_own.cache_clear()
        with pytest.raises(ConfigError, match="unset JAX_ENABLE_X64"):
            trainer.run([run._replace(folder=tmp_path / "run")], Watcher())
    finally:
        jax.config.update("jax_enable_x64", False)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_study_of_ones_own_environments(tmp_path):
    """In processes of their own, found in the working directory."""
    root = Path(__file__).parents[2]
    example = root / "examples" / "own_environment.py"
    (tmp_path / "mine.py").write_text(example.read_text())
    words = ["study", "quick/tiny", "--games", "mine:corridor", "gymnasium:CartPole-v1"]
    words += ["--variants", "XU-intra(10,informed,0.01,G)", "--workers", "2", "--quiet"]
    command = [sys.executable, "-P", "-c", "from sidequest.cli import main; main()", *words]
    paths = os.environ | {"PYTHONPATH": str(root)}
    done = subprocess.run(
        command, cwd=tmp_path, env=paths, stdout=subprocess.PIPE, text=True
    )
    assert done.returncode == 0
    report = Path(tmp_path, done.stdout.strip()).read_text(encoding="utf-8")
    assert "mine:corridor" in report and "gymnasium:CartPole-v1" in report


@pytest.mark.parametrize(
    "words, expected",
    [
        ("train XU-step-level-0.1 --game mine:corridor", "3 devices"),
        ("study quick/tiny --games mine:corridor", "3 devices"),
        ("study quick/tiny --games mine:corridor --workers 2", "1 devices, cpu"),
        ("study quick/tiny --games mine:corridor --dry-run", "1 devices, cpu"),
    ],
)
def test_a_game_that_starts_jax_finds_it_set_up(tmp_path, words, expected):
    """All cores are devices, or the GPUs are left to the workers."""
    root = Path(__file__).parents[2]
    example = root / "examples" / "own_environment.py"
    (tmp_path / "mine.py").write_text(example.read_text())
    program = """
import jax
from sidequest import records
records.available_cores = lambda: 3
from sidequest.cli import main, train
from sidequest.study import estimate, scheduler
def said(*_, **__):
    print(jax.local_device_count("cpu"), "devices,", jax.config.jax_platforms, flush=True)
    raise SystemExit
train._train_all = scheduler.run = estimate.forecast = said
main()
"""
    paths = {name: word for name, word in os.environ.items() if name != "JAX_PLATFORMS"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", program, *words.split()],
        cwd=tmp_path,
        env=paths | {"PYTHONPATH": str(root)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert done.stdout.startswith(expected)

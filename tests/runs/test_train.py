"""Whole runs on a tiny game: its files, its cadence, and that it can be had again."""

import functools
import json
import math

import jax
import numpy as np
import polars
import pytest

from sidequest import records
from sidequest.config import change, from_dict
from sidequest.records import read_run, read_table
from sidequest.runs import checkpoint
from sidequest.runs.evaluation import make_evaluator
from sidequest.runs.spec import RunSpec, folder_name
from sidequest.runs.state import EVALUATION
from sidequest.switching.variants import parse
from tests.reliability.harness import CHUNK, CONFIG, GAME, Watcher, train
from tests.runs.left import make_q_function
from tests.runs.tiny import bargains

VARIANT = parse("XU-intra(*,informed,p*,X)")
FRAMES = 3 * CHUNK - 100  # whole chunks are played, so three
SEEDS = {"one": 0, "same": 0, "other": 1}


def run(folder):
    watcher = Watcher()
    runs = [
        RunSpec(VARIANT, GAME, seed, folder / name, CONFIG, FRAMES)
        for name, seed in SEEDS.items()
    ]
    train(runs, watcher)
    return watcher


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return folder, run(folder)


def test_the_files_are_there(trained):
    folder, _ = trained
    expected = {f"{table}.parquet" for table in records.TABLES}
    expected |= {records.RUN_FILE, checkpoint.PARAMETERS}
    for name in SEEDS:
        assert {path.name for path in (folder / name).iterdir()} == expected


def test_the_columns_are_spelt_so(trained):
    folder, _ = trained
    columns = read_table(folder / "one", "episodes").columns
    assert set(columns) == {
        *(
            "variant",
            "game",
            "seed",
            "frames",
            "stream",
            "return",
            "length",
            "p_X",
            "med_X",
            "rmed_X",
        ),
        *("periods", "realised_rate", "target_rate", "arm_explore", "arm_exploit"),
    }
    for table, wanted in {
        "evaluations": {"seed", "frames", "return", "length"},
        "learning": {"frames", "updates", "loss", "td_error_extrinsic", "gradient_norm"},
        "bandits": {"seed", "frames", "bandit", "arm", "probability"},
        "traces": {"seed", "frames", "length", "modes", "signal", "reward"},
    }.items():
        assert wanted <= set(read_table(folder / "one", table).columns)


def test_the_run_file_says_what_was_run(trained):
    folder, _ = trained
    said = read_run(folder / "other")
    assert (said["variant"], said["game"], said["seed"]) == (str(VARIANT), GAME, 1)
    assert from_dict(said["config"], said["game"]) == CONFIG
    assert said["finished"] and said["seconds"] > 0
    assert said["frames_done"] == 3 * CHUNK
    assert said["pace"] == {
        **{"numerator": 1, "denominator": 1, "warm_up": 2, "sync_every": 1}
    }
    assert {"versions", "python", "platform", "command", "started"} <= set(said)


def test_episodes_are_all_there(trained):
    folder, _ = trained
    episodes = read_table(folder / "one", "episodes")
    assert episodes["frames"].is_sorted()
    for stream in range(4):
        own = episodes.filter(stream=stream)
        # Each begins where the one before it ended; only the last is still open.
        np.testing.assert_array_equal(own["frames"], 4 * own["length"].cum_sum())
        assert own["length"].max() <= 12
        assert 3 * CHUNK - own["frames"].max() <= 4 * 12
    assert set(episodes["arm_explore"]) == set(CONFIG.switching.explore_arms)
    assert set(episodes["arm_exploit"]) == set(CONFIG.switching.rate_arms)
    np.testing.assert_allclose(episodes["target_rate"], episodes["arm_exploit"], rtol=1e-6)


def test_evaluations_come_at_the_asked_cadence_and_at_the_end(trained):
    folder, _ = trained
    frames = read_table(folder / "one", "evaluations")["frames"].to_list()
    assert frames == [2 * CHUNK] * 4 + [3 * CHUNK] * 4


def test_tables_with_a_cadence_have_a_row_a_chunk(trained):
    folder, watcher = trained
    learning = read_table(folder / "one", "learning")
    chunks = [CHUNK, 2 * CHUNK, 3 * CHUNK]
    assert learning["frames"].to_list() == chunks
    # One update a block of 8 steps, after the first two.
    assert learning["updates"].to_list() == [30, 62, 94]
    assert learning["skipped"].to_list() == [0.0, 0.0, 0.0]
    bandits = read_table(folder / "one", "bandits")
    assert bandits["frames"].unique(maintain_order=True).to_list() == chunks
    sums = bandits.group_by("frames", "bandit").agg(polars.col("probability").sum())
    np.testing.assert_allclose(sums["probability"], 1.0, rtol=1e-5)
    assert [progress.frames for progress in watcher.shown] == chunks
    assert all(len(progress.runs) == 3 for progress in watcher.shown)
    assert "compiled in" in watcher.said[1]
    assert "saved at 2,048 frames" in watcher.said[-1]


def test_traces_are_whole_episodes(trained):
    folder, _ = trained
    traces = read_table(folder / "one", "traces")
    assert 16 <= traces.height <= 21
    episodes = read_table(folder / "one", "episodes").filter(stream=0)
    for row in traces.iter_rows(named=True):
        own = episodes.filter(frames=row["frames"]).row(0, named=True)
        length = len(row["modes"])
        assert own["length"] == row["length"] == length
        assert length == len(row["signal"]) == len(row["reward"])
        assert own["return"] == pytest.approx(sum(row["reward"]), abs=1e-5)
        assert own["p_X"] == pytest.approx(row["modes"].count("X") / length)


def test_the_same_seed_gives_the_same_tables(trained):
    folder, _ = trained
    for table in records.TABLES:
        one, same, other = (read_table(folder / name, table) for name in SEEDS)
        assert one.equals(same)
        assert not one.drop("seed").equals(other.drop("seed"))


def test_parameters_load_and_play_as_before(trained):
    folder, _ = trained
    environment = bargains()
    like = jax.eval_shape(
        lambda: make_q_function(CONFIG, environment.spec, 1, jax.random.key(0))
    )
    evaluate = jax.jit(make_evaluator(environment, 4))
    for name, seed in SEEDS.items():
        path = folder / name / checkpoint.PARAMETERS
        network = checkpoint.load(path, path.read_bytes(), like)
        key = jax.random.fold_in(jax.random.key(seed), EVALUATION)
        scores = evaluate(jax.random.fold_in(key, 3 * CHUNK // (4 * 8)), network)
        rows = read_table(folder / name, "evaluations").tail(4)
        np.testing.assert_allclose(scores.episode_return, rows["return"], rtol=1e-5)
        assert len(set(rows["return"])) == 4
        assert scores.length.tolist() == rows["length"].to_list()


def test_parameters_of_another_network_are_refused(trained):
    folder, _ = trained
    path = folder / "one" / checkpoint.PARAMETERS
    spec = bargains().spec
    for changes, heads, message in [
        ({}, 2, r"heads.* is float32\(1, .*expected float32\(2, "),
        ({"network.core_units": 5}, 1, "expected float32"),
    ]:
        config = change(CONFIG, **changes)
        like = jax.eval_shape(
            functools.partial(make_q_function, config, spec, heads), jax.random.key(0)
        )
        with pytest.raises(ValueError, match=message):
            checkpoint.load(path, path.read_bytes(), like)


def test_a_checkpoint_gives_back_what_was_saved(tmp_path):
    tree = {"a": np.arange(3), "b": (np.float32(2.5), np.ones((2, 1)))}
    path = tmp_path / "x.npz"
    checkpoint.save(path, tree)
    found = checkpoint.load(path, path.read_bytes(), tree)
    jax.tree.map(np.testing.assert_array_equal, found, tree)
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(ValueError, match="lacks .*'c'"):
        checkpoint.load(path, path.read_bytes(), tree | {"c": np.zeros(1)})


def test_a_run_that_has_finished_is_left_alone(trained):
    folder, _ = trained
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert not run(folder).shown
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
    assert json.loads((folder / "one" / records.RUN_FILE).read_text())["finished"]


@pytest.mark.slow
def test_a_run_that_ends_before_it_learns_says_so(trained, tmp_path):
    watcher = Watcher()
    config = change(CONFIG, **{"replay.warm_up": 2_000, "replay.capacity": 4_096})
    train([RunSpec(VARIANT, GAME, 0, tmp_path / "run", config, CHUNK)], watcher)
    # 63 blocks of 8 steps in 4 environments are the first to exceed 2,000 observations.
    assert watcher.said[0] == "compiling one program for 1 run …"
    assert watcher.said[-1] == (
        "no update was made: learning starts after 2,016 frames (see replay.warm_up), and "
        "1,024 were played"
    )
    assert not (tmp_path / "run" / "learning.parquet").exists()
    assert not any("no update" in said for said in trained[1].said)


def test_folders_are_named_for_shells():
    names = {
        "XU-intra(10,informed,p*,X)": "XU-intra-10-informed-pstar-X",
        "Xγ-intra(=,blind,5%,G)": "Xgamma-intra-same-blind-5percent-G",
        "XU-step-level-0.01": "XU-step-level-0_01",
    }
    assert {name: folder_name(parse(name)) for name in names} == names


@pytest.mark.slow
def test_training_twice_gives_the_same_tables(trained, tmp_path):
    folder, _ = trained
    run(tmp_path)
    for name in SEEDS:
        for table in records.TABLES:
            again = read_table(tmp_path / name, table)
            assert again.equals(read_table(folder / name, table))
    assert math.isfinite(read_run(tmp_path / "one")["seconds"])

"""What small runs record is what they recorded before: values, not bytes.

`records/` was made by `python -m tests.golden.runs` at commit c3a02f5, before the package
was restructured, compiled as conftest.py says; `quick_scores.csv` by `sidequest study
quick`. If results change on purpose, make them again and say why in the commit. That was
done for `intrinsic`, when intrinsic rewards got a unit of their own, for `hosted`, when
actors began to draw arms with the newest probabilities, and for the study, when MiniGrid
got sticky actions.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import polars
import polars.testing
import pytest

from sidequest.records import IDENTITY, TABLES, read_table
from tests.golden.runs import RUNS

HERE = Path(__file__).parent
GOLDEN = HERE / "records"
STUDY_VARIANTS = ["XU-intra(10,informed,0.01,G)", "XU-intra(10,blind,100,G)"]
STUDY_GAME = "minigrid:empty_6x6"


def describe_cpu() -> dict[str, str]:
    """What the last bits of a result depend on, besides the program."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    flags = next(line for line in lines if line.startswith("flags")).split()
    widest = max(flag for flag in ("avx", "avx2", "avx512f") if flag in flags)
    return {"jax": jax.__version__, "vectors": widest}


def require_same_machine() -> None:
    """Skips where other rounding would make another run."""
    expected = json.loads((GOLDEN / "machine.json").read_text())
    found = describe_cpu() if Path("/proc/cpuinfo").exists() else {}
    if found != expected:
        pytest.skip(f"made with {expected}, here is {found}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    require_same_machine()
    folder = tmp_path_factory.mktemp("golden")
    subprocess.run(
        [sys.executable, "-m", "tests.golden.runs", str(folder)],
        cwd=HERE.parents[1],
        check=True,
    )
    return folder


def made(folder: Path, name: str) -> Path:
    (run,) = (folder / name).rglob("run.json")
    return run.parent


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("name", [run.name for run in RUNS])
def test_tables_hold_the_same_values(folder, name, table):
    path = GOLDEN / f"{name}-{table}.parquet"
    ours = read_table(made(folder, name), table)
    if not path.exists():
        assert ours.is_empty()
        return
    theirs = polars.read_parquet(path).drop("run", strict=False)
    ours = ours.drop(IDENTITY)
    polars.testing.assert_frame_equal(ours, theirs, check_exact=False, rel_tol=1e-4)


@pytest.mark.parametrize("name", [run.name for run in RUNS])
def test_parameters_are_the_same(folder, name):
    """Statistics, which were among the parameters, have another place now."""

    def read(path: Path) -> dict[str, np.ndarray]:
        arrays = np.load(path)
        names = [name for name in arrays.files if "standard" not in name]
        return {name.split("network")[-1]: arrays[name] for name in names}

    theirs = read(GOLDEN / f"{name}-parameters.npz")
    ours = read(made(folder, name) / "parameters.npz")
    assert theirs.keys() <= ours.keys()
    for name, array in theirs.items():
        np.testing.assert_allclose(ours[name], array, rtol=1e-3, atol=1e-5, err_msg=name)


@pytest.mark.slow
def test_a_study_has_the_same_scores(tmp_path):
    require_same_machine()
    words = ["study", "quick", "--games", STUDY_GAME, "--variants", *STUDY_VARIANTS]
    command = shutil.which("sidequest", path=str(Path(sys.executable).parent))
    assert command
    words += "--seeds 2 --frames 10k --quiet --out".split()
    # As users run it, not compiled as quickly as tests are.
    usual = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "0", "XLA_FLAGS": ""}
    study = str(tmp_path / "study")
    done = subprocess.run([command, *words, study], env=os.environ | usual)
    assert done.returncode == 0
    rows = [
        {**json.loads(run.read_text()), "folder": run.parent}
        for run in (tmp_path / "study").rglob("run.json")
    ]
    golden = polars.read_csv(HERE / "quick_scores.csv")
    assert len(rows) == 2 * len(STUDY_VARIANTS)
    for row in rows:
        own = golden.filter(
            *(polars.col(name) == row[name] for name in IDENTITY),
        )
        assert scores(row["folder"]) == pytest.approx(own.row(0)[3:], rel=1e-4)


def scores(folder: Path) -> tuple[float, float, float]:
    """Mean greedy return at the last evaluation, mean training return, and p_X."""
    evaluations = read_table(folder, "evaluations")
    last = evaluations.filter(polars.col("frames") == polars.col("frames").max())
    episodes = read_table(folder, "episodes")
    return tuple(
        float(np.mean(column.to_numpy()))
        for column in (last["return"], episodes["return"], episodes["p_X"])
    )

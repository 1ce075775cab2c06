"""The example of a user's own environment runs."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_example_runs():
    path = ROOT / "examples" / "own_environment.py"
    result = subprocess.run(
        [sys.executable, str(path)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"},
    )
    assert "episodes reached the end" in result.stdout
    assert int(result.stdout.split()[0]) > 100

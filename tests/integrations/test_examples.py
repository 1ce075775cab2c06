"""The examples with PyTorch run, and learn."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DQN = ROOT / "examples" / "dqn_pytorch.py"


def test_the_single_file_dqn_learns():
    done = subprocess.run(
        [sys.executable, str(DQN), "--total-timesteps", "16000", "--seed", "1"],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    returns = [float(number) for number in re.findall(r"return +(\S+)", done.stdout)]
    assert len(returns) == 10
    assert max(returns[5:]) > 60  # random play: 22
    assert re.search(r"explored \d+% of a mean episode", done.stdout)


def test_it_differs_from_epsilon_greedy_by_a_handful_of_lines():
    marked = [line for line in DQN.read_text().splitlines() if line.endswith("  # switch")]
    assert len(marked) == 5


@pytest.mark.parametrize("library", ["sb3", "torchrl"])
def test_the_guides_example_runs(library):
    page = (ROOT / "docs" / "guide" / "integrations.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (code,) = [block for block in blocks if f"integrations.{library}" in block]
    shorter = re.sub(r"\b\d+_000\b", "800", code)
    assert shorter != code
    exec(compile(shorter, library, "exec"), {})

"""The examples run, and learn. Those with PyTorch are tested by `make integrations`."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"


def run(name: str, *options: str) -> str:
    result = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / name), *options],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"},
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_own_agent_learns():
    output = run("own_agent.py", "--steps", "2500", "--seed", "2")
    found = re.search(r"mean return: random (\S+), learned (\S+)", output)
    chance, learned = map(float, found.groups())
    assert chance < 0.02
    assert learned > 0.9
    curve = [float(score) for score in re.findall(r"\d steps .* (\S+)\n", output)]
    assert len(curve) == 11
    assert curve[0] < 0.1 and curve[-1] > 0.9


def test_own_agent_is_short():
    assert len((EXAMPLES / "own_agent.py").read_text().splitlines()) < 100


def test_the_jax_loop_learns():
    goals = [int(n) for n in re.findall(r"goals reached +(\d+)", run("jax_loop.py"))]
    assert len(goals) == 5
    # The corridor is 19 steps long: in 800 steps, 16 environments reach 673 goals at best.
    assert goals[0] < 0.7 * 673
    assert all(0.97 * 673 < later <= 674 for later in goals[1:])


def test_the_jax_loop_is_short():
    assert len((EXAMPLES / "jax_loop.py").read_text().splitlines()) <= 40

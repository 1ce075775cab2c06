"""The example of an agent of one's own runs, and learns."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "own_agent.py"


def test_own_agent_learns():
    result = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLE), "--steps", "2500", "--seed", "2"],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"},
    )
    assert result.returncode == 0, result.stderr
    found = re.search(r"mean return: random (\S+), learned (\S+)", result.stdout)
    chance, learned = map(float, found.groups())
    assert chance < 0.02
    assert learned > 0.9
    curve = [float(score) for score in re.findall(r"\d steps .* (\S+)\n", result.stdout)]
    assert len(curve) == 11
    assert curve[0] < 0.1 and curve[-1] > 0.9


def test_own_agent_is_short():
    assert len(EXAMPLE.read_text().splitlines()) < 100

"""An integration whose library is missing says which extra brings it.

The integrations themselves are tested against the real libraries: `make integrations`.
"""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("extra", ["sb3", "torchrl"])
def test_a_missing_library_is_named_in_one_line(extra):
    code = f"import sys; sys.modules['torch'] = None; import sidequest.integrations.{extra}"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[1],
    )
    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1] == (
        f"ImportError: sidequest.integrations.{extra} needs torch: "
        f'in the clone, pip install ".[{extra}]"'
    )
    assert "During handling" not in done.stderr

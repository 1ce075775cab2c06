"""The examples of the guide that need no training run as they are written."""

import re
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[1] / "docs" / "guide"


@pytest.mark.parametrize("page", ["your-agent.md", "your-trigger.md"])
def test_the_first_example_of_a_page(page):
    code = re.findall(r"```python\n(.*?)```", (GUIDE / page).read_text(), re.DOTALL)[0]
    names: dict = {}
    exec(code, names)
    assert names["explore"].dtype == bool
    assert 0 < names["switch"].summary()["p_X"] < 0.5

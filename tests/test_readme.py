"""The README's example runs, and what it promises is there."""

import re
from pathlib import Path

from sidequest import parse
from sidequest.cli import COMMANDS

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def test_the_example_runs(capsys):
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(example.strip().splitlines()) <= 12
    exec(compile(example, "README.md", "exec"), {})
    assert "'p_X':" in capsys.readouterr().out


def test_the_commands_exist():
    named = re.findall(r"^sidequest (\w+)", README, re.MULTILINE)
    assert named and set(named) <= set(COMMANDS)


def test_the_variants_are_variants():
    for name in re.findall(r"`(X[UISγ]-[^`…]*\w[^`…]*)`", README):
        if name[-1] != "-":
            assert str(parse(name)) == name


def test_pictures_and_files_are_there():
    for path in re.findall(r"\]\(((?!http)[^)]+)\)", README):
        assert (Path(__file__).parents[1] / path).exists(), path

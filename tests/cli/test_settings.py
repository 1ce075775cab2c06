"""`sidequest settings`: complete, true to the code, and the same in the docs."""

from pathlib import Path

import pytest

from sidequest.config import PAPER, SMALL, describe_settings, flatten
from tests.cli import run

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "settings.md"


def test_every_setting_is_described():
    described = {one.name: one for part in describe_settings().values() for one in part}
    assert list(described) == list(flatten(PAPER))
    for name, value in flatten(SMALL).items():
        assert described[name].small == value
        assert described[name].meaning.endswith(".") and described[name].allowed
    assert described["replay.ratio"] == (
        *("replay.ratio", 1.0, 4.0, "0.001 to 1000"),
        *("How often a sequence is replayed on average.", "paper"),
    )
    assert described["learning.watkins"].allowed == "true, false or none"
    assert described["replay.warm_up"].source == "ours"


@pytest.mark.parametrize("name, lines", [("replay.prefix", 3), ("acting", 6)])
def test_a_part_of_them(name, lines, capsys):
    assert run("settings", name) == 0
    assert len(capsys.readouterr().out.strip().splitlines()) == lines


def test_a_terminal_of_few_columns_is_no_fault(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "6")
    assert run("settings", "replay.warm_up") == 0
    assert "      Observations\n      in replay\n" in capsys.readouterr().out


def test_the_page_is_what_the_command_prints(capsys):
    """If it is not: sidequest settings --markdown > docs/reference/settings.md"""
    assert run("settings", "--markdown") == 0
    assert capsys.readouterr().out == PAGE.read_text(encoding="utf-8")

"""Help texts: every option is explained, and the text reads well on a terminal."""

import inspect
import io
import re
import sys

import pytest

from sidequest.cli import COMMANDS, command_named
from sidequest.cli.options import NO_BREAK, join_lines
from tests.cli import run

COLUMNS = 80
SHOWN = {
    "train": [
        "usage: sidequest train [-h] [OPTIONS] [VARIANT …]",
        '"XU-intra(10,informed,p*,X)"',
        "--preset {small,paper}",
        "--set NAME=VALUE",
        "--from RUN",
        "How many seeds of each variant. (default: 1)",
    ],
    "explain": ["[VARIANT …]", '"XU-intra(10,informed,p*,X)"', "--no-strip", "--episode"],
    "study": ["(default: quick)", "--dry-run", "--out FOLDER"],
}


class Utf8(io.StringIO):
    """Standard output that takes the lines of boxes."""

    encoding = "utf-8"  # type: ignore


def test_help_lists_every_command(capsys):
    assert run("--help") == 0
    shown = capsys.readouterr().out
    assert all(f"  {name} " in shown for name in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of(command, monkeypatch):
    """Also case 41: help needs no extra."""
    for missing in ("tensorboardX", "ray", "av"):
        monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    monkeypatch.setattr("sys.stdout", shown := Utf8())
    assert run(command, "--help") == 0
    lines = shown.getvalue().splitlines()
    text = "\n".join(lines).replace(NO_BREAK, " ")
    function = command_named(command)
    assert function.__doc__.splitlines()[0] in text
    for name in inspect.signature(function).parameters:
        assert re.search(rf"^ +{name}: \S.{{10,}}", function.__doc__, re.MULTILINE), name
    examples = re.findall(rf"^  sidequest {command}\b.*", text, re.MULTILINE)
    assert len(examples) == 2 and all(len(one) <= COLUMNS for one in examples)
    for strange in ("None", "STR", "INT", "PATH", "(default: )", "False", " ...]"):
        assert strange not in text, strange
    for expected in SHOWN.get(command, []):
        assert expected in text, expected
    assert max(map(len, lines)) <= COLUMNS
    fills_its_lines(lines)


def fills_its_lines(lines: list[str]) -> None:
    """No line of a box is empty, or ends before the next word would not fit."""
    (help_line,) = (line for line in lines if "show this help message" in line)
    indent, inside = help_line.index("show this"), len(help_line) - len(" │")
    texts = [line[:inside].rstrip() for line in lines if line.startswith("│")]
    assert len(texts) > 2 and all(text[1:].strip() for text in texts), "an empty line"
    for line, below in zip(texts, texts[1:], strict=False):
        is_text = line[indent:] and not line[indent - 2 : indent].strip()
        if is_text and not below[1:indent].strip():
            word = below[indent:].split(" ")[0]
            assert len(line) + 1 + len(word) > inside, f"{word} fits into: {line}"


def test_each_argument_in_one_line():
    docstring = """Trains.

    All of them.

    Args:
        game: A game
            by name.
        seed: A number.
    """
    assert join_lines(docstring).splitlines() == [
        *("Trains.", "", "All of them.", "", "Args:"),
        *("    game: A game by name.", "    seed: A number."),
    ]
    assert join_lines(join_lines(docstring)) == join_lines(docstring)

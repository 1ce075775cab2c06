"""Help texts that read well, and options that would be ignored."""

import dataclasses
import io

import pytest

from sidequest.cli import COMMANDS, main
from sidequest.cli.options import NO_BREAK, flowing, refuse_unused
from sidequest.config import PRESETS
from sidequest.records import Recorder


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        main(list(arguments))
    return int(stopped.value.code or 0)


class Utf8(io.StringIO):
    """Standard output that takes the lines of boxes."""

    encoding = "utf-8"  # type: ignore


def shown_help(command: str, columns: int, monkeypatch) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr("sys.stdout", shown := Utf8())
    assert run(command, "--help") == 0
    return shown.getvalue().splitlines()


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("command", COMMANDS)
def test_help_fits_and_breaks_no_line_too_early(command, columns, monkeypatch):
    lines = shown_help(command, columns, monkeypatch)
    assert max(map(len, lines)) <= columns
    (help_line,) = (line for line in lines if "show this help message" in line)
    indent, inside = help_line.index("show this"), len(help_line) - len(" │")
    texts = [line[:inside].rstrip() for line in lines if line.startswith("│")]
    assert len(texts) > 2 and all(text[1:].strip() for text in texts), "an empty line"
    for line, below in zip(texts, texts[1:], strict=False):
        is_text = line[indent:] and not line[indent - 2 : indent].strip()
        if is_text and not below[1:indent].strip():
            word = below[indent:].split(" ")[0]
            assert len(line) + 1 + len(word) > inside, f"{word} fits into: {line}"


@pytest.mark.parametrize("columns", [80, 120])
def test_help_shows_what_to_type(columns, monkeypatch):
    shown = {
        name: "\n".join(shown_help(name, columns, monkeypatch)).replace(NO_BREAK, " ")
        for name in COMMANDS
    }
    for name, text in shown.items():
        for strange in ("None", "STR", "INT", "PATH", "(default: )", "False", " ...]"):
            assert strange not in text, (name, strange)
    for name in ("train", "explain"):
        assert '"XU-intra(10,informed,p*,X)"' in shown[name]
    for line in (
        "usage: sidequest train [-h] [OPTIONS] [VARIANT …]",
        "--preset {small,paper}",
        "--set NAME=VALUE",
        "How many seeds of each variant. (default: 1)",
    ):
        assert line in shown["train"]
    assert "(default: quick)" in shown["study"]


def test_each_argument_in_one_line():
    docstring = """Trains.

    All of them.

    Args:
        game: A game
            by name.
        seed: A number.
    """
    assert flowing(docstring).splitlines() == [
        "Trains.",
        "",
        "All of them.",
        "",
        "Args:",
        "    game: A game by name.",
        "    seed: A number.",
    ]
    assert flowing(flowing(docstring)) == flowing(docstring)


def test_what_counts_as_given():
    refuse_unused({"a": None, "b": False, "c": ()}, "never")
    with pytest.raises(ValueError, match="^--the-seed does not apply: because$"):
        refuse_unused({"the_seed": 0}, "because")
    with pytest.raises(ValueError, match="^--a and --b do not apply: because$"):
        refuse_unused({"a": True, "b": ("x",)}, "because")


BREAKOUT = ["train", "XU-step-level-0.1", "--game", "minatar:breakout"]
PONG = ["train", "XU-step-level-0.1", "--game", "pong"]


@pytest.mark.parametrize(
    "arguments, told",
    [
        (
            [*BREAKOUT, "--emulators", "4"],
            "--emulators does not apply: minatar:breakout has no emulators",
        ),
        (
            [*BREAKOUT, "--replay-memory", "1GB"],
            "--replay-memory does not apply: minatar:breakout has no emulators",
        ),
        (
            [*BREAKOUT, "--checkpoint-replay", "no"],
            "--checkpoint-replay does not apply: checkpoints of minatar:breakout always "
            "hold replay",
        ),
        (
            [*PONG, "--emulators", "4", "--set", "acting.streams=8"],
            "--emulators is the setting acting.streams; give one of them",
        ),
        (["study", "--list", "--seeds", "3"], "--seeds does not apply: --list only lists"),
        (
            ["study", "--dry-run", "--cluster", "auto"],
            "--cluster does not apply: --dry-run measures on this machine",
        ),
        (
            ["bench", "switching", "--game", "pong"],
            "--game does not apply: `sidequest bench switching` takes no such option",
        ),
        (
            ["bench", "agent", "--emulators", "768"],
            "--emulators does not apply: `sidequest bench agent` takes no such option",
        ),
        (
            ["bench", "atari", "--shape", "small", "--members", "2"],
            "--shape and --members do not apply: `sidequest bench atari` takes no such "
            "option",
        ),
        (
            ["figures", "illustrations", "--only", "scores"],
            "--only does not apply: it names figures of runs",
        ),
        (["explain", "--all", "--seed", "0"], "--seed does not apply: no example is shown"),
        (
            ["explain", "XU-step-level-0.1", "--json", "--steps", "9"],
            "--steps does not apply: no example is shown",
        ),
    ],
)
def test_options_that_would_be_ignored_are_refused(arguments, told, capsys, tmp_path):
    out = ["--out", str(tmp_path / "out")] if arguments[0] == "train" else []
    assert run(*arguments, *out) == 2
    said = capsys.readouterr()
    assert said.err == f"{told}\n" and not said.out
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("option", [["--seed", "0"], ["--seeds", "1"], ["--frames", "5"]])
@pytest.mark.parametrize("why", ["--resume", "--from"])
def test_a_folder_knows_all_of_its_run(why, option, tmp_path, capsys):
    assert run("train", why, str(tmp_path), *option) == 2
    told = f"{why} knows the run from its folder; leave out {option[0]}\n"
    assert capsys.readouterr().err == told


def test_a_run_that_goes_on_stays_where_it_is(tmp_path, capsys):
    config = dataclasses.asdict(PRESETS["small"])
    said = {"variant": "XU-step-level-0.1", "game": "probe:constant", "seed": 0}
    Recorder(tmp_path, {**said, "config": config, "frames": 10}).close()
    assert run("train", "--resume", str(tmp_path), "--out", str(tmp_path / "x")) == 2
    assert capsys.readouterr().err.endswith("leave out --out\n")
    assert run("train", "--resume", str(tmp_path), "--checkpoint-replay", "yes") == 2
    assert "--checkpoint-replay does not apply" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()

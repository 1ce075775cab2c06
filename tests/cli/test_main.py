"""The command as a whole: help, wrong words, exit codes."""

import inspect
import json
import re
import signal
import subprocess
import sys
import time
from importlib import import_module

import pytest

from sidequest.cli import COMMANDS, main


def run(*arguments):
    with pytest.raises(SystemExit) as stopped:
        main(list(arguments))
    return stopped.value.code


def test_help_lists_every_command(capsys):
    main(["--help"])
    shown = capsys.readouterr().out
    assert all(f"  {name} " in shown for name in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_has_a_help_text(command, capsys):
    function = getattr(import_module(f"sidequest.cli.{command}"), command)
    for name in inspect.signature(function).parameters:
        assert re.search(rf"^ +{name}: \S.{{10,}}", function.__doc__, re.MULTILINE), name
    assert run(command, "--help") == 0
    assert function.__doc__.splitlines()[0] in capsys.readouterr().out


def test_a_wrong_command_names_the_nearest(capsys):
    assert run("explian") == 2
    assert "Did you mean explain?" in capsys.readouterr().err


def test_a_wrong_game_names_the_nearest(capsys):
    assert run("train", "XU-step-level-0.01", "--game", "minatar:brekout") == 2
    assert "minatar:breakout" in capsys.readouterr().err


def test_all_faults_of_settings_are_told_at_once(capsys):
    wrong = ["--set", "replay.rati=1.0", "--set", "learning.n_step=soon"]
    assert run("train", "XU-step-level-0.01", "--game", "probe:constant", *wrong) == 2
    told = capsys.readouterr().err
    assert "did you mean replay.ratio?" in told
    assert "learning.n_step is 'soon'" in told


@pytest.mark.parametrize("frames", ["-5", "many", "0", ""])
def test_a_wrong_budget_is_refused(frames, capsys):
    options = ["--game", "probe:constant", f"--frames={frames}"]
    if frames:
        assert run("train", "XU-step-level-0.01", *options) == 2
        assert "--frames" in capsys.readouterr().err


def test_games_as_json(capsys):
    assert run("games", "--json") in (0, None)
    games = {game["name"]: game for game in json.loads(capsys.readouterr().out)}
    assert games["frostbite"]["human_score"] == 4334.7
    assert "minigrid:door_key_8x8" in games


def test_a_reader_that_leaves_early_is_no_fault():
    command = f"{sys.executable} -m sidequest explain --all | head -1"
    result = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True
    )
    assert "Traceback" not in result.stderr


def test_faults_of_everything_typed_are_told_at_once(capsys, tmp_path):
    code = run(
        *("train", "XU-foo", "--game", "nope", "--seeds", "-1", "--frames", "abc"),
        *("--set", "a=b", "--set", "replay.ratio=-1.0", "--replay-memory", "1"),
        *("--out", str(tmp_path)),
    )
    told = capsys.readouterr().err
    assert code == 2 and not list(tmp_path.iterdir())
    for fault in (
        "XU-foo",
        "no game called 'nope'",
        "seeds is -1",
        "no setting 'a'",
        "replay.ratio is -1.0",
        "--frames is 'abc'",
        "--replay-memory is '1'",
    ):
        assert fault in told


@pytest.mark.parametrize(
    "options, fault",
    [
        (["XU-step-level-0.1", "XU-step-level-0.1"], "a variant is named twice"),
        (["--resume", "here", "here"], "a folder is named twice"),
    ],
)
def test_the_same_run_twice_is_refused(options, fault, capsys):
    game = [] if "--resume" in options else ["--game", "probe:constant"]
    assert run("train", *options, *game) == 2
    assert fault in capsys.readouterr().err


@pytest.mark.parametrize(
    "options, fault",
    [
        (["agent", "--members", "0"], "members is (0,); it is numbers of 1 or more"),
        (["agent", "--game", "frostbite"], "frostbite is not compiled"),
        (["atari", "--game", "minatar:breakout"], "minatar:breakout has no emulator"),
    ],
)
def test_what_cannot_be_measured_is_refused(options, fault, capsys):
    assert run("bench", *options) == 2
    assert fault in capsys.readouterr().err


@pytest.mark.parametrize("broken", ["{", "[]", ""])
@pytest.mark.parametrize("command", ["evaluate", "watch", "figures"])
def test_a_run_file_that_cannot_be_read_is_told(command, broken, tmp_path, capsys):
    (tmp_path / "run.json").write_text(broken)
    out = ["--out", str(tmp_path / "film.gif")] if command == "watch" else []
    assert run(command, str(tmp_path), *out) == 66
    assert "run.json cannot be read" in capsys.readouterr().err


def test_control_c_while_it_starts(tmp_path):
    """An exception would get lost in JAX's callbacks, and the run would go on."""
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "sidequest", "train", "XU-step-level-0.1"),
            *("--game", "probe:constant", "--frames", "100M", "--out", str(tmp_path)),
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    time.sleep(0.8)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    # A slow machine has not come to listen yet, and a quick one is compiling already.
    assert process.returncode in (130, -signal.SIGINT, 75)
    assert process.returncode != 130 or said.strip() == "interrupted"

"""The command as a whole: help, wrong words, exit codes."""

import inspect
import json
import re
import subprocess
import sys
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
    command = f"{sys.executable} -m sidequest.cli explain --all | head -1"
    result = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True
    )
    assert "Traceback" not in result.stderr

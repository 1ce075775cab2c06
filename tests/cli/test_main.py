"""The command as a process: pipes and signals."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.cli import run


def test_games_as_json(capsys):
    assert run("games", "--json") == 0
    games = {game["name"]: game for game in json.loads(capsys.readouterr().out)}
    assert games["frostbite"]["human_score"] == 4334.7
    assert games["minigrid:door_key_8x8"]["random_score"] == 0.0143


def test_bash_completes_commands_and_options(tmp_path, capsys):
    assert run("--completion", "bash") == 0
    script = tmp_path / "completion.sh"
    script.write_text(capsys.readouterr().out)
    typed = f"""source {script}
COMP_WORDS=(sidequest study --wo); COMP_CWORD=2
COMP_LINE="sidequest study --wo"; COMP_POINT=20
_tyro_sidequest; echo "${{COMPREPLY[@]}}" """
    shown = subprocess.run(["bash", "-c", typed], capture_output=True, text=True)
    assert shown.stdout.strip() == "--workers"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_letters_that_a_terminal_lacks_are_no_fault(encoding):
    command = [sys.executable, "-m", "sidequest", "explain", "XD-step-level-0.1", "--json"]
    environment = os.environ | {"PYTHONIOENCODING": encoding}
    shown = subprocess.run(command, env=environment, capture_output=True)
    assert shown.returncode == 0
    assert json.loads(shown.stdout)["name"] == "Xγ-step-level-0.1"


@pytest.mark.parametrize("typed", ["explain --all", "--completion bash", "train --help"])
def test_a_reader_that_leaves_early_is_no_fault(typed):
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "sidequest", *typed.split()]
    ended = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_a_reader_of_paths_may_leave_early_too(monkeypatch):
    """It was taken for a folder that cannot be written."""

    def leave(*_):
        raise BrokenPipeError

    monkeypatch.setattr("sidequest.cli.figures.draw_illustrations", leave)
    assert run("figures", "illustrations") == 0


def test_control_c_while_it_starts(tmp_path):
    """An exception would get lost in JAX's callbacks, and the run would continue."""
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

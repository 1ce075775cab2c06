"""`sidequest evaluate` and `watch`: scores in words, and films whose modes are known."""

import json
import sys

import pytest

from sidequest.cli.play import describe_scores
from sidequest.errors import CorruptFile
from tests.cli import run
from tests.figures.decoding import decode, modes_shown
from tests.runs.left import TINY_FRAMES, leave_run
from tests.runs.tiny import TINY

VARIANT = "XU-intra(2,blind,3,G)"
GAME = "bsuite:deep_sea_20"  # 20 steps, whatever happens
SCORES = {
    "variant": "XU-step-level-0.01",
    "game": "pong",
    "seed": 4,
    "episodes": 3,
    "mean": 14.6,
    "median": 15.0,
    "min": 12.0,
    "max": 16.8,
    "length": 1234.5,
    "human_normalised": 1.0,
}


def test_scores_in_words():
    assert describe_scores(SCORES).splitlines() == [
        "XU-step-level-0.01 on pong, seed 4",
        "return  14.6 (mean of 3 greedy episodes)",
        "        12 to 16.8, median 15",
        "length  1234 (mean)",
        "human   100.0% (0% is a random policy, 100% a human)",
    ]
    assert "human" not in describe_scores({**SCORES, "human_normalised": None})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return leave_run(tmp_path_factory.mktemp("run"), VARIANT, GAME, TINY)


def test_scores_as_json(folder, capsys):
    assert not run("evaluate", folder, "--episodes", 5, "--json")
    scores = json.loads(capsys.readouterr().out)
    assert scores["episodes"] == 5 and len(scores["returns"]) == 5


def test_a_film_of_a_whole_episode(folder, tmp_path, capsys):
    pytest.importorskip("av")
    path = tmp_path / "films" / "one.mp4"
    assert not run("watch", folder, "--out", path, "--fps", 5)
    told = capsys.readouterr()
    assert told.out == f"{path}\n"
    assert "20 steps" in told.err and "game over" in told.err
    frames = decode(path)
    assert frames.shape == (20, 420, 420 + 480, 3)
    assert modes_shown(frames) == "GGGXX" * 4


def test_a_greedy_film_that_is_cut(folder, tmp_path, capsys):
    path = tmp_path / "two.gif"
    path.write_bytes(b"an older film")
    assert not run("watch", folder, "--out", path, "--greedy", "--max-steps", 7)
    said = capsys.readouterr().err
    assert f"{path} is there already and will be replaced" in said
    assert "cut at 7 steps" in said
    assert modes_shown(decode(path)) == "G" * 7


def test_without_pyav_a_film_is_a_gif(folder, tmp_path, capsys, monkeypatch):
    """The command that `train` says to type next was refused where `video` is missing."""
    monkeypatch.setitem(sys.modules, "av", None)
    monkeypatch.chdir(tmp_path)
    assert not run("watch", folder, "--max-steps", 2)
    assert capsys.readouterr().out == "episode.gif\n"
    assert modes_shown(decode(tmp_path / "episode.gif")) == "GG"


def test_a_film_of_an_atari_game(tmp_path):
    pytest.importorskip("av")
    folder = leave_run(tmp_path / "run", VARIANT, "ms_pacman", TINY_FRAMES)
    path = tmp_path / "atari.mp4"
    assert not run("watch", folder, "--out", path, "--max-steps", 12)
    frames = decode(path)
    assert frames.shape == (12, 420, 560 + 480, 3)
    assert modes_shown(frames) == "GGGXXGGGXXGG"


def test_nothing_is_left_behind_if_the_agent_cannot_play(folder, tmp_path, monkeypatch):
    def refuse(run):
        raise CorruptFile("its parameters are gone")

    monkeypatch.setattr("sidequest.runs.evaluation.load_player", refuse)
    assert run("watch", folder, "--out", tmp_path / "new" / "deep" / "a.gif") == 66
    assert not (tmp_path / "new").exists()

"""`sidequest watch` as a user calls it: a film of a game whose modes are known."""

import errno
import sys

import pytest

from sidequest.cli import main
from sidequest.errors import NoCheckpoint
from tests.figures.decoding import decode, modes_shown
from tests.runs.left import TINY_FRAMES, leave_run
from tests.runs.tiny import TINY

VARIANT = "XU-intra(2,blind,3,G)"
GAME = "bsuite:deep_sea_20"  # 20 steps, whatever happens


def run(*arguments):
    with pytest.raises(SystemExit) as stopped:
        main(["watch", *map(str, arguments)])
    return stopped.value.code


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return leave_run(tmp_path_factory.mktemp("run"), VARIANT, GAME, TINY)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_a_film_of_a_whole_episode(folder, tmp_path, capsys):
    pytest.importorskip("av")
    path = tmp_path / "films" / "one.mp4"
    assert not run(folder, "--out", path, "--fps", 5)
    told = capsys.readouterr()
    assert told.out == f"{path}\n"
    assert "20 steps" in told.err and "game over" in told.err
    frames = decode(path)
    assert frames.shape == (20, 420, 420 + 480, 3)
    assert modes_shown(frames) == "GGGXX" * 4


def test_a_greedy_film_that_is_cut(folder, tmp_path, capsys):
    path = tmp_path / "two.gif"
    assert not run(folder, "--out", path, "--greedy", "--max-steps", 7)
    assert "cut at 7 steps" in capsys.readouterr().err
    assert modes_shown(decode(path)) == "G" * 7


def test_a_film_of_an_atari_game(tmp_path):
    pytest.importorskip("av")
    folder = leave_run(tmp_path / "run", VARIANT, "ms_pacman", TINY_FRAMES)
    path = tmp_path / "atari.mp4"
    assert not run(folder, "--out", path, "--max-steps", 12)
    frames = decode(path)
    assert frames.shape == (12, 420, 560 + 480, 3)
    assert modes_shown(frames) == "GGGXXGGGXXGG"


def test_without_pyav_there_is_a_hint(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)
    assert run(folder, "--out", tmp_path / "film.mp4") == 2
    told = capsys.readouterr().err
    assert "sidequest[video]" in told and ".gif" in told and told.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        (["--out", "film.avi"], ".mp4 or .gif"),
        (["--out", "a.gif", "--max-steps", "0"], "max_steps 0"),
        (["--out", "a.gif", "--fps", "1000"], "1 to 100"),
        (["--out", "a.gif", "--fps", "51"], "a .gif shows 50 steps a second at most"),
        (["--out", "a.gif", "--seed", "-1"], "seed is -1"),
    ],
)
def test_wrong_options_are_refused(folder, options, hint, capsys):
    assert run(folder, *options) == 2
    assert hint in capsys.readouterr().err


def test_a_folder_without_a_run_is_refused(tmp_path, capsys):
    assert run(tmp_path, "--out", tmp_path / "a.gif") == 2
    assert "holds no run" in capsys.readouterr().err


@pytest.mark.parametrize("place", ["file/a.gif", "/proc/nowhere/a.gif", "folder.gif"])
def test_a_place_that_cannot_be_written_to_is_told_before_playing(
    place, folder, tmp_path, capsys, monkeypatch
):
    (tmp_path / "file").write_text("no folder")
    (tmp_path / "folder.gif").mkdir()
    monkeypatch.setattr("sidequest.runs.player.load_player", None)  # nobody plays
    assert run(folder, "--out", tmp_path / place) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"cannot write to {tmp_path / place}: ")
    assert told.count("\n") == 1


def test_a_folder_that_is_read_only_is_told(folder, tmp_path, capsys, monkeypatch):
    """For root, who writes these tests, no folder is."""

    def refuse(dir):
        raise PermissionError(errno.EACCES, "Permission denied", str(dir))

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    assert run(folder, "--out", tmp_path / "new" / "a.gif") == 2
    assert "a.gif: Permission denied" in capsys.readouterr().err


def test_nothing_is_left_behind_if_the_agent_cannot_play(folder, tmp_path, monkeypatch):
    def refuse(run):
        raise NoCheckpoint("its parameters are gone")

    monkeypatch.setattr("sidequest.runs.player.load_player", refuse)
    assert run(folder, "--out", tmp_path / "new" / "deep" / "a.gif") == 66
    assert not (tmp_path / "new").exists()

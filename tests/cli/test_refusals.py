"""What the command refuses: exit code 2, one clear message, and nothing is made."""

import dataclasses
import errno
import sys

import pytest

from sidequest.cli.options import refuse
from sidequest.config import PRESETS
from sidequest.errors import InvalidRequest
from sidequest.records import Recorder
from tests.cli import run

CONSTANT = ["train", "XU-step-level-0.1", "--game", "probe:constant"]
PONG = ["train", "XU-step-level-0.1", "--game", "pong"]

REFUSED = [
    # Names that do not exist: the nearest are given.
    (["explian"], "no command 'explian'; did you mean explain?"),
    (["games", "minata"], "no suite 'minata'; did you mean minatar?"),
    (["games", "xyz"], "no suite 'xyz'; there are minatar, "),
    (["settings", "learnin.discount"], "did you mean learning.discount?"),
    (["settings", "learnin"], "did you mean learning?"),
    (["settings", "learning_rate"], "did you mean learning.learning_rate?"),
    (["settings", "acting.streams"], "it is now called acting.environments"),
    ([*CONSTANT, "--preset", "smal"], "no preset 'smal'; did you mean small?"),
    (["train", "XU-step-level-0.1", "--game", "minatar:brekout"], "minatar:breakout"),
    (["train", "XU-step-level-0.1", "--gane", "probe:constant"], "--game"),
    (["study", "qick"], "did you mean quick?"),
    (["study", "mine"], "`sidequest study --list` lists them (one of your own: "),
    (["figures", ".", "--only", "agregate"], "did you mean aggregate?"),
    (["study", "--games", "minatar:brekout"], "minatar:breakout"),
    (["study", "--variants", "XU-sometimes"], "no variant has this name"),
    (["figures", "illustrations", "--only", "scores"], "--only does not apply"),
    # Values that are not allowed.
    (["train", "XU-step-level-2", "--game", "probe:constant"], "step-level"),
    (["train", "XU-intra(10,blind,-5,G)", "--game", "probe:constant"], "Allowed"),
    (["train", "--game", "probe:constant"], "name a variant"),
    (["train", "XU-step-level-0.1"], "name a game"),
    (["train", *["XU-step-level-0.1"] * 2, *CONSTANT[2:]], "a variant is named twice"),
    ([*CONSTANT, "--seeds", "0"], "seeds is 0"),
    ([*CONSTANT, "--frames=-5"], "--frames is '-5'"),
    ([*CONSTANT, "--frames", "many"], "--frames is 'many'"),
    ([*CONSTANT, "--frames", "0"], "--frames is '0'"),
    ([*CONSTANT, "--checkpoint-every", "often"], "--checkpoint-every is 'often'"),
    ([*CONSTANT, "--set", "learning.discount=2.0"], "between 0 and 1"),
    (["study", "--seeds", "0"], "--seeds is 0"),
    (["study", "--frames", "many"], "--frames"),
    (["study", "--workers", "0"], "--workers"),
    (["study", "--workers", "2", "--cluster", "auto"], "--cluster"),
    (["study", "--cluster", "nowhere"], "--cluster is 'nowhere'"),
    (["study", "--cluster", "127.0.0.1:1"], "nobody answers at 127.0.0.1:1"),
    (["study", "paper", "--games", "probe:constant"], "for Atari"),
    (["explain"], "--all"),
    (["explain", "XU-step-level-0.1", "--all"], "--all"),
    (["explain", "XU-step-level-0.1", "--steps", "0"], "1 to 100000"),
    (["explain", "XU-step-level-0.1", "--episode", "10001"], "1 to 10000"),
    (["explain", "XU-step-level-0.1", "--seed=-1"], "0 to 2147483647"),
    (["explain", "XU-step-level-0.1", "--plot", "strip.pdf"], ".png or .svg"),
    (["explain", "--all", "--plot", "strip.png"], "one variant"),
    (["bench", "agnt"], "no benchmark 'agnt'; did you mean agent?"),
    (["bench", "agent", "--shape", "smal"], "no shape 'smal'; did you mean small?"),
    (["--completion", "bsh"], "no shell 'bsh'; did you mean bash?"),
    (["bench", "agent", "--population", "0"], "--population is 0; it is 1 to"),
    (["bench", "agent", "--game", "frostbite"], "frostbite is not JAX-native"),
    (["bench", "atari", "--game", "minatar:breakout"], "minatar:breakout is no Atari game"),
    (["bench", "atari", "--emulators", "0"], "--emulators is 0; it is 1 to"),
    (["bench", "switching", "--game", "pong"], "`bench switching` plays no game"),
    (["bench", "agent", "--emulators", "4"], "only `bench atari` has emulators"),
    (
        ["bench", "atari", "--shape", "small", "--population", "2"],
        "--shape and --population do not apply: only `bench agent` has",
    ),
    (["watch", "RUN", "--out", "film.avi"], ".mp4 or .gif"),
    (["watch", "RUN", "--out", "a.gif", "--max-steps", "0"], "--max-steps is 0"),
    (["watch", "RUN", "--out", "a.gif", "--fps", "1000"], "1 to 100"),
    (["watch", "RUN", "--out", "a.gif", "--fps", "51"], "a .gif shows 50 steps a second"),
    (["watch", "RUN", "--out", "a.gif", "--seed", "-1"], "seed is -1"),
    (["evaluate", "RUN", "--episodes", "0"], "episodes is 0; it is 1 to 100000"),
    (["evaluate", "RUN", "--seed", "-1"], "seed is -1"),
    # Folders that hold no run, or one too often.
    (["watch", "nowhere", "--out", "a.gif"], "nowhere holds no run"),
    (["evaluate", "nowhere"], "nowhere holds no run"),
    (["train", "--resume", "nowhere"], "nowhere holds no run"),
    (["train", "--from", "nowhere"], "nowhere holds no run"),
    (["train", "--resume", "here", "here"], "a folder is named twice"),
    # Options without a value, as of a shell variable that is not set.
    (["train", "--resume"], "--resume has no value; give one or more"),
    (["study", "paper", "--games", "--seeds", "1"], "--games has no value"),
    (["study", "paper", "--variants"], "--variants has no value"),
    (["figures", "RUN", "--only"], "--only has no value"),
    (["bench", "agent", "--population"], "--population has no value"),
    # Options that would be ignored.
    (
        [*CONSTANT, "--emulators", "4"],
        "--emulators does not apply: probe:constant has no emulators",
    ),
    (
        [*CONSTANT, "--replay-memory", "1GB"],
        "--replay-memory does not apply: probe:constant has no emulators",
    ),
    (
        [*CONSTANT, "--checkpoint-replay", "no"],
        "--checkpoint-replay does not apply: checkpoints of probe:constant always hold "
        "replay",
    ),
    (
        [*PONG, "--emulators", "4", "--set", "acting.environments=8"],
        "--emulators is the setting acting.environments; give one",
    ),
    (["study", "--list", "--seeds", "3"], "--seeds does not apply: --list only lists"),
    (
        ["study", "--dry-run", "--cluster", "auto"],
        "--cluster does not apply: --dry-run measures on this machine",
    ),
    (
        ["train", "--resume", "nowhere", "--seed", "0"],
        "--seed does not apply: --resume knows the run from its folder",
    ),
    (
        ["train", "--resume", "nowhere", "--from", "nowhere"],
        "--from does not apply: --resume knows the run from its folder",
    ),
    (
        ["train", "XU-step-level-0.1", "--from", "nowhere", "--frames", "5"],
        "XU-step-level-0.1 and --frames do not apply: --from knows the run from its folder",
    ),
    (
        ["train", "--resume", "RUN", "--out", "x"],
        "--out does not apply: --resume knows the run from its folder",
    ),
    (
        ["train", "--resume", "RUN", "--checkpoint-replay", "yes"],
        "--checkpoint-replay does not apply",
    ),
]


@pytest.fixture
def a_run(tmp_path):
    """A folder with a run that has begun."""
    config = dataclasses.asdict(PRESETS["small"])
    said = {"variant": "XU-step-level-0.1", "game": "probe:constant", "seed": 0}
    Recorder(tmp_path / "RUN", {**said, "config": config, "frames": 10}).close()
    return tmp_path / "RUN"


@pytest.mark.parametrize("arguments, message", REFUSED)
def test_refused(arguments, message, a_run, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    assert run(*arguments) == 2
    said = capsys.readouterr()
    assert message in said.err and "Traceback" not in said.err and not said.out
    assert sorted(tmp_path.rglob("*")) == before


def test_all_faults_are_reported_at_once(capsys, tmp_path):
    code = run(
        *("train", "XU-foo", "--game", "nope", "--seeds", "-1", "--frames", "abc"),
        *("--set", "replay.rati=1.0", "--set", "learning.n_step=soon"),
        *("--set", "replay.ratio=-1.0", "--replay-memory", "1", "--out", tmp_path),
    )
    said = capsys.readouterr().err
    assert code == 2 and not list(tmp_path.iterdir())
    for fault in (
        "XU-foo",
        "no game called 'nope'",
        "seeds is -1",
        "no setting 'replay.rati'; did you mean replay.ratio?",
        "learning.n_step is 'soon'; it is a whole number below 2^31",
        "replay.ratio is -1.0",
        "--frames is 'abc'",
        "--replay-memory is '1'",
    ):
        assert fault in said


def test_what_counts_as_given():
    refuse("never", a=None, b=False, c=())
    with pytest.raises(InvalidRequest, match="^--the-seed does not apply: because$"):
        refuse("because", the_seed=0)
    with pytest.raises(InvalidRequest, match="^word and --a and --b do not apply: because"):
        refuse("because", "word", a=True, b=("x",))


@pytest.mark.parametrize("broken", ["{", "[]", ""])
@pytest.mark.parametrize("command", ["evaluate", "watch", "figures"])
def test_a_run_file_that_cannot_be_read(command, broken, tmp_path, capsys):
    (tmp_path / "run.json").write_text(broken)
    out = ["--out", tmp_path / "film.gif"] if command == "watch" else []
    assert run(command, tmp_path, *out) == 66
    assert "run.json cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize("place", ["file/a.gif", "/proc/nowhere/a.gif", "folder.gif"])
def test_a_film_that_cannot_be_written_is_refused_before_playing(
    place, a_run, tmp_path, capsys
):
    (tmp_path / "file").write_text("no folder")
    (tmp_path / "folder.gif").mkdir()
    assert run("watch", a_run, "--out", tmp_path / place) == 73
    said = capsys.readouterr().err
    assert said.startswith(f"cannot write to {tmp_path / place}: ")
    assert said.count("\n") == 1


def test_a_read_only_folder_is_refused(a_run, tmp_path, capsys, monkeypatch):
    """Root, who may run these tests, can write to every folder."""

    def fail(dir):
        raise PermissionError(errno.EACCES, "Permission denied", str(dir))

    monkeypatch.setattr("tempfile.TemporaryFile", fail)
    assert run("watch", a_run, "--out", tmp_path / "new" / "a.gif") == 73
    assert "a.gif: Permission denied" in capsys.readouterr().err


def test_without_pyav_there_is_a_hint(a_run, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)
    assert run("watch", a_run, "--out", tmp_path / "film.mp4") == 2
    said = capsys.readouterr().err
    assert ".[train,video]" in said and ".gif" in said and said.count("\n") == 1

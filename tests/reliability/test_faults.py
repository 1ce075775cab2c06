"""What once broke under attack, each with the command that broke it. Nothing is silent: one
line says what is wrong, the exit code is a documented one, and what is good stays."""

import contextlib
import importlib.machinery
import io
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import types
from importlib.machinery import ModuleSpec
from unittest.mock import Mock

import pytest

import sidequest.cli
from sidequest.cli import main
from sidequest.cli.train import _train_all, set_aside
from sidequest.environments import registry
from sidequest.errors import ConfigError, Interrupted
from sidequest.records import RUN_FILE, Recorder, read_run, write_json
from sidequest.runs import trainer
from sidequest.runs.process import LOCK, StopSignal, lock_folders
from sidequest.runs.spec import is_finished
from sidequest.study import cluster
from sidequest.study.scheduler import write_plan
from tests.reliability import child
from tests.reliability.harness import (
    CHUNK,
    CHUNKS,
    CONFIG,
    GAME,
    OPTIONS,
    Watcher,
    compiling_once,
    results,
    run,
    specs,
)
from tests.runs.tiny import bargains
from tests.study.fakes import study

COMMAND = [sys.executable, "-m", "tests.reliability.child", "train", *OPTIONS]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A finished run and one that was interrupted after its second checkpoint."""
    finished, interrupted = specs(tmp_path_factory.mktemp("runs"), 0, 1)
    run([finished], chunks=2)
    with pytest.raises(Interrupted):
        run([interrupted], Watcher(stop_after=3))
    return finished.folder, interrupted.folder


@pytest.fixture
def finished(runs, tmp_path):
    return shutil.copytree(runs[0], tmp_path / "out" / "finished")


@pytest.fixture
def interrupted(runs, tmp_path):
    return shutil.copytree(runs[1], tmp_path / "out" / "interrupted")


@pytest.fixture
def call(capsys):
    """Calls the command in this process; returns its exit code and what it said."""

    def call(*arguments):
        registry._registered[GAME] = bargains
        try:
            main(list(map(str, arguments)))
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
        out, said = capsys.readouterr()
        assert "Traceback" not in said
        return int(code), said, out

    return call


def change_byte(path, position, by=1):
    data = bytearray(path.read_bytes())
    data[position] ^= by
    path.write_bytes(data)


def test_rows_1_and_2_a_flipped_bit_in_a_table(finished, interrupted, call):
    """polars tried to allocate 2e18 bytes and aborted, or gave another result."""
    for name in ("learning", "episodes"):
        path = finished / f"{name}.parquet"
        change_byte(path, path.stat().st_size // 2)
    for command in ("evaluate", "watch"):
        code, said, _ = call(command, finished)
        assert code == 66 and said.count("\n") == 1
        assert said.startswith(f"{finished / 'learning.parquet'} cannot be read: ")
    code, said, out = call("figures", finished.parent, "--only", "scores")
    assert code == 0 and f"left out: {finished}/" in said and ".parquet cannot" in said
    assert "left out" not in said.replace(f"left out: {finished}", "")


def test_parameters_that_were_changed_are_not_played(finished, call):
    change_byte(finished / "parameters.npz", 200)
    code, said, _ = call("evaluate", finished)
    assert code == 66 and said.count("\n") == 1
    assert said.startswith(f"{finished / 'parameters.npz'} cannot be read: ")


@pytest.mark.parametrize("table", ["episodes", "learning", "bandits"])
def test_rows_3_and_4_a_changed_byte_in_a_growing_table(interrupted, call, table):
    """It trained to the end and ended with a traceback, or with wrong rows."""
    change_byte(interrupted / f"{table}.jsonl", 90)
    code, said, _ = call("train", "--resume", interrupted)
    assert code == 66
    assert f"{table}.jsonl does not have the digest" in said
    assert f"{interrupted} cannot resume: none of its checkpoints can be used" in said
    code, said, _ = call("figures", interrupted.parent)
    assert code == 66 and f"{table}.jsonl cannot be read" in said


def test_row_4_damage_after_an_older_checkpoint_costs_only_the_newer(interrupted, call):
    change_byte(interrupted / "learning.jsonl", -9)
    registry._registered[GAME] = bargains
    (spec,) = specs(interrupted.parent, 1)
    watcher = run([spec._replace(folder=interrupted)], chunks=6)
    assert f"checkpoints/{3 * CHUNK:012} cannot be used: learning.jsonl" in watcher.said[0]
    assert read_run(interrupted)["resumed"][0]["frames"] == 2 * CHUNK


class Full(io.StringIO):
    """A log on a disk without space."""

    def flush(self):
        raise OSError(28, "No space left on device")

    def write(self, text):
        raise OSError(28, "No space left on device")


def test_row_5_a_log_that_cannot_be_written_is_dropped():
    log = sidequest.cli._Unwatched(Full())
    print("a line", file=log, flush=True)
    assert log.closed is False


@pytest.mark.slow
def test_row_5_a_full_disk_under_the_log(uninterrupted_process, tmp_path):
    """`sidequest train … 2>/dev/full`: it died, though its own disk was healthy."""
    with open("/dev/full", "w") as full:
        process = child.launch([*COMMAND, "--out", str(tmp_path)], stderr=full)
        process.communicate()
    assert process.returncode == 0
    found = [results(path.parent) for path in sorted(tmp_path.rglob(RUN_FILE))]
    assert found == uninterrupted_process


CLAIM = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # the terminal that controls this process
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.slow
@pytest.mark.parametrize("ignored", [True, False])
def test_rows_6_and_7_the_terminal_goes(uninterrupted_process, tmp_path, ignored):
    """With `nohup` the run continues and exits with 0; else it saves and exits with 75."""
    mine, theirs = pty.openpty()
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)
    try:
        moving = [option for option in COMMAND if option != "--quiet"]
        process = subprocess.Popen(
            [sys.executable, "-c", CLAIM, *moving, "--out", str(tmp_path)],
            **{"cwd": child.ROOT, "start_new_session": True},
            **{"stdin": theirs, "stdout": theirs, "stderr": theirs},
        )
    finally:
        signal.signal(signal.SIGHUP, before)
    os.close(theirs)
    said = b""
    while b"frames/s" not in said and process.poll() is None:
        said += os.read(mine, 1_000)
    os.close(mine)  # a terminal that is gone: SIGHUP, and errors for all who write to it
    assert process.wait(300) == (0 if ignored else 75)
    (path,) = tmp_path.rglob(RUN_FILE)
    if not ignored:
        assert not read_run(path.parent)["finished"]
        process = child.start("train", "--resume", str(path.parent), "--quiet")
        _, text = process.communicate()
        assert process.returncode == 0, text
    assert [results(path.parent)] == uninterrupted_process


def test_a_signal_at_the_last_block_is_told_after_the_runs_have_finished(
    tmp_path, monkeypatch, capsys
):
    runs = [one._replace(config=CONFIG) for one in specs(tmp_path, 0)]
    with compiling_once(CONFIG):
        with pytest.raises(Interrupted, match="had ended$"):
            trainer.run(runs, Watcher(stop_after=CHUNKS))
        assert is_finished(runs[0])
        # The command has nothing left to train then, and prints its table.
        late = Mock(side_effect=Interrupted("late"))
        monkeypatch.setattr(trainer, "run", late)
        _train_all(runs, quiet=True, tensorboard=False)
        assert capsys.readouterr().out == f"{runs[0].folder}\n"
        with pytest.raises(Interrupted):
            _train_all([*runs, *specs(tmp_path, 1)], quiet=True, tensorboard=False)
        # Runs of another kind, which would have followed, are named too.
        other = specs(tmp_path, 1)[0]._replace(frames=CHUNK)
        with pytest.raises(Interrupted, match=f"late; the others: .*{other.folder}$"):
            _train_all([*runs, other], quiet=True, tensorboard=False)


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_row_7_a_lost_connection_is_a_reason_to_save(number):
    heard = []
    before = signal.signal(number, signal.SIG_DFL)  # nohup has one ignored
    try:
        with StopSignal(heard.append) as stop:
            os.kill(os.getpid(), number)
            while not heard:
                pass
    finally:
        signal.signal(number, before)
    assert stop.requested == number.name


def test_row_7_what_is_ignored_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopSignal() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        assert stop.requested is None
    finally:
        signal.signal(signal.SIGHUP, before)


def fake_ray(*nodes):
    ray = types.ModuleType("ray")
    ray.__spec__ = importlib.machinery.ModuleSpec("ray", None)
    ray.__spec__ = ModuleSpec("ray", None)
    context = types.SimpleNamespace(gcs_address="head:6379")
    vars(ray).update(
        init=lambda **_: None,
        nodes=lambda: [{"Alive": True, "Resources": node} for node in nodes],
        get_runtime_context=lambda: context,
    )
    return ray


def test_row_8_a_cluster_without_cores(tmp_path, monkeypatch):
    """It was a traceback: min() arg is an empty sequence."""
    monkeypatch.setitem(sys.modules, "ray", fake_ray({}, {"memory": 1e9}))
    monkeypatch.setattr(cluster, "_match_authentication", lambda address: None)
    with pytest.raises(ConfigError, match=r"no cores yet; add .* --address=head:6379"):
        cluster.connect("auto", tmp_path)


# Row 10, the order in which a run finishes, is in tests/test_records.py.

NAMED = {"variant": "XU-step-level-0.1", "game": GAME, "seed": 0, "frames": 10}
RUN_FILES = [
    *({}, [], 3, None, {"variant": 3}, NAMED | {"config": []}),
    *(NAMED | {"config": {"replay": {"ratio": "x"}}}, NAMED | {"config": {"x": {"y": 1}}}),
    *(NAMED | {"config": {"replay": {"x": 1}}}, NAMED | {"config": {"replay": []}}),
    *(NAMED | {"config": {}, "game": [1]}, NAMED | {"config": {}, "game": "no:game"}),
    *(NAMED | {"config": {}, "variant": "XU"}, NAMED | {"config": {}, "seed": 10**40}),
    *(NAMED | {"config": {}, "resumed": 1}, NAMED | {"config": {}, "finished": []}),
    *(NAMED | {"checkpoints": 1}, NAMED | {"checkpoints": {"x": 1}}),
    NAMED | {"memory": ""},
]


@pytest.mark.parametrize("content", RUN_FILES, ids=str)
def test_row_11_whatever_is_in_run_json(tmp_path, call, content):
    (tmp_path / RUN_FILE).write_text(json.dumps(content))
    for command in (["evaluate"], ["watch"], ["train", "--resume"], ["train", "--from"]):
        code, said, _ = call(*command, tmp_path)
        # A variant's name is shown with a pointer to the fault.
        assert code in (2, 66) and len(said.splitlines()) <= 6, said
    code, said, _ = call("figures", tmp_path, "--only", "scores")
    assert code in (0, 2, 66) and len(said.splitlines()) <= 2, said


PLANNED = {"id": "a", "variant": "v", "game": "g", "seed": 0, "folder": "a", "frames": 1}
PLANS = [
    *([], 1, None, "", {"runs": {}}, {"runs": [1]}, {"runs": [{}]}, {"runs": None}),
    *({"name": 1, "runs": []}, {"title": [], "runs": []}, {"settings": 1, "runs": []}),
    *({"runs": [PLANNED | {key: value}]} for key in PLANNED for value in (None, [], {})),
    *({"runs": [PLANNED | {"folder": folder}]} for folder in ("/", "../x", "a/../../b")),
]


@pytest.mark.parametrize("content", PLANS, ids=str)
def test_row_11_whatever_is_in_study_json(tmp_path, call, content):
    (tmp_path / "study.json").write_text(json.dumps(content))
    for command in (["figures", tmp_path], ["study", "quick/tiny", "--out", tmp_path]):
        code, said, _ = call(*command)
        assert code == 66 and said.count("\n") == 1, said
        assert said.startswith(f"{tmp_path / 'study.json'} cannot be read: ")


@pytest.mark.parametrize(
    "arguments",
    [
        ["watch", "RUN", "--seed", "9223372036854775808"],
        ["evaluate", "RUN", "--seed", "9223372036854775808"],
        ["study", "quick/tiny", "--cluster", "é..:1"],
        *(
            ["train", "XU-step-level-0.1", "--game", "probe:constant", "--set", setting]
            for setting in (
                "replay.capacity=" + "-" * 100_000 + "1",
                "replay.capacity=" + "[" * 100_000,
                "replay.capacity=" + "9" * 5_000,
                "learning.batch_size=1000000000",
                "evaluation.episodes=1000000000",
                "network.scan_unroll=100000000",
                "replay.ratio=1e300",
            )
        ),
    ],
    ids=lambda arguments: " ".join(arguments)[:60],
)
def test_row_12_numbers_and_names_beyond_all_bounds(tmp_path, call, arguments, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, said, _ = call(*arguments)
    assert code == 2 and len(said) < 500 and said.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("arguments", [["games"], ["explain", "XU-step-level-0.1"]])
def test_row_13_a_full_disk_under_the_output(arguments):
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "sidequest", *arguments]
        streams = {"stdout": full, "stderr": subprocess.PIPE, "text": True}
        done = subprocess.run(command, cwd=child.ROOT, **streams)
    assert done.returncode == 73
    assert done.stderr == "standard output: No space left on device\n"


@pytest.mark.parametrize("where", [["--workers", "99999"], ["--cluster", "auto"]])
def test_row_14_what_is_refused_leaves_no_folder(tmp_path, call, monkeypatch, where):
    monkeypatch.setitem(sys.modules, "ray", None)
    code, said, _ = call(
        "study", "quick/tiny", *where, "--out", tmp_path / "new", "--quiet"
    )
    assert code == 2 and said.count("\n") == 1
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("frames", ["1kk", "1mb", "k", "1e", "1.5", "0x10", "1e999", "٣"])
def test_row_15_counts_that_are_none(tmp_path, call, frames):
    options = ["XU-step-level-0.1", "--game", "probe:constant", "--out", tmp_path]
    code, said, _ = call("train", *options, "--frames", frames)
    assert code == 2 and said.startswith(f"--frames is {frames!r}; write a number such as")


@pytest.mark.parametrize(
    "words, said",
    [
        (["XU-step-level-0.1", "--frames", ""], "--frames is empty"),
        (["XU-step-level-0.1", "--out=", "--frames", "1k"], "--out is empty"),
        (["--resume="], "--resume is empty"),
        (["", "--frames", "1k"], "a word is empty"),
        (["XU-step-level-0.1", "", "--out", ""], "a word is empty"),
    ],
)
def test_row_15_empty_words_are_refused(call, words, said):
    code, message, _ = call("train", *words)
    assert code == 2 and message == f"{said}; is a shell variable not set?\n"


# Row 16, files from a node that lead elsewhere, is in tests/study/test_transfer.py, and
# row 18 in tests/switching/test_switch.py.


def test_row_17_locks_and_checkpoints_are_no_links(tmp_path, interrupted):
    outside = tmp_path / "outside"
    outside.write_text("mine")
    (interrupted / LOCK).symlink_to(outside)
    with pytest.raises(Exception, match="cannot write .*lock") as fault:
        with lock_folders([interrupted]):
            raise AssertionError
    assert fault.value.exit_code == 73 and outside.read_text() == "mine"  # type: ignore
    (interrupted / LOCK).unlink()
    shutil.move(interrupted / "checkpoints", tmp_path / "elsewhere")
    (interrupted / "checkpoints").symlink_to(tmp_path / "elsewhere")
    before = sorted((tmp_path / "elsewhere").rglob("*"))
    (spec,) = specs(interrupted.parent, 1)
    watcher = run([spec._replace(folder=interrupted)], chunks=6)
    assert any("no checkpoint was written: [Errno 40]" in text for text in watcher.said)
    assert sorted((tmp_path / "elsewhere").rglob("*")) == before
    assert read_run(interrupted)["finished"]


def test_row_19_a_run_that_has_finished_keeps_no_lock(tmp_path, monkeypatch):
    """Another run of the same process may be killed afterwards."""
    seen = []
    finish = Recorder.finish

    def note(recorder, *files, **outcome):
        seen.append([path.parent.name for path in sorted(tmp_path.rglob(LOCK))])
        finish(recorder, *files, **outcome)

    monkeypatch.setattr(Recorder, "finish", note)
    run(specs(tmp_path, 0, 1), chunks=1)
    assert seen == [["seed-0", "seed-1"], ["seed-1"]]


def test_fresh_on_a_link_sets_the_link_aside(tmp_path, finished):
    """What it leads to stays where it is."""
    before = {path: path.read_bytes() for path in finished.iterdir()}
    link = tmp_path / "seed-0"
    link.symlink_to(finished)
    assert set_aside(link) == tmp_path / "seed-0.old-1"
    assert (tmp_path / "seed-0.old-1").resolve() == finished and not link.exists()
    assert {path: path.read_bytes() for path in finished.iterdir()} == before


def test_a_run_without_digests_is_said_to_be_unchecked(finished, call):
    former = {key: value for key, value in read_run(finished).items() if key != "digests"}
    (finished / RUN_FILE).write_text(json.dumps(former))
    code, said, out = call("evaluate", finished, "--episodes", "2", "--json")
    assert code == 0 and json.loads(out)["episodes"] == 2
    assert said.startswith(f"{finished} was recorded by a version that took no digests")


def test_a_study_with_a_damaged_run_says_so(tmp_path, call):
    """A run whose run.json is damaged is not trained again in silence."""
    from sidequest.study.studies import jobs_of

    chosen = study(1)
    write_plan(tmp_path, chosen, jobs_of(chosen))
    folder = tmp_path / jobs_of(chosen)[0].spec.folder
    Recorder(folder, NAMED).finish()
    change_byte(folder / RUN_FILE, 20)
    code, said, _ = call("figures", tmp_path)
    assert code == 66 and "run.json cannot be read" in said


def test_tables_of_another_run_are_not_taken_for_ones_own(tmp_path, call):
    for seed, score in ((0, 1.0), (1, 2.0)):
        recorder = Recorder(tmp_path / f"seed-{seed}", NAMED | {"seed": seed})
        rows = [{"frames": 10, "begun": 0, "return": score, "length": 1}]
        recorder.write("evaluations", rows)
        recorder.finish()
    shutil.copy(tmp_path / "seed-1/evaluations.parquet", tmp_path / "seed-0")
    code, said, _ = call("figures", tmp_path, "--only", "scores")
    assert f"left out: {tmp_path / 'seed-0/evaluations.parquet'} cannot be read" in said


def test_what_a_killed_process_was_writing_is_removed_on_resume(interrupted, monkeypatch):
    left = interrupted / f".{2**22}-digests.json"
    left.write_text("{")
    with contextlib.suppress(Interrupted):
        (spec,) = specs(interrupted.parent, 1)
        run([spec._replace(folder=interrupted)], Watcher(stop_after=1))
    assert not left.exists()


def test_a_plan_is_written_with_its_digest(tmp_path, call):
    write_json(tmp_path / "study.json", {"runs": [], "title": "one"})
    text = (tmp_path / "study.json").read_text()
    (tmp_path / "study.json").write_text(text.replace("one", "two"))
    code, said, _ = call("figures", tmp_path)
    assert code == 66 and "study.json cannot be read: it does not have the digest" in said

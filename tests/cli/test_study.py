"""`sidequest study` as a user calls it."""

import json

import pytest

from sidequest.cli import main
from sidequest.cli import study as command
from sidequest.environments import registry
from sidequest.study import conduct
from sidequest.study.grids import Grid, Study
from sidequest.study.studies import STUDIES

EXAMPLE = Study(
    name="example",
    title="Three runs, one of them broken",
    grids=(
        Grid(("XU-step-level-0.01", "XI-step-level-0.01"), ("probe:constant",)),
        Grid(("XU-step-level-0.01",), ("test:broken",)),
    ),
    seeds=1,
    frames=1_000,
    preset="small",
)


def run(*arguments):
    with pytest.raises(SystemExit) as stopped:
        main(list(arguments))
    return stopped.value.code


@pytest.fixture
def example(monkeypatch):
    """A study whose runs only leave a finished run.json; the third has no game."""

    def launch(group, folder, display):
        for job in group.jobs:
            registry.make(job.game)
            display.say(f"made {job.id}")
            place = folder / job.folder
            place.mkdir(parents=True)
            said = {"variant": str(job.variant), "game": job.game, "seed": job.seed}
            said |= {"frames": job.frames, "finished": "today"}
            (place / "run.json").write_text(json.dumps(said))

    def missing(folder, jobs):
        return [job for job in jobs if not (folder / job.folder / "run.json").exists()]

    def broken():
        raise RuntimeError("no such cartridge")

    monkeypatch.setitem(STUDIES, "example", EXAMPLE)
    monkeypatch.setitem(registry._registered, "test:broken", broken)
    monkeypatch.setattr("sidequest.study.crews.launch_group", launch)
    monkeypatch.setattr("sidequest.study.folder.missing", missing)
    monkeypatch.setattr(command, "finish", lambda folder: folder / "report.html")
    monkeypatch.setattr(command, "use_all_cores", lambda: None)
    monkeypatch.setattr(command, "use_compilation_cache", lambda: None)


def test_one_bad_run_of_three(example, tmp_path, capsys):
    """Fault 33 from the outside: the others are there, the failure is told, exit 1."""
    out = tmp_path / "study"
    assert run("study", "example", "--out", str(out), "--quiet") == 1
    said = capsys.readouterr()
    assert said.out.splitlines()[-1] == str(out / "report.html")
    name = "XU-step-level-0.01/test:broken/0"
    assert f"failed: {name}: RuntimeError: no such cartridge" in said.err
    assert json.loads((out / "failures.json").read_text()) == {
        name: "RuntimeError: no such cartridge"
    }
    assert "Traceback" in (out / "failures.txt").read_text()
    plan = json.loads((out / "study.json").read_text())
    assert len(plan["runs"]) == 3 and plan["name"] == "example"
    assert len(list(out.rglob("run.json"))) == 2
    # Again: only the failed one is tried.
    assert run("study", "example", "--out", str(out), "--quiet") == 1
    assert capsys.readouterr().err.count("== ") == 1
    # Without it all is well.
    only = ["--games", "probe:constant"]
    assert not run("study", "example", "--out", str(out), "--quiet", *only)
    assert "failed" not in capsys.readouterr().err


def test_the_list_has_every_study(capsys):
    assert not run("study", "--list")
    shown = capsys.readouterr().out
    for name in STUDIES:
        assert name.endswith("/tiny") or f"\n{name} " in shown
    assert "777" in shown and "NAME/tiny" in shown


@pytest.mark.parametrize(
    "arguments, told",
    [
        (["qick"], "Did you mean quick"),
        (["quick", "--games", "minatar:brekout"], "minatar:breakout"),
        (["quick", "--variants", "XU-sometimes"], "no variant has this name"),
        (["quick", "--seeds", "0"], "--seeds is 0"),
        (["quick", "--frames", "many"], "--frames"),
        (["quick", "--workers", "0"], "--workers"),
        (["quick", "--workers", "2", "--cluster", "auto"], "--cluster"),
        (["quick", "--cluster", "nowhere"], "--cluster is 'nowhere'"),
        (["quick", "--cluster", "127.0.0.1:1"], "nobody answers at 127.0.0.1:1"),
        (["paper", "--games", "probe:constant"], "for Atari"),
    ],
)
def test_wrong_words_are_refused_before_anything_is_made(arguments, told, tmp_path, capsys):
    out = tmp_path / "study"
    assert run("study", *arguments, "--out", str(out)) == 2
    said = capsys.readouterr().err
    assert told in said and "Traceback" not in said
    assert not out.exists()


def test_a_dry_run_counts_and_estimates(monkeypatch, tmp_path, capsys):
    from sidequest.study import estimate
    from sidequest.study.workers import Share

    def watch(group, share):
        assert {job.frames for job in group.jobs} == {30_000}
        return estimate.Measured(group.label, 10.0, 10_000.0, 1e6, 10.0)

    monkeypatch.setattr(estimate, "watch", watch)
    monkeypatch.setattr(estimate, "shares", lambda count: [Share(devices=2)] * count)
    assert not run("study", "quick", "--dry-run", "--out", str(tmp_path / "study"))
    shown = capsys.readouterr().out
    assert "90 runs of 30 variants, 2 games and 2 seeds, 30k frames each" in shown
    assert "  32 runs    960k  classic:cartpole, extrinsic: 32 runs" in shown
    # 6 groups start in 10 s each, then 90 x 30k frames at 10k a second.
    assert "time  about 5 min 30 s" in shown
    # 90 x 1 MB, and 2.7M frames of 10 bytes.
    assert "disk  about 117 MB" in shown
    assert not (tmp_path / "study").exists()


def test_the_real_launch_is_what_runs_use():
    from sidequest.study import crews

    assert crews.launch_group is conduct.launch_group

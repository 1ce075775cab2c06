"""`sidequest study` as a user calls it; tests/study has what it does."""

from functools import partial

import pytest

from sidequest.cli import study as command
from sidequest.study import estimate, scheduler
from sidequest.study.studies import STUDIES
from sidequest.study.workers import Share
from tests.cli import run
from tests.study.fakes import finish_runs, study


@pytest.mark.parametrize(
    "seeds, code, message",
    [
        (1, 0, "100% of 1k frames, 1 of 1 run done"),
        (3, 1, "failed: XU-step-level-0.01/probe:constant/1: RuntimeError: no such"),
    ],
)
def test_the_report_is_written_whatever_fails(
    seeds, code, message, tmp_path, capsys, monkeypatch
):
    launch = partial(scheduler.run, launch=finish_runs)
    monkeypatch.setattr(scheduler, "run", launch)
    monkeypatch.setattr(command, "_write_report", lambda folder: folder / "report.html")
    monkeypatch.setitem(STUDIES, "fake", study(3))
    options = ["--seeds", seeds, "--out", tmp_path, "--quiet"]
    assert run("study", "fake", *options) == code
    said = capsys.readouterr()
    assert said.out == f"{tmp_path / 'report.html'}\n"
    assert message in said.err
    assert ("1 run failed; tracebacks are in" in said.err) == bool(code)


def test_the_list_has_every_study(capsys):
    assert not run("study", "--list")
    shown = capsys.readouterr().out
    for name in STUDIES:
        assert name.endswith("/tiny") or f"\n{name} " in shown
    assert "777" in shown and "NAME/tiny" in shown


def test_a_dry_run_counts_and_estimates(monkeypatch, tmp_path, capsys):
    def measure(group, share):
        assert {job.spec.frames for job in group.jobs} == {30_000}
        return estimate.Cost(10.0, 10_000.0, 1e6, 10.0)

    monkeypatch.setattr(estimate, "measure", measure)
    monkeypatch.setattr(estimate, "split_machine", lambda count: [Share(devices=2)] * count)
    assert not run("study", "quick", "--dry-run", "--out", tmp_path / "study")
    shown = capsys.readouterr().out
    assert "94 runs of 32 variants, 2 games and 2 seeds, 30k frames each" in shown
    # 7 groups start in 10 s each, then 94 x 30k frames at 10k a second.
    assert "time  about 5 min 52 s" in shown
    # 94 x 1 MB, and 2.82M frames of 10 bytes.
    assert "disk  about 122 MB" in shown
    assert not (tmp_path / "study").exists()

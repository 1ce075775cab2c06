"""`sidequest study` as a user calls it; tests/study has what it does."""

import signal
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from sidequest.cli import study as command
from sidequest.runs.process import SIGNALS
from sidequest.study import estimate, scheduler
from sidequest.study.scheduler import Group
from sidequest.study.studies import STUDIES, jobs_of
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


@pytest.fixture
def two_cores(monkeypatch):
    monkeypatch.setattr(estimate, "split_machine", lambda count: [Share(devices=2)] * count)


def test_a_dry_run_counts_and_estimates(monkeypatch, two_cores, tmp_path, capsys):
    def measure(group, share):
        assert [job.spec.frames for job in group.jobs] == [1_000] * 2
        return estimate.Cost(10.0, 1_000.0, "here")

    monkeypatch.setattr(estimate, "measure", measure)
    monkeypatch.setitem(STUDIES, "fake", study(40, games=("probe:constant",)))
    assert not run("study", "fake", "--dry-run", "--out", tmp_path / "study")
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == (
        "40 runs (1 variant, 1 game, 40 seeds) of 1k frames each, 40 missing"
    )
    assert lines[4].split() == ["probe:constant", "40", "40k", "1"]
    # 2 groups start in 10 s each, then 40 x 1k frames at 1k a second.
    assert lines[6] == "time    about 1 min, at 1k frames/s as measured here"
    assert lines[7].startswith("memory  about ") and "20 runs at a time" in lines[7]
    assert not (tmp_path / "study").exists()


def test_workers_without_a_group_make_nothing_quicker(
    monkeypatch, two_cores, tmp_path, capsys
):
    cost = estimate.Cost(10.0, 1_000.0, "here")
    monkeypatch.setattr(estimate, "measure", lambda group, share: cost)
    monkeypatch.setitem(STUDIES, "fake", study(8, games=("probe:constant",)))
    assert not run("study", "fake", "--dry-run", "--workers", 2, "--out", tmp_path)
    *_, time, memory = capsys.readouterr().out.splitlines()
    assert time.startswith("time    about 18 s, at") and "8 runs at a time" in memory


def test_a_measured_run_on_emulators_learns(monkeypatch, tmp_path, capsys):
    """Its warm-up was counted in frames, of which a step has four."""
    gpu = Share(environment=(("CUDA_VISIBLE_DEVICES", "0"),))
    monkeypatch.setattr(estimate, "split_machine", lambda count: [gpu] * count)

    def measure(group, share):
        ((spec, _),) = group.jobs
        assert spec.frames > 4 * spec.config.replay.warm_up
        return "it would take too long"

    monkeypatch.setattr(estimate, "measure", measure)
    assert not run("study", "atari", "--dry-run", "--out", tmp_path)
    assert "not measured here: it would take too long" in capsys.readouterr().out


def test_what_is_not_here_counts_as_it_was_measured_elsewhere(two_cores, tmp_path, capsys):
    assert not run("study", "paper", "--dry-run", "--out", tmp_path)
    shown = capsys.readouterr().out
    assert shown.count("\n") < 20
    # 777 runs of 2.049 billion frames.
    assert "about 233 d 15 h, at 79.3k frames/s as measured on one NVIDIA H200" in shown
    assert "not measured here: the paper's agent needs a GPU, and there is none" in shown
    assert "36.4 GB of the GPU, with 1 run at a time" in shown


def test_rates_of_other_machines_are_those_that_were_measured():
    page = Path(__file__).parents[2] / "docs" / "performance.md"
    measured = page.read_text(encoding="utf-8")
    assert [cost.rate for cost in estimate._ELSEWHERE.values()] == [10_200, 1.57e6, 79_300]
    for rate in ("10.2 k", "1.57 M", "79.3 k"):
        assert rate in measured


def test_a_dry_run_says_why_nothing_could_be_measured(tmp_path):
    """Not only that, but what the worker said."""
    (job,) = jobs_of(study(1))
    bad = Group((job._replace(spec=job.spec._replace(game="probe:nothing")),))
    reason = estimate.measure(bad, Share())
    assert "no game called 'probe:nothing'" in reason


def test_an_interrupted_measurement_leaves_nothing(monkeypatch):
    """Exiting at once left the folder, and a process that continued to compile."""
    places, killed = [], []

    class Stuck:
        """A worker that is compiling when Ctrl-C comes."""

        def __init__(self, group, place, share):
            places.append(place)
            (place / "run.json").touch()
            self.pipe = self
            self.process = SimpleNamespace(kill=lambda: killed.append(self))

        def poll(self, seconds):
            signal.raise_signal(signal.SIGINT)

        def close(self):
            assert killed == [self]

    monkeypatch.setattr(estimate, "Worker", Stuck)
    before = {number: signal.getsignal(number) for number in SIGNALS}
    signal.signal(signal.SIGINT, lambda *_: pytest.fail("it exited at once"))
    try:
        with pytest.raises(KeyboardInterrupt):
            estimate.measure(Group(jobs_of(study(1))), Share())
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert len(killed) == 1 and not places[0].exists()

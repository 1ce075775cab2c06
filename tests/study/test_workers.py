"""Processes of this machine: shares, what they report, and what happens when they die."""

import os
import signal

import pytest

from sidequest.errors import ConfigError
from sidequest.records import read_run
from sidequest.study import workers
from sidequest.study.scheduler import Group, Machine, missing, plan_groups
from sidequest.study.studies import find, jobs_of
from sidequest.study.workers import Share, Worker, Workers, split_machine
from tests.study.fakes import Memory, group, run_all


@pytest.fixture
def cpus(monkeypatch):
    """A machine of six cores, and no process that asks."""
    monkeypatch.setattr(workers, "core_numbers", lambda: [0, 1, 2, 4, 6, 7])
    monkeypatch.setattr(workers, "_in_a_child", lambda function: Machine("cpu", 1))


def test_cores_are_shared_evenly(cpus):
    assert [share.cores for share in split_machine(2)] == [(0, 1, 2), (4, 6, 7)]
    assert [share.devices for share in split_machine(4)] == [1, 2, 1, 2]
    with pytest.raises(ConfigError, match="6 cores"):
        split_machine(7)


def test_each_worker_has_a_gpu(cpus, monkeypatch):
    monkeypatch.setattr(workers, "_in_a_child", lambda function: Machine("gpu", 2))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    assert [share.environment for share in split_machine(2)] == [
        (("CUDA_VISIBLE_DEVICES", "3"),),
        (("CUDA_VISIBLE_DEVICES", "5"),),
    ]
    # Four on two: the second and the fourth share a GPU, and its memory.
    second, fourth = (split_machine(4)[number].environment for number in (1, 3))
    assert (
        second
        == fourth
        == (
            ("CUDA_VISIBLE_DEVICES", "5"),
            ("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.450"),
        )
    )


def test_faults_come_back_and_deaths_are_seen(tmp_path):
    """A game that there is not, and a worker that is killed before it can say so."""
    job = group(1).jobs[0]
    bad = Group((job._replace(spec=job.spec._replace(game="probe:nothing")),))
    worker = Worker(bad, tmp_path, Share())
    outcome = worker.read()
    worker.close()
    assert outcome.kind == "failed" and "no game called 'probe:nothing'" in outcome.reason
    assert "Traceback" in outcome.traceback
    worker = Worker(bad, tmp_path, Share())
    worker.process.kill()
    outcome = worker.read()
    worker.close()
    assert outcome.kind == "lost"
    assert outcome.reason == "the worker was killed by SIGKILL"


class Killing(Memory):
    """Kills a worker when it shows progress for the first time."""

    executor: Workers | None = None

    def shown(self):
        if self.executor:
            os.kill(self.executor._running[0][0].process.pid, signal.SIGKILL)
            self.executor = None


@pytest.mark.slow
def test_the_runs_of_a_killed_worker_are_made_by_another(tmp_path):
    jobs = jobs_of(find("paper/fig5/tiny"))
    display = Killing()
    executor = Workers(tmp_path, min(2, len(workers.core_numbers())))
    display.executor = executor
    summary = run_all(plan_groups(jobs, executor.machine), executor, display)
    assert summary == ({}, [], [])
    assert not missing(tmp_path, jobs)
    assert [kind for kind, _ in display.ends].count("lost") == 1
    cores = {read_run(tmp_path / job.spec.folder)["cores"] for job in jobs}
    assert cores == {executor.machine.devices}

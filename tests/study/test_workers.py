"""Processes of this machine: shares, what they report, and what happens when they die."""

import os
import signal

import pytest

from sidequest.errors import ConfigError
from sidequest.records import read_run
from sidequest.study import workers
from sidequest.study.conduct import conduct
from sidequest.study.folder import missing
from sidequest.study.grids import jobs_of, narrow
from sidequest.study.planning import Group, Machine, plan
from sidequest.study.studies import find
from sidequest.study.workers import Share, Worker, Workers, died, shares
from tests.study.fakes import Memory, group


@pytest.fixture
def cpus(monkeypatch):
    """A machine of six cores, and no process that asks."""
    monkeypatch.setattr(workers, "cores_here", lambda: [0, 1, 2, 4, 6, 7])
    monkeypatch.setattr(workers, "in_a_child", lambda function: Machine("cpu", 1))


def test_cores_are_shared_evenly(cpus):
    assert [share.cores for share in shares(2)] == [(0, 1, 2), (4, 6, 7)]
    assert [share.devices for share in shares(4)] == [1, 2, 1, 2]
    with pytest.raises(ConfigError, match="6 cores"):
        shares(7)


def test_each_worker_has_a_gpu(cpus, monkeypatch):
    monkeypatch.setattr(workers, "in_a_child", lambda function: Machine("gpu", 2))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    assert [share.environment for share in shares(2)] == [
        (("CUDA_VISIBLE_DEVICES", "3"),),
        (("CUDA_VISIBLE_DEVICES", "5"),),
    ]
    with pytest.raises(ConfigError, match="2 GPUs"):
        shares(3)


def test_how_workers_die():
    assert died(-9) == "the worker was killed by SIGKILL"
    assert died(3) == "the worker ended with exit code 3"


def test_faults_come_back_and_deaths_are_seen(tmp_path):
    """A game that there is not, and a worker that is killed before it can say so."""
    bad = Group(tuple(job._replace(game="probe:nothing") for job in group(1).jobs))
    worker = Worker(bad, tmp_path, Share())
    ending = worker.read()
    worker.end()
    assert ending.kind == "failed" and ending.reason.startswith("UnknownGame: ")
    assert "Traceback" in ending.trace
    worker = Worker(bad, tmp_path, Share())
    worker.process.kill()
    ending = worker.read()
    assert ending.kind == "lost" and "SIGKILL" in ending.reason


class Killing(Memory):
    """Kills a worker when it shows progress for the first time."""

    def __init__(self):
        super().__init__()
        self.crew: Workers | None = None

    def show(self, group, progress):
        super().show(group, progress)
        if self.crew and self.crew._at_work:
            os.kill(self.crew._at_work[0].process.pid, signal.SIGKILL)
            self.crew = None


@pytest.mark.slow
def test_a_killed_worker_s_runs_are_made_by_another(tmp_path):
    study = narrow(find("paper/fig5/tiny"))
    jobs = jobs_of(study)
    board = Killing()
    crew = Workers(tmp_path, board, min(2, len(workers.cores_here())))
    board.crew = crew
    tally = conduct(plan(jobs, crew.machine), crew, board)
    assert tally == ({}, [], [])
    assert not missing(tmp_path, jobs)
    assert [kind for kind, _ in board.ends].count("lost") == 1
    cores = {read_run(tmp_path / job.folder)["cores"] for job in jobs}
    assert cores == {crew.machine.devices}

"""A Ray cluster of two nodes on this machine, one of which is lost in the middle."""

import contextlib
import os
import re
import socket
import subprocess
import sys
import time

import pytest

from sidequest.errors import ConfigError, Interrupted
from sidequest.records import read_run
from sidequest.study import cluster
from sidequest.study.cluster import check_address, connect, tasks_on
from sidequest.study.scheduler import Machine, missing, plan_groups
from sidequest.study.studies import find, jobs_of
from tests.study.fakes import Memory, run_all


def test_how_many_tasks_a_node_holds():
    assert tasks_on({"CPU": 9.0}, Machine("cpu", 4)) == 2
    assert tasks_on({"memory": 1e9}, Machine("cpu", 4)) == 0
    assert tasks_on({"CPU": 64.0, "GPU": 3.0}, Machine("gpu", 1)) == 3


def test_without_ray_there_is_a_hint(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r'pip install "\.\[train,cluster\]"'):
        connect("auto", tmp_path)


@pytest.mark.parametrize(
    "address", ["nowhere", "host:", ":6379", "host:port", "host:70000"]
)
def test_an_address_has_a_host_and_a_port(address):
    with pytest.raises(ConfigError, match=f"--cluster is {address!r}; it is auto, or HOST"):
        check_address(address)


def test_an_address_where_nobody_answers_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)  # it takes none to find out
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
        for address in (f"127.0.0.1:{port}", f"ray://127.0.0.1:{port}"):
            with pytest.raises(ConfigError, match=f"nobody answers at {address} "):
                check_address(address)
        other.listen()
        check_address(f"127.0.0.1:{port}")
        check_address("auto")


@pytest.mark.parametrize(
    ("cluster_mode", "token_is_right", "given", "result"),
    [
        ("disabled", False, None, "disabled"),
        ("token", True, None, "token"),
        ("token", True, "token", "token"),
        ("token", False, None, "copy ~/.ray/auth_token from its head node"),
        ("token", True, "disabled", "disabled here and token at the Ray cluster at H:1;"),
        ("disabled", True, "token", "token here and disabled at the Ray cluster at H:1;"),
    ],
)
def test_a_client_sends_its_token_if_the_cluster_asks_for_it(
    cluster_mode, token_is_right, given, result, monkeypatch
):
    """Without it Ray retries for 20 s; with it, a cluster without tokens never answers."""

    def health(address, mode):
        well = cluster_mode == "disabled" or (mode == "token" and token_is_right)
        return well, "" if well else "ray.exceptions.AuthenticationError: …"

    monkeypatch.setattr(cluster, "_health", health)
    monkeypatch.setenv("RAY_AUTH_MODE", given or "")
    if given is None:
        monkeypatch.delenv("RAY_AUTH_MODE")
    if " " in result:
        with pytest.raises(ConfigError, match=re.escape(result)):
            cluster._match_authentication("H:1")
    else:
        cluster._match_authentication("H:1")
        assert os.environ["RAY_AUTH_MODE"] == result


@pytest.mark.slow
def test_a_head_that_has_a_token_asks_for_it(tmp_path, monkeypatch):
    pytest.importorskip("ray")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    monkeypatch.setenv("RAY_AUTH_TOKEN", "4" * 64)
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block"]
    more = ["--num-cpus", "0", "--port", address.split(":")[1]]
    head = subprocess.Popen([*command, *more], stdout=subprocess.DEVNULL)
    try:
        for _ in range(60):
            with contextlib.suppress(ConfigError):
                check_address(address)
                break
            time.sleep(1)
        cluster._match_authentication(address)
        assert os.environ["RAY_AUTH_MODE"] == "token"
        monkeypatch.setenv("RAY_AUTH_TOKEN", "5" * 64)
        with pytest.raises(ConfigError, match="token, which is missing or wrong here"):
            cluster._match_authentication(address)
    finally:
        head.terminate()
        head.wait()


def test_a_head_that_answers_no_more_ends_the_study(monkeypatch):
    """Row 9: after a minute Ray ended the process, with its own text and exit code 1."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        head = cluster._Head(address)
        now[0] += 100
        head.check()
    for seconds in (0, 3, 3, 3):
        now[0] += seconds
        head.check()  # it may come back
    now[0] += 20
    with pytest.raises(Interrupted, match=f"head at {address} does not answer") as fault:
        head.check()
    assert head.is_lost and fault.value.exit_code == 75 and "\n" not in str(fault.value)


def test_a_head_that_could_never_be_reached_is_left_to_ray(monkeypatch):
    head = cluster._Head("127.0.0.1:1")
    monkeypatch.setattr(time, "monotonic", lambda: 1e9)
    head.check()


class Removing(Memory):
    """Removes a node when a checkpoint of each of the four runs has come back."""

    def __init__(self, folder, cluster, node):
        super().__init__()
        self.folder, self.cluster, self.node = folder, cluster, node
        self.came_back = set()

    def shown(self):
        found = self.folder.glob("*/*/*/checkpoints/*/manifest.json")
        came_back = {path.parents[2] for path in found}
        if self.node is not None and len(came_back) == 4:
            self.came_back = came_back
            self.cluster.remove_node(self.node, allow_graceful=False)
            self.node = None


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_the_runs_of_a_lost_node_resume_elsewhere(tmp_path, monkeypatch):
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")  # of both, whatever tokens are here
    # So long that no run ends before its node is lost; the head itself does no work.
    study = find("paper/fig5/tiny")._replace(frames=200_000)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    try:
        nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
        display = Removing(tmp_path, cluster, nodes[0])
        executor = connect(cluster.address, tmp_path)
        assert executor.slots == 2 and executor.machine == ("cpu", 1)
        jobs = jobs_of(study)
        groups = plan_groups(jobs, executor.machine)
        summary = run_all(groups, executor, display)
    finally:
        ray.shutdown()
        cluster.shutdown()
    assert summary == ({}, [], [])
    assert not missing(tmp_path, jobs)
    assert display.came_back
    assert [kind for kind, _ in display.ends].count("lost") >= 1
    assert any(read_run(tmp_path / job.spec.folder).get("resumed") for job in jobs)
    assert not list(tmp_path.rglob(".arriving*"))

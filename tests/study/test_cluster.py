"""A Ray cluster of two nodes on this machine, one of which is lost in the middle."""

import socket
import sys

import pytest

from sidequest.errors import ConfigError
from sidequest.records import read_run
from sidequest.study.cluster import Need, check_address, join
from sidequest.study.conduct import conduct
from sidequest.study.folder import missing
from sidequest.study.grids import jobs_of
from sidequest.study.planning import plan
from sidequest.study.studies import find
from tests.study.fakes import Memory


def test_how_many_tasks_a_node_holds():
    assert Need(4, 0).fits({"CPU": 9.0}) == 2
    assert Need(4, 0).fits({"memory": 1e9}) == 0
    assert Need(1, 1).fits({"CPU": 64.0, "GPU": 3.0}) == 3


def test_without_ray_there_is_a_hint(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r"pip install 'sidequest\[cluster\]'"):
        join("auto", tmp_path, Memory())


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


class Removing(Memory):
    """Removes a node when a checkpoint of each of the four runs has come back."""

    def __init__(self, folder, cluster, node):
        super().__init__()
        self.folder, self.cluster, self.node = folder, cluster, node
        self.came_back = set()

    def show(self, group, progress):
        super().show(group, progress)
        found = self.folder.glob("*/*/*/checkpoints/*/manifest.json")
        came_back = {path.parents[2] for path in found}
        if self.node is not None and len(came_back) == 4:
            self.came_back = came_back
            self.cluster.remove_node(self.node, allow_graceful=False)
            self.node = None


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_a_lost_node_s_runs_go_on_elsewhere(tmp_path):
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    # So long that no run ends before its node is lost; the head itself does no work.
    study = find("paper/fig5/tiny")._replace(frames=200_000)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    try:
        nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
        board = Removing(tmp_path, cluster, nodes[0])
        crew, machine = join(cluster.address, tmp_path, board)
        assert crew.room == 2 and machine == ("cpu", 1)
        jobs = jobs_of(study)
        tally = conduct(plan(jobs, machine), crew, board)
    finally:
        ray.shutdown()
        cluster.shutdown()
    assert tally == ({}, [], [])
    assert not missing(tmp_path, jobs)
    assert board.came_back
    assert [kind for kind, _ in board.ends].count("lost") >= 1
    assert any(read_run(tmp_path / job.folder).get("resumed") for job in jobs)
    assert not list(tmp_path.rglob(".arriving"))

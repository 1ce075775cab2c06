"""Groups as tasks of a Ray cluster; files come back in pieces, no disk is shared.

    here      start: what there is of the runs ──▶ task on a node
              board ◀── progress ──┐               │ a worker (workers.py) runs the group
              study's folder ◀─────┴── pieces ◀────┘ after each checkpoint, and at the end

If a node is lost, its group is started again with the newest checkpoint that came back.
"""

import contextlib
import inspect
import logging
import socket
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from sidequest.errors import ConfigError, RunBusy
from sidequest.runs.checkpoint import listed
from sidequest.runs.process import lock_folders
from sidequest.runs.spec import Progress
from sidequest.study.board import Board
from sidequest.study.conduct import Ending
from sidequest.study.planning import Group, Machine
from sidequest.study.shipping import Arrivals, Piece, pack, unpack
from sidequest.study.workers import Share, Worker

Message: TypeAlias = str | Progress | Piece | Ending
KEPT = 1e-3  # of a core, for tasks whose work is on a GPU
PATIENCE = 3.0  # seconds that the head node has to answer


class Need(NamedTuple):
    """What one task takes of a node."""

    cpus: int
    gpus: int

    def fits(self, node: dict[str, float]) -> int:
        """How many tasks a node can hold."""
        if self.gpus:
            return int(node.get("GPU", 0)) // self.gpus
        return int(node.get("CPU", 0)) // self.cpus


class Task(NamedTuple):
    """A group that a node is at."""

    group: Group
    messages: Any
    """Ray's generator of references to messages."""
    arrivals: Arrivals
    held: contextlib.ExitStack
    """The locks of the runs' folders here, so that nobody else begins them."""


def labour(group: Group, share: Share, cargo: list[Any]) -> Iterator[Message]:
    """On a node: runs a group in a process of its own, and sends back what it makes.

    Args:
        cargo: References to the pieces of runs that go on.
    """
    ray = import_module("ray")
    with tempfile.TemporaryDirectory() as place:
        study = Path(place)
        unpack(study, (ray.get(piece) for piece in cargo))
        worker = Worker(group, study, share)
        seen: dict[Path, list[Path]] = {}
        try:
            while not isinstance(message := worker.read(), Ending):
                yield message
                yield from news(study, group, seen)
        finally:
            worker.process.kill()
            worker.end()
        for job in group.jobs:
            yield from pack(study, job.folder)
        yield message


def news(study: Path, group: Group, seen: dict[Path, list[Path]]) -> Iterator[Piece]:
    """Runs that have a checkpoint that was not sent yet."""
    for job in group.jobs:
        newest = listed(study / job.folder)[:1]
        if newest and newest != seen.get(job.folder):
            seen[job.folder] = newest
            # An older checkpoint may be removed while it is read; the next will come.
            with contextlib.suppress(FileNotFoundError):
                yield from pack(study, job.folder)


class Cluster:
    """A crew of nodes."""

    def __init__(self, ray: Any, folder: Path, board: Board, need: Need):
        self._ray, self._folder, self._board, self._need = ray, folder, board, need
        options = {"num_cpus": KEPT if need.gpus else need.cpus, "num_gpus": need.gpus}
        # Unwrapped, since a type checker's wrapper is no generator function to Ray.
        self._labour = ray.remote(**options, max_retries=0)(inspect.unwrap(labour))
        self._tasks: list[Task] = []
        self._refused: list[Ending] = []

    @property
    def room(self) -> int:
        """As many tasks as the nodes that are alive can hold; nodes may come and go."""
        return max(1, sum(self._need.fits(node) for node in nodes(self._ray)))

    def start(self, group: Group) -> None:
        held = contextlib.ExitStack()
        try:
            held.enter_context(
                lock_folders([self._folder / job.folder for job in group.jobs])
            )
        except RunBusy as busy:
            self._refused.append(Ending(group, "busy", str(busy)))
            return
        cargo = [
            self._ray.put(piece)
            for job in group.jobs
            for piece in pack(self._folder, job.folder)
        ]
        messages = self._labour.options(num_returns="streaming").remote(
            group, Share(devices=self._need.cpus), cargo
        )
        self._tasks.append(Task(group, messages, Arrivals(self._folder), held))

    def wait(self) -> Ending:
        while not self._refused:
            ready, _ = self._ray.wait([task.messages for task in self._tasks])
            task = next(task for task in self._tasks if task.messages is ready[0])
            ending = self._hear(task)
            if ending is not None:
                self._tasks.remove(task)
                task.held.close()
                lost = ending.kind == "interrupted"  # a node that is being shut down
                return ending._replace(kind="lost") if lost else ending
        return self._refused.pop()

    def _hear(self, task: Task) -> Ending | None:
        """The next message; an ending if it is one, or if no more will come."""
        try:
            message = self._ray.get(next(task.messages))
        except self._ray.exceptions.RayTaskError as error:  # our code, not the node
            return Ending(task.group, "failed", repr(error.cause), str(error))
        except (self._ray.exceptions.RayError, StopIteration) as error:
            reason = f"the node was lost ({type(error).__name__})"
            return Ending(task.group, "lost", reason)
        if isinstance(message, Ending):
            return message
        if isinstance(message, Piece):
            task.arrivals.take(message)
        elif isinstance(message, str):
            self._board.say(task.group, message)
        else:
            self._board.show(task.group, message)
        return None

    def stop(self) -> None:
        """Ends the tasks; their newest checkpoints are here already."""
        for task in self._tasks:
            self._ray.cancel(task.messages)
            task.held.close()
        self._tasks.clear()


def check_address(address: str) -> None:
    """Refuses an address that is none, or where nobody answers; needs no Ray.

    Ray itself would try for minutes.

    Raises:
        ConfigError: With the reason.
    """
    if address in ("auto", "local"):
        return
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not (host and colon and port.isascii() and port.isdigit() and int(port) < 2**16):
        raise ConfigError(f"--cluster is {address!r}; it is auto, or HOST:PORT")
    try:
        socket.create_connection((host.strip("[]"), int(port)), PATIENCE).close()
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(
            f"nobody answers at {address} ({reason}); --cluster takes the address of a Ray "
            f"cluster's head node, such as HOST:6379"
        ) from error


def join(address: str, folder: Path, board: Board) -> tuple[Cluster, Machine]:
    """Connects to a cluster, and says what each of its tasks will have."""
    try:
        ray = import_module("ray")
    except ImportError as error:
        raise ConfigError(
            "--cluster needs Ray: pip install 'sidequest[cluster]'"
        ) from error
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.WARNING)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ConfigError(f"cannot reach a Ray cluster at {address}: {error}") from error
    gpus = any(node.get("GPU") for node in nodes(ray))
    # A task gets a whole node of the smallest size, or a GPU.
    cpus = min(int(node["CPU"]) for node in nodes(ray) if node.get("CPU", 0) >= 1)
    need = Need(1, 1) if gpus else Need(cpus, 0)
    machine = Machine("gpu", 1) if gpus else Machine("cpu", cpus)
    return Cluster(ray, folder, board, need), machine


def nodes(ray: Any) -> list[dict[str, float]]:
    """Resources of the nodes that are alive."""
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]

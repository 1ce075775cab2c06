"""Groups as tasks of a Ray cluster; files come back as archives, no disk is shared.

    here      start: files of the runs so far ──▶ task on a node
              display ◀── progress ──┐            │ a worker (workers.py) runs the group
              study's folder ◀───────┴─ archives ◀┘ after each checkpoint, and at the end

If a node is lost, its group starts again from the newest checkpoint that came back.
"""

import contextlib
import inspect
import logging
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from sidequest.errors import ConfigError, CorruptFile, Interrupted, RunBusy, writing
from sidequest.records import ARRIVING, DIGESTS_FILE, RUN_FILE, TABLES, read_run
from sidequest.runs.checkpoint import FOLDER, KEPT, listed
from sidequest.runs.display import GroupDisplay, Progress
from sidequest.runs.process import lock_folders
from sidequest.study.scheduler import Group, Machine, Outcome, outcome_of_worker
from sidequest.study.workers import Share, Worker, show_message

CHUNK_BYTES = 8 * 2**20
_GPU_TASK_CORES = 1e-3  # cores for tasks whose work is on a GPU
_CONNECT_SECONDS, _HEALTH_SECONDS = 3.0, 30.0
_HEAD_CHECKED, _HEAD_LOST = 2.0, 20.0  # seconds


class Chunk(NamedTuple):
    """A part of the archive of a run's folder."""

    run: str
    """The run's folder inside the study's."""
    data: bytes
    """Empty: the archive is complete."""


def pack(study: Path, run: Path) -> Iterator[Chunk]:
    """Archives what a run needs to resume elsewhere; nothing if it has not begun.

    Tables may be ahead of the checkpoint and of their digests: a run that resumes cuts
    them back. A table that grows meanwhile is archived up to where it ended when its turn
    came.
    """
    folder = study / run
    if not (folder / RUN_FILE).exists():
        return
    finished = bool(read_run(folder).get("finished"))
    checkpoint = [] if finished else listed(folder)[:1]
    visible = [path for path in sorted(folder.iterdir()) if path.name[0] != "."]
    tables = [path for path in visible if path.is_file() and path.name != RUN_FILE]
    tables.sort(key=lambda path: path.name != DIGESTS_FILE)  # before the tables grow
    with tempfile.TemporaryFile(dir=study) as archive:
        with tarfile.open(fileobj=archive, mode="w") as tar:
            for path in [*tables, *checkpoint, folder / RUN_FILE]:
                tar.add(path, path.relative_to(folder).as_posix())
        if bool(read_run(folder).get("finished")) != finished:
            return  # finished meanwhile, without its final tables; they come at the end
        archive.seek(0)
        while data := archive.read(CHUNK_BYTES):
            yield Chunk(run.as_posix(), data)
    yield Chunk(run.as_posix(), b"")


class Receiver:
    """Puts archives that arrive in chunks in place below a study's folder."""

    def __init__(self, study: Path, runs: Iterable[Path]):
        self._study, self._runs = study, {run.as_posix() for run in runs}
        self._incomplete: set[str] = set()

    def add(self, chunk: Chunk) -> None:
        if chunk.run not in self._runs:
            raise tarfile.TarError(f"an archive of {chunk.run!r}, which nobody asked for")
        folder = self._study / chunk.run
        archive = folder / f"{ARRIVING}.tar"
        with writing(archive):
            folder.mkdir(parents=True, exist_ok=True)
            # An archive that an earlier task did not complete is overwritten.
            with archive.open("ab" if chunk.run in self._incomplete else "wb") as file:
                file.write(chunk.data)
            self._incomplete.add(chunk.run)
            if not chunk.data:
                self._incomplete.remove(chunk.run)
                _install(archive, folder)


def _install(archive: Path, folder: Path) -> None:
    """Moves files from an archive to their places: checkpoints as whole folders, then
    tables, run.json last, so that the run can be resumed whenever this is interrupted."""
    arriving = folder / ARRIVING
    shutil.rmtree(arriving, ignore_errors=True)
    with tarfile.open(archive) as tar:
        tar.extractall(arriving, filter=_refuse_links)
    for path in sorted(arriving.glob(f"{FOLDER}/*")):
        place = folder / FOLDER / path.name
        place.parent.mkdir(exist_ok=True)
        if not place.exists():
            os.rename(path, place)
    for old in listed(folder)[KEPT:]:
        shutil.rmtree(old, ignore_errors=True)
    names = [path.name for path in arriving.iterdir() if path.is_file()]
    for name in sorted(names, key=lambda name: (name == RUN_FILE, name == DIGESTS_FILE)):
        os.replace(arriving / name, folder / name)
    run = read_run(folder)
    if run.get("finished"):  # then tables have their final form, and nothing resumes
        for name in [DIGESTS_FILE, *(f"{table}.jsonl" for table in TABLES)]:
            if name not in run.get("digests", ()):
                (folder / name).unlink(missing_ok=True)
        shutil.rmtree(folder / FOLDER, ignore_errors=True)
    shutil.rmtree(arriving)
    archive.unlink()


def _refuse_links(member: tarfile.TarInfo, path: str) -> tarfile.TarInfo:
    """Refuses what is no file inside the folder."""
    if not (member.isfile() or member.isdir()):
        raise tarfile.SpecialFileError(member)
    return tarfile.data_filter(member, path)


def unpack(study: Path, runs: Iterable[Path], chunks: Iterable[Chunk]) -> None:
    """Puts whole archives in place below a study's folder."""
    receiver = Receiver(study, runs)
    for chunk in chunks:
        receiver.add(chunk)


def _run_remotely(
    group: Group, share: Share, payload: list[Any]
) -> Iterator[str | Progress | Chunk | Outcome]:
    """Is the remote task: runs a group in a process of its own and sends back its files.

    Args:
        payload: References to the archives of runs that resume.
    """
    ray = import_module("ray")
    with tempfile.TemporaryDirectory() as place:
        study = Path(place)
        folders = [job.spec.folder for job in group.jobs]
        unpack(study, folders, (ray.get(chunk) for chunk in payload))
        worker = Worker(group, study, share)
        sent: dict[Path, list[Path]] = {}
        try:
            while not isinstance(message := worker.read(), Outcome):
                yield message
                yield from _new_checkpoints(study, group, sent)
        finally:
            worker.process.kill()
            worker.close()
        for job in group.jobs:
            yield from pack(study, job.spec.folder)
        yield message


def _new_checkpoints(
    study: Path, group: Group, sent: dict[Path, list[Path]]
) -> Iterator[Chunk]:
    """Archives the runs that have a checkpoint that was not sent yet."""
    for job in group.jobs:
        newest = listed(study / job.spec.folder)[:1]
        if newest and newest != sent.get(job.spec.folder):
            sent[job.spec.folder] = newest
            # An older checkpoint may be removed while it is read; the next will come.
            with contextlib.suppress(FileNotFoundError):
                yield from pack(study, job.spec.folder)


class _Task(NamedTuple):
    """A group that runs on a node."""

    group: Group
    display: GroupDisplay
    messages: Any
    """Ray's generator of references to messages."""
    receiver: Receiver
    locks: contextlib.ExitStack
    """The locks of the runs' folders here, so that no other process starts them."""


class _Head:
    """The head node of a cluster, which is asked now and then whether it is there.

    Ray ends this process one minute after the head is lost.
    """

    def __init__(self, address: str):
        self._address = address
        self._asked = self._answered = time.monotonic()
        self._known = self._answers()  # a client of Ray may be unable to reach it
        self.is_lost = False

    def _answers(self) -> bool:
        with contextlib.suppress(OSError):
            _reach(self._address)
            return True
        return False

    def check(self) -> None:
        """Raises `Interrupted` if the head has not answered for some time."""
        if not self._known or time.monotonic() - self._asked < _HEAD_CHECKED:
            return
        self._asked = time.monotonic()
        if self._answers():
            self._answered = self._asked
        elif self._asked - self._answered > _HEAD_LOST:
            self.is_lost = True
            raise Interrupted(
                f"the Ray cluster's head at {self._address} does not answer any more; what "
                f"came back from its nodes is saved: when it is there again, the same "
                f"command resumes the study"
            )


class Cluster:
    """Runs groups on the nodes of a Ray cluster."""

    def __init__(self, ray: Any, folder: Path, machine: Machine):
        self._ray, self._folder, self.machine = ray, folder, machine
        is_gpu = machine.kind == "gpu"
        cores = _GPU_TASK_CORES if is_gpu else machine.devices
        # Unwrapped, since a type checker's wrapper is no generator function to Ray.
        task = inspect.unwrap(_run_remotely)
        remote = ray.remote(num_cpus=cores, num_gpus=int(is_gpu), max_retries=0)(task)
        self._remote = remote.options(num_returns="streaming").remote
        self._tasks: list[_Task] = []
        self._refused: list[Outcome] = []
        self._head = _Head(ray.get_runtime_context().gcs_address)

    @property
    def slots(self) -> int:
        """Returns how many tasks the nodes alive can hold; nodes may come and go."""
        return max(1, sum(tasks_on(node, self.machine) for node in _nodes(self._ray)))

    def start(self, group: Group, display: GroupDisplay) -> None:
        locks = contextlib.ExitStack()
        folders = [job.spec.folder for job in group.jobs]
        try:
            locks.enter_context(lock_folders([self._folder / folder for folder in folders]))
        except RunBusy as busy:
            self._refused.append(Outcome(group, "busy", str(busy)))
            return
        payload = [
            self._ray.put(chunk)
            for folder in folders
            for chunk in pack(self._folder, folder)
        ]
        messages = self._remote(group, Share(devices=self.machine.devices), payload)
        receiver = Receiver(self._folder, folders)
        self._tasks.append(_Task(group, display, messages, receiver, locks))

    def wait(self) -> Outcome:
        while not self._refused:
            messages = [task.messages for task in self._tasks]
            ready, _ = self._ray.wait(messages, timeout=_HEAD_CHECKED)
            self._head.check()
            if not ready:
                continue
            task = next(task for task in self._tasks if task.messages is ready[0])
            outcome = self._read(task)
            if outcome is not None:
                self._tasks.remove(task)
                task.locks.close()
                # Interrupted is a node that is being shut down.
                return outcome_of_worker(outcome, self._folder)
        return self._refused.pop()

    def _read(self, task: _Task) -> Outcome | None:
        """Handles the next message; returns an outcome if the task has ended."""
        try:
            message = self._ray.get(next(task.messages))
        except self._ray.exceptions.RayTaskError as error:  # our code, not the node
            return Outcome(task.group, "failed", repr(error.cause), str(error))
        except (self._ray.exceptions.RayError, StopIteration) as error:
            reason = f"the node was lost ({type(error).__name__})"
            return Outcome(task.group, "lost", reason)
        if isinstance(message, Outcome):
            return message
        if isinstance(message, Chunk):
            try:
                task.receiver.add(message)
            except (tarfile.TarError, CorruptFile) as error:
                return Outcome(task.group, "lost", f"the node sent a bad file: {error}")
        else:
            show_message(task.display, message)
        return None

    def stop(self) -> None:
        """Cancels the tasks; their newest checkpoints are here already."""
        for task in self._tasks:
            if not self._head.is_lost:  # else Ray would wait for it
                self._ray.cancel(task.messages)
            task.locks.close()
        self._tasks.clear()


def _reach(address: str) -> None:
    """Raises an error if nobody answers at HOST:PORT."""
    host, _, port = address.rpartition(":")
    socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()


def check_address(address: str) -> None:
    """Refuses an invalid address, or one where nobody answers; needs no Ray.

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
        _reach(f"{host}:{port}")
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(
            f"nobody answers at {address} ({reason}); --cluster takes the address of a Ray "
            f"cluster's head node, such as HOST:6379"
        ) from error


def _match_authentication(address: str) -> None:
    """Sets RAY_AUTH_MODE to the mode of the cluster; Ray reads it when it is imported.

    A head node asks for a token if its user has one, while a client that is given an
    address sends its token only if RAY_AUTH_MODE says so. A client that sends one to a
    cluster without tokens waits for its tasks for ever.

    Raises:
        ConfigError: If the token is missing or wrong, or another mode is set here.
    """
    try:
        healthy, said = _health(address, "disabled")
    except subprocess.TimeoutExpired:
        raise ConfigError(f"no head of a Ray cluster answers at {address}") from None
    if not healthy and "AuthenticationError" not in said:
        return  # `ray.init` will say why
    if not healthy and not _health(address, "token")[0]:
        raise ConfigError(
            f"the Ray cluster at {address} asks for a token, which is missing or wrong "
            f"here; copy ~/.ray/auth_token from its head node, or set RAY_AUTH_TOKEN to it"
        )
    mode = "disabled" if healthy else "token"
    given = os.environ.setdefault("RAY_AUTH_MODE", mode)
    if given != mode:
        raise ConfigError(
            f"RAY_AUTH_MODE is {given} here and {mode} at the Ray cluster at {address}; "
            f"unset it here to use the cluster's"
        )


def _health(address: str, mode: str) -> tuple[bool, str]:
    """Returns whether the head is well, asked by a client in this mode, and its words."""
    command = [sys.executable, "-m", "ray.scripts.scripts", "health-check"]
    ended = subprocess.run(
        [*command, "--skip-version-check", "--address", address],
        env={**os.environ, "RAY_AUTH_MODE": mode},
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_HEALTH_SECONDS,
    )
    return ended.returncode == 0, ended.stderr


def connect(address: str, folder: Path) -> Cluster:
    """Connects to a cluster, and chooses what each of its tasks will get."""
    if find_spec("ray") is None:
        raise ConfigError(
            '--cluster needs Ray: in the clone, pip install ".[train,cluster]"'
        )
    if address != "local" and not address.startswith("ray://"):
        _match_authentication(address)
    ray = import_module("ray")
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.WARNING)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ConfigError(f"cannot reach a Ray cluster at {address}: {error}") from error
    nodes = _nodes(ray)
    if any(node.get("GPU") for node in nodes):
        return Cluster(ray, folder, Machine("gpu", 1))
    # A task gets a whole node of the smallest size.
    cpus = [int(node["CPU"]) for node in nodes if node.get("CPU", 0) >= 1]
    if not cpus:
        raise ConfigError(
            f"the Ray cluster at {address} has no cores yet; add a node to it with: "
            f"ray start --address={ray.get_runtime_context().gcs_address}"
        )
    return Cluster(ray, folder, Machine("cpu", min(cpus)))


def _nodes(ray: Any) -> list[dict[str, float]]:
    """Returns the resources of the nodes that are alive."""
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


def tasks_on(node: dict[str, float], machine: Machine) -> int:
    """Returns how many tasks that need such a machine a node can hold."""
    name = "GPU" if machine.kind == "gpu" else "CPU"
    return int(node.get(name, 0)) // machine.devices

"""Groups in processes of their own on this machine, each with its share of the cores.

A worker runs one group and ends. It tells its parent how it is going through a pipe; when
the pipe is broken, the parent is gone and the worker ends, too.

    parent   start ──▶ worker    launch, show, show, … ──▶ pipe ──▶ board
             SIGTERM ─▶          saves, ends
"""

import contextlib
import multiprocessing as processes
import os
import signal
import threading
from collections.abc import Callable
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from sidequest.errors import ConfigError, Interrupted
from sidequest.runs.spec import Progress
from sidequest.study.board import Board
from sidequest.study.conduct import Ending, attempt, launch_group
from sidequest.study.planning import Group, Machine, cores_here, machine_here

# Never fork once JAX has threads.
SPAWN = processes.get_context("spawn")
GPUS = "CUDA_VISIBLE_DEVICES"
Pipe: TypeAlias = Any  # an end of one; its class differs between systems


class Share(NamedTuple):
    """What one worker gets of the machine."""

    cores: tuple[int, ...] = ()
    """Numbers of cores; none: all."""
    devices: int = 1
    """CPU devices that JAX makes of them."""
    environment: tuple[tuple[str, str], ...] = ()
    cache: str | None = None
    """Folder of JAX's compiled programs."""

    def take(self) -> None:
        """Makes this process keep to the share; before JAX starts."""
        import jax

        os.environ.update(self.environment)
        if self.cores and hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, self.cores)
        jax.config.update("jax_num_cpu_devices", self.devices)
        jax.config.update("jax_compilation_cache_dir", self.cache)


class Wire:
    """The `Display` of a worker: everything goes to the parent."""

    def __init__(self, pipe: Pipe):
        self._pipe = pipe
        self._lock = threading.Lock()  # what listens to signals has a thread of its own

    def say(self, text: str) -> None:
        self.send(text)

    def count(self, text: str, done: int, of: int) -> None:
        self.send(text)

    def show(self, progress: Progress) -> None:
        self.send(progress)

    def send(self, message: Any) -> None:
        try:
            with self._lock:
                self._pipe.send(message)
        except OSError as error:
            raise Interrupted("the process that started this worker is gone") from error


def work(pipe: Pipe, group: Group, folder: Path, share: Share) -> None:
    """The whole life of a worker."""
    # A Ctrl-C at the terminal is for the parent, which passes it on, once.
    os.setpgrp()
    share.take()
    wire = Wire(pipe)
    ending = attempt(group, folder, wire, launch_group)
    with contextlib.suppress(Interrupted):
        wire.send(ending)


class Worker:
    """A process that is at a group, seen from its parent."""

    def __init__(self, group: Group, folder: Path, share: Share):
        self.group, self.share = group, share
        ends: tuple[Pipe, Pipe] = SPAWN.Pipe()
        self.pipe, other = ends
        self.process: BaseProcess = SPAWN.Process(
            target=work, args=(other, group, folder, share)
        )
        self.process.start()
        other.close()  # or its end would never be seen

    def read(self) -> str | Progress | Ending:
        """What it says next; how it ended if it says nothing more."""
        try:
            return self.pipe.recv()
        except (EOFError, OSError):
            self.process.join()
            return Ending(self.group, "lost", died(self.process.exitcode))

    def end(self) -> None:
        self.pipe.close()
        self.process.join()


def died(code: int | None) -> str:
    if code is not None and code < 0:
        return f"the worker was killed by {signal.Signals(-code).name}"
    return f"the worker ended with exit code {code}"


class Workers:
    """A crew of processes."""

    def __init__(self, folder: Path, board: Board, count: int):
        self.room = count
        self._folder, self._board = folder, board
        self._free = shares(count)
        self._at_work: list[Worker] = []
        self.machine = Machine(kind_of(self._free[0]), self._free[0].devices)

    def start(self, group: Group) -> None:
        self._at_work.append(Worker(group, self._folder, self._free.pop(0)))

    def wait(self) -> Ending:
        while True:
            for worker in self._speaking():
                ending = self._hear(worker)
                if ending is not None and ending.kind == "interrupted":
                    return ending._replace(kind="lost")  # not by us: that is in `stop`
                if ending is not None:
                    return ending

    def _speaking(self) -> list[Worker]:
        """Waits until some have something to say."""
        ready = wait([worker.pipe for worker in self._at_work])
        return [worker for worker in self._at_work if worker.pipe in ready]

    def _hear(self, worker: Worker) -> Ending | None:
        message = worker.read()
        if isinstance(message, str):
            self._board.say(worker.group, message)
        elif isinstance(message, Progress):
            self._board.show(worker.group, message)
        else:
            self._at_work.remove(worker)
            worker.end()
            self._free.append(worker.share)
            return message
        return None

    def stop(self) -> None:
        """Asks once, waits until all have saved."""
        try:
            for worker in self._at_work:
                worker.process.terminate()
            while self._at_work:
                for worker in self._speaking():
                    self._hear(worker)
        except KeyboardInterrupt:  # asked twice
            for worker in self._at_work:
                worker.process.kill()


def kind_of(share: Share) -> str:
    return "gpu" if share.environment else "cpu"


def shares(count: int) -> list[Share]:
    """Cuts the machine into so many shares: cores evenly, and a GPU each if there are."""
    import jax

    cores = cores_here()
    machine = in_a_child(machine_here)
    is_cpu = machine.kind == "cpu"
    most = len(cores) if is_cpu else machine.devices
    if count > most:
        raise ConfigError(
            f"--workers is {count}; this machine has {most} {'cores' if is_cpu else 'GPUs'}"
        )
    cache: str | None = getattr(jax.config, "jax_compilation_cache_dir")  # noqa: B009
    cut = []
    for number in range(count):
        own = cores[number * len(cores) // count : (number + 1) * len(cores) // count]
        environment = () if is_cpu else ((GPUS, gpu_name(number)),)
        cut.append(Share(tuple(own), len(own) if is_cpu else 1, environment, cache))
    return cut


def gpu_name(number: int) -> str:
    """Of the GPUs that this process may see, one."""
    seen = os.environ.get(GPUS)
    return seen.split(",")[number] if seen else str(number)


def in_a_child(function: Callable[[], Any]) -> Any:
    """Calls a function where it cannot leave anything behind, such as a GPU in use."""
    with SPAWN.Pool(1) as pool:
        return pool.apply(function)

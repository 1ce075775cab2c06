"""Groups in processes of their own on this machine, each with its share of the cores.

A worker runs one group and exits. It reports to its parent through a pipe; when the pipe is
broken, the parent is gone and the worker exits, too.

    parent   start ───▶ worker    say, show, show, … ──▶ pipe ──▶ display
             SIGTERM ─▶           saves, exits
"""

import contextlib
import math
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from sidequest.errors import ConfigError, Interrupted
from sidequest.records import core_numbers
from sidequest.runs.display import GroupDisplay, Progress
from sidequest.study.scheduler import (
    Group,
    Machine,
    Outcome,
    local_machine,
    outcome_of_worker,
    run_group,
    train_group,
)

# Never fork once JAX has threads.
_SPAWN = multiprocessing.get_context("spawn")
_GPUS = "CUDA_VISIBLE_DEVICES"
_GPU_MEMORY, _GPU_SHARE = "XLA_PYTHON_CLIENT_MEM_FRACTION", 0.9
"""JAX's name of the share of a GPU's memory that a process takes, and what we give away."""
_Pipe: TypeAlias = Any  # one end; its class differs between systems


class Share(NamedTuple):
    """Holds what one worker gets of the machine."""

    cores: tuple[int, ...] = ()
    """Numbers of cores; empty: all."""
    devices: int = 1
    """Number of CPU devices that JAX makes of them."""
    environment: tuple[tuple[str, str], ...] = ()
    """Environment variables that choose a GPU, if there is one."""
    cache: str | None = None
    """Folder of JAX's compiled programs."""

    @property
    def machine(self) -> Machine:
        return Machine("gpu" if self.environment else "cpu", self.devices)

    def apply(self) -> None:
        """Restricts this process to the share; call it before JAX starts."""
        import jax

        os.environ.update(self.environment)
        if self.cores and hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, self.cores)
        jax.config.update("jax_num_cpu_devices", self.devices)
        jax.config.update("jax_compilation_cache_dir", self.cache)


class _PipeDisplay:
    """The display of a worker's runs: sends everything to the parent."""

    def __init__(self, pipe: _Pipe):
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


def _work(pipe: _Pipe, group: Group, folder: Path, share: Share) -> None:
    """Is the main function of a worker."""
    # A Ctrl-C at the terminal is for the parent, which passes it on, once.
    os.setpgrp()
    share.apply()
    display = _PipeDisplay(pipe)
    outcome = run_group(group, folder, display, train_group)
    with contextlib.suppress(Interrupted):
        display.send(outcome)


class Worker:
    """A process that runs a group, seen from its parent."""

    def __init__(self, group: Group, folder: Path, share: Share):
        self.group, self.share = group, share
        ends: tuple[_Pipe, _Pipe] = _SPAWN.Pipe()
        self.pipe, other = ends
        self.process: BaseProcess = _SPAWN.Process(
            target=_work, args=(other, group, folder, share)
        )
        self.process.start()
        other.close()  # or its end would never be seen

    def read(self) -> str | Progress | Outcome:
        """Waits for the next message; a worker that died gives an outcome."""
        try:
            return self.pipe.recv()
        except (EOFError, OSError):
            self.process.join()
            code = self.process.exitcode or 0
            killed = f"was killed by {signal.Signals(-code).name}" if code < 0 else ""
            cause = killed or f"ended with exit code {code}"
            return Outcome(self.group, "lost", f"the worker {cause}")

    def close(self) -> None:
        self.pipe.close()
        self.process.join()


def show_message(display: GroupDisplay, message: str | Progress) -> None:
    """Shows what a worker reported."""
    if isinstance(message, str):
        display.say(message)
    else:
        display.show(message)


class Workers:
    """Runs groups in processes."""

    def __init__(self, folder: Path, count: int):
        self.slots = count
        self._folder = folder
        self._free = split_machine(count)
        self._running: list[tuple[Worker, GroupDisplay]] = []
        self.machine = self._free[0].machine

    def start(self, group: Group, display: GroupDisplay) -> None:
        worker = Worker(group, self._folder, self._free.pop(0))
        self._running.append((worker, display))

    def wait(self) -> Outcome:
        # Not interrupted by us, which happens in `stop`.
        return outcome_of_worker(self._wait(), self._folder)

    def _wait(self) -> Outcome:
        """Shows what workers report, until one has ended."""
        while True:
            ready = wait([worker.pipe for worker, _ in self._running])
            for worker, display in self._running:
                if worker.pipe not in ready:
                    continue
                message = worker.read()
                if isinstance(message, Outcome):
                    self._running.remove((worker, display))
                    worker.close()
                    self._free.append(worker.share)
                    return message
                show_message(display, message)

    def stop(self) -> None:
        """Interrupts all workers and waits until they have saved."""
        try:
            for worker, _ in self._running:
                worker.process.terminate()
            while self._running:
                self._wait()
        except KeyboardInterrupt:  # the user does not want to wait
            for worker, _ in self._running:
                worker.process.kill()


def split_machine(count: int) -> list[Share]:
    """Splits the machine into shares: cores evenly, and one GPU each if there are any.

    Several workers on one GPU split its memory; while one compiles, another computes.
    """
    import jax

    cores = core_numbers()
    machine = _in_a_child(local_machine)
    is_cpu = machine.kind == "cpu"
    if count > len(cores):
        raise ConfigError(f"--workers is {count}; this machine has {len(cores)} cores")
    cache: str | None = getattr(jax.config, "jax_compilation_cache_dir")  # noqa: B009
    visible = os.environ.get(_GPUS)
    gpus = visible.split(",") if visible else list(map(str, range(machine.devices)))
    on_each = math.ceil(count / len(gpus))
    shares = []
    for number in range(count):
        own = cores[number * len(cores) // count : (number + 1) * len(cores) // count]
        environment = () if is_cpu else ((_GPUS, gpus[number % len(gpus)]),)
        if not is_cpu and on_each > 1:
            environment += ((_GPU_MEMORY, f"{_GPU_SHARE / on_each:.3f}"),)
        shares.append(Share(tuple(own), len(own) if is_cpu else 1, environment, cache))
    return shares


def _in_a_child(function: Callable[[], Any]) -> Any:
    """Calls a function in a process that ends, so that no GPU stays in use."""
    with _SPAWN.Pool(1) as pool:
        return pool.apply(function)

"""Gymnasium environments on the host: `gymnasium:ID`, or `package.module:function`."""

import multiprocessing
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Int32

from sidequest.environments import gym_worker
from sidequest.environments.base import EnvironmentSpec, HostedGame
from sidequest.errors import EnvironmentFault
from sidequest.types import Timestep

_SPAWN = multiprocessing.get_context("spawn")  # JAX has threads, which a fork would lose


def make(name: str, environment: Any, sticky_actions: float) -> HostedGame:
    """Returns the game that this environment is one of; no process is started yet.

    Raises:
        BrokenRule: If an agent cannot play it.
    """
    _, layout = gym_worker.prepare(environment)
    spec = EnvironmentSpec(
        name=name,
        observation_shape=layout.shape,
        observation_dtype=np.dtype(layout.dtype),
        num_actions=layout.num_actions,
        maximum=layout.maximum,
        max_steps=layout.max_steps,
    )
    return HostedGame(partial(_build_groups, spec, sticky_actions), spec, renders=True)


def _build_groups(
    spec: EnvironmentSpec,
    sticky_actions: float,
    *,
    groups: int,
    streams: int,
    seed: int,
    threads: int = 1,
    renders: bool = False,
    progress: Callable[[int, int], None] = lambda built, total: None,
) -> list["GymGroup"]:
    """Starts a process for each group; `threads` are of no use to Python."""
    del threads
    words = np.random.SeedSequence(seed).generate_state(groups * streams, np.uint32)
    seeds = (words >> 1).reshape(groups, streams).tolist()
    built = [GymGroup(spec, sticky_actions, some, renders) for some in seeds]
    try:
        for number, group in enumerate(built, 1):
            group.wait()
            progress(number * streams, groups * streams)
    except BaseException:
        for group in built:
            group.close()
        raise
    return built


class GymGroup:
    """Environments in a process of their own; a `HostedEnvironment`."""

    def __init__(
        self, spec: EnvironmentSpec, sticky_actions: float, seeds: list[int], renders: bool
    ):
        self.spec = spec
        self._first: Timestep | None = None
        self._pipe, theirs = _SPAWN.Pipe()
        self._process = _SPAWN.Process(
            target=gym_worker.step_forever,
            args=(theirs, spec.name, sticky_actions, seeds, renders),
            daemon=True,
        )
        self._process.start()
        theirs.close()  # or its end would never be seen

    def wait(self) -> None:
        """Waits until the environments are made and reset."""
        self._first = Timestep(*self._read())

    def send(self, actions: Int32[np.ndarray, "B"]) -> None:
        """Passes one action to each environment and returns at once."""
        try:
            self._pipe.send(np.asarray(actions))
        except OSError:
            self._read()  # the process has ended, and may have said why

    def recv(self) -> Timestep:
        """Waits for the timestep [B] that follows the last `send`."""
        if self._first is not None:
            first, self._first = self._first, None
            return first
        return Timestep(*self._read())

    def render(self) -> np.ndarray | None:
        """Returns what the first environment paints of itself, if it does."""
        self._pipe.send(None)
        return self._read()

    def close(self) -> None:
        """Ends the process."""
        self._pipe.close()
        self._process.join(timeout=5.0)
        self._process.kill()
        self._process.join()

    def _read(self) -> Any:
        try:
            answer = self._pipe.recv()
        except (EOFError, OSError):
            self._process.join()
            answer = f"its process ended with exit code {self._process.exitcode}"
        if isinstance(answer, str):
            raise EnvironmentFault(f"{self.spec.name} failed: {answer}")
        return answer

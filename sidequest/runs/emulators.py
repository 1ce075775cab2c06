"""Emulators: how they are grouped, built, and watched for death and silence."""

import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import numpy as np

from sidequest.environments.base import EnvironmentSpec, HostedEnvironment, HostedGame
from sidequest.errors import ConfigError, EnvironmentFault, Exit, MachineError
from sidequest.records import available_cores
from sidequest.runs.display import Display
from sidequest.runs.process import write_stderr
from sidequest.runs.state import EVALUATION
from sidequest.types import Timestep

_Built = TypeVar("_Built")

NICENESS = 10
"""How much emulators lower their priority; any user may lower a priority."""

_FEWEST_GROUPS = 3
"""One arrives, one is acted on, one emulates."""
_MOST_GROUPS = 12
_ENOUGH_GROUPS = 4
"""So that one group is at work during a whole group step, whatever the others wait for."""

_LARGE = 96
"""Emulators of a group. A group step costs the control thread some milliseconds (to copy,
to dispatch, to fetch) whatever the size of the group, and in about that time 16 cores step
96 emulators. Smaller groups wait for the thread, and more of them only wait longer."""

_CHECKS, _CHECK_SECONDS = 300, 1.0
"""How often the watchdog checks a call before it gives up, and the seconds between."""


def choose_groups(environments: int) -> int:
    """Returns as many groups as can be large, or else as few as keep the loop going."""
    fitting = [n for n in range(_FEWEST_GROUPS, _MOST_GROUPS + 1) if environments % n == 0]
    if not fitting or environments < 1:
        raise ConfigError(
            f"acting.environments is {environments}; emulators run in {_FEWEST_GROUPS} to "
            f"{_MOST_GROUPS} groups of one size, so it must be a multiple of one of these "
            f"numbers"
        )
    enough = [n for n in fitting if n >= _ENOUGH_GROUPS]
    large = [n for n in enough if environments // n >= _LARGE]
    if large:
        return max(large)
    return _ENOUGH_GROUPS if _ENOUGH_GROUPS in fitting else min(fitting)


def choose_threads(groups: int) -> int:
    """Returns the threads of each group: together four a core, because half of the groups
    wait at any time, and so do the threads of a group that is nearly done."""
    return -(-4 * available_cores() // groups)


def build_groups(
    game: HostedGame,
    name: str,
    *,
    groups: int,
    environments: int,
    evaluators: int,
    seed: int,
    display: Display,
) -> tuple[list["Guarded"], "Guarded"]:
    """Builds groups of `environments` emulators together for training, and one to evaluate;
    shows how many are built."""
    size, total = environments // groups, environments + evaluators
    display.say(
        f"building {groups} groups of {size} emulators of {name}, and one of {evaluators} "
        f"to evaluate …"
    )

    def build(before: int, **how: int) -> list[Guarded]:
        def show(built: int, of: int) -> None:
            done = before + built
            display.count(f"built {done} of {total} emulators", done, total)

        built = build_politely(partial(game.build, **how, progress=show))
        return [Guarded(group, name) for group in built]

    threads = choose_threads(groups)
    training = build(0, groups=groups, environments=size, seed=seed, threads=threads)
    try:
        how = {"groups": 1, "environments": evaluators, "seed": seed + EVALUATION}
        (evaluator,) = build(environments, **how, threads=2)
    except BaseException:
        for group in training:
            group.close()
        raise
    return training, evaluator


def build_politely(build: Callable[[], _Built]) -> _Built:
    """Calls `build` in a thread of low priority, which the threads that it starts inherit:
    emulators keep every core busy, and while the control thread waits for a core, a whole
    group waits for its actions."""

    def start() -> _Built:
        if sys.platform == "linux":  # elsewhere a priority is that of the whole process
            thread = threading.get_native_id()
            own = os.getpriority(os.PRIO_PROCESS, thread)  # only root may raise it again
            os.setpriority(os.PRIO_PROCESS, thread, max(own, NICENESS))
        return build()

    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(start).result()


class Guarded:
    """A group of emulators whose death, or silence, ends in one line for the user.

    The call to an emulator that hangs never returns, so nothing can be raised. A thread
    checks every second whether the same call is still under way. It counts its checks
    instead of asking a clock: a process that was stopped for an hour has not waited.
    """

    def __init__(self, group: HostedEnvironment, name: str):
        self._group, self._name = group, name
        self.spec: EnvironmentSpec = group.spec
        self._calls = 0  # of `recv`, begun and ended: odd while one is under way
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def send(self, actions: np.ndarray) -> None:
        try:
            self._group.send(actions)
        except Exception as error:
            raise self._fault(error) from error

    def recv(self) -> Timestep:
        self._calls += 1
        try:
            return self._group.recv()
        except Exception as error:
            raise self._fault(error) from error
        finally:
            self._calls += 1

    def close(self) -> None:
        self._closed.set()
        self._thread.join()
        self._group.close()

    def _watch(self) -> None:
        silent = seen = 0
        while silent < _CHECKS:
            if self._closed.wait(_CHECK_SECONDS):
                return
            silent = silent + 1 if self._calls % 2 and self._calls == seen else 0
            seen = self._calls
        write_stderr(
            f"an emulator of {self._name} has not answered for "
            f"{_CHECKS * _CHECK_SECONDS:.0f} seconds; the last checkpoint is untouched"
        )
        # The thread that waits for it cannot be reached, and so nothing can be closed.
        os._exit(Exit.MACHINE)

    def _fault(self, error: Exception) -> MachineError:
        fault = f"an emulator of {self._name} died ({type(error).__name__}: {error})"
        if isinstance(error, EnvironmentFault):
            fault = str(error)
        return MachineError(f"{fault}; the last checkpoint is untouched")

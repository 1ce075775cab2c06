"""Notices that an emulator dies or hangs, and tells it in one sentence.

The call to one that hangs never returns, so that nothing can be raised. A thread looks
every second whether the same call is still under way. It counts its looks instead of asking
a clock: a process that was stopped for an hour has not waited that long.
"""

import os
import threading
from collections.abc import Callable

import numpy as np

from sidequest.environments.base import EnvironmentSpec, HostedEnvironment
from sidequest.errors import Exit, MachineError
from sidequest.runs.process import write_stderr
from sidequest.types import Timestep

LOOKS, SECONDS = 300, 1.0
"""How often it looks before it gives up, and how long it waits in between."""


class Watchdog:
    """Calls `give_up`, from a thread of its own, if a call takes too long."""

    def __init__(
        self, give_up: Callable[[], None], looks: int = LOOKS, seconds: float = SECONDS
    ):
        self._calls = 0
        self._waiting = False
        self._over = threading.Event()
        arguments = give_up, looks, seconds
        self._thread = threading.Thread(target=self._look, args=arguments, daemon=True)
        self._thread.start()

    def begin(self) -> None:
        """A call begins."""
        self._calls += 1
        self._waiting = True

    def end(self) -> None:
        """It has returned."""
        self._waiting = False

    def close(self) -> None:
        self._over.set()
        self._thread.join()

    def _look(self, give_up: Callable[[], None], looks: int, seconds: float) -> None:
        seen, silent = 0, 0
        while silent < looks:
            if self._over.wait(seconds):
                return
            silent = silent + 1 if self._waiting and self._calls == seen else 0
            seen = self._calls
        give_up()


class Guarded:
    """A group of emulators whose death, or silence, is told in one sentence."""

    def __init__(self, group: HostedEnvironment, name: str):
        self.group, self.name = group, name
        self.spec: EnvironmentSpec = group.spec
        self._watchdog = Watchdog(self._give_up)

    def send(self, actions: np.ndarray) -> None:
        try:
            self.group.send(actions)
        except Exception as error:
            raise self._fault(error) from error

    def recv(self) -> Timestep:
        self._watchdog.begin()
        try:
            return self.group.recv()
        except Exception as error:
            raise self._fault(error) from error
        finally:
            self._watchdog.end()

    def close(self) -> None:
        self._watchdog.close()
        self.group.close()

    def _give_up(self) -> None:
        write_stderr(
            f"an emulator of {self.name} has not answered for {LOOKS * SECONDS:.0f} "
            f"seconds; the last checkpoint is untouched"
        )
        # The thread that waits for it cannot be reached, and so nothing can be closed.
        os._exit(Exit.MACHINE)

    def _fault(self, error: Exception) -> MachineError:
        return MachineError(
            f"an emulator of {self.name} died ({type(error).__name__}: {error}); the last "
            f"checkpoint is untouched"
        )

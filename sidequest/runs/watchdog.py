"""Notices that an emulator hangs: its call never returns, so that nothing can be raised.

A thread looks every second whether the same call is still under way. It counts its looks
instead of asking a clock: a process that was stopped for an hour has not waited that long.
"""

import threading
from collections.abc import Callable

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

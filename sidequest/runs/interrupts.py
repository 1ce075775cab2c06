"""SIGTERM and Ctrl-C: the first asks a run to save and end, the second ends it at once.

Python runs its own signal handlers between two of its instructions, and a compilation or a
chunk of rounds is one instruction of many seconds. So a thread listens: the interpreter
writes the number of every signal to a pipe at the moment it arrives.
"""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable
from types import TracebackType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
PROMISE = "saving after this block; once more leaves at once"
ONE_SIGNAL = 1.0
"""Seconds in which two signals are one: `timeout` tells a process, and then its group."""


class Interrupts:
    """While it is open, signals are noted; `requested` is polled between blocks."""

    def __init__(self, say: Callable[[str], None] | None = None):
        """Args:
        say: Tells people that the first signal was heard, from a thread; a display that
            redraws its lines would write over what it has not said itself.
        """
        self.requested: str | None = None
        """The name of the signal that came, if one did."""
        self._say = say or tell
        self._before: dict[signal.Signals, signal._HANDLER] = {}

    def __enter__(self) -> "Interrupts":
        if threading.current_thread() is not threading.main_thread():
            return self  # only the main thread may say what signals do
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._wakeup = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        for number in SIGNALS:
            self._before[number] = signal.signal(number, lambda *_: None)
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._before:
            return
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup)
        self._before.clear()
        os.close(self._write)  # ends the listener
        self._listener.join()
        os.close(self._read)

    def _listen(self) -> None:
        asked = 0.0
        while arrived := os.read(self._read, 1):
            if arrived[0] not in SIGNALS:
                continue
            if self.requested and time.monotonic() - asked < ONE_SIGNAL:
                continue
            if self.requested:
                tell("left at once; the last checkpoint is untouched")
                os._exit(128 + arrived[0])
            self.requested, asked = signal.Signals(arrived[0]).name, time.monotonic()
            with contextlib.suppress(Exception):  # whatever it is, listening goes on
                self._say(f"{self.requested}: {PROMISE}")


def tell(text: str) -> None:
    """To standard error, from a thread, and without the locks that printing takes."""
    # A panel has hidden the cursor, and will not show it if the process ends here.
    cursor = "\x1b[?25h" if os.isatty(2) else ""
    with contextlib.suppress(OSError):
        os.write(2, f"{cursor}\n{text}\n".encode())

"""How far a command is, on standard error: a line rewritten, or one now and then."""

import sys
import time

ON_TERMINAL, IN_LOG = 0.2, 10.0  # seconds between two lines


class Meter:
    """Call it as often as you like; it speaks when it is time."""

    def __init__(self):
        self._rewrites = sys.stderr.isatty()
        self._said = time.monotonic()
        self._is_open = False

    def __call__(self, text: str) -> None:
        now = time.monotonic()
        if now - self._said >= (ON_TERMINAL if self._rewrites else IN_LOG):
            self._said = now
            self._is_open = self._rewrites
            shown = f"\r\x1b[K{text}" if self._rewrites else f"{text}\n"
            print(shown, end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Takes a rewritten line away, so that others can write."""
        if self._is_open:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._is_open = False

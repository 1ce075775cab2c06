"""Starts emulators so that they never keep the thread waiting that controls them."""

import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Built = TypeVar("Built")

NICENESS = 10
"""How far emulators stand back; any user may lower a priority."""


def build_politely(build: Callable[[], Built]) -> Built:
    """Calls `build` in a thread of low priority, which the threads that it starts inherit.

    Emulators keep every core busy. The control thread has little to do, but while it waits
    for a core a whole group waits for its actions.
    """

    def start() -> Built:
        if sys.platform == "linux":  # elsewhere a priority is that of the whole process
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
        return build()

    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(start).result()

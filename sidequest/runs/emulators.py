"""Starts emulators, in groups that never keep the thread waiting that controls them."""

import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from sidequest.errors import ConfigError
from sidequest.records import available_cores
from sidequest.runs.display import duration
from sidequest.runs.hosted import FEWEST_GROUPS
from sidequest.runs.spec import Display

Built = TypeVar("Built")

NICENESS = 10
"""How far emulators stand back; any user may lower a priority."""

MOST_GROUPS = 12
ENOUGH_GROUPS = 4
"""So that one group is at work during a whole visit, whatever the others wait for."""

LARGE = 96
"""Emulators of a group. A visit costs the control thread some milliseconds (to copy, to
dispatch, to fetch) whatever the size of the group, and in about that time 16 cores step
96 emulators. Smaller groups wait for the thread, and more of them only wait longer."""


def choose_groups(streams: int) -> int:
    """As many groups as can be large; if they cannot, as few as keep the loop going."""
    fitting = [n for n in range(FEWEST_GROUPS, MOST_GROUPS + 1) if streams % n == 0]
    if not fitting or streams < 1:
        raise ConfigError(
            f"acting.streams is {streams}; emulators go in {FEWEST_GROUPS} to "
            f"{MOST_GROUPS} groups of one size, so it is a multiple of one of these numbers"
        )
    enough = [n for n in fitting if n >= ENOUGH_GROUPS]
    large = [n for n in enough if streams // n >= LARGE]
    if large:
        return max(large)
    return ENOUGH_GROUPS if ENOUGH_GROUPS in fitting else min(fitting)


def choose_threads(groups: int) -> int:
    """Of each group; together four a core, because half of the groups wait at any time, and
    so do the threads of a group that is nearly done."""
    return -(-4 * available_cores() // groups)


class Construction:
    """Tells a display how many emulators there are, and how long the others will take."""

    def __init__(self, display: Display, total: int):
        self._display, self._total = display, total
        self._built = 0
        self._began = time.perf_counter()

    def part(self) -> Callable[[int, int], None]:
        """The `progress` of the next call to a game's `build`."""
        before = self._built
        return lambda built, of: self._tell(before + built)

    def _tell(self, built: int) -> None:
        if 0 < built == self._built:
            return
        self._built = built
        elapsed = time.perf_counter() - self._began
        text = f"built {built} of {self._total} emulators"
        if 0 < built < self._total:
            left = elapsed / built * (self._total - built)
            text += f", {duration(left)} left"
        elif built:
            text += f" in {duration(elapsed)}"
        self._display.count(text, built, self._total)


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

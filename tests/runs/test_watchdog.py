"""A call that does not return is noticed; calls that do, however many, are not."""

import threading
import time

from sidequest.runs.emulators import Watchdog


def test_a_call_that_does_not_return():
    gave_up = threading.Event()
    dog = Watchdog(gave_up.set, checks=3, seconds=0.01)
    dog.begin()
    assert gave_up.wait()
    dog.close()


def test_many_calls_and_none_at_all():
    gave_up = threading.Event()
    dog = Watchdog(gave_up.set, checks=300, seconds=0.001)
    end = time.monotonic() + 0.6
    while time.monotonic() < end:  # always waiting, but never for the same call
        dog.begin()
        time.sleep(0.001)
        dog.end()
    time.sleep(0.6)
    dog.close()
    assert not gave_up.is_set()

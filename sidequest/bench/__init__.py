"""How fast it is. Every benchmark measures what it compares in the same run."""

import importlib.util
import time
from collections.abc import Callable
from typing import Any

from sidequest.records import describe_machine


def best_seconds(*calls: Callable[[], Any], repeats: int = 10) -> list[float]:
    """Returns the least wall time of each call, after one to warm up.

    The calls alternate, so that a busy moment of the machine does not fall on one alone.
    """
    import jax

    times: list[list[float]] = [[] for _ in calls]
    for repeat in range(repeats + 1):
        for call, seen in zip(calls, times, strict=True):
            begin = time.perf_counter()
            jax.block_until_ready(call())
            if repeat:
                seen.append(time.perf_counter() - begin)
    return [min(seen) for seen in times]


def machine() -> dict[str, Any]:
    """Returns what the figures were measured on; some of them need no JAX."""
    if not importlib.util.find_spec("jax"):
        return describe_machine()
    import jax

    device = f"{len(jax.devices())} x {jax.devices()[0].device_kind}"
    return {"device": device, **describe_machine()}

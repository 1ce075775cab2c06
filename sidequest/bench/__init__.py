"""How fast it is. Every benchmark measures what it compares in the same run."""

import platform
import time
from collections.abc import Callable
from typing import Any

from sidequest.records import available_cores


def best_seconds(*calls: Callable[[], Any], repeats: int = 10) -> list[float]:
    """Least wall time of each call, after one to warm up; waits for JAX's results.

    The calls take turns, so that a busy moment of the machine does not fall on one alone.
    """
    import jax

    times: list[list[float]] = [[] for _ in calls]
    for round_number in range(repeats + 1):
        for call, seen in zip(calls, times, strict=True):
            begin = time.perf_counter()
            jax.block_until_ready(call())
            if round_number:
                seen.append(time.perf_counter() - begin)
    return [min(seen) for seen in times]


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    from importlib.metadata import version

    import jax

    device = jax.devices()[0]
    return {
        "device": device.device_kind,
        "devices": len(jax.devices()),
        "cores": available_cores(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "jax": version("jax"),
        "numpy": version("numpy"),
    }

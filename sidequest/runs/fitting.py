"""Whether runs fit into the memory that there is; told before anything is built.

What a run holds all the time is known from shapes alone: above all replay. What programs
need while they work is not, so a run that is let through may still be too large.
"""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import jax

from sidequest.config import Config
from sidequest.environments.base import CompiledEnvironment, HostedGame
from sidequest.errors import ConfigError
from sidequest.runs.assembly import assemble
from sidequest.runs.members import devices_for, member_of
from sidequest.runs.memory import frame_bytes, free_on_device, nbytes, tiled
from sidequest.runs.ondevice import make_loop
from sidequest.runs.pace import pace_of
from sidequest.runs.resume_hosted import HOST_COPY, like_saved
from sidequest.runs.spec import RunSpec
from sidequest.runs.state import individuals

MEMORY, GROUP = Path("/proc/meminfo"), Path("/proc/self/cgroup")
GROUPS = Path("/sys/fs/cgroup")


class Holding(NamedTuple):
    """What runs that go side by side hold, in bytes."""

    runs: int
    state: int
    """Of one run: all that goes into a checkpoint."""
    replay: int
    """The part of it that can be made smaller, by `advice`."""
    copy: int
    """Of all runs: what is copied to the host while a checkpoint is written."""
    devices: int
    """That share the runs."""
    advice: Callable[[float], str]
    """What to type for a replay of so many bytes; nothing if it cannot be as small."""


class Place(NamedTuple):
    """Where runs lie."""

    name: str
    free: int | None
    """None: nobody says."""
    needed: int
    replays: int
    """How many runs' replays lie there, copies among them."""


def of_population(
    runs: Sequence[RunSpec], environment: CompiledEnvironment, config: Config
) -> Holding:
    """Runs of a JAX-native game, side by side."""
    parts = assemble(config, environment.spec, [run.variant for run in runs])
    loop, first = make_loop(parts, environment, pace_of(config)), runs[:1]
    # Shapes alone: even what makes one run differ from another is not computed.
    one = jax.eval_shape(lambda: member_of(individuals(first, parts, config), 0))
    like = jax.eval_shape(loop.init, one)
    state, replay = nbytes(like), nbytes(like.replay)

    def advice(size: float) -> str:
        fitting = round_down(config.replay.capacity * size / replay)
        return f"--set replay.capacity={fitting}" if fitting else ""

    return Holding(
        runs=len(runs),
        state=state,
        replay=replay,
        copy=len(runs) * state,
        devices=devices_for(len(runs)).size,
        advice=advice,
    )


def of_hosted(
    run: RunSpec, game: HostedGame, config: Config, groups: int, memory: int
) -> Holding:
    """One run on emulators, with so many bytes for the frames in replay."""
    parts = assemble(config, game.spec, [run.variant], tiled(memory))
    one = jax.eval_shape(lambda: member_of(individuals([run], parts, config), 0))
    like = like_saved(parts, one, groups)
    state, replay = nbytes(like), like["member"].replay
    pointers = nbytes(replay.contents.pointers)

    def advice(size: float) -> str:
        if size > 2 * pointers:
            return f"--replay-memory {gigabytes(size - 0.05e9)}".replace(" GB", "GB")
        # Pointers go by observations; so many fit whatever the pictures are.
        each = nbytes(parts.step_example.observation) + pointers / config.replay.capacity
        fitting = round_down(size / each)
        return f"--set replay.capacity={fitting}" if fitting else ""

    return Holding(
        runs=1,
        state=state,
        replay=frame_bytes(replay),
        copy=min(state, HOST_COPY),
        devices=1,
        advice=advice,
    )


def refuse_too_large(holding: Holding) -> None:
    """Raises `ConfigError` if it cannot fit."""
    on_device, on_host = free_on_device(), free_on_host()
    copied = holding.copy // holding.state
    if on_device is None:  # the device is this machine's processor
        whole = holding.runs * holding.state + holding.copy
        places = [Place("memory", on_host, whole, holding.runs + copied)]
    else:
        share = -(-holding.runs // holding.devices)
        places = [
            Place("a device's memory", on_device, share * holding.state, share),
            Place("memory for checkpoints", on_host, holding.copy, max(copied, 1)),
        ]
    for place in places:
        if place.free is not None and place.needed > place.free:
            raise ConfigError(refusal(holding, place, place.free))


def refusal(holding: Holding, place: Place, free: int) -> str:
    """One line: what is needed, what there is, what would fit."""
    size = max(0.0, holding.replay - (place.needed - free) / place.replays)
    fewer = int(holding.runs * free / place.needed)
    some = f"{fewer} at a time" if 0 < fewer < holding.runs else ""
    ways = " or ".join(filter(None, [holding.advice(size), some]))
    several = holding.runs > 1
    return (
        f"{f'{holding.runs} runs need' if several else 'this run needs'} "
        f"{gigabytes(place.needed)} or more (replay takes {gigabytes(holding.replay)}"
        f"{' of each' if several else ''}), and {gigabytes(free)} of {place.name} are "
        f"free; {ways or 'nothing but a smaller network or fewer streams'} would fit"
    )


def free_on_host() -> int | None:
    """Bytes of memory that this process can still have; None if nobody says."""
    free = [*free_in_groups()]
    if MEMORY.exists():
        free.append(1024 * int(read_pairs(MEMORY)["MemAvailable:"]))
    elif "SC_PHYS_PAGES" in getattr(os, "sysconf_names", ()):
        free.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(free, default=None)


def free_in_groups() -> Iterator[int]:
    """What is left to each control group that this process is in, as in a container."""
    for line in GROUP.read_text().splitlines() if GROUP.exists() else ():
        _, kinds, path = line.split(":", 2)
        if kinds not in ("", "memory"):
            continue
        # Version 2 of Linux's control groups has no kinds, and other names.
        limit, used, files = (
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            if kinds
            else ("memory.max", "memory.current", "inactive_file")
        )
        own = GROUPS / kinds / path.lstrip("/")
        for folder in (own, *own.parents):
            with contextlib.suppress(OSError, ValueError, KeyError):
                most = int((folder / limit).read_text())  # "max" is no number: no limit
                # Files that were read lately count as used, and go when room is needed.
                cached = int(read_pairs(folder / "memory.stat")[files])
                yield max(0, most - int((folder / used).read_text()) + cached)


def read_pairs(path: Path) -> dict[str, str]:
    """The first two words of each line."""
    pairs = (line.split()[:2] for line in path.read_text().splitlines())
    return {name: value for name, value in pairs}


def round_down(number: float) -> int:
    """To two digits: 123456.7 -> 120000."""
    number = int(number)
    power = 10 ** max(0, len(str(number)) - 2)
    return number // power * power


def gigabytes(size: float) -> str:
    return f"{size / 1e9:,.1f} GB"

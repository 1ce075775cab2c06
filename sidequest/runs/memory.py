"""How much memory runs need and may use, from the shapes of their arrays alone.

On emulators, replay gets what a device has left beside the agent (the learner, its copies,
what replay keeps beside frames) and a reserve for work in progress. Everywhere, runs that
cannot fit are refused before anything is created; what programs need while they work is not
known then, so a run that is accepted may still be too large.
"""

import contextlib
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from sidequest.config import Config
from sidequest.environments.base import EnvironmentSpec
from sidequest.errors import ConfigError
from sidequest.replay.replay import MakeStore, ReplayState, raw_store
from sidequest.replay.tiles import TILE, make_tiling, tile_store
from sidequest.runs.build import Agent, build_agent
from sidequest.runs.state import RunState, is_key
from sidequest.switching.variants import Variant

_BLOCKS_AT_WORK = 4
"""Reserve, in blocks of raw frames of all environments: one fills, and adding it to replay
takes 2.2 more, by XLA's analysis of the program at the paper's sizes."""

_BATCHES_AT_WORK = 18
"""Reserve, in batches of raw frames: one is trained on, the next is drawn, and an update
takes 13.6 more, or 14.8 with XI, by the same analysis. It was made for a CPU: an
accelerator needs less for activations in bfloat16, and some to try convolutions out."""

_LEARNERS = 3
"""Reserve, in sizes of the learner, which holds four networks: its own, the target, two
moments of Adam. Actors have one more, the evaluator one for each emulator."""

_COMPILED = 1_100_000_000
"""Bytes of a process that has compiled a training loop, without the runs. Measured in a
control group: 1, 8 and 40 runs of `small` on minatar:breakout had peaks of 1.1 to 1.3, 2.3
and 6.6 GB, which is about this and three times their states."""

_WITHOUT_LIMIT = 2 * 10**9
"""Bytes for replay on a device that does not report its memory, such as a CPU."""

_MEASURED = 0.07, 0.12
"""Smallest and largest share of a raw frame's bytes that one took in replay: 7 to 12 kB of
100.8 kB, pointers and tiles, on the paper's seven games."""

_ENDLESS = 2**62
_MEMINFO, _STATUS = Path("/proc/meminfo"), Path("/proc/self/status")
_GROUP = Path("/proc/self/cgroup")
_GROUPS = Path("/sys/fs/cgroup")
_GROUP_FILES = {
    "": ("memory.max", "memory.current", "inactive_file"),
    "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}
"""Limit, use and name of reclaimable bytes, in versions 2 and 1 of control groups."""


def tiled(memory: int | None) -> MakeStore:
    """Returns a replay store that keeps frames as tiles, in `memory` bytes; None: one that
    keeps observations as they are."""
    if memory is None:
        return raw_store
    return tile_store(lambda step: step.observation, memory=memory)


def replay_memory(
    config: Config,
    spec: EnvironmentSpec,
    variants: Sequence[Variant],
    requested: int | None,
) -> int | None:
    """Returns the bytes for the frames in replay: those requested, or those that the device
    has left, and never more than the capacity can use. Variants share one number; it is
    None where observations are no frames that tiles divide."""
    shape = spec.observation_shape
    is_image = spec.observation_dtype == np.uint8 and len(shape) == 3
    if not is_image or shape[0] % TILE[0] or shape[1] % TILE[1]:
        if requested is not None:
            raise ConfigError(
                f"--replay-memory is for frames that tiles divide, not for observations of "
                f"shape {shape}: use --set replay.capacity"
            )
        return None
    one_of_each = {variant.heads: variant for variant in variants}.values()
    return min(_memory_for(config, spec, variant, requested) for variant in one_of_each)


def _memory_for(
    config: Config, spec: EnvironmentSpec, variant: Variant, requested: int | None
) -> int:
    agent = build_agent(config, spec, [variant], tiled(_ENDLESS))
    replay = jax.eval_shape(agent.replay.init)
    given = _left_for_replay(agent, replay) if requested is None else requested
    memory = min(given, _frame_bytes(replay))
    try:
        make_tiling(agent.step_example.observation, agent.replay.ring, memory=memory)
    except ValueError as error:
        raise ConfigError(
            f"replay has {memory / 1e9:.3g} GB: {error}. Use more --replay-memory, or less "
            f"replay.capacity, acting.environments or learning.batch_size"
        ) from error
    return memory


def _left_for_replay(agent: Agent, replay: ReplayState) -> int:
    """Returns the bytes that the device has left for pointers and tiles."""
    free = _free_on_device()
    if free is None:
        return _WITHOUT_LIMIT
    learner = jax.eval_shape(agent.learner.init, jax.random.key(0))
    beside = _LEARNERS * nbytes(learner) + nbytes(replay) - _frame_bytes(replay)
    ring = agent.replay.ring
    block = ring.block_length * ring.streams
    batch = agent.batch_size * ring.item_length
    frames = _BLOCKS_AT_WORK * block + _BATCHES_AT_WORK * batch
    reserve = frames * nbytes(agent.step_example.observation)
    return max(0, free - beside - reserve)


def describe_replay(agent: Agent, memory: int | None) -> str:
    """Returns how many observations replay may hold in the memory that it was given."""
    ring = agent.replay.ring
    block = ring.streams * ring.block_length
    capacity = ring.blocks * block
    if memory is None:
        return f"replay may hold {capacity:,} observations"
    contents = jax.eval_shape(agent.replay.init).contents
    pointers = contents.pointers.shape[-1] * contents.pointers.dtype.itemsize
    raw = nbytes(agent.step_example.observation)
    sizes = [share * raw for share in _MEASURED]  # of one observation, tiles and pointers
    tiles = [max(1, math.ceil((size - pointers) * block)) for size in sizes]  # of a block
    fit = [min(capacity, nbytes(contents.pool) // each * block) for each in tiles]
    about = " to ".join(f"{count:,}" for count in sorted(set(fit)))
    low, high = (f"{size / 1e3:.2g}" for size in sizes)
    return (
        f"replay may take {memory / 1e9:.1f} GB: about {about} observations at the "
        f"measured {low} to {high} kB each"
    )


def refuse_too_large(
    state: RunState, runs: int, *, devices: int = 1, host_copy: int | None = None
) -> None:
    """Raises `ConfigError` if runs with a state of these shapes, which train side by side
    on `devices` accelerators, need more memory than is free. `host_copy` is the largest
    copy of a run that a checkpoint makes on the host; None: all of it."""
    size = nbytes(state)
    copies = runs * size if host_copy is None else min(size, host_copy)
    on_device, on_host = _free_on_device(), _free_on_host()
    compiling = max(0, _COMPILED - _own_memory())
    if on_device is None:  # the device is this machine's processor
        at_work = runs * size if host_copy is None else 0
        places = [("memory", on_host, compiling, runs * size + at_work + copies)]
    else:
        places = [
            ("a device's memory", on_device, 0, -(-runs // devices) * size),
            ("memory for checkpoints", on_host, compiling, copies),
        ]
    for name, free, fixed, growing in places:
        needed = fixed + growing
        if free is None or needed <= free:
            continue
        fewer = int(runs * (free - fixed) / growing)
        advice = "use less --replay-memory or replay.capacity"
        if free <= fixed:
            advice = f"compiling alone takes {fixed / 1e9:.1f} GB"
        elif 0 < fewer < runs:
            advice = f"{fewer} at a time would fit"
        who, each = (
            (f"{runs} runs need", " of each") if runs > 1 else ("this run needs", "")
        )
        raise ConfigError(
            f"{who} {needed / 1e9:,.1f} GB or more (replay takes "
            f"{nbytes(state.replay) / 1e9:,.1f} GB{each}), and {free / 1e9:,.1f} GB of "
            f"{name} are free; {advice}"
        )


def _free_on_device() -> int | None:
    """Returns the bytes that one accelerator has left; None if it does not report them."""
    stats = jax.local_devices()[0].memory_stats() or {}
    limit = stats.get("bytes_limit")
    return limit - stats.get("bytes_in_use", 0) if limit else None


def _free_on_host() -> int | None:
    """Returns the bytes of memory that this process can still use; None if unknown."""
    free = [*_free_in_control_groups()]
    if _MEMINFO.exists():
        free.append(1024 * int(_read_pairs(_MEMINFO)["MemAvailable:"]))
    return min(free, default=None)


def _own_memory() -> int:
    """Returns the bytes of this process, files that it maps apart; 0 if unknown."""
    return 1024 * int(_read_pairs(_STATUS)["RssAnon:"]) if _STATUS.exists() else 0


def _free_in_control_groups() -> Iterator[int]:
    """Yields what each control group of this process has left, as in a container."""
    for line in _GROUP.read_text().splitlines() if _GROUP.exists() else ():
        _, kind, path = line.split(":", 2)
        if kind not in _GROUP_FILES:
            continue
        limit, used, cached = _GROUP_FILES[kind]
        own = _GROUPS / kind / path.lstrip("/")
        for folder in (own, *own.parents):
            # A group without a limit has no such file, or "max" in it.
            with contextlib.suppress(OSError, ValueError, KeyError):
                left = int((folder / limit).read_text()) - int((folder / used).read_text())
                # Files that were read lately count as used, but can be dropped.
                yield max(0, left + int(_read_pairs(folder / "memory.stat")[cached]))


def _read_pairs(path: Path) -> dict[str, str]:
    """Returns the first two words of each line."""
    lines = path.read_text().splitlines()
    return dict(line.split()[:2] for line in lines if len(line.split()) > 1)


def _frame_bytes(replay: ReplayState) -> int:
    """Returns the size of pointers and tiles."""
    return nbytes((replay.contents.pool, replay.contents.pointers))


def nbytes(tree: Any) -> int:
    """Returns the bytes of arrays, or of their shapes, without the small random keys."""
    leaves = (leaf for leaf in jax.tree.leaves(tree) if not is_key(leaf))
    return sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)

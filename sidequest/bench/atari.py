"""The hosted runtime on one game: emulators alone, then the agent part by part.

All phases run on the same emulators and threads, one after the other. The emulators alone,
with random actions, are measured just before and just after the whole agent, and their mean
counts: how fast they are depends on where in their games they are. An update and its parts
are timed alone, with nothing else running.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from sidequest.bench import best_seconds, machine
from sidequest.config import PAPER, Config, change
from sidequest.environments import atari
from sidequest.records import available_cores
from sidequest.replay.tiles import tile_report, tile_store
from sidequest.runs.build import build_agent
from sidequest.runs.emulators import build_politely, choose_groups, choose_threads
from sidequest.runs.hosted import HostedRun
from sidequest.runs.state import run_arrays
from sidequest.switching.metacontroller import UPDATE_CHUNK, Episodes
from sidequest.switching.variants import parse

INFORMED = "XU-intra(10,informed,p*,X)"
EPSILON_GREEDY = "XU-step-level-0.01"
_INTRINSIC = "XI-intra(10,informed,p*,X)"
_NEVER = 10**9  # blocks of warm-up
_MEMORY_SHARE = 0.6  # of what JAX may use of the device, for replay
_FALLBACK_MEMORY = 2 * 10**9  # bytes, on a device that does not say how much it has


def measure(
    game: str = "frostbite",
    *,
    emulators: int | None = None,
    seconds: float = 10.0,
    memory: int | None = None,
    config: Config = PAPER,
    variants: bool = True,
    say: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Returns frames a second of each phase, and milliseconds of each program.

    Args:
        emulators: Emulators of all groups together; by default 96 a core, at most 1,536,
            with which the groups in flight keep 16 cores busy.
        seconds: Spent on each phase, without compiling and building.
        memory: Bytes for replay; by default 60% of what JAX may use of the device.
        config: Settings; the number of emulators and the warm-up are replaced.
        variants: Whether to compare variants too.
    """
    emulators = emulators or 96 * min(available_cores(), 16)
    config = change(config, **{"acting.environments": emulators, "replay.warm_up": 0})
    groups = choose_groups(emulators)
    threads = choose_threads(groups)
    atari_game = atari.make(game)
    say(f"building {emulators} emulators")
    built = build_politely(
        partial(
            atari_game.build,
            groups=groups,
            environments=emulators // groups,
            seed=0,
            threads=threads,
        )
    )
    limit = (jax.devices()[0].memory_stats() or {}).get("bytes_limit")
    memory = memory or (int(_MEMORY_SHARE * limit) if limit else _FALLBACK_MEMORY)
    store = tile_store(lambda step: step.observation, memory=memory)

    def make_loop(*names: str) -> HostedRun:
        compared = [parse(name) for name in names]
        return HostedRun(build_agent(config, atari_game.spec, compared, store), built)

    loop = make_loop(INFORMED, EPSILON_GREEDY)
    clock = _Clock(atari_game.spec.frames_per_step * emulators, seconds, say)
    figures = _measure_phases(loop, clock)
    # Memory first: to time adding a block, the same one is added many times.
    figures |= _measure_memory(loop) | _measure_programs(loop)
    if variants:
        # In both orders, so that emulators that get slower or faster favour neither.
        order = (EPSILON_GREEDY, INFORMED, INFORMED, EPSILON_GREEDY)
        rates = [(name, _measure_learning(loop, name, name, clock)) for name in order]
        loop.release()
        del loop.state
        loop = make_loop(_INTRINSIC)
        intrinsic = _measure_learning(loop, _INTRINSIC, _INTRINSIC, clock)
        figures["variants"] = compare_variants([*rates, (_INTRINSIC, intrinsic)])
    for group in built:
        group.close()
    setting = {"game": game, "emulators": emulators, "groups": groups, "threads": threads}
    return figures | setting | {"machine": machine()}


class _Clock(NamedTuple):
    """Measures frames a second of a repeated call."""

    frames: int
    """Frames of all emulators together in one step."""
    seconds: float
    say: Callable[[str], None]

    def rate(self, name: str, repeat: Callable[[], Any], steps: int) -> float:
        """Repeats a call that makes `steps` steps of all emulators. The first four are not
        timed: programs are compiled, and the first updates wait for three blocks."""
        for _ in range(4):
            repeat()
        begin, times = time.perf_counter(), 0
        while (elapsed := time.perf_counter() - begin) < self.seconds or not times:
            repeat()
            times += 1
        rate = times * steps * self.frames / elapsed
        self.say(f"{name}: {rate:,.0f} frames/s")
        return rate


def _measure_phases(loop: HostedRun, clock: _Clock) -> dict[str, Any]:
    """Measures the emulators alone just before and just after the agent plays on them."""
    rng = np.random.default_rng(0)
    arrays = run_arrays(parse(INFORMED), 0, loop.agent)

    def step_groups() -> None:
        for group in range(len(loop.groups)):
            loop.step_group(group)

    def step_alone() -> None:
        for group in loop.groups:
            count = len(group.recv().reward)
            group.send(rng.integers(group.spec.num_actions, size=count, dtype=np.int32))

    loop.start(arrays)
    _compile_rare(loop)
    acting = clock.rate("acting", step_groups, 1)
    loop.start(arrays)
    pace, loop.pace = loop.pace, loop.pace._replace(warm_up=_NEVER)
    replay = clock.rate("replay", loop.advance, loop.agent.block_length)
    loop.release()
    before = clock.rate("emulators alone", step_alone, 1)
    loop.pace = pace
    learning = _measure_learning(loop, INFORMED, "learning", clock)
    loop.release()
    after = clock.rate("emulators alone", step_alone, 1)
    alone = (before + after) / 2
    return {
        "emulators_alone": alone,
        "emulators_alone_each": [before, after],
        "acting": acting,
        "replay": replay,
        "learning": learning,
        "learning_of_emulators_alone": learning / alone,
    }


def _compile_rare(loop: HostedRun) -> None:
    """Compiles what is first needed when an episode ends, or when actors sync parameters
    after ten blocks: otherwise it would be compiled in the middle of a phase."""
    _, records = jax.device_get(loop.block.contents())
    columns = records.choices, records.summary.episode_return, records.summary.length
    nothing = Episodes(
        *(np.zeros((UPDATE_CHUNK, *leaf.shape[2:]), leaf.dtype) for leaf in columns)
    )
    state = loop.state
    jax.block_until_ready(loop.programs.sync_parameters(state.learner, state.meta))
    meta = loop.programs.update_bandits(state.meta, nothing, np.zeros(UPDATE_CHUNK, bool))
    loop.state = state._replace(meta=meta)


def _measure_learning(loop: HostedRun, variant: str, name: str, clock: _Clock) -> float:
    """Measures the whole agent with a variant, from an empty replay on."""
    loop.start(run_arrays(parse(variant), 0, loop.agent))
    return clock.rate(name, loop.advance, loop.agent.block_length)


def compare_variants(rates: Sequence[tuple[str, float]]) -> dict[str, dict[str, Any]]:
    """Returns the mean of each variant's rates, and its share of epsilon-greedy's."""
    each: dict[str, list[float]] = {}
    for name, rate in rates:
        each.setdefault(name, []).append(rate)
    means = {name: float(np.mean(found)) for name, found in each.items()}
    return {
        name: {
            "learning": mean,
            "learning_each": each[name],
            "of_epsilon_greedy": mean / means[EPSILON_GREEDY],
        }
        for name, mean in means.items()
    }


def _measure_programs(loop: HostedRun) -> dict[str, float]:
    """Returns milliseconds of adding a block, sampling a batch, and learning from it.

    Ten calls in a row, as the device would do them with other work before and after.
    """
    block, metrics, batch = loop.block, loop.metrics, loop.sample()

    def add() -> Any:
        loop.state, _ = loop.programs.finish_block(loop.state, block, metrics)
        return loop.state.replay.added

    def learn() -> Any:
        loop.learn(batch)
        return loop.state.learner.updates

    def milliseconds(call: Callable[[], Any]) -> float:
        seconds = best_seconds(lambda: [call() for _ in range(10)][-1], repeats=3)
        return 1e3 * seconds[0] / 10

    return {
        "add_ms": milliseconds(add),
        "sample_ms": milliseconds(lambda: loop.sample().weights),
        "update_ms": milliseconds(learn),
    }


def _measure_memory(loop: HostedRun) -> dict[str, Any]:
    """Returns what replay will hold when it is full, by what the frames so far took."""
    contents, ring = loop.state.replay.contents, loop.agent.replay.ring
    report = jax.device_get(tile_report(contents))
    pointers = contents.pointers.shape[-1] * contents.pointers.dtype.itemsize
    fit = int(contents.pool.nbytes / (report.bytes_per_frame - pointers))
    capacity = ring.blocks * ring.block_length * ring.streams
    return {
        "observations_held": min(fit, capacity),
        "observations_measured": int(report.observations_held),
        "bytes_per_observation": float(report.bytes_per_frame),
        "replay_bytes": int(contents.pool.nbytes + contents.pointers.nbytes),
    }

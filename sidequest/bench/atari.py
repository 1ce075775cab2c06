"""The hosted runtime on one game: emulators alone, then the agent part by part.

All phases run on the same emulators and threads, one after the other. The emulators alone,
with random actions, are measured just before and just after the whole agent, and their mean
counts: how fast they are depends on where in their games they are. An update and what
belongs to it are timed apart, with nothing else going on.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np

from sidequest.bench import best_seconds, machine
from sidequest.config import PAPER, Config, change
from sidequest.environments import atari
from sidequest.environments.base import HostedEnvironment
from sidequest.records import available_cores
from sidequest.replay.tiles import tile_report, tile_store
from sidequest.runs.build import RunArrays, build_agent, run_arrays
from sidequest.runs.emulators import build_politely, choose_groups, choose_threads
from sidequest.runs.hosted import HostedLoop
from sidequest.switching.metacontroller import UPDATE_CHUNK, Episodes
from sidequest.switching.variants import parse

INFORMED = "XU-intra(10,informed,p*,X)"
EPSILON_GREEDY = "XU-step-level-0.01"
INTRINSIC = "XI-intra(10,informed,p*,X)"

NEVER = 10**9  # blocks of warm-up


def measure(
    game: str = "frostbite",
    *,
    streams: int | None = None,
    threads: int | None = None,
    seconds: float = 10.0,
    memory: int | None = None,
    config: Config = PAPER,
    variants: bool = True,
    say: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Frames a second of each phase, and milliseconds of each program.

    Args:
        game: ROM name.
        streams: Emulators, of all groups together; by default 96 a core, at most 1,536,
            with which the groups in flight keep 16 cores busy.
        threads: Of each group; by default as many as a run takes.
        seconds: Spent on each phase, without compiling and building.
        memory: Bytes for replay; by default 60% of what JAX may use of the device.
        config: Its number of streams and warm-up are replaced.
        variants: Whether to compare variants too.
        say: Told what is going on.
    """
    streams = streams or 96 * min(available_cores(), 16)
    config, groups = bench_config(config, streams), choose_groups(streams)
    threads = threads or choose_threads(groups)
    atari_game = atari.make(game)
    say(f"building {streams} emulators")
    emulators = build_politely(
        partial(
            atari_game.build,
            groups=groups,
            streams=streams // groups,
            seed=0,
            threads=threads,
        )
    )
    store = tile_store(lambda step: step.observation, memory=memory or device_share(0.6))
    compared = [parse(INFORMED), parse(EPSILON_GREEDY)]
    run = HostedLoop(build_agent(config, atari_game.spec, compared, store), emulators)
    clock = Clock(atari_game.spec.frames_per_step * streams, seconds, say)
    who = {str(v): run_arrays(v, 0, run.agent) for v in compared}
    figures = phases(run, who[INFORMED], clock)
    # Memory first: to time what adds a block, the same one is added many times.
    figures |= memory_held(run) | programs(run)
    if variants:
        # There and back, so that emulators that get slower or faster favour neither.
        order = (EPSILON_GREEDY, INFORMED, INFORMED, EPSILON_GREEDY)
        rates = [(name, learning(run, name, who[name], clock)) for name in order]
        run.release()
        del run.state
        agent = build_agent(config, atari_game.spec, [parse(INTRINSIC)], store)
        run = HostedLoop(agent, emulators)
        novel = run_arrays(parse(INTRINSIC), 0, agent)
        rates.append((INTRINSIC, learning(run, INTRINSIC, novel, clock)))
        figures["variants"] = side_by_side(rates)
    for group in emulators:
        group.close()
    setting = {"game": game, "streams": streams, "groups": groups, "threads": threads}
    return figures | setting | {"machine": machine()}


def bench_config(config: Config, streams: int) -> Config:
    """With learning from the start on."""
    return change(config, **{"acting.streams": streams, "replay.warm_up": 0})


def device_share(share: float) -> int:
    """Bytes; of a device that does not say how much it has, 2 GB are taken."""
    stats = jax.devices()[0].memory_stats() or {}
    return int(share * stats["bytes_limit"]) if "bytes_limit" in stats else 2 * 10**9


class Clock:
    """Counts frames a second of whatever is repeated."""

    def __init__(self, frames: int, seconds: float, say: Callable[[str], None]):
        """`frames` is what all emulators together show in one step."""
        self.frames, self.seconds, self.say = frames, seconds, say

    def rate(self, name: str, repeat: Callable[[], Any], steps: int) -> float:
        """Repeats what makes that many steps of all streams. The first times are free: then
        programs are compiled, and the first updates wait for three blocks."""
        for _ in range(4):
            repeat()
        begin, times = time.perf_counter(), 0
        while (elapsed := time.perf_counter() - begin) < self.seconds or not times:
            repeat()
            times += 1
        rate = times * steps * self.frames / elapsed
        self.say(f"{name}: {rate:,.0f} frames/s")
        return rate


def phases(run: HostedLoop, who: RunArrays, clock: Clock) -> dict[str, Any]:
    """The emulators alone just before and just after the agent plays on them."""
    length = run.agent.block_length
    rng = np.random.default_rng(0)
    run.start(who)
    compile_rare(run)
    acting = clock.rate("acting", lambda: step_acting(run), 1)
    run.start(who)
    pace, run.pace = run.pace, run.pace._replace(warm_up=NEVER)
    blocks = iter(run)
    replay = clock.rate("replay", lambda: next(blocks), length)
    run.release()
    before = clock.rate("emulators alone", lambda: step_alone(rng, run.groups), 1)
    run.pace = pace
    whole = learning(run, "learning", who, clock)
    run.release()
    after = clock.rate("emulators alone", lambda: step_alone(rng, run.groups), 1)
    alone = (before + after) / 2
    return {
        "emulators_alone": alone,
        "emulators_alone_each": [before, after],
        "acting": acting,
        "replay": replay,
        "learning": whole,
        "learning_of_emulators_alone": whole / alone,
    }


def step_alone(rng: np.random.Generator, groups: Sequence[HostedEnvironment]) -> None:
    """One step of all groups by random actions."""
    for group in groups:
        streams = len(group.recv().reward)
        actions = rng.integers(group.spec.num_actions, size=streams, dtype=np.int32)
        group.send(actions)


def compile_rare(run: HostedLoop) -> None:
    """What is first needed when an episode ends, or after ten blocks, when actors sync
    parameters: else it would be compiled in the middle of a phase."""
    _, records = jax.device_get(run.state.block.contents())
    columns = records.choices, records.summary.episode_return, records.summary.length
    nothing = Episodes(
        *(np.zeros((UPDATE_CHUNK, *leaf.shape[2:]), leaf.dtype) for leaf in columns)
    )
    state = run.state.run
    jax.block_until_ready(run.programs.sync_parameters(state.learner, state.meta))
    meta = run.programs.update_bandits(state.meta, nothing, np.zeros(UPDATE_CHUNK, bool))
    run.state = run.state._replace(run=state._replace(meta=meta))


def step_acting(run: HostedLoop) -> None:
    for group in range(len(run.groups)):
        run.step_group(group)


def learning(run: HostedLoop, name: str, who: RunArrays, clock: Clock) -> float:
    """The whole agent with another variant, from an empty replay on."""
    run.start(who)
    blocks = iter(run)
    return clock.rate(name, lambda: next(blocks), run.agent.block_length)


def side_by_side(rates: Sequence[tuple[str, float]]) -> dict[str, dict[str, Any]]:
    """The mean of each variant's rates, and its share of what plain epsilon-greedy has."""
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


def programs(run: HostedLoop) -> dict[str, float]:
    """Milliseconds of adding a block, drawing a batch, and learning from it.

    Ten calls in a row, as the device would do them with other work before and after.
    """
    block, metrics, batch = run.state.block, run.metrics, run.sample()

    def add() -> Any:
        state, _ = run.programs.finish_block(run.state.run, block, metrics)
        run.state = run.state._replace(run=state)
        return state.replay.added

    def learn() -> Any:
        run.learn(batch)
        return run.state.run.learner.updates

    def milliseconds(call: Callable[[], Any]) -> float:
        seconds = best_seconds(lambda: [call() for _ in range(10)][-1], repeats=3)
        return 1e3 * seconds[0] / 10

    return {
        "add_ms": milliseconds(add),
        "sample_ms": milliseconds(lambda: run.sample().weights),
        "update_ms": milliseconds(learn),
    }


def memory_held(run: HostedLoop) -> dict[str, Any]:
    """What replay will hold when it is full, by what the frames so far took."""
    contents, ring = run.state.run.replay.contents, run.agent.replay.ring
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

"""The whole loop compiled: environment, acting, replay and learning in one program.

One *iteration* collects a block of steps from all environments, adds it to replay, and
makes as many updates as the replay ratio asks for. Iterations are scanned, and the runs of
a population, which may differ in seed and in variant, train side by side by `vmap`:

    iteration   ┌ collect           L steps of B environments
                ├ update_bandits    with the episodes that ended
                ├ add_block         to replay, with first priorities by the actors' own Q
                ├ learn             updates that are due: sample, update, reprioritise
                └ sync_parameters   every so often: newest parameters to the actors
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Bool, Int

from sidequest.agent.actor import StepRecord
from sidequest.agent.learner import Metrics
from sidequest.agent.losses import Step
from sidequest.environments.base import CompiledEnvironment
from sidequest.runs.build import Agent
from sidequest.runs.checkpoint import ResumePoint, portable, revive
from sidequest.runs.display import Display
from sidequest.runs.evaluation import make_evaluator
from sidequest.runs.state import (
    BEGIN,
    EVALUATION,
    ITERATIONS,
    Chunk,
    IterationRecord,
    RunArrays,
    RunState,
    add_block,
    init_run,
    newest_policy,
    record_block,
    run_arrays,
    stored_step,
    strip_weak_types,
)
from sidequest.switching.metacontroller import Episodes
from sidequest.switching.variants import Variant
from sidequest.types import Key
from sidequest.wording import plural

_CHUNK_STEPS = 256  # steps of each environment between two returns to the host
_RUNS = "runs"  # the axis that local devices share
# What runs once is not worth optimising.
_UNOPTIMISED: dict[str, str | bool] = {"xla_backend_optimization_level": "0"}


def init_state(
    agent: Agent, environment: CompiledEnvironment, arrays: RunArrays
) -> RunState:
    """Returns the state of a run before its first iteration."""
    learner_key, reset_key = jax.random.split(jax.random.fold_in(arrays.key, BEGIN))
    environments, timesteps = jax.vmap(environment.reset)(
        jax.random.split(reset_key, agent.environments)
    )
    state = init_run(agent, arrays, learner_key)
    return state._replace(environments=environments, timesteps=timesteps)


def iterate(
    agent: Agent,
    environment: CompiledEnvironment,
    state: RunState,
    block: Int[Array, ""],
    count: int,
) -> tuple[RunState, IterationRecord]:
    """Makes `count` iterations, the first of which collects block number `block`."""

    def one_iteration(state: RunState, block: Int[Array, ""]):
        key = jax.random.fold_in(jax.random.fold_in(state.key, ITERATIONS), block)
        collect_key, learn_key = jax.random.split(key)
        state, steps, records, core = collect(agent, environment, collect_key, state)
        state = update_bandits(agent, records, state)
        state = add_block(agent, steps, records, core, state)
        state, metrics = learn(agent, learn_key, agent.pace.due(block), state)
        state = sync_parameters(agent, agent.pace.is_sync_due(block), state)
        return state, record_block(steps, records, metrics, state)

    return jax.lax.scan(one_iteration, state, block + jnp.arange(count))


def collect(
    agent: Agent, environment: CompiledEnvironment, key: Key, state: RunState
) -> tuple[RunState, Step, StepRecord, Any]:
    """Returns a block of steps [L, B], and recurrent states at its `core_offset` [B]."""
    act = jax.vmap(agent.actor.act, in_axes=(None, 0, 0, 0))

    def step(carry: tuple, t: Int[Array, ""]):
        environments, timesteps, actors, core = carry
        core = jax.tree.map(
            lambda new, old: jnp.where(t == agent.replay.core_offset, new, old),
            actors.core,
            core,
        )
        act_key, environment_key = jax.random.split(jax.random.fold_in(key, t))
        actions, actors, record = act(
            state.policy, jax.random.split(act_key, agent.environments), timesteps, actors
        )
        stored = stored_step(timesteps, actions, record)
        environments, timesteps = jax.vmap(environment.step)(
            jax.random.split(environment_key, agent.environments), environments, actions
        )
        return (environments, timesteps, actors, core), (stored, record)

    start = state.environments, state.timesteps, state.actors, state.actors.core
    carry, (steps, records) = jax.lax.scan(step, start, jnp.arange(agent.block_length))
    environments, timesteps, actors, core = carry
    state = state._replace(environments=environments, timesteps=timesteps, actors=actors)
    return state, steps, records, core


def update_bandits(agent: Agent, records: StepRecord, state: RunState) -> RunState:
    """Updates the bandits with the episodes that ended in this block, in their order; the
    actors draw with the new probabilities at once."""
    summary = records.summary
    columns = records.choices, summary.episode_return, summary.length, summary.finished
    # Of all environments at one step, then at the next.
    *episodes, ended = (leaf.reshape(-1, *leaf.shape[2:]) for leaf in columns)
    meta = agent.meta.update(state.meta, Episodes(*episodes), ended)
    policy = state.policy._replace(arms=agent.meta.arm_probabilities(meta))
    return state._replace(meta=meta, policy=policy)


def learn(
    agent: Agent, key: Key, updates: Int[Array, ""], state: RunState
) -> tuple[RunState, Metrics]:
    """Makes the updates that are due."""

    def update(i: Int[Array, ""], carry: tuple) -> tuple:
        learner, replay, _ = carry
        sample = agent.replay.sample(jax.random.fold_in(key, i), replay, agent.batch_size)
        learner, priorities, metrics = agent.learner.update(
            learner, sample.steps, sample.core, sample.weights
        )
        return learner, agent.replay.reprioritise(replay, sample.index, priorities), metrics

    start = state.learner, state.replay, agent.learner.no_metrics()
    learner, replay, metrics = jax.lax.fori_loop(0, updates, update, start)
    return state._replace(learner=learner, replay=replay), metrics


def sync_parameters(agent: Agent, due: Bool[Array, ""], state: RunState) -> RunState:
    """Gives the actors the newest parameters and scales, if that is due."""
    policy = jax.lax.cond(
        due,
        lambda state: newest_policy(agent, state.learner, state.meta),
        lambda state: state.policy,
        state,
    )
    return state._replace(policy=policy)


def make_mesh(runs: int, sharded: bool) -> Mesh:
    """Returns the local devices that share a population.

    Accelerators: as many as divide it evenly. CPU: a core per run if `sharded`, else one
    device, to which XLA gives all cores. The two programs differ in their last bits, so a
    run keeps to the one that it began with.
    """
    devices = jax.local_devices()
    if devices[0].platform == "cpu":
        used = min(len(devices), max(2, runs)) if sharded else 1
    else:
        used = max(n for n in range(1, len(devices) + 1) if runs % n == 0)
    return Mesh(np.array(devices[:used]), (_RUNS,))


def split_runs(mesh: Mesh, stacked) -> list:
    """Splits a tree of all runs into batches that are computed at a time.

    An accelerator takes all of its runs together. A CPU takes one run a core: batches of
    small matrix products are no quicker there, and so a run's program, and with it every
    bit of its numbers, is the same whatever other runs there are. The last batch is filled
    up with its last run.

        runs 0 1 2 3 4    two cores: [0 1] [2 3] [4 4]    one GPU: [0 1 2 3 4]
    """
    count = len(jax.tree.leaves(stacked)[0])
    size = mesh.size if _is_cpu(mesh) else count
    rows = [np.minimum(np.arange(i, i + size), count - 1) for i in range(0, count, size)]
    return [jax.tree.map(lambda leaf, row=row: leaf[row], stacked) for row in rows]


def map_runs(mesh: Mesh, function: Callable, *, shared: int = 0) -> Callable:
    """Turns a function of one run into one of a batch, each device computing its own.

    The last `shared` arguments are the same for all runs.
    """

    def apply(*arguments):
        first_shared = len(arguments) - shared
        axes = [0] * first_shared + [None] * shared
        specs = tuple(PartitionSpec(*[_RUNS] * (axis == 0)) for axis in axes)

        def alone(*arguments):
            own = _take_run(arguments[:first_shared], 0)
            result = function(*own, *arguments[first_shared:])
            return jax.tree.map(lambda leaf: leaf[None], result)

        # Compiled apart, so that constants stay inside: XLA of JAX 0.11 crashes on an empty
        # one that several devices share, and MiniGrid has one.
        mapped = jax.jit(alone if _is_cpu(mesh) else jax.vmap(function, in_axes=axes))
        return jax.shard_map(
            mapped,
            mesh=mesh,
            in_specs=specs,
            out_specs=PartitionSpec(_RUNS),
            check_vma=False,  # runs never exchange anything, so nothing is to check
        )(*arguments)

    return apply


def _is_cpu(mesh: Mesh) -> bool:
    return mesh.devices.flat[0].platform == "cpu"


def _take_run(stacked, run: int | Int[Array, ""]):
    """Returns one run's part of a tree of all."""
    return jax.tree.map(lambda leaf: leaf[run], stacked)


def state_spec(
    agent: Agent, environment: CompiledEnvironment, variant: Variant
) -> RunState:
    """Returns the shapes of a run's state; nothing is computed."""
    return jax.eval_shape(
        lambda: init_state(agent, environment, run_arrays(variant, 0, agent))
    )


class Population:
    """Runs of a compiled game that train together on the local devices: a `Runtime`."""

    def __init__(
        self,
        agent: Agent,
        environment: CompiledEnvironment,
        points: Sequence[ResumePoint],
        display: Display,
    ):
        """Compiles the training program and loads the state of every run into it."""
        display.say(f"compiling one program for {plural(len(points), 'run')} …")
        begin = time.perf_counter()
        config = points[0].spec.config
        self._agent, self._environment, self._count = agent, environment, len(points)
        self._total, self._interval = points[0].spec.frames, config.evaluation.interval
        self._iterations = max(1, _CHUNK_STEPS // agent.block_length)
        self._block = self._evaluated = 0
        self._mesh = make_mesh(len(points), points[0].sharded)
        each = [run_arrays(one.spec.variant, one.spec.seed, agent) for one in points]
        self._arrays = jax.tree.map(lambda *leaves: jnp.stack(leaves), *each)
        snapshots = [point.snapshot for point in points if point.snapshot]
        if snapshots:
            self._block = snapshots[0].host["block"]
            self._evaluated = snapshots[0].host["evaluated"]
            self._batches = self._load([snapshot.state["run"] for snapshot in snapshots])
        else:
            self._batches = self._begin()
        self._compile(config.evaluation.episodes)
        resumed = f"; resuming at {self.frames:,} frames" if self._block else ""
        display.say(f"compiled in {time.perf_counter() - begin:.1f} s{resumed}")

    @property
    def frames(self) -> int:
        return self._block * self._agent.frames_per_block

    def _begin(self) -> list[RunState]:
        def init(arrays: RunArrays) -> RunState:
            # Without weak types, which a checkpoint does not hold: a run that resumes has
            # the very same program as one that begins.
            return strip_weak_types(init_state(self._agent, self._environment, arrays))

        batches = split_runs(self._mesh, self._arrays)
        start = jax.jit(map_runs(self._mesh, init)).lower(batches[0])
        start = start.compile(compiler_options=_UNOPTIMISED)
        return [start(self._to_devices(batch)) for batch in batches]

    def _load(self, states: Sequence[RunState]) -> list[RunState]:
        arrays = [jax.tree.map(np.asarray, portable(state)) for state in states]
        batches = []
        for rows in split_runs(self._mesh, np.arange(len(states))):
            # Batch by batch: a stack of all would be one more copy of them.
            some = [arrays[run] for run in rows]
            batch = jax.tree.map(lambda *leaves: np.stack(leaves), *some)
            batches.append(jax.tree.map(revive, states[0], self._to_devices(batch)))
        return batches

    def _compile(self, episodes: int) -> None:
        chunk = partial(iterate, self._agent, self._environment, count=self._iterations)
        chunks = jax.jit(map_runs(self._mesh, chunk, shared=1), donate_argnums=0)
        self._chunk = chunks.lower(self._batches[0], jnp.int32(0)).compile()
        evaluate = make_evaluator(self._environment, episodes)
        keys, q_function = self._evaluation_keys()[0], self._batches[0].learner.q_function
        evaluate = jax.jit(map_runs(self._mesh, evaluate))
        self._evaluate_batch = evaluate.lower(keys, q_function).compile()

    def advance(self) -> Chunk:
        """Makes some iterations of every run, and evaluates if that is due."""
        start = self.frames
        # All batches are dispatched before any is waited for: no core stands idle.
        done = [self._chunk(batch, jnp.int32(self._block)) for batch in self._batches]
        self._batches = [batch for batch, _ in done]
        self._block += self._iterations
        records = self._gather([record for _, record in done])
        evaluations: list[list] = [[] for _ in range(self._count)]
        if self.frames >= min(self._evaluated + self._interval, self._total):
            evaluations = self._evaluate()
        updates = self._gather([batch.learner.updates for batch in self._batches])
        return Chunk(
            start=start,
            records=[_take_run(records, run) for run in range(self._count)],
            updates=updates.tolist(),
            evaluations=evaluations,
            replay_fill=min(1.0, self._block / self._agent.replay.ring.blocks),
        )

    def _evaluate(self) -> list[list[tuple[int, Any, Any]]]:
        """Plays greedy episodes with the newest parameters of every run."""
        self._evaluated = self.frames
        scores = self._gather(
            [
                self._evaluate_batch(keys, batch.learner.q_function)
                for keys, batch in zip(self._evaluation_keys(), self._batches, strict=True)
            ]
        )
        pairs = zip(scores.episode_return, scores.length, strict=True)
        return [[(self.frames, *one) for one in zip(*pair, strict=True)] for pair in pairs]

    def _evaluation_keys(self) -> list[Array]:
        def key(seed: Key) -> Key:
            return jax.random.fold_in(jax.random.fold_in(seed, EVALUATION), self._block)

        keys = jax.vmap(key)(self._arrays.key)
        return [self._to_devices(batch) for batch in split_runs(self._mesh, keys)]

    def snapshot(self, replay: bool = True) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Returns a copy of each run's state on the host; it always includes replay."""
        host = {"block": self._block, "evaluated": self._evaluated}
        states = []
        for batch in self._batches:
            # Copied run by run: a mere view would keep the next chunk from working in
            # place. Nothing but the copies outlives this call.
            whole = jax.device_get(portable(batch))
            for run in range(len(whole.learner.updates)):
                states.append(jax.tree.map(np.array, _take_run(whole, run)))
        return [({"run": state}, host) for state in states[: self._count]]

    def parameters(self) -> list:
        stacked = self._gather([batch.learner.q_function for batch in self._batches])
        return [_take_run(stacked, run) for run in range(self._count)]

    def close(self) -> None:
        pass  # compiled programs need no closing

    def _gather(self, batches: Sequence) -> Any:
        """Returns the batches of all runs as one tree on the host."""
        batches = [jax.device_get(batch) for batch in batches]
        return jax.tree.map(lambda *all: np.concatenate(all)[: self._count], *batches)

    def _to_devices(self, batch):
        """Puts each run of a batch on the device that computes it."""
        return jax.device_put(batch, NamedSharding(self._mesh, PartitionSpec(_RUNS)))

"""The members of a population on their devices, and the host's side of their loop."""

import time
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Int

from sidequest.agent.modes import modes_of
from sidequest.config import Config
from sidequest.environments.base import CompiledEnvironment
from sidequest.runs import tables
from sidequest.runs.assembly import Parts, arms_of
from sidequest.runs.evaluation import Evaluation, make_evaluator
from sidequest.runs.ondevice import Individual, Member, Pace, RoundRecord, make_loop
from sidequest.runs.records import Recorder
from sidequest.runs.spec import Progress, RunSpec
from sidequest.switching.metacontroller import menu_of
from sidequest.types import Key

CHUNK_STEPS = 256  # steps of each stream between two looks at the host
EVALUATION = 0xE7A1  # sets the evaluator's random numbers apart from those of training
# What runs once is not worth optimising.
ONCE: dict[str, str | bool] = {"xla_backend_optimization_level": "0"}
MEMBERS = "members"  # the axis that local devices share


class Population:
    """The members on their devices, and the host's side of their loop."""

    def __init__(
        self,
        runs: Sequence[RunSpec],
        environment: CompiledEnvironment,
        config: Config,
        parts: Parts,
        pace: Pace,
        frames: int,
    ):
        self.runs = runs
        self.parts = parts
        self.arms = arms_of(config.switching)
        self.spec = environment.spec
        self.interval = config.evaluation.interval
        self.total = frames
        self.rounds = max(1, CHUNK_STEPS // parts.block_length)
        self.block = 0
        self.seconds = 0.0
        self.evaluated = 0
        self.evaluations = [float("nan")] * len(runs)
        self.traces = [
            tables.TraceSampler(frames // config.evaluation.traces) for _ in runs
        ]
        self._loop = make_loop(parts, environment, pace)
        self._evaluate = make_evaluator(environment, config.evaluation.episodes)
        self._mesh = devices_for(len(runs))
        self._individuals = individuals(runs, parts, config)

    @property
    def steps_per_round(self) -> int:
        return self.parts.block_length * self.parts.streams

    @property
    def frames(self) -> int:
        """That each member has seen so far."""
        return self.block * self.steps_per_round * self.spec.frames_per_step

    def compile(self) -> float:
        """Compiles and starts the members; returns the seconds it took."""
        begin = time.perf_counter()
        start = jax.jit(on_all(self._mesh, self._loop.init)).lower(self._individuals)
        self.members = start.compile(compiler_options=ONCE)(self._individuals)

        def chunk(member: Member, block: Int[Array, ""]):
            return self._loop.rounds(member, block, self.rounds)

        chunks = jax.jit(on_all(self._mesh, chunk, shared=1), donate_argnums=0)
        self._chunk = chunks.lower(self.members, jnp.int32(0)).compile()
        evaluate = jax.jit(on_all(self._mesh, self._evaluate))
        keys = self._evaluation_keys()
        self._evaluate_all = evaluate.lower(keys, self.network()).compile()
        return time.perf_counter() - begin

    def network(self):
        return self.members.learner.network

    def advance(self, recorders: Sequence[Recorder]) -> Progress:
        """Runs one chunk, writes what it left behind, evaluates if it is time."""
        begin = time.perf_counter()
        clock = tables.Clock(self.frames, self.parts.streams, self.spec.frames_per_step)
        self.members, record = self._chunk(self.members, jnp.int32(self.block))
        self.block += self.rounds
        record = jax.device_get(record)
        if self.frames >= min(self.evaluated + self.interval, self.total):
            self.evaluate(recorders)
        updates = np.asarray(self.members.learner.updates)
        for member, (run, recorder) in enumerate(zip(self.runs, recorders, strict=True)):
            own = jax.tree.map(lambda leaf, i=member: leaf[i], record)
            self.write(recorder, run, own, clock, int(updates[member]), member)
        elapsed = time.perf_counter() - begin
        self.seconds += elapsed
        return self.progress(record, elapsed, int(updates[0]))

    def write(
        self,
        recorder: Recorder,
        run: RunSpec,
        record: RoundRecord,
        clock: tables.Clock,
        updates: int,
        member: int,
    ) -> None:
        heads = tuple(head.name for head in self.parts.rules.heads)
        recorder.write(
            "episodes", tables.episode_rows(record, clock, run.variant, self.arms)
        )
        recorder.write(
            "learning", tables.learning_rows(record.metrics, heads, self.frames, updates)
        )
        recorder.write(
            "bandits",
            tables.bandit_rows(
                np.asarray(record.probabilities[-1]), run.variant, self.arms, self.frames
            ),
        )
        recorder.write("traces", self.traces[member].rows(record, clock))

    def evaluate(self, recorders: Sequence[Recorder]) -> None:
        """Plays greedy episodes with the newest parameters of every member."""
        self.evaluated = self.frames
        results: Evaluation = jax.device_get(
            self._evaluate_all(self._evaluation_keys(), self.network())
        )
        for member, recorder in enumerate(recorders):
            returns, lengths = results.episode_return[member], results.length[member]
            self.evaluations[member] = float(returns.mean())
            recorder.write(
                "evaluations",
                (
                    {"frames": self.frames, "return": one, "length": length}
                    for one, length in zip(returns, lengths, strict=True)
                ),
            )

    def _evaluation_keys(self) -> Array:
        def key(seed: Key) -> Key:
            return jax.random.fold_in(jax.random.fold_in(seed, EVALUATION), self.block)

        return jax.device_put(
            jax.vmap(key)(self._individuals.key),
            NamedSharding(self._mesh, PartitionSpec(MEMBERS)),
        )

    def progress(self, record: RoundRecord, elapsed: float, updates: int) -> Progress:
        finished = record.summaries.finished

        def means(values: np.ndarray) -> list[float]:
            return [
                float(own[ended].mean()) if ended.any() else float("nan")
                for own, ended in zip(values, finished, strict=True)
            ]

        frames = self.rounds * self.steps_per_round * self.spec.frames_per_step
        return Progress(
            frames=self.frames,
            total=self.total,
            rate=frames * len(self.runs) / elapsed,
            updates=updates,
            returns=means(record.summaries.episode_return),
            evaluations=self.evaluations,
            p_X=means(record.summaries.p_X),
        )


def individuals(runs: Sequence[RunSpec], parts: Parts, config: Config) -> Individual:
    """What differs between the members, stacked."""
    heads = tuple(head.name for head in parts.rules.heads)
    arms = arms_of(config.switching)
    each = [
        Individual(
            key=jax.random.key(run.seed),
            menu=menu_of(run.variant, arms),
            modes=modes_of(run.variant, heads),
        )
        for run in runs
    ]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *each)


def devices_for(members: int) -> Mesh:
    """The local devices that share the population: as many as divide it evenly."""
    devices = jax.local_devices()
    used = max(n for n in range(1, len(devices) + 1) if members % n == 0)
    return Mesh(np.array(devices[:used]), (MEMBERS,))


def on_all(mesh: Mesh, function: Callable, *, shared: int = 0) -> Callable:
    """Applies a function of one member to all, each device working on its own members.

    The last `shared` arguments are the same for all. An accelerator works on its members
    at a time (`vmap`). A CPU core takes them one after the other: batches of small matrix
    products are no quicker there, and so a member's numbers are, bit by bit, those that it
    would have alone.
    """
    one_by_one = mesh.devices.flat[0].platform == "cpu"

    def apply(*arguments):
        first_shared = len(arguments) - shared
        axes = [0] * first_shared + [None] * shared
        specs = tuple(PartitionSpec(*[MEMBERS] * (axis == 0)) for axis in axes)

        def in_turn(*arguments):
            own, common = arguments[:first_shared], arguments[first_shared:]
            return jax.lax.map(lambda member: function(*member, *common), own)

        return jax.shard_map(
            in_turn if one_by_one else jax.vmap(function, in_axes=axes),
            mesh=mesh,
            in_specs=specs,
            out_specs=PartitionSpec(MEMBERS),
            check_vma=False,  # members never exchange anything, so nothing is to check
        )(*arguments)

    return apply

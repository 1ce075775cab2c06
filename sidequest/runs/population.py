"""The members of a population on their devices, and the host's side of their loop."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec
from jaxtyping import Array, Int

from sidequest.config import Config
from sidequest.environments.base import CompiledEnvironment
from sidequest.records import Recorder, plain
from sidequest.runs.assembly import Parts, arms_of
from sidequest.runs.breakdown import Skips
from sidequest.runs.checkpoint import portable, revive
from sidequest.runs.display import ProgressMeter
from sidequest.runs.evaluation import Scores, make_evaluator
from sidequest.runs.keys import EVALUATION
from sidequest.runs.members import (
    MEMBERS,
    devices_for,
    gathered,
    member_of,
    on_all,
    rows_of,
)
from sidequest.runs.ondevice import make_loop
from sidequest.runs.pace import Pace
from sidequest.runs.spec import Progress, RunSpec
from sidequest.runs.state import Individual, Member, individuals, settle
from sidequest.runs.tables import Clock, GreedyRow, RunLog
from sidequest.types import Key

CHUNK_STEPS = 256  # steps of each stream between two looks at the host
# What runs once is not worth optimising.
ONCE: dict[str, str | bool] = {"xla_backend_optimization_level": "0"}


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
        company: bool | None = None,
    ):
        """`company`: see `devices_for`."""
        self.runs = runs
        self.parts = parts
        arms = arms_of(config.switching)
        self.spec = environment.spec
        self.interval = config.evaluation.interval
        self.total = frames
        self.rounds = max(1, CHUNK_STEPS // parts.block_length)
        self.block = 0
        self.seconds = [0.0] * len(runs)
        self.evaluated = 0
        heads = tuple(head.name for head in parts.rules.heads)
        every = frames // config.evaluation.traces
        self.logs = [RunLog(run.variant, arms, heads, every) for run in runs]
        self.skips = [Skips()] * len(runs)
        self.meter = ProgressMeter(runs[0].game, len(runs), frames)
        self._loop = make_loop(parts, environment, pace)
        self._evaluate = make_evaluator(environment, config.evaluation.episodes)
        self._mesh = devices_for(len(runs), company)
        self._individuals = individuals(runs, parts, config)

    @property
    def steps_per_round(self) -> int:
        return self.parts.block_length * self.parts.streams

    @property
    def frames(self) -> int:
        """That each member has seen so far."""
        return self.block * self.steps_per_round * self.spec.frames_per_step

    def like(self):
        """The structure of one member, for reading it from a checkpoint."""
        return jax.eval_shape(self._loop.init, member_of(self._individuals, 0))

    def begin(self) -> None:
        """Starts the members."""

        def init(individual: Individual) -> Member:
            # Without weak types, of which a checkpoint knows nothing: a run that goes on
            # has the very same program as one that begins.
            return settle(self._loop.init(individual))

        rows = rows_of(self._mesh, self._individuals)
        start = jax.jit(on_all(self._mesh, init)).lower(rows[0])
        start = start.compile(compiler_options=ONCE)
        self.members = [start(self._spread(row)) for row in rows]

    def go_on(self, states: Sequence[Member], hosts: Sequence[Mapping[str, Any]]) -> None:
        """Starts from the state of each member and of the host's side, as saved."""
        self.block, self.evaluated = hosts[0]["block"], hosts[0]["evaluated"]
        for member, host in enumerate(hosts):
            self.seconds[member] = host["seconds"]
            played = host["evaluation"]
            self.meter.evaluations[member] = float("nan") if played is None else played
            self.logs[member].traces.restore(host["trace"])
        states = [jax.tree.map(np.asarray, portable(state)) for state in states]
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *states)
        self.members = [
            jax.tree.map(revive, self.like(), self._spread(row))
            for row in rows_of(self._mesh, stacked)
        ]

    def states(self) -> list[Member]:
        """A copy of each member on the host, to be saved."""
        states = []
        for row in self.members:
            # Copied member by member: a mere view would keep the next chunk from working
            # in place. Nothing but the copies outlives this call.
            whole = jax.device_get(portable(row))
            states += [
                jax.tree.map(lambda leaf, i=i: np.array(leaf[i]), whole)
                for i in range(len(whole.learner.updates))
            ]
        return states[: len(self.runs)]

    def host(self, member: int) -> dict[str, Any]:
        """What the host knows of a member, to be saved beside its state."""
        return plain(
            {
                "block": self.block,
                "evaluated": self.evaluated,
                "evaluation": self.meter.evaluations[member],
                "seconds": self.seconds[member],
                "trace": self.logs[member].traces.snapshot(),
            }
        )

    def compile(self) -> float:
        """Compiles what members do; returns the seconds it took."""
        begin = time.perf_counter()

        def chunk(member: Member, block: Int[Array, ""]):
            return self._loop.rounds(member, block, self.rounds)

        chunks = jax.jit(on_all(self._mesh, chunk, shared=1), donate_argnums=0)
        self._chunk = chunks.lower(self.members[0], jnp.int32(0)).compile()
        evaluate = jax.jit(on_all(self._mesh, self._evaluate))
        keys, q_function = self._evaluation_keys()[0], self.members[0].learner.q_function
        self._evaluate_row = evaluate.lower(keys, q_function).compile()
        return time.perf_counter() - begin

    def q_functions(self):
        """The newest parameters of all members, on the host."""
        return gathered([row.learner.q_function for row in self.members], len(self.runs))

    def advance(self, recorders: Sequence[Recorder]) -> Progress:
        """Runs one chunk, writes what it left behind, evaluates if it is time."""
        begin = time.perf_counter()
        clock = Clock(self.frames, self.parts.streams, self.spec.frames_per_step)
        # All rows are dispatched before any is waited for, so that no core stands idle.
        done = [self._chunk(row, jnp.int32(self.block)) for row in self.members]
        self.members = [row for row, _ in done]
        self.block += self.rounds
        record = gathered([own for _, own in done], len(self.runs))
        played: list[list[GreedyRow]] = [[] for _ in self.runs]
        if self.frames >= min(self.evaluated + self.interval, self.total):
            played = self.evaluate()
        updates = gathered([row.learner.updates for row in self.members], len(self.runs))
        rows = []
        for member, recorder in enumerate(recorders):
            own = member_of(record, member)
            greedy = played[member]
            new = self.logs[member].rows(own, clock, int(updates[member]), greedy)
            for table, of_table in new.items():
                recorder.write(table, of_table)
            rows.append(new)
            self.skips[member] = self.skips[member].after(own.metrics)
        self.metrics = record.metrics
        elapsed = time.perf_counter() - begin
        self.seconds = [seconds + elapsed for seconds in self.seconds]
        return self.meter.update(
            rows,
            frames=self.frames,
            new_frames=self.rounds * self.steps_per_round * self.spec.frames_per_step,
            seconds=elapsed,
            updates=int(updates[0]),
            replay_fill=min(1.0, self.block / self.parts.replay.ring.blocks),
        )

    def evaluate(self) -> list[list[GreedyRow]]:
        """Plays greedy episodes with the newest parameters of every member."""
        self.evaluated = self.frames
        results: Scores = gathered(
            [
                self._evaluate_row(keys, row.learner.q_function)
                for keys, row in zip(self._evaluation_keys(), self.members, strict=True)
            ],
            len(self.runs),
        )
        pairs = zip(results.episode_return, results.length, strict=True)
        return [[(self.frames, *one) for one in zip(*pair, strict=True)] for pair in pairs]

    def _evaluation_keys(self) -> list[Array]:
        """Of each row."""

        def key(seed: Key) -> Key:
            return jax.random.fold_in(jax.random.fold_in(seed, EVALUATION), self.block)

        keys = jax.vmap(key)(self._individuals.key)
        return [self._spread(row) for row in rows_of(self._mesh, keys)]

    def _spread(self, row):
        """On the devices, each member where it is computed."""
        return jax.device_put(row, NamedSharding(self._mesh, PartitionSpec(MEMBERS)))

"""The whole loop compiled: environment, acting, replay and learning in one program.

One *round* collects a block of steps from all streams, adds it to replay, and makes as many
updates as the replay ratio asks for. Rounds are scanned, and members of a population, which
may differ in seed and in variant, run side by side by `vmap`:

    round   ┌ collect   L steps of B streams: act, step the environments
            ├ feed      episodes that ended -> bandits
            ├ add       the block -> replay, with first priorities by the actors' own Q
            ├ learn     updates that are due: sample, update, reprioritise
            └ pull      every so often: newest parameters -> actors
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from sidequest.agent.actor import Policy, StepRecord
from sidequest.agent.learner import LearnerState, Metrics
from sidequest.agent.modes import Modes
from sidequest.agent.sequences import Step, first_priorities
from sidequest.config import Config
from sidequest.environments.base import CompiledEnvironment
from sidequest.replay.replay import TRAINED_BLOCKS, ReplayState
from sidequest.runs.assembly import Parts
from sidequest.runs.keys import BEGIN, ROUNDS
from sidequest.switching.metacontroller import Episodes, Menu, MetaState
from sidequest.types import EpisodeSummary, Key, Timestep


class Individual(NamedTuple):
    """What makes one member of a population different from another."""

    key: Key
    menu: Menu
    modes: Modes


class Member(NamedTuple):
    """Everything that one run of a population is, between two rounds."""

    key: Key
    environments: Any
    timesteps: Timestep
    """[B]: what the actors have yet to act on."""
    actors: Any
    """[B]: an `ActorState`; in a hosted run packed."""
    policy: Policy
    """What the actors act by: parameters, scales and arms as of their last pull."""
    learner: LearnerState
    meta: MetaState
    replay: ReplayState
    tail: "Tail"


class Tail(NamedTuple):
    """Of the last block, what the first priorities of the next items need: [L, B]."""

    steps: Step
    """Without observations."""
    q_taken: Float[Array, "L B"]
    values: Float[Array, "L B"]


class RoundRecord(NamedTuple):
    """What one round leaves behind for the tables."""

    summaries: EpisodeSummary
    """[L, B]; read only where `finished`."""
    choices: Int[Array, "L B D"]
    metrics: Metrics
    """Of the last update; NaN in a round without one."""
    probabilities: Float[Array, "D K"]
    """Of the bandits' arms."""
    modes: Bool[Array, "L"]
    """Of stream 0, for traces; and so are the next three."""
    signals: Float[Array, "L"]
    rewards: Float[Array, "L"]
    is_first: Bool[Array, "L"]


Count = TypeVar("Count", int, Array)
"""On the host, or within a compiled program."""


class Pace(NamedTuple):
    """When updates are due: `numerator` of them in every `denominator` blocks."""

    numerator: int
    denominator: int
    warm_up: int
    """Blocks before learning starts."""
    pull_every: int
    """Blocks between two pulls of the newest parameters."""

    def due(self, block: Count) -> Count:
        """How many updates belong after this block; the ratio is exact over time."""
        return self._until(block + 1) - self._until(block)

    def _until(self, blocks: Count) -> Count:
        past_warm_up = (blocks > self.warm_up) * (blocks - self.warm_up)
        return past_warm_up * self.numerator // self.denominator


def pace_of(config: Config) -> Pace:
    """Every block brings a new sequence a stream; each is replayed `ratio` times."""
    acting, replay = config.acting, config.replay
    ratio = Fraction(replay.ratio).limit_denominator(1_000)
    updates = ratio * acting.streams / config.learning.batch_size
    return Pace(
        numerator=updates.numerator,
        denominator=updates.denominator,
        # An item is complete with the last of its blocks.
        warm_up=max(
            -(-replay.prefix // replay.block_length) + TRAINED_BLOCKS - 1,
            -(-replay.warm_up // (acting.streams * replay.block_length)),
        ),
        pull_every=max(1, acting.pull_interval // replay.block_length),
    )


class Loop(NamedTuple):
    """Pure functions of one member; `vmap` makes the population."""

    init: Callable[[Individual], Member]
    rounds: Callable[[Member, Int[Array, ""], int], tuple[Member, RoundRecord]]
    """(member, number of its next block, how many rounds) -> (member, records)."""


def make_loop(parts: Parts, environment: CompiledEnvironment, pace: Pace) -> Loop:
    """Ties the parts of an agent to an environment."""
    streams, length = parts.streams, parts.block_length

    def init(individual: Individual) -> Member:
        learner_key, reset_key, actor_key = jax.random.split(
            jax.random.fold_in(individual.key, BEGIN), 3
        )
        learner = parts.learner.init(learner_key)
        meta = parts.meta.init(individual.menu)
        policy = Policy(*parts.learner.greedy(learner), parts.meta.offer(meta))
        environments, timesteps = jax.vmap(environment.reset)(
            jax.random.split(reset_key, streams)
        )
        actors = jax.vmap(parts.actor.init, in_axes=(0, None, None))(
            jax.random.split(actor_key, streams), policy, individual.modes
        )
        zeros = jnp.zeros((length, streams))
        blank = jax.tree.map(
            lambda leaf: jnp.zeros((length, streams, *leaf.shape), leaf.dtype),
            parts.step_example._replace(observation=None),
        )
        return Member(
            key=individual.key,
            environments=environments,
            timesteps=timesteps,
            actors=actors,
            policy=policy,
            learner=learner,
            meta=meta,
            replay=parts.replay.init(),
            tail=Tail(blank, zeros, zeros),
        )

    def one_round(member: Member, block: Int[Array, ""]) -> tuple[Member, RoundRecord]:
        key = jax.random.fold_in(jax.random.fold_in(member.key, ROUNDS), block)
        collect_key, learn_key = jax.random.split(key)
        member, steps, records, core = collect(parts, environment, collect_key, member)
        member = feed(parts, records, member)
        member = remember(parts, steps, records, core, member)
        member, metrics = learn(parts, learn_key, pace.due(block), member)
        member = pull(parts, block % pace.pull_every == pace.pull_every - 1, member)
        return member, sum_up(steps, records, metrics, member)

    def rounds(
        member: Member, block: Int[Array, ""], count: int
    ) -> tuple[Member, RoundRecord]:
        return jax.lax.scan(one_round, member, block + jnp.arange(count))

    return Loop(init, rounds)


def collect(
    parts: Parts, environment: CompiledEnvironment, key: Key, member: Member
) -> tuple[Member, Step, StepRecord, Any]:
    """A block of steps [L, B], and the recurrent states at its `core_offset` [B]."""
    act = jax.vmap(parts.actor.act, in_axes=(None, 0, 0, 0))
    streams = parts.streams

    def step(carry: tuple, t: Int[Array, ""]):
        environments, timesteps, actors, core = carry
        core = jax.tree.map(
            lambda new, old: jnp.where(t == parts.replay.core_offset, new, old),
            actors.core,
            core,
        )
        act_key, environment_key = jax.random.split(jax.random.fold_in(key, t))
        actions, actors, record = act(
            member.policy, jax.random.split(act_key, streams), timesteps, actors
        )
        stored = Step(
            observation=timesteps.observation,
            previous_action=record.previous_action,
            reward=timesteps.reward,
            terminated=timesteps.terminated,
            truncated=timesteps.truncated,
            is_first=timesteps.is_first,
            action=actions,
        )
        environments, timesteps = jax.vmap(environment.step)(
            jax.random.split(environment_key, streams), environments, actions
        )
        return (environments, timesteps, actors, core), (stored, record)

    start = member.environments, member.timesteps, member.actors, member.actors.core
    carry, (steps, records) = jax.lax.scan(step, start, jnp.arange(parts.block_length))
    environments, timesteps, actors, core = carry
    member = member._replace(environments=environments, timesteps=timesteps, actors=actors)
    return member, steps, records, core


def sum_up(
    steps: Step, records: StepRecord, metrics: Metrics, member: Member
) -> RoundRecord:
    """What is kept for the tables of a block [L, B]."""
    return RoundRecord(
        summaries=records.summary,
        choices=records.choices,
        metrics=metrics,
        probabilities=member.policy.offer.probabilities,
        modes=records.mode[:, 0],
        signals=records.signal[:, 0],
        rewards=steps.reward[:, 0],
        is_first=steps.is_first[:, 0],
    )


def feed(parts: Parts, records: StepRecord, member: Member) -> Member:
    """Tells the bandits of the episodes that ended in this block, in order of arrival."""
    summary = records.summary
    fed = records.choices, summary.episode_return, summary.length, summary.finished
    # Of all streams at one step, then at the next.
    *episodes, ended = (leaf.reshape(-1, *leaf.shape[2:]) for leaf in fed)
    meta = parts.meta.update(member.meta, Episodes(*episodes), ended)
    return member._replace(meta=meta)


def remember(
    parts: Parts, steps: Step, records: StepRecord, core: Any, member: Member
) -> Member:
    """Adds the block to replay, and what it says of returns to the return scales."""
    tail = Tail(
        steps=steps._replace(observation=None),
        q_taken=records.q_taken,
        values=records.values[..., 0],
    )
    whole = jax.tree.map(lambda *halves: jnp.concatenate(halves), member.tail, tail)
    learner = parts.learner.witness(member.learner, steps, records.values)
    _, scales = parts.learner.greedy(learner)
    priorities = first_priorities(
        whole.steps, whole.q_taken, whole.values, scales[0], parts.rules
    )
    replay = parts.replay.add(member.replay, steps, core, priorities)
    return member._replace(learner=learner, replay=replay, tail=tail)


def learn(
    parts: Parts, key: Key, updates: Int[Array, ""], member: Member
) -> tuple[Member, Metrics]:
    """Makes the updates that are due."""

    def update(i: Int[Array, ""], carry: tuple) -> tuple:
        learner, replay, _ = carry
        sample = parts.replay.sample(jax.random.fold_in(key, i), replay, parts.batch_size)
        learner, priorities, metrics = parts.learner.update(
            learner, sample.steps, sample.core, sample.weights
        )
        return learner, parts.replay.reprioritise(replay, sample.index, priorities), metrics

    start = member.learner, member.replay, parts.learner.no_metrics()
    learner, replay, metrics = jax.lax.fori_loop(0, updates, update, start)
    return member._replace(learner=learner, replay=replay), metrics


def pull(parts: Parts, due: Bool[Array, ""], member: Member) -> Member:
    """Gives the actors the newest parameters, scales and arms, if it is time."""

    def newest(member: Member) -> Policy:
        greedy = parts.learner.greedy(member.learner)
        return Policy(*greedy, parts.meta.offer(member.meta))

    policy = jax.lax.cond(due, newest, lambda member: member.policy, member)
    return member._replace(policy=policy)

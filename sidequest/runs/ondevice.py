"""The whole loop compiled: environment, acting, replay and learning in one program.

One *round* collects a block of steps from all streams, adds it to replay, and makes as many
updates as the replay ratio asks for. Rounds are scanned, and members of a population, which
may differ in seed and in variant, run side by side by `vmap`:

    round   ┌ collect   L steps of B streams: act, step the environments
            ├ feed      episodes that ended -> bandits
            ├ remember  the block -> replay, with first priorities by the actors' own Q
            ├ learn     updates that are due: sample, update, reprioritise
            └ pull      every so often: newest parameters -> actors
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from sidequest.agent.actor import Policy, StepRecord
from sidequest.agent.learner import Metrics
from sidequest.agent.losses import Step
from sidequest.environments.base import CompiledEnvironment
from sidequest.runs.assembly import Parts
from sidequest.runs.keys import BEGIN, ROUNDS
from sidequest.runs.pace import Pace
from sidequest.runs.rounds import RoundRecord, newest_policy, remember, stored_step, sum_up
from sidequest.runs.state import Individual, Member, empty_tail
from sidequest.switching.metacontroller import Episodes
from sidequest.types import Key


class Loop(NamedTuple):
    """Pure functions of one member; `vmap` makes the population."""

    init: Callable[[Individual], Member]
    rounds: Callable[[Member, Int[Array, ""], int], tuple[Member, RoundRecord]]
    """(member, number of its next block, how many rounds) -> (member, records)."""


def make_loop(parts: Parts, environment: CompiledEnvironment, pace: Pace) -> Loop:
    """Ties the parts of an agent to an environment."""

    def init(individual: Individual) -> Member:
        learner_key, reset_key, actor_key = jax.random.split(
            jax.random.fold_in(individual.key, BEGIN), 3
        )
        learner = parts.learner.init(learner_key)
        meta = parts.meta.init(individual.variant)
        policy = newest_policy(parts, learner, meta)
        environments, timesteps = jax.vmap(environment.reset)(
            jax.random.split(reset_key, parts.streams)
        )
        actors = jax.vmap(parts.actor.init, in_axes=(0, None, None))(
            jax.random.split(actor_key, parts.streams), policy, individual.modes
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
            tail=empty_tail(parts),
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
        stored = stored_step(timesteps, actions, record)
        environments, timesteps = jax.vmap(environment.step)(
            jax.random.split(environment_key, streams), environments, actions
        )
        return (environments, timesteps, actors, core), (stored, record)

    start = member.environments, member.timesteps, member.actors, member.actors.core
    carry, (steps, records) = jax.lax.scan(step, start, jnp.arange(parts.block_length))
    environments, timesteps, actors, core = carry
    member = member._replace(environments=environments, timesteps=timesteps, actors=actors)
    return member, steps, records, core


def feed(parts: Parts, records: StepRecord, member: Member) -> Member:
    """Tells the bandits of the episodes that ended in this block, in order of arrival."""
    summary = records.summary
    fed = records.choices, summary.episode_return, summary.length, summary.finished
    # Of all streams at one step, then at the next.
    *episodes, ended = (leaf.reshape(-1, *leaf.shape[2:]) for leaf in fed)
    meta = parts.meta.update(member.meta, Episodes(*episodes), ended)
    return member._replace(meta=meta)


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
        return newest_policy(parts, member.learner, member.meta)

    policy = jax.lax.cond(due, newest, lambda member: member.policy, member)
    return member._replace(policy=policy)

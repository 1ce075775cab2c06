"""What the device does in a hosted run: programs that are compiled apart.

The host calls them one after the other, and each is dispatched without waiting for the one
before. State that a program replaces is donated to it, so that nothing is copied.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from sidequest.agent.actor import Policy
from sidequest.agent.learner import LearnerState, Metrics
from sidequest.agent.networks import QFunction
from sidequest.replay.replay import ReplayState, Sample
from sidequest.runs.assembly import Parts
from sidequest.runs.collection import (
    Collected,
    Playing,
    begin_playing,
    empty_block,
    play,
    unpack_timestep,
    visit,
)
from sidequest.runs.keys import BEGIN, DRAWS, VISITS
from sidequest.runs.packing import Packed, pack
from sidequest.runs.rounds import RoundRecord, newest_policy, remember, sum_up
from sidequest.runs.state import Individual, Member, empty_tail, settle
from sidequest.switching.metacontroller import MetaState
from sidequest.types import Key, Timestep


class HostedState(NamedTuple):
    """All of a run that lives on the device. Iterating donates it: read it between blocks,
    and keep copies only."""

    member: Member
    """Its environments and timesteps are on the host, so they are empty here."""
    block: Collected
    playing: Playing | None
    """Of the evaluator."""


class Programs(NamedTuple):
    """What the device does, compiled apart; see `make_programs`."""

    begin: Any
    visit: Any
    play: Any
    absorb: Any
    sample: Any
    update: Any
    reprioritise: Any
    newest: Any
    feed: Any


def make_programs(parts: Parts, groups: int, episodes: int) -> Programs:
    """Whatever is replaced by its successor is donated, so that nothing is copied.

    Sampling is apart from the update: together, XLA gathers the frames once for each use.
    """

    def act(key: Key, policy: Policy, arrived, actors: Packed, block: Collected):
        key = jax.random.fold_in(key, VISITS)
        return visit(parts, groups, key, policy, unpack_timestep(*arrived), actors, block)

    def evaluate(q_function: QFunction, arrived, playing: Playing):
        return play(q_function, unpack_timestep(*arrived), playing)

    def sample(key: Key, updates: Int[Array, ""], replay: ReplayState) -> Sample:
        key = jax.random.fold_in(jax.random.fold_in(key, DRAWS), updates)
        return parts.replay.sample(key, replay, parts.batch_size)

    return Programs(
        begin=jax.jit(partial(begin, parts, episodes)),
        visit=jax.jit(act, donate_argnums=(3, 4)),
        play=jax.jit(evaluate, donate_argnums=2),
        absorb=jax.jit(partial(absorb, parts), donate_argnums=0),
        sample=jax.jit(sample),
        update=jax.jit(parts.learner.update, donate_argnums=0),
        reprioritise=jax.jit(parts.replay.reprioritise, donate_argnums=0),
        newest=jax.jit(partial(newest, parts)),
        feed=jax.jit(parts.meta.update, donate_argnums=0),
    )


def begin(parts: Parts, episodes: int, individual: Individual) -> HostedState:
    """A run before its first visit."""
    learner_key, actor_key = jax.random.split(jax.random.fold_in(individual.key, BEGIN))
    learner = settle(parts.learner.init(learner_key))
    meta = settle(parts.meta.init(individual.variant))
    policy = newest(parts, learner, meta)
    actors = jax.vmap(parts.actor.init, in_axes=(0, None, None))(
        jax.random.split(actor_key, parts.streams), policy, individual.modes
    )
    actors = settle(actors)
    block = empty_block(parts, actor_key, policy, actors)
    member = Member(
        key=jax.random.clone(individual.key),
        environments=None,
        timesteps=Timestep(None, None, None, None, None),
        actors=pack(actors, axes=1),
        policy=policy,
        learner=learner,
        meta=meta,
        replay=parts.replay.init(),
        tail=empty_tail(parts),
    )
    playing = begin_playing(learner.q_function, episodes) if episodes else None
    return HostedState(member, block, playing)


def newest(parts: Parts, learner: LearnerState, meta: MetaState) -> Policy:
    """What actors act by from now on: copies, since updates donate the learner's own."""
    return jax.tree.map(jnp.copy, settle(newest_policy(parts, learner, meta)))


def absorb(
    parts: Parts, member: Member, block: Collected, metrics: Metrics
) -> tuple[Member, RoundRecord]:
    """Adds a complete block to replay; returns what the host wants to know of it."""
    steps, records = block.contents()
    member = remember(parts, steps, records, block.core, member)
    record = sum_up(steps, records, metrics, member)
    # Copies, since the next visit writes over the block.
    return member, jax.tree.map(jnp.copy, record)

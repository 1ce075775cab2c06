"""The device's side of a hosted run: what a group of emulators shows becomes actions.

All groups share one block [L, B], which stays on the device and is filled in place. A group
step fills the columns of its group at one step:

    group step   0   1   2   3   4   5        two groups, L = 3
    step t       0   0   1   1   2   2
    columns      g0  g1  g0  g1  g0  g1       complete; the next one starts over

The host compiles these functions apart and calls them one after the other; each is
dispatched without waiting for the one before. What a function replaces is donated to it, so
that nothing is copied.
"""

import itertools
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int, Num, UInt32

from sidequest.agent.actor import ActorState, Policy, StepRecord, act_greedily
from sidequest.agent.learner import LearnerState, Metrics
from sidequest.agent.losses import Step
from sidequest.agent.networks import CoreState, QFunction
from sidequest.replay.replay import ReplayState, Sample
from sidequest.runs.build import Agent
from sidequest.runs.state import (
    BEGIN,
    GROUP_STEPS,
    SAMPLES,
    IterationRecord,
    RunArrays,
    RunState,
    add_block,
    init_run,
    newest_policy,
    record_block,
    stored_step,
    strip_weak_types,
)
from sidequest.switching.metacontroller import ArmProbabilities, MetaState
from sidequest.types import Key, Timestep


class _Layout(NamedTuple):
    """Says where the leaves of a tree lie in the words."""

    structure: Any
    leaves: tuple[jax.ShapeDtypeStruct, ...]
    """Without the leading axes that all of them share."""


@partial(jax.tree_util.register_dataclass, data_fields=["words"], meta_fields=["layout"])
@dataclass(frozen=True)
class Packed:
    """A tree of numbers as one array of 32-bit words [..., F].

    The state of an environment is some thirty numbers in as many arrays, and a step leaves
    twenty more. A program that is called hundreds of times a second pays for each array:
    the host handles a buffer, and the device runs a kernel to cut a group out of it and
    another to write it back. Packed, they cost what one array costs. The layout stays
    through `jit` and `tree.map`, as long as the last axis stays as it is.
    """

    words: UInt32[Array, "*lead F"]
    layout: _Layout

    def unpack(self) -> Any:
        """Returns the packed tree, or the part that the leading axes were cut to."""

        def from_words(words: UInt32[Array, "..."], spec: jax.ShapeDtypeStruct) -> Array:
            is_flag = spec.dtype == jnp.bool_
            leaf = words > 0 if is_flag else lax.bitcast_convert_type(words, spec.dtype)
            return leaf.reshape(*words.shape[:-1], *spec.shape)

        sizes = [leaf.size for leaf in self.layout.leaves]
        pieces = jnp.split(self.words, list(itertools.accumulate(sizes))[:-1], axis=-1)
        leaves = map(from_words, pieces, self.layout.leaves)
        return jax.tree.unflatten(self.layout.structure, leaves)


def pack(tree: Any, axes: int) -> Packed:
    """Packs numbers of 32 bits and flags, whose first `axes` axes are the same for all."""
    leaves, structure = jax.tree.flatten(tree)
    layout = _Layout(
        structure,
        tuple(jax.ShapeDtypeStruct(leaf.shape[axes:], leaf.dtype) for leaf in leaves),
    )

    def to_words(leaf: Array) -> UInt32[Array, "..."]:
        is_flag = leaf.dtype == jnp.bool_
        leaf = leaf.astype(jnp.uint32) if is_flag else leaf
        return lax.bitcast_convert_type(leaf, jnp.uint32)

    lead = leaves[0].shape[:axes]
    pieces = [to_words(leaf).reshape(*lead, -1) for leaf in leaves]
    return Packed(jnp.concatenate(pieces, axis=-1), layout)


class Collected(NamedTuple):
    """The block that is being filled."""

    group_steps: Int[Array, ""]
    """Steps of all groups so far: tells the step and the columns of the next one."""
    frames: Num[Array, "L B ..."]
    """Observations; all else that belongs to a step is small, and packed."""
    packed: Packed
    """[L, B]"""
    core: CoreState
    """[B]: recurrent state of each environment before step `core_offset` of the block."""

    def contents(self) -> tuple[Step, StepRecord]:
        """Returns what replay stores, and what actors record: [L, B]."""
        steps, records = self.packed.unpack()
        return steps._replace(observation=self.frames), records


class Playing(NamedTuple):
    """E greedy episodes side by side; their returns are counted on the host."""

    q_functions: QFunction
    """[E]: an episode is played to its end by the parameters that it began with."""
    cores: CoreState
    """[E]"""
    previous_actions: Int[Array, "E"]


def init_state(
    agent: Agent, episodes: int, arrays: RunArrays
) -> tuple[RunState, Collected, Playing | None]:
    """Returns a run before its first group step: its state, without the environments, which
    are on the host, an empty block, and what the evaluator carries from step to step.

    Training donates all of it: read it between blocks, and keep copies only.
    """
    learner_key, _ = jax.random.split(jax.random.fold_in(arrays.key, BEGIN))
    run = strip_weak_types(init_run(agent, arrays, learner_key))
    block = _empty_block(agent, run.policy, run.actors)
    # Copies, since updates donate the learner and group steps the actors.
    run = run._replace(
        key=jax.random.clone(arrays.key),
        policy=jax.tree.map(jnp.copy, run.policy),
        actors=pack(run.actors, axes=1),
    )
    q_function = run.learner.q_function
    playing = begin_playing(q_function, episodes) if episodes else None
    return run, block, playing


def sync_parameters(agent: Agent, learner: LearnerState, meta: MetaState) -> Policy:
    """Returns what actors act by from now on: copies, since updates donate the learner."""
    return jax.tree.map(jnp.copy, strip_weak_types(newest_policy(agent, learner, meta)))


def arm_probabilities(agent: Agent, meta: MetaState) -> ArmProbabilities:
    """Returns what actors draw arms by; copies, since updates donate the bandits."""
    return jax.tree.map(jnp.copy, strip_weak_types(agent.meta.arm_probabilities(meta)))


def finish_block(
    agent: Agent, run: RunState, block: Collected, metrics: Metrics
) -> tuple[RunState, IterationRecord]:
    """Adds a complete block to replay; returns what the tables need of it."""
    steps, records = block.contents()
    run = add_block(agent, steps, records, block.core, run)
    record = record_block(steps, records, metrics, run)
    # Copies, since the next group step writes over the block.
    return run, jax.tree.map(jnp.copy, record)


def sample(agent: Agent, key: Key, updates: Int[Array, ""], replay: ReplayState) -> Sample:
    """Samples the batch of the next update.

    This is apart from the update: together, XLA gathers the frames once for each use.
    """
    key = jax.random.fold_in(jax.random.fold_in(key, SAMPLES), updates)
    return agent.replay.sample(key, replay, agent.batch_size)


def pack_timestep(timestep: Timestep) -> Float[np.ndarray, "4 B"]:
    """Returns all but the frames in one array: every copy has its price, however small."""
    rows = timestep.reward, timestep.terminated, timestep.truncated, timestep.is_first
    return np.stack(rows, dtype=np.float32, casting="unsafe")


def unpack_timestep(frames: Num[Array, "B ..."], rest: Float[Array, "4 B"]) -> Timestep:
    reward, terminated, truncated, is_first = rest
    return Timestep(frames, reward, terminated > 0, truncated > 0, is_first > 0)


def _empty_block(agent: Agent, policy: Policy, actors: ActorState) -> Collected:
    """Returns a block before its first step; `policy` is for shapes only."""
    count = agent.environments
    steps = jax.tree.map(
        lambda leaf: jnp.zeros((count, *leaf.shape), leaf.dtype), agent.step_example
    )
    timesteps = Timestep(
        steps.observation, steps.reward, steps.terminated, steps.truncated, steps.is_first
    )
    act = jax.vmap(agent.actor.act, in_axes=(None, 0, 0, 0))
    keys = jax.random.split(jax.random.key(0), count)
    _, _, records = jax.eval_shape(act, policy, keys, timesteps, actors)
    steps, records = jax.tree.map(
        lambda leaf: jnp.zeros((agent.block_length, *leaf.shape), leaf.dtype),
        (steps, records),
    )
    return Collected(
        group_steps=jnp.zeros((), jnp.int32),
        frames=steps.observation,
        packed=pack((steps._replace(observation=None), records), axes=2),
        core=actors.core,
    )


def step_group(
    agent: Agent,
    groups: int,
    key: Key,
    policy: Policy,
    arrived: tuple[Num[Array, "size ..."], Float[Array, "4 size"]],
    actors: Packed,
    block: Collected,
) -> tuple[Int[Array, "size"], Packed, Collected]:
    """Acts on the timesteps of the next group [size], and puts them into the block; actors
    are those of all environments [B]."""
    timesteps = unpack_timestep(*arrived)
    key = jax.random.fold_in(key, GROUP_STEPS)
    size = agent.environments // groups
    t = block.group_steps // groups % agent.block_length
    first = block.group_steps % groups * size
    keys = jax.random.split(jax.random.fold_in(key, block.group_steps), size)
    before = _columns(actors, first, size).unpack()
    act = jax.vmap(agent.actor.act, in_axes=(None, 0, 0, 0))
    actions, after, records = act(policy, keys, timesteps, before)
    steps = stored_step(timesteps, actions, records)._replace(observation=None)
    row = jax.tree.map(lambda leaf: leaf[None], pack((steps, records), axes=1))
    core = jax.tree.map(
        lambda new, old: jnp.where(t == agent.replay.core_offset, new, old),
        before.core,
        _columns(block.core, first, size),
    )
    block = Collected(
        group_steps=block.group_steps + 1,
        frames=_put(block.frames, timesteps.observation[None], (t, first)),
        packed=_put(block.packed, row, (t, first)),
        core=_put(block.core, core, (first,)),
    )
    return actions, _put(actors, pack(after, axes=1), (first,)), block


def begin_playing(q_function: QFunction, episodes: int) -> Playing:
    """Returns the evaluator before the first timesteps of its emulators."""

    def repeat(tree):
        return jax.tree.map(lambda leaf: jnp.repeat(leaf[None], episodes, axis=0), tree)

    cores = repeat(q_function.initial_state())
    return Playing(repeat(q_function), cores, jnp.zeros(episodes, jnp.int32))


def play(
    newest: QFunction,
    arrived: tuple[Num[Array, "E ..."], Float[Array, "4 E"]],
    playing: Playing,
) -> tuple[Int[Array, "E"], Playing]:
    """Makes a greedy step of each episode; those that start take the newest parameters."""

    def one(timestep: Timestep, now: Playing) -> tuple[Int[Array, ""], Playing]:
        q_function = jax.tree.map(
            lambda new, old: jnp.where(timestep.is_first, new, old), newest, now.q_functions
        )
        action, core = act_greedily(q_function, timestep, now.previous_actions, now.cores)
        return action, Playing(q_function, core, action)

    return jax.vmap(one)(unpack_timestep(*arrived), playing)


def _columns(tree, first: Int[Array, ""], size: int):
    """Returns the environments of one group, of arrays [B, ...]."""
    return jax.tree.map(lambda leaf: lax.dynamic_slice_in_dim(leaf, first, size), tree)


def _put(buffers, values, start: tuple[Int[Array, ""], ...]):
    """Writes into the buffers, in place where they are donated."""

    def put(buffer: Array, value: Array) -> Array:
        zeros = (jnp.zeros((), jnp.int32),) * (buffer.ndim - len(start))
        return lax.dynamic_update_slice(buffer, value.astype(buffer.dtype), start + zeros)

    return jax.tree.map(put, buffers, values)


class Programs:
    """The functions above, compiled for one agent when they are first needed."""

    def __init__(self, agent: Agent, groups: int, episodes: int):
        self.init_state = jax.jit(partial(init_state, agent, episodes))
        self.init_surroundings = jax.jit(
            lambda arrays: init_state(agent, episodes, arrays)[1:]
        )
        self.step_group = jax.jit(partial(step_group, agent, groups), donate_argnums=(3, 4))
        self.play = jax.jit(play, donate_argnums=2)
        self.finish_block = jax.jit(partial(finish_block, agent), donate_argnums=0)
        self.sample = jax.jit(partial(sample, agent))
        self.update = jax.jit(agent.learner.update, donate_argnums=0)
        self.reprioritise = jax.jit(agent.replay.reprioritise, donate_argnums=0)
        self.sync_parameters = jax.jit(partial(sync_parameters, agent))
        self.update_bandits = jax.jit(agent.meta.update, donate_argnums=0)
        self.arm_probabilities = jax.jit(partial(arm_probabilities, agent))

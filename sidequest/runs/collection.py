"""The device's side of hosted play: what a group of emulators shows becomes actions.

All groups share one block [L, B], which stays on the device and is filled in place. A visit
fills the columns of its group at one step:

    visit        0   1   2   3   4   5        two groups, L = 3
    step t       0   0   1   1   2   2
    columns      g0  g1  g0  g1  g0  g1       complete; the next visit starts over
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int, Num

from sidequest.agent.actor import ActorState, Policy, StepRecord, act_greedily
from sidequest.agent.losses import Step
from sidequest.agent.lstm import CoreState
from sidequest.agent.networks import QFunction
from sidequest.runs.assembly import Parts
from sidequest.runs.packing import Packed, pack
from sidequest.runs.rounds import stored_step
from sidequest.types import Key, Timestep


class Collected(NamedTuple):
    """The block in the making."""

    visits: Int[Array, ""]
    """So far, of all groups: tells the step and the columns of the next one."""
    frames: Num[Array, "L B ..."]
    """Observations; all else that belongs to a step is small, and packed."""
    packed: Packed
    """[L, B]"""
    core: CoreState
    """[B]: of each stream, before step `core_offset` of the block."""

    def contents(self) -> tuple[Step, StepRecord]:
        """[L, B]: what replay stores, and what actors say of it."""
        steps, records = self.packed.unpack()
        return steps._replace(observation=self.frames), records


class Playing(NamedTuple):
    """E greedy episodes side by side; what they earn is counted on the host."""

    q_functions: QFunction
    """[E]: an episode is played to its end by the parameters that it began with."""
    cores: CoreState
    """[E]"""
    previous_actions: Int[Array, "E"]


def pack_timestep(timestep: Timestep) -> Float[np.ndarray, "4 B"]:
    """All but the frames in one array: every copy has its price, however small it is."""
    rows = timestep.reward, timestep.terminated, timestep.truncated, timestep.is_first
    return np.stack(rows, dtype=np.float32, casting="unsafe")


def unpack_timestep(frames: Num[Array, "B ..."], rest: Float[Array, "4 B"]) -> Timestep:
    """The timestep [B] that was packed."""
    reward, terminated, truncated, is_first = rest
    return Timestep(frames, reward, terminated > 0, truncated > 0, is_first > 0)


def empty_block(parts: Parts, key: Key, policy: Policy, actors: ActorState) -> Collected:
    """A block before its first visit; the values of `key` and `policy` do not matter."""
    streams = parts.streams
    steps = jax.tree.map(
        lambda leaf: jnp.zeros((streams, *leaf.shape), leaf.dtype), parts.step_example
    )
    timesteps = Timestep(
        steps.observation, steps.reward, steps.terminated, steps.truncated, steps.is_first
    )
    act = jax.vmap(parts.actor.act, in_axes=(None, 0, 0, 0))
    keys = jax.random.split(key, streams)
    _, _, records = jax.eval_shape(act, policy, keys, timesteps, actors)

    def blank(leaf) -> Array:
        return jnp.zeros((parts.block_length, *leaf.shape), leaf.dtype)

    steps, records = jax.tree.map(blank, (steps, records))
    return Collected(
        visits=jnp.zeros((), jnp.int32),
        frames=steps.observation,
        packed=pack((steps._replace(observation=None), records), axes=2),
        core=actors.core,
    )


def visit(
    parts: Parts,
    groups: int,
    key: Key,
    policy: Policy,
    timesteps: Timestep,
    actors: Packed,
    block: Collected,
) -> tuple[Int[Array, "size"], Packed, Collected]:
    """Acts on the timesteps of the next group [size], and puts them into the block.

    Args:
        actors: The states of all streams [B].
    """
    size = parts.streams // groups
    t = block.visits // groups % parts.block_length
    first = block.visits % groups * size
    keys = jax.random.split(jax.random.fold_in(key, block.visits), size)
    before = _columns(actors, first, size).unpack()
    act = jax.vmap(parts.actor.act, in_axes=(None, 0, 0, 0))
    actions, after, records = act(policy, keys, timesteps, before)
    steps = stored_step(timesteps, actions, records)._replace(observation=None)
    core = jax.tree.map(
        lambda new, old: jnp.where(t == parts.replay.core_offset, new, old),
        before.core,
        _columns(block.core, first, size),
    )
    block = Collected(
        visits=block.visits + 1,
        frames=_put(block.frames, timesteps.observation[None], (t, first)),
        packed=_put(block.packed, _one_row(pack((steps, records), axes=1)), (t, first)),
        core=_put(block.core, core, (first,)),
    )
    return actions, _put(actors, pack(after, axes=1), (first,)), block


def begin_playing(q_function: QFunction, episodes: int) -> Playing:
    """Before the first timesteps of the evaluator's emulators."""

    def repeat(tree):
        return jax.tree.map(lambda leaf: jnp.repeat(leaf[None], episodes, axis=0), tree)

    cores = repeat(q_function.initial_state())
    return Playing(repeat(q_function), cores, jnp.zeros(episodes, jnp.int32))


def play(
    newest: QFunction, timesteps: Timestep, playing: Playing
) -> tuple[Int[Array, "E"], Playing]:
    """One greedy step of each episode; those that start take the newest parameters."""

    def one(timestep: Timestep, now: Playing) -> tuple[Int[Array, ""], Playing]:
        q_function = jax.tree.map(
            lambda new, old: jnp.where(timestep.is_first, new, old), newest, now.q_functions
        )
        action, core = act_greedily(q_function, timestep, now.previous_actions, now.cores)
        return action, Playing(q_function, core, action)

    return jax.vmap(one)(timesteps, playing)


def _columns(tree, first: Int[Array, ""], size: int):
    """The streams of one group, of arrays [B, ...]."""
    return jax.tree.map(lambda leaf: lax.dynamic_slice_in_dim(leaf, first, size), tree)


def _one_row(tree):
    return jax.tree.map(lambda leaf: leaf[None], tree)


def _put(buffers, values, start: tuple[Int[Array, ""], ...]):
    """Writes into the buffers, in place where they are donated."""

    def put(buffer: Array, value: Array) -> Array:
        zeros = (jnp.zeros((), jnp.int32),) * (buffer.ndim - len(start))
        return lax.dynamic_update_slice(buffer, value.astype(buffer.dtype), start + zeros)

    return jax.tree.map(put, buffers, values)

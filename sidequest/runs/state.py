"""The state of one run between two rounds, the same in both runtimes.

`ondevice` carries it through a compiled loop; `programs` keeps it on the device while
emulators play on the host, with actors packed and without environments.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from sidequest.agent.actor import Policy
from sidequest.agent.learner import LearnerState
from sidequest.agent.losses import Step
from sidequest.agent.modes import Modes, modes_of
from sidequest.config import Config
from sidequest.replay.replay import ReplayState
from sidequest.runs.assembly import Parts, arms_of
from sidequest.runs.keys import is_key
from sidequest.runs.spec import RunSpec
from sidequest.switching.metacontroller import MetaState, VariantArrays, variant_arrays
from sidequest.switching.variants import Variant
from sidequest.types import Key, Timestep


class Individual(NamedTuple):
    """What makes one member of a population different from another."""

    key: Key
    variant: VariantArrays
    modes: Modes


def individual_of(variant: Variant, seed: int, parts: Parts, config: Config) -> Individual:
    """What a variant and a seed make of an agent with these parts."""
    heads = tuple(head.name for head in parts.rules.heads)
    return Individual(
        key=jax.random.key(seed),
        variant=variant_arrays(variant, arms_of(config.switching)),
        modes=modes_of(variant, heads),
    )


def individuals(runs: Sequence[RunSpec], parts: Parts, config: Config) -> Individual:
    """Those of several runs, stacked."""
    each = [individual_of(run.variant, run.seed, parts, config) for run in runs]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *each)


class Tail(NamedTuple):
    """Of the last block, what the first priorities of the next items need: [L, B]."""

    steps: Step
    """Without observations."""
    q_taken: Float[Array, "L B"]
    values: Float[Array, "L B"]


def empty_tail(parts: Parts) -> Tail:
    """Before the first block."""
    shape = parts.block_length, parts.streams
    zeros = jnp.zeros(shape)
    steps = jax.tree.map(
        lambda leaf: jnp.zeros((*shape, *leaf.shape), leaf.dtype),
        parts.step_example._replace(observation=None),
    )
    return Tail(steps, zeros, zeros)


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
    tail: Tail


def settle(tree):
    """Fixes the types of numbers that came from Python's: what follows them in a loop has
    no such weak types, and a program would be compiled once for each."""

    def strong(leaf: Array) -> Array:
        return leaf if is_key(leaf) else jax.lax.convert_element_type(leaf, leaf.dtype)

    return jax.tree.map(strong, tree)

"""Random batches of sequences with ends of both kinds in them, and a small network."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from sidequest.agent.losses import Step
from sidequest.agent.networks import CoreState, RecurrentQNetwork, unroll_together
from sidequest.types import EnvironmentSpec

ITEMS, ACTIONS, UNITS = 4, 3, 6


def spec_of(*shape: int, actions: int = ACTIONS, **more) -> EnvironmentSpec:
    """A made-up game that shows observations of this shape."""
    return EnvironmentSpec("made up", shape, np.dtype(np.float32), actions, **more)


SPEC = spec_of(5)


@eqx.filter_jit
def make_network(heads: int, key) -> RecurrentQNetwork:
    return RecurrentQNetwork(
        key,
        SPEC,
        heads,
        convolutions=(),
        torso_units=(8,),
        core_units=UNITS,
        post_units=7,
        head_units=7,
    )


def random_steps(seed: int, *shape: int, ends: float = 0.25) -> Step:
    """Steps of streams, e.g. [N, T] or [T, B]; flags are drawn for each on its own."""
    rng = np.random.default_rng(seed)
    ended = rng.random(shape) < ends
    truncated = ended & (rng.random(shape) < 0.4)
    observation = rng.normal(size=(*shape, *SPEC.observation_shape))
    return jax.tree.map(
        jnp.asarray,
        Step(
            observation=observation.astype(np.float32),
            previous_action=rng.integers(0, ACTIONS, shape, np.int32),
            reward=rng.normal(size=shape).astype(np.float32),
            terminated=ended & ~truncated,
            truncated=truncated,
            is_first=ended,
            action=rng.integers(0, ACTIONS, shape, np.int32),
        ),
    )


@eqx.filter_jit
def unroll_one(q_function, inputs, state):
    """Q-values of one sequence [T, H, A], and the state after it."""
    one = jax.tree.map(lambda leaf: leaf[None], inputs)
    states = jax.tree.map(lambda leaf: leaf[None, None], state)
    networks, normalisation = [q_function.network], q_function.normalisation
    [q], states = unroll_together(networks, normalisation, one, states)
    return q[0], jax.tree.map(lambda leaf: leaf[0, 0], states)


def random_core(seed: int, items: int = ITEMS) -> CoreState:
    numbers = np.random.default_rng(seed).normal(size=(2, items, UNITS)).astype(np.float32)
    return CoreState(*map(jnp.asarray, numbers))

"""Agents so small that their whole loop compiles and runs in seconds."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from sidequest.config import SMALL, Config, change
from sidequest.environments.base import (
    CompiledEnvironment,
    EnvironmentSpec,
    auto_reset,
)
from sidequest.runs import ondevice
from sidequest.runs.build import Agent, build_agent
from sidequest.runs.state import RunArrays, run_arrays
from sidequest.switching.variants import Variant, parse

TINY = change(
    SMALL,
    **{
        "network.pre_units": 16,
        "network.core_units": 16,
        "network.post_units": 16,
        "network.head_units": 16,
        "acting.environments": 4,
        "acting.sync_interval": 8,
        "replay.capacity": 4 * 8 * 12,
        "replay.block_length": 8,
        "replay.prefix": 4,
        "replay.ratio": 2.0,
        "replay.warm_up": 0,
        "learning.batch_size": 8,
        "learning.discount": 0.9,
        "learning.short_discount": 0.5,
        "learning.target_interval": 5,
        "novelty.units": 16,
        "switching.window": 16,
    },
)


class Bargain(NamedTuple):
    offers: jax.Array
    step: jax.Array


def bargains() -> CompiledEnvironment:
    """Two offers are shown, the action takes one of them; no two episodes are alike.

    An episode ends after any step with probability 1/4, or at 12 steps.
    """
    spec = EnvironmentSpec("bargains", (2,), np.dtype(np.float32), 2, max_steps=12)

    def reset(key):
        offers = jax.random.normal(key, (2,))
        return Bargain(offers, jnp.int32(0)), offers

    def step(key, state, action):
        end_key, offer_key = jax.random.split(key)
        following = Bargain(jax.random.normal(offer_key, (2,)), state.step + 1)
        over = jax.random.bernoulli(end_key, 0.25)
        return (
            following,
            following.offers,
            state.offers[action],
            over,
            following.step == spec.max_steps,
        )

    return auto_reset(reset, step, spec)


class Loop(NamedTuple):
    """The compiled loop of an agent on an environment."""

    agent: Agent
    environment: CompiledEnvironment

    def arrays(self, variant: Variant | str, seed: int) -> RunArrays:
        return run_arrays(parse(variant), seed, self.agent)

    def init(self, arrays: RunArrays):
        return ondevice.init_state(self.agent, self.environment, arrays)

    def iterate(self, state, block, count: int):
        return ondevice.iterate(self.agent, self.environment, state, block, count)


def make_loop(
    environment: CompiledEnvironment, *variants: str, config: Config = TINY
) -> Loop:
    variants = [parse(name) for name in variants]
    return Loop(build_agent(config, environment.spec, variants), environment)


def stack(trees):
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def at(tree, i: int):
    return jax.tree.map(lambda leaf: leaf[i], tree)


def arrays(tree):
    """As NumPy, random keys included."""

    def convert(leaf):
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)
        return np.asarray(leaf)

    return jax.tree.map(convert, tree)

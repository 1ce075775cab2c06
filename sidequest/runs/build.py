"""From settings to an agent; the place where settings become arguments."""

import functools
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array

from sidequest.agent.actor import Actor, make_actor
from sidequest.agent.convolutions import ConvolutionShape, is_image
from sidequest.agent.learner import Learner, make_learner
from sidequest.agent.losses import Rules, Step
from sidequest.agent.modes import make_heads
from sidequest.agent.networks import RecurrentQNetwork
from sidequest.agent.rnd import RND, make_rnd
from sidequest.config import Config, SwitchingConfig
from sidequest.environments.base import EnvironmentSpec
from sidequest.errors import ConfigError
from sidequest.replay.replay import (
    TRAINED_BLOCKS,
    MakeStore,
    Replay,
    make_replay,
    raw_store,
)
from sidequest.switching import bandits
from sidequest.switching.controllers import Controller, make_controller
from sidequest.switching.metacontroller import MetaController, make_metacontroller
from sidequest.switching.triggers import SIGNALS, value_promise
from sidequest.switching.variants import ArmSets, Variant
from sidequest.types import Key

Count = TypeVar("Count", int, Array)
"""A number on the host, or within a compiled program."""


class Pace(NamedTuple):
    """Says when updates are due: `numerator` of them in every `denominator` blocks."""

    numerator: int
    denominator: int
    warm_up: int
    """Blocks before learning starts."""
    sync_every: int
    """Blocks between two copies of the newest parameters to the actors."""

    def due(self, block: Count) -> Count:
        """Returns how many updates belong after this block; exact over time."""
        return self._until(block + 1) - self._until(block)

    def is_sync_due(self, block: Count):
        """Returns whether actors get the newest parameters after this block."""
        return block % self.sync_every == self.sync_every - 1

    def after_empty_replay(self, blocks: int) -> "Pace":
        """Returns the pace of a run whose replay is empty after `blocks` blocks: learning
        waits as at the start of a run, and no updates are made up for."""
        return self._replace(warm_up=blocks + self.warm_up)

    def _until(self, blocks: Count) -> Count:
        past_warm_up = (blocks > self.warm_up) * (blocks - self.warm_up)
        return past_warm_up * self.numerator // self.denominator


def make_pace(config: Config) -> Pace:
    """Returns the pace: a block adds a sequence per environment, replayed `ratio` times."""
    acting, replay = config.acting, config.replay
    ratio = Fraction(replay.ratio).limit_denominator(1_000)
    updates = ratio * acting.environments / config.learning.batch_size
    return Pace(
        numerator=updates.numerator,
        denominator=updates.denominator,
        # An item is complete with the last of its blocks.
        warm_up=max(
            -(-replay.prefix // replay.block_length) + TRAINED_BLOCKS - 1,
            -(-replay.warm_up // (acting.environments * replay.block_length)),
        ),
        sync_every=max(1, acting.sync_interval // replay.block_length),
    )


class Agent(NamedTuple):
    """An agent for one game and one set of heads; nothing in it depends on a seed."""

    heads: tuple[str, ...]
    arms: ArmSets
    rules: Rules
    actor: Actor
    learner: Learner
    replay: Replay
    meta: MetaController
    pace: Pace
    step_example: Step
    """One stored step of one environment, for its shapes."""
    environments: int
    block_length: int
    batch_size: int
    frames_per_step: int
    novelty_epsilon: float
    """Epsilon of XI's explore mode."""

    @property
    def frames_per_block(self) -> int:
        """Environment frames of a block, of all environments together."""
        return self.environments * self.block_length * self.frames_per_step


def build_agent(
    config: Config,
    spec: EnvironmentSpec,
    variants: Sequence[Variant],
    store: MakeStore = raw_store,
) -> Agent:
    """Builds an agent that plays `spec` by any of these variants, which share their heads.

    Raises:
        ValueError: If sizes do not go together, or JAX's numbers have 64 bits.
    """
    if jnp.zeros(()).dtype != jnp.float32:
        raise ConfigError(
            "the agent's numbers have 32 bits: unset JAX_ENABLE_X64, or let the game's "
            "module not set jax_enable_x64"
        )
    (needed,) = {variant.heads for variant in variants}
    learning, replay, switching = config.learning, config.replay, config.switching
    heads = make_heads(
        needed,
        discount=learning.discount,
        short_discount=learning.short_discount,
        cut_traces=learning.watkins,
        episodic_novelty=config.novelty.episodic,
    )
    names = tuple(head.name for head in heads)
    rules = Rules(
        heads=heads,
        prefix=replay.prefix,
        n_step=learning.n_step,
        timeout_is_terminal=learning.timeout_is_terminal,
        priority_mix=learning.priority_mix,
        priorities=learning.priorities,
        novelty_weight=config.novelty.weight,
        centre_novelty=config.novelty.centred,
        trace_tolerance=learning.trace_tolerance,
        normalise_inputs=learning.normalise_inputs,
        normalise_values=learning.normalise_values,
    )
    network = functools.partial(make_network, config, spec, len(heads))
    core = jax.eval_shape(lambda: network(jax.random.key(0)).initial_state())
    example = _step_example(spec)
    arms = ArmSets(switching.explore_arms, switching.exploit_arms, switching.rate_arms)

    def make_bandit(count: int) -> bandits.Bandit:
        if switching.bandit == "ucb":
            return bandits.ucb(count, switching.window or 160)
        return bandits.proportional(count, switching.window or "adaptive")

    return Agent(
        heads=names,
        arms=arms,
        rules=rules,
        actor=make_actor(
            make_switching(switching, arms), names, discount=learning.discount
        ),
        learner=make_learner(
            network,
            make_optimiser(config),
            rules,
            target_interval=learning.target_interval,
            rnd=_make_rnd(config, spec) if "intrinsic" in names else None,
        ),
        replay=make_replay(
            example,
            core,
            streams=config.acting.environments,
            capacity=replay.capacity,
            block_length=replay.block_length,
            prefix=replay.prefix,
            priority_exponent=replay.priority_exponent,
            importance_exponent=replay.importance_exponent,
            store=store,
        ),
        meta=make_metacontroller(make_bandit, arms),
        pace=make_pace(config),
        step_example=example,
        environments=config.acting.environments,
        block_length=replay.block_length,
        batch_size=learning.batch_size,
        frames_per_step=spec.frames_per_step,
        novelty_epsilon=config.novelty.epsilon,
    )


def make_network(
    config: Config, spec: EnvironmentSpec, heads: int, key: Key
) -> RecurrentQNetwork:
    """Returns a fresh network for a game."""
    network = config.network
    return RecurrentQNetwork(
        key,
        spec,
        heads,
        convolutions=_convolutions(network, spec),
        torso_units=(network.pre_units,),
        core_units=network.core_units,
        post_units=network.post_units,
        head_units=network.head_units,
        compute_dtype=_compute_dtype(config),
        scan_unroll=network.scan_unroll,
        recurrent=network.recurrent,
    )


def make_optimiser(config: Config) -> optax.GradientTransformation:
    """Returns Adam with clipped gradients."""
    learning = config.learning
    return optax.chain(
        optax.clip_by_global_norm(learning.clip_norm),
        optax.adam(
            learning.learning_rate,
            b1=learning.adam_b1,
            b2=learning.adam_b2,
            eps=learning.adam_epsilon,
        ),
    )


def make_switching(switching: SwitchingConfig, arms: ArmSets) -> Controller:
    """Returns the controller with the paper's signals."""
    promise = value_promise(switching.promise_horizon, switching.promise_order)
    return make_controller(SIGNALS | {"informed": promise}, switching.rule, arms.width)


def _make_rnd(config: Config, spec: EnvironmentSpec) -> RND:
    settings = config.novelty
    return make_rnd(
        spec,
        make_optimiser(config),
        convolutions=_convolutions(settings, spec),
        downsampling=settings.downsampling,
        units=settings.units,
        compute_dtype=_compute_dtype(config),
    )


def _convolutions(settings, spec: EnvironmentSpec) -> tuple[ConvolutionShape, ...]:
    """Returns the torso's convolutions; none unless observations are images."""
    if not is_image(spec):
        return ()
    layers = zip(settings.channels, settings.kernels, settings.strides, strict=True)
    return tuple(ConvolutionShape(*layer) for layer in layers)


def _compute_dtype(config: Config) -> str:
    """Returns the type that convolutions and matrix products are computed in."""
    if config.network.dtype != "auto":
        return config.network.dtype
    return "float32" if jax.default_backend() == "cpu" else "bfloat16"


def _step_example(spec: EnvironmentSpec) -> Step:
    integer, number, flag = jnp.zeros((), jnp.int32), jnp.zeros(()), jnp.zeros((), bool)
    return Step(
        observation=np.zeros(spec.observation_shape, spec.observation_dtype),
        previous_action=integer,
        reward=number,
        terminated=flag,
        truncated=flag,
        is_first=flag,
        action=integer,
    )

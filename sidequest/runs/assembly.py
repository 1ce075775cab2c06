"""From settings to parts: the only place where a `Config` is read.

Both runtimes put the same parts together; they differ in where the environment lives and in
what is compiled with what.
"""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from sidequest.agent.actor import Actor, make_actor
from sidequest.agent.convolutions import ConvolutionShape, ObservationSpec, is_image
from sidequest.agent.learner import Learner, make_learner
from sidequest.agent.losses import Rules, Step
from sidequest.agent.modes import make_heads
from sidequest.agent.networks import QFunction, RecurrentQNetwork
from sidequest.agent.rnd import RND, make_rnd
from sidequest.config import Config, SwitchingConfig
from sidequest.environments.base import EnvironmentSpec
from sidequest.replay.replay import Replay, make_replay
from sidequest.replay.store import MakeStore, raw_store
from sidequest.switching import bandits
from sidequest.switching.controllers import make_controller
from sidequest.switching.metacontroller import MetaController, make_metacontroller
from sidequest.switching.triggers import SIGNALS, value_promise
from sidequest.switching.variants import ArmSets, Variant
from sidequest.types import Key


class Parts(NamedTuple):
    """All that a runtime needs; nothing in it depends on a seed."""

    rules: Rules
    actor: Actor
    learner: Learner
    replay: Replay
    meta: MetaController
    step_example: Step
    streams: int
    block_length: int
    batch_size: int


def shared_heads(variants: Sequence[Variant]) -> tuple[str, ...]:
    """The heads of a population; its members share one program, so they must agree."""
    needed = {variant.heads for variant in variants}
    if len(needed) > 1:
        listed = "; ".join(f"{variant}: {', '.join(variant.heads)}" for variant in variants)
        raise ValueError(
            f"these variants need different heads, so run them apart: {listed}"
        )
    return needed.pop()


def assemble(
    config: Config,
    spec: EnvironmentSpec,
    variants: Sequence[Variant],
    store: MakeStore = raw_store,
) -> Parts:
    """The parts of an agent that plays `spec` by any of these variants."""
    learning, replay = config.learning, config.replay
    heads = make_heads(
        shared_heads(variants),
        discount=learning.discount,
        short_discount=learning.short_discount,
        cut_traces=learning.watkins,
    )
    names = tuple(head.name for head in heads)
    rules = Rules(
        heads=heads,
        prefix=replay.prefix,
        n_step=learning.n_step,
        timeout_is_terminal=learning.timeout_is_terminal,
        priority_mix=learning.priority_mix,
        normalise_inputs=learning.normalise_inputs,
        normalise_values=learning.normalise_values,
    )
    network = functools.partial(make_network, config, spec, len(heads))
    core = jax.eval_shape(lambda: network(jax.random.key(0)).initial_state())
    example = step_example(spec)
    return Parts(
        rules=rules,
        actor=make_actor(
            make_switching(config.switching), names, discount=learning.discount
        ),
        learner=make_learner(
            network,
            make_optimiser(config),
            rules,
            target_interval=learning.target_interval,
            rnd=rnd_of(config, spec) if "intrinsic" in names else None,
        ),
        replay=make_replay(
            example,
            core,
            streams=config.acting.streams,
            capacity=replay.capacity,
            block_length=replay.block_length,
            prefix=replay.prefix,
            priority_exponent=replay.priority_exponent,
            importance_exponent=replay.importance_exponent,
            store=store,
        ),
        meta=make_metacontroller(bandit_of(config.switching), arms_of(config.switching)),
        step_example=example,
        streams=config.acting.streams,
        block_length=replay.block_length,
        batch_size=learning.batch_size,
    )


def observed(spec: EnvironmentSpec) -> ObservationSpec:
    return ObservationSpec(spec.observation_shape, spec.maximum, spec.categories)


def convolutions_of(settings, spec: EnvironmentSpec) -> tuple[ConvolutionShape, ...]:
    """The torso's convolutions, if the game shows images."""
    if not is_image(observed(spec)):
        return ()
    layers = zip(settings.channels, settings.kernels, settings.strides, strict=True)
    return tuple(ConvolutionShape(*layer) for layer in layers)


def dtype_of(config: Config) -> str:
    """What convolutions and matrix products are computed in."""
    if config.network.dtype != "auto":
        return config.network.dtype
    return "float32" if jax.default_backend() == "cpu" else "bfloat16"


def make_network(
    config: Config, spec: EnvironmentSpec, heads: int, key: Key
) -> RecurrentQNetwork:
    """A fresh network for a game."""
    network = config.network
    return RecurrentQNetwork(
        key,
        observed(spec),
        spec.num_actions,
        heads,
        convolutions=convolutions_of(network, spec),
        torso_units=(network.pre_units,),
        core_units=network.core_units,
        post_units=network.post_units,
        head_units=network.head_units,
        compute_dtype=dtype_of(config),
        scan_unroll=network.scan_unroll,
        recurrent=network.recurrent,
    )


def make_q_function(
    config: Config, spec: EnvironmentSpec, heads: int, key: Key
) -> QFunction:
    """Returns a fresh network that normalises nothing yet."""
    network = make_network(config, spec, heads, key)
    return QFunction(network, network.identity_normalisation())


def make_optimiser(config: Config) -> optax.GradientTransformation:
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


def rnd_of(config: Config, spec: EnvironmentSpec) -> RND:
    """Random network distillation for a game's observations."""
    settings = config.novelty
    return make_rnd(
        observed(spec),
        make_optimiser(config),
        convolutions=convolutions_of(settings, spec),
        downsampling=settings.downsampling,
        units=settings.units,
        compute_dtype=dtype_of(config),
    )


def make_switching(switching: SwitchingConfig):
    """The controller that listens to the paper's signals."""
    signals = SIGNALS | {"informed": value_promise(switching.promise_horizon)}
    return make_controller(signals, switching.rule)


def bandit_of(switching: SwitchingConfig):
    """(number of arms) -> bandit."""
    if switching.bandit == "ucb":
        return lambda arms: bandits.ucb(arms, switching.window or 160)
    return lambda arms: bandits.proportional(arms, switching.window or "adaptive")


def arms_of(switching: SwitchingConfig) -> ArmSets:
    return ArmSets(switching.explore_arms, switching.exploit_arms, switching.rate_arms)


def step_example(spec: EnvironmentSpec) -> Step:
    """One stored step of one stream, for its shapes."""
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

"""Novelty by random network distillation (Burda et al. 2018; appendix A.4).

A target network is drawn at random and never changes; a predictor learns to give the same
outputs, on the observations that are replayed. Where it fails, the observation is new:

    novelty(o) = mean_i (predictor_i(o) - target_i(o))^2

The intrinsic reward of a step is the novelty of the observation it led to, o_{t+1}. It is
computed when a step is replayed and never stored, since it shrinks as the predictor learns.

    frames      every second pixel ─▶ convolutions 32, 64, 64 ─▶ outputs 128
    vectors     linear 128 ─▶ outputs 128

The predictor has one more layer of 128 units before its outputs.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import lax
from jaxtyping import Array, Float, Num

from sidequest.agent import scaling
from sidequest.agent.convolutions import (
    ConvolutionShape,
    Linear,
    Torso,
    cast,
    encode,
    is_image,
)
from sidequest.agent.scaling import Moments
from sidequest.types import EnvironmentSpec, Key

_CLIP = 5.0
"""Normalised observations stay within this many standard deviations, as in RND."""

_SMALLEST_DEVIATION = 1e-4
"""Deviation of an input that never varied; well below one grey level in 255."""


class Embedding(eqx.Module):
    """A network from observations to vectors."""

    torso: Torso
    output: Linear

    def __init__(
        self,
        key: Key,
        shape: tuple[int, ...],
        convolutions: Sequence[ConvolutionShape],
        hidden: Sequence[int],
        outputs: int,
    ):
        torso_key, output_key = jax.random.split(key)
        self.torso = Torso(torso_key, shape, convolutions, hidden)
        self.output = Linear(output_key, self.torso.features, outputs)

    def __call__(self, x: Float[Array, "..."]) -> Float[Array, "outputs"]:
        return self.output(self.torso(x)).astype(jnp.float32)


class RNDState(NamedTuple):
    target: Embedding
    predictor: Embedding
    normaliser: Moments
    """Moments of each input of the networks, over the observations replayed so far."""
    optimiser: Any


class RND(NamedTuple):
    """Pure functions on an `RNDState`."""

    init: Callable[[Key], RNDState]
    update: Callable[[RNDState, Num[Array, "..."]], tuple[RNDState, Float[Array, "..."]]]
    """Trains on observations [..., *shape]; returns their novelty before that."""


def make_rnd(
    spec: EnvironmentSpec,
    optimiser: optax.GradientTransformation,
    *,
    convolutions: Sequence[ConvolutionShape],
    downsampling: int = 1,
    units: int = 128,
    compute_dtype: str = "float32",
) -> RND:
    """Returns random network distillation for these observations.

    Args:
        convolutions: Of both networks; empty for vectors.
        downsampling: Use every n-th pixel each way; 2 in the paper.
        units: Size of linear layers and outputs; 128 in the paper.
    """

    def prepare(observation: Num[Array, "..."]) -> Float[Array, "..."]:
        if is_image(spec):
            observation = observation[::downsampling, ::downsampling]
        return encode(spec, observation)

    dtype = jnp.dtype(compute_dtype)
    observation = jax.ShapeDtypeStruct(spec.observation_shape, jnp.uint8)
    shape = jax.eval_shape(prepare, observation).shape
    # Without convolutions a target needs a layer of its own, else it would be linear.
    hidden = () if convolutions else (units,)

    def init(key: Key) -> RNDState:
        target_key, predictor_key = jax.random.split(key)
        target = Embedding(target_key, shape, convolutions, hidden, units)
        deeper = (*hidden, units)
        predictor = Embedding(predictor_key, shape, convolutions, deeper, units)
        nothing = Moments(jnp.zeros(()), jnp.zeros(shape), jnp.ones(shape))
        parameters: Any = predictor  # optax's types know no modules
        return RNDState(target, predictor, nothing, optimiser.init(parameters))

    def update(
        state: RNDState, observations: Num[Array, "..."]
    ) -> tuple[RNDState, Float[Array, "..."]]:
        batch = observations.shape[: observations.ndim - len(spec.observation_shape)]
        x = jax.vmap(prepare)(observations.reshape(-1, *spec.observation_shape))
        # First, so that even the first observations are normalised.
        normaliser = scaling.merge(state.normaliser, scaling.moments(x, axis=0))
        x = jax.vmap(_normalise, (0, None))(x, normaliser)
        wanted = lax.stop_gradient(jax.vmap(cast(state.target, dtype))(x))

        def loss(predictor: Embedding) -> tuple[Float[Array, ""], Float[Array, "N"]]:
            predicted = jax.vmap(cast(predictor, dtype))(x)
            novelty = jnp.mean((predicted - wanted) ** 2, axis=1)
            return jnp.mean(novelty), novelty

        gradient, novelty = jax.grad(loss, has_aux=True)(state.predictor)
        changes, learned = optimiser.update(gradient, state.optimiser)
        predictor = jax.tree.map(jnp.add, state.predictor, changes)
        state = RNDState(state.target, predictor, normaliser, learned)
        return state, novelty.reshape(batch)

    return RND(init, update)


def _normalise(x: Float[Array, "..."], normaliser: Moments) -> Float[Array, "..."]:
    """Returns (x - mean) / deviation, within +-5.

    A random network cannot adapt to its inputs, so their scale has to be fixed for it.
    """
    deviation = jnp.maximum(jnp.sqrt(normaliser.variance), _SMALLEST_DEVIATION)
    return jnp.clip((x - normaliser.mean) / deviation, -_CLIP, _CLIP)

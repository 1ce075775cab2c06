"""What each mode does with the Q-values of the heads (section 2, appendix B.1).

A mode is a behaviour: with probability epsilon a uniform action, otherwise the best one by
a weighted sum of the heads. Explore modes differ only in these numbers:

    variant         exploit mode                    explore mode
    XU              greedy on extrinsic             uniform
    XI              greedy on extrinsic             greedy on intrinsic
    XS              extrinsic, epsilon 0.1          extrinsic, epsilon 0.4
    Xγ              greedy on extrinsic             greedy on the short discount
    XI-step-level   extrinsic + intrinsic           uniform

The last is the paper's baseline with one reward for both: each head's values are measured
in units of its return scale, so that the sum is of comparable numbers.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from sidequest.switching.variants import Variant
from sidequest.types import AnyArray, Key, Mode

SOFT_EXPLOIT, SOFT_EXPLORE = 0.1, 0.4  # the epsilons of XS


class Behaviour(NamedTuple):
    """How to choose an action; numbers, so that variants share one program."""

    epsilon: Float[AnyArray, ""]
    weights: Float[AnyArray, "H"]


class Modes(NamedTuple):
    exploit: Behaviour
    explore: Behaviour


def modes_of(variant: Variant, heads: tuple[str, ...]) -> Modes:
    """The behaviours of a variant's two modes, for a network with these heads."""

    def behave(epsilon: float, *followed: str) -> Behaviour:
        weights = [float(head in followed) for head in heads]
        return Behaviour(np.float32(epsilon), np.array(weights, np.float32))

    missing = set(variant.heads) - set(heads)
    if missing:
        raise ValueError(f"{variant} needs the heads {sorted(missing)}; given are {heads}")
    if variant.mode == "XS":
        return Modes(behave(SOFT_EXPLOIT, "extrinsic"), behave(SOFT_EXPLORE, "extrinsic"))
    if variant.mode == "XI" and variant.granularity == "step":
        return Modes(behave(0.0, "extrinsic", "intrinsic"), behave(1.0, "extrinsic"))
    explore = {
        "XU": behave(1.0, "extrinsic"),
        "XI": behave(0.0, "intrinsic"),
        "Xγ": behave(0.0, "short"),
    }[variant.mode]
    return Modes(behave(0.0, "extrinsic"), explore)


def current(modes: Modes, mode: Mode) -> Behaviour:
    """The behaviour of the mode that a step is in."""
    return jax.tree.map(
        lambda explore, exploit: jnp.where(mode, explore, exploit),
        modes.explore,
        modes.exploit,
    )


def choose(
    key: Key, q: Float[Array, "H A"], scales: Float[Array, "H"], behaviour: Behaviour
) -> Int[Array, ""]:
    """Draws an action: argmax_a sum_h w_h Q_h(a) / scale_h, or uniform."""
    coin_key, action_key = jax.random.split(key)
    # Not a matrix product: on a GPU that may round to three digits.
    weights = (behaviour.weights / scales)[:, None]
    best = jnp.argmax(jnp.sum(weights * q, axis=0))
    uniform = jax.random.randint(action_key, (), 0, q.shape[1])
    is_uniform = jax.random.uniform(coin_key) < behaviour.epsilon
    return jnp.where(is_uniform, uniform, best).astype(jnp.int32)

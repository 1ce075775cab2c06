"""The network's heads, and the two modes' actions by their Q-values (section 2, B.1).

Every head has the same duelling shape and the same loss; heads differ only in the fields of
a `Head`. Which heads a run needs follows from its variant:

    head        reward      discount    needed by
    extrinsic   the game's  0.997       everything; drives the exploit mode
    intrinsic   novelty     0.997       XI
    short       the game's  0.97        Xγ
    twin        the game's  0.997       triggers by the disagreement of two heads

A mode takes a uniform action with probability epsilon, otherwise the best action by a
weighted sum of the heads. Explore modes differ only in these numbers:

    variant         exploit mode                    explore mode
    XU              greedy on extrinsic             uniform
    XI              greedy on extrinsic             intrinsic, epsilon 0 or a setting
    XS              extrinsic, epsilon 0.1          extrinsic, epsilon 0.4
    Xγ              greedy on extrinsic             greedy on the short discount
    XI-step-level   extrinsic + intrinsic           uniform

The last is the paper's baseline with one reward for both: each head's values are measured
in units of its return scale, so that the sum is of comparable numbers.
"""

from collections.abc import Iterable
from functools import partial
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from sidequest.switching.variants import Variant
from sidequest.types import AnyArray, Key, Mode

_HEADS = ("extrinsic", "intrinsic", "short", "twin")
EXPLORE = {
    "XU": (1.0, "extrinsic"),
    "XI": (None, "intrinsic"),
    "XS": (0.4, "extrinsic"),
    "Xγ": (0.0, "short"),
}
"""Epsilon and head of the explore modes; XI's epsilon is a setting."""
_SOFT_EXPLOIT = 0.1  # epsilon of the exploit mode of XS


class Head(NamedTuple):
    """One head of the network. Static: a change of heads is a change of program."""

    name: str
    source: Literal["extrinsic", "intrinsic"]
    """Which reward it predicts."""
    discount: float
    cut_traces: bool
    """Whether its targets stop at actions that are not greedy for it (Watkins' Q(λ))."""
    episodic: bool
    """Whether its return ends with the episode, or passes into the next one."""


class Behaviour(NamedTuple):
    """Says how to choose an action; numbers, so that variants share one program."""

    epsilon: Float[AnyArray, ""]
    weights: Float[AnyArray, "H"]


class Modes(NamedTuple):
    exploit: Behaviour
    explore: Behaviour


def make_heads(
    names: Iterable[str],
    *,
    discount: float = 0.997,
    short_discount: float = 0.97,
    cut_traces: bool | None = None,
    episodic_novelty: bool = True,
) -> tuple[Head, ...]:
    """Returns the heads of a run, the extrinsic one first and always present. Traces are
    cut by default as in the paper: only where there is an intrinsic head (appendix A.4),
    else "off-policy corrections: none"."""
    wanted = {"extrinsic", *names}
    if not wanted <= set(_HEADS):
        raise ValueError(f"heads {sorted(wanted - set(_HEADS))}; there are only {_HEADS}")
    if cut_traces is None:
        cut_traces = "intrinsic" in wanted

    def make(name: str) -> Head:
        novelty = name == "intrinsic"
        return Head(
            name=name,
            source="intrinsic" if novelty else "extrinsic",
            discount=short_discount if name == "short" else discount,
            cut_traces=cut_traces,
            episodic=episodic_novelty or not novelty,
        )

    return tuple(make(name) for name in _HEADS if name in wanted)


def modes_of(
    variant: Variant, heads: tuple[str, ...], novelty_epsilon: float = 0.0
) -> Modes:
    """Returns the behaviours of a variant's two modes, for a network with these heads;
    `novelty_epsilon` is that of XI's explore mode."""

    def behave(epsilon: float, *followed: str) -> Behaviour:
        weights = [float(head in followed) for head in heads]
        return Behaviour(np.float32(epsilon), np.array(weights, np.float32))

    missing = set(variant.heads) - set(heads)
    if missing:
        raise ValueError(f"{variant} needs the heads {sorted(missing)}; given are {heads}")
    if variant.mode == "XI" and variant.granularity == "step":
        return Modes(behave(0.0, "extrinsic", "intrinsic"), behave(1.0, "extrinsic"))
    exploit = behave(_SOFT_EXPLOIT if variant.mode == "XS" else 0.0, "extrinsic")
    epsilon, head = EXPLORE[variant.mode]
    return Modes(exploit, behave(novelty_epsilon if epsilon is None else epsilon, head))


def current(modes: Modes, mode: Mode) -> Behaviour:
    """Returns the behaviour of the present mode."""
    return jax.tree.map(partial(jnp.where, mode), modes.explore, modes.exploit)


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

"""What may end a period: a counter, a coin, or a signal of the agent's uncertainty.

A trigger gives the probability that the present period ends at this step. The blind
ones (section 2.2) need nothing but a number; the informed one reads a scalar *signal*
and passes it to homeostasis, which keeps the target rate.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from sidequest.types import Signals

# What ends a period; a number in the state, so that it never changes the program.
NEVER, COUNTER, COIN, INFORMED = range(4)


class Signal(NamedTuple):
    """A scalar that is high when the agent should explore; it may have a state."""

    init: Callable[[], Any]
    step: Callable[[Signals, Any], tuple[Float[Array, ""], Bool[Array, ""], Any]]
    """(signals, state) -> (x, whether x means anything yet, state)."""


def stateless(read: Callable[[Signals], Float[Array, ""]]) -> Signal:
    """Returns a `Signal` that is a function of the present step's signals."""

    def step(signals: Signals, state: tuple) -> tuple[Array, Array, tuple]:
        return read(signals), jnp.bool_(True), state

    return Signal(init=tuple, step=step)


class PromiseState(NamedTuple):
    """The last k values, oldest first, each with the return since then."""

    values: Float[Array, "k"]
    returns: Float[Array, "k"]
    """Discounted rewards since that value."""
    discounts: Float[Array, "k"]
    """Product of the discounts since then."""
    age: Int[Array, ""]
    """Steps of this episode in the window."""


def value_promise(
    horizon: int = 5, order: Literal["standard", "printed"] = "standard"
) -> Signal:
    """Returns the error of the value of k steps ago, the value promise (section 2.2).

        D(t-k, t) = | V(s_{t-k}) - sum_{j=1..k} gamma^{j-1} R_{t-k+j} - gamma^k V(s_t) |

    Rewards are weighted as in a k-step return. `order="printed"` weights the newest reward
    with 1 and the oldest with gamma^{k-1}, as the paper prints it.
    Every value has its own running sum, so a step costs k multiply-adds however long the
    episode is, and nothing is divided: a discount of 0 is as good as any.

    horizon k = 2:   t            0    1    2    3   |  0    1    2
                     is_first     1    0    0    0   |  1    0    0
                     D            -    -   D02  D13  |  -    -   D02
    """
    if horizon < 1:
        raise ValueError(f"horizon is {horizon}; a promise needs 1 step or more")

    def init() -> PromiseState:
        zeros = jnp.zeros(horizon)
        return PromiseState(zeros, zeros, zeros, jnp.zeros((), jnp.int32))

    def step(
        signals: Signals, state: PromiseState
    ) -> tuple[Float[Array, ""], Bool[Array, ""], PromiseState]:
        if order == "standard":
            returns = state.returns + state.discounts * signals.reward
        else:
            returns = state.returns * signals.discount + signals.reward
        discounts = state.discounts * signals.discount
        gap = jnp.abs(state.values[0] - returns[0] - discounts[0] * signals.value)
        ready = ~signals.is_first & (state.age >= horizon)
        # At an episode's start the window is not wiped: its age says that what is in
        # it belongs to the past, and k steps later all of it has left.
        window = PromiseState(
            values=jnp.append(state.values[1:], signals.value),
            returns=jnp.append(returns[1:], 0.0),
            discounts=jnp.append(discounts[1:], 1.0),
            age=jnp.where(signals.is_first, 1, state.age + 1),
        )
        return gap, ready, window

    return Signal(init, step)


def action_mismatch(
    q_one: Float[Array, "A"], q_two: Float[Array, "A"], top: int = 3
) -> Float[Array, ""]:
    """Returns 1 - |top-k actions that two heads share| / k (appendix B).

    With no more than k actions k is one less than there are: all of them are always shared.
    """
    top = max(1, min(top, q_one.shape[-1] - 1))
    best_one = jax.lax.top_k(q_one, top)[1]
    best_two = jax.lax.top_k(q_two, top)[1]
    shared = jnp.sum(best_one[:, None] == best_two[None, :])
    return 1.0 - shared.astype(jnp.float32) / top


def value_variance(q_one: Float[Array, "A"], q_two: Float[Array, "A"]) -> Float[Array, ""]:
    """Returns the variance of Q-values across two heads, mean over actions (appendix B)."""
    return jnp.mean(jnp.square(q_one - q_two)) / 4.0


SIGNALS = {
    "informed": value_promise(),
    "informed:mismatch": stateless(lambda signals: signals.action_mismatch),
    "informed:variance": stateless(lambda signals: signals.value_variance),
}
"""The signals of the paper's informed triggers, by the names in the grammar."""

"""What may end a period: a counter, a coin, or a signal of the agent's uncertainty.

A trigger gives the probability that the present period ends at this step. The blind
ones (section 2.2) need nothing but a number; the informed one reads a scalar *signal*
and passes it to homeostasis, which keeps the target rate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from sidequest.switching.arrays import ONE, ONE_STEP, ZERO, may_hold, namespace, push
from sidequest.types import AnyArray, Signals

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

# What ends a period; a number in the state, so that it never changes the program.
NEVER, COUNTER, COIN, INFORMED = (np.array(kind, np.int32) for kind in range(4))


class Signal(NamedTuple):
    """A scalar that is high when the agent should explore; it may have a state."""

    init: Callable[[], Any]
    """Returns the state of one environment: an array, or (named) tuples of arrays."""
    step: Callable[
        [Signals, Any], tuple[Float[AnyArray, "*B"], bool | Bool[AnyArray, "*B"], Any]
    ]
    """(signals, state) -> (x, whether x means anything yet, state), element by element."""


def stateless(read: Callable[[Signals], Float[AnyArray, "*B"]]) -> Signal:
    """Returns a `Signal` that is a function of the present step's signals."""
    return Signal(init=tuple, step=lambda signals, state: (read(signals), True, state))


class PromiseState(NamedTuple):
    """The last k values, oldest first, each with the return since then."""

    values: Float[AnyArray, "k *B"]
    returns: Float[AnyArray, "k *B"]
    """Discounted rewards since that value."""
    discounts: Float[AnyArray, "k *B"]
    """Product of the discounts since then."""
    age: Int[AnyArray, "*B"]
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
    if order not in ("standard", "printed"):
        raise ValueError(f"order is {order!r}; it is 'standard' or 'printed'")
    enough = np.array(horizon, np.int32)

    def init() -> PromiseState:
        zeros = np.zeros(horizon, np.float32)
        return PromiseState(zeros, zeros, zeros, np.zeros((), np.int32))

    def step(
        signals: Signals, state: PromiseState
    ) -> tuple[Float[AnyArray, "*B"], Bool[AnyArray, "*B"], PromiseState]:
        if order == "standard":
            returns = state.returns + state.discounts * signals.reward
        else:
            returns = state.returns * signals.discount + signals.reward
        discounts = state.discounts * signals.discount
        gap = abs(state.values[0] - returns[0] - discounts[0] * signals.value)
        # At an episode's start the window is not wiped: its age says that what is in
        # it belongs to the past, and k steps later all of it has left.
        age, first = state.age, signals.is_first
        if may_hold(first):
            age = age * ~first
        values, returns, discounts = push(
            (state.values, returns, discounts), (signals.value, ZERO, ONE)
        )
        age = age + ONE_STEP
        return gap, enough < age, PromiseState(values, returns, discounts, age)

    return Signal(init, step)


def action_mismatch(
    q_one: Float[AnyArray, "*B A"], q_two: Float[AnyArray, "*B A"], top: int = 3
) -> Float[AnyArray, "*B"]:
    """Returns 1 - |top-k actions that two heads share| / k (appendix B).

    With no more than k actions k is one less than there are: all of them are always shared.
    """
    top = max(1, min(top, q_one.shape[-1] - 1))
    one, two = _best(q_one, top), _best(q_two, top)
    shared = (one[..., :, None] == two[..., None, :]).sum((-2, -1))
    return 1.0 - shared.astype(np.float32) / top


def _best(q: Float[AnyArray, "*B A"], top: int) -> Int[AnyArray, "*B top"]:
    """Returns the best actions, of equals those that come first."""
    xp = namespace(q)
    if xp is np:
        return np.argsort(-q, axis=-1, stable=True)[..., :top]
    from jax import lax

    return lax.top_k(q, top)[1]


def value_variance(
    q_one: Float[AnyArray, "*B A"], q_two: Float[AnyArray, "*B A"]
) -> Float[AnyArray, "*B"]:
    """Returns the variance of Q-values across two heads, mean over actions (appendix B)."""
    return ((q_one - q_two) ** 2).mean(-1) / 4.0


SIGNALS = {
    "informed": value_promise(),
    "informed:mismatch": stateless(lambda signals: signals.action_mismatch),
    "informed:variance": stateless(lambda signals: signals.value_variance),
}
"""The signals of the paper's informed triggers, by the names in the grammar."""

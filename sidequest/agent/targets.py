"""Targets of Q-values: n-step double Q-learning with trace cutting; and priorities.

One sequence at a time, T transitions of T + 1 steps. Transition t leads from s_t by a_t to
s_{t+1}; arrays named `_t` hold what arrived with s_{t+1}, so entry t of `r_t` is r_{t+1}.
Episodes may end inside. For one that ends with a_1 (n = 3):

    step            0      1      2      3      4
    observation     s0     s1     s0'    s1'    s2'
    transition         0      1      2      3
    terminated         0      1      0      0        r = the target of transition 1
    ... truncated      0      1      0      0        transition 1 has no target;
    ... neither        0      0      0      0        transition 0 bootstraps at s1

A truncated episode had a next state, but it is not observed. So its last action has no
target, and earlier ones bootstrap at its last state at the latest. By default time-outs
count as terminations (`timeout_is_terminal`), as in DQN and its successors. Where an
episode begins after neither, a run was interrupted and resumed with fresh emulators. That
is never a termination.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int


class Ends(NamedTuple):
    """How episode ends enter the targets of one head."""

    discount_t: Float[Array, "T"]
    """gamma, and 0 at terminations."""
    unknown_t: Bool[Array, "T"]
    """Where the next state exists but was not observed."""


def episode_ends(
    terminated_t: Bool[Array, "T"],
    truncated_t: Bool[Array, "T"],
    is_first_t: Bool[Array, "T"],
    discount: float | Float[Array, ""],
    *,
    timeout_is_terminal: bool,
) -> Ends:
    """Returns the discounts of transitions, and which of them have no target."""
    if timeout_is_terminal:
        terminated_t = terminated_t | truncated_t
    unknown_t = (truncated_t | is_first_t) & ~terminated_t
    return Ends(jnp.where(terminated_t, 0.0, discount), unknown_t)


def double_q_values(
    q_online: Float[Array, "*steps A"], q_target: Float[Array, "*steps A"]
) -> Float[Array, "*steps"]:
    """Returns v(s) = Q_target(s, argmax_a Q_online(s, a))   (van Hasselt et al. 2016)."""
    best = jnp.argmax(q_online, axis=-1, keepdims=True)
    return jnp.take_along_axis(q_target, best, axis=-1)[..., 0]


def greedy_traces(
    q: Float[Array, "T H A"], actions: Int[Array, "T"], cut_traces: Bool[Array, "H"]
) -> Bool[Array, "T H"]:
    """Returns where a return may continue through a state: Watkins' Q(λ) with λ = 1.

    It may where the action taken was the head's own greedy one (of equal ones the first, as
    actors choose), and everywhere for heads that do not cut traces (appendix A.4).
    """
    # Not by q[action] >= max q: a compiler may compute q twice, rounded differently.
    greedy = jnp.argmax(q, axis=-1) == actions.reshape(-1, 1)
    return greedy | ~cut_traces.reshape(1, -1)


def n_step_targets(
    r_t: Float[Array, "T"],
    ends: Ends,
    v_t: Float[Array, "T"],
    trace_t: Bool[Array, "T"],
    n: int,
) -> Float[Array, "T"]:
    """Returns the targets of Q(s_t, a_t) for all T transitions, without gradient.

        G^(0)_t = v_t
        G^(m)_t = r_{t+1} + d_{t+1} (G^(m-1)_{t+1} if the trace continues, else v_{t+1})
        target  = G^(min(n, T - t))_t

    so that a return bootstraps after n steps, at the end of the sequence, or at the first
    later state whose action was not greedy. Where `ends.unknown_t` is set the entry has no
    meaning; `td_errors` sets its error to 0.

    Args:
        r_t: Rewards r_1 .. r_T.
        ends: Discounts d_1 .. d_T, and transitions without a target.
        v_t: Bootstrap values of s_1 .. s_T.
        trace_t: Whether a return may continue through s_1 .. s_T.
        n: 5 in the paper.
    """
    # A return must not continue through a state whose own transition has no target.
    trace_t = trace_t & ~jnp.append(ends.unknown_t[1:], True)
    target_t = beyond_t = v_t
    for _ in range(n):
        target_t = r_t + ends.discount_t * jnp.where(trace_t, beyond_t, v_t)
        beyond_t = jnp.append(target_t[1:], v_t[-1])
    return lax.stop_gradient(target_t)


def td_errors(
    q_taken: Float[Array, "T"], target_t: Float[Array, "T"], ends: Ends
) -> Float[Array, "T"]:
    """Returns target - Q(s_t, a_t), and 0 for transitions without a target."""
    return jnp.where(ends.unknown_t, 0.0, target_t - q_taken)


def sequence_priority(
    errors: Float[Array, "T"], maximum_weight: float = 0.9
) -> Float[Array, ""]:
    """Returns eta max |delta_t| + (1 - eta) mean |delta_t|   (Kapturowski et al. 2019)."""
    size = jnp.abs(errors)
    return maximum_weight * jnp.max(size) + (1 - maximum_weight) * jnp.mean(size)

"""The LSTM: one step of it, and many steps of many sequences.

Long short-term memory (Hochreiter & Schmidhuber 1997):

    i, g, f, o = W x + U h + b
    c' = sigmoid(f) c + sigmoid(i) tanh(g),   h' = sigmoid(o) tanh(c')

Only U h has to wait for the step before. So W x + b is computed for all steps at once, by
`LSTM.inputs`, and the loop of `unroll` has only what must be there, backward as forward.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from sidequest.agent.convolutions import Linear
from sidequest.types import Key


class CoreState(NamedTuple):
    """Recurrent state of one environment, or of many."""

    hidden: Float[Array, "*batch units"]
    cell: Float[Array, "*batch units"]


class LSTM(eqx.Module):
    """Parameters W, b and U of the equations above."""

    inputs: Linear
    recurrent: Float[Array, "units gates"]

    def __init__(self, key: Key, inputs: int, units: int):
        # One matrix for [x, h], then cut in two, so that fan-in counts both.
        whole = Linear(key, inputs + units, 4 * units)
        # Forget gates start open (b_f = 1), which carries gradients over more steps
        # (Jozefowicz et al. 2015).
        bias = whole.bias.at[2 * units : 3 * units].set(1.0)
        self.inputs = eqx.tree_at(
            lambda layer: (layer.weight, layer.bias), whole, (whole.weight[:inputs], bias)
        )
        self.recurrent = whole.weight[inputs:]

    def step(self, projection: Float[Array, "gates"], state: CoreState) -> CoreState:
        """Returns the next state, from a projected input."""
        return _activate(_gates(self.recurrent, projection, state.hidden), state.cell)


def forget(is_first: Bool[Array, "*batch"], state: CoreState) -> CoreState:
    """Returns the state, and 0 where an episode begins."""
    return jax.tree.map(lambda x: jnp.where(is_first[..., None], 0.0, x), state)


def unroll(
    unroll_steps: int,
    recurrent: Float[Array, "K units gates"],
    projections: Float[Array, "T K *batch gates"],
    is_first: Bool[Array, "T *batch"],
    states: CoreState,
) -> tuple[Float[Array, "T K *batch units"], CoreState]:
    """Returns the outputs of T steps of K cores, in one loop: one core leaves a GPU idle.

    Equal to T calls of each core's `LSTM.step`, from 0 where `is_first` is set. Products
    are computed in the dtype of `projections`; U is float32, as its gradient is.

    Only the first core has a gradient; others are target networks. It is written by hand to
    skip theirs, and because JAX would add up the gradient of U step by step, in that dtype:
    here it is one product of all steps, sum_t h_t^T d_t with d_t the gradient at the gates,
    added up in float32.

    Args:
        unroll_steps: Steps in one iteration of the loop.
        states: [K, *batch], like the states that are returned.
    """
    return _unroll(unroll_steps, recurrent, projections, is_first, states)


class _Trace(NamedTuple):
    """What the backward pass needs of each step of the first core."""

    before: CoreState
    gates: Float[Array, "*steps gates"]


def _unroll_forward(unroll_steps, recurrent, projections, is_first, states):
    recurrent = recurrent.astype(projections.dtype)

    def forward(states: CoreState, step: tuple) -> tuple[CoreState, tuple]:
        projection, is_first = step
        before = forget(is_first, states)
        gates = jax.vmap(_gates)(recurrent, projection, before.hidden)
        states = _activate(gates, before.cell)
        return states, (states.hidden, _of_first(_Trace(before, gates)))

    states, (outputs, trace) = lax.scan(
        forward, states, (projections, is_first), unroll=unroll_steps
    )
    return (outputs, states), (recurrent[0], is_first, trace)


def _unroll_backward(unroll_steps, residuals, cotangents):
    recurrent, is_first, trace = residuals
    d_outputs, d_states = cotangents
    others = len(d_states.hidden) - 1

    def backward(d_state: CoreState, step: tuple) -> tuple[CoreState, Array]:
        d_output, is_first, (before, gates) = step
        _, vjp = jax.vjp(_activate, gates, before.cell)
        d_gates, d_cell = vjp(CoreState(d_state.hidden + d_output, d_state.cell))
        d_gates = d_gates.astype(recurrent.dtype)
        d_hidden = (d_gates @ recurrent.T).astype(jnp.float32)
        return forget(is_first, CoreState(d_hidden, d_cell)), d_gates

    d_state, d_gates = lax.scan(
        backward,
        _of_first(d_states),
        (d_outputs[:, 0], is_first, trace),
        reverse=True,
        unroll=unroll_steps,
    )
    d_recurrent = jnp.einsum(
        "t...u,t...g->ug",
        trace.before.hidden.astype(recurrent.dtype),
        d_gates,
        preferred_element_type=jnp.float32,
    )

    def and_zeros(x: Array, axis: int = 0) -> Array:
        """Returns the gradient of the first core, and 0 for the others."""
        return jnp.stack([x] + [jnp.zeros_like(x)] * others, axis)

    d_states = jax.tree.map(and_zeros, d_state)
    return and_zeros(d_recurrent), and_zeros(d_gates, axis=1), None, d_states


_unroll = jax.custom_vjp(
    lambda *arguments: _unroll_forward(*arguments)[0], nondiff_argnums=(0,)
)
_unroll.defvjp(_unroll_forward, _unroll_backward)


def _of_first(tree):
    return jax.tree.map(lambda leaf: leaf[0], tree)


def _gates(
    recurrent: Float[Array, "units gates"],
    projection: Float[Array, "*batch gates"],
    hidden: Float[Array, "*batch units"],
) -> Float[Array, "*batch gates"]:
    more = hidden.astype(recurrent.dtype) @ recurrent
    # Gates and cell in float32: the cell adds up over hundreds of steps.
    return projection.astype(jnp.float32) + more.astype(jnp.float32)


def _activate(
    gates: Float[Array, "*batch gates"], cell: Float[Array, "*batch units"]
) -> CoreState:
    i, g, f, o = jnp.split(gates, 4, axis=-1)
    cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
    return CoreState(jax.nn.sigmoid(o) * jnp.tanh(cell), cell)

"""The LSTM: one step of it, and many steps of many streams.

Long short-term memory (Hochreiter & Schmidhuber 1997):

    i, g, f, o = W x + U h + b
    c' = sigmoid(f) c + sigmoid(i) tanh(g),   h' = sigmoid(o) tanh(c')

Only U h has to wait for the step before. So `project` does W x + b for all steps at once,
and `unroll` keeps in its loop only what must be there, backward as forward.
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
    """Recurrent state of one stream, or of many."""

    hidden: Float[Array, "*streams units"]
    cell: Float[Array, "*streams units"]


class LSTM(eqx.Module):
    """Parameters W, b and U; see the module."""

    inputs: Linear
    recurrent: Float[Array, "units gates"]

    def __init__(self, key: Key, inputs: int, units: int):
        # One matrix for [x, h], then cut in two, so that fan-in counts both.
        whole = Linear(key, inputs + units, 4 * units)
        # Forget gates start open (b_f = 1): what a step stores outlives the next few,
        # and so does its gradient (Jozefowicz et al. 2015).
        bias = whole.bias.at[2 * units : 3 * units].set(1.0)
        self.inputs = eqx.tree_at(
            lambda layer: (layer.weight, layer.bias), whole, (whole.weight[:inputs], bias)
        )
        self.recurrent = whole.weight[inputs:]

    def project(self, x: Float[Array, "inputs"]) -> Float[Array, "gates"]:
        """W x + b."""
        return self.inputs(x)

    def step(self, projection: Float[Array, "gates"], state: CoreState) -> CoreState:
        """One step from a projected input."""
        return _activate(_gates(self.recurrent, projection, state.hidden), state.cell)


def forget(is_first: Bool[Array, "*streams"], state: CoreState) -> CoreState:
    """0 where an episode begins: the state is that of another one, which has gone."""
    return jax.tree.map(lambda x: jnp.where(is_first[..., None], 0.0, x), state)


def unroll(
    at_once: int,
    recurrent: Float[Array, "K units gates"],
    projections: Float[Array, "T K *streams gates"],
    is_first: Bool[Array, "T *streams"],
    states: CoreState,
) -> tuple[Float[Array, "T K *streams units"], CoreState]:
    """T steps of K cores side by side, in one loop: a GPU is not busy with one.

    Equal to T calls of each core's `LSTM.step`, from nothing where `is_first` is set.
    Products are computed in the dtype of `projections`; U is float32, as its gradient is.

    The first core learns; the others, such as a target network's, have no gradient, and
    the way back is spared them. It is written by hand also because JAX would add up the
    gradient of U step by step, in that dtype: it is one product of what all steps left
    behind, sum_t h_t^T d_t with d_t the gradient at the gates, added up in float32.

    Args:
        at_once: Steps in one iteration of the loop.
        states: [K, *streams], like the states that are returned.
    """
    return _unroll(at_once, recurrent, projections, is_first, states)


class _Trace(NamedTuple):
    """What the way back needs of each step of the first core."""

    before: CoreState
    gates: Float[Array, "*steps gates"]


def _unroll_plainly(
    at_once, recurrent, projections, is_first, states
) -> tuple[Float[Array, "T K *streams units"], CoreState]:
    return _unroll_forward(at_once, recurrent, projections, is_first, states)[0]


def _unroll_forward(at_once, recurrent, projections, is_first, states):
    recurrent = recurrent.astype(projections.dtype)

    def advance(states: CoreState, step: tuple) -> tuple[CoreState, tuple]:
        projection, is_first = step
        before = forget(is_first, states)
        gates = jax.vmap(_gates)(recurrent, projection, before.hidden)
        states = _activate(gates, before.cell)
        return states, (states.hidden, _of_first(_Trace(before, gates)))

    states, (outputs, trace) = lax.scan(
        advance, states, (projections, is_first), unroll=at_once
    )
    return (outputs, states), (recurrent[0], is_first, trace)


def _unroll_backward(at_once, remembered, arriving):
    recurrent, is_first, trace = remembered
    d_outputs, d_states = arriving
    others = len(d_states.hidden) - 1

    def retreat(d_state: CoreState, step: tuple) -> tuple[CoreState, Array]:
        d_output, is_first, (before, gates) = step
        _, pull = jax.vjp(_activate, gates, before.cell)
        d_gates, d_cell = pull(CoreState(d_state.hidden + d_output, d_state.cell))
        d_gates = d_gates.astype(recurrent.dtype)
        d_hidden = (d_gates @ recurrent.T).astype(jnp.float32)
        return forget(is_first, CoreState(d_hidden, d_cell)), d_gates

    d_state, d_gates = lax.scan(
        retreat,
        _of_first(d_states),
        (d_outputs[:, 0], is_first, trace),
        reverse=True,
        unroll=at_once,
    )
    d_recurrent = jnp.einsum(
        "t...u,t...g->ug",
        trace.before.hidden.astype(recurrent.dtype),
        d_gates,
        preferred_element_type=jnp.float32,
    )

    def and_none(x: Array, axis: int = 0) -> Array:
        """The gradient of the first core, and 0 for the others."""
        return jnp.stack([x] + [jnp.zeros_like(x)] * others, axis)

    d_states = jax.tree.map(and_none, d_state)
    return and_none(d_recurrent), and_none(d_gates, axis=1), None, d_states


_unroll = jax.custom_vjp(_unroll_plainly, nondiff_argnums=(0,))
_unroll.defvjp(_unroll_forward, _unroll_backward)


def _of_first(tree):
    return jax.tree.map(lambda leaf: leaf[0], tree)


def _gates(
    recurrent: Float[Array, "units gates"],
    projection: Float[Array, "*streams gates"],
    hidden: Float[Array, "*streams units"],
) -> Float[Array, "*streams gates"]:
    more = hidden.astype(recurrent.dtype) @ recurrent
    # Gates and cell in float32: the cell adds up over hundreds of steps.
    return projection.astype(jnp.float32) + more.astype(jnp.float32)


def _activate(
    gates: Float[Array, "*streams gates"], cell: Float[Array, "*streams units"]
) -> CoreState:
    i, g, f, o = jnp.split(gates, 4, axis=-1)
    cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
    return CoreState(jax.nn.sigmoid(o) * jnp.tanh(cell), cell)

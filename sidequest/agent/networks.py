"""The recurrent Q-network: torso, LSTM, duelling heads (appendix A.2).

    observation ─▶ torso ─▶ linear ─┐
    previous action, one-hot ───────┼─▶ LSTM ─▶ linear ─▶ heads: Q [H, A]
    previous reward, log ───────────┘

Inputs and values are normalised by statistics that the learner keeps, `Normalisation`; they
are no parameters of the network.

Everything is for one environment; `vmap` makes batches, and populations of networks. Where
`is_first` is set, the state of the LSTM, the previous action and the previous reward are
those of the episode before, and count as 0.

Parameters, LSTM states and Q-values are float32; the products in between are computed in
`compute_dtype`.

The LSTM (Hochreiter & Schmidhuber 1997) is

    i, g, f, o = W x + U h + b
    c' = sigmoid(f) c + sigmoid(i) tanh(g),   h' = sigmoid(o) tanh(c')

Only U h has to wait for the step before. So W x + b is computed for all steps at once, by
`LSTM.inputs`, and the loop of `unroll_lstm` has only what must be there, backward as
forward.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Num

from sidequest.agent.convolutions import (
    ConvolutionShape,
    Linear,
    Torso,
    cast,
    encode,
    encoded_shape,
)
from sidequest.agent.scaling import Normalisation
from sidequest.types import EnvironmentSpec, Key


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


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def unroll_lstm(
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
    """
    return _unroll_forward(unroll_steps, recurrent, projections, is_first, states)[0]


class _Trace(NamedTuple):
    """Holds what the backward pass needs of each step of the first core."""

    before: CoreState
    gates: Float[Array, "*steps gates"]


def _unroll_forward(unroll_steps, recurrent, projections, is_first, states):
    recurrent = recurrent.astype(projections.dtype)

    def forward(states: CoreState, step: tuple) -> tuple[CoreState, tuple]:
        projection, is_first = step
        before = forget(is_first, states)
        gates = jax.vmap(_gates)(recurrent, projection, before.hidden)
        states = _activate(gates, before.cell)
        trace = jax.tree.map(lambda leaf: leaf[0], _Trace(before, gates))
        return states, (states.hidden, trace)

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
        jax.tree.map(lambda leaf: leaf[0], d_states),
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


unroll_lstm.defvjp(_unroll_forward, _unroll_backward)


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


class Inputs(NamedTuple):
    """The network's inputs at one step, or at many: [T], or [N, T] of N sequences."""

    observation: Num[Array, "..."]
    previous_action: Int[Array, "*steps"]
    previous_reward: Float[Array, "*steps"]
    is_first: Bool[Array, "*steps"]


class DuellingHead(eqx.Module):
    """Q(s, a) = V(s) + A(s, a) - mean_a' A(s, a')   (Wang et al. 2016)."""

    value_hidden: Linear
    value: Linear
    advantage_hidden: Linear
    advantage: Linear

    def __init__(self, key: Key, inputs: int, units: int, num_actions: int):
        keys = jax.random.split(key, 4)
        self.value_hidden = Linear(keys[0], inputs, units)
        self.value = Linear(keys[1], units, 1)
        self.advantage_hidden = Linear(keys[2], inputs, units)
        self.advantage = Linear(keys[3], units, num_actions)

    def __call__(
        self, x: Float[Array, "inputs"], compute_dtype: jnp.dtype
    ) -> Float[Array, "A"]:
        """Returns Q-values; the last layers are in float32, since Q-values in the hundreds
        may differ by tenths, and a bfloat16 has three digits."""

        def hidden(layer: Linear) -> Float[Array, "units"]:
            return jax.nn.relu(cast(layer, compute_dtype)(x)).astype(jnp.float32)

        with jax.default_matmul_precision("highest"):
            value = self.value(hidden(self.value_hidden))
            advantage = self.advantage(hidden(self.advantage_hidden))
        return value + advantage - jnp.mean(advantage, keepdims=True)


class RecurrentQNetwork(eqx.Module):
    """Q-values of all heads, from observations step by step."""

    torso: Torso
    core: LSTM
    post: Linear | None
    heads: DuellingHead
    """All heads in one: each parameter has a leading axis [H]."""
    spec: EnvironmentSpec = eqx.field(static=True)
    compute_dtype: jnp.dtype = eqx.field(static=True)
    scan_unroll: int = eqx.field(static=True)
    recurrent: bool = eqx.field(static=True)

    def __init__(
        self,
        key: Key,
        spec: EnvironmentSpec,
        num_heads: int,
        *,
        convolutions: Sequence[ConvolutionShape],
        torso_units: Sequence[int] = (512,),
        core_units: int = 512,
        post_units: int = 256,
        head_units: int = 256,
        compute_dtype: str = "float32",
        scan_unroll: int = 1,
        recurrent: bool = True,
    ):
        """Draws the parameters of a network; its sizes are the paper's by default.

        Args:
            convolutions: Of the torso; empty for vectors.
            torso_units: Linear layers between the convolutions and the LSTM.
            post_units: Linear layer between LSTM and heads; 0 for none.
            scan_unroll: Steps of the LSTM in one iteration of its loop.
            recurrent: If not, the LSTM starts every step from 0, without a memory.
        """
        torso_key, core_key, post_key, heads_key = jax.random.split(key, 4)
        self.torso = Torso(torso_key, encoded_shape(spec), convolutions, torso_units)
        inputs = self.torso.features + spec.num_actions + 1
        self.core = LSTM(core_key, inputs, core_units)
        self.post = Linear(post_key, core_units, post_units) if post_units else None
        head_inputs = post_units or core_units
        self.heads = eqx.filter_vmap(
            lambda key: DuellingHead(key, head_inputs, head_units, spec.num_actions)
        )(jax.random.split(heads_key, num_heads))
        self.spec = spec
        self.compute_dtype = jnp.dtype(compute_dtype)
        self.scan_unroll = scan_unroll
        self.recurrent = recurrent

    def initial_state(self) -> CoreState:
        """Returns the state before the first step."""
        zeros = jnp.zeros(self.core.recurrent.shape[0])
        return CoreState(zeros, zeros)

    def identity_normalisation(self) -> Normalisation:
        """Returns the normalisation that changes neither inputs nor values."""
        heads = self.heads.value.bias.shape[0]
        return Normalisation(
            observation_mean=jnp.zeros(encoded_shape(self.spec)),
            observation_unit=jnp.ones(()),
            value_mean=jnp.zeros(heads),
            value_unit=jnp.ones(heads),
        )

    def _forgets(self, is_first: Bool[Array, "..."]) -> Bool[Array, "..."]:
        return is_first if self.recurrent else jnp.ones_like(is_first)

    def _project(
        self, inputs: Inputs, normalisation: Normalisation
    ) -> Float[Array, "gates"]:
        """Computes all that comes before the recurrent part of the LSTM."""
        torso, core = cast((self.torso, self.core), self.compute_dtype)
        x = encode(self.spec, inputs.observation)
        # A product and a sum for each pixel; the mean is divided only once for all frames.
        per_unit = 1.0 / normalisation.observation_unit
        x = x * per_unit - normalisation.observation_mean * per_unit
        features = torso(x.astype(self.compute_dtype))
        action = jax.nn.one_hot(inputs.previous_action, self.spec.num_actions)
        # Rewards are not clipped; the logarithm keeps scores of any size usable. One that
        # is not finite would stay in the core to the end of its episode.
        reward = inputs.previous_reward
        reward = jnp.where(jnp.isfinite(reward), reward, 0.0)
        reward = jnp.sign(reward) * jnp.log1p(jnp.abs(reward))
        before = jnp.append(action, reward)
        before = jnp.where(inputs.is_first, 0.0, before).astype(self.compute_dtype)
        return core.inputs(jnp.concatenate([features, before]))

    def _read_out(
        self, output: Float[Array, "units"], normalisation: Normalisation
    ) -> Float[Array, "H A"]:
        """Computes all that comes after the LSTM."""
        features = output
        if self.post is not None:
            features = jax.nn.relu(cast(self.post, self.compute_dtype)(output))
        q = eqx.filter_vmap(lambda head: head(features, self.compute_dtype))(self.heads)
        mean, unit = normalisation.value_mean, normalisation.value_unit
        return mean[:, None] + unit[:, None] * q


class QFunction(eqx.Module):
    """A network with its normalisation: all that it takes to act greedily. This is what a
    finished run stores."""

    network: RecurrentQNetwork
    normalisation: Normalisation

    def initial_state(self) -> CoreState:
        """Returns the state before the first step."""
        return self.network.initial_state()

    def step(
        self, inputs: Inputs, state: CoreState
    ) -> tuple[Float[Array, "H A"], CoreState]:
        """Returns the Q-values of one step and the next state."""
        network = self.network
        core = cast(network.core, network.compute_dtype)
        state = forget(network._forgets(inputs.is_first), state)
        state = core.step(network._project(inputs, self.normalisation), state)
        return network._read_out(state.hidden, self.normalisation), state


def unroll_together(
    networks: Sequence[RecurrentQNetwork],
    normalisation: Normalisation,
    inputs: Inputs,
    states: CoreState,
) -> tuple[list[Float[Array, "N T H A"]], CoreState]:
    """Returns the Q-values of K networks of one shape for N sequences of T steps.

    Equal to K x N x T calls of `QFunction.step`, except that only the first network has a
    gradient. All LSTMs advance in one loop; all else is done for all steps at once.
    States are [K, N].
    """
    networks = networks[0], *lax.stop_gradient(tuple(networks[1:]))

    def for_all_steps(function, x):
        one_step = partial(function, normalisation=normalisation)
        return jax.vmap(jax.vmap(one_step))(x)

    projections = [for_all_steps(network._project, inputs) for network in networks]
    unrolled: Any = unroll_lstm(
        networks[0].scan_unroll,
        jnp.stack([network.core.recurrent for network in networks]),
        jnp.stack([x.swapaxes(0, 1) for x in projections], axis=1),
        networks[0]._forgets(inputs.is_first.T),
        states,
    )
    outputs, states = unrolled
    q = [
        for_all_steps(network._read_out, outputs[:, k].swapaxes(0, 1))
        for k, network in enumerate(networks)
    ]
    return q, states


def count_parameters(network: RecurrentQNetwork) -> int:
    """Returns the number of learned parameters."""
    return sum(leaf.size for leaf in jax.tree.leaves(network))

"""The recurrent Q-network: torso, LSTM, duelling heads (appendix A.2).

    observation ─▶ torso ─▶ linear ─┐
    previous action, one-hot ───────┼─▶ LSTM ─▶ linear ─▶ heads: Q [H, A]
    previous reward, log ───────────┘

Observations are counted from a mean and in a unit, and so are the values of each head; see
`Standard`, which no gradient changes.

Everything is for one stream; `vmap` makes batches of streams, and populations of networks.
A stream never ends: where `is_first` is set, the state of the LSTM, the previous action and
the previous reward are those of an episode that has gone, and count as 0.

Parameters, LSTM states and Q-values are float32; the products in between are computed in
`compute_dtype`.
"""

from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Num

from sidequest.agent import lstm
from sidequest.agent.lstm import LSTM, CoreState
from sidequest.agent.torsos import (
    ConvolutionShape,
    Linear,
    ObservationSpec,
    Torso,
    cast,
    encode,
    encoded_shape,
)
from sidequest.types import Key


class Inputs(NamedTuple):
    """What the network sees at one step, or at many: [T], or [N, T] of N streams."""

    observation: Num[Array, "..."]
    previous_action: Int[Array, "*steps"]
    previous_reward: Float[Array, "*steps"]
    is_first: Bool[Array, "*steps"]


class Standard(NamedTuple):
    """Where a network counts from, and in what units: x - mean = unit * (what it sees), and
    Q = mean + unit * (what it says)."""

    observation: Float[Array, "..."]
    """Mean of every input of the torso: of images, the mean picture."""
    observation_unit: Float[Array, ""]
    value: Float[Array, "H"]
    value_unit: Float[Array, "H"]


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
        """The last layers are in float32: Q-values in the hundreds may differ by tenths,
        and a bfloat16 has three digits."""

        def hidden(layer: Linear) -> Float[Array, "units"]:
            return jax.nn.relu(cast(layer, compute_dtype)(x)).astype(jnp.float32)

        with jax.default_matmul_precision("highest"):
            value = self.value(hidden(self.value_hidden))
            advantage = self.advantage(hidden(self.advantage_hidden))
        return value + advantage - jnp.mean(advantage, keepdims=True)


class RecurrentQNetwork(eqx.Module):
    """Q-values of all heads, from what a stream shows step by step."""

    torso: Torso
    core: LSTM
    post: Linear | None
    heads: DuellingHead
    """All heads in one: each parameter has a leading axis [H]."""
    standard: Standard
    spec: ObservationSpec = eqx.field(static=True)
    num_actions: int = eqx.field(static=True)
    compute_dtype: jnp.dtype = eqx.field(static=True)
    scan_unroll: int = eqx.field(static=True)
    recurrent: bool = eqx.field(static=True)

    def __init__(
        self,
        key: Key,
        spec: ObservationSpec,
        num_actions: int,
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
        """The sizes are the paper's by default.

        Args:
            convolutions: Of the torso; none for vectors. The paper's have channels 32, 64,
                128, 128, kernels 7, 5, 5, 3 and strides 4, 2, 2, 1.
            torso_units: Linear layers between the convolutions and the LSTM.
            post_units: Linear layer between LSTM and heads; 0 for none.
            compute_dtype: "float32", or "bfloat16" where there is hardware for it.
            scan_unroll: Steps of the LSTM in one iteration of its loop.
            recurrent: If not, the LSTM starts every step from 0: the same network
                without a memory.
        """
        torso_key, core_key, post_key, heads_key = jax.random.split(key, 4)
        self.torso = Torso(torso_key, encoded_shape(spec), convolutions, torso_units)
        inputs = self.torso.features + num_actions + 1
        self.core = LSTM(core_key, inputs, core_units)
        self.post = Linear(post_key, core_units, post_units) if post_units else None
        head_inputs = post_units or core_units
        self.heads = eqx.filter_vmap(
            lambda key: DuellingHead(key, head_inputs, head_units, num_actions)
        )(jax.random.split(heads_key, num_heads))
        nothing, once = jnp.zeros(num_heads), jnp.ones(num_heads)
        self.standard = Standard(
            jnp.zeros(encoded_shape(spec)), jnp.ones(()), nothing, once
        )
        self.spec = spec
        self.num_actions = num_actions
        self.compute_dtype = jnp.dtype(compute_dtype)
        self.scan_unroll = scan_unroll
        self.recurrent = recurrent

    def initial_state(self) -> CoreState:
        """The state before the first step of a stream."""
        zeros = jnp.zeros(self.core.recurrent.shape[0])
        return CoreState(zeros, zeros)

    def step(
        self, inputs: Inputs, state: CoreState
    ) -> tuple[Float[Array, "H A"], CoreState]:
        """One step, for acting."""
        core = cast(self.core, self.compute_dtype)
        state = lstm.forget(self._forgets(inputs.is_first), state)
        state = core.step(self._project(inputs), state)
        return self._read_out(state.hidden), state

    def unroll(
        self, inputs: Inputs, state: CoreState
    ) -> tuple[Float[Array, "T H A"], CoreState]:
        """T steps of one stream, for users and tests; equal to T calls of `step`."""
        one_stream = jax.tree.map(lambda leaf: leaf[None], inputs)
        one_each = jax.tree.map(lambda leaf: leaf[None, None], state)
        [q], states = unroll_together([self], one_stream, one_each)
        return q[0], jax.tree.map(lambda leaf: leaf[0, 0], states)

    def _forgets(self, is_first: Bool[Array, "..."]) -> Bool[Array, "..."]:
        return is_first if self.recurrent else jnp.ones_like(is_first)

    def _project(self, inputs: Inputs) -> Float[Array, "gates"]:
        """All that comes before the recurrent part of the LSTM."""
        torso, core = cast((self.torso, self.core), self.compute_dtype)
        standard = lax.stop_gradient(self.standard)
        seen = encode(self.spec, inputs.observation, jnp.dtype("float32"))
        # A product and a sum for each pixel; the mean is divided only once for all frames.
        per_unit = 1.0 / standard.observation_unit
        seen = seen * per_unit - standard.observation * per_unit
        features = torso(seen.astype(self.compute_dtype))
        action = jax.nn.one_hot(inputs.previous_action, self.num_actions)
        # Rewards are not clipped; the logarithm keeps scores of any size usable. One that
        # is not finite would stay in the core to the end of its episode.
        reward = inputs.previous_reward
        reward = jnp.where(jnp.isfinite(reward), reward, 0.0)
        reward = jnp.sign(reward) * jnp.log1p(jnp.abs(reward))
        before = jnp.append(action, reward)
        before = jnp.where(inputs.is_first, 0.0, before).astype(self.compute_dtype)
        return core.project(jnp.concatenate([features, before]))

    def _read_out(self, output: Float[Array, "units"]) -> Float[Array, "H A"]:
        """All that comes after the LSTM."""
        features = output
        if self.post is not None:
            features = jax.nn.relu(cast(self.post, self.compute_dtype)(output))
        q = eqx.filter_vmap(
            lambda head: head(features, self.compute_dtype),
        )(self.heads)
        standard = lax.stop_gradient(self.standard)
        return standard.value[:, None] + standard.value_unit[:, None] * q


def unroll_together(
    networks: Sequence[RecurrentQNetwork], inputs: Inputs, states: CoreState
) -> tuple[list[Float[Array, "N T H A"]], CoreState]:
    """What K networks of one shape say of T steps of N streams, for learning.

    Equal to K x N calls of `unroll`, but that all LSTMs advance in one loop, and that only
    the first network has a gradient. All else is done for all steps at once.

    Args:
        inputs: [N, T].
        states: [K, N], like the states that are returned.
    """
    networks = networks[0], *lax.stop_gradient(tuple(networks[1:]))

    def for_all_steps(function):
        return jax.vmap(jax.vmap(function))

    projections = [
        for_all_steps(network._project)(inputs).swapaxes(0, 1) for network in networks
    ]
    outputs, states = lstm.unroll(
        networks[0].scan_unroll,
        jnp.stack([network.core.recurrent for network in networks]),
        jnp.stack(projections, axis=1),
        networks[0]._forgets(inputs.is_first.T),
        states,
    )
    q = [
        for_all_steps(network._read_out)(outputs[:, k].swapaxes(0, 1))
        for k, network in enumerate(networks)
    ]
    return q, states


def count_parameters(network: RecurrentQNetwork) -> int:
    """How many numbers are learned."""
    learned = eqx.tree_at(lambda network: network.standard, network, None)
    return sum(leaf.size for leaf in jax.tree.leaves(learned))

"""What an optimising compiler rounds differently must not change what is learned."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sidequest.agent.losses import unroll
from sidequest.agent.targets import greedy_traces
from tests.agent.batches import make_network, random_core, random_steps

pytestmark = pytest.mark.usefixtures("optimised")


def test_a_greedy_action_cuts_no_trace_in_a_compiled_program():
    """A compiler may compute Q-values twice, once for the action and once for the best."""
    network, core = make_network(3, jax.random.key(0)), random_core(0, 16)
    steps, always = random_steps(0, 16, 40), jnp.ones(3, bool)
    same = network.identity_normalisation()

    @jax.jit
    def q_of(network, steps, core):
        return unroll(network, network, same, steps, core, 0)[0]

    @jax.jit
    def traces_of(network, steps, core):
        q = unroll(network, network, same, steps, core, 0)[0]
        return jax.vmap(lambda q, a: greedy_traces(q, a, always))(q, steps.action)

    best = jnp.argmax(q_of(network, steps, core), axis=-1)
    greedy = best == steps.action[..., None]
    np.testing.assert_array_equal(traces_of(network, steps, core), greedy)
    assert 0 < np.mean(greedy) < 1

"""A game of your own in JAX, in a few lines.

Play it at random with:   python own_environment.py
Train an agent on it:     sidequest train "XU-intra(10,informed,0.01,G)" \\
                              --game own_environment:corridor --frames 100k

The name of a game is the module, which is found in the working directory, and the function.
"""

import jax
import jax.numpy as jnp
import numpy as np

from sidequest.environments.base import EnvironmentSpec, auto_reset

CELLS = 8


def corridor():
    """Walk from the left end of a corridor to the right end, within 50 steps."""
    spec = EnvironmentSpec(
        name="corridor",
        observation_shape=(CELLS,),
        observation_dtype=np.dtype(np.float32),
        num_actions=2,
        max_steps=50,
    )

    def observe(state):
        return jax.nn.one_hot(state["cell"], CELLS)

    def reset(key):
        del key
        state = {"cell": jnp.asarray(0), "time": jnp.asarray(0)}
        return state, observe(state)

    def step(key, state, action):
        del key
        cell = jnp.clip(state["cell"] + 2 * action - 1, 0, CELLS - 1)
        state = {"cell": cell, "time": state["time"] + 1}
        arrived = cell == CELLS - 1
        truncated = state["time"] == spec.max_steps
        return state, observe(state), arrived, arrived, truncated

    return auto_reset(reset, step, spec)  # episodes become an endless stream


if __name__ == "__main__":
    environment = corridor()

    def act(state, key):
        action = jax.random.bernoulli(key, 0.6).astype(jnp.int32)
        return environment.step(key, state, action)

    state, timestep = environment.reset(jax.random.key(0))
    keys = jax.random.split(jax.random.key(1), 10_000)
    _, timesteps = jax.jit(lambda: jax.lax.scan(act, state, keys))()
    print(f"{timesteps.terminated.sum()} episodes reached the end of the corridor,")
    print(f"{timesteps.truncated.sum()} ran out of time.")

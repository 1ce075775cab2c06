"""Plays compiled environments, for the tests of every suite."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from sidequest.environments.base import CompiledEnvironment
from sidequest.types import Timestep


def play(environment: CompiledEnvironment, key, steps: int):
    """One stream under random actions: actions [steps], timesteps [steps + 1]."""
    reset_key, action_key, key = jax.random.split(key, 3)
    count = environment.spec.num_actions
    actions = jax.random.randint(action_key, (steps,), 0, count)

    def step(state, inputs):
        return environment.step(inputs[0], state, inputs[1])

    state, first = environment.reset(reset_key)
    _, rest = jax.lax.scan(step, state, (jax.random.split(key, steps), actions))
    return actions, jax.tree.map(lambda x, xs: jnp.append(x[None], xs, 0), first, rest)


@partial(jax.jit, static_argnums=(0, 2))
def _play_batch(environment, keys, steps):
    return jax.vmap(lambda key: play(environment, key, steps))(keys)


def play_many(environment, seed: int, *, streams: int, steps: int):
    """Several streams side by side, as NumPy arrays [streams, steps + 1, ...]."""
    keys = jax.random.split(jax.random.key(seed), streams)
    return jax.tree.map(np.asarray, _play_batch(environment, keys, steps))


def check_batch_is_loop(environment: CompiledEnvironment, *, steps: int) -> None:
    """What `vmap` plays is what the streams play one by one."""
    keys = jax.random.split(jax.random.key(0), 3)
    play_one = jax.jit(lambda key: play(environment, key, steps))
    alone = [play_one(key) for key in keys]
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *alone)
    batch = play_many(environment, 0, streams=3, steps=steps)
    jax.tree.map(np.testing.assert_array_equal, batch, stacked)


def check_stream(environment: CompiledEnvironment, timesteps: Timestep) -> None:
    """The convention of `sidequest.types`, and the spec, on timesteps [B, T, ...]."""
    spec, ended = environment.spec, timesteps.terminated | timesteps.truncated
    assert timesteps.is_first[:, 0].all()
    assert not ended[:, 0].any() and not timesteps.reward[:, 0].any()
    np.testing.assert_array_equal(timesteps.is_first[:, 1:], ended[:, 1:])
    assert not (timesteps.terminated & timesteps.truncated).any()
    assert timesteps.reward.dtype == np.float32
    assert timesteps.is_first.dtype == timesteps.terminated.dtype == bool
    assert timesteps.observation.shape[2:] == spec.observation_shape
    assert timesteps.observation.dtype == spec.observation_dtype
    for index, count in enumerate(spec.categories or ()):
        assert timesteps.observation[..., index].max() < count


def lengths(timesteps: Timestep) -> np.ndarray:
    """The lengths of all finished episodes of timesteps [B, T, ...]."""
    starts = [np.flatnonzero(row) for row in timesteps.is_first]
    return np.concatenate([np.diff(times) for times in starts])

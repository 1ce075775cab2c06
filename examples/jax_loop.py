"""The switch in a scan's carry, as agents of purejaxql, rejax or Stoix would hold it.

Q-learning in 16 corridors whose only reward is at the far end, as one compiled program.
"""

import jax
import jax.numpy as jnp

from sidequest.switching.switch import UNIFORMS, make_switch
from sidequest.types import Signals

ENVS, CELLS, LIMIT, DISCOUNT, STEPS = 16, 20, 60, 0.97, 4_000
switch = make_switch("XU-intra(10,informed,0.01,G)")


def step(carry, key):
    q, cell, time, arrived, switch_state = carry
    switch_key, greedy_key, action_key = jax.random.split(key, 3)
    uniforms = jax.random.uniform(switch_key, (UNIFORMS, ENVS))
    signals = Signals(*arrived, value=q[cell].max(-1))
    explores, switch_state = switch.step(switch_state, uniforms, signals)
    greedy = (q[cell] + 1e-6 * jax.random.uniform(greedy_key, (ENVS, 2))).argmax(-1)
    action = jnp.where(explores, jax.random.bernoulli(action_key, 0.5, (ENVS,)), greedy)
    after = jnp.clip(cell + 2 * action - 1, 0, CELLS - 1)
    reward = jnp.where(after == CELLS - 1, 1.0, 0.0)
    discount = jnp.where(reward > 0, 0.0, DISCOUNT)
    error = reward + discount * q[after].max(-1) - q[cell, action]
    q = q.at[cell, action].add(0.1 * error)
    is_first = (reward > 0) | (time == LIMIT)  # the game starts again in the same step
    cell, time = jnp.where(is_first, 0, after), jnp.where(is_first, 0, time + 1)
    return (q, cell, time, (is_first, reward, discount), switch_state), (reward, explores)


if __name__ == "__main__":
    cell, arrived = jnp.zeros(ENVS, int), (jnp.ones(ENVS, bool), *jnp.zeros((2, ENVS)))
    carry = (jnp.zeros((CELLS, 2)), cell, cell, arrived, switch.init(ENVS))
    keys = jax.random.split(jax.random.key(0), STEPS)
    _, (rewards, explores) = jax.jit(lambda carry: jax.lax.scan(step, carry, keys))(carry)
    for r, x in zip(jnp.split(rewards, 5), jnp.split(explores, 5), strict=True):
        print(f"goals reached {r.sum():3.0f}  explored {x.mean():.0%}")

"""What deciding when to explore costs, beside plain epsilon-greedy on the same Q-values.

Both run in a compiled scan, so that the work is measured and not the calls. The
controller's share includes reading V(s) = max_a Q(s, a) and splitting its keys.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from sidequest.bench import best_seconds, machine
from sidequest.switching.controllers import ControllerState, make_controller
from sidequest.switching.metacontroller import draw, make_metacontroller, variant_arrays
from sidequest.switching.variants import parse
from sidequest.types import Key, Signals

_VARIANT = "XU-intra(10,informed,p*,X)"
_ENVIRONMENTS = (1, 128, 4_096)
_STEPS = 128
_ACTIONS = 18
_EPSILON = 0.01
_EPISODE = 1_000


def measure() -> dict[str, Any]:
    """Returns nanoseconds per environment step of both, and their ratio."""
    rows = {str(count): _compare(count) for count in _ENVIRONMENTS}
    most = rows[str(_ENVIRONMENTS[-1])]
    return {"variant": _VARIANT, **most, "by_streams": rows, "machine": machine()}


def _compare(environments: int) -> dict[str, float]:
    # Few environments need more steps for a time that can be measured.
    steps = max(_STEPS, 32_768 // environments)
    q = jax.random.normal(jax.random.key(0), (steps, environments, _ACTIONS))
    reward = (jax.random.uniform(jax.random.key(1), (steps, environments)) < 0.05) * 1.0
    keys = jax.random.split(jax.random.key(2), steps)
    first = jnp.arange(steps) % _EPISODE == 0
    controllers = _start(environments)
    greedy = jax.jit(
        lambda: jax.lax.scan(lambda _, x: (None, _epsilon_greedy(*x)), None, (keys, q))[1]
    )
    controlled = jax.jit(lambda: _play(controllers, (keys, q, reward, first)))
    seconds = best_seconds(greedy, controlled)
    one, two = (1e9 * best / (steps * environments) for best in seconds)
    return {"epsilon_greedy_ns": one, "controller_ns": two, "ratio": two / one}


def _epsilon_greedy(key: Key, q: Float[Array, "B A"]) -> Int[Array, "B"]:
    """Chooses actions as usual: for all environments from one key."""
    coin_key, action_key = jax.random.split(key)
    environments, actions = q.shape
    explores = jax.random.uniform(coin_key, (environments,)) < _EPSILON
    uniform = jax.random.randint(action_key, (environments,), 0, actions)
    return jnp.where(explores, uniform, jnp.argmax(q, axis=1))


def _start(environments: int) -> ControllerState:
    meta = make_metacontroller()
    probabilities = meta.arm_probabilities(meta.init(variant_arrays(parse(_VARIANT))))
    keys = jax.random.split(jax.random.key(3), environments)
    _, arms = jax.vmap(draw, in_axes=(0, None))(keys, probabilities)
    return jax.vmap(make_controller().init)(keys, arms)


def _play(state: ControllerState, rows: tuple[Array, ...]) -> Bool[Array, "T B"]:
    """Returns the controllers' modes for these keys, Q-values and rewards."""
    step_all = jax.vmap(make_controller().step)

    def step(state: ControllerState, row: tuple[Array, ...]):
        key, q, reward, first = row
        zeros = jnp.zeros_like(reward)
        signals = Signals(
            is_first=jnp.broadcast_to(first, reward.shape),
            reward=reward,
            discount=jnp.full_like(reward, 0.997),
            value=jnp.max(q, axis=1),
            action_mismatch=zeros,
            value_variance=zeros,
            novelty=zeros,
        )
        modes, state = step_all(jax.random.split(key, len(reward)), signals, state)
        return state, modes

    return jax.lax.scan(step, state, rows)[1]

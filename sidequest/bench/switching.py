"""What deciding when to explore costs, beside plain epsilon-greedy on the same Q-values.

Both run in a compiled scan, so that what is measured is the work and not the calls. The
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

VARIANT = "XU-intra(10,informed,p*,X)"
STREAMS = (1, 128, 4_096)
ACTIONS = 18
EPSILON = 0.01
EPISODE = 1_000


def epsilon_greedy(key: Key, q: Float[Array, "B A"]) -> Int[Array, "B"]:
    """The usual one: all streams from one key."""
    coin_key, action_key = jax.random.split(key)
    streams, actions = q.shape
    explores = jax.random.uniform(coin_key, (streams,)) < EPSILON
    uniform = jax.random.randint(action_key, (streams,), 0, actions)
    return jnp.where(explores, uniform, jnp.argmax(q, axis=1))


def measure(steps: int = 128) -> dict[str, Any]:
    """Nanoseconds a stream-step of both, for each number of streams, and their ratio."""
    rows = {streams: compare(streams, steps) for streams in STREAMS}
    greedy, controller = rows[STREAMS[-1]]
    return {
        "variant": VARIANT,
        "epsilon_greedy_ns": greedy,
        "controller_ns": controller,
        "ratio": controller / greedy,
        "by_streams": {
            str(streams): {
                "epsilon_greedy_ns": one,
                "controller_ns": two,
                "ratio": two / one,
            }
            for streams, (one, two) in rows.items()
        },
        "machine": machine(),
    }


def compare(streams: int, steps: int) -> tuple[float, float]:
    """Nanoseconds a stream-step of epsilon-greedy and of the controller."""
    # Few streams need more steps for a time that can be measured.
    steps = max(steps, 32_768 // streams)
    q = jax.random.normal(jax.random.key(0), (steps, streams, ACTIONS))
    reward = (jax.random.uniform(jax.random.key(1), (steps, streams)) < 0.05) * 1.0
    keys = jax.random.split(jax.random.key(2), steps)
    first = jnp.arange(steps) % EPISODE == 0
    controllers = start(streams)
    greedy = jax.jit(
        lambda: jax.lax.scan(lambda _, x: (None, epsilon_greedy(*x)), None, (keys, q))[1]
    )
    controlled = jax.jit(lambda: play(controllers, (keys, q, reward, first)))
    seconds = best_seconds(greedy, controlled)
    one, two = (1e9 * best / (steps * streams) for best in seconds)
    return one, two


def start(streams: int) -> ControllerState:
    meta = make_metacontroller()
    probabilities = meta.arm_probabilities(meta.init(variant_arrays(parse(VARIANT))))
    keys = jax.random.split(jax.random.key(3), streams)
    _, arms = jax.vmap(draw, in_axes=(0, None))(keys, probabilities)
    return jax.vmap(make_controller().init)(keys, arms)


def play(state: ControllerState, rows: tuple[Array, ...]) -> Bool[Array, "T B"]:
    """The modes that the controllers give for these keys, Q-values and rewards."""
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

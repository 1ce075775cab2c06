"""What deciding when to explore costs, beside plain epsilon-greedy on the same Q-values.

`numpy` is `Switch.step` as an agent calls it, checks of its input included, beside one line
of NumPy. `compiled` is the controller in a compiled scan, beside epsilon-greedy in another,
so that the work is measured and not the calls; it needs JAX.
"""

from __future__ import annotations

import importlib.util
import itertools
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from sidequest.bench import best_seconds, machine
from sidequest.switching.shell import Switch

if TYPE_CHECKING:
    from jaxtyping import Float

_VARIANT = "XU-intra(10,informed,p*,X)"
_BLIND = "XU-intra(10,blind,100,G)"
_STREAMS = (1, 8, 64, 1_024)
_COMPILED_STREAMS = (1, 128, 4_096)
_STEPS = 128
_ACTIONS = 18
_EPSILON = 0.01
_EPISODE = 1_000
_DISCOUNT = 0.997


def measure() -> dict[str, Any]:
    """Returns what a step costs, with NumPy and, if JAX is there, compiled."""
    figures: dict[str, Any] = {"variant": _VARIANT, "blind": _BLIND}
    figures["numpy"] = {str(count): _compare_numpy(count) for count in _STREAMS}
    if importlib.util.find_spec("jax"):
        rows = {str(count): _compare_compiled(count) for count in _COMPILED_STREAMS}
        most = rows[str(_COMPILED_STREAMS[-1])]
        figures |= {"compiled": rows, **most}
    return figures | {"machine": machine()}


def _compare_numpy(streams: int) -> dict[str, float]:
    """Returns microseconds of CPU time for a step of all environments, and ratios."""
    rng = np.random.default_rng(0)
    q = rng.normal(size=(_EPISODE, streams, _ACTIONS)).astype(np.float32)
    steps = itertools.cycle(q)

    def act() -> Any:
        q = next(steps)
        explores = rng.random(streams) < _EPSILON
        return np.where(explores, rng.integers(_ACTIONS, size=streams), q.argmax(1))

    calls = (act, _make_step(_VARIANT, q), _make_step(_BLIND, q))
    greedy, informed, blind = (1e6 * seconds for seconds in _typical_seconds(*calls))
    return {
        "epsilon_greedy_us": greedy,
        "informed_us": informed,
        "informed_ratio": informed / greedy,
        "blind_us": blind,
        "blind_ratio": blind / greedy,
    }


def _make_step(variant: str, q: Float[np.ndarray, "T B A"]) -> Callable[[], Any]:
    """Returns a function that plays one more step of a switch."""
    episode, streams, _ = q.shape
    switch, rng = Switch(variant, streams=streams), np.random.default_rng(1)
    rewards = (rng.random((episode, streams)) < 0.05).astype(np.float32)
    # Every environment starts an episode once in so many steps, each at another one.
    first = np.arange(episode)[:, None] == rng.integers(episode, size=streams)
    rows = itertools.cycle(zip(rewards, q.max(2), first, strict=True))

    def step() -> Any:
        reward, value, is_first = next(rows)
        return switch.step(
            reward=reward, discount=_DISCOUNT, value=value, is_first=is_first
        )

    return step


def _typical_seconds(
    *calls: Callable[[], Any], repeats: int = 250, times: int = 20
) -> list[float]:
    """Returns the median CPU time of each call, over batches of calls that alternate."""
    seen: list[list[float]] = [[] for _ in calls]
    for _ in range(repeats):
        for call, seconds in zip(calls, seen, strict=True):
            begin = time.thread_time()
            for _ in range(times):
                call()
            seconds.append((time.thread_time() - begin) / times)
    return [float(np.median(seconds)) for seconds in seen]


def _compare_compiled(environments: int) -> dict[str, float]:
    """Returns nanoseconds for a step of one environment, and their ratio."""
    import jax
    import jax.numpy as jnp

    from sidequest.switching import metacontroller
    from sidequest.switching.controllers import make_controller
    from sidequest.switching.variants import parse
    from sidequest.types import Signals

    # Few environments need more steps for a time that can be measured.
    steps = max(_STEPS, 32_768 // environments)
    q = jax.random.normal(jax.random.key(0), (steps, environments, _ACTIONS))
    reward = (jax.random.uniform(jax.random.key(1), (steps, environments)) < 0.05) * 1.0
    keys = jax.random.split(jax.random.key(2), steps)
    is_first = jnp.arange(steps) % _EPISODE == 0

    def act(_, row):
        """Chooses actions as usual: for all environments from one key."""
        key, q = row
        coin_key, action_key = jax.random.split(key)
        explores = jax.random.uniform(coin_key, (environments,)) < _EPSILON
        uniform = jax.random.randint(action_key, (environments,), 0, _ACTIONS)
        return None, jnp.where(explores, uniform, jnp.argmax(q, axis=1))

    def switch(state, row):
        """Steps the controllers, each with a key of its own."""
        key, q, reward, first = row
        zeros = jnp.zeros_like(reward)
        first, discount = zeros.astype(bool) | first, zeros + _DISCOUNT
        signals = Signals(first, reward, discount, jnp.max(q, axis=1), zeros, zeros, zeros)
        uniforms = jax.vmap(jax.random.uniform)(jax.random.split(key, environments))
        modes, state = jax.vmap(controller.step)(uniforms, signals, state)
        return state, modes

    controller, meta = make_controller(), metacontroller.make_metacontroller()
    variant = metacontroller.variant_arrays(parse(_VARIANT))
    probabilities = meta.arm_probabilities(meta.init(variant))
    shape = (environments, len(metacontroller.DIMENSIONS))
    uniforms = jax.random.uniform(jax.random.key(3), shape)
    draw = jax.vmap(metacontroller.draw, in_axes=(0, None))
    start = jax.vmap(controller.init)(draw(uniforms, probabilities)[1])
    rows = (keys, q, reward, is_first)
    seconds = best_seconds(
        jax.jit(lambda: jax.lax.scan(act, None, (keys, q))[1]),
        jax.jit(lambda: jax.lax.scan(switch, start, rows)[1]),
    )
    one, two = (1e9 * best / (steps * environments) for best in seconds)
    return {"epsilon_greedy_ns": one, "controller_ns": two, "ratio": two / one}

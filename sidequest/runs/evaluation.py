"""The greedy evaluator: what the exploit mode alone is worth (appendix A.3).

It plays whole episodes with epsilon = 0 and the newest parameters, on environments of its
own. Nothing it sees reaches replay or a bandit.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from sidequest.agent.networks import Inputs, RecurrentQNetwork
from sidequest.config import from_dict
from sidequest.environments import registry
from sidequest.environments.base import CompiledEnvironment
from sidequest.runs import checkpoint
from sidequest.runs.assembly import make_network
from sidequest.runs.records import read_run
from sidequest.switching.variants import parse
from sidequest.types import Key, Timestep

LONGEST = 10_000  # steps of an episode in a game that has no limit of its own


class NotEvaluable(ValueError):
    """A run whose agent cannot be played here; the message says why."""


class Evaluation(NamedTuple):
    """One row an episode; one that was cut off counts with what it had."""

    episode_return: Float[Array, "E"]
    length: Int[Array, "E"]


class _Playing(NamedTuple):
    environment: Any
    timestep: Timestep
    core: Any
    previous_action: Int[Array, ""]
    ended: Bool[Array, ""]
    episode_return: Float[Array, ""]
    length: Int[Array, ""]


def make_evaluator(
    environment: CompiledEnvironment, episodes: int
) -> Callable[[Key, RecurrentQNetwork], Evaluation]:
    """A compiled function that plays `episodes` greedy episodes side by side."""
    limit = environment.spec.max_steps or LONGEST

    def begin(key: Key, network: RecurrentQNetwork) -> _Playing:
        state, timestep = environment.reset(key)
        zero = jnp.zeros((), jnp.int32)
        core = network.initial_state()
        return _Playing(state, timestep, core, zero, jnp.bool_(False), jnp.zeros(()), zero)

    def step(key: Key, network: RecurrentQNetwork, now: _Playing) -> _Playing:
        timestep = now.timestep
        q, core = network.step(
            Inputs(
                timestep.observation,
                now.previous_action,
                timestep.reward,
                timestep.is_first,
            ),
            now.core,
        )
        action = jnp.argmax(q[0]).astype(jnp.int32)
        state, timestep = environment.step(key, now.environment, action)
        # The reward that comes with the first step of the next episode still counts.
        reward = jnp.where(now.ended, 0.0, timestep.reward)
        return _Playing(
            environment=state,
            timestep=timestep,
            core=core,
            previous_action=action,
            ended=now.ended | timestep.is_first,
            episode_return=now.episode_return + reward,
            length=now.length + ~now.ended,
        )

    def evaluate(key: Key, network: RecurrentQNetwork) -> Evaluation:
        reset_key, play_key = jax.random.split(key)
        reset_keys = jax.random.split(reset_key, episodes)
        playing = jax.vmap(begin, in_axes=(0, None))(reset_keys, network)

        def unfinished(carry: tuple[Int[Array, ""], _Playing]) -> Bool[Array, ""]:
            return (carry[0] < limit) & ~jnp.all(carry[1].ended)

        def advance(carry: tuple[Int[Array, ""], _Playing]):
            number, now = carry
            keys = jax.random.split(jax.random.fold_in(play_key, number), episodes)
            return number + 1, jax.vmap(step, in_axes=(0, None, 0))(keys, network, now)

        start = jnp.zeros((), jnp.int32), playing
        _, playing = jax.lax.while_loop(unfinished, advance, start)
        return Evaluation(playing.episode_return, playing.length)

    return evaluate


def evaluate_run(folder: Path, episodes: int, seed: int) -> dict[str, Any]:
    """Plays greedy episodes with the parameters that a finished run left behind."""
    run = read_run(folder)
    if not (folder / checkpoint.PARAMETERS).exists():
        raise NotEvaluable(
            f"{folder} has no {checkpoint.PARAMETERS}: the run has not finished"
        )
    environment = registry.make(run["game"])
    if not isinstance(environment, CompiledEnvironment):
        raise NotEvaluable(
            f"{run['game']} runs on the host; only compiled games are played here"
        )
    config = from_dict(run["config"])
    heads = parse(run["variant"]).heads
    like = jax.eval_shape(
        lambda: make_network(config, environment.spec, len(heads), jax.random.key(0))
    )
    network = checkpoint.load(folder / checkpoint.PARAMETERS, like)
    play = jax.jit(make_evaluator(environment, episodes))
    scores = jax.device_get(play(jax.random.key(seed), network))
    returns = scores.episode_return
    return {
        "variant": run["variant"],
        "game": run["game"],
        "seed": run["seed"],
        "episodes": episodes,
        "mean": float(returns.mean()),
        "median": float(np.median(returns)),
        "min": float(returns.min()),
        "max": float(returns.max()),
        "length": float(scores.length.mean()),
        "returns": returns.tolist(),
    }

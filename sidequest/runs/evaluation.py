"""The greedy evaluator: what the exploit mode alone is worth (appendix A.3).

It plays whole episodes with epsilon = 0 and the newest parameters, on environments of its
own. Nothing it sees reaches replay or a bandit.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from sidequest.agent.actor import act_greedily
from sidequest.agent.networks import QFunction
from sidequest.environments.base import CompiledEnvironment, HostedGame
from sidequest.environments.scores import SCORES, human_normalised
from sidequest.runs.emulators import build_politely
from sidequest.runs.keys import EVALUATION
from sidequest.runs.player import load_player
from sidequest.types import AnyArray, Key, Timestep

LONGEST = 10_000  # steps of an episode in a game that has no limit of its own
EMULATORS = 8  # at most, that play side by side on the host

Report = Callable[[int, int], None]
"""Hears of progress: (episodes that have ended, steps of all episodes)."""


class Evaluation(NamedTuple):
    """One row an episode; one that was cut off counts with what it had."""

    episode_return: Float[AnyArray, "E"]
    length: Int[AnyArray, "E"]


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
) -> Callable[[Key, QFunction], Evaluation]:
    """A compiled function that plays `episodes` greedy episodes side by side."""
    limit = environment.spec.max_steps or LONGEST

    def begin(key: Key, q_function: QFunction) -> _Playing:
        state, timestep = environment.reset(key)
        zero = jnp.zeros((), jnp.int32)
        core = q_function.initial_state()
        return _Playing(state, timestep, core, zero, jnp.bool_(False), jnp.zeros(()), zero)

    def step(key: Key, q_function: QFunction, now: _Playing) -> _Playing:
        action, core = act_greedily(q_function, now.timestep, now.previous_action, now.core)
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

    def evaluate(key: Key, q_function: QFunction) -> Evaluation:
        reset_key, play_key = jax.random.split(key)
        reset_keys = jax.random.split(reset_key, episodes)
        playing = jax.vmap(begin, in_axes=(0, None))(reset_keys, q_function)

        def unfinished(carry: tuple[Int[Array, ""], _Playing]) -> Bool[Array, ""]:
            return (carry[0] < limit) & ~jnp.all(carry[1].ended)

        def advance(carry: tuple[Int[Array, ""], _Playing]):
            number, now = carry
            keys = jax.random.split(jax.random.fold_in(play_key, number), episodes)
            return number + 1, jax.vmap(step, in_axes=(0, None, 0))(keys, q_function, now)

        start = jnp.zeros((), jnp.int32), playing
        _, playing = jax.lax.while_loop(unfinished, advance, start)
        return Evaluation(playing.episode_return, playing.length)

    return evaluate


def evaluate_hosted(
    game: HostedGame,
    q_function: QFunction,
    episodes: int,
    seed: int,
    report: Report = lambda ended, steps: None,
) -> Evaluation:
    """Plays greedy episodes on a few emulators, each a share that is fixed beforehand.

    To take the episodes that end first would favour short ones, and those score less.
    """
    emulators = min(episodes, EMULATORS)
    share = np.full(emulators, episodes // emulators)
    share[: episodes % emulators] += 1
    build = partial(game.build, groups=1, streams=emulators, seed=seed)
    (group,) = build_politely(build)
    act = jax.jit(jax.vmap(act_greedily, in_axes=(None, 0, 0, 0)))
    core = jax.vmap(lambda _: q_function.initial_state())(jnp.arange(emulators))
    actions = jnp.zeros(emulators, jnp.int32)
    returns, lengths = np.zeros(emulators), np.zeros(emulators, int)
    finished: list[list[tuple[float, int]]] = [[] for _ in range(emulators)]
    ended, steps, timestep = 0, 0, group.recv()
    try:
        while ended < episodes:
            actions, core = act(q_function, timestep, actions, core)
            group.send(np.asarray(actions))
            timestep = group.recv()
            returns += timestep.reward
            lengths += 1
            for i in np.flatnonzero(timestep.is_first):
                if len(finished[i]) < share[i]:
                    finished[i].append((float(returns[i]), int(lengths[i])))
                    ended += 1
                returns[i] = lengths[i] = 0
            steps += emulators
            report(ended, steps)
    finally:
        group.close()
    rows = np.array([episode for some in finished for episode in some])
    return Evaluation(rows[:, 0].astype(np.float32), rows[:, 1].astype(np.int32))


def evaluate_run(
    folder: Path, episodes: int, seed: int, report: Report = lambda ended, steps: None
) -> dict[str, Any]:
    """Plays greedy episodes with a run's parameters, and sums up what they scored.

    Raises:
        NotEvaluable: The run has no parameters that can be played.
    """
    player = load_player(folder)
    if isinstance(player.game, CompiledEnvironment):
        play = jax.jit(make_evaluator(player.game, episodes))
        key = jax.random.fold_in(jax.random.key(seed), EVALUATION)
        scores = jax.device_get(play(key, player.q_function))
    else:
        scores = evaluate_hosted(player.game, player.q_function, episodes, seed, report)
    returns = np.asarray(scores.episode_return)
    name, mean = player.run["game"], float(returns.mean())
    return {
        "variant": player.run["variant"],
        "game": name,
        "seed": player.run["seed"],
        "episodes": episodes,
        "mean": mean,
        "median": float(np.median(returns)),
        "min": float(returns.min()),
        "max": float(returns.max()),
        "length": float(scores.length.mean()),
        "returns": returns.tolist(),
        "human_normalised": human_normalised(name, mean) if name in SCORES else None,
    }

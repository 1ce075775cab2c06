"""Non-stationary bandits: which setting is worth playing just now (section 2.3).

A bandit is asked for an arm at the start of every episode and told the episode's return
at the end. Returns drift as the agent learns, so it looks only at a window of the most
recent episodes. Its state is arrays: save it, vmap it, scan it.

The window is kept oldest first, newest last; an empty slot has arm -1.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from sidequest.types import Key

EMPTY = -1
ERROR_DECAY = 1 / 64  # of the adaptive window's running prediction errors


class Bandit(NamedTuple):
    """Arms are 0 .. K-1. `init(in_use)` leaves all but the first `in_use` arms unplayed,
    so that bandits with different numbers of arms can share one compiled program."""

    init: Callable[..., Any]
    probabilities: Callable[[Any], Float[Array, "K"]]
    sample: Callable[[Key, Any], Int[Array, ""]]
    update: Callable[[Any, Int[Array, ""], Float[Array, ""]], Any]
    """(state, arm, fitness) -> state, once for each episode, in order of arrival."""


class WindowState(NamedTuple):
    """The most recent episodes, and what each length of window has got wrong so far."""

    arms: Int[Array, "W"]
    fitness: Float[Array, "W"]
    in_use: Int[Array, ""]
    episodes: Int[Array, ""]
    errors: Float[Array, "J"]
    """Squared error of predicting an arm's next return, a value for each candidate
    window; NaN before the first prediction. Empty for a fixed window."""


def draw(key: Key, probabilities: Float[Array, "K"]) -> Int[Array, ""]:
    """Samples an index. Cheaper than a Gumbel draw: one uniform number."""
    cumulative = jnp.cumsum(probabilities)
    threshold = jax.random.uniform(key) * cumulative[-1]
    return jnp.sum(threshold >= cumulative).astype(jnp.int32)


def proportional(
    arms: int, window: int | Literal["adaptive"] = "adaptive", tie: float = 0.5
) -> Bandit:
    """Samples arms in proportion to how often they do better than average.

        mu(z) = (1/2 + number of successes of z) / (1 + number of plays of z)
        P(z)  = mu(z) / sum mu          over the last h episodes

    An episode succeeds if its return is above the mean return of the window (Schaul et
    al. 2019). `tie` is what a return equal to the mean counts for: with 1/2, equal returns
    leave the arms exactly uniform. The published rule for adapting h is not public;
    `window="adaptive"` takes the candidate 4K, 8K, ... 4096 that predicted the returns of
    recent episodes best, from the mean return of their arm; ties go to the longest.
    """
    candidates = window_candidates(arms) if window == "adaptive" else ()
    size = candidates[-1] if candidates else int(window)
    if arms < 1 or size < 1:
        raise ValueError(f"arms is {arms} and window is {window}; both are 1 or more")

    def init(in_use: int | Int[Array, ""] = arms) -> WindowState:
        return WindowState(
            arms=jnp.full(size, EMPTY, jnp.int32),
            fitness=jnp.zeros(size),
            in_use=jnp.asarray(in_use, jnp.int32),
            episodes=jnp.zeros((), jnp.int32),
            errors=jnp.full(len(candidates), jnp.nan),
        )

    def probabilities(state: WindowState) -> Float[Array, "K"]:
        recent = state.arms != EMPTY
        if candidates:
            length = best_window(state.errors, candidates)
            recent &= jnp.arange(size) >= size - length
        # Shifted by one of the values, the mean of equal returns is exactly that value.
        shifted = state.fitness - state.fitness[-1]
        mean = jnp.sum(shifted, where=recent) / jnp.maximum(jnp.sum(recent), 1)
        success = jnp.where(shifted == mean, tie, (shifted > mean).astype(jnp.float32))
        played = recent[None] & (state.arms[None] == jnp.arange(arms)[:, None])
        plays = jnp.sum(played, axis=1, dtype=jnp.float32)
        successes = jnp.sum(jnp.where(played, success, 0.0), axis=1)
        mu = jnp.where(
            jnp.arange(arms) < state.in_use, (0.5 + successes) / (1.0 + plays), 0.0
        )
        return mu / jnp.sum(mu)

    def update(
        state: WindowState, arm: Int[Array, ""], fitness: Float[Array, ""]
    ) -> WindowState:
        errors = state.errors
        if candidates:
            error = jnp.square(fitness - predictions(state, arm, candidates))
            blended = errors + ERROR_DECAY * (error - errors)
            errors = jnp.where(jnp.isnan(errors), error, blended)
            errors = jnp.where(jnp.isnan(error), state.errors, errors)
        return remember(state, arm, fitness)._replace(errors=errors)

    return Bandit(init, probabilities, _sampler(probabilities), update)


def window_candidates(arms: int, longest: int = 4096) -> tuple[int, ...]:
    """4K, 8K, ... up to `longest`."""
    lengths = [4 * arms]
    while 2 * lengths[-1] <= longest:
        lengths.append(2 * lengths[-1])
    return tuple(lengths)


def best_window(errors: Float[Array, "J"], candidates: tuple[int, ...]) -> Int[Array, ""]:
    """The window with the least error; of equals, and before any error, the longest."""
    errors = jnp.where(jnp.isnan(errors), jnp.inf, errors)[::-1]
    return jnp.asarray(candidates[::-1])[jnp.argmin(errors)]


def predictions(
    state: WindowState, arm: Int[Array, ""], candidates: tuple[int, ...]
) -> Float[Array, "J"]:
    """Mean return of `arm` in each candidate window; of all arms where it has none.

    Windows are made of pieces as long as the shortest, so that one pass over the episodes
    serves all: an update is called for every episode that ends.
    """
    piece = candidates[0]
    played = jnp.stack([state.arms == arm, state.arms != EMPTY])
    counts = jnp.sum(played.reshape(2, -1, piece), axis=2, dtype=jnp.float32)
    sums = jnp.sum(jnp.where(played, state.fitness, 0.0).reshape(2, -1, piece), axis=2)
    pieces = counts.shape[1]
    inside = np.arange(pieces) >= pieces - np.array(candidates)[:, None] // piece
    (own, every), (own_sum, sum_of_all) = (
        jnp.sum(jnp.where(inside, each[:, None], 0.0), axis=2) for each in (counts, sums)
    )
    # NaN if all are empty.
    return jnp.where(own > 0, own_sum, sum_of_all) / jnp.where(own > 0, own, every)


def remember(
    state: WindowState, arm: Int[Array, ""], fitness: Float[Array, ""]
) -> WindowState:
    """Appends an episode; the oldest one leaves the window."""
    return state._replace(
        arms=jnp.append(state.arms[1:], jnp.asarray(arm, jnp.int32)),
        fitness=jnp.append(state.fitness[1:], jnp.asarray(fitness, jnp.float32)),
        episodes=state.episodes + 1,
    )


def ucb(arms: int, window: int = 160, epsilon: float = 0.5, bonus: float = 1.0) -> Bandit:
    """The sliding-window UCB of Agent57 (Badia et al. 2020, appendix D).

    Every arm once; then with probability `epsilon` a uniform arm, otherwise

        argmax_a  mean return of a + bonus sqrt(1 / plays of a)      over the window

    An arm that has left the window counts as unplayed and comes first; streams that ask
    before the first returns are in all get the same one. The bonus is in units of return:
    where returns are in the thousands, `epsilon` does the exploring.
    """
    if arms < 1 or window < 1:
        raise ValueError(f"arms is {arms} and window is {window}; both are 1 or more")

    def init(in_use: int | Int[Array, ""] = arms) -> WindowState:
        return proportional(arms, window).init(in_use)

    def probabilities(state: WindowState) -> Float[Array, "K"]:
        played = state.arms[None] == jnp.arange(arms)[:, None]
        plays = jnp.sum(played, axis=1, dtype=jnp.float32)
        mean = jnp.sum(jnp.where(played, state.fitness, 0.0), axis=1) / plays
        index = jnp.where(plays > 0, mean + bonus * jnp.sqrt(1.0 / plays), jnp.inf)
        usable = jnp.arange(arms) < state.in_use
        greedy = jnp.argmax(jnp.where(usable, index, -jnp.inf)) == jnp.arange(arms)
        warming_up = state.episodes < state.in_use
        uniform = usable / state.in_use
        mixed = epsilon * uniform + (1.0 - epsilon) * greedy
        return jnp.where(warming_up, greedy.astype(jnp.float32), mixed)

    return Bandit(init, probabilities, _sampler(probabilities), remember)


def factored(bandit: Bandit, dimensions: int) -> Bandit:
    """Independent bandits, one a dimension, that all learn from the same return.

    The sum of the arms is to be learned instead of their product. `init` takes the number
    of arms in use of each dimension; arms and probabilities gain a leading axis D.
    """

    def init(in_use: Int[Array, "D"]) -> Any:
        return jax.vmap(bandit.init)(in_use)

    def sample(key: Key, state: Any) -> Int[Array, "D"]:
        return jax.vmap(bandit.sample)(jax.random.split(key, dimensions), state)

    return Bandit(
        init=init,
        probabilities=jax.vmap(bandit.probabilities),
        sample=sample,
        update=jax.vmap(bandit.update, in_axes=(0, 0, None)),
    )


def _sampler(
    probabilities: Callable[[Any], Float[Array, "K"]],
) -> Callable[[Key, Any], Int[Array, ""]]:
    return lambda key, state: draw(key, probabilities(state))

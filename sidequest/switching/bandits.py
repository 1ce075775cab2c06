"""Non-stationary bandits: which setting is best at present (section 2.3).

An arm is drawn at the start of every episode, and the bandit is updated with the episode's
return at its end. Returns drift as the agent learns, so only a window of the most recent
episodes counts. The state is arrays: save it, vmap it, scan it.

The window is kept oldest first, newest last; an empty slot has arm -1.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from sidequest.types import Key

_EMPTY = -1
_SHORTEST = 4  # episodes an arm, in the shortest adaptive window
_ERROR_DECAY = 1 / 64  # of the adaptive window's running prediction errors


class Ended(NamedTuple):
    """Episodes that have ended, in order of arrival."""

    arms: Int[Array, "E ..."]
    fitness: Float[Array, "E"]
    count: Int[Array, ""]
    """Number of episodes; the rest is padding."""


class Bandit(NamedTuple):
    """Arms are 0 .. K-1. `init(in_use)` leaves all but the first `in_use` arms unplayed,
    so that bandits with different numbers of arms can share one compiled program."""

    init: Callable[..., Any]
    probabilities: Callable[[Any], Float[Array, "K"]]
    update: Callable[[Any, Ended], Any]
    """Updates it with episodes; one by one gives the same state."""


class WindowState(NamedTuple):
    """The most recent episodes, and the prediction error of each window length so far."""

    arms: Int[Array, "W"]
    fitness: Float[Array, "W"]
    in_use: Int[Array, ""]
    episodes: Int[Array, ""]
    errors: Float[Array, "J"]
    """Mean squared error of predicting an arm's next return, for each candidate window;
    NaN before the first prediction. Empty for a fixed window."""


def draw(key: Key, probabilities: Float[Array, "K"]) -> Int[Array, ""]:
    """Samples an index. Cheaper than a Gumbel draw: one uniform number."""
    cumulative = jnp.cumsum(probabilities)
    threshold = jax.random.uniform(key) * cumulative[-1]
    return jnp.sum(threshold >= cumulative).astype(jnp.int32)


def proportional(arms: int, window: int | Literal["adaptive"] = "adaptive") -> Bandit:
    """Samples arms in proportion to how often they do better than average.

        mu(z) = (1/2 + number of successes of z) / (1 + number of plays of z)
        P(z)  = mu(z) / sum mu          over the last h episodes

    An episode succeeds if its return is above the mean return of the window (Schaul et
    al. 2019); a return equal to the mean counts 1/2, so that equal returns leave the arms
    exactly uniform. The published rule for adapting h is not public;
    `window="adaptive"` takes the candidate 4K, 8K, ... 4096 that predicted the returns of
    recent episodes best, from the mean return of their arm; ties go to the longest.
    """
    candidates = _window_candidates(arms) if window == "adaptive" else ()
    size = candidates[-1] if candidates else int(window)
    if arms < 1 or size < 1:
        raise ValueError(f"arms is {arms} and window is {window}; both are 1 or more")

    def init(in_use: int | Int[Array, ""] = arms) -> WindowState:
        return WindowState(
            arms=jnp.full(size, _EMPTY, jnp.int32),
            fitness=jnp.zeros(size),
            in_use=jnp.asarray(in_use, jnp.int32),
            episodes=jnp.zeros((), jnp.int32),
            errors=jnp.full(len(candidates), jnp.nan),
        )

    def probabilities(state: WindowState) -> Float[Array, "K"]:
        recent = state.arms != _EMPTY
        if candidates:
            length = _best_window(state.errors, candidates)
            recent &= jnp.arange(size) >= size - length
        # Shifted by one of the values, the mean of equal returns is exactly that value.
        shifted = state.fitness - state.fitness[-1]
        mean = jnp.sum(shifted, where=recent) / jnp.maximum(jnp.sum(recent), 1)
        success = jnp.where(shifted == mean, 0.5, (shifted > mean).astype(jnp.float32))
        played = recent[None] & (state.arms[None] == jnp.arange(arms)[:, None])
        plays = jnp.sum(played, axis=1, dtype=jnp.float32)
        successes = jnp.sum(jnp.where(played, success, 0.0), axis=1)
        mu = jnp.where(
            jnp.arange(arms) < state.in_use, (0.5 + successes) / (1.0 + plays), 0.0
        )
        return mu / jnp.sum(mu)

    def update(state: WindowState, ended: Ended) -> WindowState:
        if candidates:
            missed = _prediction_errors(state, ended, arms, candidates)
            state = state._replace(errors=_blend(state, missed, ended.count))
        return _remember(state, ended)

    return Bandit(init, probabilities, update)


def _window_candidates(arms: int, longest: int = 4096) -> tuple[int, ...]:
    """Returns the window lengths 4K, 8K, ... up to `longest`."""
    lengths = [_SHORTEST * arms]
    while 2 * lengths[-1] <= longest:
        lengths.append(2 * lengths[-1])
    return tuple(lengths)


def _best_window(errors: Float[Array, "J"], candidates: tuple[int, ...]) -> Int[Array, ""]:
    """Returns the window with the least error; of equals, and at first, the longest."""
    errors = jnp.where(jnp.isnan(errors), jnp.inf, errors)[::-1]
    return jnp.asarray(candidates[::-1])[jnp.argmin(errors)]


def _prediction_errors(
    state: WindowState, ended: Ended, num_arms: int, candidates: tuple[int, ...]
) -> Float[Array, "J E"]:
    """Returns the squared error of each candidate window on each episode.

    A window of length h predicts the mean return of the episode's arm among the h episodes
    before it; of all arms where it has none. All episodes are predicted in one pass: what
    the window holds before episode i is what it held at first, plus the i episodes that
    have entered since, less the i that have left.

        h = 4        ... a b c d | e f g        before g: (a b c d) + (e f) - (a b)
    """
    size, episodes = len(state.arms), len(ended.arms)
    appended, returns = _append(state, ended)
    # Shifted by one of the values, predictions of equal returns are exactly right.
    shift = state.fitness[-1]
    played = appended[None] == jnp.arange(num_arms)[:, None]
    items = jnp.stack([played, jnp.where(played, returns[None] - shift, 0.0)])

    def held(length: int) -> Float[Array, "2 K E"]:
        """Number and sum of the returns of each arm, before each of the episodes."""
        start = size - length
        at_first = jnp.sum(items[..., start:size], axis=-1)
        moved = items[..., size:] - items[..., start : start + episodes]
        before = jnp.triu(jnp.ones((episodes, episodes)), 1)
        return at_first[..., None] + jnp.matmul(moved, before, precision="highest")

    windows = jnp.stack([held(length) for length in candidates], axis=1)
    own = ended.arms[None] == jnp.arange(num_arms)[:, None]
    plays, total = jnp.sum(jnp.where(own[None, None], windows, 0.0), axis=2)
    plays_of_all, total_of_all = jnp.sum(windows, axis=2)
    known = plays > 0
    mean = jnp.where(known, total, total_of_all) / jnp.maximum(
        jnp.where(known, plays, plays_of_all), 1.0
    )
    return jnp.square(ended.fitness[None] - shift - mean)


def _blend(
    state: WindowState, missed: Float[Array, "J E"], count: Int[Array, ""]
) -> Float[Array, "J"]:
    """Returns the running mean of the errors, with more weight on the newest:

        errors <- (1 - d) errors + d missed        the first one counts whole

    written out for `count` episodes. Before the very first there was nothing to predict by.
    """
    number = jnp.arange(missed.shape[1])
    kept = (1.0 - _ERROR_DECAY) ** jnp.maximum(count - 1 - number, 0)
    predicted_before = state.episodes + number - 1
    weight = jnp.where(predicted_before == 0, kept, _ERROR_DECAY * kept)
    counts = (number < count) & (predicted_before >= 0)
    old = (1.0 - _ERROR_DECAY) ** count * jnp.nan_to_num(state.errors)
    blended = old + jnp.sum(missed * weight[None], axis=1, where=counts[None])
    return jnp.where(state.episodes + count > 1, blended, jnp.nan)


def _remember(state: WindowState, ended: Ended) -> WindowState:
    """Appends episodes; as many of the oldest leave the window."""
    arms, fitness = (
        lax.dynamic_slice_in_dim(each, ended.count, len(state.arms))
        for each in _append(state, ended)
    )
    episodes = state.episodes + ended.count
    return state._replace(arms=arms, fitness=fitness, episodes=episodes)


def _append(
    state: WindowState, ended: Ended
) -> tuple[Int[Array, "both"], Float[Array, "both"]]:
    """Returns the window, and after it the episodes that have ended; the rest is empty."""
    real = jnp.arange(len(ended.arms)) < ended.count
    return (
        jnp.concatenate([state.arms, jnp.where(real, ended.arms, _EMPTY)]),
        jnp.concatenate([state.fitness, jnp.where(real, ended.fitness, 0.0)]),
    )


def ucb(arms: int, window: int = 160, epsilon: float = 0.5, bonus: float = 1.0) -> Bandit:
    """Returns the sliding-window UCB of Agent57 (Badia et al. 2020, appendix D).

    Every arm once; then with probability `epsilon` a uniform arm, otherwise

        argmax_a  mean return of a + bonus sqrt(1 / plays of a)      over the window

    An arm that has left the window counts as unplayed and comes first; environments that
    draw before the first returns arrive all get the same one. The bonus is in units of
    return: where returns are in the thousands, `epsilon` does the exploring.
    """

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

    return Bandit(proportional(arms, window).init, probabilities, _remember)


def factored(bandit: Bandit) -> Bandit:
    """Returns independent bandits, one a dimension, that all learn from the same return.

    The sum of the arms is to be learned instead of their product. `init` takes the number
    of arms in use of each dimension; probabilities gain a leading axis D, arms a last one.
    """

    def init(in_use: Int[Array, "D"]) -> Any:
        return jax.vmap(bandit.init)(in_use)

    def update(state: Any, ended: Ended) -> Any:
        def one(state: Any, arms: Int[Array, "E"]) -> Any:
            return bandit.update(state, ended._replace(arms=arms))

        return jax.vmap(one, in_axes=(0, 1))(state, ended.arms)

    return Bandit(init, jax.vmap(bandit.probabilities), update)

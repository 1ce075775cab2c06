"""Non-stationary bandits: which setting is best at present (section 2.3).

An arm is drawn at the start of every episode, and the bandit is updated with the episode's
return at its end. Returns drift as the agent learns, so only a window of the most recent
episodes counts. The state is arrays: save it, vmap it, scan it.

The window is kept oldest first, newest last; an empty slot has arm -1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from sidequest.switching.arrays import NAN, ONE, ZERO, namespace, slide, sum_by
from sidequest.types import AnyArray

if TYPE_CHECKING:
    from jaxtyping import Float, Int

_EMPTY = -1
_SHORTEST = 4  # episodes an arm, in the shortest adaptive window
_ERROR_DECAY = 1 / 64  # of the adaptive window's running prediction errors


class Ended(NamedTuple):
    """Episodes that have ended, in order of arrival."""

    arms: Int[AnyArray, "*D E"]
    fitness: Float[AnyArray, "E"]
    count: int | Int[AnyArray, ""]
    """Number of episodes; the rest is padding."""


class Bandit(NamedTuple):
    """Arms are 0 .. K-1. `init(in_use)` leaves all but the first `in_use` arms unplayed,
    so that bandits with different numbers of arms can share one compiled program.

    If `in_use` has an axis [D], these are independent bandits, one a dimension, that all
    learn from the same return: the sum of the arms is to be learned, not their product.
    """

    init: Callable[..., Any]
    probabilities: Callable[[Any], Float[AnyArray, "*D K"]]
    update: Callable[[Any, Ended], Any]
    """Updates it with episodes; one by one gives the same state."""


class WindowState(NamedTuple):
    """The most recent episodes, and the prediction error of each window length so far."""

    arms: Int[AnyArray, "*D W"]
    fitness: Float[AnyArray, "W"]
    in_use: Int[AnyArray, "*D"]
    episodes: Int[AnyArray, ""]
    errors: Float[AnyArray, "*D J"]
    """Mean squared error of predicting an arm's next return, for each candidate window;
    NaN before the first prediction. Empty for a fixed window."""


def draw(
    uniform: Float[AnyArray, "D *B"], probabilities: Float[AnyArray, "D K"]
) -> Int[AnyArray, "D *B"]:
    """Returns the index that a uniform random number means, of each row."""
    cumulative = probabilities.cumsum(-1)
    cumulative = cumulative.reshape(*cumulative.shape, *[1] * (uniform.ndim - 1))
    threshold = uniform[:, None] * cumulative[:, -1:]
    return (threshold >= cumulative).sum(1).astype(np.int32)


def proportional(arms: int, window: int | Literal["adaptive"] = "adaptive") -> Bandit:
    """Samples arms in proportion to how often they do better than average.

        mu(z) = (1/2 + number of successes of z) / (1 + number of plays of z)
        P(z)  = mu(z) / sum mu          over the last h episodes

    An episode succeeds if its return is above the mean return of the window (Schaul et
    al. 2019); a return equal to the mean counts 1/2, so that equal returns leave the arms
    exactly uniform. The published rule for adapting h is not public;
    `window="adaptive"` takes the candidate 4K, 8K, ... up to 4096 that predicted the
    returns of recent episodes best, from the mean return of their arm; ties go to the
    longest. K is `arms`: room for the largest bandit of a meta-controller.
    """
    if arms < 1 or (window != "adaptive" and int(window) < 1):
        raise ValueError(f"arms is {arms} and window is {window}; both are 1 or more")
    candidates = _window_candidates(arms) if window == "adaptive" else ()
    size = candidates[-1] if candidates else int(window)

    def init(in_use: int | Int[AnyArray, "*D"] = arms) -> WindowState:
        shape = np.shape(in_use)
        return WindowState(
            arms=np.full((*shape, size), _EMPTY, np.int32),
            fitness=np.zeros(size, np.float32),
            in_use=np.array(in_use, np.int32) if isinstance(in_use, int) else in_use,
            episodes=np.zeros((), np.int32),
            errors=np.full((*shape, len(candidates)), np.nan, np.float32),
        )

    def probabilities(state: WindowState) -> Float[AnyArray, "*D K"]:
        xp = namespace(state.arms, state.in_use)
        recent = state.arms != _EMPTY
        if candidates:
            length = _best_window(state.errors, candidates)[..., None]
            recent &= xp.arange(size) >= size - length
        # Shifted by one of the values, the mean of equal returns is exactly that value.
        shifted = state.fitness - state.fitness[-1]
        number = recent.sum(-1, keepdims=True).astype(np.float32)
        mean = (shifted * recent).sum(-1, keepdims=True) / xp.maximum(number, ONE)
        success = ((shifted >= mean).astype(np.float32) + (shifted > mean)) / 2
        plays = sum_by(state.arms, recent.astype(np.float32), arms, (0, size))[..., 0, :]
        successes = sum_by(state.arms, success * recent, arms, (0, size))[..., 0, :]
        mu = (0.5 + successes) / (ONE + plays)
        mu = xp.where(xp.arange(arms) < state.in_use[..., None], mu, ZERO)
        return mu / mu.sum(-1, keepdims=True)

    def update(state: WindowState, ended: Ended) -> WindowState:
        appended = _append(state, ended)
        if candidates:
            missed = _prediction_errors(state, *appended, ended, arms, candidates)
            state = state._replace(errors=_blend(state, missed, ended.count))
        return _remember(state, *appended, ended)

    return Bandit(init, probabilities, update)


def _window_candidates(arms: int, longest: int = 4096) -> tuple[int, ...]:
    """Returns the window lengths 4K, 8K, ... up to `longest`."""
    lengths = [_SHORTEST * arms]
    while 2 * lengths[-1] <= longest:
        lengths.append(2 * lengths[-1])
    return tuple(lengths)


def _best_window(
    errors: Float[AnyArray, "*D J"], candidates: tuple[int, ...]
) -> Int[AnyArray, "*D"]:
    """Returns the window with the least error; of equals, and at first, the longest."""
    xp = namespace(errors)
    errors = xp.where(xp.isnan(errors), np.float32(np.inf), errors)[..., ::-1]
    return xp.asarray(candidates[::-1])[xp.argmin(errors, axis=-1)]


def _played(played: Int[AnyArray, "*D W"], arms: int) -> Any:
    """Returns for each arm which episodes played it: marks [*D K W]."""
    return played[..., None, :] == np.arange(arms, dtype=np.int32)[:, None]


def _prediction_errors(
    state: WindowState,
    played: Int[AnyArray, "*D both"],
    returns: Float[AnyArray, "both"],
    ended: Ended,
    arms: int,
    candidates: tuple[int, ...],
) -> Float[AnyArray, "*D J E"]:
    """Returns the squared error of each candidate window on each episode.

    A window of length h predicts the mean return of the episode's arm among the h episodes
    before it; of all arms where it has none. All episodes are predicted in one pass: what
    the window holds before episode i is what it held at first, plus the i episodes that
    have entered since, less the i that have left.

        h = 4        ... a b c d | e f g        before g: (a b c d) + (e f) - (a b)
    """
    xp = namespace(state.arms, ended.arms)
    size, episodes = state.arms.shape[-1], ended.arms.shape[-1]
    # Shifted by one of the values, predictions of equal returns are exactly right.
    returns = returns - state.fitness[-1]
    begins = [size - length for length in candidates]
    leaves = np.array(begins)[:, None] + np.arange(episodes)
    entered = _played(played[..., size:], arms)[..., None, :, :]
    left = _played(played[..., leaves], arms)

    def held(values: Float[AnyArray, "both"]) -> Float[AnyArray, "*D J K E"]:
        """Returns the sums of the values of each arm, before each of the episodes."""
        apart = sum_by(played, values, arms, (*begins[::-1], size))[..., ::-1, :]
        at_first = xp.cumsum(apart, axis=-2)[..., None]
        moved = values[size:] * entered - values[leaves][:, None] * left
        return xp.concatenate(
            [at_first, at_first + xp.cumsum(moved[..., :-1], axis=-1)], axis=-1
        )

    plays, totals = held(xp.ones_like(returns)), held(returns)
    own = _played(ended.arms, arms)[..., None, :, :]
    own_plays = (plays * own).sum(-2)
    known = own_plays > 0
    total = xp.where(known, (totals * own).sum(-2), totals.sum(-2))
    mean = total / xp.maximum(xp.where(known, own_plays, plays.sum(-2)), ONE)
    return (returns[size:] - mean) ** 2


def _blend(
    state: WindowState, missed: Float[AnyArray, "*D J E"], count: int | Int[AnyArray, ""]
) -> Float[AnyArray, "*D J"]:
    """Returns the running mean of the errors, with more weight on the newest:

        errors <- (1 - d) errors + d missed        the first one counts whole

    written out for `count` episodes. Before the very first there was nothing to predict by.
    """
    xp = namespace(missed, count)
    decay = np.float32(1.0 - _ERROR_DECAY)
    number = xp.arange(missed.shape[-1])
    kept = decay ** xp.maximum(count - 1 - number, 0).astype(np.float32)
    predicted_before = state.episodes + number - 1
    weight = xp.where(predicted_before == 0, kept, np.float32(_ERROR_DECAY) * kept)
    counts = (number < count) & (predicted_before >= 0)
    old = decay ** xp.asarray(count, np.float32) * xp.where(
        state.episodes > 1, state.errors, ZERO
    )
    blended = old + xp.where(counts, missed * weight, ZERO).sum(-1)
    return xp.where(state.episodes + count > 1, blended, NAN)


def _remember(
    state: WindowState,
    played: Int[AnyArray, "*D both"],
    returns: Float[AnyArray, "both"],
    ended: Ended,
) -> WindowState:
    """Appends episodes; as many of the oldest leave the window."""
    size = state.arms.shape[-1]
    arms, fitness = (slide(each, ended.count, size) for each in (played, returns))
    episodes = (state.episodes + ended.count).astype(np.int32)
    return state._replace(arms=arms, fitness=fitness, episodes=episodes)


def _append(
    state: WindowState, ended: Ended
) -> tuple[Int[AnyArray, "*D both"], Float[AnyArray, "both"]]:
    """Returns the window, and after it the episodes that have ended; the rest is empty."""
    xp = namespace(state.arms, ended.arms)
    real = xp.arange(ended.fitness.shape[-1]) < ended.count
    arms = xp.where(real, ended.arms, np.int32(_EMPTY))
    fitness = xp.where(real, ended.fitness, ZERO)
    return (
        xp.concatenate([state.arms, arms], axis=-1),
        xp.concatenate([state.fitness, fitness]),
    )


def ucb(arms: int, window: int = 160, epsilon: float = 0.5, bonus: float = 1.0) -> Bandit:
    """Returns the sliding-window UCB of Agent57 (Badia et al. 2020, appendix D).

    Every arm once; then with probability `epsilon` a uniform arm, otherwise

        argmax_a  mean return of a + bonus sqrt(1 / plays of a)      over the window

    An arm that has left the window counts as unplayed and comes first; environments that
    draw before the first returns arrive all get the same one. The bonus is in units of
    return: where returns are in the thousands, `epsilon` does the exploring.
    """

    def probabilities(state: WindowState) -> Float[AnyArray, "*D K"]:
        xp = namespace(state.arms, state.in_use)
        played = _played(state.arms, arms)
        plays = played.sum(-1, dtype=np.float32)
        least_one = xp.maximum(plays, 1.0)
        mean = xp.where(played, state.fitness, ZERO).sum(-1) / least_one
        index = mean + bonus * xp.sqrt(1.0 / least_one)
        index = xp.where(plays > 0, index, np.float32(np.inf))
        in_use = state.in_use[..., None]
        usable = xp.arange(arms) < in_use
        best = xp.argmax(xp.where(usable, index, np.float32(-np.inf)), axis=-1)
        greedy = (best[..., None] == xp.arange(arms)).astype(np.float32)
        uniform = usable.astype(np.float32) / in_use.astype(np.float32)
        mixed = epsilon * uniform + (1.0 - epsilon) * greedy
        return xp.where(state.episodes < in_use, greedy, mixed)

    def update(state: WindowState, ended: Ended) -> WindowState:
        return _remember(state, *_append(state, ended), ended)

    return Bandit(proportional(arms, window).init, probabilities, update)

"""Types that several packages share.

Axis legend, used in every annotation of the package:

    T  time (agent steps)      B  batch (environments)
    H  heads of the network    A  actions
    K  arms of a bandit        D  dimensions that bandits adapt

`*B` is a batch, or nothing: a function of one environment, for `jax.vmap`.

Environments never end: when an episode ends, the next timestep is the first of a new one. A
reward arrives with the observation that followed the action, so the last reward of an
episode arrives with the first observation of the next:

    t               0      1      2      3      4
    observation     s0     s1     s2     s0'    s1'
    is_first        1      0      0      1      0
    reward          0      r1     r2     r3     r1'     r3 belongs to the old episode
    terminated      0      0      0      1      0       a2 ended it: game over
    truncated       0      0      0      0      0       ... or it ran out of time
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

AnyArray: TypeAlias = Any
"""Arrays of NumPy or JAX, which cross between host and compiled programs."""

if TYPE_CHECKING:
    import numpy as np
    from jaxtyping import Array, Bool, Float, Num, PRNGKeyArray, UInt32

    Key: TypeAlias = PRNGKeyArray | UInt32[Array, "2"]
    Mode: TypeAlias = Bool[AnyArray, "*B"]
else:
    Key = Mode = Any  # whoever needs only NumPy need not have JAX


class Signals(NamedTuple):
    """The inputs of a controller at one step. A field that is None was not given: for
    `make_switch` it counts as 0, or is an error if the trigger reads it."""

    is_first: Bool[AnyArray, "*B"]
    reward: Float[AnyArray, "*B"] = None
    """Reward that arrived with this observation; see the top of this file."""
    discount: Float[AnyArray, "*B"] = None
    """The agent's discount on arrival: gamma, or 0 if the episode terminated."""
    value: Float[AnyArray, "*B"] = None
    """V(s_t): the maximum Q-value of the exploit mode."""
    action_mismatch: Float[AnyArray, "*B"] = None
    """How much two heads disagree about the best actions, in [0, 1]."""
    value_variance: Float[AnyArray, "*B"] = None
    """How much two heads disagree about the values."""
    novelty: Float[AnyArray, "*B"] = None
    """Intrinsic reward of this observation, for callers of `Switch`; the agent gives 0."""


class Timestep(NamedTuple):
    """Holds what one environment returns at one step."""

    observation: Num[AnyArray, "..."]
    reward: Float[AnyArray, ""]
    terminated: Bool[AnyArray, ""]
    """The previous action ended its episode: there is nothing more to earn."""
    truncated: Bool[AnyArray, ""]
    """The previous action's episode ended by a time limit."""
    is_first: Bool[AnyArray, ""]


class EnvironmentSpec(NamedTuple):
    """Holds what a network and a runtime need to know about a game."""

    name: str
    observation_shape: tuple[int, ...]
    observation_dtype: np.dtype
    num_actions: int
    maximum: float = 1.0
    """About the largest observation value; the network divides by it."""
    categories: tuple[int, ...] | None = None
    """If given, the last axis of an observation holds one category index for each of
    these counts, below that count, and the network turns them into one-hot vectors."""
    frames_per_step: int = 1
    """Frames that one agent step costs in budgets and curves."""
    max_steps: int | None = None
    """Agent steps after which an episode is truncated."""


class EpisodeSummary(NamedTuple):
    """Statistics of one finished episode."""

    finished: Bool[AnyArray, "*B"]
    """Whether an episode ended at this step; else ignore the rest."""
    episode_return: Float[AnyArray, "*B"]
    length: Num[AnyArray, "*B"]
    p_X: Float[AnyArray, "*B"]
    """Share of explore steps."""
    med_X: Float[AnyArray, "*B"]
    """Median length of its explore periods; NaN if it had none."""
    rmed_X: Float[AnyArray, "*B"]
    """The same as a share of the episode's length."""
    periods: Num[AnyArray, "*B"]
    realised_rate: Float[AnyArray, "*B"]
    """Switches to explore for each exploit step; NaN if it never exploited."""
    target_rate: Float[AnyArray, "*B"]
    """Target rate of the trigger; NaN where the variant has none."""


class Trace(NamedTuple):
    """Some steps of one environment, for plots."""

    modes: Bool[np.ndarray, "T"]
    is_first: Bool[np.ndarray, "T"]
    signal: Float[np.ndarray, "T"]
    """The trigger's signal; NaN where there was none."""
    probability: Float[np.ndarray, "T"]
    """Probability of a switch at this step; NaN where there was none."""
    reward: Float[np.ndarray, "T"]

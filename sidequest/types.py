"""Types that several packages share.

Axis legend, used in every annotation of the package:

    T  time (agent steps)      B  batch (environments)
    H  heads of the network    A  actions
    K  arms of a bandit        D  dimensions that bandits adapt

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

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Array, Bool, Float, Num, PRNGKeyArray, UInt32

Key: TypeAlias = PRNGKeyArray | UInt32[Array, "2"]

AnyArray: TypeAlias = Any
"""Arrays of NumPy or JAX, which cross between host and compiled programs."""

Mode: TypeAlias = Bool[Array, ""]
"""The mode of a step: True explores (X), False exploits (G)."""


class Signals(NamedTuple):
    """The inputs of a controller at one step of one environment; unused ones are 0."""

    is_first: Bool[AnyArray, ""]
    reward: Float[AnyArray, ""]
    """Reward that arrived with this observation; see the top of this file."""
    discount: Float[AnyArray, ""]
    """The agent's discount on arrival: gamma, or 0 if the episode terminated."""
    value: Float[AnyArray, ""]
    """V(s_t): the greatest Q-value of the exploit mode."""
    action_mismatch: Float[AnyArray, ""]
    """How much two heads disagree about the best actions, in [0, 1]."""
    value_variance: Float[AnyArray, ""]
    """How much two heads disagree about the values."""
    novelty: Float[AnyArray, ""]
    """Intrinsic reward of this observation."""


class Timestep(NamedTuple):
    """What one environment returns at one step."""

    observation: Num[AnyArray, "..."]
    reward: Float[AnyArray, ""]
    terminated: Bool[AnyArray, ""]
    """The previous action ended its episode: there is nothing more to earn."""
    truncated: Bool[AnyArray, ""]
    """The previous action's episode ended by a time limit."""
    is_first: Bool[AnyArray, ""]


class EpisodeSummary(NamedTuple):
    """Statistics of one finished episode; scalars, or [B]."""

    finished: Bool[AnyArray, "*batch"]
    """Whether an episode ended at this step; else ignore the rest."""
    episode_return: Float[AnyArray, "*batch"]
    length: Num[AnyArray, "*batch"]
    p_X: Float[AnyArray, "*batch"]
    """Share of explore steps."""
    med_X: Float[AnyArray, "*batch"]
    """Median length of its explore periods; NaN if it had none."""
    rmed_X: Float[AnyArray, "*batch"]
    """The same as a share of the episode's length."""
    periods: Num[AnyArray, "*batch"]
    realised_rate: Float[AnyArray, "*batch"]
    """Switches to explore for each exploit step; NaN if it never exploited."""
    target_rate: Float[AnyArray, "*batch"]
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

"""The right action values of the probes, worked out by hand."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from sidequest.environments.suites import PROBES, ProbeRules

_VALUES = {  # cue, step, discount -> value of each action
    "probe:constant": lambda cue, step, discount: [1.0, 1.0],
    "probe:by_observation": lambda cue, step, discount: [cue, cue],
    "probe:by_action": lambda cue, step, discount: [-1.0, 1.0],
    "probe:two_step": lambda cue, step, discount: 2 * [discount ** (1 - step)],
    "probe:time_limit": lambda cue, step, discount: 2 * [cue / (1.0 - discount)],
}


class KnownEpisode(NamedTuple):
    """One whole episode, and the right action values at each step."""

    observations: Float[np.ndarray, "T N"]
    actions: Int[np.ndarray, "T"]
    rewards: Float[np.ndarray, "T"]
    """Each arrives with the observation it led to; the first is 0."""
    q_values: Float[np.ndarray, "T A"]


def answer(name: str, discount: float) -> list[KnownEpisode]:
    """The optimal episode of each cue."""
    return [_episode(name, PROBES[name], cue, discount) for cue in (-1.0, 1.0)]


def _episode(name: str, rules: ProbeRules, cue: float, discount: float) -> KnownEpisode:
    def memory(cue, step, discount):
        last = rules.length - 1
        return [-cue, cue] if step == last else 2 * [discount ** (last - step)]

    steps = range(rules.length)
    values = _VALUES.get(name, memory)
    q_values = np.array([values(cue, t, discount) for t in steps])
    actions = q_values.argmax(axis=1)
    paid = [float(rules.reward(cue, t, actions[t])) for t in steps]
    return KnownEpisode(
        observations=np.array([rules.observe(cue, t) for t in steps], np.float32),
        actions=actions.astype(np.int32),
        rewards=np.array([0.0, *paid[:-1]], np.float32),
        q_values=q_values.astype(np.float32),
    )

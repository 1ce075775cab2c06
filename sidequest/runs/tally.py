"""What the evaluator's emulators earn, episode by episode."""

from typing import NamedTuple

import numpy as np

from sidequest.types import Timestep


class GreedyEpisode(NamedTuple):
    """What the evaluator earned."""

    episode_return: float
    length: int
    began: int
    """Blocks that were complete when its first step arrived. It is played with the
    parameters of the visit after that."""


class Tally:
    """Counts what the evaluator's emulators earn, from the first episode that it begins."""

    def __init__(self, episodes: int):
        self._returns = np.zeros(episodes)
        self._lengths = np.zeros(episodes, int)
        self._began = np.zeros(episodes, int)
        self._finished: list[GreedyEpisode] = []

    def count(self, timestep: Timestep, blocks: int) -> None:
        """The reward that comes with a first step belongs to the episode before it.

        Args:
            blocks: How many are complete.
        """
        self._returns += timestep.reward
        for i in np.flatnonzero(timestep.is_first & (self._lengths > 0)):
            self._finished.append(
                GreedyEpisode(
                    float(self._returns[i]), int(self._lengths[i]), int(self._began[i])
                )
            )
        playing = timestep.is_first | (self._lengths > 0)
        self._returns[timestep.is_first] = 0.0
        self._lengths[timestep.is_first] = 0
        self._began[timestep.is_first] = blocks
        self._lengths += playing

    def finished(self) -> list[GreedyEpisode]:
        """Those that ended since the last call."""
        finished, self._finished = self._finished, []
        return finished

"""The pace of a run: how many updates belong after which block, and when actors pull."""

from fractions import Fraction
from typing import NamedTuple, TypeVar

from jaxtyping import Array

from sidequest.config import Config
from sidequest.replay.replay import TRAINED_BLOCKS

Count = TypeVar("Count", int, Array)
"""On the host, or within a compiled program."""


class Pace(NamedTuple):
    """When updates are due: `numerator` of them in every `denominator` blocks."""

    numerator: int
    denominator: int
    warm_up: int
    """Blocks before learning starts."""
    pull_every: int
    """Blocks between two pulls of the newest parameters."""

    def due(self, block: Count) -> Count:
        """How many updates belong after this block; the ratio is exact over time."""
        return self._until(block + 1) - self._until(block)

    def _until(self, blocks: Count) -> Count:
        past_warm_up = (blocks > self.warm_up) * (blocks - self.warm_up)
        return past_warm_up * self.numerator // self.denominator


def pace_of(config: Config) -> Pace:
    """Every block brings a new sequence a stream; each is replayed `ratio` times."""
    acting, replay = config.acting, config.replay
    ratio = Fraction(replay.ratio).limit_denominator(1_000)
    updates = ratio * acting.streams / config.learning.batch_size
    return Pace(
        numerator=updates.numerator,
        denominator=updates.denominator,
        # An item is complete with the last of its blocks.
        warm_up=max(
            -(-replay.prefix // replay.block_length) + TRAINED_BLOCKS - 1,
            -(-replay.warm_up // (acting.streams * replay.block_length)),
        ),
        pull_every=max(1, acting.pull_interval // replay.block_length),
    )


def shifted(pace: Pace, blocks: int) -> Pace:
    """The pace of a run whose replay is empty after so many blocks.

    Learning waits for as many blocks as at the start of a run, and owes nothing for them:

        updates until block n  =  max(n - blocks - warm_up, 0) * numerator / denominator
    """
    return pace._replace(warm_up=blocks + pace.warm_up)

"""When learning has broken down: several updates in a row that were not finite.

The learner leaves such an update out and counts it, so that parameters stay finite; one now
and then does no harm. Several in a row mean that it will not recover by itself.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from sidequest.agent.learner import Metrics
from sidequest.runs.faults import NotFinite
from sidequest.runs.ondevice import Pace
from sidequest.runs.records import write_json
from sidequest.runs.saving import not_finite

TOLERATED = 2
"""Updates in a row that may be left out."""
REPORT = "not_finite.json"


class Streak(NamedTuple):
    """Updates that were left out, as far as the records of rounds tell."""

    skipped: int = 0
    """In all."""
    in_a_row: int = 0
    """Up to now."""
    longest: int = 0

    def after(self, metrics: Metrics, due: Sequence[int]) -> "Streak":
        """After rounds with `due` updates each; a record tells of a round's last update."""
        streak = self
        skipped, losses = np.asarray(metrics.skipped), np.asarray(metrics.loss)
        for total, loss, updates in zip(skipped, losses, due, strict=True):
            if updates and not math.isnan(total):
                streak = streak._after_round(int(total), math.isfinite(loss), updates)
        return streak

    def _after_round(self, total: int, ended_well: bool, updates: int) -> "Streak":
        new = total - self.skipped
        if new == updates:
            in_a_row = self.in_a_row + new
        else:  # of a round that went wrong in part, at least its last update is known
            in_a_row = 0 if ended_well or not new else 1
        return Streak(total, in_a_row, max(self.longest, in_a_row))

    @property
    def is_breakdown(self) -> bool:
        return self.longest > TOLERATED


def updates_due(pace: Pace, block: int) -> int:
    """Like `Pace.due`, without asking the device."""

    def until(blocks: int) -> int:
        return max(blocks - pace.warm_up, 0) * pace.numerator // pace.denominator

    return until(block + 1) - until(block)


def report_breakdown(
    folder: Path, frames: int, streak: Streak, metrics: Metrics, state: Any
) -> NotFinite:
    """Writes down what can be said, and returns the fault to raise.

    Args:
        metrics: Of the newest rounds.
        state: Whatever may hold the cause: parameters, return scales, replay.
    """
    bad = not_finite(state)
    newest = jax.tree.map(lambda column: np.asarray(column)[-1], metrics)
    report = {
        "frames": frames,
        "skipped": streak._asdict(),
        "newest_update": newest._asdict(),
        "not_finite": bad,
    }
    write_json(folder / REPORT, report)
    where = f"; not finite: {', '.join(bad)}" if bad else ""
    return NotFinite(
        f"{folder} stopped at {frames:,} frames: {streak.longest} updates in a row were "
        f"not finite{where}. {REPORT} there says more; the last checkpoint is untouched. "
        f"A smaller learning.learning_rate may help, or a look at the game's rewards"
    )

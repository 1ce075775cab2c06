"""When learning has broken down: several updates in a row that were not finite.

The learner leaves such an update out and counts it, so that parameters stay finite; one now
and then does no harm. Several in a row mean that it will not recover by itself. A learner
that is not finite for all that is never saved.
"""

from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from sidequest.agent.learner import Metrics
from sidequest.errors import Diverged
from sidequest.records import write_json

TOLERATED = 2
"""Updates in a row that may be left out."""
REPORT, CULPRITS = "not_finite.json", "not_finite.npz"
MOST_ROWS, MOST_BYTES = 64, 10_000_000
"""Of each array that is written down."""


class Skips(NamedTuple):
    """Updates that were left out, as the newest record of an update tells.

    The learner counts them one by one, so that none hides inside a round of several.
    """

    total: int = 0
    most_in_a_row: int = 0

    def after(self, metrics: Metrics) -> "Skips":
        """After rounds, of which those without an update tell nothing."""
        columns = np.stack([metrics.skipped, metrics.skipped_in_a_row])
        told = columns[:, ~np.isnan(columns[0])]
        return Skips(*map(int, told[:, -1])) if told.size else self

    @property
    def is_breakdown(self) -> bool:
        return self.most_in_a_row > TOLERATED


def report_breakdown(
    folder: Path, frames: int, skips: Skips, metrics: Metrics, state: Any
) -> Diverged:
    """Writes down what can be said, and returns the fault to raise.

    Args:
        metrics: Of the newest rounds.
        state: Whatever may hold the cause, on the host: parameters, scales, replay.
    """
    bad = not_finite(state)
    newest = jax.tree.map(lambda column: np.asarray(column)[-1], metrics)
    report = {
        "frames": frames,
        "skipped": skips._asdict(),
        "newest_update": newest._asdict(),
        "not_finite": bad,
    }
    write_json(folder / REPORT, report)
    np.savez_compressed(folder / CULPRITS, allow_pickle=False, **culprits(state, bad))
    where = f"; not finite: {', '.join(bad)}" if bad else ""
    return Diverged(
        f"{folder} stopped at {frames:,} frames: {skips.most_in_a_row} updates in a row "
        f"were not finite{where}. {REPORT} and {CULPRITS} there say more; the last "
        f"checkpoint is untouched. A smaller learning.learning_rate may help, or a look at "
        f"the game's rewards"
    )


def culprits(state: Any, bad: dict[str, int]) -> dict[str, np.ndarray]:
    """The arrays that are not finite, each with the numbers of the rows that are shown.

    A row is an entry of the first axis: of what replay holds, a block. Only rows that hold
    such numbers are shown, and no more than the limits above allow.
    """
    shown = {}
    for where, leaf in jax.tree_util.tree_leaves_with_path(state):
        path = jax.tree_util.keystr(where)
        if path in bad:
            rows = np.atleast_1d(np.asarray(leaf, np.float32))
            guilty = ~np.isfinite(rows.reshape(len(rows), -1)).all(axis=1)
            fitting = max(1, min(MOST_ROWS, MOST_BYTES // rows[0].nbytes))
            numbers = np.flatnonzero(guilty)[:fitting]
            shown |= {path: rows[numbers], f"{path}/rows": numbers}
    return shown


def refuse_not_finite(folder: Path, learner) -> None:
    """A learner that is not finite is of no use to anybody: it is never saved."""
    bad = not_finite(learner)
    if bad:
        raise Diverged(
            f"{folder} stopped: {', '.join(bad)} are not finite. The last checkpoint is "
            f"untouched; a smaller learning.learning_rate may help"
        )


def not_finite(tree) -> dict[str, int]:
    """Paths of the arrays with numbers that are not finite, and how many there are."""
    found = {}
    for where, leaf in jax.tree_util.tree_leaves_with_path(tree):
        if jnp.issubdtype(leaf.dtype, np.floating):
            count = int(np.size(leaf) - np.isfinite(np.asarray(leaf, np.float32)).sum())
            if count:
                found[jax.tree_util.keystr(where)] = count
    return found

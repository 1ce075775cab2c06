"""How many updates are due after a block, by hand and over a long time."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sidequest.config import PAPER, SMALL, change
from sidequest.runs.build import Pace, make_pace
from tests.runs.tiny import TINY


@pytest.mark.parametrize(
    ("streams", "ratio", "batch"),
    [(16, 2.0, 16), (120, 1.0, 64), (7, 1.0, 32), (3, 0.1, 64), (5, 1 / 3, 8), (1, 8.0, 1)],
)
def test_the_replay_ratio_is_exact(streams, ratio, batch):
    config = change(
        TINY,
        **{
            "acting.environments": streams,
            "replay.ratio": ratio,
            "learning.batch_size": batch,
            "replay.warm_up": 30 * streams,
        },
    )
    pace = make_pace(config)
    assert pace.warm_up == 4  # 30 steps of 8
    due = np.asarray(jax.vmap(pace.due)(jnp.arange(40_000)))
    assert not due[:4].any()
    total = np.cumsum(due)[4:]
    blocks = np.arange(1, len(total) + 1)
    # Sequences replayed for each new one, never ahead and never behind by an update.
    wanted = blocks * ratio * streams / batch
    assert (total <= wanted + 1e-3 * blocks).all() and (total > wanted - 1 - 0.01).all()
    assert due.max() - due[4:].min() <= 1
    assert int(pace.numerator) / pace.denominator == pytest.approx(ratio * streams / batch)


def test_pace_by_hand():
    # 1 * 120 / 64 = 15 / 8;  200,000 / 4,800 = 41.7;  400 / 40
    assert make_pace(PAPER) == Pace(15, 8, 42, 10)
    # 4 * 16 / 16;  5,000 / 320 = 15.6;  20 / 20
    assert make_pace(SMALL) == Pace(4, 1, 16, 1)
    # However early learning may start, an item needs its blocks: two, and the prefix's.
    for prefix, blocks in [(0, 2), (1, 3), (8, 3), (9, 4), (33, 7)]:
        pace = make_pace(change(TINY, **{"replay.prefix": prefix, "replay.ratio": 2.0}))
        due = [int(pace.due(jnp.int32(block))) for block in range(blocks)]
        assert due == [0] * (blocks - 1) + [1]


def test_the_host_counts_as_the_device_does():
    pace = make_pace(TINY)._replace(numerator=3, denominator=7, warm_up=4)
    for block in range(30):
        assert pace.due(block) == int(pace.due(jnp.int32(block)))


def test_the_pace_is_shifted_by_the_blocks_before():
    pace = make_pace(TINY)._replace(numerator=3, denominator=2, warm_up=4)
    due = [pace.after_empty_replay(10).due(block) for block in range(24)]
    assert sum(due[:14]) == 0
    assert due[14:] == [pace.due(block) for block in range(4, 14)]
    assert max(due) == 2

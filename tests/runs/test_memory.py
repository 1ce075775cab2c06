"""What replay gets of a device, with devices that are made up."""

import jax
import numpy as np
import pytest

from sidequest.config import PAPER, change
from sidequest.environments.base import EnvironmentSpec
from sidequest.errors import ConfigError
from sidequest.runs import memory
from sidequest.runs.assembly import assemble
from sidequest.runs.memory import WITHOUT_LIMIT, replay_memory, reserve, room_of, tiled
from sidequest.switching.variants import parse

ATARI = EnvironmentSpec("made up", (210, 160, 3), np.dtype(np.uint8), 18, maximum=255.0)
PLAIN, NOVEL = parse("XU-step-level-0.01"), parse("XI-intra(10,informed,p*,X)")
FRAME, POINTERS = 210 * 160 * 3, 600 * 2  # bytes
GB = 10**9


class Device:
    def __init__(self, **stats):
        self.stats = stats

    def memory_stats(self):
        return self.stats


@pytest.fixture
def device(monkeypatch):
    device = Device()
    monkeypatch.setattr(memory.jax, "local_devices", lambda: [device])
    return device


def ours(variant=PLAIN, asked=None, config=PAPER) -> int:
    return replay_memory(config, ATARI, [variant], asked)


def test_the_reserve_by_hand():
    parts = assemble(PAPER, ATARI, [PLAIN], tiled(60 * GB))
    # 4 blocks of 120 x 40 frames, 18 batches of 64 x 100.
    assert reserve(parts) == (4 * 120 * 40 + 18 * 64 * 100) * FRAME == 13_547_520_000


def test_replay_gets_what_the_device_has_left(device):
    device.stats = {"bytes_limit": 112 * GB, "bytes_in_use": 2 * GB}
    left = ours()
    # Learner and the rest of replay take some, and no more than a few.
    assert 95 * GB < left < 112 * GB - 2 * GB - 13_547_520_000
    device.stats["bytes_in_use"] += GB
    assert ours() == left - GB
    device.stats["bytes_limit"] += 3 * GB
    assert ours() == left + 2 * GB
    # XI has one more head and the networks of novelty.
    assert left + GB < ours(NOVEL) < left + 2 * GB
    # Runs of both kinds share a number, which must do for each.
    assert replay_memory(PAPER, ATARI, [PLAIN, NOVEL], None) == ours(NOVEL)


def test_the_rest_of_the_agent_is_counted(device):
    device.stats = {"bytes_limit": 112 * GB}
    parts = assemble(PAPER, ATARI, [PLAIN], tiled(60 * GB))
    learner = jax.eval_shape(parts.learner.init, jax.random.key(0))
    learner = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(learner))
    observations = 833 * 120 * 40  # 833 whole blocks
    # Beside its frame a step has three numbers and three flags. A block has two vectors of
    # 512 numbers and a priority for each stream; and, for tiles, where they start.
    beside = observations * 15 + 833 * 120 * (2 * 512 * 4 + 4 + 4) + 833 * 4
    left = 112 * GB - 13_547_520_000 - 3 * learner - beside
    assert ours() == pytest.approx(left, abs=100)


def test_more_than_the_capacity_can_use_is_not_taken(device):
    device.stats = {"bytes_limit": 10**12}
    small = change(PAPER, **{"replay.capacity": 48_000})
    most = 48_000 * (FRAME + POINTERS)
    assert ours(config=small) == ours(asked=10**11, config=small) == most


def test_what_is_asked_for_is_given(device):
    device.stats = {"bytes_limit": 112 * GB}
    assert ours(asked=40 * GB) == 40 * GB


def test_a_device_that_does_not_say_what_it_has(device):
    small = change(PAPER, **{"replay.capacity": 200_000})
    assert ours(config=small) == WITHOUT_LIMIT


def test_too_little_is_refused_with_what_to_do(device):
    device.stats = {"bytes_limit": 15 * GB}
    with pytest.raises(ConfigError, match=r"replay has .* GB.*learning\.batch_size"):
        ours()
    with pytest.raises(ConfigError, match=r"replay has 1 GB.*--replay-memory"):
        ours(asked=GB)
    # What memory cannot mend is told as it is.
    with pytest.raises(ConfigError, match="^capacity 100 is less than the 14400 obs"):
        ours(config=change(PAPER, **{"replay.capacity": 100}))


@pytest.mark.parametrize(
    "given, least, few, many",
    [
        # Pointers take 3,998,400 x 1,200 bytes. A block of 4,800 raw frames has 483.84 MB
        # of tiles; at 12 kB an observation 52.3 MB, at 7 kB 28.1 MB.
        (24 * GB, 39 * 4_800, 367 * 4_800, 683 * 4_800),
        (68 * GB, 130 * 4_800, 3_998_400, 3_998_400),
    ],
)
def test_how_many_observations_that_is(given, least, few, many):
    room = room_of(assemble(PAPER, ATARI, [PLAIN], tiled(given)), given)
    assert room.capacity == 3_998_400
    assert (room.least, *room.about) == (least, few, many)


def test_what_the_run_says_at_its_start():
    def said(given: int) -> str:
        return str(room_of(assemble(PAPER, ATARI, [PLAIN], tiled(given)), given))

    assert said(24 * GB) == (
        "replay may take 24.0 GB: at least 187,200 observations, and about 1,761,600 to "
        "3,278,400 at the measured 7.1 to 12 kB each"
    )
    assert "and about 3,998,400 (all of its capacity) at the" in said(68 * GB)

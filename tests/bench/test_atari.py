"""The benchmark on real emulators runs to its end and has the names that it promises."""

import pytest

from sidequest.bench.atari import measure
from sidequest.config import SMALL_FRAMES, change

CONFIG = change(
    SMALL_FRAMES,
    **{"replay.block_length": 10, "replay.prefix": 4, "replay.capacity": 4_000},
)


@pytest.mark.slow
def test_figures_by_name():
    said: list[str] = []
    figures = measure(
        "ms_pacman",
        streams=8,
        seconds=0.05,
        memory=100_000_000,
        config=CONFIG,
        variants=False,
        say=said.append,
    )
    rates = "emulators_alone acting replay learning".split()
    times = "update_ms add_ms sample_ms".split()
    memory = "observations_held bytes_per_observation".split()
    assert all(figures[name] > 0 for name in rates + times + memory)
    assert figures["observations_held"] <= CONFIG.replay.capacity
    share = figures["learning"] / figures["emulators_alone"]
    assert figures["learning_of_emulators_alone"] == pytest.approx(share)
    assert "variants" not in figures
    assert said[0] == "building 8 emulators" and len(said) == 6

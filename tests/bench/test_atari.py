"""The benchmark on real emulators runs to its end and has the names that it promises."""

import pytest

from sidequest.bench.atari import EPSILON_GREEDY, INFORMED, compare_variants, measure
from sidequest.cli.bench import print_figures
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
        emulators=8,
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


def test_variants_are_compared_by_their_means():
    rates = [(EPSILON_GREEDY, 90.0), (INFORMED, 97.0), (INFORMED, 99.0)]
    compared = compare_variants([*rates, (EPSILON_GREEDY, 110.0)])
    assert compared[EPSILON_GREEDY]["of_epsilon_greedy"] == 1
    assert compared[INFORMED] == {
        "learning": 98.0,
        "learning_each": [97.0, 99.0],
        "of_epsilon_greedy": pytest.approx(0.98),
    }


def test_figures_are_read_at_a_glance(capsys):
    rates = {"alone": 85_712.72, "each": [84_830.97, 0.5]}
    print_figures({**rates, "streams": 1536, "variants": {"XU": {"share": 0.98141}}})
    lines = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        ["alone", "85,713"],
        ["each", "84,831, 0.5"],
        ["streams", "1536"],
        ["variants"],
        ["XU"],
        ["share", "0.9814"],
    ]

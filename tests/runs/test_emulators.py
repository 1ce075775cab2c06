"""How emulators are grouped, and what is told while they are built."""

import pytest

from sidequest.errors import ConfigError
from sidequest.runs import emulators
from sidequest.runs.emulators import BuildCounter, choose_groups


@pytest.mark.parametrize(
    "streams, groups",
    [
        # Too few for large groups: four, or what divides them.
        *((120, 4), (8, 4), (64, 4), (256, 4), (300, 4), (380, 4)),
        *((6, 3), (9, 3), (15, 3), (30, 3), (10, 5), (14, 7), (270, 3), (291, 3)),
        # Enough: as many groups as have 96 or more.
        *((384, 4), (480, 5), (512, 4), (576, 6), (600, 6), (672, 7), (700, 7)),
        *((768, 8), (1_000, 10), (1_024, 8), (4_096, 8), (485, 5)),
        *((960, 10), (1_152, 12), (1_536, 12), (3_072, 12)),
    ],
)
def test_the_choice_of_groups(streams, groups):
    assert choose_groups(streams) == groups
    assert streams % groups == 0


@pytest.mark.parametrize("streams", [0, 1, 2, 13, 17, 169])
def test_streams_that_make_no_groups_of_one_size(streams):
    with pytest.raises(ConfigError, match=f"acting.streams is {streams}; .* 3 to 12"):
        choose_groups(streams)


class Counted(list):
    def say(self, text): ...

    def count(self, text, done, of):
        self.append((text, done, of))

    def show(self, progress): ...


class Clock:
    now = 100.0

    def perf_counter(self):
        return self.now


def test_construction_is_told_group_by_group(monkeypatch):
    clock, told = Clock(), Counted()
    monkeypatch.setattr(emulators, "time", clock)
    site = BuildCounter(told, 64)

    def build(groups, streams, progress):
        progress(0, groups * streams)
        for group in range(groups):
            clock.now += 0.2 * streams
            progress((group + 1) * streams, groups * streams)

    build(2, 30, site.part())
    build(1, 4, site.part())
    assert told == [
        ("built 0 of 64 emulators", 0, 64),
        ("built 30 of 64 emulators, 7 s left", 30, 64),
        ("built 60 of 64 emulators, 1 s left", 60, 64),
        ("built 64 of 64 emulators in 13 s", 64, 64),
    ]


@pytest.mark.parametrize(
    "cores, groups, threads", [(16, 8, 8), (16, 12, 6), (2, 4, 2), (1, 3, 2)]
)
def test_four_threads_a_core(monkeypatch, cores, groups, threads):
    monkeypatch.setattr(emulators, "available_cores", lambda: cores)
    assert emulators.choose_threads(groups) == threads

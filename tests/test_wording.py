"""Numbers and nouns in texts, worked by hand."""

import math

import numpy as np
import pytest

from sidequest.wording import duration, plural, rounded, short


@pytest.mark.parametrize(
    "number, text",
    [
        *((0.0, "0"), (0.0123456, "0.01235"), (-12.344, "-12.34"), (1234.4, "1234")),
        *((9_999.4, "9999"), (9_999.6, "10,000"), (-12_345.6, "-12,346")),
    ],
)
def test_rounded_numbers_have_no_exponent_because_they_are_large(number, text):
    assert rounded(number) == text


@pytest.mark.parametrize(
    "seconds, text",
    [
        *((0, "0 s"), (59.4, "59 s"), (75, "1 min 15 s"), (3_600, "1 h 0 min")),
        *((90_000, "1 d 1 h"), (31_536_000 * 2, "2 y 0 d"), (math.nan, "?"), (60, "1 min")),
    ],
)
def test_durations(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    "number, text",
    [
        *((999, "999"), (999.6, "1k"), (12_345, "12.3k"), (999_499, "999k")),
        *((999_500, "1M"), (999_999, "1M"), (1_500_000, "1.5M"), (999_999_999, "1B")),
    ],
)
def test_short_numbers(number, text):
    assert short(number) == text


def test_plurals():
    assert [plural(count, "run") for count in (0, 1, 2, 1_000)] == [
        *("0 runs", "1 run", "2 runs", "1,000 runs")
    ]
    medians = np.array([1, 20.5, 1_000]), np.array([1, 2])
    assert [plural(median, "step") for row in medians for median in row] == [
        *("1 step", "20.5 steps", "1,000 steps", "1 step", "2 steps")
    ]

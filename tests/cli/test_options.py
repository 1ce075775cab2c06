"""How numbers and settings are read."""

import pytest

from sidequest.cli.options import read_config, read_count, read_size
from sidequest.config import flatten
from sidequest.errors import InvalidRequest

TYPED = [
    ("learning.normalise_inputs=true", True),
    ("learning.normalise_inputs=False", False),
    ("learning.normalise_inputs=no", False),
    ("learning.watkins=none", None),
    ("learning.watkins=yes", True),
    ("replay.ratio=2", 2.0),
    ("network.channels=(8, 8, 16, 16)", (8, 8, 16, 16)),
    ("network.channels=[8, 8, 16, 16]", (8, 8, 16, 16)),
    ("network.dtype=bfloat16", "bfloat16"),
]


@pytest.mark.parametrize("typed, value", TYPED)
def test_values_by_the_type_of_their_setting(typed, value):
    read = flatten(read_config("paper", (typed,)))[typed.partition("=")[0]]
    assert read == value and type(read) is type(value)


@pytest.mark.parametrize(
    "typed, said",
    [
        ("learning.normalise_inputs=1", "is 1; it is true or false"),
        ("learning.n_step=true", "is True; it is a whole number below 2"),
        ("replay.ratio=no", "is False; it is a finite number"),
        ("replay.ratio=many", "is 'many'; it is a finite number"),
        ("replay.ratio=1" + 400 * "0", "is '10+; it is a finite number"),
        ("environment.sticky_actions=1" + 400 * "0", "0; it is a finite number, or none"),
        ("switching.window=all", r"'all'; it is a whole number below 2\^31, or none"),
        ("switching.rate_arms=0.1", "is 0.1; it is numbers in brackets"),
        ("network.channels=(8", r"is '\(8'; it is whole numbers in brackets"),
    ],
)
def test_words_for_other_types_are_refused(typed, said):
    with pytest.raises(InvalidRequest, match=said):
        read_config("paper", (typed,))


def test_counts_and_sizes():
    assert [read_count(text, "n") for text in ("200000", "2e5", "200k", "0.2M")] == [
        200_000
    ] * 4
    assert read_size("40GB", "n") == read_size("40 gb", "n") == 40 * 10**9
    for text in ("", "many", "-3"):
        with pytest.raises(InvalidRequest):
            read_count(text, "n")

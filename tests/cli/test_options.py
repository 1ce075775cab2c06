"""How numbers and settings are read, and how progress is shown."""

import io

import pytest

from sidequest.cli import options
from sidequest.cli.options import Meter, read_config, read_count, read_size
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
    ("network.dtype=bfloat16", "bfloat16"),
]


@pytest.mark.parametrize("typed, value", TYPED)
def test_values_by_the_type_of_their_setting(typed, value):
    read = flatten(read_config("paper", (typed,)))[typed.partition("=")[0]]
    assert read == value and type(read) is type(value)


@pytest.mark.parametrize(
    "typed", ["learning.normalise_inputs=1", "learning.n_step=true", "replay.ratio=no"]
)
def test_words_for_other_types_are_refused(typed):
    with pytest.raises(InvalidRequest, match=r"expected (bool|int|float) such as"):
        read_config("paper", (typed,))


def test_counts_and_sizes():
    assert [read_count(text, "n") for text in ("200000", "2e5", "200k", "0.2M")] == [
        200_000
    ] * 4
    assert read_size("40GB", "n") == read_size("40 gb", "n") == 40 * 10**9
    for text in ("", "many", "-3"):
        with pytest.raises(InvalidRequest):
            read_count(text, "n")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_log_gets_a_line_now_and_then(monkeypatch):
    clock, log = [0.0], io.StringIO()
    monkeypatch.setattr(options.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr("sys.stderr", log)
    meter = Meter()
    for second in range(25):
        clock[0] = float(second)
        meter(f"{second} done")
    meter.clear()
    assert log.getvalue() == "10 done\n20 done\n"


def test_a_terminal_gets_a_line_that_goes_away(monkeypatch):
    clock, terminal = [0.0], Terminal()
    monkeypatch.setattr(options.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr("sys.stderr", terminal)
    meter = Meter()
    meter("too early")
    clock[0] = 1.0
    meter("half")
    meter.clear()
    meter.clear()
    assert terminal.getvalue() == "\r\x1b[Khalf\r\x1b[K"

"""`sidequest evaluate` in words, and how it tells of progress."""

import io

from sidequest.cli import progress
from sidequest.cli.evaluate import describe
from sidequest.cli.progress import Meter

SCORES = {
    "variant": "XU-step-level-0.01",
    "game": "pong",
    "seed": 4,
    "episodes": 3,
    "mean": 14.6,
    "median": 15.0,
    "min": 12.0,
    "max": 16.8,
    "length": 1234.5,
    "human_normalised": 1.0,
}


def test_scores_in_words():
    assert describe(SCORES).splitlines() == [
        "XU-step-level-0.01 on pong, seed 4",
        "return  14.6 (mean of 3 greedy episodes)",
        "        12 to 16.8, median 15",
        "length  1234 (mean)",
        "human   100.0% (0% is a random policy, 100% a human)",
    ]
    assert "human" not in describe({**SCORES, "human_normalised": None})


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_log_gets_a_line_now_and_then(monkeypatch):
    clock, log = [0.0], io.StringIO()
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr("sys.stderr", log)
    meter = Meter()
    for second in range(25):
        clock[0] = float(second)
        meter(f"{second} done")
    meter.clear()
    assert log.getvalue() == "10 done\n20 done\n"


def test_a_terminal_gets_a_line_that_goes_away(monkeypatch):
    clock, terminal = [0.0], Terminal()
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr("sys.stderr", terminal)
    meter = Meter()
    meter("too early")
    clock[0] = 1.0
    meter("half")
    meter.clear()
    meter.clear()
    assert terminal.getvalue() == "\r\x1b[Khalf\r\x1b[K"

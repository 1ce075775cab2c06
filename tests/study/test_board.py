"""What people see while a study runs."""

import math

import pytest

from sidequest.runs.spec import Progress
from sidequest.study import board as boards
from sidequest.study.board import Account, Lines, Screen, Voice, duration
from tests.study.fakes import group


def progress(frames, total=1_000):
    return Progress(frames, total, 100.0, 5, [1.0], [2.0], [0.1])


class Clock:
    now = 100.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(boards, "time", clock)
    return clock


def test_the_account_by_hand(clock):
    account = Account(runs=6, finished=1, frames=6_000, finished_frames=1_000)
    two, three = group(2), group(3)
    assert math.isnan(account.seconds_left)
    account.show(two, progress(500))  # resumed: these 500 took no time today
    account.show(three, progress(0))
    assert account.done == 1_000 + 2 * 500
    clock.now += 10
    account.show(two, progress(700))
    account.show(three, progress(200))
    assert account.done == 1_000 + 2 * 700 + 3 * 200 == 3_000
    # 2 x 200 and 3 x 200 frames in 10 s, and 3,000 to go.
    assert account.seconds_left == pytest.approx(30)
    assert str(account) == " 50% of 6k frames, 1 of 6 runs done, about 30 s left"
    account.end(two, "done")
    account.end(three, "failed")
    assert account.finished == 3 and account.done == 3_000


def test_progress_never_passes_the_whole(clock):
    account = Account(2, 0, 2_000, 0)
    account.show(group(2), progress(1_200))  # the last chunk is longer than need be
    assert account.done == 2_000


def test_lines_say_everything_that_matters(capsys, clock):
    board = Lines(Account(2, 0, 2_000, 0))
    two = group(2)
    voice = Voice(board, two)
    with board:
        board.note("example: a study")
        board.begin(two)
        voice.say("compiling …")
        voice.show(progress(100))
        voice.show(progress(200))  # too soon for another line
        board.end(two, "failed", "ValueError: no")
    said = capsys.readouterr()
    assert not said.out
    assert said.err.splitlines() == [
        "example: a study",
        "== probe:constant, extrinsic: 2 runs",
        "   compiling …",
        " 10% of 2k frames, 0 of 2 runs done | probe:constant 100 frames  100/s  "
        "5 updates  return 1  greedy 2  p_X 0.1",
        "probe:constant, extrinsic: 2 runs: failed: ValueError: no",
    ]


def test_the_screen_takes_the_same(capsys):
    board = Screen(Account(2, 0, 2_000, 0))
    two = group(2)
    with board:
        board.note("a [name] that is no markup")
        board.begin(two)
        board.say(two, "compiling …")
        board.show(two, progress(1_000))
        board.end(two, "done", "")
    said = capsys.readouterr()
    assert not said.out
    assert "a [name] that is no markup" in said.err
    assert "100%" in said.err and "2 of 2 runs done" in said.err


@pytest.mark.parametrize(
    "seconds, text",
    [
        *((0, "0 s"), (59.4, "59 s"), (75, "1 min 15 s"), (3_600, "1 h 0 min")),
        *((90_000, "1 d 1 h"), (31_536_000 * 2, "2 y 0 d"), (math.nan, "?"), (60, "1 min")),
    ],
)
def test_durations(seconds, text):
    assert duration(seconds) == text

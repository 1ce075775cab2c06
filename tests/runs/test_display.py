"""What people see while runs go: golden texts of made-up progress."""

import io
import math
import re
import threading

import pytest
from rich.console import Console

from sidequest.runs import display
from sidequest.runs.display import Log, Panel, draw, figure, numbers
from sidequest.runs.spec import Display, Favourite, Progress

START = Progress(1_280, 2_000_000_000, 512.0, 0, [math.nan], [math.nan], [math.nan])
ONE = Progress(
    frames=860_000_000,
    total=2_000_000_000,
    rate=52_134.0,
    updates=402_187,
    returns=[2310.4],
    evaluations=[2980.0],
    p_X=[0.2134],
    mean_rate=50_290.0,
    update_rate=25.43,
    replay_fill=0.612,
    human=[0.6829],
    realised=[0.01312],
    target=[0.0125],
    favourites=[Favourite("exploit", 0.01, 0.618), Favourite("explore", 10, 0.41)],
    seconds_left=22_327.0,
)
MANY = ONE._replace(
    returns=[0.125, 0.5, math.nan],
    evaluations=[1.0, 2.0, 1.5],
    p_X=[0.1, 0.1, 0.1],
    human=[],
    realised=[math.nan] * 3,
    target=[math.nan] * 3,
    favourites=[],
)


def console(width=80) -> Console:
    return Console(file=io.StringIO(), width=width, color_system=None, legacy_windows=False)


def drawn(progress, width=80) -> list[str]:
    paper = console(width)
    paper.print(draw(progress))
    return [line.rstrip() for line in paper.file.getvalue().splitlines()]  # type: ignore


def test_the_panel_of_one_run():
    # 43% of 20 cells are 8 and a half.
    assert drawn(ONE) == [
        "━━━━━━━━╸             43%  860M of 2B frames, 6 h 12 min left",
        "speed    52.1k frames/s, mean 50.3k, 25.4 updates/s",
        "learned  402k updates, replay 61% full",
        "returns  training 2,310, greedy 2,980, human-normalised 68.3%",
        "explore  p_X 0.213, switching rate 0.0131 for a target of 0.0125",
        "bandits  exploit 0.01 at 62%, explore 10 at 41%",
    ]


def test_the_panel_of_many_runs_gives_ranges():
    assert drawn(MANY) == [
        "━━━━━━━━╸             43%  3 runs, 860M of 2B frames each, 6 h 12 min left",
        "speed    52.1k frames/s, mean 50.3k, 25.4 updates/s",
        "learned  402k updates, replay 61% full",
        "returns  training 0.125…0.5, greedy 1…2",
        "explore  p_X 0.1",
    ]


def test_what_is_not_known_is_left_out():
    assert drawn(START) == [
        "                       0%  1.28k of 2B frames",
        "speed    512 frames/s",
        "learned  0 updates",
    ]


def test_a_narrow_terminal_cuts_lines_and_adds_none():
    assert len(drawn(ONE, width=40)) == 6
    assert all(len(line) <= 40 for line in drawn(ONE, width=40))


def test_the_numbers_in_one_line():
    assert numbers(ONE) == (
        "860M frames  52.1k/s (mean 50.3k)  402k updates (25.4/s)  replay 61%  "
        "return 2,310  greedy 2,980 (human-normalised 68.3%)  p_X 0.213  "
        "rate 0.0131 for 0.0125  exploit 0.01: 62%  explore 10: 41%"
    )
    assert numbers(START) == "1.28k frames  512/s  0 updates"


def test_modes_are_told_by_their_letters():
    start = [Favourite("start", 1.0, 0.75)]
    assert numbers(ONE._replace(favourites=start)).endswith("  start X: 75%")


class Clock:
    now = 100.0

    def monotonic(self):
        return self.now


def test_the_log(capsys, monkeypatch):
    clock = Clock()
    monkeypatch.setattr(display, "time", clock)
    with Log() as log:
        log.count("built 0 of 8 emulators", 0, 8)
        log.count("built 4 of 8 emulators, 1 s left", 4, 8)
        log.say("begins")
        log.show(START)
        log.show(ONE)  # too soon
        clock.now += 10
        log.show(MANY)
        log.show(START._replace(frames=START.total, seconds_left=0.0))  # always told
    said = capsys.readouterr()
    assert not said.out
    assert said.err.splitlines() == [
        "built 4 of 8 emulators, 1 s left",
        "begins",
        "  0%  1.28k frames  512/s  0 updates",
        " 43%  860M frames  52.1k/s (mean 50.3k)  402k updates (25.4/s)  replay 61%  "
        "return 0.125…0.5  greedy 1…2  p_X 0.1  6 h 12 min left",
        "100%  2B frames  512/s  0 updates",
    ]


def test_the_panel_on_a_terminal():
    paper = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None)
    with Panel(paper) as panel:
        panel.say("a [name] that is no markup")
        panel.count("built 4 of 8 emulators, 1 s left", 4, 8)
        panel._live.refresh()
        panel.count("built 8 of 8 emulators in 2 s", 8, 8)
        panel._live.refresh()
        panel.show(START)
        panel._live.refresh()
        panel.show(ONE)
    shown = paper.file.getvalue()  # type: ignore
    assert "a [name] that is no markup" in shown
    assert "━━━━━━━━━━" in shown and "built 4 of 8 emulators, 1 s left" in shown
    assert shown.count("built 8 of 8 emulators in 2 s\n") == 1
    assert "1.28k of 2B frames" in shown
    # What was there last stays.
    assert shown.endswith("bandits  exploit 0.01 at 62%, explore 10 at 41%\n\x1b[?25h")


def seen(written: str) -> list[str]:
    """The lines of a terminal after this was written to it: text, line ends, cursor up,
    erase line."""
    lines, row = [""], 0
    for part in re.findall(r"\x1b\[[?\d]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", written):
        if part == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif part.endswith("A") and part.startswith("\x1b"):
            row -= int(part[2:-1])
        elif part == "\x1b[2K":
            lines[row] = ""
        elif part[0] not in "\x1b\r":
            lines[row] += part
    return [line.rstrip() for line in lines if line.strip()]


def test_what_a_thread_says_stays_above_the_panel():
    paper = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None)
    with Panel(paper) as panel:
        panel.show(ONE)
        panel._live.refresh()
        thread = threading.Thread(target=panel.say, args=("SIGINT: saving",))
        thread.start()
        thread.join()
        panel.show(MANY)
        panel._live.refresh()
    shown = seen(paper.file.getvalue())  # type: ignore
    assert shown == ["SIGINT: saving", *drawn(MANY)]


def test_both_are_displays():
    assert isinstance(Log(), Display) and isinstance(Panel(console()), Display)


@pytest.mark.parametrize(
    "number, text",
    [
        *((0.0, "0"), (0.01234, "0.0123"), (-12.345, "-12.3"), (999.4, "999")),
        *((999.6, "1,000"), (1234.5, "1,234"), (-23456.0, "-23,456"), (1e6, "1,000,000")),
    ],
)
def test_figures(number, text):
    assert figure(number) == text

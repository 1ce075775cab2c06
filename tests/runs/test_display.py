"""What people see while runs train: golden texts of made-up progress, and its numbers."""

import io
import math
import re
import threading

import numpy as np
import pytest
from rich.console import Console

from sidequest.runs import display
from sidequest.runs.display import (
    Log,
    Panel,
    Progress,
    ProgressMeter,
    StudyDisplay,
    duration,
)

NAN = math.nan

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
    arms=[("exploit", 0.01, 0.618), ("explore", 10, 0.41)],
    seconds_left=22_327.0,
)
MANY = ONE._replace(
    returns=[0.125, 0.5, math.nan],
    evaluations=[1.0, 2.0, 1.5],
    p_X=[0.1, 0.1, 0.1],
    human=[],
    realised=[math.nan] * 3,
    target=[math.nan] * 3,
    arms=[],
)


def terminal(width=80) -> Console:
    return Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)


def drawn(progress, width=80) -> list[str]:
    paper = Console(file=io.StringIO(), width=width, color_system=None)
    panel = Panel(paper)
    panel.show(progress)
    paper.print(panel.draw())
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


def numbers(progress) -> str:
    """The line of a log, between how far the run is and the time left."""
    lines, log = [], Log()
    log.say = lines.append
    log.show(progress._replace(seconds_left=NAN))
    return lines[0][6:]


def test_the_numbers_in_one_line():
    assert numbers(ONE) == (
        "860M frames  52.1k frames/s, mean 50.3k, 25.4 updates/s  402k updates, "
        "replay 61% full  training 2,310, greedy 2,980, human-normalised 68.3%  "
        "p_X 0.213, switching rate 0.0131 for a target of 0.0125  "
        "exploit 0.01 at 62%, explore 10 at 41%"
    )
    assert numbers(START) == "1.28k frames  512 frames/s  0 updates"


def test_modes_are_shown_by_their_letters():
    start = [("start", 1.0, 0.75)]
    assert numbers(ONE._replace(arms=start)).endswith("  start X at 75%")


@pytest.mark.parametrize(
    "number, text",
    [
        *((0.0, "0"), (0.01234, "0.0123"), (-12.345, "-12.3"), (999.4, "999")),
        *((999.6, "1,000"), (1234.5, "1,234"), (-23456.0, "-23,456"), (1e6, "1,000,000")),
    ],
)
def test_figures(number, text):
    assert numbers(START._replace(returns=[number])).endswith(f"  training {text}")


@pytest.mark.parametrize(
    "seconds, text",
    [
        *((0, "0 s"), (59.4, "59 s"), (75, "1 min 15 s"), (3_600, "1 h 0 min")),
        *((90_000, "1 d 1 h"), (31_536_000 * 2, "2 y 0 d"), (math.nan, "?"), (60, "1 min")),
    ],
)
def test_durations(seconds, text):
    assert duration(seconds) == text


class Clock:
    now = 100.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(display, "time", clock)
    return clock


def test_the_log(capsys, clock):
    with Log() as log:
        log.count("built 0 of 8 emulators", 0, 8)
        log.count("built 4 of 8 emulators, 1 s left", 4, 8)
        log.say("begins")
        log.show(START)
        log.show(ONE)  # too soon
        clock.now += 10
        log.show(MANY)
        log.show(START._replace(frames=START.total, seconds_left=0.0))  # always shown
    said = capsys.readouterr()
    assert not said.out
    assert said.err.splitlines() == [
        "built 4 of 8 emulators, 1 s left",
        "begins",
        "  0%  1.28k frames  512 frames/s  0 updates",
        " 43%  860M frames  52.1k frames/s, mean 50.3k, 25.4 updates/s  402k updates, "
        "replay 61% full  training 0.125…0.5, greedy 1…2  p_X 0.1  6 h 12 min left",
        "100%  2B frames  512 frames/s  0 updates",
    ]


def test_the_panel_on_a_terminal():
    paper = terminal()
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
    paper = terminal()
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


class Closed(io.StringIO):
    def write(self, text):
        raise BrokenPipeError


def test_training_continues_when_nobody_reads(monkeypatch):
    monkeypatch.setattr("sys.stderr", Closed())
    Log().say("nobody is there")


def progress(frames, total=1_000):
    return Progress(frames, total, 100.0, 5, [1.0], [2.0], [0.1])


def test_the_time_that_a_study_takes_by_hand(clock):
    study = StudyDisplay(Log(), 6, 1, 6_000, 1_000)
    two, three = (study.begin("", "", runs, 1_000 * runs) for runs in (2, 3))
    assert str(study) == " 17% of 6k frames, 1 of 6 runs done"
    two.show(progress(500))  # resumed: these 500 took no time today
    three.show(progress(0))
    assert str(study) == " 33% of 6k frames, 1 of 6 runs done"
    clock.now += 10
    two.show(progress(700))
    three.show(progress(200))
    # 2 x 200 and 3 x 200 frames in 10 s, and 3,000 to go.
    assert str(study) == " 50% of 6k frames, 1 of 6 runs done, about 30 s left"
    two.show(progress(1_200))  # the last chunk is longer than need be
    two.end("done")
    three.end("failed", "no")
    assert str(study).startswith(" 50% of 6k frames, 3 of 6 runs done")


def test_the_log_of_a_study(capsys, clock):
    with StudyDisplay(Log(), 2, 0, 2_000, 0) as study:
        study.say("example: a study")
        two = study.begin("probe:constant: 2 runs", "probe:constant", 2, 2_000)
        two.say("compiling …")
        two.show(progress(100))
        two.show(progress(200))  # too soon for another line
        two.end("failed", "ValueError: no")
    said = capsys.readouterr()
    assert not said.out
    assert said.err.splitlines() == [
        "example: a study",
        "== probe:constant: 2 runs",
        "   compiling …",
        " 10% of 2k frames, 0 of 2 runs done | probe:constant: 100 frames  100 frames/s  "
        "5 updates  training 1, greedy 2  p_X 0.1",
        "probe:constant: 2 runs: failed: ValueError: no",
        "  0% of 2k frames, 0 of 2 runs done, about 0 s left",
    ]


def test_the_panel_of_a_study():
    paper = terminal()
    panel = Panel(paper)
    with StudyDisplay(panel, 3, 0, 3_000, 0) as study:
        two, one = (study.begin("", name, 2, 2_000) for name in ("game-a", "game-b"))
        two.show(progress(1_000))
        two.end("done")
        one.say("a [name] that is no markup")
    assert seen(paper.file.getvalue()) == [  # type: ignore
        ": done",
        "━━━━━━━━━━━━━         67% of 3k frames, 2 of 3 runs done",
        "                     game-b: a [name] that is no markup",
    ]


def episodes(returns, p_X=NAN, realised=NAN, target=NAN):
    rates = {"realised_rate": realised, "target_rate": target}
    return [{"return": value, "p_X": p_X, **rates} for value in returns]


def update(meter, rows, frames=0, new_frames=100, seconds=1.0, updates=0):
    counts = dict(frames=frames, new_frames=new_frames, seconds=seconds, updates=updates)
    return meter.update(rows, **counts, replay_fill=0.5)


def test_the_first_chunk_counts_only_while_it_is_alone():
    meter = ProgressMeter("frostbite", 1, 1_000)
    first = update(meter, [{}], 100, seconds=50.0, updates=5)  # it compiled
    assert first.rate == 2.0
    assert all(map(math.isnan, (first.mean_rate, first.update_rate, first.seconds_left)))
    second = update(meter, [{}], 200, seconds=0.5, updates=9)
    assert (second.rate, second.mean_rate, second.update_rate) == (200.0, 200.0, 8.0)
    assert second.seconds_left == pytest.approx(800 / 200)
    assert update(meter, [{}], 1_100).seconds_left == 0  # whole chunks are played


def test_the_rates_fade_and_the_mean_does_not():
    meter = ProgressMeter("frostbite", 1, 1_000)
    update(meter, [{}], new_frames=0)
    update(meter, [{}], new_frames=100, updates=10)
    shown = update(meter, [{}], new_frames=400, updates=10, seconds=2.0)
    kept = math.exp(-2.0 / 2.0)
    assert shown.mean_rate == pytest.approx(500 / 3)
    assert shown.rate == pytest.approx((100 * kept + 400) / (kept + 2))
    assert shown.update_rate == pytest.approx(10 * kept / (kept + 2))
    assert shown.mean_rate < 1_000 / shown.seconds_left < shown.rate


def test_means_are_of_the_newest_episodes():
    meter = ProgressMeter("frostbite", 1, 1_000)
    assert math.isnan(update(meter, [{}]).returns[0])
    rows = [
        *episodes([1], 0.1, realised=0.01, target=0.02),
        *episodes([2], 0.2, target=0.5),  # never exploited: it is not compared
        *episodes([6], 0.3, realised=0.03, target=0.04),
    ]
    shown = update(meter, [{"episodes": rows}])
    means = *shown.returns, *shown.p_X, *shown.realised, *shown.target
    assert means == pytest.approx((3.0, 0.2, 0.02, 0.03))
    shown = update(meter, [{"episodes": episodes([1e9] * 7 + [5] * 100)}])
    assert shown.returns == [5.0]
    assert update(meter, [{"episodes": []}]).returns == [5.0]


def test_the_likeliest_arm_of_each_bandit():
    arms = {"explore": {1: 1 / 3, 10: 1 / 3}, "exploit": {0.1: 0.1, 0.01: 0.6, 1e-3: 0.3}}
    rows = [
        {"bandit": name, "arm": arm, "probability": np.float32(probability)}
        for name, probabilities in arms.items()
        for arm, probability in probabilities.items()
    ]
    meter = ProgressMeter("frostbite", 1, 1_000)
    assert update(meter, [{"bandits": rows}]).arms == [
        ("explore", 1.0, pytest.approx(1 / 3)),
        ("exploit", 0.01, pytest.approx(0.6)),
    ]


def test_greedy_returns_are_compared_with_a_human():
    meter = ProgressMeter("frostbite", 1, 1_000)
    assert math.isnan(update(meter, [{}]).human[0])
    played = {"evaluations": [{"return": 4000.0}, {"return": 4669.4}]}
    shown = update(meter, [played])
    assert shown.evaluations == [pytest.approx(4334.7)]  # a human's score
    assert shown.human == [pytest.approx(1.0)]
    assert update(meter, [{}]).evaluations == shown.evaluations


def test_runs_side_by_side_are_added_up():
    meter = ProgressMeter("minatar:breakout", 4, 1_000)
    rows = [{"episodes": episodes([run]), "evaluations": []} for run in range(4)]
    update(meter, rows, 100, seconds=2.0, updates=10)
    shown = update(meter, rows, 200, seconds=2.0, updates=20)
    assert shown.returns == [0.0, 1.0, 2.0, 3.0]
    assert (shown.rate, shown.update_rate) == pytest.approx((200.0, 20.0))
    assert shown.seconds_left == pytest.approx(800 / 50)
    assert not shown.human and not shown.arms

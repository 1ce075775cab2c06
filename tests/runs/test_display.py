"""What people see while runs train: golden texts of made-up progress, and its numbers."""

import io
import math
import re
import threading

import pytest
from rich.console import Console

from sidequest.runs import display
from sidequest.runs.display import (
    Log,
    Panel,
    Progress,
    ProgressMeter,
    RunProgress,
    StudyDisplay,
)

NAN = math.nan
HEADINGS = "variant                             seed frames  return  greedy    p_X    rate"


def run(variant="XU-step-level-0.01", seed=0, frames=860_000_000, *numbers: float):
    return RunProgress(variant, seed, frames, *(numbers or [NAN] * 4))


START = Progress([run(frames=1_280)], 1_280, 2_000_000_000, 512.0)
ONE = Progress(
    runs=[
        run("XU-intra(10,informed,p*,X)", 0, 860_000_000, 2310.4, 2980.0, 0.2134, 0.0131)
    ],
    frames=860_000_000,
    total=2_000_000_000,
    frame_rate=52_134.0,
    update_rate=25.43,
    replay_fill=0.612,
)
MANY = ONE._replace(
    frame_rate=4 * 52_134.0,
    runs=[
        run("XI-intra(10,informed:mismatch,p*,X)", 0, 860_000_000, 0.125, 1.0, 0.1, 0.011),
        run("XU-step-level-0.01", 11, 860_000_000, 0.5, 2.0, 0.1, NAN),
        run("XU-step-level-0.01", 3, 860_000_000, NAN, 1.0, 0.1, NAN),
        run("XU-step-level-0.01", 4),
    ],
    replay_fill=1.0,
)


def terminal(width=80) -> Console:
    return Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)


def test_runs_may_begin_while_the_table_is_drawn():
    """Another thread draws it."""
    log = Log()
    log.show(ONE)
    being_read = iter(log.rows)
    log.show(MANY)
    assert len(list(being_read)) == 1 and len(log.rows) == 5


def drawn(progress, width=80, runs=1) -> list[str]:
    paper = Console(file=io.StringIO(), width=width, color_system=None)
    panel = Panel(paper, runs)
    panel.show(progress)
    paper.print(panel.draw())
    return [line.rstrip() for line in paper.file.getvalue().splitlines()]  # type: ignore


def test_the_panel_of_one_run():
    # 43% of 20 cells are 8 and a half.
    assert drawn(ONE) == [
        "━━━━━━━━╸             43%  52.1k frames/s, 25.4 updates/s, 6 h 4 min left",
        HEADINGS,
        "XU-intra(10,informed,p*,X)             0   860M   2,310   2,980  0.213  0.0131",
    ]


def test_the_panel_of_many_runs_has_a_row_for_each_and_the_best_first():
    assert drawn(MANY) == [
        "━━━━━━━━╸             43%  209k frames/s, 25.4 updates/s, 6 h 4 min left",
        HEADINGS,
        "XU-step-level-0.01                    11   860M     0.5       2    0.1",
        "XI-intra(10,informed:mismatch,p*,X)    0   860M   0.125       1    0.1   0.011",
        "XU-step-level-0.01                     3   860M               1    0.1",
        "XU-step-level-0.01                     4   860M",
    ]


def test_rows_of_runs_that_trained_before_stay():
    panel = Panel(terminal(), runs=3)
    panel.show(START._replace(frames=START.total))
    second = START._replace(runs=[run(seed=1)], frames=10**9, update_rate=1.0)
    panel.show(second)
    assert [row.seed for row in panel.ranked()] == [0, 1]
    # A billion frames of this one, and two of the third, at 512 a second.
    assert panel._time_left(second) == ", 67 d 19 h left"
    assert panel._time_left(second._replace(update_rate=NAN)) == ""


def test_what_is_not_known_is_left_out():
    assert drawn(START) == [
        "                       0%  512 frames/s",
        HEADINGS,
        "XU-step-level-0.01                     0  1.28k",
    ]


def test_a_narrow_terminal_cuts_lines_and_adds_none():
    assert len(drawn(MANY, width=40)) == 6
    assert all(len(line) <= 40 for line in drawn(MANY, width=40))


def test_no_colours_if_the_user_wants_none(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    paper = Console(file=io.StringIO(), width=80, force_terminal=True)
    panel = Panel(paper)
    panel.show(MANY)
    paper.print(panel.draw())
    styles = re.findall(r"\x1b\[([\d;]+)m", paper.file.getvalue())  # type: ignore
    assert set(styles) <= {"0", "1"}  # none, and bold


def numbers(progress) -> str:
    """The line of a log, behind how far the run is."""
    lines, log = [], Log()
    log.say = lines.append
    log.show(progress)
    return lines[0][6:]


def test_the_numbers_in_one_line():
    assert numbers(ONE) == (
        "860M frames  52.1k frames/s, 25.4 updates/s, replay 61% full  "
        "return 2,310, greedy 2,980, p_X 0.213, rate 0.0131, 6 h 4 min left"
    )
    assert numbers(START) == "1.28k frames  512 frames/s"


@pytest.mark.parametrize(
    "number, text",
    [
        *((0.0, "0"), (0.01234, "0.0123"), (-12.345, "-12.3"), (999.4, "999")),
        *((999.6, "1,000"), (1234.5, "1,234"), (-23456.0, "-23,456"), (1e6, "1,000,000")),
    ],
)
def test_figures(number, text):
    progress = START._replace(runs=[run("x", 0, 1, number, NAN, NAN, NAN)])
    assert numbers(progress).endswith(f"  return {text}")


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
        log.count("built 5 of 8 emulators, 1 s left", 5, 8)  # too soon
        log.count("built 8 of 8 emulators in 2 s", 8, 8)
        log.say("begins")
        clock.now += 10
        log.show(START)
        log.show(ONE)  # too soon
        clock.now += 10
        log.show(MANY)
        log.show(START._replace(frames=START.total))  # always shown
    said = capsys.readouterr()
    assert not said.out
    assert said.err.splitlines() == [
        "built 4 of 8 emulators, 1 s left",
        "built 8 of 8 emulators in 2 s",
        "begins",
        "  0%  1.28k frames  512 frames/s",
        " 43%  860M frames  209k frames/s, 25.4 updates/s  return 0.125…0.5, greedy 1…2, "
        "p_X 0.1, rate 0.011, 6 h 4 min left",
        "100%  2B frames  512 frames/s",
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
    assert "512 frames/s" in shown and "2,980  0.213  0.0131" in shown
    # It goes away at the end: the command prints the table.
    assert seen(shown) == ["a [name] that is no markup", "built 8 of 8 emulators in 2 s"]


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
        panel.show(MANY)
        panel._live.refresh()
        thread = threading.Thread(target=panel.say, args=("SIGINT: saving",))
        thread.start()
        thread.join()
        panel.show(MANY)
        panel._live.refresh()
        shown = seen(paper.file.getvalue())  # type: ignore
    assert shown == ["SIGINT: saving", *drawn(MANY)]


class Broken(io.StringIO):
    def __init__(self, error):
        super().__init__()
        self.error = error

    def write(self, text):
        raise self.error


@pytest.mark.parametrize("error", [BrokenPipeError(), OSError(28, "No space left")])
def test_training_continues_when_nobody_reads(error, monkeypatch):
    monkeypatch.setattr("sys.stderr", Broken(error))
    Log().say("nobody is there")


def test_training_continues_when_the_terminal_is_gone():
    paper = terminal()
    with Panel(paper) as panel:
        paper.file = Broken(OSError(5, "Input/output error"))
        panel.say("nobody is there")
        panel.count("built", 8, 8)


def progress(frames, *seeds, total=1_000):
    runs = [run("x", seed, frames, 1.0, 2.0, 0.1, NAN) for seed in seeds or (0,)]
    return Progress(runs, frames, total, 100.0)


def test_the_time_that_a_study_takes_by_hand(clock):
    study = StudyDisplay(Log(), 6, 1, 6_000, 1_000)
    two, three = (study.begin("", "", runs, 1_000 * runs) for runs in (2, 3))
    assert str(study) == " 17% of 6k frames, 1 of 6 runs done"
    two.show(progress(500, 0, 1))  # resumed: these 500 took no time today
    three.show(progress(0, 2, 3, 4))
    assert str(study) == " 33% of 6k frames, 1 of 6 runs done"
    clock.now += 10
    two.show(progress(700, 0, 1))
    three.show(progress(200, 2, 3, 4))
    # 2 x 200 and 3 x 200 frames in 10 s, and 3,000 to go.
    assert str(study) == " 50% of 6k frames, 1 of 6 runs done, about 30 s left"
    two.show(progress(1_200, 0, 1))  # the last chunk is longer than need be
    two.end("done")
    three.end("failed", "no")
    assert str(study).startswith(" 50% of 6k frames, 3 of 6 runs done")


def test_runs_of_a_group_that_are_not_equally_far(clock):
    study = StudyDisplay(Log(), 4, 0, 4_000, 0)
    group = study.begin("", "", 4, 4_000)
    clock.now += 10
    group.show(progress(900, 0, 1, 2))
    clock.now += 10
    group.show(progress(1_000, 0, 1, 2))  # now the fourth begins
    group.show(progress(100, 3))
    clock.now += 10
    group.show(progress(200, 3))
    assert group.done == 3_200 and group.new == 400
    # 400 frames in 30 s, and 800 to go.
    assert str(study) == " 80% of 4k frames, 0 of 4 runs done, about 1 min left"


def test_the_log_of_a_study(capsys, clock):
    study = StudyDisplay(Log(), 2, 0, 2_000, 0)
    study.say("example: a study")
    two = study.begin("probe:constant: 2 runs", "probe:constant", 2, 2_000)
    two.say("compiling …")
    two.show(progress(100, 0, 1))
    two.show(progress(200, 0, 1))  # too soon for another line
    two.end("failed", "ValueError: no")
    said = capsys.readouterr()
    assert not said.out
    assert said.err.splitlines() == [
        "example: a study",
        "== probe:constant: 2 runs",
        "   compiling …",
        " 10% of 2k frames, 0 of 2 runs done | probe:constant: 100 frames  100 frames/s  "
        "return 1, greedy 2, p_X 0.1",
        "probe:constant: 2 runs: failed: ValueError: no",
        "  0% of 2k frames, 0 of 2 runs done, about 0 s left",
    ]
    again = study.begin("again", "probe:constant", 2, 2_000)
    again.show(progress(1_000, 0, 1))
    again.end("done")
    assert str(study) == "100% of 2k frames, 2 of 2 runs done"


def test_the_panel_of_a_study():
    paper = terminal()
    with Panel(paper) as panel:
        study = StudyDisplay(panel, 3, 0, 3_000, 0)
        two, one = (study.begin("", name, 2, 2_000) for name in ("game-a", "game-b"))
        two.show(progress(1_000))
        two.end("done")
        one.say("a [name] that is no markup")
        panel._live.refresh()
        assert seen(paper.file.getvalue()) == [  # type: ignore
            ": done",
            "━━━━━━━━━━━━━         67% of 3k frames, 2 of 3 runs done",
            "                     game-b: a [name] that is no markup",
        ]


def episodes(returns, p_X=NAN, realised=NAN, length=10):
    row = {"p_X": p_X, "realised_rate": realised, "length": length}
    return [{"return": value, **row} for value in returns]


def update(meter, rows, frames=0, new_frames=100, seconds=1.0, updates=0):
    counts = dict(frames=frames, new_frames=new_frames, seconds=seconds, updates=updates)
    return meter.update(rows, **counts, replay_fill=0.5)


def meter_of(runs=1):
    return ProgressMeter([("XU-step-level-0.01", seed) for seed in range(runs)], 1_000)


def test_the_first_chunk_counts_only_while_it_is_alone():
    meter = meter_of()
    first = update(meter, [{}], 100, seconds=50.0, updates=5)  # it compiled
    assert first.frame_rate == 2.0
    assert math.isnan(first.update_rate)
    second = update(meter, [{}], 200, seconds=0.5, updates=9)
    assert (second.frame_rate, second.update_rate) == (200.0, 8.0)


def test_rates_forget():
    meter = meter_of()
    update(meter, [{}], new_frames=0)
    update(meter, [{}], new_frames=100, updates=10)
    shown = update(meter, [{}], new_frames=400, updates=10, seconds=2.0)
    kept = math.exp(-2.0 / 30.0)
    assert shown.frame_rate == pytest.approx((100 * kept + 400) / (kept + 2))
    assert shown.update_rate == pytest.approx(10 * kept / (kept + 2))


def test_means_are_of_the_newest_episodes():
    meter = meter_of()
    assert math.isnan(update(meter, [{}]).runs[0].episode_return)
    rows = [
        *episodes([1], 0.1, realised=1 / 90, length=100),
        *episodes([2], 0.2),  # never exploited: it has no rate
        *episodes([6], 0.3, realised=2 / 210, length=300),
    ]
    (shown,) = update(meter, [{"episodes": rows}]).runs
    means = (shown.episode_return, shown.p_X, shown.rate)
    assert means == pytest.approx((3.0, 0.2, 3 / 300))  # 3 switches, 300 exploit steps
    rounded = episodes([1], p_X=1.0, realised=1.0, length=2**25)  # one step exploited
    assert math.isnan(update(meter_of(), [{"episodes": rounded}]).runs[0].rate)
    (shown,) = update(meter, [{"episodes": episodes([1e9] * 7 + [5] * 100)}]).runs
    assert shown.episode_return == 5.0
    assert update(meter, [{"episodes": []}]).runs[0].episode_return == 5.0


def test_the_newest_evaluation_stays():
    meter = meter_of()
    played = {"evaluations": [{"return": 4000.0}, {"return": 4669.4}]}
    assert update(meter, [played]).runs[0].greedy_return == pytest.approx(4334.7)
    assert update(meter, [{}]).runs[0].greedy_return == pytest.approx(4334.7)


def test_runs_side_by_side_are_added_up():
    meter = meter_of(4)
    rows = [{"episodes": episodes([run]), "evaluations": []} for run in range(4)]
    update(meter, rows, 100, seconds=2.0, updates=10)
    shown = update(meter, rows, 200, seconds=2.0, updates=20)
    assert [(run.seed, run.episode_return) for run in shown.runs] == [
        *((0, 0.0), (1, 1.0), (2, 2.0), (3, 3.0))
    ]
    assert (shown.frame_rate, shown.update_rate) == pytest.approx((200.0, 20.0))


def test_long_names_of_variants_are_not_cut():
    log = Log()
    names = [f"XI-intra(10,informed:variance,0.0001,{start})" for start in "GX"]
    log.show(ONE._replace(runs=[run(name, 0, 100, 1.0, 1.0, 0.1, 0.1) for name in names]))
    headings, *lines = log.table()
    assert {line.split()[0] for line in lines} == {*names}
    assert {len(line) for line in lines} == {len(headings)}

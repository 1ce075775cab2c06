"""What rules of claims look at, on tables small enough to work out by hand."""

import pytest

from sidequest.figures.claims.cells import final_score, judged_cells
from sidequest.figures.claims.measures import (
    early_and_late,
    exploit_periods,
    preferred_steps,
    shifted,
    switches,
    unevenness,
)
from sidequest.figures.reading import read_records
from sidequest.records import Recorder
from tests.figures.fakes import Fake, make_records

START_G = "XU-intra(=,blind,n*,G)"
INFORMED = "XU-intra(10,informed,0.01,G)"
LONG = {10: 0.05, 100: 0.05, 1_000: 0.2, 10_000: 0.7}


def test_measures_by_hand(tmp_path):
    fake = Fake(START_G, modes="GGXGGXGGGGXX", arms=LONG, settings={"x": 1})
    (cell,) = judged_cells(make_records(tmp_path, fake).runs, "episodes")
    run = cell.runs[1]
    assert final_score(run) == 2.0
    assert exploit_periods(run) == [2, 4] * 10
    assert unevenness(run) == pytest.approx(1 / 3)
    assert preferred_steps(run) == pytest.approx(0.05 * 1 + 0.05 * 2 + 0.2 * 3 + 0.7 * 4)
    assert shifted(run) == pytest.approx(0.45)
    assert cell.label == START_G, "a setting that all runs share is not part of a name"


def test_scores_and_statistics_are_of_the_same_tenth(tmp_path):
    """Training has come to 1,000 frames; evaluation episodes end where they end."""
    run = {"variant": INFORMED, "game": "a", "seed": 0, "frames": 2_000}
    recorder = Recorder(tmp_path / "run", run)
    returns = {100: [9], 200: [9], 300: [9], 901: [2, None], 920: [3, 4], 950: [7]}
    for frames, episodes in returns.items():
        rows = [{"frames": frames, "return": one, "length": 1} for one in episodes]
        recorder.write("evaluations", rows)
    episodes = {90: 0.5, 100: 0.3, 101: 1.0, 900: 1.0, 910: 0.2, 1_000: 0.1}
    recorder.write("episodes", [{"frames": f, "p_X": p} for f, p in episodes.items()])
    recorder.close()
    (run,) = read_records(tmp_path).runs
    assert (run.frames_done, run.finished) == (1_000, False)
    assert final_score(run) == (2 + 3 + 4 + 7) / 4
    assert early_and_late(run, "p_X") == pytest.approx((0.4, 0.15))


def test_switches_are_counted_over_the_second_half(tmp_path):
    fake = Fake(INFORMED, scores=(1.0,), p=(0.2, 0.2), ratio=1.5)
    (run,) = make_records(tmp_path, fake).runs
    # 10 episodes of 10,000 steps, 8,000 of them exploit, at 0.01
    made, asked = switches([run])[0.01]
    assert (made, asked) == pytest.approx((1_200, 800))

"""Rows from what iterations record, by hand."""

import json
import math

import numpy as np

from sidequest.agent.learner import Metrics
from sidequest.records import TABLES
from sidequest.runs import tables
from sidequest.runs.state import IterationRecord
from sidequest.runs.tables import RunLog
from sidequest.switching.variants import ArmSets, parse
from sidequest.types import EpisodeSummary

ARMS = ArmSets((1, 10), (10, 100), (0.1, 0.01, 0.001))
NAN = float("nan")


def metrics(losses, **fields):
    start = {name: np.asarray(losses, np.float32) for name in Metrics._fields}
    for name in ("td_error", "scale", "value"):
        start[name] = np.stack([start[name], 10 * start[name]], axis=1)
    return Metrics(**(start | fields))


def record(iterations, length, environments, **fields):
    """A record of iterations [iterations, L, B] with zeros in it, and no update."""
    shape = (iterations, length, environments)
    zeros = np.zeros(shape, np.float32)
    start = dict(
        summaries=EpisodeSummary(zeros.astype(bool), *[zeros] * 8),
        choices=np.zeros((*shape, 3), int),
        metrics=metrics([NAN] * iterations),
        probabilities=np.zeros((iterations, 3, 3)),
        **dict.fromkeys(("modes", "signals", "rewards", "is_first"), zeros[..., 0]),
    )
    return IterationRecord(**(start | fields))


def log(variant="XU-intra(*,informed,p*,X)", frames_per_step=1, trace_interval=0) -> RunLog:
    return RunLog(
        *(parse(variant), ARMS, ("extrinsic", "short")),
        frames_per_step=frames_per_step,
        trace_interval=trace_interval,
    )


def test_an_episode_is_a_row_with_the_frames_at_its_end():
    # Two iterations of 3 steps and 2 environments; episodes end at (0, 2, 1) and (1, 1, 0).
    finished = np.zeros((2, 3, 2), bool)
    finished[0, 2, 1] = finished[1, 1, 0] = True
    number = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    summaries = EpisodeSummary(finished, *(number + 100 * i for i in range(1, 9)))
    choices = np.zeros((2, 3, 2, 3), int)
    choices[0, 2, 1] = [0, 2, 1]
    played = record(2, 3, 2, summaries=summaries, choices=choices)
    rows = log(frames_per_step=2 * 4).rows(played, 1_000, 0)["episodes"]
    # Step 2 of both environments: 4 frames each, two steps gone by; then 4 steps gone by.
    assert [row["frames"] for row in rows] == [1_016, 1_032]
    assert [row["stream"] for row in rows] == [1, 0]
    assert list(rows[0].values()) == [
        *(1_016, 1, 105.0, 205.0, 305.0, 405.0, 505.0, 605.0, 705.0, 805.0),
        *(10, 0.001),
    ]
    assert list(rows[0]) == [
        *("frames", "stream", "return", "length", "p_X", "med_X", "rmed_X", "periods"),
        *("realised_rate", "target_rate", "arm_explore", "arm_exploit"),
    ]


def test_a_variant_without_bandits_has_no_arms():
    summaries = EpisodeSummary(np.ones((1, 1, 1), bool), *[np.zeros((1, 1, 1))] * 8)
    played = record(1, 1, 1, summaries=summaries)
    rows = log("XU-step-level-0.1").rows(played, 0, 0)
    (row,) = rows["episodes"]
    assert not rows["bandits"]
    assert not [name for name in row if name.startswith("arm")]


def test_iterations_without_an_update_do_not_count():
    learned = metrics([NAN, 2.0, NAN, 4.0], skipped=np.array([NAN, 5.0, NAN, 7.0]))
    (row,) = log().rows(record(4, 1, 1, metrics=learned), 76, 9)["learning"]
    assert (row["frames"], row["updates"], row["loss"], row["priority"]) == (80, 9, 3, 3)
    assert (row["td_error_extrinsic"], row["td_error_short"]) == (3.0, 30.0)
    assert (row["scale_short"], row["value_extrinsic"]) == (30.0, 3.0)
    assert row["skipped"] == 7.0  # a count so far, not a mean


def test_a_chunk_without_an_update_has_no_row():
    assert not log().rows(record(2, 1, 1), 0, 0)["learning"]


def test_bandits_have_a_row_an_arm():
    probabilities = np.array([[[1, 0, 0], [0.5, 0.3, 0.2], [0.6, 0.4, 0]]])
    played = record(1, 1, 1, probabilities=probabilities)
    assert log().rows(played, 49, 0)["bandits"] == [
        dict(frames=50, bandit="explore", arm=1, probability=0.6),
        dict(frames=50, bandit="explore", arm=10, probability=0.4),
        dict(frames=50, bandit="exploit", arm=0.1, probability=0.5),
        dict(frames=50, bandit="exploit", arm=0.01, probability=0.3),
        dict(frames=50, bandit="exploit", arm=0.001, probability=0.2),
    ]


def stretch(text, rewards, signal=0.5):
    """A record of one environment: `|` before a step starts an episode."""
    modes, first = [], []
    for letter in text:
        if letter == "|":
            first.append(len(modes))
        else:
            modes.append(letter == "X")
    starts = np.isin(np.arange(len(modes)), first)
    signals = np.where(modes, NAN, signal)
    columns = dict(modes=modes, signals=signals, rewards=rewards, is_first=starts)
    columns = {name: np.array([column]) for name, column in columns.items()}
    return record(1, len(modes), 1, **columns)


def test_a_trace_is_a_whole_episode_with_the_reward_of_each_action():
    own = log(frames_per_step=4)
    # The reward 9 arrives with the first step of the second episode, but was earned by
    # the last action of the first one.
    rows = own.rows(stretch("|GXX|GG", [0, 1, 2, 9, 3]), 100, 0)["traces"]
    assert len(rows) == 1
    row = rows[0]
    assert (row["frames"], row["length"], row["modes"]) == (112, 3, "GXX")
    assert row["reward"] == [1.0, 2.0, 9.0]
    assert row["signal"][0] == 0.5 and all(map(math.isnan, row["signal"][1:]))
    # The second episode continues in the next chunk.
    rows = own.rows(stretch("XG|XG|G", [4, 5, 6, 7, 8]), 120, 0)["traces"]
    assert [row["modes"] for row in rows] == ["GGXG", "XG"]
    assert rows[0]["reward"] == [3.0, 4.0, 5.0, 6.0]
    assert rows[1]["reward"] == [7.0, 8.0]
    assert [row["frames"] for row in rows] == [128, 136]


def test_traces_are_spread_over_the_run():
    played = stretch("|GX" * 20, list(range(40)))
    rows = log(trace_interval=10).rows(played, 0, 0)["traces"]
    assert [row["frames"] for row in rows] == [2, 12, 22, 32]
    assert all(row["modes"] == "GX" for row in rows)


def test_an_episode_that_hardly_ends_is_no_trace(monkeypatch):
    monkeypatch.setattr(tables, "_LONGEST_TRACE", 4)
    own = log()
    rows = own.rows(stretch("|GXG|GXGX|GXGXGX", [*range(13)]), 0, 0)["traces"]
    assert [row["modes"] for row in rows] == ["GXG"]
    assert len(own.traces.snapshot()["modes"]) == 4
    rows = own.rows(stretch("G|XX", [0, 1, 2]), 13, 0)["traces"]
    assert rows == []


def test_a_chunk_has_the_frames_at_its_end():
    # Two iterations of 2 steps and 2 environments, after 100 frames; an episode ends at
    # (1, 1, 0).
    finished = np.zeros((2, 2, 2), bool)
    finished[1, 1, 0] = True
    numbers = np.zeros((2, 2, 2), np.float32)
    is_first = np.array([[True, False], [False, True]])
    probabilities = np.full((2, 3, 3), 0.2)
    probabilities[-1] = 0.3
    chunk = record(
        *(2, 2, 2),
        summaries=EpisodeSummary(finished, *[numbers] * 8),
        metrics=metrics([NAN, 4.0]),
        probabilities=probabilities,
        is_first=is_first,
    )
    greedy = [(64, 2.5, 7), (132, -1.0, 3)]
    own = log("XU-intra(2,informed,p*,X)", frames_per_step=2 * 4)
    rows = own.rows(chunk, 100, 6, greedy)
    assert tuple(rows) == TABLES
    # 4 steps of 2 environments, 4 frames each; episodes and traces end one step earlier.
    assert [row["frames"] for row in (*rows["episodes"], *rows["traces"])] == [124, 124]
    assert rows["evaluations"] == [
        {"frames": 132, "begun": 64, "return": 2.5, "length": 7},
        {"frames": 132, "begun": 132, "return": -1.0, "length": 3},
    ]
    (learned,) = rows["learning"]
    assert (learned["frames"], learned["updates"], learned["loss"]) == (132, 6, 4.0)
    arms = [(row["frames"], row["probability"]) for row in rows["bandits"]]
    assert arms == [(132, 0.3)] * 3


def test_an_open_trace_is_saved_and_restored():
    saved, resumed, dropped = log(), log(), log()
    saved.rows(stretch("|GX|GX", [0, 1, 2, 3]), 0, 0)
    state = json.loads(json.dumps(saved.traces.snapshot()))
    rest = stretch("G|X", [4, 5])
    for one in (resumed, dropped):
        one.traces.restore(state)
    dropped.traces.drop_open_episode()
    expected = saved.rows(rest, 4, 0)["traces"]
    np.testing.assert_equal(resumed.rows(rest, 4, 0)["traces"], expected)
    assert [row["modes"] for row in expected] == ["GXG"]
    later = 9
    assert [row["modes"] for row in dropped.rows(rest, later, 0)["traces"]] == ["G"]

"""`Switch`: the whole machine, for agents of any kind."""

import copy
import pickle

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sidequest
from sidequest import Switch, VariantError, step_arguments
from sidequest.switching import bandits
from sidequest.switching.periods import periods
from sidequest.switching.switch import UNIFORMS, make_switch
from sidequest.switching.triggers import Signal
from sidequest.types import Signals
from tests.switching.play import CONTROLLER, draw_trace, make_arm, make_signals

INFORMED = "XU-intra(10,informed,0.1,G)"


def random_rows(steps: int, streams: int, seed: int = 0) -> list[dict]:
    """Arguments of `Switch.step` for a few steps of random experience."""
    rng = np.random.default_rng(seed)
    rows = []
    for t in range(steps):
        rows.append(
            {
                "reward": rng.normal(size=streams).astype(np.float32),
                "discount": np.float32(0.9),
                "value": rng.normal(size=streams).astype(np.float32),
                "is_first": (rng.random(streams) < 0.05) | (t == 0),
                "action_mismatch": rng.random(streams).astype(np.float32),
                "value_variance": rng.random(streams).astype(np.float32),
            }
        )
    return rows


def run(switch: Switch, rows: list[dict]) -> np.ndarray:
    return np.array([switch.step(**row) for row in rows])


def single(variant: str, is_first, **arguments) -> str:
    """The trace of one stream that gets nothing but episode starts."""
    switch = Switch(variant, **arguments)
    modes = [switch.step(is_first=first, value=0.0)[0] for first in is_first]
    return draw_trace(modes, is_first)


# What it is: modes for each stream, step by step.


def test_modes_of_several_streams():
    switch = Switch("XU-intra(1,blind,2,G)", streams=2)
    first = [[1, 1], [0, 0], [0, 1], [0, 0], [0, 0]]
    modes = np.array([switch.step(is_first=row) for row in first])
    assert modes.dtype == bool and modes.shape == (5, 2)
    assert draw_trace(modes[:, 0], [1, 0, 0, 0, 0]) == "GGXGG"
    assert draw_trace(modes[:, 1], [1, 0, 1, 0, 0]) == "GG|GGX"


def test_a_stream_begins_an_episode_whether_told_or_not():
    assert single("XU-intra(2,blind,1,X)", [False] * 6) == "XXGXXG"
    assert single("XU-intra(2,blind,1,X)", [True] + [False] * 5) == "XXGXXG"


def test_any_byte_but_zero_is_true():
    first = np.array([[255, 0], [0, 255], [0, 0], [255, 0]], np.uint8)
    masks = [first.view(bool), first != 0]
    traces = [[Switch("XU-intra(1,blind,2,X)", streams=2), rows] for rows in masks]
    told, known = (
        [switch.step(is_first=row).tolist() for row in rows] for switch, rows in traces
    )
    assert told == known


def test_episodes_of_one_step():
    assert single("XU-intra(2,blind,1,X)", [True] * 3) == "X|X|X"


def test_a_variant_may_be_parsed_already():
    variant = sidequest.parse("XU-experiment-level-X")
    assert Switch(variant).variant is variant
    assert Switch("xu-experiment-level-x").variant == variant


def test_the_modes_belong_to_the_caller():
    modes = Switch("XU-experiment-level-X").step()
    modes[:] = False  # a plain array that may be written to


def test_the_arguments_belong_to_the_caller():
    switch, other = (Switch("XU-intra(1,informed,0.5,G)", streams=2) for _ in range(2))
    shared = random_rows(1, 2)[0] | {"is_last": np.zeros(2, bool)}
    for row in random_rows(30, 2):
        row["is_last"] = row.pop("is_first")
        for name in shared:  # one buffer for all steps
            shared[name] = np.broadcast_to(shared[name], 2).copy()
            shared[name][:] = row.get(name, 0)
        np.testing.assert_array_equal(switch.step(**shared), other.step(**row))
        for data in shared.values():
            data[:] = 1


def test_the_seed_decides_and_streams_differ():
    rows = random_rows(100, 2)
    one, same, other = (
        run(Switch("XU-step-level-0.5", streams=2, seed=seed), rows) for seed in (1, 1, 2)
    )
    assert (one == same).all()
    assert (one != other).any()
    assert (one[:, 0] != one[:, 1]).any()


# Two ways to the same thing.


@pytest.mark.parametrize(
    "variant",
    ["XU-step-level-0.3", "XU-intra(2,informed,0.2,X)", "XU-intra(=,blind,0.3,G)"],
)
def test_vmap_over_streams_equals_a_loop(variant):
    streams, steps = 3, 40
    arm = make_arm(variant)
    columns = [
        make_signals(steps, 15, value=np.random.default_rng(b).normal(size=steps))
        for b in range(streams)
    ]
    start = [CONTROLLER.init(arm) for _ in range(streams)]
    together = jax.tree.map(lambda *leaves: jnp.stack(leaves), *start)
    step, step_all = jax.jit(CONTROLLER.step), jax.jit(jax.vmap(CONTROLLER.step))
    explored = 0
    for t in range(steps):
        uniforms = jax.random.uniform(jax.random.key(t), (streams,))
        rows = [Signals(*(jnp.asarray(column[t]) for column in c)) for c in columns]
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *rows)
        modes, together = step_all(uniforms, stacked, together)
        for b in range(streams):
            mode, start[b] = step(uniforms[b], rows[b], start[b])
            assert mode == modes[b]
            explored += int(mode)
    assert explored > 0
    alone = jax.tree.map(lambda *leaves: jnp.stack(leaves), *start)
    for left, right in zip(jax.tree.leaves(alone), jax.tree.leaves(together), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-6)


def test_streams_do_not_leak_into_each_other():
    # Counters are not random: a stream plays the same, whoever is beside it.
    rows = random_rows(60, 2)
    together = run(Switch("XU-intra(3,blind,4,G)", streams=2), rows)
    for b in range(2):
        alone = Switch("XU-intra(3,blind,4,G)")
        modes = [alone.step(is_first=row["is_first"][b])[0] for row in rows]
        assert together[:, b].tolist() == modes


def test_the_functions_run_in_a_scan():
    functions = make_switch("XU-intra(2,blind,3,G)")
    first = np.arange(12)[:, None] % 7 == [0, 0]

    @jax.jit
    def run(key):
        def step(state, row):
            uniforms = jax.random.uniform(row[0], (UNIFORMS, 2))
            modes, state = functions.step(state, uniforms, Signals(is_first=row[1]))
            return state, modes

        keys = jax.random.split(key, len(first))
        return jax.lax.scan(step, functions.init(2), (keys, first))[1]

    modes = np.asarray(run(jax.random.key(0)))
    assert draw_trace(modes[:, 1], first[:, 1]) == "GGGXXGG|GGGXX"


@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_the_functions_take_marks_of_any_type(dtype):
    functions, rng = make_switch("XU-intra(3,informed,0.1,G)"), np.random.default_rng(0)
    told, known = functions.init(2), functions.init(2)
    for _ in range(100):
        first, numbers = rng.random(2) < 0.1, rng.random((3, 2), np.float32)
        uniforms = rng.random((UNIFORMS, 2), np.float32)
        modes, told = functions.step(told, uniforms, Signals(first.astype(dtype), *numbers))
        expected, known = functions.step(known, uniforms, Signals(first, *numbers))
        np.testing.assert_array_equal(modes, expected)


# Save and continue.


def resumed(variant: str, tmp_path, **arguments):
    rows = random_rows(60, 2)
    switch = Switch(variant, streams=2, seed=7, **arguments)
    run(switch, rows[:30])
    np.savez(tmp_path / "switch.npz", **switch.state_dict())
    with np.load(tmp_path / "switch.npz") as saved:  # no pickle: names and arrays
        state = dict(saved)
    other = Switch(variant, streams=2, seed=99, **arguments)
    other.load_state_dict(state)
    return run(switch, rows[30:]), run(other, rows[30:]), switch, other


@pytest.mark.parametrize(
    "variant",
    ["XU-intra(*,informed,p*,X)", "XU-intra(5%,blind,20%,G)", "XU-step-level-0.5"],
)
def test_a_loaded_state_goes_on_identically(variant, tmp_path):
    expected, found, switch, other = resumed(variant, tmp_path)
    np.testing.assert_array_equal(found, expected)
    left, right = switch.state_dict(), other.state_dict()
    assert left.keys() == right.keys()
    for name in left:
        np.testing.assert_array_equal(left[name], right[name], err_msg=name)


def test_a_saved_state_stays_what_it_was():
    rows = random_rows(40, 2)
    switch = Switch("XU-intra(*,informed,p*,X)", streams=2)
    run(switch, rows[:20])
    saved = switch.state_dict()
    copy = {name: np.copy(data) for name, data in saved.items()}
    first = run(switch, rows[20:])
    for _ in range(2):  # as often as you like
        switch.load_state_dict(saved)
        np.testing.assert_array_equal(run(switch, rows[20:]), first)
    for name in saved:
        np.testing.assert_array_equal(saved[name], copy[name], err_msg=name)


def test_a_state_that_does_not_fit_is_refused():
    switch = Switch("XU-intra(10,blind,100,G)", streams=2)
    saved = switch.state_dict()
    with pytest.raises(ValueError, match=r"variant=XU-intra\(10,.*\); this .*=XU-step"):
        Switch("XU-step-level-0.1", streams=2).load_state_dict(saved)
    with pytest.raises(ValueError, match="with streams=2; this switch has streams=3"):
        Switch("XU-intra(10,blind,100,G)", streams=3).load_state_dict(saved)
    part = {name: data for name, data in saved.items() if "choices" not in name}
    with pytest.raises(ValueError, match=r": choices is missing, expected int32\(3, 2\)"):
        switch.load_state_dict(part)
    wrong = saved | {"returns": saved["returns"].astype(np.float64)}
    with pytest.raises(
        ValueError, match=r"returns is float64\(2,\), expected float32\(2,\)"
    ):
        switch.load_state_dict(wrong)
    with pytest.raises(ValueError, match="the state was saved with version=None"):
        switch.load_state_dict({})
    for wrong in ("switch.npz", None):
        with pytest.raises(ValueError, match=r"it is what state_dict\(\) returned"):
            switch.load_state_dict(wrong)


def test_a_state_of_another_rule_signal_or_version_is_refused():
    saved = Switch(INFORMED).state_dict()
    for other, message in [
        (Switch(INFORMED, rule="printed"), "rule=saturated; this switch has rule=printed"),
        (Switch(INFORMED, signal=novelty), "signal=None; this switch has signal=novelty"),
        (
            Switch(INFORMED, bandit=bandits.ucb),
            "bandit=proportional; this switch has bandit=ucb",
        ),
    ]:
        with pytest.raises(ValueError, match=message):
            other.load_state_dict(saved)
    with pytest.raises(ValueError, match="version=1; this switch has version=5"):
        Switch(INFORMED).load_state_dict(saved | {"version": 1})


def test_a_state_with_nan_or_a_broken_generator_is_refused():
    switch = Switch(INFORMED)
    run(switch, random_rows(5, 1))
    before = switch.state_dict()
    mean = np.full_like(before["controllers.homeostat.mean"], np.nan)
    for name, data in [
        ("controllers.homeostat.mean", mean),
        ("random", "{}"),
        ("random", "nonsense"),
        (
            "random",
            before["random"].replace('"inc": ', '"inc": -'),
        ),
        ("steps", -1),
        ("steps", float("inf")),
    ]:
        with pytest.raises(ValueError, match="^saved state: "):
            switch.load_state_dict(before | {name: data})
    for name, data in switch.state_dict().items():  # nothing of it was loaded
        np.testing.assert_array_equal(data, before[name])


@pytest.mark.parametrize(
    "name, number",
    [
        ("choices", 4),
        ("choices", -1),
        ("finished.choices", 4),
        ("controllers.arm.place", 4),
        ("controllers.arm.exploit.kind", 2),
        ("controllers.elapsed", -1),
        ("controllers.homeostat.place", -1),
        ("controllers.homeostat.scale.count", -3),
        ("periods.counts", -1),
        ("finished.periods.steps", -1),
        ("counts", -1),
        ("arms.variant.kinds", 2),
        ("meta.bandit.arms", 4),
        ("meta.bandit.arms", -2),
        ("meta.bandit.episodes", -1),
    ],
)
def test_a_state_with_impossible_numbers_is_refused(name, number):
    switch = Switch("XU-intra(10,informed,p*,X)", streams=2)
    run(switch, random_rows(60, 2))
    before = switch.state_dict()
    broken = np.array(before[name])
    broken.flat[-1] = number
    with pytest.raises(ValueError, match=rf"saved state.*{name}.*(out of range|is \D*\d)"):
        switch.load_state_dict(before | {name: broken})
    switch.load_state_dict(before)


def test_a_return_that_overflows_is_not_counted_and_does_no_harm():
    switch = Switch("XU-intra(2,informed,p*,G)", streams=2)
    paid = np.array([3e38, 1.0], np.float32)
    for _ in range(4):
        switch.step(reward=paid, value=0.0)
        switch.load_state_dict(switch.state_dict())
    assert not np.isfinite(switch.state_dict()["returns"][0])
    for first in (True, False, True):
        switch.step(reward=1.0, value=0.0, is_first=first)
        switch.load_state_dict(switch.state_dict())
    saved = switch.state_dict()
    assert saved["finished.returns"].tolist() == [2.0, 2.0]
    assert saved["meta.bandit.fitness"][-3:].tolist() == [4.0, 2.0, 2.0]
    summary = switch.summary()
    # Of six episodes, two open, all but the one that overflowed have a return.
    assert summary["episodes"] == 6
    assert summary["return"] == pytest.approx((4 + 2 + 2 + 0 + 0) / 5)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))])
def test_a_copy_goes_on_identically(copied):
    rows = random_rows(60, 2)
    switch = Switch("XU-intra(*,informed,p*,X)", streams=2, seed=7, signal=novelty)
    run(switch, rows[:30])
    other = copied(switch)
    assert repr(other) == repr(switch)
    np.testing.assert_array_equal(run(other, rows[30:]), run(switch, rows[30:]))


# What it reports.


def test_summary_is_the_mean_over_episodes_of_the_recorded_modes():
    streams = 2
    rows = random_rows(200, streams)
    switch = Switch("XU-intra(3,blind,0.2,G)", streams=streams)
    modes = run(switch, rows)
    stats, returns, rates = [], [], []
    for b in range(streams):
        first = np.array([row["is_first"][b] for row in rows])
        reward = np.array([row["reward"][b] for row in rows])
        starts = [*np.flatnonzero(first), len(rows)]
        for start, end in zip(starts, starts[1:], strict=False):
            episode = modes[start:end, b]
            stats.append(periods(episode))
            returns.append(reward[start + 1 : end + 1].sum())  # with the next first step
            entries = np.sum(episode[1:] & ~episode[:-1])
            rates.append(entries / np.sum(~episode))
    found = switch.summary()
    assert found["episodes"] == len(stats)
    assert found["p_X"] == pytest.approx(np.mean([s.p for s in stats]), rel=1e-5)
    assert found["med_X"] == pytest.approx(np.nanmean([s.median for s in stats]), rel=1e-5)
    relative = np.nanmean([s.relative_median for s in stats])
    assert found["rmed_X"] == pytest.approx(relative, rel=1e-5)
    assert found["realised_rate"] == pytest.approx(np.mean(rates), rel=1e-5)
    assert found["return"] == pytest.approx(np.mean(returns), rel=1e-3, abs=1e-4)
    assert found["length"] == pytest.approx(200 * streams / len(stats), rel=1e-5)
    assert found["bandits"] == {}


def test_summary_counts_the_open_episode_and_changes_nothing():
    switch = Switch("XU-intra(2,blind,2,G)")
    for _ in range(4):
        switch.step()
    for _ in range(2):
        assert switch.summary()["p_X"] == 0.5
        assert switch.summary()["episodes"] == 1
    switch.step(is_first=True)
    switch.step()
    assert switch.summary()["p_X"] == pytest.approx((0.5 + 0.0) / 2)
    assert switch.summary()["med_X"] == 2.0  # the second episode has none (yet)


def test_summary_before_the_first_step():
    found = Switch("XU-intra(10,informed,p*,X)").summary()
    assert found["episodes"] == 0
    assert np.isnan(found["p_X"])
    assert list(found["bandits"]["exploit"].values()) == [0.25] * 4


# Bandits: each finished episode is fed back once.


def test_each_episode_is_fed_back_once_with_its_return():
    #        t        0  1  2 | 3  4 | 5 | 6
    # episode of a    a1 a1 a1  a2 a2  a3  a4
    first = [[1, 1], [0, 0], [0, 0], [1, 0], [0, 1], [1, 0], [1, 0]]
    reward = [[9, 9], [1, 10], [2, 20], [4, 30], [8, 40], [16, 50], [32, 60]]
    switch = Switch("XU-intra(10,informed,p*,X)", streams=2)
    fed = []
    for is_first, rewards in zip(first, reward, strict=True):
        switch.step(reward=rewards, is_first=is_first, value=0.0)
        saved = switch.state_dict()
        count = int(saved["meta.bandit.episodes"])
        fed.append(count)
    # The reward at a first step is the last of the episode before; the very first (9)
    # belongs to none.
    #   stream a:  1 + 2 + 4 = 7 at t = 3;   8 + 16 = 24 at t = 5;   32 at t = 6
    #   stream b:  10 + 20 + 30 + 40 = 100 at t = 4
    assert fed == [0, 0, 0, 1, 2, 3, 4]
    assert saved["meta.bandit.fitness"][-4:].tolist() == [7.0, 100.0, 24.0, 32.0]
    assert saved["meta.lengths"][-4:].tolist() == [3.0, 4.0, 2.0, 1.0]
    assert np.isnan(saved["meta.lengths"][:-4]).all()


def test_with_many_environments_some_episodes_wait_and_none_is_lost():
    streams = 16  # a quarter of them is four
    switch = Switch("XU-episode-level-*", streams=streams)
    first = np.zeros(streams, bool)
    switch.step()
    told = []
    for b in [0, 1, 2, 3, 4, 4]:  # the last one ends again while its episode waits
        first[:] = False
        first[b] = True
        switch.step(reward=1.0, is_first=first)
        told.append(int(switch.state_dict()["meta.bandit.episodes"]))
        assert switch.summary()["episodes"] == streams + len(told)
    assert told == [0, 0, 0, 4, 4, 5]


def test_the_arm_that_is_fed_back_is_the_one_that_was_played():
    switch = Switch("XU-episode-level-*", streams=2, seed=5)
    played = []
    for t in range(40):
        modes = switch.step(is_first=t % 4 == 0)
        if t % 4 == 0 and t < 36:
            played += modes.tolist()  # both streams end together; a first, then b
    arms = switch.state_dict()["meta.bandit.arms"][0]
    assert arms[-len(played) :].astype(bool).tolist() == played
    assert len(set(played)) == 2


@pytest.mark.parametrize("make_bandit", [bandits.proportional, bandits.ucb])
def test_the_bandit_finds_out_what_pays(make_bandit):
    switch = Switch("XU-episode-level-*", streams=2, bandit=make_bandit)
    reward = np.zeros(2)
    for t in range(600):
        modes = switch.step(reward=reward, is_first=t % 2 == 0)
        reward = modes.astype(float)  # exploring pays
    assert switch.summary()["bandits"]["start"][1.0] > 0.7
    assert sum(switch.probabilities()["start"].values()) == pytest.approx(1.0)


def test_shares_follow_the_lengths_of_finished_episodes():
    switch = Switch("XU-intra(20%,blind,30%,G)")
    modes = [switch.step(is_first=t % 10 == 0)[0] for t in range(120)]
    # A tenth episode has ended when the eleventh begins: its length of 10 is known.
    assert draw_trace(modes[:10], [0] * 10) == "GGGGGGGGGG"  # 30% of 1000 steps
    assert draw_trace(modes[100:110], [0] * 10) == "GGGXXGGGXX"


# Arms fixed by hand.


@pytest.mark.parametrize(
    "variant, arms",
    [
        ("XU-intra(*,blind,n*,G)", {"explore": 2, "exploit": 3}),
        ("XU-intra(*,blind,n*,G)", [2, 3]),
        ("XU-intra(*,blind,n*,G)", (2, 3)),
        ("XU-intra(*,blind,n*,G)", np.array([2, 3])),
        ("XU-intra(*,blind,3,G)", 2),
        ("XU-intra(2,blind,n*,G)", 3.0),
        ("XU-intra(2,blind,n*,G)", np.array(3)),
        ("XU-intra(2,blind,n*,G)", "3"),
    ],
)
def test_arms_fix_what_a_bandit_would_choose(variant, arms):
    assert single(variant, [True] + [False] * 9, arms=arms) == "GGGXXGGGXX"


def test_the_start_may_be_fixed_by_its_letter():
    for arms, mode in [({"start": "X"}, "X"), ({"start": "G"}, "G"), (0, "G"), (1, "X")]:
        assert single("XU-episode-level-*", [True, False, True], arms=arms) == (
            f"{mode}{mode}|{mode}"
        )


def test_a_fixed_bandit_reports_nothing():
    switch = Switch("XU-intra(*,blind,n*,G)", arms={"exploit": 7})
    assert list(switch.probabilities()) == ["explore"]
    assert Switch("XU-intra(10,blind,n*,G)", arms=7).probabilities() == {}


@pytest.mark.parametrize(
    "variant, arms, message",
    [
        ("XU-intra(10,blind,100,G)", 5, r"has the bandits \[\]; .* is \[5\]"),
        ("XU-intra(*,blind,n*,G)", 5, r"\['explore', 'exploit'\]; .* is \[5\]"),
        ("XU-intra(*,blind,n*,G)", [1, 2, 3], r"one number for each, and is \[1, 2, 3\]"),
        (
            "XU-intra(*,blind,9,G)",
            {"exploit": 5},
            r"no bandit 'exploit'; it has \['explore'\]",
        ),
        ("XU-intra(*,blind,9,G)", {"explore": 0}, "explore is 0; allowed is 1 to 1e"),
        ("XU-intra(*,blind,9,G)", 2.5, "explore is 2.5; it is a whole number"),
        (
            "XU-intra(1,informed,p*,G)",
            {"exploit": 1.5},
            "exploit is 1.5; allowed is 1e-09 to 1",
        ),
        ("XU-intra(1,informed,p*,G)", float("nan"), "exploit is nan"),
        (
            "XU-intra(1,informed,p*,G)",
            {"exploit": None},
            "exploit is None, which is no",
        ),
        (
            "XU-intra(1,informed,p*,G)",
            {"exploit": [0.1]},
            r"exploit is \[0.1\], which",
        ),
        ("XU-intra(1,informed,p*,G)", "often", "exploit is 'often', which is no number"),
        ("XU-intra(*,blind,100,G)", "X", "explore is 'X', which is no number"),
        ("XU-intra(*,blind,n*,G)", [2, [3]], r"exploit is \[3\], which is no number"),
        ("XU-episode-level-*", {"start": 7}, "start is 7; allowed is 0 to 1"),
        ("XU-episode-level-*", {"start": float("nan")}, "start is nan"),
    ],
)
def test_arms_that_cannot_be_are_refused(variant, arms, message):
    with pytest.raises(VariantError, match=message):
        Switch(variant, arms=arms)


# What it needs.


@pytest.mark.parametrize(
    "variant, given, missing",
    [
        ("XU-intra(10,informed,0.1,G)", {}, "value"),
        ("XU-intra(10,informed:mismatch,0.1,G)", {"value": 1.0}, "action_mismatch"),
        ("XU-intra(10,informed:variance,0.1,G)", {"value": 1.0}, "value_variance"),
    ],
)
def test_a_missing_signal_is_named(variant, given, missing):
    with pytest.raises(ValueError, match=rf"needs {missing}: pass {missing}=\.\.\."):
        Switch(variant).step(**given)


def test_what_is_not_needed_may_be_left_out():
    for variant in ("XU-intra(10,blind,p*,G)", "XI-episode-level-*", "XU-step-level-0.1"):
        assert Switch(variant).step().shape == (1,)


def test_wrong_shapes_are_refused():
    switch = Switch("XU-step-level-0.1", streams=2)
    with pytest.raises(ValueError, match=r"reward has the shape \(3,\).*the 2 streams"):
        switch.step(reward=[1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match=r"is_first has the shape \(2, 1\)"):
        switch.step(is_first=[[True], [False]])
    with pytest.raises(ValueError, match="^reward is no array of numbers: .*shape"):
        switch.step(reward=[1.0, [2.0]])


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"streams": 0}, "streams is 0; it is a whole number of 1 or more"),
        ({"streams": 1.5}, "streams is 1.5; it is a whole number"),
        ({"streams": None}, "streams is None"),
        ({"seed": None}, "seed is None; it is a whole number of 0 or more"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": "1"}, "seed is '1'"),
        ({"rule": "foo"}, "rule is 'foo'; it is 'saturated' or 'printed'"),
        ({"rule": None}, "rule is None"),
        ({"signal": 3}, "signal is 3; it is a function"),
        ({"bandit": bandits.ucb(4)}, "it is a function that makes one from a number"),
        ({"variant": None}, "a variant is a name such as .*; got None"),
        ({"variant": 7}, "got 7"),
        (
            {"variant": "XU-step-level-0.1", "signal": abs},
            "XU-step-level-0.1 reads no signal",
        ),
    ],
)
def test_arguments_that_mean_nothing_are_refused_in_one_line(arguments, message):
    with pytest.raises(ValueError, match=message) as caught:
        Switch(**{"variant": INFORMED, **arguments})
    assert "\n" not in str(caught.value)


def test_the_functions_refuse_a_signal_that_nothing_reads():
    with pytest.raises(ValueError, match="reads no signal"):
        make_switch("XU-intra(10,blind,0.1,G)", signal=novelty)


def test_any_whole_number_is_a_seed():
    for seed in (2**40, np.int64(3), True):
        Switch(INFORMED, seed=seed).step(value=0.0)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"discount": -0.1}, "discount is -0.1; it is 0 to 1"),
        ({"discount": 2}, "discount is 2; it is 0 to 1"),
        ({"discount": [0.5, 1e30]}, "it is 0 to 1"),
        ({"discount": None}, "discount holds object; it is numbers or booleans"),
        ({"reward": None}, "reward holds object; it is numbers or booleans"),
        ({"reward": [1j, 2j]}, "reward holds complex128; it is numbers or booleans"),
        ({"reward": "much"}, "reward holds <U4"),
        ({"value": np.array(["2020-01-01"] * 2, "M8[D]")}, r"value holds datetime64\[D\]"),
        ({"is_first": [None, True]}, "is_first holds object"),
        ({"is_last": [True]}, r"is_last has the shape \(1,\)"),
        ({"reward": [1e300, 0.0]}, "reward holds a number that is not finite"),
        ({"reward": 1e300}, "reward holds a number that is not finite"),
        ({"novelty": [np.nan, 0.0]}, "novelty holds a number that is not finite"),
    ],
)
def test_numbers_that_mean_nothing_are_refused_in_one_line(arguments, message):
    switch = Switch(INFORMED, streams=2)
    switch.step(value=0.0)
    before = switch.state_dict()
    with pytest.raises(ValueError, match=message) as caught:
        switch.step(**{"value": 0.0, **arguments})
    assert "\n" not in str(caught.value)
    for name, data in switch.state_dict().items():
        np.testing.assert_array_equal(data, before[name])


@pytest.mark.parametrize("dtype", ["int8", "uint64", "float16", "bfloat16", "longdouble"])
def test_numbers_of_any_size_are_taken(dtype):
    values = np.arange(60) % 7
    switch, same = (Switch("XU-intra(2,informed,0.1,G)", streams=60) for _ in range(2))
    for _ in range(20):
        values = np.roll(values, 1)
        modes = switch.step(value=values.astype(np.dtype(dtype)))
        np.testing.assert_array_equal(modes, same.step(value=values))


def test_numbers_that_are_none_are_refused():
    switch = Switch("XU-intra(10,informed,0.1,G)")
    for bad in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="value holds a number that is not finite"):
            switch.step(value=bad)
    assert switch.summary()["episodes"] == 0  # and nothing was counted


# A signal of your own.


def novelty(signals: Signals):
    return signals.novelty


def test_a_signal_of_your_own():
    steps = 2_000
    rng = np.random.default_rng(0)
    spikes = np.arange(steps) % 50 == 25
    switch = Switch("XU-intra(1,informed,0.02,G)", signal=novelty)
    values = 0.01 * rng.random(steps) + spikes
    modes = np.array([switch.step(novelty=x)[0] for x in values])  # needs no value
    late = slice(steps // 2, None)
    assert modes[late][spikes[late]].mean() > 0.9
    assert modes[late][~spikes[late]].mean() < 0.01


@pytest.mark.parametrize(
    "returned, said", [(None, "None"), (np.ones(3), r"the shape \(3,\)")]
)
def test_a_signal_that_is_no_number_for_each_environment(returned, said):
    switch = Switch(INFORMED, streams=8, signal=lambda signals: returned)
    with pytest.raises(ValueError, match=f"signal returned {said}; it returns a number"):
        switch.step(reward=0.0, discount=0.9, is_first=True)


def test_a_signal_of_your_own_may_have_a_memory():
    # How long the episode has lasted; it has something to say from its third step on.
    def step(signals, age):
        age = jnp.where(signals.is_first, 0, age + 1)
        return age.astype(jnp.float32), age >= 2, age

    clock = Signal(init=lambda: jnp.zeros((), jnp.int32), step=step)
    switch = Switch("XU-intra(1,informed,1.0,G)", signal=clock)
    modes = [switch.step(is_first=t in (0, 6))[0] for t in range(9)]
    heard = switch.status().signal
    assert not any(modes[:2]) and not any(modes[6:8])
    assert modes[2] and heard.tolist() == [2.0]
    waits = [switch.step(is_last=t == 1)[0] for t in range(4)]  # NumPy keeps its memory
    assert waits[1] == waits[0] and not waits[2]


def test_a_signal_of_your_own_is_given_rows_also_of_what_step_was_not():
    given = []
    switch = Switch(INFORMED, streams=3, signal=lambda signals: given.append(signals) or 0)
    switch.step(reward=[1.0, 2.0, 3.0])
    switch.step(discount=0.5, is_first=True)
    assert {np.shape(row) for signals in given for row in signals} == {(3,)}
    assert given[0].discount.tolist() == [np.float32(0.997)] * 3
    assert given[1].discount.tolist() == [0.5] * 3 and not given[1].value.any()


def test_a_memory_that_starts_as_a_whole_number_can_be_saved():
    def step(signals, mean):
        mean = 0.9 * mean + 0.1 * signals.reward
        return mean, True, mean

    signal = Signal(init=lambda: 0, step=step)
    switch = Switch("XU-intra(1,informed,0.5,G)", streams=2, signal=signal)
    switch.step(reward=[1.0, 5.0])
    for other in (copy.deepcopy(switch), copy.copy(switch)):
        other.step(reward=0.0)
        assert other.status().signal.tolist() == pytest.approx([0.09, 0.45])


def remembering(first, following):
    """A signal whose memory starts as `first` and then is `following`."""
    return Signal(lambda: first, lambda signals, memory: (signals.reward, True, following))


@pytest.mark.parametrize(
    "first, following",
    [(0.0, 0.0), (np.zeros(2), np.zeros((3, 2))), ((0.0, 0.0), np.zeros(2)), (0.0, None)],
)
def test_a_memory_that_changes_its_shape_is_refused(first, following):
    """Its state could not be loaded again."""
    switch = Switch(INFORMED, streams=2, signal=remembering(first, following))
    with pytest.raises(ValueError, match="signal returned a memory of another shape"):
        switch.step()


@pytest.mark.parametrize("first", [None, {"mean": 0.0}])
def test_a_memory_that_is_no_array_is_refused(first):
    with pytest.raises(ValueError, match="its init returns an array or tuples of arrays"):
        Switch(INFORMED, signal=remembering(first, first))


def test_a_memory_may_come_back_as_a_list_and_less_precise():
    def step(signals, memory):
        last, count = memory
        return abs(signals.reward - last), True, [signals.reward, count + 1]

    def make():
        return Switch(INFORMED, streams=2, signal=Signal(lambda: (0.0, 0), step))

    switch, other = make(), make()
    switch.step(reward=5.0, is_last=[True, False])  # the first waits, with what it had
    other.load_state_dict(switch.state_dict())
    for each in (switch, other):
        kept = each.state_dict()
        assert kept["controllers.memories.0.0"].tolist() == [0.0, 5.0]
        assert kept["controllers.memories.0.1"].tolist() == [0, 1]
        assert each.step(reward=3.0).shape == (2,)


def test_symmetric_informed_holds_its_rate_over_both_modes_together():
    switch = Switch("XU-intra(=,informed,0.05,G)", streams=16, signal=novelty)
    noise = np.abs(np.random.default_rng(0).normal(size=(6_000, 16)))
    rows = [np.zeros(16, bool)]
    for row in noise:  # higher while it explores
        rows.append(switch.step(novelty=np.where(rows[-1], 3, 1) * row))
    modes = np.array(rows[1_000:])
    before, ended = modes[:-1], modes[1:] != modes[:-1]
    assert ended.mean() == pytest.approx(0.05, rel=0.1)
    assert ended[before].mean() > 5 * ended[~before].mean()
    assert before.mean() < 0.15


def test_the_rule_of_homeostasis_can_be_chosen():
    values = np.random.default_rng(0).normal(size=1_500)
    values[300] = 1_000.0
    count = {}
    for rule in ("printed", "saturated"):
        switch = Switch("XU-intra(1,informed,0.05,G)", rule=rule)
        modes = [switch.step(value=value, discount=1.0)[0] for value in values]
        count[rule] = sum(modes[320:])
    assert count["saturated"] > 30
    assert count["printed"] < 5  # one spike has silenced it


# What the user sees.


def test_status_by_hand():
    switch = Switch("XU-intra(2,blind,3,G)", streams=2)
    for t in range(5):
        modes = switch.step(is_first=[t == 0, t == 3])
    # a: GGGXX, b: GGG|GG
    status = switch.status()
    assert modes.tolist() == status.explores.tolist() == [True, False]
    assert switch.modes.tolist() == [True, False]
    assert status.elapsed.tolist() == [2, 2]
    assert status.trigger.tolist() == ["counter", "start"]
    assert np.isnan(status.rate).all() and np.isnan(status.signal).all()
    assert status.arms == {}


def test_status_of_an_informed_variant():
    switch = Switch("XU-intra(3,informed:variance,p*,G)", arms={"exploit": 1.0})
    triggers = []
    for _ in range(5):
        switch.step(value_variance=2.0)
        status = switch.status()
        triggers.append(status.trigger.tolist()[0])
    assert triggers == ["start"] + ["informed:variance"] * 3 + ["counter"]
    assert status.arms["exploit"].tolist() == [1.0] and status.rate.tolist() == [1.0]
    switch.step(value_variance=5.0)
    assert switch.status().signal.tolist() == [5.0]
    assert switch.status().probability.tolist() == [1.0]


def test_modes_before_the_first_step():
    switch = Switch("XU-experiment-level-X", streams=3)
    assert switch.modes.tolist() == [False] * 3
    switch.modes[:] = True  # a copy
    assert switch.modes.tolist() == [False] * 3


def test_repr_names_variant_streams_and_memory():
    switch = Switch("XU-intra(10,informed,p*,X)", streams=512, seed=3)
    switch.step(value=0.0)
    shown = repr(switch)
    assert shown.startswith(
        "<Switch XU-intra(10,informed,p*,X), streams=512, seed=3, 1 step,"
    )
    assert 6 < float(shown.split()[-3]) < 8, shown  # kB each
    assert switch.nbytes < 512 * 8_000


def test_plot_draws_the_last_steps():
    switch = Switch("XU-intra(2,blind,3,G)", streams=3)
    modes = np.array([switch.step(is_first=t % 7 == 0) for t in range(1_200)])
    figure = switch.plot(most=2)
    mesh = figure.axes[0].collections[0]
    assert mesh.get_array().shape == (2, 1_000)
    np.testing.assert_array_equal(mesh.get_array() > 0, modes[-1_000:, :2].T)
    starts = figure.axes[0].collections[1].get_segments()
    assert len(starts) == 2 * np.sum(np.arange(200, 1_200) % 7 == 0)


def test_plot_shows_no_steps_from_before_a_state_was_loaded():
    saved, switch = (Switch("XU-experiment-level-X", streams=2) for _ in range(2))
    for _ in range(30):
        saved.step()
    switch.load_state_dict(saved.state_dict())
    assert switch.plot().axes[0].collections[0].get_array().shape == (2, 0)
    for _ in range(5):
        switch.step()
    for shown, steps in ((switch, 5), (copy.deepcopy(switch), 5), (saved, 30)):
        mesh = shown.plot().axes[0].collections[0]
        assert mesh.get_array().shape == (2, steps) and mesh.get_array().all()


def test_plot_marks_no_start_while_an_episode_of_one_step_waits():
    switch = Switch("XU-experiment-level-G", streams=2)
    switch.step(is_first=True)
    switch.step(is_first=[False, True], is_last=[True, False])
    switch.step()
    starts = switch.plot().axes[0].collections[1].get_segments()
    marked = [(round(x + 0.5), round(y + 0.5)) for (x, y), _ in starts]
    assert marked == [(0, 0), (0, 1), (1, 1), (2, 0)]  # step, environment


def test_plot_wants_one_environment_or_more():
    switch = Switch("XU-intra(2,blind,3,G)", streams=3)
    assert switch.plot(most=10).axes  # there are three, and no steps yet
    for most in (-1, 0, 1.5):
        with pytest.raises(ValueError, match="most is .*; it is a whole number of 1 or"):
            switch.plot(most=most)


# Both ways in which environments start anew.


def play_lake(autoreset, variant: str, steps: int = 400):
    """Plays the same lakes; the modes of the actions that count, and the summary."""
    envs = gymnasium.make_vec(
        "FrozenLake-v1",
        3,
        vector_kwargs={"autoreset_mode": autoreset},
        is_slippery=False,
        max_episode_steps=9,
    )
    switch = Switch(variant, streams=3)
    states, _ = envs.reset(seed=0)
    traces: list[list[str]] = [[""] for _ in range(3)]

    def add_letters() -> None:
        for b in np.flatnonzero(~ended | (autoreset.value == "SameStep")):
            traces[b][-1] += "GX"[int(modes[b])]

    modes = switch.step(value=0.1 * states)
    ended, number = np.zeros(3, bool), np.zeros(3, int)
    for _ in range(steps):
        # Three lakes with routes of their own, the same whenever they start.
        actions = (number + np.arange(3)) % 4
        states, reward, terminated, truncated, _ = envs.step(actions)
        number = np.where(terminated | truncated, 0, number + 1)
        number = np.where(ended & (autoreset.value == "NextStep"), 0, number)
        arguments = step_arguments(
            reward, terminated, truncated, autoreset=autoreset, discount=0.9
        )
        add_letters()
        for b in np.flatnonzero(terminated | truncated):
            traces[b].append("")
        modes = switch.step(value=0.1 * states, **arguments)
        ended = terminated | truncated
    add_letters()
    return traces, switch.summary()


def test_both_autoresets_of_gymnasium_play_the_same_episodes():
    # The modes of a counter depend on nothing but the steps of an episode.
    variant, played = "XU-intra(2,blind,3,G)", []
    for autoreset in ("NEXT_STEP", "SAME_STEP"):
        mode = gymnasium.vector.AutoresetMode[autoreset]
        traces, summary = play_lake(mode, variant)
        episodes = [trace for row in traces for trace in row if trace]
        assert summary["episodes"] == len(episodes)
        for name, expected in [
            ("p_X", np.mean([trace.count("X") / len(trace) for trace in episodes])),
            ("length", np.mean([len(trace) for trace in episodes])),
        ]:
            assert summary[name] == pytest.approx(expected, rel=1e-5), (autoreset, name)
        played.append(traces)
    for left, right in zip(*played, strict=True):
        finished = min(len(left), len(right)) - 1
        assert finished > 20
        assert left[:finished] == right[:finished]


def test_the_last_observation_only_counts_its_reward():
    switch = Switch("XU-intra(1,blind,1,G)", streams=2)
    lasts = [[0, 0], [0, 0], [1, 0], [0, 0], [0, 0]]
    modes = [switch.step(reward=1.0, is_last=last)[0] for last in lasts]
    # Its mode stays what it was; the next step is the first of a new episode.
    assert draw_trace(modes, [0, 0, 0, 1, 0]) == "GXX|GX"
    saved = switch.state_dict()
    assert saved["periods.steps"].tolist() == [2, 5]
    assert saved["finished.returns"].tolist() == [
        3.0,
        0.0,
    ]  # of the two steps, and the last
    assert saved["finished.periods.steps"].tolist() == [2, 0]
    assert switch.summary()["length"] == (2 + 2 + 5) / 3


@settings(max_examples=20)
@given(
    st.integers(0, 2**31),
    st.sampled_from(["XU-intra(2,informed,0.3,X)", "XU-episode-level-*"]),
)
def test_an_environment_that_waits_does_not_disturb_the_others(seed, variant):
    rows = random_rows(60, 3, seed)
    rng = np.random.default_rng(seed)
    switch = Switch(variant, streams=3, seed=1)
    for row in rows:
        before = switch.state_dict()
        last = rng.random(3) < 0.2
        row = row | {"is_first": row["is_first"] & ~last}
        modes = switch.step(**row, is_last=last)
        after = switch.state_dict()
        for name in before:
            if name.startswith(("controllers.", "periods.")) and np.ndim(after[name]):
                np.testing.assert_array_equal(
                    after[name][..., last], before[name][..., last], err_msg=name
                )
        assert (modes[last] == before["controllers.mode"][last]).all()


def test_step_arguments_by_hand():
    given = ([1.0, 2.0, 3.0], [True, False, False], [False, True, False])
    found = step_arguments(*given, autoreset="next-step", discount=0.5)
    assert found.keys() == {"reward", "discount", "is_last"}
    assert found["discount"].tolist() == [0.0, 0.5, 0.5]
    assert found["is_last"].tolist() == [True, True, False]
    for same in ("same-step", "SAME_STEP", gymnasium.vector.AutoresetMode.SAME_STEP):
        found = step_arguments(*given, autoreset=same)
        assert found["is_first"].tolist() == [True, True, False]
    with pytest.raises(ValueError, match="autoreset is 'Disabled'; .* pass is_first"):
        step_arguments(*given, autoreset=gymnasium.vector.AutoresetMode.DISABLED)
    with pytest.raises(ValueError, match=r"the shapes \(3,\), \(2,\) and \(3,\)"):
        step_arguments([1.0, 2.0, 3.0], [True, False], [False, True, False])


@pytest.mark.parametrize("info", [{}, [{}, {"lives": 1}], ({}, {})])
def test_step_arguments_refuse_the_former_gym(info):
    with pytest.raises(ValueError, match="truncated is .*, not booleans. .*one `done`"):
        step_arguments([1.0, 0.0], [True, False], info)

"""`Switch`: the whole machine, for agents of any kind."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sidequest
from sidequest import Switch, VariantError
from sidequest.switching import bandits
from sidequest.switching import switch as switch_module
from sidequest.switching.metacontroller import variant_arrays
from sidequest.switching.periods import periods
from sidequest.switching.switch import advance, make_functions
from sidequest.switching.triggers import Signal
from sidequest.types import Signals
from tests.switching.play import (
    CONTROLLER,
    PAPER_VARIANTS,
    draw_trace,
    make_arm,
    make_signals,
)


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


def test_episodes_of_one_step():
    assert single("XU-intra(2,blind,1,X)", [True] * 3) == "X|X|X"


def test_a_variant_may_be_parsed_already():
    variant = sidequest.parse("XU-experiment-level-X")
    assert Switch(variant).variant is variant
    assert Switch("xu-experiment-level-x").variant == variant


def test_the_modes_belong_to_the_caller():
    modes = Switch("XU-experiment-level-X").step()
    modes[:] = False  # a plain array that may be written to


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
    start = [CONTROLLER.init(jax.random.key(b), arm) for b in range(streams)]
    together = jax.tree.map(lambda *leaves: jnp.stack(leaves), *start)
    step, step_all = jax.jit(CONTROLLER.step), jax.jit(jax.vmap(CONTROLLER.step))
    explored = 0
    for t in range(steps):
        keys = jax.random.split(jax.random.key(t), streams)
        rows = [Signals(*(jnp.asarray(column[t]) for column in c)) for c in columns]
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *rows)
        modes, together = step_all(keys, stacked, together)
        for b in range(streams):
            mode, start[b] = step(keys[b], rows[b], start[b])
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


@jax.jit
def scan_steps(state, signals: Signals):
    def step(state, row):
        modes, state = advance(make_functions(), state, row)
        return state, modes

    return jax.lax.scan(step, state, signals)


@pytest.mark.parametrize("variant", ["XU-intra(*,informed,p*,X)", "XU-episode-level-*"])
def test_scan_equals_step_by_step(variant):
    rows = random_rows(80, 2)
    switch = Switch(variant, streams=2, seed=3)
    by_hand = run(switch, rows)

    columns = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    columns["discount"] = np.full((80, 2), 0.9, np.float32)
    signals = Signals(**columns, novelty=np.zeros((80, 2), np.float32))
    arrays = variant_arrays(sidequest.parse(variant))
    state = switch_module._compiled_init(make_functions(), arrays, 2, 3)
    state, modes = scan_steps(state, signals)
    np.testing.assert_array_equal(modes, by_hand)
    saved = switch.state_dict()
    for path, leaf in jax.tree_util.tree_leaves_with_path(state):
        name = jax.tree_util.keystr(path)
        np.testing.assert_allclose(saved[name], leaf, rtol=1e-4, atol=1e-5, err_msg=name)


def test_one_compiled_function_serves_all_variants_and_arms():
    streams = 5  # a number that no other test uses: nothing is compiled for it yet
    programs = switch_module._compiled_advance, switch_module._compiled_init
    before = [program._cache_size() for program in programs]
    arguments = [{"variant": variant} for variant in PAPER_VARIANTS]
    arguments += [
        {"variant": "XU-intra(*,informed,p*,X)", "arms": {"exploit": rate}}
        for rate in (0.1, 0.02, 0.003)
    ]
    row = random_rows(1, streams)[0]
    for seed, given in enumerate(arguments):
        switch = Switch(**given, streams=streams, seed=seed)
        switch.step(**row)
        switch.step(**row)
    assert [program._cache_size() - 1 for program in programs] == before


# Save and go on.


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
    with pytest.raises(ValueError, match=r"of XU-intra\(10,blind,100,G\), this is XU-step"):
        Switch("XU-step-level-0.1", streams=2).load_state_dict(saved)
    with pytest.raises(ValueError, match=r"is float32\(2,\), expected float32\(3,\)"):
        Switch("XU-intra(10,blind,100,G)", streams=3).load_state_dict(saved)
    part = {name: data for name, data in saved.items() if "choices" not in name}
    with pytest.raises(ValueError, match=r"\.choices is missing, expected int32\(2, 3\)"):
        switch.load_state_dict(part)
    wrong = saved | {".steps": saved[".steps"].astype(np.float64)}
    with pytest.raises(ValueError, match=r"\.steps is float64\(\), expected int32\(\)"):
        switch.load_state_dict(wrong)
    with pytest.raises(ValueError, match="the saved state is of None"):
        switch.load_state_dict({})


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
        count = int(saved[".meta.bandit.episodes"][0])
        fed.append(count)
    # The reward at a first step is the last of the episode before; the very first (9)
    # belongs to none.
    #   stream a:  1 + 2 + 4 = 7 at t = 3;   8 + 16 = 24 at t = 5;   32 at t = 6
    #   stream b:  10 + 20 + 30 + 40 = 100 at t = 4
    assert fed == [0, 0, 0, 1, 2, 3, 4]
    for dimension in range(3):
        tail = saved[".meta.bandit.fitness"][dimension, -4:].tolist()
        assert tail == [7.0, 100.0, 24.0, 32.0]
    assert saved[".meta.lengths"][-4:].tolist() == [3.0, 4.0, 2.0, 1.0]
    assert np.isnan(saved[".meta.lengths"][:-4]).all()


def test_the_arm_that_is_fed_back_is_the_one_that_was_played():
    switch = Switch("XU-episode-level-*", streams=2, seed=5)
    played = []
    for t in range(40):
        modes = switch.step(is_first=t % 4 == 0)
        if t % 4 == 0 and t < 36:
            played += modes.tolist()  # both streams end together; a first, then b
    arms = switch.state_dict()[".meta.bandit.arms"][0]
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
        ("XU-intra(10,blind,100,G)", 5, r"has the bandits \[\]; got arms \[5\]"),
        ("XU-intra(*,blind,n*,G)", 5, r"\['explore', 'exploit'\]; got arms \[5\]"),
        ("XU-intra(*,blind,n*,G)", [1, 2, 3], r"got arms \[1, 2, 3\]"),
        (
            "XU-intra(*,blind,9,G)",
            {"exploit": 5},
            r"no bandit 'exploit'; it has \['explore'\]",
        ),
        ("XU-intra(*,blind,9,G)", {"explore": 0}, "explore is 0; allowed is 1 to 1e"),
        (
            "XU-intra(1,informed,p*,G)",
            {"exploit": 1.5},
            "exploit is 1.5; allowed is 1e-09 to 1",
        ),
        ("XU-intra(1,informed,p*,G)", float("nan"), "exploit is nan"),
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
    with pytest.raises(ValueError, match="streams is 0"):
        Switch("XU-step-level-0.1", streams=0)


def test_numbers_that_are_none_are_refused():
    switch = Switch("XU-intra(10,informed,0.1,G)")
    for bad in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="value holds a number that is not finite"):
            switch.step(value=bad)
    assert switch.summary()["episodes"] == 0  # and nothing was counted


# A signal of your own.


QUICK = functools.partial(bandits.proportional, window=8)  # compiles in half the time


def novelty(signals: Signals):
    return signals.novelty


def test_a_signal_of_your_own():
    steps = 2_000
    rng = np.random.default_rng(0)
    spikes = np.arange(steps) % 50 == 25
    switch = Switch("XU-intra(1,informed,0.02,G)", signal=novelty, bandit=QUICK)
    values = 0.01 * rng.random(steps) + spikes
    modes = np.array([switch.step(novelty=x)[0] for x in values])  # needs no value
    late = slice(steps // 2, None)
    assert modes[late][spikes[late]].mean() > 0.9
    assert modes[late][~spikes[late]].mean() < 0.01


def test_a_signal_of_your_own_may_have_a_memory():
    # How long the episode has lasted; it has something to say from its third step on.
    def step(signals, age):
        age = jnp.where(signals.is_first, 0, age + 1)
        return age.astype(jnp.float32), age >= 2, age

    clock = Signal(init=lambda: jnp.zeros((), jnp.int32), step=step)
    switch = Switch("XU-intra(1,informed,1.0,G)", signal=clock, bandit=QUICK)
    modes = [switch.step(is_first=t in (0, 6))[0] for t in range(9)]
    heard = switch.state_dict()[".controllers.signal"]
    assert not any(modes[:2]) and not any(modes[6:8])
    assert modes[2] and heard.tolist() == [2.0]


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


def test_functions_of_one_kind_are_shared():
    assert make_functions() is make_functions()
    assert make_functions(signal=novelty) is make_functions(signal=novelty)
    assert make_functions(bandit=QUICK) is not make_functions()

"""The meta-controller: variants as menus, and the arms drawn from them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sidequest.switching import bandits
from sidequest.switching.metacontroller import (
    DIMENSIONS,
    UPDATE_CHUNK,
    Episodes,
    _arm_of,
    draw,
    fix_arms,
    make_metacontroller,
    name_arms,
    variant_arrays,
)
from sidequest.switching.triggers import COIN, COUNTER, INFORMED, NEVER
from sidequest.switching.variants import ArmSets, parse

RATES = [0.1, 0.01, 0.001, 0.0001]
STEPS = [10, 100, 1_000, 10_000]

META = make_metacontroller(lambda arms: bandits.proportional(arms, window=50))
PROBABILITIES, UPDATE = jax.jit(META.arm_probabilities), jax.jit(META.update)


def tell(state, choices, fitness, length):
    """Of one episode."""
    columns = jnp.int32(choices), jnp.float32(fitness), jnp.int32(length)
    return UPDATE(state, Episodes(*(column[None] for column in columns)), jnp.array([True]))


DRAW = jax.jit(jax.vmap(draw, in_axes=(0, None)))


def rows(arrays) -> list[list[float]]:
    """The entries that are in use, without the padding."""
    pairs = zip(arrays.entries.tolist(), arrays.in_use.tolist(), strict=True)
    return [row[:count] for row, count in pairs]


@pytest.mark.parametrize(
    # what a variant's arrays is: start, exploit, explore, and what ends the two periods
    "name, start, exploit, explore, kinds",
    [
        ("XU-experiment-level-G", [0], [0], [0], (NEVER, NEVER)),
        ("XU-experiment-level-X", [1], [0], [0], (NEVER, NEVER)),
        ("XU-episode-level-*", [0, 1], [0], [0], (NEVER, NEVER)),
        ("XU-episode-level-0.3", [0.3], [0], [0], (NEVER, NEVER)),
        ("XU-step-level-0.01", [0.01], [0.01], [0.99], (COIN, COIN)),
        ("XU-intra(10,blind,100,G)", [0], [100], [10], (COUNTER, COUNTER)),
        ("XU-intra(10,blind,0.01,X)", [1], [0.01], [10], (COIN, COUNTER)),
        ("XU-intra(*,blind,n*,G)", [0], STEPS, [1, 10, 100], (COUNTER, COUNTER)),
        ("XU-intra(5%,blind,p*,G)", [0], RATES, [0.05], (COIN, COUNTER)),
        ("XU-intra(=,blind,n*,G)", [0], STEPS, [0], (COUNTER, COUNTER)),
        ("XU-intra(=,blind,p*,X)", [1], RATES, [0], (COIN, COIN)),
        ("XU-intra(10,informed,p*,X)", [1], RATES, [10], (INFORMED, COUNTER)),
        ("XU-intra(=,informed,0.1,G)", [0], [0.1], [0], (INFORMED, INFORMED)),
    ],
)
def test_menu_by_hand(name, start, exploit, explore, kinds):
    arrays = variant_arrays(parse(name))
    for row, expected in zip(rows(arrays), [start, exploit, explore], strict=True):
        assert row == pytest.approx(expected)
    assert tuple(arrays.kinds.tolist()) == kinds
    assert bool(arrays.symmetric) == ("(=" in name)


def test_which_amounts_are_shares():
    for name, shares in [
        ("XU-intra(5%,blind,20%,G)", [True, True]),
        ("XU-intra(5%,blind,20,G)", [False, True]),
        ("XU-intra(5,blind,20%,G)", [True, False]),
        ("XU-intra(=,blind,20%,G)", [True, False]),
    ]:
        assert variant_arrays(parse(name)).share.tolist() == shares


def test_which_signal_the_trigger_listens_to():
    for trigger, index in [
        ("informed", 0),
        ("informed:mismatch", 1),
        ("informed:variance", 2),
    ]:
        assert variant_arrays(parse(f"XU-intra(1,{trigger},0.1,G)")).signal == index


def test_all_menus_have_one_shape():
    names = ["XU-experiment-level-X", "XU-intra(*,blind,n*,G)", "XU-episode-level-*"]
    assert {variant_arrays(parse(name)).entries.shape for name in names} == {(3, 4)}
    wide = ArmSets(explore_steps=(1, 2, 3, 4, 5, 6))
    assert variant_arrays(parse("XU-intra(*,blind,7,G)"), wide).entries.shape == (3, 6)


def test_fixed_arms_leave_one_entry():
    variant = parse("XU-intra(*,informed,p*,G)")
    arrays = fix_arms(variant_arrays(variant), name_arms(variant, {"exploit": 0.02}))
    assert rows(arrays)[1] == pytest.approx([0.02])
    assert rows(arrays)[2] == [1, 10, 100]
    assert rows(variant_arrays(variant))[1] == pytest.approx(
        RATES
    )  # the original is untouched


def arm_with(name: str, length: float, choices=(0, 0, 0)):
    arms = META.arm_probabilities(META.init(variant_arrays(parse(name))))
    return _arm_of(jnp.array(choices), arms._replace(length=jnp.float32(length)))


def test_an_arm_is_what_was_chosen():
    arm = arm_with("XU-intra(*,blind,n*,X)", 1.0, choices=(0, 2, 1))
    assert (arm.start, arm.exploit.amount, arm.explore.amount) == (1, 1_000, 10)
    symmetric = arm_with("XU-intra(=,blind,n*,G)", 1.0, choices=(0, 3, 0))
    assert (symmetric.exploit.amount, symmetric.explore.amount) == (10_000, 10_000)


@pytest.mark.parametrize(
    "length, exploit, explore", [(200, 40, 10), (30, 6, 2), (1_000, 200, 50), (3, 1, 1)]
)
def test_a_share_is_rounded_and_never_below_a_step(length, exploit, explore):
    arm = arm_with("XU-intra(5%,blind,20%,G)", length)
    assert (arm.exploit.amount, arm.explore.amount) == (exploit, explore)


def test_each_target_rate_has_a_place_of_its_own():
    """Rates in one decade, too: each has a scale of its own in homeostasis."""
    arms = ArmSets(rates=(0.1, 0.05, 0.02))
    arrays = variant_arrays(parse("XU-intra(10,informed,p*,X)"), arms)
    meta = make_metacontroller(arms=arms)
    uniforms = np.random.default_rng(0).random((3, 100), np.float32)
    _, arm = draw(uniforms, meta.arm_probabilities(meta.init(arrays)))
    pairs = set(zip(arm.place.tolist(), arm.exploit.amount.tolist(), strict=True))
    assert pairs == set(enumerate(np.float32(arms.rates).tolist()))


def test_shares_refer_to_the_median_of_recent_episodes():
    state = META.init(variant_arrays(parse("XU-intra(5%,blind,20%,G)")))
    choices, fitness = jnp.zeros(3, jnp.int32), jnp.float32(0.0)

    def finish(state, lengths):
        for length in lengths:
            state = tell(state, choices, fitness, length)
        return state

    assert (
        PROBABILITIES(state).length == 1_000
    )  # an assumption, before ten episodes have ended
    state = finish(state, [10, 20, 30, 40, 50, 60, 70, 80, 90])
    assert PROBABILITIES(state).length == 1_000
    state = finish(state, [9_999])
    assert PROBABILITIES(state).length == 55
    state = finish(state, [7] * 100)  # the old ones are forgotten
    assert PROBABILITIES(state).length == 7
    state = finish(state, [8] * 49)
    assert PROBABILITIES(state).length == 7
    state = finish(state, [8] * 2)
    assert PROBABILITIES(state).length == 8


def test_arms_are_drawn_with_the_probabilities_of_the_bandits():
    state = META.init(variant_arrays(parse("XU-intra(*,blind,n*,G)")))
    rng = np.random.default_rng(0)
    for _ in range(60):  # the third exploit arm and the first explore arm do better
        exploit, explore = rng.integers(4), rng.integers(3)
        fitness = jnp.float32((exploit == 2) + 0.5 * (explore == 0))
        choices = jnp.array([0, exploit, explore], jnp.int32)
        state = tell(state, choices, fitness, 10)
    arms = PROBABILITIES(state)
    probabilities = np.asarray(arms.probabilities)
    np.testing.assert_allclose(probabilities.sum(1), 1.0, rtol=1e-6)
    assert probabilities[0].tolist() == [1, 0, 0, 0]
    assert probabilities[1].argmax() == 2 and probabilities[2].argmax() == 0
    assert probabilities[2, 3] == 0  # three arms: the fourth is padding

    choices, arms = DRAW(jax.random.uniform(jax.random.key(0), (10_000, 3)), arms)
    for dimension in range(len(DIMENSIONS)):
        found = np.bincount(choices[:, dimension], minlength=4) / 10_000
        np.testing.assert_allclose(found, probabilities[dimension], atol=0.02)
    pairs = np.histogram2d(choices[:, 1], choices[:, 2], bins=(range(5), range(5)))[0]
    independent = np.outer(probabilities[1], probabilities[2])
    np.testing.assert_allclose(pairs / 10_000, independent, atol=0.02)
    np.testing.assert_array_equal(arms.exploit.amount, np.array(STEPS)[choices[:, 1]])


def test_both_bandits_learn_from_the_same_return():
    state = META.init(variant_arrays(parse("XU-intra(*,blind,n*,G)")))
    for fitness in (1.0, 5.0):
        choices = jnp.array([0, 3, 1], jnp.int32)
        state = tell(state, choices, fitness, 10)
    assert state.bandit.fitness[-2:].tolist() == [1.0, 5.0]
    assert state.bandit.arms[:, -1].tolist() == [0, 3, 1]


@pytest.mark.parametrize("number", [5, UPDATE_CHUNK, 3 * UPDATE_CHUNK - 7])
def test_those_that_have_ended_are_told_in_order(number):
    rng = np.random.default_rng(number)
    choices = rng.integers(0, 3, (number, 3)).astype(np.int32)
    returns = rng.normal(size=number).astype(np.float32)
    lengths = rng.integers(1, 99, number)
    ended = rng.random(number) < 0.7
    returns[3] = np.nan  # would spoil the whole window: not told
    state = expected = META.init(variant_arrays(parse("XU-intra(*,blind,n*,G)")))
    for i in np.flatnonzero(ended & np.isfinite(returns)):
        expected = tell(expected, choices[i], returns[i], lengths[i])
    state = UPDATE(state, Episodes(choices, returns, lengths), ended)
    for ours, theirs in zip(*map(jax.tree.leaves, (state, expected)), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_the_bandit_may_be_ucb():
    meta = make_metacontroller(bandits.ucb)
    arms = meta.arm_probabilities(
        meta.init(variant_arrays(parse("XU-intra(10,informed,p*,X)")))
    )
    assert arms.probabilities[1].tolist() == [1, 0, 0, 0]  # every arm once, in order

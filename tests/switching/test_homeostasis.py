"""Homeostasis: whatever the signal, switches come at the target rate."""

import inspect
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sidequest.switching import homeostasis
from tests import OPTIMISED

STEPS = 1_000_000
RATES = (0.1, 0.01, 0.001)


def transcribed(signals: np.ndarray, rates, rule: str = "printed") -> np.ndarray:
    """The paper's Algorithm 1 in float64: signals [T, n] -> probabilities of a switch.

    z = 0 where the signal does not vary, which the paper leaves open. The saturated rule
    caps x+ where the probability is 1 already, and lets a gain make good what is owed.
    """
    rate = np.asarray(rates, np.float64)
    mean, variance, scale, gain = np.zeros_like(rate), *[np.ones_like(rate)] * 3
    probabilities = []
    for t, x in enumerate(signals.astype(np.float64), start=1):
        tau = np.minimum(t, 100 / rate)
        mean = (1 - 1 / tau) * mean + x / tau
        variance = (1 - 1 / tau) * variance + (x - mean) ** 2 / tau
        flat = variance <= 1e-12 * mean**2
        z = np.where(flat, 0.0, (x - mean) / np.sqrt(np.where(flat, 1.0, variance)))
        raised = np.exp(z)
        if rule == "saturated" and t > 1:
            raised = np.minimum(raised, scale / (rate * gain))
        scale = (1 - 1 / tau) * scale + raised / tau
        p = np.minimum(1.0, rate * gain * raised / scale)
        if rule == "saturated":
            gain *= np.exp((rate - p) / 10)
        probabilities.append(p)
    return np.array(probabilities)


@partial(jax.jit, compiler_options=OPTIMISED)
def _watch(signals, rate):
    def step(states, row):
        states = {
            rule: homeostasis.observe(
                homeostasis.bounded(row), rate, states[rule], rule=rule
            )
            for rule in ("printed", "saturated")
        }
        return states, states

    start = {rule: homeostasis.init() for rule in ("printed", "saturated")}
    return jax.lax.scan(step, start, signals)[1]


def watch(signal: np.ndarray, rate: float, rule: str = "saturated"):
    """The homeostat's state after each step."""
    steps = len(signal)
    # A program is compiled for each of these lengths, not for each signal.
    whole = next(length for length in (5_000, 30_000, 120_000) if length >= steps)
    padded = np.pad(np.asarray(signal, np.float32), (0, whole - steps))
    states = _watch(jnp.asarray(padded), jnp.float32(rate))
    return jax.tree.map(lambda leaf: np.asarray(leaf)[:steps], states[rule])


def noise(kind: str, steps: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    size = np.abs(rng.normal(size=steps))
    return {
        "normal": lambda: rng.normal(size=steps),
        "exponential": lambda: rng.exponential(size=steps),
        "lognormal": lambda: rng.lognormal(size=steps),
        "spiky": lambda: 0.01 * size + (rng.random(steps) < 1 / 1_000),
        "shrinking": lambda: size * np.exp(-np.arange(steps) / 2e5),
        "constant": lambda: np.full(steps, 0.1),
        "zero": lambda: np.zeros(steps),
        "first constant": lambda: np.where(np.arange(steps) < 100, 3.0, size),
        "steps": lambda: np.floor(np.arange(steps) / 500) % 3,
    }[kind]().astype(np.float32)


KINDS = ["normal", "exponential", "lognormal", "spiky", "shrinking"]
ODD_KINDS = ["constant", "zero", "first constant", "steps"]


# The printed rule.


@pytest.mark.parametrize("rule", ["printed", "saturated"])
def test_a_rule_is_its_transcription(rule):
    """Of all kinds of signals, at all rates, side by side in one loop."""
    rates = [1.0, 0.1, 0.01, 0.0001] if rule == "printed" else [0.1, 0.01, 0.0001]
    pairs = [(kind, rate) for kind in KINDS + ODD_KINDS for rate in rates]
    signals = np.stack([noise(kind, 5_000) for kind, _ in pairs], axis=1)
    expected = transcribed(signals, [rate for _, rate in pairs], rule)
    for column, (kind, rate) in enumerate(pairs):
        found = watch(signals[:, column], rate, rule).probability
        np.testing.assert_allclose(
            found, expected[:, column], rtol=5e-3, atol=1e-7, err_msg=f"{kind} at {rate}"
        )


def test_algorithm_1_by_hand():
    # rate 1/2, x = 1, 3:   t = 1: mean 1, variance 0, so z = 0, scale 1, p = rate
    # t = 2, tau = 2: mean 2, variance (0 + 1)/2, z = sqrt(2), x+ = e^sqrt(2)
    #                 scale (1 + x+)/2, p = x+ / (1 + x+)
    states = watch(np.array([1.0, 3.0]), 0.5, "printed")
    raised = np.exp(np.sqrt(2.0))
    np.testing.assert_allclose(states.mean, [1.0, 2.0])
    np.testing.assert_allclose(states.variance, [0.0, 0.5])
    np.testing.assert_allclose(states.probability, [0.5, raised / (1 + raised)], rtol=1e-6)
    by_loop = transcribed(np.array([[1.0], [3.0]]), [0.5])
    np.testing.assert_allclose(by_loop[:, 0], states.probability)


@pytest.mark.parametrize("rule", ["printed", "saturated"])
@pytest.mark.parametrize("spike", [1e3, 1e9, 1e30, -1e30])
def test_huge_spikes_overflow_nothing(rule, spike):
    signal = noise("normal", 20_000)
    signal[[10, 5_000, 12_000]] = spike
    for rate in (0.01, 0.0001):
        states = watch(signal, rate, rule)
        for name, numbers in states._asdict().items():
            assert np.isfinite(numbers).all(), name
        assert (states.probability >= 0).all() and (states.probability <= 1).all()


# The saturated rule.


def test_where_nothing_saturates_or_drifts_it_stays_near_the_printed_rule():
    signal = np.random.default_rng(0).random(20_000).astype(np.float32)
    printed = watch(signal, 0.01, "printed").probability
    saturated = watch(signal, 0.01, "saturated").probability
    np.testing.assert_allclose(saturated[2_000:], printed[2_000:], rtol=0.1)


SEEDS = 2


@partial(jax.jit, static_argnames="count", compiler_options=OPTIMISED)
def _switches(luck, signals, rates, places, count):
    """What n homeostats, each with `count` rates, do with these uniform numbers, rates and
    places of rates: four times [T, n] -> [T, n]."""

    def one_step(luck, signal, rate, place, state):
        return homeostasis.step(luck, signal, rate, state, place=place)

    def step(states, row):
        fired, states = jax.vmap(one_step)(*row, states)
        return states, fired

    states = jax.vmap(lambda _: homeostasis.init(count))(rates[0])
    return jax.lax.scan(step, states, (luck, signals, rates, places))[1]


def test_the_target_rate_is_held_over_a_million_steps():
    rates = np.tile(np.float32(RATES), len(KINDS))
    counts = np.zeros(rates.size)
    for seed in range(SEEDS):
        columns = np.stack([noise(kind, STEPS, seed) for kind in KINDS], axis=1)
        signals = np.repeat(columns, len(RATES), axis=1)
        luck = np.random.default_rng(100 + seed).random((STEPS, 1), np.float32)
        fired = _switches(*np.broadcast_arrays(luck, signals, rates, 0), count=1)
        counts += np.sum(fired, axis=0)
    # Chance alone makes 2% at a rate of 0.001. That the unit of the signal does not matter
    # is the next test's.
    realised = (counts / (SEEDS * STEPS) / rates).reshape(len(KINDS), -1)
    for kind, found in zip(KINDS, realised, strict=True):
        np.testing.assert_allclose(found, 1.0, atol=0.1, err_msg=kind)


@pytest.mark.parametrize("rule", ["printed", "saturated"])
def test_a_scale_of_a_power_of_two_changes_no_bit(rule):
    signal = noise("lognormal", 20_000)
    plain = watch(signal, 0.01, rule).probability
    for scale in (2.0**20, 2.0**-20):
        scaled = watch(signal * np.float32(scale), 0.01, rule).probability
        np.testing.assert_array_equal(scaled, plain)


def test_one_spike_does_not_silence_it():
    rate, spike_at, steps = 0.01, 20_000, 120_000
    signal = np.abs(noise("normal", steps))
    signal[spike_at] = 1_000.0

    def next_switch(rule):
        """Steps from the spike to the next switch after it; None if there is none."""
        probability = watch(signal, rate, rule).probability
        assert probability[spike_at] > 0.9
        luck = np.random.default_rng(0).random(steps)
        switches = np.flatnonzero(luck[spike_at + 1 :] < probability[spike_at + 1 :])
        return switches[0] if switches.size else None

    assert next_switch("saturated") < 500
    assert next_switch("printed") is None  # the fault that the saturated rule fixes


@pytest.mark.parametrize("spike", [30.0, -30.0, -1e9])
def test_a_spike_as_the_first_signal_of_a_rate_does_not_spoil_it(spike):
    signal = np.abs(noise("normal", 1_200))
    signal[1_000] = spike
    state, probability = homeostasis.init(2), []
    for t, x in enumerate(signal):
        place = int(t >= 1_000)
        rate = np.float32([0.01, 0.1][place])
        _, state = homeostasis.step(np.float32(0.5), x, rate, state, place=place)
        probability.append(float(state.probability))
    assert probability[1_000] == pytest.approx(0.1, rel=0.01)
    assert np.mean(probability[1_001:]) == pytest.approx(0.1, rel=0.1)
    assert np.isfinite(state.scale.log)


@pytest.mark.parametrize("rule", ["printed", "saturated"])
@pytest.mark.parametrize("level", [0.0, 0.1, -7.0, 1e6])
def test_a_constant_signal_switches_at_the_rate(rule, level):
    states = watch(np.full(30_000, level), 0.01, rule)
    np.testing.assert_allclose(states.probability, 0.01, rtol=1e-3)


def test_the_first_decision_is_taken_at_the_rate():
    for rule in ("printed", "saturated"):
        assert watch(np.array([123.0]), 0.25, rule).probability[0] == pytest.approx(0.25)


def test_the_rate_may_change_from_episode_to_episode():
    rng = np.random.default_rng(0)
    steps, half = 40_000, 20_000
    signal = rng.exponential(size=steps).astype(np.float32)
    places = (np.arange(steps) >= half).astype(int)

    @jax.jit
    def probabilities(signal, places):
        def step(state, row):
            x, place = row
            rate = jnp.float32([0.01, 0.1])[place]
            _, state = homeostasis.step(jnp.float32(0.5), x, rate, state, place=place)
            return state, state.probability

        return jax.lax.scan(step, homeostasis.init(2), (signal, places))[1]

    probability = np.asarray(probabilities(signal, places))
    assert np.mean(probability[:half]) == pytest.approx(0.01, rel=0.05)
    assert np.mean(probability[half:]) == pytest.approx(0.1, rel=0.05)


# The public step: it draws.


def test_a_step_draws_with_the_probability_that_its_state_tells():
    state = jax.tree.map(lambda leaf: leaf[-1], watch(np.array([1.0, 2.0, 4.0]), 0.3))
    keys = jax.random.split(jax.random.key(1), 20_000)
    draw = jax.jit(jax.vmap(homeostasis.step, in_axes=(0, None, None, None)))
    fired, after = jax.device_get(draw(keys, np.float32(3.0), np.float32(0.3), state))
    p = float(after.probability[0])
    assert 0.1 < p < 0.9
    assert (after.probability == np.float32(p)).all()
    assert np.mean(fired) == pytest.approx(p, abs=4 * np.sqrt(p * (1 - p) / 20_000))


def test_a_step_takes_plain_numbers():
    fired, state = homeostasis.step(jax.random.key(0), 1.0, 1.0, homeostasis.init())
    assert bool(fired)
    assert float(state.probability) == 1.0


@pytest.mark.parametrize("xp", [np, jnp])
@pytest.mark.parametrize("environments", [1, 2, 3])  # 2: as many as rates
def test_many_environments_begin_with_the_same_state(xp, environments):
    signals = np.random.default_rng(0).exponential(size=(20, environments))
    signals = xp.asarray(signals, np.float32)
    uniform, rates = xp.float32(0.3), [xp.float32(0.1), xp.float32(0.01)]
    together, apart = homeostasis.init(2), [homeostasis.init(2)] * environments
    for t, row in enumerate(signals):
        place = t // 5 % 2
        rate, step = rates[place], partial(homeostasis.step, place=place)
        fired, together = step(uniform, row, rate, together)
        each = [step(uniform, *one) for one in _rows(row, rate, apart)]
        apart = [state for _, state in each]
        assert fired.tolist() == [bool(switch) for switch, _ in each]
        expected = jax.tree.map(lambda *leaves: np.stack(leaves, axis=-1), *apart)
        jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5), together, expected)


def _rows(signals, rate, states):
    return [(one, rate, state) for one, state in zip(signals, states, strict=True)]


def test_environments_with_one_key_draw_for_themselves():
    signals, rate = jnp.full(1_000, 2.0), jnp.float32(0.5)
    fired, _ = homeostasis.step(jax.random.key(0), signals, rate, homeostasis.init())
    assert 400 < int(fired.sum()) < 600


@pytest.mark.parametrize("array", [np.float32, jnp.float32])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_signal_that_is_not_finite_is_ignored(array, bad):
    def play(*signals):
        state = homeostasis.init()
        for signal in signals:
            fired, state = homeostasis.step(array(0), array(signal), array(0.1), state)
            known.append((bool(fired), float(state.probability)))
        return state

    known: list[tuple[bool, float]] = []
    spoilt, whole = play(1.0, 2.0, bad, 3.0), play(1.0, 2.0, 3.0)
    jax.tree.map(np.testing.assert_array_equal, spoilt, whole)
    assert known[2] == (False, 0.0)
    assert known[3] == known[-1] and known[3][1] > 0


@pytest.mark.parametrize("array", [np.float32, jnp.float32])
def test_rates_may_be_0_and_count_as_1_at_most(array):
    signals, state, same = noise("lognormal", 60), homeostasis.init(3), homeostasis.init(3)
    signals[30] = 1e30  # at rate 0
    for t, (x, rate) in enumerate(zip(signals, [0.0, 0.1, 5.0] * 20, strict=True)):
        step = partial(homeostasis.step, array(0), array(x), place=t % 3)
        fired, state = step(array(rate), state)
        assert bool(fired) == (rate > 0)
        if rate:
            _, same = step(array(min(rate, 1.0)), same)
            jax.tree.map(np.testing.assert_array_equal, state[:5], same[:5])


def test_the_saturated_rule_is_the_default():
    signal = noise("lognormal", 50)
    state, states = homeostasis.init(), watch(signal, 0.1)
    step = jax.jit(homeostasis.step)
    for x in signal:
        _, state = step(jax.random.key(0), x, 0.1, state)
    np.testing.assert_allclose(state.probability, states.probability[-1], rtol=1e-4)


def test_an_unknown_rule_is_named():
    observe = inspect.unwrap(homeostasis.observe)  # past the check of its annotations
    with pytest.raises(ValueError, match="rule is 'fancy'; it is 'saturated' or 'printed'"):
        observe(jnp.float32(1.0), jnp.float32(0.1), homeostasis.init(), rule="fancy")


def test_a_rate_that_the_state_has_no_place_for_is_refused():
    for state, place in ((homeostasis.init(), 1), (homeostasis.init(2), -1)):
        with pytest.raises(ValueError, match=f"place is {place}; the state was made by"):
            homeostasis.step(np.float32(0), 1.0, 0.1, state, place=place)


@pytest.mark.parametrize("rates", [RATES, (0.03, 0.01, 0.0035)])  # the last: alike
def test_rates_that_take_turns_are_all_held(rates):
    """As when a bandit gives every episode another rate; a spiky signal, 16 streams."""
    steps, episode, streams = 120_000, 100, 16
    rng = np.random.default_rng(0)
    places = rng.choice(len(rates), (steps // episode, streams)).repeat(episode, 0)
    spikes = np.where(rng.random((steps, streams)) < 0.02, 10.0, 1.0)
    signals = (spikes * np.abs(rng.normal(size=places.shape))).astype(np.float32)
    luck = rng.random(places.shape, np.float32)
    count, chosen = len(rates), np.float32(rates)[places]
    switches = np.asarray(_switches(luck, signals, chosen, places, count))
    for place, rate in enumerate(rates):
        settled = switches[steps // 2 :][places[steps // 2 :] == place]
        assert settled.mean() == pytest.approx(rate, rel=0.12)

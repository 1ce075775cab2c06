"""One implementation, two array libraries: NumPy and JAX decide the same."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sidequest.switching import homeostasis, periods, triggers
from sidequest.switching.controllers import make_controller
from sidequest.switching.descriptions import PAPER_VARIANTS
from sidequest.switching.metacontroller import make_metacontroller, variant_arrays
from sidequest.switching.switch import UNIFORMS, _join, _Parts, count_episodes, make_switch
from sidequest.switching.variants import parse
from sidequest.types import Signals
from tests.switching import play

NAMES = sorted(
    {name for names in PAPER_VARIANTS.values() for name in names} | {*play.PAPER_VARIANTS}
)
STEPS, STREAMS = 160, 3


def random_signals(rng: np.random.Generator) -> Signals:
    """Signals [T B] of environments with episodes of some 30 steps."""

    def numbers(scale: float = 1.0) -> np.ndarray:
        return (scale * rng.normal(size=(STEPS, STREAMS))).astype(np.float32)

    return Signals(
        is_first=rng.random((STEPS, STREAMS)) < 0.03,
        reward=np.rint(numbers()),
        discount=np.where(rng.random((STEPS, STREAMS)) < 0.02, 0, 0.9).astype(np.float32),
        value=numbers(3.0),
        action_mismatch=np.abs(numbers()),
        value_variance=np.abs(numbers(0.1)),
        novelty=numbers(),
    )


def one_program(name: str, rule: homeostasis.Rule):
    """The functions of the compiled agent: all signals, and a bandit a dimension."""
    controller, meta = make_controller(rule=rule), make_metacontroller()
    return _join(_Parts(controller, meta, variant_arrays(parse(name)), adapts=True))


@functools.cache
def compiled(rule: homeostasis.Rule):
    step = one_program(NAMES[0], rule).step  # which one does not matter

    @jax.jit
    def scan(state, uniforms, signals):
        def body(state, row):
            modes, state = step(state, *row)
            return state, (modes, state.controllers.probability, state.choices)

        return jax.lax.scan(body, state, (uniforms, signals))

    return scan


def counted(state):
    """The statistics, with the episodes that wait to be counted."""
    return count_episodes(state.sums, state.counts, state.finished, state.waiting)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=3)
@given(seed=st.integers(0, 2**31), rule=st.sampled_from(["saturated", "printed"]))
def test_given_the_same_uniform_numbers_both_decide_the_same(name, seed, rule):
    rng = np.random.default_rng(seed)
    signals = random_signals(rng)
    uniforms = rng.random((STEPS, UNIFORMS, STREAMS), np.float32)
    functions = make_switch(name, rule=rule)
    state, rows = functions.init(STREAMS), []
    with np.errstate(all="ignore"):
        for t in range(STEPS):
            now = Signals(*(column[t] for column in signals))
            modes, state = functions.step(state, uniforms[t], now)
            rows.append((modes, state.controllers.probability, state.choices))
    modes, probabilities, choices = (np.stack(row) for row in zip(*rows, strict=True))
    # The last digit of an exponential is the library's own.
    assume(np.abs(uniforms[:, 0] - probabilities).min() > 1e-5)
    start = one_program(name, rule).init(STREAMS)
    end, (other_modes, other_probabilities, other_choices) = compiled(rule)(
        start, uniforms, signals
    )
    np.testing.assert_array_equal(modes, other_modes)
    np.testing.assert_allclose(probabilities, other_probabilities, rtol=1e-3, atol=1e-6)
    np.testing.assert_array_equal(choices, other_choices)
    for ours, theirs in zip(
        (state.returns, *state.periods, *counted(state)),
        (end.returns, *end.periods, *jax.jit(counted)(end)),
        strict=True,
    ):
        assert isinstance(ours, np.ndarray) and ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.fixture(params=[False, True])
def doubles(request):
    jax.config.update("jax_enable_x64", request.param)
    yield request.param
    jax.config.update("jax_enable_x64", False)


@pytest.mark.parametrize(
    "variant", ["XU-intra(*,informed,p*,X)", "XU-intra(=,informed:variance,p*,G)"]
)
def test_a_scan_takes_signals_of_any_type(variant, doubles):
    """Doubles, if JAX has them, floats for booleans, and one number for all or none."""
    rng = np.random.default_rng(0)
    first, last = rng.random((2, STEPS, STREAMS)) < 0.1
    uniforms = rng.random((STEPS, UNIFORMS, STREAMS))
    value = rng.integers(9, size=(STEPS, STREAMS))
    switch = make_switch(variant)

    def scan(*rows):
        def step(state, row):
            uniforms, first, last, value = row
            signals = Signals(first, value / 2, 0.9, value, value_variance=value)
            modes, state = switch.step(state, uniforms, signals, last)
            return state, modes

        return jax.lax.scan(step, switch.init(STREAMS), rows)[1]

    compiled = jax.jit(scan)
    small = jnp.asarray(uniforms, np.float32)
    expected = compiled(small, first, last, value.astype(np.float32))
    found = compiled(jnp.asarray(small, float), first * 1.0, last * 1, value)
    np.testing.assert_array_equal(found, expected)
    assert 0 < expected.mean() < 1


@pytest.mark.parametrize(("xp", "compiled"), [(np, False), (jnp, False), (jnp, True)])
def test_a_signal_that_the_trigger_needs_and_does_not_get_is_named(xp, compiled):
    first, zeros, uniforms = xp.ones(2, bool), xp.zeros(2), xp.zeros((UNIFORMS, 2))
    for variant, some, missing in [
        ("XU-intra(9,informed,0.1,G)", {"reward": zeros, "value": zeros}, "discount"),
        ("XU-intra(9,informed:variance,0.1,G)", {"value": zeros}, "value_variance"),
    ]:
        switch = make_switch(variant)
        step = jax.jit(switch.step) if compiled else switch.step
        with pytest.raises(ValueError, match=f"needs {missing}: pass Signals"):
            step(switch.init(2), uniforms, Signals(first, **some))


@pytest.mark.parametrize("shape", [(STREAMS,), (STREAMS, UNIFORMS), (1, STREAMS)])
def test_random_numbers_of_another_shape_are_refused(shape):
    switch = make_switch("XU-step-level-0.5")
    state, signals = switch.init(STREAMS), Signals(jnp.ones(STREAMS, bool))
    with pytest.raises(ValueError, match="uniforms has the shape .* expected"):
        jax.jit(switch.step)(state, jnp.zeros(shape), signals)


def test_numpy_stays_numpy_and_jax_stays_jax():
    for xp, key in [(np, np.float32(0.5)), (jnp, jax.random.key(0))]:
        state = jax.tree.map(xp.asarray, homeostasis.init())
        switches, state = homeostasis.step(key, xp.float32(1.0), xp.float32(0.1), state)
        kind = jax.Array if xp is jnp else (np.ndarray, np.generic)
        assert all(isinstance(leaf, kind) for leaf in jax.tree.leaves((switches, state)))


@pytest.mark.parametrize("name", ["XU-intra(2,blind,1,X)", "XU-intra(1,informed,0.9,G)"])
def test_a_state_of_numpy_may_be_a_constant_of_a_compiled_program(name):
    controller = make_controller()
    uniforms = np.random.default_rng(0).random((12, STREAMS), np.float32)

    def run(uniforms):
        state, modes = one_program(name, "saturated").init(STREAMS).controllers, []
        for t in range(12):
            numbers = np.full((6, STREAMS), t, np.float32)
            signals = Signals(np.full(STREAMS, t == 6), *numbers)
            mode, state = controller.step(uniforms[t], signals, state)
            modes.append(mode)
        return modes

    modes = run(uniforms)
    assert 0 < np.mean(modes) < 1
    np.testing.assert_array_equal(modes, jax.jit(run)(uniforms))


def test_the_measures_of_disagreement():
    rng = np.random.default_rng(0)
    one, two = rng.normal(size=(2, 50, 6)).astype(np.float32)
    for measure in (triggers.action_mismatch, triggers.value_variance):
        batch = measure(one, two)
        assert batch.shape == (50,) and isinstance(batch, np.ndarray)
        np.testing.assert_allclose(batch, jax.vmap(measure)(one, two), rtol=1e-6)


@settings(max_examples=20)
@given(st.integers(0, 2**31))
def test_a_batch_of_streaming_statistics_is_the_whole_traces(seed):
    rng = np.random.default_rng(seed)
    modes = rng.random((300, 4)) < rng.random(4)
    state = jax.tree.map(lambda leaf: np.stack([leaf] * 4, axis=-1), periods.init())
    first = np.zeros(4, bool)
    for row in modes:
        state = periods.step(row, first, state)
    found = periods.summary(state)
    for b in range(4):
        whole = periods.periods(modes[:, b])
        assert found.p[b] == pytest.approx(whole.p)
        np.testing.assert_allclose(found.median[b], whole.median, rtol=0.05)

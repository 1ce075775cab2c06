"""The probes' answers, by hand and by dynamic programming over what they pay."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sidequest.environments import registry
from sidequest.environments.suites import PROBES
from tests.environments.answers import answer
from tests.environments.streams import check_stream, lengths, play_many

DISCOUNT = 0.9


@pytest.mark.parametrize("name", ["probe:constant", "probe:memory_2", "probe:time_limit"])
def test_keeps_the_stream_convention(name):
    environment = registry.make(name)
    assert environment.spec.name == name
    _, timesteps = play_many(environment, 0, streams=4, steps=40)
    check_stream(environment, timesteps)
    assert set(lengths(timesteps)) == {environment.spec.max_steps}
    assert timesteps.truncated.any() == (name == "probe:time_limit")


@pytest.mark.parametrize(
    ("name", "down", "up"),
    [
        # The right values of an episode with cue -1, and with cue +1.
        ("probe:constant", [[1, 1]], [[1, 1]]),
        ("probe:by_observation", [[-1, -1]], [[1, 1]]),
        ("probe:by_action", [[-1, 1]], [[-1, 1]]),
        ("probe:two_step", [[0.9, 0.9], [1, 1]], [[0.9, 0.9], [1, 1]]),
        (
            "probe:memory_2",
            [[0.81, 0.81], [0.9, 0.9], [1, -1]],
            [[0.81, 0.81], [0.9, 0.9], [-1, 1]],
        ),
        ("probe:time_limit", 5 * [[-10, -10]], 5 * [[10, 10]]),
    ],
)
def test_answers_by_hand(name, down, up):
    for episode, expected in zip(answer(name, DISCOUNT), (down, up), strict=True):
        np.testing.assert_allclose(episode.q_values, expected, rtol=1e-6)


@pytest.mark.parametrize("name", PROBES)
def test_the_environment_shows_and_pays_what_the_answer_says(name):
    environment = registry.make(name)
    reset, step = jax.jit(environment.reset), jax.jit(environment.step)
    cues = set()
    for seed in range(8):
        state, timestep = reset(jax.random.key(seed))
        episode = answer(name, DISCOUNT)[int(float(state.cue) > 0)]
        cues.add(float(state.cue))
        for time, action in enumerate(episode.actions):
            np.testing.assert_array_equal(timestep.observation, episode.observations[time])
            assert timestep.reward == episode.rewards[time]
            state, timestep = step(jax.random.key(time), state, action)
        assert timestep.is_first
    assert cues == {-1.0, 1.0}


@pytest.mark.parametrize("name", sorted(set(PROBES) - {"probe:time_limit"}))
def test_no_sequence_of_actions_earns_more_than_the_answer(name):
    """Tries them all; the best that starts with an action is worth its right value."""
    environment = registry.make(name)
    length = environment.spec.max_steps
    if length > 6:
        pytest.skip("2,048 sequences; the shorter memory probes have the same rules")
    state, _ = jax.jit(environment.reset)(jax.random.key(0))
    right = answer(name, DISCOUNT)[int(float(state.cue) > 0)].q_values[0]
    sequences = np.array(list(itertools.product([0, 1], repeat=length)), np.int32)

    def play(actions):
        keys = jax.random.split(jax.random.key(0), length)
        step = environment.step
        _, timesteps = jax.lax.scan(
            lambda state, inputs: step(inputs[0], state, inputs[1]),
            state,
            (keys, actions),
        )
        return (DISCOUNT ** jnp.arange(length) * timesteps.reward).sum()

    returns = np.asarray(jax.jit(jax.vmap(play))(sequences))
    for action in (0, 1):
        best = returns[sequences[:, 0] == action].max()
        np.testing.assert_allclose(best, right[action], rtol=1e-6)


def test_memory_shows_the_two_cues_alike_when_it_matters():
    down, up = answer("probe:memory_5", DISCOUNT)
    assert (down.observations[0] != up.observations[0]).any()
    np.testing.assert_array_equal(down.observations[1:], up.observations[1:])
    np.testing.assert_array_equal(down.q_values[-1] + up.q_values[-1], 0)

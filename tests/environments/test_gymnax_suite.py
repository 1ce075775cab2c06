"""gymnax's games as streams, beside the library's own stepping."""

import subprocess
import sys

import gymnax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sidequest.environments import gymnax_suite
from tests.environments.streams import check_stream, lengths, play_many

PLAYED = ["minatar:breakout", "bsuite:deep_sea", "classic:cartpole"]
MINATAR = [name for name in gymnax_suite.GAMES if name.startswith("minatar:")]


@pytest.mark.parametrize("name", PLAYED)
def test_is_the_stream_that_gymnax_plays(name):
    """gymnax resets in the same step too, and splits its keys as we do."""
    game, ours = gymnax_suite.GAMES[name], gymnax_suite.make(name)
    theirs, params = gymnax.make(game.identifier, **game.constructor)
    params = params.replace(**game.params)
    keys = jax.random.split(jax.random.key(5), 60)
    actions = jax.random.randint(keys[0], (60,), 0, ours.spec.num_actions)
    our_step, ends = jax.jit(ours.step), 0
    our_state, timestep = jax.jit(ours.reset)(keys[0])
    observation, their_state = theirs.reset(keys[0], params)
    np.testing.assert_array_equal(timestep.observation, observation)
    for key, action in zip(keys[1:], actions[1:], strict=True):
        our_state, timestep = our_step(key, our_state, action)
        observation, their_state, reward, terminated, truncated, _ = theirs.step(
            key, their_state, action, params
        )
        np.testing.assert_allclose(timestep.observation, observation, rtol=1e-5)
        assert timestep.reward == reward
        assert timestep.terminated == terminated
        assert timestep.truncated == (truncated and not terminated)
        ends += int(terminated)
    assert ends > 0


@pytest.mark.parametrize("name", PLAYED)
def test_keeps_the_stream_convention(name):
    environment = gymnax_suite.make(name)
    _, timesteps = play_many(environment, 0, streams=8, steps=200)
    check_stream(environment, timesteps)
    assert timesteps.terminated.any() and not timesteps.truncated.any()
    assert lengths(timesteps).max() <= environment.spec.max_steps


@pytest.mark.slow
def test_freeway_runs_out_of_time_and_never_ends():
    environment = gymnax_suite.make("minatar:freeway")
    _, timesteps = play_many(environment, 0, streams=2, steps=5_100)
    check_stream(environment, timesteps)
    assert set(lengths(timesteps)) == {environment.spec.max_steps} == {2_500}
    assert timesteps.truncated.any() and not timesteps.terminated.any()
    starts = timesteps.observation[timesteps.is_first]
    assert (starts[0] != starts[1]).any()  # other cars in the next episode


def test_mountain_car_has_a_thousand_steps_and_numbers_near_one():
    environment = gymnax_suite.make("classic:mountain_car")
    _, timesteps = play_many(environment, 0, streams=4, steps=2_100)
    check_stream(environment, timesteps)
    assert lengths(timesteps).max() == environment.spec.max_steps == 1_000
    assert 0.1 < np.abs(timesteps.observation).max(axis=(0, 1)).min() <= 1.0


def test_deep_sea_pays_who_always_goes_right():
    """Each step right costs 0.01 / size, and the chest at the end is worth 1."""
    environment = gymnax_suite.make("bsuite:deep_sea_10")
    state, _ = environment.reset(jax.random.key(0))
    step, total = jax.jit(environment.step), 0.0
    for time in range(10):
        right = state.action_mapping[state.row, state.column]
        state, timestep = step(jax.random.key(time), state, right)
        total += float(timestep.reward)
    assert timestep.terminated and timestep.is_first
    assert total == pytest.approx(1.0 - 0.01)


@pytest.mark.slow
@pytest.mark.parametrize("name", MINATAR)
def test_minatar_planes_are_zeros_and_ones(name):
    """So nothing is lost when they are stored as bytes."""
    game = gymnax_suite.GAMES[name]
    environment, params = gymnax.make(game.identifier)
    with jax.disable_jit():  # a step takes less time than compiling it
        observation, state = environment.reset(jax.random.key(0), params)
        moved, *_ = environment.step(jax.random.key(1), state, 1, params)
    assert set(np.unique(observation)) == set(np.unique(moved)) == {0.0, 1.0}


def test_works_where_jax_is_strict_about_types():
    environment = gymnax_suite.make("minatar:breakout")
    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        state, _ = jax.eval_shape(environment.reset, jax.random.key(0))
        action = jnp.zeros((), int)
        jax.eval_shape(environment.step, jax.random.key(0), state, action)


def test_what_draws_gymnax_pictures_is_loaded_when_it_draws():
    program = (
        "import sys\n"
        "from sidequest.environments import registry\n"
        "registry.make('minatar:breakout')\n"
        "drawing = {'seaborn', 'scipy.stats', 'matplotlib.pyplot'}\n"
        "assert not drawing & sys.modules.keys()\n"
        "from gymnax.environments.misc import pong\n"
        "assert len(pong.sns.color_palette('cubehelix', 3)) == 3\n"
        "from gymnax.environments.misc import rooms\n"
        "assert rooms.plt.figure()\n"
        "assert drawing <= sys.modules.keys()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)

"""Games of gymnax and XLand-MiniGrid as streams, beside the libraries' own stepping."""

import subprocess
import sys

import gymnax
import jax
import numpy as np
import pytest
import xminigrid

from sidequest.environments import suites
from tests.environments.streams import check_batch_is_loop, check_stream, lengths, play_many

PLAYED = ["minatar:breakout", "bsuite:deep_sea", "classic:cartpole"]
MINATAR = [name for name in suites.GYMNAX if name.startswith("minatar:")]


@pytest.fixture(scope="module")
def short():
    return suites.make_minigrid("minigrid:empty_random_5x5", max_steps=20)


@pytest.mark.parametrize("name", PLAYED)
def test_is_the_stream_that_gymnax_plays(name):
    """gymnax resets in the same step too, and splits its keys as we do."""
    game, ours = suites.GYMNAX[name], suites.make_gymnax(name)
    theirs, params = gymnax.make(game.identifier, **game.constructor)
    params = params.replace(**game.params)
    keys = jax.random.split(jax.random.key(5), 60)
    actions = jax.random.randint(keys[0], (60,), 0, ours.spec.num_actions)
    our_step, ends = jax.jit(ours.step), 0
    our_state, timestep = jax.jit(ours.reset)(keys[0])
    their_step = jax.jit(theirs.step)
    observation, their_state = jax.jit(theirs.reset)(keys[0], params)
    np.testing.assert_array_equal(timestep.observation, observation)
    for key, action in zip(keys[1:], actions[1:], strict=True):
        our_state, timestep = our_step(key, our_state, action)
        observation, their_state, reward, terminated, truncated, _ = their_step(
            key, their_state, action, params
        )
        np.testing.assert_allclose(timestep.observation, observation, 1e-5, 1e-7)
        assert timestep.reward == reward
        assert timestep.terminated == terminated
        assert timestep.truncated == (truncated and not terminated)
        ends += int(terminated)
    assert ends > 0


@pytest.mark.parametrize("name", PLAYED)
def test_keeps_the_stream_convention(name):
    environment = suites.make_gymnax(name)
    _, timesteps = play_many(environment, 0, streams=8, steps=200)
    check_stream(environment, timesteps)
    assert timesteps.terminated.any() and not timesteps.truncated.any()
    assert lengths(timesteps).max() <= environment.spec.max_steps


@pytest.mark.slow
def test_freeway_runs_out_of_time_and_never_ends():
    environment = suites.make_gymnax("minatar:freeway")
    _, timesteps = play_many(environment, 0, streams=2, steps=5_100)
    check_stream(environment, timesteps)
    assert set(lengths(timesteps)) == {environment.spec.max_steps} == {2_500}
    assert timesteps.truncated.any() and not timesteps.terminated.any()
    starts = timesteps.observation[timesteps.is_first]
    assert (starts[0] != starts[1]).any()  # other cars in the next episode


def test_mountain_car_has_a_thousand_steps_and_numbers_near_one():
    environment = suites.make_gymnax("classic:mountain_car")
    _, timesteps = play_many(environment, 0, streams=4, steps=2_100)
    check_stream(environment, timesteps)
    assert lengths(timesteps).max() == environment.spec.max_steps == 1_000
    assert 0.1 < np.abs(timesteps.observation).max(axis=(0, 1)).min() <= 1.0


def test_deep_sea_pays_who_always_goes_right():
    """Each step right costs 0.01 / size, and the chest at the end is worth 1."""
    environment = suites.make_gymnax("bsuite:deep_sea_10")
    state, _ = jax.jit(environment.reset)(jax.random.key(0))
    step, total = jax.jit(environment.step), 0.0
    for time in range(10):
        right = np.asarray(state.action_mapping)[state.row, state.column]
        state, timestep = step(jax.random.key(time), state, right)
        total += float(timestep.reward)
    assert timestep.terminated and timestep.is_first
    assert total == pytest.approx(1.0 - 0.01)


@pytest.mark.slow
@pytest.mark.parametrize("name", MINATAR)
def test_minatar_planes_are_zeros_and_ones(name):
    """So nothing is lost when they are stored as bytes."""
    game = suites.GYMNAX[name]
    environment, params = gymnax.make(game.identifier)
    with jax.disable_jit():  # a step takes less time than compiling it
        observation, state = environment.reset(jax.random.key(0), params)
        moved, *_ = environment.step(jax.random.key(1), state, 1, params)
    assert set(np.unique(observation)) == set(np.unique(moved)) == {0.0, 1.0}


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


def test_lists_every_game_of_the_library_that_has_a_goal():
    known = [name for name in xminigrid.registered_environments() if "XLand" not in name]
    ours = {f"MiniGrid-{identifier}" for identifier in suites.MINIGRID.values()}
    assert ours == set(known) - {"MiniGrid-Playground"}


def test_names_are_what_people_expect():
    assert suites.MINIGRID["minigrid:door_key_8x8"] == "DoorKey-8x8"
    assert suites.MINIGRID["minigrid:unlock_pickup"] == "UnlockPickUp"
    assert suites.MINIGRID["minigrid:memory_s16"] == "MemoryS16"
    assert suites.MINIGRID["minigrid:empty_random_6x6"] == "EmptyRandom-6x6"


def test_time_limit_and_goal_are_told_apart(short):
    """In a room of 3x3 a random walk sometimes finds the goal within 20 steps."""
    _, timesteps = play_many(short, 0, streams=3, steps=300)
    check_stream(short, timesteps)
    assert timesteps.terminated.any() and timesteps.truncated.any()
    assert lengths(timesteps).max() == short.spec.max_steps == 20
    # Only the goal pays, less the later: 1 - 0.9 t / 20.
    np.testing.assert_array_equal(timesteps.reward > 0, timesteps.terminated)
    for stream in range(3):
        starts = np.flatnonzero(timesteps.is_first[stream])
        for begin, end in zip(starts[:-1], starts[1:], strict=True):
            paid = 1 - 0.9 * (end - begin) / 20
            expected = paid if timesteps.terminated[stream, end] else 0.0
            np.testing.assert_allclose(timesteps.reward[stream, end], expected, 1e-6)


def test_a_batch_is_the_streams_one_by_one(short):
    check_batch_is_loop(short, steps=300)


def test_every_episode_has_a_level_of_its_own(short):
    _, timesteps = play_many(short, 0, streams=3, steps=300)
    later = timesteps.observation[:, 1:][timesteps.is_first[:, 1:]]
    assert len(np.unique(later, axis=0)) > 1


def test_is_the_game_that_the_library_plays():
    environment = suites.make_minigrid("minigrid:memory_s8")
    theirs, params = xminigrid.make("MiniGrid-MemoryS8")
    our_step, their_step = jax.jit(environment.step), jax.jit(theirs.step)
    state, ours = jax.jit(environment.reset)(jax.random.key(4))
    expected = jax.jit(theirs.reset)(params, jax.random.key(4))
    actions = iter(np.random.default_rng(0).integers(0, 6, 400, np.int32))
    for time in range(400):
        np.testing.assert_array_equal(ours.observation, expected.observation)
        key, action = jax.random.key(time), next(actions)
        state, ours = our_step(key, state, action)
        expected = their_step(params, expected, action)
        assert ours.reward == expected.reward
        assert ours.is_first == expected.last()
        assert ours.terminated == (expected.discount == 0)
        if expected.last():
            break
    assert ours.is_first

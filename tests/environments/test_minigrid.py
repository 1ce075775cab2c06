"""XLand-MiniGrid's games as streams, beside the library's own stepping."""

import jax
import numpy as np
import xminigrid

from sidequest.environments import minigrid
from tests.environments.streams import (
    check_batch_is_loop,
    check_stream,
    lengths,
    play_many,
)

SHORT = minigrid.make("minigrid:empty_random_5x5", max_steps=20)


def test_lists_every_game_of_the_library_that_has_a_goal():
    known = [name for name in xminigrid.registered_environments() if "XLand" not in name]
    ours = {f"MiniGrid-{identifier}" for identifier in minigrid.GAMES.values()}
    assert ours == set(known) - {"MiniGrid-Playground"}


def test_names_are_what_people_expect():
    assert minigrid.GAMES["minigrid:door_key_8x8"] == "DoorKey-8x8"
    assert minigrid.GAMES["minigrid:unlock_pickup"] == "UnlockPickUp"
    assert minigrid.GAMES["minigrid:memory_s16"] == "MemoryS16"
    assert minigrid.GAMES["minigrid:empty_random_6x6"] == "EmptyRandom-6x6"


def test_time_limit_and_goal_are_told_apart():
    """In a room of 3x3 a random walk sometimes finds the goal within 20 steps."""
    _, timesteps = play_many(SHORT, 0, streams=3, steps=300)
    check_stream(SHORT, timesteps)
    assert timesteps.terminated.any() and timesteps.truncated.any()
    assert lengths(timesteps).max() == SHORT.spec.max_steps == 20
    # Only the goal pays, less the later: 1 - 0.9 t / 20.
    np.testing.assert_array_equal(timesteps.reward > 0, timesteps.terminated)
    for stream in range(3):
        starts = np.flatnonzero(timesteps.is_first[stream])
        for begin, end in zip(starts[:-1], starts[1:], strict=True):
            paid = 1 - 0.9 * (end - begin) / 20
            expected = paid if timesteps.terminated[stream, end] else 0.0
            np.testing.assert_allclose(timesteps.reward[stream, end], expected, 1e-6)


def test_a_batch_is_the_streams_one_by_one():
    check_batch_is_loop(SHORT, steps=300)


def test_every_episode_has_a_level_of_its_own():
    _, timesteps = play_many(SHORT, 0, streams=3, steps=300)
    later = timesteps.observation[:, 1:][timesteps.is_first[:, 1:]]
    assert len(np.unique(later, axis=0)) > 1


def test_is_the_game_that_the_library_plays():
    environment = minigrid.make("minigrid:memory_s8")
    theirs, params = xminigrid.make("MiniGrid-MemoryS8")
    our_step, their_step = jax.jit(environment.step), jax.jit(theirs.step)
    state, ours = environment.reset(jax.random.key(4))
    expected = theirs.reset(params, jax.random.key(4))
    for time in range(400):
        np.testing.assert_array_equal(ours.observation, expected.observation)
        key = jax.random.key(time)
        action = jax.random.randint(key, (), 0, environment.spec.num_actions)
        state, ours = our_step(key, state, action)
        expected = their_step(params, expected, action)
        assert ours.reward == expected.reward
        assert ours.is_first == expected.last()
        assert ours.terminated == (expected.discount == 0)
        if expected.last():
            break
    assert ours.is_first

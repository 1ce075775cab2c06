"""The helper that makes streams of episodes, on a game worked out by hand."""

import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sidequest.environments.base import (
    EnvironmentSpec,
    auto_reset,
    with_sticky_actions,
)
from tests.environments.streams import (
    check_batch_is_loop,
    check_stream,
    play_many,
)

SPEC = EnvironmentSpec("walk", (1,), np.dtype(np.uint8), num_actions=2, max_steps=4)


def walk(spec=SPEC):
    """Starts at 10 or 20. Action 1 goes one up, and ends the game three up.

    Pays how far up an action leads. Four steps are the time limit.
    """

    def reset(key):
        place = jnp.where(jax.random.bernoulli(key), 10, 20)
        return {"start": place, "place": place, "time": 0}, place[None]

    def step(key, state, action):
        del key
        place, time = state["place"] + action, state["time"] + 1
        state = {"start": state["start"], "place": place, "time": time}
        height = place - state["start"]
        return state, place[None], height, height == 3, time == 4

    return auto_reset(reset, step, spec)


WALK = walk()


def stream(actions):
    """The rows of the stream that these actions make."""
    state, timestep = WALK.reset(jax.random.key(0))
    rows = [row(timestep, state["start"])]
    for seed, action in enumerate(actions):
        state, timestep = WALK.step(jax.random.key(seed), state, jnp.asarray(action))
        rows.append(row(timestep, state["start"]))
    return rows


def row(timestep, start):
    """Observation (counted from the episode's start), reward and the three flags."""
    flags = timestep.is_first, timestep.terminated, timestep.truncated
    shown = int(timestep.observation[0]) - int(start)
    return shown, float(timestep.reward), *map(int, flags)


def test_an_episode_that_terminates():
    assert stream([1, 1, 1, 1]) == [
        # observation, reward, is_first, terminated, truncated
        (0, 0, 1, 0, 0),
        (1, 1, 0, 0, 0),
        (2, 2, 0, 0, 0),
        (0, 3, 1, 1, 0),  # the old episode's last reward, the new one's first place
        (1, 1, 0, 0, 0),
    ]


def test_an_episode_that_runs_out_of_time():
    assert stream([0, 1, 0, 1, 1]) == [
        (0, 0, 1, 0, 0),
        (0, 0, 0, 0, 0),
        (1, 1, 0, 0, 0),
        (1, 1, 0, 0, 0),
        (0, 2, 1, 0, 1),
        (1, 1, 0, 0, 0),
    ]


def test_an_end_on_the_last_step_is_a_termination():
    assert stream([0, 1, 1, 1])[-1] == (0, 3, 1, 1, 0)


def test_the_next_episode_starts_anew():
    _, timesteps = play_many(WALK, 0, streams=2, steps=50)
    check_stream(WALK, timesteps)
    later = timesteps.observation[:, 1:][timesteps.is_first[:, 1:]]
    assert set(later.ravel()) == {10, 20}


def test_a_batch_is_the_streams_one_by_one():
    check_batch_is_loop(WALK, steps=30)


def test_same_key_same_stream_other_key_other_stream():
    one, same, other = (play_many(WALK, seed, streams=2, steps=50)[1] for seed in (0, 0, 1))
    jax.tree.map(np.testing.assert_array_equal, one, same)
    assert (one.observation != other.observation).any()


def echo():
    """Pays the number of the action that was played; episodes last four steps."""
    spec = EnvironmentSpec("echo", (1,), np.dtype(np.float32), 3, max_steps=4)

    def step(key, time, action):
        return time + 1, jnp.zeros(1), 1.0 * action, time == 3, jnp.bool_(False)

    return auto_reset(lambda key: (jnp.int32(0), jnp.zeros(1)), step, spec)


def test_a_sticky_action_is_the_one_played_before():
    actions, timesteps = play_many(
        with_sticky_actions(echo(), 0.25), 0, streams=64, steps=400
    )
    check_stream(echo(), timesteps)
    chosen, played = actions, timesteps.reward[:, 1:].astype(int)
    starts = timesteps.is_first[:, :-1]
    np.testing.assert_array_equal(played[starts], chosen[starts])
    before = np.roll(played, 1, axis=1)
    later = ~starts
    later[:, 0] = False
    stuck = later & (played != chosen)
    np.testing.assert_array_equal(played[stuck], before[stuck])
    # Where the new action differs from the one before, a quarter sticks.
    differs = later & (chosen != before)
    share, count = stuck[differs].mean(), differs.sum()
    assert abs(share - 0.25) < 4 * np.sqrt(0.25 * 0.75 / count)


def test_without_stickiness_an_environment_is_left_alone():
    assert with_sticky_actions(WALK, 0.0) is WALK


def test_raw_keys_work_as_well():
    state, timestep = WALK.reset(jax.random.PRNGKey(0))
    WALK.step(jax.random.PRNGKey(1), state, jnp.asarray(1))
    assert timestep.is_first


def test_a_wrong_shape_is_named():
    environment = walk(SPEC._replace(observation_shape=(2,)))
    with pytest.raises(ValueError, match=r"walk .* \(1,\), its spec says \(2,\)"):
        environment.reset(jax.random.key(0))


def test_no_game_library_is_imported_before_it_is_used():
    program = (
        "import sys; from sidequest.environments import registry; registry.games();"
        "registry.check('minigrid:door_key_8x8'); registry.check('frostbite');"
        "bad = {'gymnax', 'xminigrid', 'ale_py', 'gymnasium'} & set(sys.modules);"
        "sys.exit(str(bad) if bad else 0)"
    )
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", program], check=True, cwd=root)

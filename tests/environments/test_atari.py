"""Atari by ALE's vector environment, beside an independent path by Gymnasium."""

import ale_py
import gymnasium
import numpy as np
import pytest

from sidequest.environments import atari

SEVEN = {
    "frostbite": "ALE/Frostbite-v5",
    "gravitar": "ALE/Gravitar-v5",
    "hero": "ALE/Hero-v5",
    "montezuma_revenge": "ALE/MontezumaRevenge-v5",
    "ms_pacman": "ALE/MsPacman-v5",
    "phoenix": "ALE/Phoenix-v5",
    "star_gunner": "ALE/StarGunner-v5",
}


SLOW = pytest.mark.slow


def make_group(game="frostbite", *, streams=1, seed=0, **settings):
    (group,) = atari.build_groups(
        game, groups=1, environments=streams, seed=seed, threads=2, **settings
    )
    return group


def play(group, actions):
    """Timesteps [T + 1] of arrays [B, ...] that follow actions [T, B]."""
    timesteps = [group.recv()]
    for action in actions:
        group.send(action)
        timesteps.append(group.recv())
    return timesteps


def random_actions(steps, streams=1, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 18, (steps, streams), np.int32)


class Single:
    """One of Gymnasium's environments, frame by frame, with our own repeat and max."""

    def __init__(self, identifier):
        gymnasium.register_envs(ale_py)
        self._game = gymnasium.make(
            identifier,
            frameskip=1,
            repeat_action_probability=0.0,
            full_action_space=True,
            disable_env_checker=True,
        )

    def reset(self):
        return self._game.reset()[0]

    def step(self, action):
        frames, total = [], 0.0
        for _ in range(4):
            frame, reward, terminated, truncated, _ = self._game.step(action)
            assert not truncated
            frames.append(frame)
            total += reward
            if terminated:
                return self.reset(), total, True
        return np.maximum(frames[-1], frames[-2]), total, False


@pytest.mark.parametrize(
    "game",
    [
        game if game in ("gravitar", "ms_pacman") else pytest.param(game, marks=SLOW)
        for game in SEVEN
    ],
)
def test_same_frames_and_rewards_as_a_single_environment(game):
    check_against_single(game, steps=150)


def test_same_frames_and_rewards_across_game_over():
    ends, paid = check_against_single("frostbite", steps=700)
    assert ends > 0 and paid > 0


def check_against_single(game, steps):
    actions = random_actions(steps)
    group, single = make_group(game, sticky=0.0), Single(SEVEN[game])
    first, *rest = play(group, actions)
    np.testing.assert_array_equal(first.observation[0], single.reset())
    ends = paid = 0
    for timestep, action in zip(rest, actions[:, 0], strict=True):
        frame, reward, terminated = single.step(action)
        np.testing.assert_array_equal(timestep.observation[0], frame)
        assert timestep.reward[0] == reward
        assert timestep.terminated[0] == timestep.is_first[0] == terminated
        assert not timestep.truncated[0]
        ends, paid = ends + terminated, paid + reward
    return ends, paid


def test_stream_convention_and_spec():
    group = make_group(streams=3)
    first, *rest = play(group, random_actions(20, 3))
    assert first.is_first.all() and not first.reward.any()
    assert not first.terminated.any() and not first.truncated.any()
    for timestep in (first, *rest):
        assert timestep.observation.shape == (3, *group.spec.observation_shape)
        assert timestep.observation.dtype == group.spec.observation_dtype
        assert timestep.observation.flags.c_contiguous
        assert timestep.reward.dtype == np.float32
        assert timestep.reward.shape == timestep.is_first.shape == (3,)
    assert not any(timestep.is_first.any() for timestep in rest)


def test_running_out_of_time_is_not_game_over():
    """40 frames are 10 steps; the next episode shows its first frame at once."""
    group = make_group(streams=2, max_frames=40)
    assert group.spec.max_steps == 10
    timesteps = play(group, random_actions(25, 2))
    for time, timestep in enumerate(timesteps):
        assert (timestep.truncated == (time in (10, 20))).all()
        assert (timestep.is_first == (time in (0, 10, 20))).all()
        assert not timestep.terminated.any()
    for time in (10, 20):
        first, again = timesteps[0].observation, timesteps[time].observation
        np.testing.assert_array_equal(first, again)


def frames(seed, streams=2, steps=50):
    actions = np.repeat(random_actions(steps), streams, axis=1)
    timesteps = play(make_group(seed=seed, streams=streams), actions)
    return np.stack([timestep.observation for timestep in timesteps])


def test_one_seed_fixes_all_frames():
    one, same, other = frames(7), frames(7), frames(8)
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()
    # The same actions stick at different moments in the two emulators.
    assert (one[:, 0] != one[:, 1]).any()


def test_seeds_are_distinct_and_prefixes_agree():
    seeds = atari.emulator_seeds(0, 1000)
    assert len(set(seeds)) == 1000 and seeds.min() >= 0
    np.testing.assert_array_equal(seeds[:10], atari.emulator_seeds(0, 10))
    assert not set(seeds) & set(atari.emulator_seeds(1, 1000))


def test_groups_in_flight_are_the_groups_one_by_one():
    actions = random_actions(30, 2)
    settings = {"groups": 2, "environments": 2, "seed": 3, "threads": 1}
    together, alone = (atari.build_groups("pong", **settings) for _ in range(2))
    expected = [play(group, actions) for group in alone]
    received = [[group.recv()] for group in together]
    for action in actions:
        for group in together:
            group.send(action)
        for group, timesteps in zip(together, received, strict=True):
            timesteps.append(group.recv())
    for ours, theirs in zip(received, expected, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            for x, y in zip(one, other, strict=True):
                np.testing.assert_array_equal(x, y)


def test_frames_that_were_received_stay_as_they_are():
    timesteps, copies = [], []
    group = make_group(streams=2)
    timesteps.append(group.recv())
    for action in random_actions(30, 2):
        copies.append(timesteps[-1].observation.copy())
        group.send(action)
        timesteps.append(group.recv())
    for timestep, copy in zip(timesteps, copies, strict=False):
        np.testing.assert_array_equal(timestep.observation, copy)


def test_progress_counts_emulators():
    seen = []
    atari.build_groups(
        "pong", groups=2, environments=3, seed=0, progress=lambda *n: seen.append(n)
    )
    assert seen == [(3, 6), (6, 6)]


def test_mistakes_raise_where_ale_would_wait_for_ever():
    group = make_group()
    with pytest.raises(RuntimeError, match="before recv"):
        group.send(np.zeros(1, np.int32))
    group.recv()
    with pytest.raises(RuntimeError, match="without a send"):
        group.recv()
    with pytest.raises(ValueError, match=r"0\.\.17"):
        group.send(np.array([18], np.int32))
    group.send(np.zeros(1, np.int32))
    group.close()  # with an action in flight
    group.close()


@pytest.mark.parametrize("game", ["combat", "frostbit"])
def test_a_game_that_would_end_the_process_is_refused(game):
    with pytest.raises(ValueError, match=game):
        atari.make(game)


def test_games_with_another_screen_keep_it():
    assert atari.make("air_raid").spec.observation_shape == (250, 160, 3)
    assert make_group("air_raid").recv().observation.shape == (1, 250, 160, 3)


def test_lists_the_games_that_ale_ships():
    shipped = set(ale_py.roms.get_all_rom_ids())
    alone = {game for game in gymnasium.registry if game.startswith("ALE/")}
    assert set(atari.rom_names()) <= shipped
    assert len(atari.rom_names()) == len(alone) == 104

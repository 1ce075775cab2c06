"""One episode, step by step, on games where every number is known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sidequest.config import change
from sidequest.environments.base import EnvironmentSpec, HostedGame, auto_reset
from sidequest.runs.evaluation import make_evaluator, play_episode
from sidequest.types import Timestep
from tests.runs.left import fresh_player
from tests.runs.tiny import TINY

SPEC = EnvironmentSpec("stairs", (1,), np.dtype(np.float32), 3)
VARIANT = "XU-intra(2,blind,3,G)"
STEPS = 9


def stairs(spec=SPEC, truncates=False):
    """Shows the number of the step, t, and pays 10 t and the action's number on top."""

    def step(key, t, action):
        over = t + 1 == STEPS
        reward = 10.0 * t + action
        return t + 1, (t + 1.0)[None], reward, over & (not truncates), over & truncates

    return auto_reset(lambda key: (jnp.int32(0), jnp.zeros(1)), step, spec)


class Stairs:
    """The same on the host."""

    spec = SPEC

    def __init__(self):
        self.t, self.closed = 0, False
        no = np.zeros(1, bool)
        self.shown = Timestep(
            np.zeros((1, 1), np.float32), np.zeros(1, np.float32), no, no, ~no
        )

    def send(self, actions):
        over = np.array([self.t + 1 == STEPS])
        reward = (10.0 * self.t + actions).astype(np.float32)
        self.t = 0 if over[0] else self.t + 1
        observation = np.full((1, 1), self.t, np.float32)
        self.shown = Timestep(observation, reward, over, ~over & False, over)

    def recv(self):
        return self.shown

    def close(self):
        self.closed = True


def modes(episode) -> str:
    return "".join("X" if mode else "G" for mode in episode.trace.modes)


@pytest.fixture(scope="module")
def whole():
    player = fresh_player(stairs(), VARIANT, TINY)
    heard = []
    return player, play_episode(player, seed=0, max_steps=100, report=heard.append), heard


def test_the_variant_decides_the_modes(whole):
    _, episode, heard = whole
    assert modes(episode) == "GGGXXGGGX"
    assert heard == list(range(1, STEPS + 1))
    # A counter's probability is 1 at a switch and 0 elsewhere, and it has no signal.
    switches = np.array([0, 0, 0, 1, 0, 1, 0, 0, 1])
    np.testing.assert_array_equal(episode.trace.probability, switches)
    assert np.isnan(episode.trace.signal).all()


def test_a_step_has_what_its_own_action_brought(whole):
    _, episode, _ = whole
    np.testing.assert_array_equal(episode.observations[:, 0], np.arange(STEPS))
    np.testing.assert_array_equal(episode.trace.reward // 10, np.arange(STEPS))
    np.testing.assert_array_equal(episode.trace.is_first, np.arange(STEPS) == 0)
    assert episode.ending == "game over"


def test_the_seed_decides(whole):
    player, episode, _ = whole
    other = play_episode(player, seed=1, max_steps=100)
    assert modes(other) == modes(episode)
    assert (episode.trace.reward != other.trace.reward).any()


def test_a_long_episode_is_cut(whole):
    player, episode, _ = whole
    short = play_episode(player, seed=0, max_steps=4)
    assert short.ending == "cut" and modes(short) == "GGGX"
    np.testing.assert_array_equal(short.trace.reward, episode.trace.reward[:4])


def test_a_hosted_game_is_played_like_a_compiled_one(whole):
    _, compiled, _ = whole
    group = Stairs()
    asked = []

    def build(**how):
        asked.append(how)
        return [group]

    player = fresh_player(HostedGame(build, SPEC), VARIANT, TINY)
    hosted = play_episode(player, seed=0, max_steps=100)
    jax.tree.map(np.testing.assert_array_equal, hosted, compiled)
    assert asked == [{"groups": 1, "environments": 1, "seed": 0}] and group.closed


class Painting(Stairs):
    """Paints itself in the sizes that it is given, one a step."""

    def __init__(self, sizes):
        super().__init__()
        self.sizes = sizes

    def render(self):
        size = self.sizes[self.t]
        return None if size is None else np.full((size, 8, 3), self.t, np.uint8)


@pytest.mark.parametrize("sizes", [[8] * 3, [8, 8, None], [None, 8, 8], [8, 9, 8]])
def test_frames_are_kept_if_there_is_one_of_each_step_in_one_size(sizes):
    game = HostedGame(lambda **_: [Painting(sizes + [8])], SPEC, renders=True)
    player = fresh_player(game, VARIANT, TINY)
    frames = play_episode(player, seed=0, max_steps=3).frames
    assert (frames is not None) == (sizes == [8] * 3)
    assert frames is None or frames[:, 0, 0, 0].tolist() == [0, 1, 2]


def test_a_greedy_episode_is_the_evaluators():
    player = fresh_player(stairs(), "XU-experiment-level-X", TINY)
    explored = play_episode(player, seed=0, max_steps=100)
    greedy = play_episode(player, seed=0, max_steps=100, greedy=True)
    assert modes(explored) == "X" * STEPS and modes(greedy) == "G" * STEPS
    evaluate = jax.jit(make_evaluator(player.game, 2))
    scores = evaluate(jax.random.key(5), player.q_function)
    np.testing.assert_array_equal(scores.episode_return, [greedy.trace.reward.sum()] * 2)
    assert explored.trace.reward.sum() != greedy.trace.reward.sum()


def test_an_informed_variant_shows_its_signal_up_to_a_time_limit():
    config = change(TINY, **{"switching.promise_horizon": 2})
    player = fresh_player(stairs(truncates=True), "XU-intra(1,informed,0.1,G)", config)
    episode = play_episode(player, seed=0, max_steps=100)
    # It is known from step 2 on, at the steps that an exploit period may end before.
    before = np.append(False, episode.trace.modes[:-1])
    expected = (np.arange(STEPS) >= 2) & ~before
    np.testing.assert_array_equal(np.isfinite(episode.trace.signal), expected)
    assert np.nanmin(episode.trace.signal) > 0
    assert episode.ending == "time limit"

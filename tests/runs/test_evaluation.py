"""The greedy evaluator on players and games whose scores are known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sidequest.agent.lstm import CoreState
from sidequest.agent.networks import QFunction
from sidequest.environments import probes
from sidequest.environments.base import EnvironmentSpec, HostedGame, auto_reset
from sidequest.runs import evaluation
from sidequest.runs.evaluation import evaluate_hosted, evaluate_run, make_evaluator
from sidequest.types import Timestep
from tests.runs.left import TINY_FRAMES, leave_run
from tests.runs.tiny import TINY


class Rememberer(QFunction):
    """Acts by the first observation of an episode; a second head wants the opposite."""

    sign: jax.Array

    def __init__(self, sign):
        self.network = self.normalisation = None
        self.sign = jnp.float32(sign)

    def initial_state(self):
        return CoreState(jnp.zeros(1), jnp.zeros(1))

    def step(self, inputs, core):
        cue = jnp.where(inputs.is_first, inputs.observation[0], core.cell[0])
        q = self.sign * jnp.stack([-cue, cue])
        return jnp.stack([q, -q]), CoreState(core.hidden, cue[None])


def play(environment, network, episodes, seed=0):
    run = jax.jit(make_evaluator(environment, episodes))
    return jax.tree.map(np.asarray, run(jax.random.key(seed), network))


def test_the_extrinsic_head_plays_greedily():
    environment = probes.memory(2).environment
    right = play(environment, Rememberer(1.0), 16)
    # The reward for the last action comes with the first step of the next episode.
    np.testing.assert_array_equal(right.episode_return, np.ones(16))
    np.testing.assert_array_equal(right.length, np.full(16, 3))
    wrong = play(environment, Rememberer(-1.0), 16)
    np.testing.assert_array_equal(wrong.episode_return, -np.ones(16))


def gamble(ends: float, **limits):
    """Every step pays 1 and may be the last."""
    spec = EnvironmentSpec("gamble", (1,), np.dtype(np.float32), 2, **limits)

    def step(key, state, action):
        over = jax.random.bernoulli(key, ends)
        return state, jnp.zeros(1), 1.0, over, jnp.bool_(False)

    return auto_reset(lambda key: (0, jnp.zeros(1)), step, spec)


def test_each_episode_is_played_to_its_end_and_no_further():
    scores = play(gamble(0.3), Rememberer(1.0), 64)
    np.testing.assert_array_equal(scores.episode_return, scores.length)
    assert scores.length.min() == 1 and scores.length.max() > 8
    # The mean of a geometric distribution, within four standard errors.
    assert abs(scores.length.mean() - 1 / 0.3) < 4 * np.sqrt(0.7) / 0.3 / 8


def test_the_seed_decides():
    environment, player = gamble(0.3), Rememberer(1.0)
    run = jax.jit(make_evaluator(environment, 64))
    one, same, other = (run(jax.random.key(seed), player) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.length, same.length)
    assert (one.length != other.length).any()


def test_endless_episodes_are_cut_off(monkeypatch):
    monkeypatch.setattr(evaluation, "LONGEST", 20)
    scores = play(gamble(0.0), Rememberer(1.0), 2)
    np.testing.assert_array_equal(scores.length, [20, 20])
    scores = play(gamble(0.0, max_steps=7), Rememberer(1.0), 2)
    np.testing.assert_array_equal(scores.episode_return, [7.0, 7.0])


class Stubborn(Rememberer):
    """Takes one action, whatever it sees; of a network it has the memory only."""

    def step(self, inputs, core):
        return jnp.stack([jnp.arange(4.0) == 2, jnp.arange(4.0) == 0]), core


class Group:
    """Emulators that pay the action's number; emulator i ends after `lengths[i]` steps."""

    spec = EnvironmentSpec("told", (1,), np.dtype(np.float32), 4)

    def __init__(self, lengths):
        self.lengths, self.steps, self.closed = np.array(lengths), 0, False
        self.reward = np.zeros(len(lengths), np.float32)

    def send(self, actions):
        self.reward = actions.astype(np.float32)
        self.steps += 1

    def recv(self):
        over = self.steps % self.lengths == 0
        ended = over & (self.steps > 0)
        shown = np.zeros((len(over), 1), np.float32)
        return Timestep(shown, self.reward, ended, np.zeros_like(over), over)

    def close(self):
        self.closed = True


def evaluate_group(lengths, episodes):
    group, heard = Group(lengths), []

    def build(*, groups, streams, seed):
        assert (groups, streams, seed) == (1, len(lengths), 9)
        return [group]

    game = HostedGame(build, Group.spec)
    report = lambda *told: heard.append(told)  # noqa: E731
    scores = evaluate_hosted(game, Stubborn(1.0), episodes, 9, report)
    assert group.closed
    return scores, heard


def test_emulators_play_the_share_that_each_was_given():
    scores, heard = evaluate_group([3, 7], episodes=2)
    # The quick emulator has ended twice before the other has once; its second is not asked.
    np.testing.assert_array_equal(scores.length, [3, 7])
    np.testing.assert_array_equal(scores.episode_return, [6.0, 14.0])
    assert heard[-1] == (2, 14) and heard[2] == (1, 6)


def test_episodes_are_shared_out_evenly(monkeypatch):
    monkeypatch.setattr(evaluation, "EMULATORS", 3)
    scores, _ = evaluate_group([2, 5, 4], episodes=5)
    np.testing.assert_array_equal(scores.length, [2, 2, 5, 5, 4])
    np.testing.assert_array_equal(scores.episode_return, 2 * scores.length)


def test_an_atari_run_is_played_and_compared_with_a_human(tmp_path):
    folder = leave_run(tmp_path, "XU-step-level-0.01", "pong", TINY_FRAMES)
    heard = []
    scores = evaluate_run(folder, 1, 0, lambda *told: heard.append(told))
    # Nobody who was never taught wins a game of 21 points.
    assert scores["episodes"] == 1 and len(scores["returns"]) == 1
    assert -21 <= scores["min"] <= scores["mean"] <= scores["max"] <= -18
    assert scores["human_normalised"] == pytest.approx((scores["mean"] + 20.7) / 35.3)
    assert 700 < scores["length"] < 2_000 and heard[-1][0] == 1


def test_a_game_that_no_human_played_has_no_such_score(tmp_path):
    folder = leave_run(tmp_path, "XU-step-level-0.01", "probe:constant", TINY)
    scores = evaluate_run(folder, 3, 0)
    assert scores["human_normalised"] is None
    assert scores["returns"] == [1.0, 1.0, 1.0] and scores["length"] == 1.0
    assert (scores["game"], scores["seed"]) == ("probe:constant", 3)

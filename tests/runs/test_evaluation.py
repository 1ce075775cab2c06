"""The greedy evaluator on players and games whose scores are known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sidequest.agent.networks import CoreState, RecurrentQNetwork
from sidequest.environments import probes
from sidequest.environments.base import EnvironmentSpec, auto_reset
from sidequest.runs import evaluation
from sidequest.runs.evaluation import make_evaluator

pytestmark = pytest.mark.usefixtures("quick_compilation")


class Rememberer(RecurrentQNetwork):
    """Acts by the first observation of an episode; a second head wants the opposite."""

    sign: jax.Array

    def __init__(self, sign):
        self.torso = self.core = self.post = self.heads = self.spec = None
        self.num_actions = self.compute_dtype = self.scan_unroll = self.recurrent = None
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

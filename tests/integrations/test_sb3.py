"""The switch in Stable-Baselines3's DQN and sb3-contrib's QR-DQN."""

import csv

import numpy as np
import pytest
import torch
from sb3_contrib import QRDQN
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import configure
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from sidequest.integrations.sb3 import with_switch
from tests.integrations.games import Countdown, Recorder

VARIANT = "XU-intra(3,informed,0.2,G)"
SETTINGS = {
    **{
        "learning_starts": 0,
        "gamma": 0.9,
        "seed": 0,
        "buffer_size": 1_000,
        "train_freq": 1,
    },
}


class Watch(BaseCallback):
    """Keeps what a callback sees of each step."""

    def __init__(self):
        super().__init__()
        self.explored, self.actions, self.values, self.greedy = [], [], [], []

    def _on_step(self) -> bool:
        model = self.model
        self.explored.append(model.explored.copy())
        self.actions.append(self.locals["actions"].copy())
        observations = torch.as_tensor(model._last_obs)
        with torch.no_grad():
            if isinstance(model, DQN):
                q_values = model.q_net(observations)
            else:
                q_values = model.quantile_net(observations).mean(1)
        self.values.append(q_values.max(1).values.numpy())
        self.greedy.append(q_values.argmax(1).numpy())
        return True


def countdowns():
    return DummyVecEnv([Countdown, lambda: Countdown(first_length=2)])


@pytest.mark.parametrize("algorithm", [DQN, QRDQN])
def test_the_switch_is_told_what_happened(algorithm):
    model = with_switch(algorithm, VARIANT)("MlpPolicy", countdowns(), **SETTINGS)
    modes = np.random.default_rng(0).random((300, 2)) < 0.5
    model.switch = recorder = Recorder(modes)
    watch = Watch()
    model.learn(24, callback=watch)
    # Environment 0 plays episodes of 4 steps, environment 1 one of 2 steps before those.
    # The last reward of an episode comes with the first observation of the next one; odd
    # episodes terminate (discount 0), even ones run out of time.
    np.testing.assert_array_equal(
        recorder.told("reward").T,
        [
            [0, 11, 12, 13, 14, 21, 22, 23, 24, 31, 32, 33],
            [0, 11, 12, 21, 22, 23, 24, 31, 32, 33, 34, 41],
        ],
    )
    first = [[1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0], [1, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0]]
    np.testing.assert_array_equal(recorder.told("is_first").T, np.array(first, bool))
    discount = np.full((2, 12), 0.9)
    discount[0, 4] = discount[1, 2] = discount[1, 10] = 0.0
    np.testing.assert_allclose(recorder.told("discount").T, discount)
    np.testing.assert_allclose(recorder.told("value"), watch.values, rtol=1e-6)
    # Who explores is answered, and only they leave the greedy action.
    np.testing.assert_array_equal(watch.explored, modes[:12])
    differs = np.array(watch.actions) != watch.greedy
    assert not differs[~modes[:12]].any()
    assert differs[modes[:12]].any()


def test_explore_actions_are_uniform():
    model = with_switch(DQN, "XU-experiment-level-X")("MlpPolicy", countdowns(), **SETTINGS)
    watch = Watch()
    model.learn(1_200, callback=watch)
    counts = np.bincount(np.ravel(watch.actions), minlength=3)
    assert np.abs(counts - 400).max() < 4 * np.sqrt(1200 * 2 / 9)  # four standard errors
    assert model.exploration_rate == 1.0


def test_the_first_steps_before_learning_count_as_exploration():
    settings = SETTINGS | {"learning_starts": 8}
    model = with_switch(DQN, "XU-experiment-level-G")("MlpPolicy", countdowns(), **settings)
    watch = Watch()
    model.learn(16, callback=watch)
    assert np.array(watch.explored).tolist() == [[True, True]] * 4 + [[False, False]] * 4
    assert model.exploration_rate == 0.5


def test_a_second_call_of_learn_starts_new_episodes():
    model = with_switch(DQN, VARIANT)("MlpPolicy", countdowns(), **SETTINGS)
    model.switch = recorder = Recorder(np.zeros((300, 2), bool))
    model.learn(4)
    model.learn(4, reset_num_timesteps=False)  # SB3 continues the episodes
    model.learn(4)  # SB3 resets the environments
    first = recorder.told("is_first")[:, 0]
    assert first.tolist() == [True, False, False, False, True, False]


def test_after_uniform_steps_the_switch_begins_new_episodes():
    settings = SETTINGS | {"learning_starts": 4}
    model = with_switch(DQN, VARIANT)("MlpPolicy", countdowns(), **settings)
    model.switch = recorder = Recorder(np.zeros((300, 2), bool))
    model.learn(12)  # 2 uniform steps, and 4 of the switch
    model.learn(12)  # SB3 resets the environments, and begins with uniform steps again
    first, reward = recorder.told("is_first")[:, 0], recorder.told("reward")[:, 0]
    assert first.tolist() == [True, False, True, False] * 2
    assert reward[[0, 4]].tolist() == [0, 0]  # what came before was not the switch's


def test_normalised_rewards_are_those_that_the_network_learns():
    env = VecNormalize(countdowns(), norm_obs=False, clip_reward=0.5)
    model = with_switch(DQN, VARIANT)("MlpPolicy", env, **SETTINGS)
    model.switch = recorder = Recorder(np.zeros((300, 2), bool))
    model.learn(20)
    assert recorder.told("reward").max() == 0.5


def test_the_log_says_how_much_was_explored(tmp_path):
    model = with_switch(DQN, VARIANT)("MlpPolicy", countdowns(), **SETTINGS)
    modes = np.zeros((300, 2), bool)
    modes[::2, 0] = True  # environment 0 explores at every other step: p_X = 1/4
    model.switch = Recorder(modes)
    model.set_logger(configure(str(tmp_path), ["csv"]))
    model.learn(64, log_interval=8)
    model.logger.close()
    with open(tmp_path / "progress.csv", newline="") as file:
        log = list(csv.DictReader(file))
    assert len(log) >= 2
    for row in log:
        assert float(row["switch/p_X"]) == pytest.approx(0.25, abs=0.02)
        assert row["rollout/exploration_rate"] == row["switch/p_X"]
        assert row["switch/modes"] in ("GG", "XG")


@pytest.mark.parametrize("algorithm", [DQN, QRDQN])
def test_predict_is_greedy_when_asked(algorithm):
    model = with_switch(algorithm, "XU-experiment-level-X")(
        "MlpPolicy", countdowns(), **SETTINGS
    )
    model.learn(32)
    observations = np.random.default_rng(0).uniform(0, 9, (50, 2)).astype(np.float32)
    before = model.switch.state_dict()
    actions, _ = model.predict(observations, deterministic=True)
    expected, _ = model.policy.predict(observations, deterministic=True)
    np.testing.assert_array_equal(actions, expected)
    assert_same(model.switch.state_dict(), before)  # playing is no training


def assert_same(state: dict, other: dict) -> None:
    assert state.keys() == other.keys()
    for name, data in state.items():
        np.testing.assert_array_equal(data, other[name], err_msg=name)


@pytest.mark.parametrize("algorithm", [DQN, QRDQN])
@pytest.mark.parametrize("variant", [VARIANT, "XU-intra(*,informed,p*,X)"])
def test_save_and_load(algorithm, variant, tmp_path):
    switched = with_switch(algorithm, variant)
    env = make_vec_env("CartPole-v1", 3, seed=1)
    model = switched("MlpPolicy", env, **SETTINGS)
    model.learn(300)
    model.save(tmp_path / "model")
    loaded = switched.load(tmp_path / "model", env=env)
    assert_same(loaded.switch.state_dict(), model.switch.state_dict())
    assert loaded.exploration_rate == model.exploration_rate
    for step in range(30):  # and they decide the same from there
        told = {"reward": step % 3, "value": np.arange(3.0) * step, "is_first": step == 9}
        np.testing.assert_array_equal(loaded.switch.step(**told), model.switch.step(**told))
    loaded.learn(30)


def test_load_refuses_another_variant_and_allows_other_sizes(tmp_path):
    model = with_switch(DQN, VARIANT)("MlpPolicy", countdowns(), **SETTINGS)
    model.save(tmp_path / "model")
    with pytest.raises(ValueError, match="saved with .*not XU-step-level-0.1"):
        with_switch(DQN, "XU-step-level-0.1").load(tmp_path / "model")
    alone = with_switch(DQN, VARIANT).load(tmp_path / "model", env=Countdown())
    alone.learn(5)
    assert alone.explored.shape == (1,)
    # A model without a switch gets one, and plain DQN plays what was trained with one.
    DQN("MlpPolicy", countdowns(), **SETTINGS).save(tmp_path / "plain")
    with_switch(DQN, VARIANT).load(tmp_path / "plain", env=countdowns()).learn(4)
    DQN.load(tmp_path / "model").predict(np.zeros(2), deterministic=True)


def test_options_and_seeds_reach_the_switch():
    switched = with_switch(DQN, "XU-intra(10,informed,p*,X)", arms=0.001)
    assert switched("MlpPolicy", countdowns(), **SETTINGS).switch.probabilities() == {}
    assert switched.__name__ == "SwitchedDQN"

    def modes(seed):
        model = with_switch(DQN, "XU-step-level-0.5")(
            "MlpPolicy", countdowns(), **SETTINGS | {"seed": seed}
        )
        watch = Watch()
        model.learn(80, callback=watch)
        return np.array(watch.explored)

    assert (modes(1) == modes(1)).all()
    assert (modes(1) != modes(2)).any()


@pytest.mark.parametrize(
    "variant", ["XI-intra(10,informed,p*,X)", "XU-intra(10,informed:variance,p*,X)"]
)
def test_variants_of_other_agents_are_refused(variant):
    with pytest.raises(ValueError, match="choose a variant of XU"):
        with_switch(DQN, variant)


def test_other_algorithms_are_refused():
    for other in (PPO, DQN.__new__(DQN), "DQN"):
        with pytest.raises(ValueError, match="with_switch is for DQN, QRDQN and their sub"):
            with_switch(other, "XU-intra(10,informed,0.01,G)")

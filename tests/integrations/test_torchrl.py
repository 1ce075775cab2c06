"""The switch in a TorchRL policy."""

import io

import numpy as np
import pytest
import torch
from tensordict.nn import TensorDictModule, TensorDictSequential
from torchrl.collectors import Collector
from torchrl.envs import GymWrapper, SerialEnv, TransformedEnv
from torchrl.envs.utils import ExplorationType, check_env_specs, set_exploration_type
from torchrl.modules import QValueModule

from sidequest.integrations.torchrl import SwitchModule, SwitchTracker
from tests.integrations.games import Countdown, Recorder

VARIANT = "XU-intra(3,informed,0.2,G)"


def make_env(batched: bool, categorical: bool) -> TransformedEnv:
    def make(**game):
        return GymWrapper(Countdown(**game), categorical_action_encoding=categorical)

    games = [make, lambda: make(first_length=2)]
    return TransformedEnv(SerialEnv(2, games) if batched else make(), SwitchTracker())


def make_policy(env: TransformedEnv, batched: bool, variant: str = VARIANT):
    torch.manual_seed(0)
    network = TensorDictModule(
        torch.nn.Linear(2, 3), in_keys=["observation"], out_keys=["action_value"]
    )
    switch = SwitchModule(variant, env.action_spec, streams=1 + batched, discount=0.9)
    greedy = QValueModule(spec=env.action_spec_unbatched)
    return TensorDictSequential(network, greedy, switch), switch


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("categorical", [False, True])
def test_the_switch_is_told_what_happened(batched, categorical):
    env = make_env(batched, categorical)
    policy, module = make_policy(env, batched)
    modes = np.random.default_rng(0).random((300, 1 + batched)) < 0.5
    module.switch = recorder = Recorder(modes)
    with set_exploration_type(ExplorationType.RANDOM):
        steps = env.rollout(12, policy, break_when_any_done=False)
    # As in test_sb3: the last reward of an episode comes with the next one's first
    # observation; odd episodes terminate, even ones run out of time.
    rewards = [0, 11, 12, 13, 14, 21, 22, 23, 24, 31, 32, 33]
    np.testing.assert_array_equal(recorder.told("reward")[:, 0], rewards)
    first = np.array([1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0], bool)
    np.testing.assert_array_equal(recorder.told("is_first")[:, 0], first)
    discounts = np.where(np.arange(12) == 4, 0.0, 0.9)
    np.testing.assert_allclose(recorder.told("discount")[:, 0], discounts)
    if batched:
        rewards = [0, 11, 12, 21, 22, 23, 24, 31, 32, 33, 34, 41]
        np.testing.assert_array_equal(recorder.told("reward")[:, 1], rewards)
        first = np.array([1, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0], bool)
        np.testing.assert_array_equal(recorder.told("is_first")[:, 1], first)
    values = steps["action_value"].max(-1).values.detach().numpy()
    np.testing.assert_allclose(np.squeeze(recorder.told("value").T), np.squeeze(values))
    # The data say who explored, and only they leave the greedy action.
    explored = steps["explored"].numpy().reshape(1 + batched, 12)
    np.testing.assert_array_equal(explored, modes[:12].T)
    actions = steps["action"] if categorical else steps["action"].long().argmax(-1)
    differs = (actions != steps["action_value"].argmax(-1)).numpy().reshape(1 + batched, 12)
    assert not differs[~explored].any()
    assert differs[explored].any()


@pytest.mark.parametrize("batched", [False, True])
def test_the_tracker_keeps_torchrls_rules(batched):
    check_env_specs(make_env(batched, categorical=True))


def test_only_random_exploration_explores():
    env = make_env(batched=True, categorical=True)
    policy, module = make_policy(env, True, "XU-experiment-level-X")
    for kind in (ExplorationType.DETERMINISTIC, ExplorationType.MODE, ExplorationType.MEAN):
        with set_exploration_type(kind):
            steps = env.rollout(30, policy, break_when_any_done=False)
        assert not steps["explored"].any()
        assert (steps["action"] == steps["action_value"].argmax(-1)).all()
    assert module.switch.summary()["episodes"] == 0  # playing is no training
    with set_exploration_type(ExplorationType.RANDOM):
        assert env.rollout(30, policy, break_when_any_done=False)["explored"].all()


def test_a_collector_and_a_saved_policy():
    env = make_env(batched=True, categorical=True)
    policy, module = make_policy(env, True, "XU-intra(*,informed,p*,X)")
    collector = Collector(env, policy, frames_per_batch=40, total_frames=80)
    batches = [batch["explored"].float().mean() for batch in collector]
    collector.shutdown()
    assert len(batches) == 2 and max(batches) > 0
    file = io.BytesIO()
    torch.save(policy.state_dict(), file)
    file.seek(0)
    other, resumed = make_policy(env, True, "XU-intra(*,informed,p*,X)")
    other.load_state_dict(torch.load(file, weights_only=True))
    for step in range(30):  # they decide the same from there
        told = {"reward": step % 3, "value": np.arange(2.0) * step, "is_first": step == 9}
        expected = module.switch.step(**told)
        np.testing.assert_array_equal(resumed.switch.step(**told), expected)


def test_variants_of_other_agents_are_refused():
    with pytest.raises(ValueError, match="choose a variant of XU"):
        SwitchModule("XI-intra(10,informed,p*,X)", None)


def test_a_missing_tracker_and_another_number_of_environments_are_named():
    env = make_env(batched=True, categorical=True)
    policy, _ = make_policy(env, batched=True)
    with pytest.raises(ValueError, match="finds no last_reward: it needs the transform Sw"):
        env.base_env.rollout(3, policy)
    policy, _ = make_policy(env, batched=False)
    with pytest.raises(ValueError, match=r"has the shape \(2, 1\); SwitchModule has strea"):
        env.rollout(3, policy)

"""Stable-Baselines3's DQN and sb3-contrib's QR-DQN, exploring when a switch says so.

model = with_switch(DQN, "XU-intra(10,informed,0.01,G)")("MlpPolicy", env)
model.learn(100_000)
model.explored   # whether the last action of each environment was exploration
"""

from typing import Any

import numpy as np

from sidequest.integrations import parse_uniform, require
from sidequest.switching.shell import Switch
from sidequest.switching.variants import Variant

_torch = require("torch", "sb3")
_sb3 = require("stable_baselines3.common.utils", "sb3")


def with_switch(algorithm: type[Any], variant: str | Variant, **options: Any) -> type[Any]:
    """Returns a subclass of DQN or QRDQN that explores when a switch says so.

    Its models have the attributes `switch` and `explored`, log `switch/p_X` and
    `switch/modes`, and save the switch. SB3's `exploration_rate` becomes the share of steps
    that explored since the last log, so the settings of its epsilon have no effect.

    Args:
      algorithm: DQN, QRDQN, or a subclass of either.
      variant: a variant of XU with the trigger blind or informed.
      **options: of `Switch`, such as `arms` or `signal`.
    """
    parsed = parse_uniform(variant)
    if not {"DQN", "QRDQN"} & {base.__name__ for base in getattr(algorithm, "__mro__", ())}:
        raise ValueError(f"with_switch is for DQN, QRDQN and their subclasses: {algorithm}")

    class Switched(algorithm):
        switch: Switch
        explored: np.ndarray
        """Whether the last action of each environment was drawn at random [n_envs]."""

        def _setup_model(self) -> None:
            super()._setup_model()
            self._number = int(self.action_space.n)
            self._rows = self._number * np.arange(self.n_envs)
            saved = self.__dict__.get("switch")  # there if the model was loaded
            if saved is not None and saved.variant != parsed:
                raise ValueError(f"the model was saved with {saved.variant}, not {parsed}")
            if saved is None or saved.streams != self.n_envs:
                seed = np.random.randint(2**31) if self.seed is None else self.seed
                self.switch = Switch(parsed, streams=self.n_envs, seed=seed, **options)
                self._steps = self._explored_steps = 0
                self._start_episodes()

        def _start_episodes(self) -> None:
            self.explored = np.zeros(self.n_envs, bool)
            self._arrived = {"reward": 0.0, "discount": self.gamma, "is_first": True}

        def _setup_learn(
            self, total_timesteps, callback=None, reset_num_timesteps=True, *args, **kwargs
        ):
            if reset_num_timesteps or self._last_obs is None:  # SB3 resets environments
                self._start_episodes()
            return super()._setup_learn(
                total_timesteps, callback, reset_num_timesteps, *args, **kwargs
            )

        def _sample_action(self, learning_starts, action_noise=None, n_envs=1):
            if self.num_timesteps < learning_starts:  # uniform actions, and no values yet
                self.explored = np.ones(n_envs, bool)
                return super()._sample_action(learning_starts, action_noise, n_envs)
            with _torch.no_grad():
                observations = _sb3.obs_as_tensor(self._last_obs, self.device)
                if hasattr(self, "quantile_net"):
                    q_values = self.quantile_net(observations).mean(dim=1)
                else:
                    q_values = self.q_net(observations)
            q_values = q_values.cpu().numpy()
            actions = q_values.argmax(axis=1)
            value = q_values.take(self._rows + actions)  # the maximum, found already
            self.explored = self.switch.step(value=value, **self._arrived)
            rng = self.action_space.np_random
            for index, explores in enumerate(self.explored.tolist()):
                if explores:  # as action_space.sample(), but faster
                    actions[index] = int(self._number * rng.random())
            return actions, actions

        def _store_transition(
            self, replay_buffer, buffer_action, new_obs, reward, dones, infos
        ):
            super()._store_transition(
                replay_buffer, buffer_action, new_obs, reward, dones, infos
            )
            if self.num_timesteps - self.n_envs < self.learning_starts:
                return  # that action was uniform: the switch has not begun to play
            discount = self.gamma
            if any(dones):
                truncated = [info.get("TimeLimit.truncated", False) for info in infos]
                discount = np.where(dones & ~np.array(truncated), 0.0, self.gamma)
            self._arrived = {"reward": reward, "discount": discount, "is_first": dones}

        def _on_step(self) -> None:
            super()._on_step()
            self._steps += self.n_envs
            self._explored_steps += sum(self.explored.tolist())
            self.exploration_rate = self._explored_steps / self._steps

        def dump_logs(self) -> None:
            self.logger.record("rollout/exploration_rate", self.exploration_rate)
            self.logger.record("switch/p_X", self.exploration_rate)
            modes = "".join("GX"[explored] for explored in self.explored.tolist())
            self.logger.record("switch/modes", modes, exclude="tensorboard")
            super().dump_logs()
            self._steps = self._explored_steps = 0

    Switched.__name__ = Switched.__qualname__ = f"Switched{algorithm.__name__}"
    return Switched

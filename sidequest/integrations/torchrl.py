"""A TorchRL policy that explores when a switch says so.

env = TransformedEnv(make_env(), SwitchTracker())
policy = TensorDictSequential(
    q_network, QValueModule(spec=env.action_spec), SwitchModule(variant, env.action_spec)
)
"""

from typing import Any

import numpy as np

from sidequest.integrations import parse_uniform, require
from sidequest.switching.shell import Switch
from sidequest.switching.switch import DISCOUNT
from sidequest.switching.variants import Variant

_torch = require("torch", "torchrl")
_data = require("torchrl.data", "torchrl")
_envs = require("torchrl.envs", "torchrl")
_utils = require("torchrl.envs.utils", "torchrl")
_nn = require("tensordict.nn", "torchrl")

_TRACKED = ("last_reward", "last_terminated", "is_init")


class SwitchTracker(_envs.Transform):
    """Shows the policy the reward and the termination that came with an observation.

    TorchRL drops both before the policy sees the next observation; a switch needs them. The
    entry `is_init` is the same as that of TorchRL's `InitTracker`.
    """

    def _step(self, tensordict: Any, next_tensordict: Any) -> Any:
        """Adds what arrived with the next observation."""
        terminated = next_tensordict.get("terminated").clone()
        self._last = (next_tensordict.get("reward").float(), terminated)
        return self._set(next_tensordict, *self._last, _torch.zeros_like(terminated))

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        """Marks first observations; a reset within a rollout keeps what arrived last."""
        done = tensordict_reset.get("done")
        first = tensordict.get("_reset", None)
        if first is None:
            first = _torch.ones_like(done)
            empty = _torch.zeros_like(done)
            self._last = (empty.float(), empty)
        return self._set(tensordict_reset, *self._last, first.reshape(done.shape).clone())

    @staticmethod
    def _set(tensordict: Any, *tensors: Any) -> Any:
        return tensordict.update(dict(zip(_TRACKED, tensors, strict=True)))

    def transform_observation_spec(self, observation_spec: Any) -> Any:
        """Adds the three entries to the observations."""
        done = self.parent.full_done_spec["done"]
        reward = _data.Unbounded(shape=done.shape, dtype=_torch.float32, device=done.device)
        return self._set(observation_spec, reward, done.clone(), done.clone())


class SwitchModule(_nn.TensorDictModuleBase):
    """Replaces the greedy action by a random one while a switch explores.

    It stands after `QValueModule`, in the place of `EGreedyModule`, and needs the transform
    `SwitchTracker`. With `ExplorationType.DETERMINISTIC`, and all others but RANDOM, it
    changes nothing. It writes `explored`, so the collected data say which actions were
    exploration, and `state_dict()` includes the switch.

    Args:
      variant: a variant of XU with the trigger blind or informed.
      spec: the action spec.
      streams: the number of environments.
      discount: the agent's.
      **options: of `Switch`, such as `seed` or `arms`.
    """

    in_keys = ["action", "chosen_action_value", *_TRACKED]
    out_keys = ["action", "explored"]

    def __init__(
        self,
        variant: str | Variant,
        spec: Any,
        *,
        streams: int = 1,
        discount: float = DISCOUNT,
        **options: Any,
    ):
        super().__init__()
        self.switch = Switch(parse_uniform(variant), streams=streams, **options)
        self._spec, self._discount = spec, discount

    def forward(self, tensordict: Any) -> Any:
        """Advances the switch by one step and replaces the actions of explore mode."""
        action = tensordict.get("action")
        explored = _torch.zeros(tensordict.shape, dtype=_torch.bool, device=action.device)
        if _utils.exploration_type() in (_utils.ExplorationType.RANDOM, None):
            reward, terminated, first = (self._row(tensordict, n) for n in _TRACKED)
            modes = self.switch.step(
                reward=reward,
                discount=np.where(terminated, 0.0, self._discount),
                value=self._row(tensordict, "chosen_action_value"),
                is_first=first,
            )
            explored = _torch.from_numpy(modes).to(action.device).reshape(tensordict.shape)
            spec = self._spec
            if spec.shape != action.shape:
                spec = spec.expand(action.shape)
            random = spec.rand().to(action.device)
            ones = [1] * (action.ndim - explored.ndim)
            mask = explored.reshape([*explored.shape, *ones])
            tensordict.set("action", _torch.where(mask, random, action))
        return tensordict.set("explored", explored)

    def _row(self, tensordict: Any, name: str) -> np.ndarray:
        tensor, streams = tensordict.get(name, None), self.switch.streams
        if tensor is None:
            needed = "transform SwitchTracker" if name in _TRACKED else "QValueModule"
            raise ValueError(f"SwitchModule finds no {name}: it needs the {needed}")
        if tensor.numel() != streams:
            raise ValueError(
                f"{name} has the shape {tuple(tensor.shape)}; SwitchModule has {streams=}"
            )
        return tensor.detach().cpu().numpy().reshape(streams)

    def get_extra_state(self) -> dict[str, Any]:
        """Returns the switch's state, for `state_dict()`: texts, numbers and tensors."""
        return {
            name: _torch.from_numpy(data) if isinstance(data, np.ndarray) else data
            for name, data in self.switch.state_dict().items()
        }

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Restores the switch from a `state_dict()`."""
        self.switch.load_state_dict(state)

"""Environments of somebody else's, as `--game tests.environments.own:NAME` finds them.

Nothing here imports JAX before it is used: processes that step environments start quickly.
"""

import os
from functools import partial

import gymnasium
import numpy as np
from gymnasium import spaces


class Walk(gymnasium.Env):
    """Actions 1 and 2 go left and right; 8 steps to the right are worth 1. After 30 steps
    something may go wrong, after 50 the time is up."""

    observation_space = spaces.Box(-10, 10, (2,), np.float64)
    action_space = spaces.Discrete(2, start=1)
    metadata = {"render_modes": ["rgb_array"]}

    REWARDS = {"nan": float("nan"), "huge": 1e300, "row": np.ones(1), "none": None}

    def __init__(self, fault=None, render_mode=None):
        self.fault, self.render_mode = fault, render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = self.time = 0
        return self._look(), {}

    def _look(self):
        return np.array([self.place, self.time / 50])

    def step(self, action):
        assert action in (1, 2)
        self.place += 2 * action - 3
        self.time += 1
        seen, reward = self._look(), float(self.place == 8)
        if self.time == 30:
            if self.fault in self.REWARDS:
                reward = self.REWARDS[self.fault]
            elif self.fault == "shape":
                seen = np.zeros(3)
            elif self.fault == "number":
                seen[1] = np.inf
            elif self.fault == "error":
                raise KeyError("no such\nroom")
            elif self.fault == "exit":
                os._exit(3)
            elif self.fault == "gym":  # the former one, before Gymnasium
                return seen, reward, False, {}
        return seen, reward, self.place == 8, self.time == 50, {}

    def render(self):
        return np.full((600, 80, 3), 100 + self.place, np.uint8)


walk = partial(Walk, None)
wrong_reward, huge_reward, row_reward, no_reward = (
    partial(Walk, fault) for fault in Walk.REWARDS
)
wrong_shape, wrong_number, error, exits, former_step = (
    partial(Walk, fault) for fault in ("shape", "number", "error", "exit", "gym")
)


class FormerReset(Walk):
    """Begins as the former Gym's environments did."""

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed, options=options)[0]


former_reset = FormerReset


class Unlucky(Walk):
    """Fails in a run of seed 0, whose first environment gets this seed."""

    UNLUCKY = int(np.random.SeedSequence(0).generate_state(1)[0] >> 1)

    def reset(self, *, seed=None, options=None):
        if seed == self.UNLUCKY:
            self.fault = "error"
        return super().reset(seed=seed, options=options)


unlucky = Unlucky


class Sulky(Walk):
    """Cannot be closed."""

    def close(self):
        raise RuntimeError("still open")


sulky, sulky_error = Sulky, partial(Sulky, "error")


class Scaled(Walk):
    """Shows numbers between 0 and 1, and says that they are bytes."""

    observation_space = spaces.Box(0, 255, (2,), np.uint8)

    def _look(self):
        return np.array([0.5, self.time / 50])


scaled = Scaled


class Blind(Walk):
    observation_space = spaces.Box(0, 1, (0,))


class Continuous(Walk):
    action_space = spaces.Box(-1, 1, (1,))


def minigrid():
    """One game of the package `minigrid`, whose own observations are a Dict."""
    from minigrid.wrappers import ImgObsWrapper

    return ImgObsWrapper(gymnasium.make("MiniGrid-Empty-5x5-v0"))


def breaks():
    """Fails before there is an environment."""
    raise RuntimeError("the licence server is down")


def compiled_breaks():
    """An environment in JAX that fails at its first step."""
    from sidequest.environments.base import EnvironmentSpec, auto_reset

    spec = EnvironmentSpec("breaks", (1,), np.dtype(np.float32), num_actions=2)

    def step(key, state, action):
        raise KeyError("door")

    return auto_reset(lambda key: (0, np.zeros(1)), step, spec)


def _compiled(start, change, terminated):
    from sidequest.environments.base import EnvironmentSpec, auto_reset

    spec = EnvironmentSpec("changes", (1,), np.dtype(np.float32), num_actions=2)

    def step(key, state, action):
        return change(state), np.zeros(1), 1.0, terminated, False

    return auto_reset(lambda key: (start, np.zeros(1)), step, spec)


def _with_spec(**fields):
    from sidequest.environments.base import EnvironmentSpec, auto_reset

    spec = EnvironmentSpec("odd", (2,), np.dtype(np.float32), num_actions=2)
    spec = spec._replace(**fields)

    def step(key, state, action):
        return state, np.zeros(spec.observation_shape), 1.0, False, False

    return auto_reset(lambda key: (0, np.zeros(spec.observation_shape)), step, spec)


no_action = partial(_with_spec, num_actions=0)
half_action = partial(_with_spec, num_actions=2.5)
no_frame = partial(_with_spec, frames_per_step=0)
no_time = partial(_with_spec, max_steps=0)
no_scale = partial(_with_spec, maximum=0.0)
compiled_blind = partial(_with_spec, observation_shape=(0,))
one_category = partial(_with_spec, categories=(3,))


compiled_type = partial(_compiled, 0, lambda state: state + 0.5, False)
compiled_shape = partial(_compiled, 0.0, lambda state: state + np.zeros(3), False)
compiled_numbers = partial(_compiled, 0, lambda state: state + 1, np.float32(1))
"""Says with a number that the episode ended, as environments of Brax do."""


def leaves():
    """Ends the process."""
    raise SystemExit(3)


def nothing():
    """Returns something else."""
    return 3


def hosted():
    """A game by our own protocol."""
    from sidequest.environments.base import HostedGame
    from tests.runs.test_hosted import Drawn

    return HostedGame(lambda **_: [], Drawn.spec)


def hosted_blind():
    """A game by our own protocol that shows nothing."""
    game = hosted()
    return game._replace(spec=game.spec._replace(observation_shape=(0,)))


def talks():
    """Prints while it is made."""
    print("made")
    return Walk()

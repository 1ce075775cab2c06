"""Environments of Gymnasium, by their id or from a function, beside Gymnasium's own."""

import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from sidequest.environments import registry
from sidequest.environments.base import CompiledEnvironment, HostedGame
from sidequest.environments.gym import BrokenRule, _bounds, prepare
from sidequest.errors import EnvironmentFault, InvalidRequest
from tests.environments.own import Walk

OWN = "tests.environments.own:"


def play(name, actions, *, sticky=0.0, **options):
    """Timesteps [T + 1] of a group that gets actions [T, B]."""
    game = registry.make(name, sticky)
    assert isinstance(game, HostedGame)
    (group,) = game.build(groups=1, environments=actions.shape[1], seed=0, **options)
    try:
        timesteps = [group.recv()]
        for some in actions:
            group.send(some)
            timesteps.append(group.recv())
    finally:
        group.close()
    return timesteps


def seeds(count):
    return (np.random.SeedSequence(0).generate_state(count, np.uint32) >> 1).tolist()


def test_a_group_shows_what_gymnasium_shows():
    actions = np.random.default_rng(0).integers(0, 2, (80, 2), np.int32)
    timesteps = play("gymnasium:CartPole-v1", actions)
    # Positions and angles have bounds, which they are divided by; velocities have none.
    scale = np.float32([4.8, 1.0, 0.41887903, 1.0])
    for number, seed in enumerate(seeds(2)):
        theirs, ends = gymnasium.make("CartPole-v1"), 0
        expected, _ = theirs.reset(seed=seed)
        np.testing.assert_allclose(timesteps[0].observation[number], expected / scale)
        assert timesteps[0].is_first[number] and timesteps[0].reward[number] == 0.0
        for timestep, action in zip(timesteps[1:], actions[:, number], strict=True):
            expected, reward, terminated, truncated, _ = theirs.step(action)
            if terminated or truncated:
                expected, _ = theirs.reset()
                ends += 1
            ours = [column[number] for column in timestep]
            np.testing.assert_allclose(ours[0], expected / scale, rtol=1e-6)
            ended = terminated or truncated
            assert ours[1:] == [reward, terminated, truncated, ended]
        assert ends > 1
    assert timesteps[5].observation.dtype == timesteps[5].reward.dtype == np.float32


def test_a_sticky_action_is_repeated():
    # Right, then left for ever: with certainty, it goes right for ever.
    actions = np.array([[1]] + 9 * [[0]], np.int32)
    places = [t.observation[0, 0] for t in play(OWN + "walk", actions, sticky=0.999)]
    # ... and the first action of the next episode is not.
    np.testing.assert_allclose(places, np.append(np.arange(8), [0, -1, -2]) / 10)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("wrong_reward", "step returned the reward nan"),
        ("huge_reward", r"step returned the reward 1e\+300"),
        ("row_reward", r"step returned the reward array\(\[1.\]\), which is no number"),
        ("no_reward", "step returned the reward None, which is no number"),
        ("wrong_shape", r"an observation has shape \(3,\); its space says \(2,\)"),
        ("wrong_number", "an observation has numbers that are not finite"),
        ("error", r"KeyError: 'no such\\nroom' \(.*own.py:\d+\)"),
        ("exits", "its process ended with exit code 3"),
        (
            "former_step",
            "step returned 4 values; Gymnasium's returns observation, reward, terminated, "
            "truncated, info",
        ),
        ("former_reset", "reset returned one value; Gymnasium's returns observation, info"),
        (
            "scaled",
            "an observation has numbers of type float64 that are no bytes; its space says "
            "uint8",
        ),
    ],
)
def test_an_environment_that_breaks_the_rules_is_named_with_its_error(name, message):
    actions = np.arange(40, dtype=np.int32)[:, None] % 2
    with pytest.raises(EnvironmentFault, match=f"^{OWN}{name} failed: {message}$"):
        play(OWN + name, actions)


@pytest.mark.parametrize("name", ["sulky", "sulky_error"])
def test_an_environment_that_cannot_be_closed_leaves_no_traceback(name, capfd):
    actions = np.arange(40, dtype=np.int32)[:, None] % 2
    with suppress(EnvironmentFault):  # the second one's, as above
        play(OWN + name, actions)
    assert capfd.readouterr().err == ""


class Shown(Walk):
    def __init__(self, space):
        super().__init__()
        self.observation_space = space


@pytest.mark.parametrize(
    ("space", "shape", "dtype", "maximum", "scale"),
    [
        (spaces.Box(0, 255, (8, 9, 3), np.uint8), (8, 9, 3), "uint8", 255, None),
        (spaces.Box(0, 10, (8, 9), np.uint8), (8, 9, 1), "uint8", 10, None),
        (spaces.Box(-2, 1, (4,), np.float64), (4,), "float32", 1, 2),
        (spaces.Box(-128, 0, (4,), np.int8), (4,), "float32", 1, 128),
        (spaces.Box(-np.inf, np.inf, (4,), np.float32), (4,), "float32", 1, 1),
        (spaces.Discrete(5), (5,), "float32", 1, 1),
        (spaces.MultiDiscrete([2, 3]), (5,), "float32", 1, 1),
    ],
)
def test_how_spaces_are_read(space, shape, dtype, maximum, scale):
    environment, spec = prepare("mine", Shown(space))
    assert (spec.observation_shape, spec.observation_dtype) == (shape, dtype)
    assert (spec.maximum, spec.num_actions, spec.max_steps) == (maximum, 2, None)
    assert scale is None or (_bounds(environment.observation_space) == scale).all()


@pytest.mark.parametrize(
    "space",
    [spaces.Dict(image=spaces.Discrete(3)), spaces.Text(5), spaces.Box(0, 1, (2, 2, 2, 2))],
)
def test_other_observations_are_refused(space):
    with pytest.raises(BrokenRule, match="its observations are .* in a function of your"):
        prepare("mine", Shown(space))


def test_images_with_channels_first_are_refused():
    with pytest.raises(BrokenRule, match=r"shape \(3, 64, 64\), with channels first"):
        prepare("mine", Shown(spaces.Box(0, 255, (3, 64, 64), np.uint8)))
    for shape in ((64, 64, 3), (3, 64, 8), (4, 4, 4)):  # the last is too small to tell
        prepare("mine", Shown(spaces.Box(0, 255, shape, np.uint8)))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gymnasium:Pendulum-v1", "its actions are Box.*only Discrete actions"),
        (OWN + "Continuous", "its actions are Box"),
        ("gymnasium:minigrid:MiniGrid-Empty-5x5-v0", r"its observations are Dict\("),
        (OWN + "breaks", r"RuntimeError: the licence server is down \(.*own.py:\d+\)$"),
        (OWN + "nothing", "it is of type int, not a Gymnasium environment"),
        (OWN + "compiled_breaks", r"KeyError: 'door' \(.*own.py:\d+\)$"),
        (OWN + "compiled_type", r"TypeError: .*timestep\[0\].*int32\[\].*float32\[\]"),
        (OWN + "compiled_shape", r"TypeError: .*timestep\[0\].*float32\[3\]"),
        (OWN + "Blind", r"its observation_shape is \(0,\); it is a whole number of 1"),
        (
            OWN + "compiled_blind",
            r"its observation_shape is \(0,\); it is a whole number of 1",
        ),
        (OWN + "hosted_blind", r"its observation_shape is \(0,\); it is a whole number"),
        (OWN + "no_action", "its num_actions is 0; it is a whole number of 1"),
        (OWN + "half_action", "its num_actions is 2.5; it is a whole number of 1"),
        (OWN + "no_frame", "its frames_per_step is 0; it is a whole number of 1"),
        (OWN + "no_time", "its max_steps is 0; it is a whole number of 1"),
        (OWN + "no_scale", "its maximum is 0.0; it is above 0$"),
        (OWN + "one_category", r"its categories are \(3,\), not one for each index"),
        (OWN + "leaves", r"SystemExit: 3 \(.*own.py:\d+\)$"),
    ],
)
def test_what_cannot_be_played_is_refused(name, message):
    with pytest.raises(InvalidRequest, match=f"^{name} cannot be played: {message}"):
        registry.kind(name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gymnasium:CartPole", r"Did you mean gymnasium:CartPole-v1\?$"),
        ("gymnasium:json:CartPole", r"Did you mean gymnasium:json:CartPole-v1\?$"),
        ("gymnasium:nothing", "Environment `nothing` doesn't exist"),
        (OWN + "missing", "has no attribute 'missing'"),
        ("tests.nowhere:walk", "No module named 'tests.nowhere' on Python's path or in /"),
        (OWN + "__name__", "It is not a function that returns an environment\\.$"),
        ("./mine.py:make_env", "Name a module, not a file, as in mine:make_env"),
        ("mine.py:make_env", "Name a module, not a file"),
        (r"C:\mine.py:make_env", "Name a module, not a file"),
        ("LunarLander-v3", r"Did you mean gymnasium:LunarLander-v3\?$"),
        ("minigird:empty_5x5", "No module .* Did you mean minigrid:empty_5x5"),
    ],
)
def test_unknown_names(name, message):
    with pytest.raises(
        InvalidRequest, match=f"no game called {re.escape(repr(name))}.*{message}"
    ):
        registry.check(name)


@pytest.mark.parametrize(
    ("name", "kind", "shape", "actions", "max_steps"),
    [
        ("gymnasium:CartPole-v1", "hosted", (4,), 2, 500),
        ("gymnasium:ALE/Pong-v5", "frames", (210, 160, 3), 6, None),
        (OWN + "minigrid", "hosted", (7, 7, 3), 7, None),
        (OWN + "hosted", "hosted", (14, 16, 3), 3, None),
        ("examples.own_environment:corridor", "compiled", (8,), 2, 50),
        (OWN + "compiled_numbers", "compiled", (1,), 2, None),
    ],
)
def test_kinds_and_specs(name, kind, shape, actions, max_steps):
    assert registry.kind(name) == kind
    spec = registry.make(name).spec
    assert spec.observation_shape == shape
    assert (spec.num_actions, spec.max_steps) == (actions, max_steps)
    assert registry.resolve_sticky_actions(name) == 0.0


@pytest.mark.parametrize("name", ["gymnasium:ALE/Pong-v5", OWN + "minigrid"])
def test_images_arrive_as_they_are(name):
    timesteps = play(name, np.full((3, 1), 2, np.int32))
    spec = registry.make(name).spec
    for timestep in timesteps:
        assert timestep.observation.shape == (1, *spec.observation_shape)
        assert timestep.observation.dtype == np.uint8
    assert timesteps[0].observation.any()


def test_a_group_renders_its_first_environment():
    (group,) = registry.make(OWN + "walk").build(
        groups=1, environments=1, seed=0, renders=True
    )
    group.recv()
    group.send(np.ones(1, np.int32))
    group.recv()
    frame = group.render()
    assert frame.shape == (200, 27, 3) and (frame == 101).all()
    group.close()


def test_what_a_function_prints_is_not_the_output(tmp_path, capsys, monkeypatch):
    (tmp_path / "talkative.py").write_text(
        "print('loaded')\nfrom tests.environments.own import talks\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    registry.make("talkative:talks")
    assert tuple(capsys.readouterr()) == ("", "loaded\nmade\n")


def test_a_module_in_the_working_directory_is_found(tmp_path):
    root = Path(__file__).parents[2]
    example = root / "examples" / "own_environment.py"
    (tmp_path / "mine.py").write_text(example.read_text())
    program = (
        "from sidequest.environments import registry, base\n"
        "game = registry.make('mine:corridor', 0.5)\n"
        "assert isinstance(game, base.CompiledEnvironment)\n"
        "assert registry.kind('mine:corridor') == 'compiled'\n"
    )
    command = [sys.executable, "-P", "-c", program]  # as the installed command starts
    paths = os.environ | {"PYTHONPATH": str(root)}
    subprocess.run(command, check=True, cwd=tmp_path, env=paths)


def test_the_compiled_example_takes_a_setting_for_sticky_actions():
    plain, sticky = (
        registry.make("examples.own_environment:corridor", p) for p in (None, 0.5)
    )
    assert isinstance(plain, CompiledEnvironment) and plain is not sticky

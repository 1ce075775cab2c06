"""The paper's table number for number, settings that are read, and faults that are told."""

import ast
import dataclasses
import functools
import json
import math
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import sidequest.runs
from sidequest.config import (
    PAPER,
    PRESETS,
    SMALL,
    Config,
    change,
    check,
    flatten,
    from_dict,
)
from sidequest.environments.base import EnvironmentSpec
from sidequest.errors import ConfigError
from sidequest.runs.build import build_agent, make_optimiser
from sidequest.runs.spec import recorded_identity
from sidequest.switching.variants import PAPER_ARMS, parse

# "Hyper-parameters and settings", row by row.
TABLE = {
    "network.channels": (32, 64, 128, 128),
    "network.kernels": (7, 5, 5, 3),
    "network.strides": (4, 2, 2, 1),
    "network.pre_units": 512,
    "network.core_units": 512,
    "network.post_units": 256,
    "network.head_units": 256,
    "acting.environments": 120,
    "acting.sync_interval": 400,
    "replay.block_length": 80 // 2,  # sequences of 80 that overlap by 40
    "replay.prefix": 20,
    "replay.capacity": 4 * 10**6,
    "replay.priority_exponent": 0.9,
    "replay.importance_exponent": 0.6,
    "replay.ratio": 1,
    "learning.n_step": 5,
    "learning.watkins": None,  # "off-policy corrections: none", but for XI
    "learning.discount": 0.997,
    "learning.batch_size": 64,
    "learning.learning_rate": 2e-4,
    "learning.adam_epsilon": 1e-8,
    "learning.adam_b1": 0.9,
    "learning.adam_b2": 0.999,
    "learning.clip_norm": 40,
    "learning.target_interval": 400,
    "novelty.channels": (32, 64, 64),
    "novelty.kernels": (8, 4, 3),
    "novelty.strides": (4, 2, 1),
    "novelty.units": 128,
    "novelty.downsampling": 2,
    # From the text: other explore modes, the bandits' arms, R2D2's priorities.
    "environment.sticky_actions": None,  # 0.25, as Atari has by default
    "learning.short_discount": 0.97,
    "learning.priority_mix": 0.9,
    "switching.explore_arms": (1, 10, 100),
    "switching.exploit_arms": (10, 100, 1_000, 10_000),
    "switching.rate_arms": (0.1, 0.01, 0.001, 0.0001),
}
# What the paper gives no number for, or what is of no consequence to results.
OURS = """network.recurrent network.dtype network.scan_unroll replay.warm_up
learning.timeout_is_terminal learning.normalise_inputs learning.normalise_values
learning.priorities learning.trace_tolerance novelty.episodic novelty.centred
novelty.weight novelty.epsilon
switching.rule switching.promise_horizon switching.promise_order
switching.bandit switching.window evaluation.interval evaluation.episodes
evaluation.traces""".split()

FRAMES = EnvironmentSpec("frames", (40, 40, 3), np.dtype(np.uint8), 4, maximum=255.0)


def test_the_paper_preset_is_the_papers_table():
    settings = flatten(PAPER)
    assert {name: settings[name] for name in TABLE} == TABLE
    assert PRESETS["paper"] is PAPER and Config() == PAPER


def test_every_setting_is_the_papers_or_known_to_be_ours():
    assert set(flatten(PAPER)) == {*TABLE, *OURS}


def test_the_papers_arms_are_those_of_the_switch():
    switching = PAPER.switching
    arms = switching.explore_arms, switching.exploit_arms, switching.rate_arms
    assert arms == tuple(PAPER_ARMS)


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_have_no_fault(preset):
    check(PRESETS[preset])


def reading(part, component, read):
    """A copy that notes which of its fields are read."""

    def note(self, name):
        if name in type(part).__dataclass_fields__:
            read.add(f"{component}.{name}")
        return object.__getattribute__(self, name)

    spying = type(type(part).__name__, (type(part),), {"__getattribute__": note})
    return spying(**{field.name: getattr(part, field.name) for field in fields(part)})


fields = dataclasses.fields


def test_every_setting_is_read():
    """By `assemble`, or by name somewhere in `runs`: a setting that nobody reads lies."""
    parts, read = {}, set()
    for field in fields(PAPER):
        parts[field.name] = reading(getattr(PAPER, field.name), field.name, read)
    config = Config(**parts)
    read.clear()
    build_agent(config, FRAMES, [parse("XI-intra(*,informed,p*,X)")])
    for path in Path(sidequest.runs.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            # config.evaluation.episodes; and acting.environments, if acting = config.acting
            if isinstance(node, ast.Attribute):
                owner = node.value
                owner = getattr(owner, "attr", None) or getattr(owner, "id", None)
                read.add(f"{owner}.{node.attr}")
    assert set(flatten(PAPER)) - read == set()


def test_the_optimiser_clips_before_adam():
    optimiser = make_optimiser(PAPER)
    parameters = {"a": jnp.zeros(2), "b": jnp.zeros(1)}
    huge = {"a": jnp.array([3e5, 0.0]), "b": jnp.array([4e5])}
    _, state = optimiser.update(huge, optimiser.init(parameters), parameters)
    momentum = optax.tree.get(state, "mu")
    # A norm of 5e5 is cut to 40, of which the first moment takes a tenth.
    np.testing.assert_allclose(momentum["a"], [2.4, 0.0], rtol=1e-5)
    np.testing.assert_allclose(momentum["b"], [3.2], rtol=1e-5)


def test_all_faults_are_told_at_once():
    broken = change(
        SMALL,
        **{
            "network.core_units": 0,
            "replay.ratio": 0.0,
            "replay.priority_exponent": 1.5,
            "learning.discount": -0.1,
            "learning.learning_rate": 0.0,
            "novelty.kernels": (3, 3),
            "learning.adam_b1": 1.0,
            "switching.explore_arms": (),
            "switching.exploit_arms": (0, 10),
            "switching.rate_arms": (5.0,),
            "switching.window": 0,
            "learning.n_step": 1_000,
            "learning.trace_tolerance": -0.5,
        },
    )
    with pytest.raises(ConfigError) as error:
        check(broken)
    told = str(error.value).splitlines()
    assert len(told) == 13
    for fault in [
        "network.core_units is 0; it is 1 or more",
        "replay.priority_exponent is 1.5; it is between 0 and 1",
        "learning.discount is -0.1; it is between 0 and 1",
        "replay.ratio is 0.0; it is 0.001 to 1000",
        "learning.adam_b1 is 1.0; it is 0 or more, and below 1",
        "switching.explore_arms is (); it is numbers from 1 to 1e+07, at least one",
        "switching.exploit_arms is (0, 10); it is numbers from 1 to 1e+07, at least one",
        "switching.rate_arms is (5.0,); it is numbers from 1e-09 to 1, at least one",
        "switching.window is 0; it is 1 or more, or None",
        "learning.n_step is 1000; a sequence trains on 40 steps",
        "learning.trace_tolerance is -0.5; it is 0 or more",
        "learning.learning_rate is 0.0; it is above 0",
        "novelty: channels, kernels and strides have different lengths",
    ]:
        assert fault in told


@pytest.mark.parametrize(
    "name, value, said",
    [
        ("network.dtype", "float8", "'float8'; it is one of auto, float32, bfloat16"),
        ("switching.bandit", "thompson", "'thompson'; it is one of proportional, ucb"),
        ("switching.window", "abc", "'abc'; it is a whole number below 2^31, or none"),
        ("switching.rate_arms", ("a",), "('a',); it is numbers in brackets"),
        ("network.channels", (1.5,), "(1.5,); it is whole numbers in brackets"),
        ("learning.watkins", "x", "'x'; it is true, false or none"),
        ("learning.clip_norm", math.inf, "inf; it is a finite number"),
        ("learning.target_interval", 10**20, f"{10**20}; it is a whole number below 2^31"),
        ("acting.environments", True, "True; it is a whole number below 2^31"),
    ],
)
def test_types_are_checked_first(name, value, said):
    config = change(SMALL, **{"replay.ratio": 3.0})
    component, entry = name.split(".")
    part = dataclasses.replace(getattr(config, component))
    # Past the types that tests check at every call.
    object.__setattr__(part, entry, value)
    object.__setattr__(config, component, part)
    with pytest.raises(ConfigError) as error:
        check(config)
    assert str(error.value) == f"{name} is {said}"


@pytest.mark.parametrize(
    "name, hint",
    [
        ("replay.ration", "did you mean replay.ratio"),
        ("learning_rate", "did you mean learning.learning_rate"),
        ("Ratio", "did you mean replay.ratio"),
        ("replay", "did you mean replay."),
        ("speed", "`sidequest settings` lists them"),
    ],
)
def test_an_unknown_setting_is_refused(name, hint):
    with pytest.raises(ConfigError, match=f"no setting '{name}'; {hint}"):
        change(SMALL, **{name: 1.0})


def test_a_change_leaves_the_rest_and_the_original_alone():
    changed = change(SMALL, **{"replay.ratio": 7.0, "network.recurrent": False})
    different = {
        name for name, value in flatten(changed).items() if value != flatten(SMALL)[name]
    }
    assert different == {"replay.ratio", "network.recurrent"}
    with pytest.raises(dataclasses.FrozenInstanceError):
        SMALL.replay.ratio = 1.0


@pytest.mark.parametrize("preset", PRESETS)
def test_a_config_survives_json(preset):
    config = change(PRESETS[preset], **{"learning.watkins": True, "switching.window": 5})
    text = json.dumps(dataclasses.asdict(config))
    assert from_dict(json.loads(text), "pong") == config


@pytest.mark.parametrize(
    "older",
    [{}, {"learning": {"centred": True}}, {"network": {"standardised": True}}],
)
def test_a_config_of_before_pictures_were_standardised(older):
    """It was another agent, and is read as such; nothing else about it is different."""
    neither = {"learning.normalise_inputs": False, "learning.normalise_values": False}
    said = dataclasses.asdict(change(PAPER, **neither))
    del said["learning"]["normalise_inputs"], said["learning"]["normalise_values"]
    for component, entries in older.items():
        said[component] |= entries
    plain = json.loads(json.dumps(said))
    assert from_dict(plain, "pong") == change(PAPER, **neither)
    identity = recorded_identity({"variant": "V", "game": "G", "config": plain})
    assert not {"learning.centred", "network.standardised"} & set(identity)
    assert identity["learning.normalise_inputs"] is False and identity["game"] == "G"


@pytest.mark.parametrize(("game", "sticky"), [("pong", None), ("minatar:breakout", 0.0)])
def test_a_config_of_before_other_games_had_sticky_actions(game, sticky):
    older = json.loads(json.dumps(dataclasses.asdict(SMALL)))
    del older["environment"]
    assert from_dict(older, game).environment.sticky_actions == sticky


def test_a_config_of_before_settings_were_renamed():
    older = json.loads(json.dumps(dataclasses.asdict(SMALL)))
    older["acting"] = {"streams": 5, "pull_interval": 7}
    newer = change(SMALL, **{"acting.environments": 5, "acting.sync_interval": 7})
    assert from_dict(older, "pong") == newer
    assert recorded_identity({"config": older}) == recorded_identity(
        {"config": json.loads(json.dumps(dataclasses.asdict(newer)))}
    )
    with pytest.raises(ConfigError, match="it is now called acting.sync_interval"):
        change(SMALL, **{"acting.pull_interval": 7})


def test_the_networks_are_of_the_size_that_was_asked_for():
    variant = parse("XI-step-level-0.01")
    parts = build_agent(PAPER, FRAMES, [variant])
    state = jax.eval_shape(functools.partial(parts.learner.init, jax.random.key(0)))
    channels = [layer.weight.shape[-1] for layer in state.network.torso.convolutions]
    assert channels == [32, 64, 128, 128]
    assert state.network.core.recurrent.shape == (512, 4 * 512)
    assert state.network.post.weight.shape == (512, 256)
    assert state.network.heads.advantage.weight.shape == (2, 256, 4)
    novelty = state.rnd.target
    assert [layer.weight.shape[-1] for layer in novelty.torso.convolutions] == [32, 64, 64]
    assert novelty.output.weight.shape[-1] == 128
    assert state.rnd.normaliser.mean.shape == (20, 20, 3)  # every second pixel

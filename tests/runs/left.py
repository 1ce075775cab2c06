"""Runs as they are found on disk, with parameters that were never trained."""

import dataclasses
from pathlib import Path

import equinox as eqx
import jax

from sidequest.agent.networks import QFunction
from sidequest.config import SMALL_FRAMES, Config, change
from sidequest.environments import registry
from sidequest.environments.base import CompiledEnvironment, HostedGame
from sidequest.records import RUN_FILE, write_json
from sidequest.runs import checkpoint
from sidequest.runs.build import build_agent, make_network
from sidequest.runs.evaluation import Player
from sidequest.runs.spec import RunSpec
from sidequest.switching.variants import parse

TINY_FRAMES = change(
    SMALL_FRAMES,
    **{
        "network.channels": (4, 4),
        "network.kernels": (7, 5),
        "network.strides": (7, 4),
        "network.pre_units": 8,
        "network.core_units": 8,
        "network.post_units": 8,
        "network.head_units": 8,
    },
)
"""For raw frames, as quick as can be."""


@eqx.filter_jit
def make_q_function(config, spec, heads, key) -> QFunction:
    """A fresh network that normalises nothing yet."""
    network = make_network(config, spec, heads, key)
    return QFunction(network, network.identity_normalisation())


def leave_run(folder: Path, variant: str, game: str, config: Config, seed=3) -> Path:
    """A folder as a run of `seed` leaves it behind, without tables."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = dataclasses.asdict(config)
    run = {"variant": variant, "game": game, "seed": seed, "config": settings}
    run["frames"] = 1_000
    write_json(folder / RUN_FILE, run)
    heads = len(parse(variant).heads)
    spec = registry.make(game).spec
    q_function = make_q_function(config, spec, heads, jax.random.key(seed))
    checkpoint.save(folder / checkpoint.PARAMETERS, q_function)
    return folder


def fresh_player(
    game: CompiledEnvironment | HostedGame, variant: str, config: Config
) -> Player:
    """The agent of no run at all."""
    agent = build_agent(config, game.spec, [parse(variant)])
    heads = len(agent.heads)
    q_function = make_q_function(config, game.spec, heads, jax.random.key(0))
    scales = jax.numpy.ones(heads)
    spec = RunSpec(parse(variant), game.spec.name, 0, Path(), config, 1)
    return Player(spec, game, agent, q_function, scales)

"""The agent that a run left behind, ready to play: for `evaluate` and for `watch`."""

from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sidequest.agent.networks import QFunction
from sidequest.config import Config, from_dict
from sidequest.environments import registry
from sidequest.environments.base import CompiledEnvironment, HostedGame
from sidequest.errors import NotEvaluable
from sidequest.records import read_run, read_table
from sidequest.runs import checkpoint
from sidequest.runs.assembly import Parts, assemble, make_q_function
from sidequest.switching.variants import Variant, parse

COMPILED_LEARNER, HOSTED_LEARNER = ".learner", "['member'].learner"
"""Where the checkpoints of either runtime keep the network and its normalisation."""


class Player(NamedTuple):
    run: dict[str, Any]
    """What run.json says."""
    game: CompiledEnvironment | HostedGame
    config: Config
    variant: Variant
    parts: Parts
    q_function: QFunction
    scales: Float[Array, "H"]
    """Return scale of each head."""


def load_player(folder: Path) -> Player:
    """Puts a run's agent together again from its folder.

    Raises:
        NotEvaluable: There are no parameters yet, or they are of another network.
    """
    run = read_run(folder)
    game = registry.make(run["game"])
    config, variant = from_dict(run["config"]), parse(run["variant"])
    parts = assemble(config, game.spec, [variant])
    heads = tuple(head.name for head in parts.rules.heads)
    like = jax.eval_shape(
        lambda: make_q_function(config, game.spec, len(heads), jax.random.key(0))
    )
    is_compiled = isinstance(game, CompiledEnvironment)
    under = COMPILED_LEARNER if is_compiled else HOSTED_LEARNER
    q_function = jax.tree.map(jnp.asarray, newest_q_function(folder, like, under))
    return Player(run, game, config, variant, parts, q_function, _scales(folder, heads))


def newest_q_function(folder: Path, like: QFunction, under: str) -> QFunction:
    """What a finished run left behind; else what its newest checkpoint keeps `under`."""
    path = folder / checkpoint.PARAMETERS
    if path.exists():
        try:
            return checkpoint.load(path, like)
        except (OSError, ValueError) as error:
            raise NotEvaluable(str(error)) from error
    faults: list[str] = []
    found = checkpoint.newest(folder, like, faults.append, under=under)
    if found is None:
        why = "; ".join(faults) or "it has neither finished nor saved a checkpoint"
        raise NotEvaluable(f"{folder} has no parameters yet: {why}")
    return found[1]


def _scales(folder: Path, heads: tuple[str, ...]) -> Float[Array, "H"]:
    """As the learner last recorded them; 1 before its first update.

    They matter only where a mode sums over heads: the best action by one head is the same
    on any scale.
    """
    table = read_table(folder, "learning")
    names = [f"scale_{head}" for head in heads]
    if not len(table):
        return jnp.ones(len(heads))
    return jnp.asarray(np.array(table.select(names).row(-1), np.float32))

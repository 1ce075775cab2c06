"""How fast the compiled loop is: environment, acting, replay and learning in one program.

`environment_steps_per_second` counts steps of all members; `learner_steps_per_second`
counts the steps that updates train on. The split times each stage of a round alone.
"""

import resource
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from sidequest.agent.actor import Actor, make_actor
from sidequest.agent.learner import Learner
from sidequest.agent.networks import count_parameters
from sidequest.bench import best_seconds, machine
from sidequest.config import SMALL, Config, change
from sidequest.environments import registry
from sidequest.environments.base import CompiledEnvironment
from sidequest.errors import ConfigError
from sidequest.replay.replay import TRAINED_BLOCKS
from sidequest.runs import ondevice
from sidequest.runs.build import (
    Agent,
    RunArrays,
    build_agent,
    make_switching,
    run_arrays,
)
from sidequest.runs.ondevice import make_mesh, map_runs, split_runs
from sidequest.switching.variants import parse

VARIANT = "XU-intra(10,informed,p*,X)"

RIVAL = change(
    SMALL,
    **{
        # The shape of the nearest public JAX R2D2: 1,024 environments, MLP 256, LSTM 256,
        # duelling 256, batches of 32 sequences with 40 steps of burn-in and 40 trained
        # ones, and one trained step for each environment step.
        "network.channels": (),
        "network.kernels": (),
        "network.strides": (),
        "network.pre_units": 256,
        "network.core_units": 256,
        "network.post_units": 0,
        "network.head_units": 256,
        "acting.streams": 1_024,
        "acting.pull_interval": 20,
        "replay.block_length": 20,
        "replay.prefix": 40,
        "replay.capacity": 1_000_000,
        "replay.ratio": 0.5,
        "replay.warm_up": 0,
        "learning.batch_size": 32,
    },
)
SHAPES = {"small": SMALL, "rival": RIVAL}


def measure(
    shape: str = "small",
    game: str = "minatar:breakout",
    members: tuple[int, ...] = (1, 4, 16),
    rounds: int = 5,
    repeats: int = 3,
    say: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Speed of the whole loop for each number of members, and the split for one.

    Args:
        shape: One of `SHAPES`.
        game: A compiled one.
        members: Sizes of populations.
        rounds: In one call of the compiled loop.
        repeats: Calls that are timed; the quickest counts.
        say: Told what is going on.
    """
    config, environment = SHAPES[shape], registry.make(game)
    if not isinstance(environment, CompiledEnvironment):
        raise ConfigError(
            f"{game} is not compiled; measure it with `sidequest bench atari`"
        )
    agent = build_agent(config, environment.spec, [parse(VARIANT)])
    rows = {}
    for count in members:
        say(f"members: {count}, shape: {shape}, game: {game}")
        row = whole_loop(environment, agent, count, rounds, repeats)
        rows[str(count)] = row
        say(f"{row['environment_steps_per_second']:,.0f} environment steps/s")
    say("the stages of a round, one by one")
    stages = split(config, environment, agent)
    return {
        "shape": shape,
        "game": game,
        "variant": VARIANT,
        **rows[str(members[0])],
        "parameters": parameters(agent.learner),
        "members": rows,
        "split_seconds_per_round": stages,
        "switching_share": stages["switching"] / sum(stages.values()),
        "machine": machine(),
    }


def parameters(learner: Learner) -> int:
    return count_parameters(jax.jit(learner.init)(jax.random.key(0)).network)


def population(agent: Agent, members: int) -> RunArrays:
    variant = parse(VARIANT)
    each = [run_arrays(variant, seed, agent) for seed in range(members)]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *each)


def whole_loop(
    environment: CompiledEnvironment,
    agent: Agent,
    members: int,
    rounds: int,
    repeats: int,
) -> dict[str, float]:
    """Steps a second of a population, learning at its replay ratio."""
    pace = agent.pace
    begin = time.perf_counter()
    mesh = make_mesh(members, sharded=members > 1)
    init = partial(ondevice.init_state, agent, environment)
    start = jax.jit(map_runs(mesh, init))
    rows = [start(row) for row in split_runs(mesh, population(agent, members))]

    def chunk(member, block):
        return ondevice.iterate(agent, environment, member, block, rounds)

    chunks = jax.jit(map_runs(mesh, chunk, shared=1), donate_argnums=0)
    compiled = chunks.lower(rows[0], jnp.int32(0)).compile()

    def advance(rows, block):
        return [compiled(row, jnp.int32(block))[0] for row in rows]

    compile_seconds = time.perf_counter() - begin
    # Past the warm-up, with enough in replay that every update is a real one.
    block, times = 0, []
    while block < pace.warm_up + rounds:
        rows = advance(rows, block)
        block += rounds
    for _ in range(repeats):
        begin = time.perf_counter()
        rows = jax.block_until_ready(advance(rows, block))
        times.append(time.perf_counter() - begin)
        block += rounds
    steps = members * rounds * agent.streams * agent.block_length
    updates = members * rounds * pace.numerator / pace.denominator
    trained = updates * agent.batch_size * TRAINED_BLOCKS * agent.block_length
    return {
        "environment_steps_per_second": steps / min(times),
        "learner_steps_per_second": trained / min(times),
        "updates_per_second": updates / min(times),
        "compile_seconds": compile_seconds,
        "peak_memory_bytes": peak_memory(),
    }


def peak_memory() -> int:
    """Of the device if it tells, else of this process, since its start."""
    statistics = jax.devices()[0].memory_stats() or {}
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return int(statistics.get("peak_bytes_in_use", own))


def split(
    config: Config, environment: CompiledEnvironment, agent: Agent
) -> dict[str, float]:
    """Seconds of each stage of one member's round."""
    pace = agent.pace
    arrays = jax.tree.map(lambda leaf: leaf[0], population(agent, 1))
    init = jax.jit(partial(ondevice.init_state, agent, environment))
    iterate = jax.jit(partial(ondevice.iterate, agent, environment), static_argnums=2)
    member, _ = iterate(init(arrays), jnp.int32(0), pace.warm_up + 4)
    key = jax.random.key(1)

    @jax.jit
    def stepping(member):
        def step(carry, t):
            keys = jax.random.split(jax.random.fold_in(key, t), 2 * agent.streams)
            actions = jax.vmap(
                lambda k: jax.random.randint(k, (), 0, environment.spec.num_actions)
            )(keys[: agent.streams])
            state, timestep = jax.vmap(environment.step)(
                keys[agent.streams :], carry, actions
            )
            return state, timestep.reward

        return jax.lax.scan(step, member.environments, jnp.arange(agent.block_length))[1]

    collect = jax.jit(lambda member: ondevice.collect(agent, environment, key, member)[1:])
    still = agent._replace(actor=without_switching(config, agent))
    collect_still = jax.jit(
        lambda member: ondevice.collect(still, environment, key, member)[1:]
    )
    feed = jax.jit(
        lambda member, records: ondevice.update_bandits(agent, records, member).meta
    )
    records = collect(member)[1]
    sample = jax.jit(
        lambda member: agent.replay.sample(key, member.replay, agent.batch_size)
    )
    drawn = sample(member)
    update = jax.jit(
        lambda member: agent.learner.update(
            member.learner, drawn.steps, drawn.core, drawn.weights
        )
    )
    stages = (stepping, collect, collect_still, sample, update)
    moving, collecting, collecting_still, sampling, updating, feeding = best_seconds(
        *(lambda f=f: f(member) for f in stages), lambda: feed(member, records), repeats=9
    )
    updates = pace.numerator / pace.denominator
    return {
        "environment": moving,
        "acting": collecting_still - moving,
        "switching": collecting - collecting_still + feeding,
        "replay": sampling * updates,
        "update": updating * updates,
    }


def without_switching(config: Config, agent: Agent) -> Actor:
    """An actor that stays in its mode: what is left is what any agent has to do."""
    controller = make_switching(config.switching)

    def stay(key, signals, state):
        return state.mode, state

    discount = config.learning.discount
    return make_actor(controller._replace(step=stay), agent.heads, discount=discount)

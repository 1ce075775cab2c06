"""How fast the compiled loop is: environment, acting, replay and learning in one program.

`environment_steps_per_second` counts steps of all runs of a population;
`learner_steps_per_second` counts the steps that updates train on. The split times each
stage of an iteration alone.
"""

import resource
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from sidequest.agent.actor import make_actor
from sidequest.agent.networks import count_parameters
from sidequest.bench import best_seconds, machine
from sidequest.config import SMALL, Config, change
from sidequest.environments import registry
from sidequest.environments.base import CompiledEnvironment
from sidequest.errors import ConfigError
from sidequest.replay.replay import TRAINED_BLOCKS
from sidequest.runs import ondevice
from sidequest.runs.build import Agent, build_agent, make_switching
from sidequest.runs.state import run_arrays
from sidequest.switching.variants import parse

_VARIANT = "XU-intra(10,informed,p*,X)"
_RIVAL = change(
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
        "acting.environments": 1_024,
        "acting.sync_interval": 20,
        "replay.block_length": 20,
        "replay.prefix": 40,
        "replay.capacity": 1_000_000,
        "replay.ratio": 0.5,
        "replay.warm_up": 0,
        "learning.batch_size": 32,
    },
)
_SHAPES = {"small": SMALL, "rival": _RIVAL}
_ITERATIONS = 5  # in one call of the compiled loop
_REPEATS = 3  # calls that are timed; the quickest counts


def measure(
    shape: str, game: str, populations: tuple[int, ...], say: Callable[[str], None]
) -> dict[str, Any]:
    """Returns the speed of the whole loop for each size of population, and the split."""
    config, environment = _SHAPES[shape], registry.make(game)
    if not isinstance(environment, CompiledEnvironment):
        raise ConfigError(
            f"{game} is not JAX-native; `sidequest bench atari` measures Atari games"
        )
    agent = build_agent(config, environment.spec, [parse(_VARIANT)])
    rows = {}
    for runs in populations:
        say(f"population: {runs}, shape: {shape}, game: {game}")
        row = rows[str(runs)] = _measure_loop(environment, agent, runs)
        say(f"{row['environment_steps_per_second']:,.0f} environment steps/s")
    say("the stages of an iteration, one by one")
    stages = _measure_stages(config, environment, agent)
    learner = jax.jit(agent.learner.init)(jax.random.key(0))
    return {
        "shape": shape,
        "game": game,
        "variant": _VARIANT,
        **rows[str(populations[0])],
        "parameters": count_parameters(learner.network),
        "populations": rows,
        "split_seconds_per_iteration": stages,
        "switching_share": stages["switching"] / sum(stages.values()),
        "machine": machine(),
    }


def _measure_loop(
    environment: CompiledEnvironment, agent: Agent, runs: int
) -> dict[str, float]:
    """Measures a population that learns at its replay ratio."""
    begin = time.perf_counter()
    each = [run_arrays(parse(_VARIANT), seed, agent) for seed in range(runs)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *each)
    mesh = ondevice.make_mesh(runs, sharded=runs > 1)
    init = partial(ondevice.init_state, agent, environment)
    start = jax.jit(ondevice.map_runs(mesh, init))
    states = [start(arrays) for arrays in ondevice.split_runs(mesh, stacked)]

    def iterate(state, block):
        return ondevice.iterate(agent, environment, state, block, _ITERATIONS)

    chunk = jax.jit(ondevice.map_runs(mesh, iterate, shared=1), donate_argnums=0)
    compiled = chunk.lower(states[0], jnp.int32(0)).compile()
    compile_seconds = time.perf_counter() - begin
    # The first calls pass the warm-up, so that every update is a real one.
    untimed = -(-agent.pace.warm_up // _ITERATIONS) + 1
    times = []
    for call in range(untimed + _REPEATS):
        begin = time.perf_counter()
        block = jnp.int32(call * _ITERATIONS)
        states = [compiled(state, block)[0] for state in states]
        jax.block_until_ready(states)
        times.append(time.perf_counter() - begin)
    seconds = min(times[untimed:])
    iterations = runs * _ITERATIONS
    updates = iterations * agent.pace.numerator / agent.pace.denominator
    trained = updates * agent.batch_size * TRAINED_BLOCKS * agent.block_length
    # Of the device if it tells, else of this process, since its start.
    own_memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    statistics = jax.devices()[0].memory_stats() or {}
    return {
        "environment_steps_per_second": (
            iterations * agent.environments * agent.block_length / seconds
        ),
        "learner_steps_per_second": trained / seconds,
        "updates_per_second": updates / seconds,
        "compile_seconds": compile_seconds,
        "peak_memory_bytes": int(statistics.get("peak_bytes_in_use", own_memory)),
    }


def _measure_stages(
    config: Config, environment: CompiledEnvironment, agent: Agent
) -> dict[str, float]:
    """Returns the seconds of each stage of one run's iteration."""
    init = jax.jit(partial(ondevice.init_state, agent, environment))
    iterate = jax.jit(partial(ondevice.iterate, agent, environment), static_argnums=2)
    arrays = run_arrays(parse(_VARIANT), 0, agent)
    state, _ = iterate(init(arrays), jnp.int32(0), agent.pace.warm_up + 4)
    key = jax.random.key(1)

    def play_randomly(state):
        def step(environments, t):
            keys = jax.random.split(jax.random.fold_in(key, t), 2 * agent.environments)
            action_keys, step_keys = jnp.split(keys, 2)
            actions = jax.vmap(
                lambda k: jax.random.randint(k, (), 0, environment.spec.num_actions)
            )(action_keys)
            environments, timestep = jax.vmap(environment.step)(
                step_keys, environments, actions
            )
            return environments, timestep.reward

        return jax.lax.scan(step, state.environments, jnp.arange(agent.block_length))[1]

    # An actor that stays in its mode does what any agent has to do.
    stay = make_switching(config.switching, agent.arms)._replace(
        step=lambda key, signals, state: (state.mode, state)
    )
    actor = make_actor(stay, agent.heads, discount=config.learning.discount)
    staying = agent._replace(actor=actor)

    def collect(state, agent=agent):
        return ondevice.collect(agent, environment, key, state)[1:]

    def sample(state):
        return agent.replay.sample(key, state.replay, agent.batch_size)

    records, batch = jax.jit(collect)(state)[1], jax.jit(sample)(state)

    def update(state):
        return agent.learner.update(state.learner, batch.steps, batch.core, batch.weights)

    def update_bandits(state, records):
        return ondevice.update_bandits(agent, records, state).meta

    stages = (play_randomly, collect, partial(collect, agent=staying), sample, update)
    playing, collecting, collecting_staying, sampling, updating, bandits = best_seconds(
        *(partial(jax.jit(stage), state) for stage in stages),
        partial(jax.jit(update_bandits), state, records),
        repeats=9,
    )
    updates = agent.pace.numerator / agent.pace.denominator
    return {
        "environment": playing,
        "acting": collecting_staying - playing,
        "switching": collecting - collecting_staying + bandits,
        "replay": sampling * updates,
        "update": updating * updates,
    }

"""The state of a run, and what both runtimes do with a block of steps.

`ondevice` carries a `RunState` through a compiled loop; `hosted_device` keeps it on the
device while emulators play on the host, with actors packed and without environments.

Each purpose has random keys of its own:

    key(seed)  ->  fold_in(key, PURPOSE)  ->  fold_in(that, number of the block, step, ...)

`split(key, n)[i]` equals `fold_in(key, i)` in JAX, so a key is either split or folded, and
numbers are folded in below a purpose only: otherwise two keys could coincide.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from sidequest.agent.actor import Policy, StepRecord
from sidequest.agent.learner import LearnerState, Metrics
from sidequest.agent.losses import Step, first_priorities
from sidequest.agent.modes import Modes, modes_of
from sidequest.replay.replay import ReplayState
from sidequest.runs.build import Agent
from sidequest.switching.metacontroller import MetaState, VariantArrays, variant_arrays
from sidequest.switching.variants import Variant
from sidequest.types import EpisodeSummary, Key, Timestep

BEGIN = 0xBE61
"""Parameters, first states of environments and actors."""
ITERATIONS = 0x4070
"""Acting, stepping and sampling of a compiled loop, by block."""
GROUP_STEPS, SAMPLES = 0x5717, 0xD1A3
"""Acting by group step, and sampling by update, of a hosted run."""
EVALUATION = 0xE7A1
RESETS, STEPS, ACTS = 0x4E5E, 0x57E9, 0xAC75
"""For an episode that is watched."""


class RunArrays(NamedTuple):
    """Tells one run of a population from others: its seed and its variant, as arrays."""

    key: Key
    variant: VariantArrays
    modes: Modes


def run_arrays(variant: Variant, seed: int, agent: Agent) -> RunArrays:
    """Returns the arrays of one run."""
    return RunArrays(
        key=jax.random.key(seed),
        variant=variant_arrays(variant, agent.arms),
        modes=modes_of(variant, agent.heads, agent.novelty_epsilon),
    )


class Tail(NamedTuple):
    """The part of the last block that the first priorities of the next items need."""

    steps: Step
    """[L, B], without observations."""
    q_taken: Float[Array, "L B"]
    values: Float[Array, "L B"]


class RunState(NamedTuple):
    """All of a run's state between two iterations."""

    key: Key
    environments: Any
    timesteps: Timestep
    """[B]: what the actors have yet to act on."""
    actors: Any
    """[B]: an `ActorState`; in a hosted run packed."""
    policy: Policy
    """What the actors act by: parameters and scales of the last sync, the newest arms."""
    learner: LearnerState
    meta: MetaState
    replay: ReplayState
    tail: Tail


def init_run(agent: Agent, arrays: RunArrays, learner_key: Key) -> RunState:
    """Returns the state of a run before its first block, without environments."""
    learner = agent.learner.init(learner_key)
    meta = agent.meta.init(arrays.variant)
    policy = newest_policy(agent, learner, meta)
    init = jax.vmap(agent.actor.init, in_axes=None, axis_size=agent.environments)
    actors = init(policy, arrays.modes)
    shape = agent.block_length, agent.environments
    zeros = jnp.zeros(shape)
    steps = jax.tree.map(
        lambda leaf: jnp.zeros((*shape, *leaf.shape), leaf.dtype),
        agent.step_example._replace(observation=None),
    )
    return RunState(
        key=arrays.key,
        environments=None,
        timesteps=Timestep(None, None, None, None, None),
        actors=actors,
        policy=policy,
        learner=learner,
        meta=meta,
        replay=agent.replay.init(),
        tail=Tail(steps, zeros, zeros),
    )


def newest_policy(agent: Agent, learner: LearnerState, meta: MetaState) -> Policy:
    """Returns what actors act by after a sync."""
    return Policy(learner.q_function, learner.scales, agent.meta.arm_probabilities(meta))


def stored_step(timesteps: Timestep, actions: Int[Array, "B"], records: StepRecord) -> Step:
    """Returns what replay stores of one step [B]."""
    acted = {"previous_action": records.previous_action, "action": actions}
    return Step(**timesteps._asdict(), **acted)


def add_block(
    agent: Agent, steps: Step, records: StepRecord, core: Any, state: RunState
) -> RunState:
    """Adds a block to replay, and its rewards and values to the return scales."""
    tail = Tail(
        steps=steps._replace(observation=None),
        q_taken=records.q_taken,
        values=records.values[..., 0],
    )
    whole = jax.tree.map(lambda *halves: jnp.concatenate(halves), state.tail, tail)
    learner = agent.learner.update_return_scales(state.learner, steps, records.values)
    priorities = first_priorities(
        whole.steps, whole.q_taken, whole.values, learner.scales[0], agent.rules
    )
    replay = agent.replay.add(state.replay, steps, core, priorities)
    return state._replace(learner=learner, replay=replay, tail=tail)


class IterationRecord(NamedTuple):
    """Holds what one iteration of a run records for the tables."""

    summaries: EpisodeSummary
    """[L, B]; read only where `finished`."""
    choices: Int[Array, "L B D"]
    metrics: Metrics
    """Metrics of the last update; NaN in an iteration without one."""
    probabilities: Float[Array, "D K"]
    """Probability of each bandit arm."""
    modes: Bool[Array, "L"]
    """Modes of environment 0, for traces; the next three fields are of it, too."""
    signals: Float[Array, "L"]
    rewards: Float[Array, "L"]
    is_first: Bool[Array, "L"]


def record_block(
    steps: Step, records: StepRecord, metrics: Metrics, state: RunState
) -> IterationRecord:
    """Returns what the tables need of a block [L, B]."""
    return IterationRecord(
        summaries=records.summary,
        choices=records.choices,
        metrics=metrics,
        probabilities=state.policy.arms.probabilities,
        modes=records.mode[:, 0],
        signals=records.signal[:, 0],
        rewards=steps.reward[:, 0],
        is_first=steps.is_first[:, 0],
    )


class Chunk(NamedTuple):
    """Holds what some iterations of a group of runs record, on the host."""

    start: int
    """Frames of each run before these iterations."""
    records: list[IterationRecord]
    """For each run, with axes [iterations, ...]."""
    updates: list[int]
    """Updates of each run so far, without skipped ones."""
    evaluations: list[list[tuple[int, Any, Any]]]
    """For each run, its new greedy episodes: frames when it began, return, length."""
    replay_fill: float
    """Observations in replay, as a share of its capacity."""


def is_key(leaf) -> bool:
    """Returns whether an array, or the shape of one, is of random keys."""
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def strip_weak_types(tree):
    """Fixes the types of numbers that came from Python's: what follows them in a loop has
    no such weak types, and a program would be compiled once for each."""

    strong = jax.lax.convert_element_type
    return jax.tree.map(lambda x: x if is_key(x) else strong(x, x.dtype), tree)

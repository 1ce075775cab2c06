"""What a batch of sequences says: Q-values, TD errors, priorities, statistics.

Pure functions of arrays, used by the learner on replayed batches and, for the first
priorities of new sequences, on fresh blocks. A sequence is P + T consecutive steps of one
stream; the first P only warm the recurrent state up. Rewards of step t arrive with step
t + 1, so that T steps have T - 1 errors.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Num

from sidequest.agent import scaling
from sidequest.agent.heads import Head
from sidequest.agent.lstm import CoreState
from sidequest.agent.networks import Inputs, RecurrentQNetwork, unroll_together
from sidequest.agent.targets import (
    double_q_values,
    episode_ends,
    greedy_traces,
    n_step_targets,
    sequence_priority,
    td_errors,
)
from sidequest.types import AnyArray


class Step(NamedTuple):
    """One step of a stream as replay keeps it: what the network saw, and what was done."""

    observation: Num[AnyArray, "..."]
    previous_action: Int[AnyArray, "..."]
    reward: Float[AnyArray, "..."]
    """Arrived with the observation."""
    terminated: Bool[AnyArray, "..."]
    truncated: Bool[AnyArray, "..."]
    is_first: Bool[AnyArray, "..."]
    action: Int[AnyArray, "..."]


class Rules(NamedTuple):
    """What of learning changes the program."""

    heads: tuple[Head, ...]
    prefix: int
    n_step: int
    timeout_is_terminal: bool
    priority_mix: float
    """Share of the greatest error in a sequence's priority; the rest is the mean."""
    normalise_inputs: bool = False
    """Whether the network sees by how much an observation differs from the mean one, in
    units of its spread. Without it most of a frame is what all frames share, as the maze of
    Ms. Pac-Man. A step of Adam has the same size in all weights, and in that direction they
    all add up: 20 updates saturate the LSTM, or switch units of the torso off for good."""
    normalise_values: bool = False
    """Whether the network predicts by how much a value differs from the game's mean value
    m, in units of the return scale. With Q = m + sigma f the errors are those of centred
    rewards (Naik et al. 2024):

        r + gamma Q' - Q  =  (r - (1 - gamma) m) + sigma (gamma f' - f)
    """


class Errors(NamedTuple):
    """Of a batch of N sequences with T - 1 transitions each."""

    td: Float[Array, "N T H"]
    targets: Float[Array, "N T H"]
    q_taken: Float[Array, "N T H"]


def unroll(
    network: RecurrentQNetwork,
    target: RecurrentQNetwork,
    steps: Step,
    core: CoreState,
    prefix: int,
) -> list[Float[Array, "N T H A"]]:
    """Q-values of both networks for the trained steps of each sequence. The prefix carries
    no gradient, and the target network none at all."""
    networks, fixed = (network, target), jax.lax.stop_gradient
    inputs = Inputs(steps.observation, steps.previous_action, steps.reward, steps.is_first)
    burn_in = jax.tree.map(lambda leaf: leaf[:, :prefix], inputs)
    trained = jax.tree.map(lambda leaf: leaf[:, prefix:], inputs)
    cores = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), core)
    if prefix:
        _, cores = unroll_together(fixed(networks), burn_in, cores)
    return unroll_together(networks, trained, fixed(cores))[0]


def sequence_errors(
    q: Float[Array, "N T H A"],
    q_target: Float[Array, "N T H A"],
    steps: Step,
    rewards: Float[Array, "N T-1 H"],
    rules: Rules,
) -> Errors:
    """TD errors of every head on every transition of every sequence."""
    cutting = jnp.array([head.cut_traces for head in rules.heads])

    def one(q, q_target, steps: Step, rewards) -> Errors:
        values = double_q_values(q, q_target)[1:]
        traces = greedy_traces(q[1:], steps.action[1:], cutting)
        taken = jnp.take_along_axis(q, steps.action.reshape(-1, 1, 1), axis=-1)[:-1, :, 0]
        columns = []
        for h, head in enumerate(rules.heads):
            ends = episode_ends(
                steps.terminated[1:],
                steps.truncated[1:],
                steps.is_first[1:],
                head.discount,
                timeout_is_terminal=rules.timeout_is_terminal,
            )
            target = n_step_targets(
                rewards[:, h], ends, values[:, h], traces[:, h], rules.n_step
            )
            columns.append((td_errors(taken[:, h], target, ends), target))
        td, targets = (jnp.stack(column, axis=-1) for column in zip(*columns, strict=True))
        return Errors(td, targets, taken)

    flags = steps._replace(observation=None)
    return jax.vmap(one)(q, q_target, flags, rewards)


def first_priorities(
    steps: Step,
    q_taken: Float[Array, "T B"],
    values: Float[Array, "T B"],
    scale: Float[Array, ""],
    rules: Rules,
) -> Float[Array, "B"]:
    """Priorities of new sequences from the actors' own Q-values, by the extrinsic head.

    One that is not finite has that of an error as large as the scale. So it is drawn like
    others, and its update is left out and counted: nothing bad hides in replay.
    """

    def one(steps: Step, q_taken, values) -> Float[Array, ""]:
        ends = episode_ends(
            steps.terminated[1:],
            steps.truncated[1:],
            steps.is_first[1:],
            rules.heads[0].discount,
            timeout_is_terminal=rules.timeout_is_terminal,
        )
        always = jnp.ones(len(values) - 1, bool)
        target = n_step_targets(steps.reward[1:], ends, values[1:], always, rules.n_step)
        errors = td_errors(q_taken[:-1], target, ends)
        priority = sequence_priority(errors / scale, rules.priority_mix)
        return jnp.where(jnp.isfinite(priority), priority, 1.0)

    return jax.vmap(one, in_axes=1)(steps, q_taken, values)


def batch_statistics(
    steps: Step,
    rewards: Float[Array, "N T H"],
    targets: Float[Array, "N T H"],
    rules: Rules,
) -> scaling.ReturnStatistics:
    """Of a replayed batch, with targets for returns."""
    ended = steps.terminated[:, 1:]
    if rules.timeout_is_terminal:
        ended = jnp.logical_or(ended, steps.truncated[:, 1:])
    gamma = jnp.array([head.discount for head in rules.heads])
    discounts = jnp.where(ended[..., None], 0.0, gamma.reshape(1, 1, -1))
    rows = (x.reshape(-1, len(rules.heads)).T for x in (rewards, discounts, targets))
    return scaling.measure(*rows)


def block_statistics(
    steps: Step, values: Float[Array, "L B H"], rules: Rules
) -> scaling.ReturnStatistics:
    """Of a fresh block [L, B]; beyond its end the actors' values stand in for returns."""
    terminal = steps.terminated
    if rules.timeout_is_terminal:
        terminal = jnp.logical_or(terminal, steps.truncated)

    def of(head: Head, tail: Float[Array, "B"]):
        # What comes after a first step is another episode's, whatever ended the last one.
        returns = jax.vmap(scaling.discounted_returns, in_axes=(1, 1, 0))(
            steps.reward, jnp.where(steps.is_first, 0.0, head.discount), tail
        )
        discounts = jnp.where(terminal, 0.0, head.discount)
        return steps.reward.reshape(-1), discounts.reshape(-1), returns.reshape(-1)

    rows = [of(head, values[-1, :, h]) for h, head in enumerate(rules.heads)]
    return scaling.measure(*(jnp.stack(column) for column in zip(*rows, strict=True)))


def merge_scales(
    old: scaling.ReturnStatistics,
    new: scaling.ReturnStatistics,
    heads: tuple[Head, ...],
    source: str,
) -> scaling.ReturnStatistics:
    """Merges statistics into the heads of one source of reward; others stay as they are."""
    counted = jnp.array([float(head.source == source) for head in heads])
    counted_only = scaling.ReturnStatistics(
        *(moments._replace(count=moments.count * counted) for moments in new)
    )
    return scaling.update(old, counted_only, heads)

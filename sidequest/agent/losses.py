"""The loss: from a sampled batch to gradients and priorities (appendix A.2).

A batch holds N sequences of P + T consecutive steps, and the recurrent state that the actor
had before each. The reward of step t arrives with step t + 1, so T steps have T - 1
transitions. With Q the online and Q' the target network, for every head h:

    burn-in     both networks are unrolled over the first P steps, without gradient
    values      v_t = Q'(s_t, argmax_a Q(s_t, a))
    targets     G_t = r_{t+1} + ... + gamma_h^(n-1) r_{t+n} + gamma_h^n v_{t+n}
    errors      delta_t = G_t - Q(s_t, a_t)
    scale       sigma_h, from the statistics of rewards and returns
    loss        mean_i w_i 1/2 sum_t sum_h (delta_{h,t} / sigma_h)^2
    priority    eta max_t d_t + (1 - eta) mean_t d_t,   d_t = mean_h |delta_{h,t} / sigma_h|

`targets` says how episode ends and trace cutting enter G, `scaling` what sigma is.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Num

from sidequest.agent import scaling
from sidequest.agent.lstm import CoreState
from sidequest.agent.modes import Head
from sidequest.agent.networks import Inputs, RecurrentQNetwork, unroll_together
from sidequest.agent.scaling import Normalisation, ReturnStatistics
from sidequest.agent.targets import (
    Ends,
    double_q_values,
    episode_ends,
    greedy_traces,
    n_step_targets,
    sequence_priority,
    td_errors,
)
from sidequest.types import AnyArray


class Step(NamedTuple):
    """One step of an environment as replay stores it: the network's inputs, the action."""

    observation: Num[AnyArray, "..."]
    previous_action: Int[AnyArray, "..."]
    reward: Float[AnyArray, "..."]
    """Arrived with the observation."""
    terminated: Bool[AnyArray, "..."]
    truncated: Bool[AnyArray, "..."]
    is_first: Bool[AnyArray, "..."]
    action: Int[AnyArray, "..."]


class Rules(NamedTuple):
    """Static settings of the loss: a change of any is a change of the program."""

    heads: tuple[Head, ...]
    prefix: int
    """Steps of burn-in, P."""
    n_step: int
    timeout_is_terminal: bool
    priority_mix: float
    """Share eta of the greatest error in a sequence's priority; the rest is the mean."""
    normalise_inputs: bool = False
    """Whether the network's input is (observation - mean) / unit. Otherwise most of a frame
    is what all frames share, such as the maze of Ms. Pac-Man. A step of Adam has the same
    size in all weights, and in that direction they add up: 20 updates saturate the LSTM, or
    switch units of the torso off for good."""
    normalise_values: bool = False
    """Whether the network's output f is (value - m) / sigma, with the game's mean value m.
    With Q = m + sigma f the errors are those of centred rewards (Naik et al. 2024):

        r + gamma Q' - Q  =  (r - (1 - gamma) m) + sigma (gamma f' - f)
    """


class Batch(NamedTuple):
    steps: Step
    """[N, P + T]"""
    core: CoreState
    """[N]: the stored state before each sequence."""
    rewards: Float[Array, "N T-1 H"]
    """What every head predicts."""
    weights: Float[Array, "N"]
    """Importance weights."""


class Errors(NamedTuple):
    """TD errors of every head on every transition of N sequences."""

    td: Float[Array, "N T-1 H"]
    targets: Float[Array, "N T-1 H"]
    q_taken: Float[Array, "N T-1 H"]


class Outputs(NamedTuple):
    """What an update needs besides the loss and its gradient."""

    errors: Errors
    scale: Float[Array, "H"]
    statistics: ReturnStatistics
    """Of this batch alone."""
    priorities: Float[Array, "N"]


def r2d2_loss(
    network: RecurrentQNetwork,
    target: RecurrentQNetwork,
    normalisation: Normalisation,
    running: ReturnStatistics,
    batch: Batch,
    rules: Rules,
) -> tuple[Float[Array, ""], Outputs]:
    """Returns the loss of a batch; `jax.value_and_grad` by `network` trains it."""
    q, q_target = unroll(
        network, target, normalisation, batch.steps, batch.core, rules.prefix
    )
    steps = jax.tree.map(lambda leaf: leaf[:, rules.prefix :], batch.steps)
    errors = sequence_errors(q, q_target, steps, batch.rewards, rules)

    statistics = scaling.batch_statistics(
        batch.rewards, is_terminal(steps, rules)[:, 1:], errors.targets, rules.heads
    )
    scale = scaling.used_scale(running, statistics)
    scaled = errors.td / scale.reshape(1, 1, -1)
    losses = 0.5 * jnp.sum(jnp.square(scaled), axis=(1, 2))

    sizes = jnp.mean(jnp.abs(scaled), axis=2)
    priorities = jax.vmap(lambda row: sequence_priority(row, rules.priority_mix))(sizes)
    # A sequence that spoilt this update would spoil the next one it is drawn for.
    priorities = jnp.where(jnp.isfinite(losses), priorities, 0.0)
    loss = jnp.mean(batch.weights * losses)
    return loss, Outputs(errors, scale, statistics, priorities)


def unroll(
    network: RecurrentQNetwork,
    target: RecurrentQNetwork,
    normalisation: Normalisation,
    steps: Step,
    core: CoreState,
    prefix: int,
) -> list[Float[Array, "N T H A"]]:
    """Returns both networks' Q-values of the trained steps, without a gradient through the
    burn-in or the target network."""
    networks, fixed = (network, target), jax.lax.stop_gradient
    inputs = Inputs(steps.observation, steps.previous_action, steps.reward, steps.is_first)
    burn_in = jax.tree.map(lambda leaf: leaf[:, :prefix], inputs)
    trained = jax.tree.map(lambda leaf: leaf[:, prefix:], inputs)
    cores = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), core)
    if prefix:
        _, cores = unroll_together(fixed(networks), normalisation, burn_in, cores)
    return unroll_together(networks, normalisation, trained, fixed(cores))[0]


def sequence_errors(
    q: Float[Array, "N T H A"],
    q_target: Float[Array, "N T H A"],
    steps: Step,
    rewards: Float[Array, "N T-1 H"],
    rules: Rules,
) -> Errors:
    """Returns the TD errors of every head on every transition of every sequence."""
    cutting = jnp.array([head.cut_traces for head in rules.heads])

    def one_sequence(q, q_target, steps: Step, rewards) -> Errors:
        values = double_q_values(q, q_target)[1:]
        traces = greedy_traces(q[1:], steps.action[1:], cutting)
        taken = jnp.take_along_axis(q, steps.action.reshape(-1, 1, 1), axis=-1)[:-1, :, 0]
        columns = []
        for h, head in enumerate(rules.heads):
            ends = _ends(steps, head, rules)
            target = n_step_targets(
                rewards[:, h], ends, values[:, h], traces[:, h], rules.n_step
            )
            columns.append((td_errors(taken[:, h], target, ends), target))
        td, targets = (jnp.stack(column, axis=-1) for column in zip(*columns, strict=True))
        return Errors(td, targets, taken)

    return jax.vmap(one_sequence)(q, q_target, steps._replace(observation=None), rewards)


def first_priorities(
    steps: Step,
    q_taken: Float[Array, "T B"],
    values: Float[Array, "T B"],
    scale: Float[Array, ""],
    rules: Rules,
) -> Float[Array, "B"]:
    """Returns the priorities of new sequences, from the actors' own extrinsic Q-values.

    One that is not finite gets the priority of an error as large as the scale. So it is
    sampled like others, and its update is skipped and counted: nothing bad hides in replay.
    """

    def one_sequence(steps: Step, q_taken, values) -> Float[Array, ""]:
        ends = _ends(steps, rules.heads[0], rules)
        always = jnp.ones(len(values) - 1, bool)
        target = n_step_targets(steps.reward[1:], ends, values[1:], always, rules.n_step)
        errors = td_errors(q_taken[:-1], target, ends)
        priority = sequence_priority(errors / scale, rules.priority_mix)
        return jnp.where(jnp.isfinite(priority), priority, 1.0)

    return jax.vmap(one_sequence, in_axes=1)(steps, q_taken, values)


def is_terminal(steps: Step, rules: Rules) -> Bool[Array, "..."]:
    """Returns where the return ends with the reward that arrived."""
    if rules.timeout_is_terminal:
        return jnp.logical_or(steps.terminated, steps.truncated)
    return steps.terminated


def _ends(steps: Step, head: Head, rules: Rules) -> Ends:
    """Returns the episode ends among the transitions of one sequence."""
    return episode_ends(
        steps.terminated[1:],
        steps.truncated[1:],
        steps.is_first[1:],
        head.discount,
        timeout_is_terminal=rules.timeout_is_terminal,
    )

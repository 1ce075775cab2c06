"""The loss: from a sampled batch to gradients and priorities (appendix A.2).

A batch holds N sequences of P + T consecutive steps, and the recurrent state that the actor
had before each. The reward of step t arrives with step t + 1, so T steps have T - 1
transitions. With Q the online and Q' the target network, for every head h:

    burn-in     both networks are unrolled over the first P steps, without gradient
    values      v_t = Q'(s_t, argmax_a Q(s_t, a))
    targets     G_t = r_{t+1} + ... + gamma_h^(n-1) r_{t+n} + gamma_h^n v_{t+n}
    errors      delta_t = G_t - Q(s_t, a_t)
    scale       sigma_h, from the statistics of rewards and returns
    loss        mean_i w_i 1/2 sum_t sum_h c_h (delta_{h,t} / sigma_h)^2
    priority    eta max_t d_t + (1 - eta) mean_t d_t,   d_t = mean_h |delta_{h,t} / sigma_h|

`scaling` says what sigma is. The mean over heads is over all, or over those of the game's
reward (`Rules.priorities`). c_h is `Rules.novelty_weight` for the intrinsic head, else 1.

The functions below `first_priorities` are of one sequence, T transitions of T + 1 steps.
Transition t leads from s_t by a_t to s_{t+1}; arrays named `_t` hold what arrived with
s_{t+1}, so entry t of `r_t` is r_{t+1}. Episodes may end inside. For one that ends with
a_1 (n = 3):

    step            0      1      2      3      4
    observation     s0     s1     s0'    s1'    s2'
    transition         0      1      2      3
    terminated         0      1      0      0        r = the target of transition 1
    ... truncated      0      1      0      0        transition 1 has no target;
    ... neither        0      0      0      0        transition 0 bootstraps at s1

A truncated episode had a next state, but it is not observed. So its last action has no
target, and earlier ones bootstrap at its last state at the latest. By default time-outs
count as terminations (`timeout_is_terminal`), as in DQN and its successors. Where an
episode begins after neither, a run was interrupted and resumed with fresh emulators. That
is never a termination.

The return of a head that is not episodic passes into the next episode: the observation
after an end is the first of the next episode, and its novelty the reward. Only an
interruption cuts it.
"""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Num

from sidequest.agent import scaling
from sidequest.agent.modes import Head
from sidequest.agent.networks import CoreState, Inputs, RecurrentQNetwork, unroll_together
from sidequest.agent.scaling import Normalisation, ReturnStatistics
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
    """Share eta of the largest error in a sequence's priority; the rest is the mean."""
    priorities: Literal["all", "extrinsic"] = "all"
    """Which heads' errors set priorities: all, or those of the game's reward."""
    novelty_weight: float = 1.0
    """Weight of the intrinsic head's loss. Adam makes up for it in that head's own layers,
    not in those that it shares with the extrinsic head."""
    centre_novelty: bool = False
    """Whether intrinsic rewards are centred; see `scaling.scale_novelty`."""
    trace_tolerance: float = 0.0
    """By how much less than the best action, as a share of its value, the one taken may be
    worth without cutting the trace."""
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


class Ends(NamedTuple):
    """Says how episode ends enter the targets of one head."""

    discount_t: Float[Array, "T"]
    """gamma, and 0 at terminations."""
    unknown_t: Bool[Array, "T"]
    """Where the next state exists but was not observed."""


class Outputs(NamedTuple):
    """Holds what an update needs besides the loss and its gradient."""

    errors: Errors
    scale: Float[Array, "H"]
    statistics: ReturnStatistics
    """Return statistics of this batch alone."""
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
    novelty = [head.source == "intrinsic" for head in rules.heads]
    heads = jnp.where(np.array(novelty), rules.novelty_weight, 1.0)
    losses = 0.5 * jnp.sum(heads * jnp.square(scaled), axis=(1, 2))

    everything = rules.priorities == "all"
    counted = [everything or head.source == "extrinsic" for head in rules.heads]
    sizes = jnp.mean(jnp.abs(scaled[:, :, np.array(counted)]), axis=2)
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
        traces = continuing_traces(q[1:], steps.action[1:], cutting, rules.trace_tolerance)
        taken = jnp.take_along_axis(q, steps.action.reshape(-1, 1, 1), axis=-1)[:-1, :, 0]
        columns = []
        for h, head in enumerate(rules.heads):
            ends = episode_ends(steps, head, rules)
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
        ends = episode_ends(steps, rules.heads[0], rules)
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


def episode_ends(steps: Step, head: Head, rules: Rules) -> Ends:
    """Returns the discounts of transitions, and which of them have no target."""
    terminal_t = is_terminal(steps, rules)[1:]
    unknown_t = (steps.truncated | steps.is_first)[1:] & ~terminal_t
    if not head.episodic:
        unknown_t = (steps.is_first & ~steps.terminated & ~steps.truncated)[1:]
        terminal_t = jnp.zeros_like(terminal_t)
    return Ends(jnp.where(terminal_t, 0.0, head.discount), unknown_t)


def double_q_values(
    q_online: Float[Array, "*steps A"], q_target: Float[Array, "*steps A"]
) -> Float[Array, "*steps"]:
    """Returns v(s) = Q_target(s, argmax_a Q_online(s, a))   (van Hasselt et al. 2016)."""
    best = jnp.argmax(q_online, axis=-1, keepdims=True)
    return jnp.take_along_axis(q_target, best, axis=-1)[..., 0]


def continuing_traces(
    q: Float[Array, "T H A"],
    actions: Int[Array, "T"],
    cut_traces: Bool[Array, "H"],
    tolerance: float,
) -> Bool[Array, "T H"]:
    """Returns where a return may continue through a state: Watkins' Q(λ) with λ = 1.

    It may where the action taken was the head's own greedy one (of equal ones the first, as
    actors choose), and everywhere for heads that do not cut traces (appendix A.4). Soft
    Watkins' Q(λ) (Kapturowski et al. 2022) also spares actions that are hardly worse:

        max_a Q(s, a) - Q(s, a_t)  <  tolerance |max_a Q(s, a)|
    """
    # Not by q[action] >= max q: a compiler may compute q twice, rounded differently.
    greedy = jnp.argmax(q, axis=-1) == actions.reshape(-1, 1)
    taken = jnp.take_along_axis(q, actions.reshape(-1, 1, 1), axis=-1)[..., 0]
    value = jnp.max(q, axis=-1)
    hardly_worse = value - taken < tolerance * jnp.abs(value)
    return greedy | hardly_worse | ~cut_traces.reshape(1, -1)


def n_step_targets(
    r_t: Float[Array, "T"],
    ends: Ends,
    v_t: Float[Array, "T"],
    trace_t: Bool[Array, "T"],
    n: int,
) -> Float[Array, "T"]:
    """Returns the targets of Q(s_t, a_t) for all T transitions, without gradient.

        G^(0)_t = v_t
        G^(m)_t = r_{t+1} + d_{t+1} (G^(m-1)_{t+1} if the trace continues, else v_{t+1})
        target  = G^(min(n, T - t))_t

    so that a return bootstraps after n steps, at the end of the sequence, or at the first
    later state whose trace is cut. Where `ends.unknown_t` is set the entry has no meaning;
    `td_errors` sets its error to 0.

    Args:
        r_t: Rewards r_1 .. r_T.
        ends: Discounts d_1 .. d_T, and transitions without a target.
        v_t: Bootstrap values of s_1 .. s_T.
        trace_t: Whether a return may continue through s_1 .. s_T.
        n: 5 in the paper.
    """
    # A return must not continue through a state whose own transition has no target.
    trace_t = trace_t & ~jnp.append(ends.unknown_t[1:], True)
    target_t = beyond_t = v_t
    for _ in range(n):
        target_t = r_t + ends.discount_t * jnp.where(trace_t, beyond_t, v_t)
        beyond_t = jnp.append(target_t[1:], v_t[-1])
    return jax.lax.stop_gradient(target_t)


def td_errors(
    q_taken: Float[Array, "T"], target_t: Float[Array, "T"], ends: Ends
) -> Float[Array, "T"]:
    """Returns target - Q(s_t, a_t), and 0 for transitions without a target."""
    return jnp.where(ends.unknown_t, 0.0, target_t - q_taken)


def sequence_priority(
    errors: Float[Array, "T"], maximum_weight: float = 0.9
) -> Float[Array, ""]:
    """Returns eta max |delta_t| + (1 - eta) mean |delta_t|   (Kapturowski et al. 2019)."""
    size = jnp.abs(errors)
    return maximum_weight * jnp.max(size) + (1 - maximum_weight) * jnp.mean(size)

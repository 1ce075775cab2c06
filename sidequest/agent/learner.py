"""The learner: burn-in, multi-step double Q-learning over all heads, update (appendix A.2).

A sampled item is P + T consecutive steps of one stream. The network is unrolled from the
stored state over all of them; the first P only warm the state up, without gradient. With
delta_h the TD error of head h and sigma_h its return scale, the loss of an item is

    1/2 sum_t sum_h (delta_h,t / sigma_h)^2        weighted by importance, mean over items

Rewards of step t arrive with step t + 1, so T steps have T - 1 errors.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, Num

from sidequest.agent import scaling
from sidequest.agent.intrinsic import Novelty, NoveltyState
from sidequest.agent.lstm import CoreState
from sidequest.agent.networks import RecurrentQNetwork
from sidequest.agent.sequences import (
    Errors,
    Rules,
    Step,
    batch_statistics,
    block_statistics,
    merge_scales,
    sequence_errors,
    unroll,
)
from sidequest.agent.targets import sequence_priority
from sidequest.agent.torsos import encode
from sidequest.types import Key


class Metrics(NamedTuple):
    """What the table `learning` records of an update."""

    loss: Float[Array, ""]
    td_error: Float[Array, "H"]
    """Mean |delta|."""
    scale: Float[Array, "H"]
    value: Float[Array, "H"]
    """Mean Q of the actions taken."""
    gradient_norm: Float[Array, ""]
    priority: Float[Array, ""]
    intrinsic_reward: Float[Array, ""]
    skipped: Float[Array, ""]
    """Updates left out so far because they were not finite."""
    skipped_in_a_row: Float[Array, ""]
    """The most of them that followed one another."""


class LearnerState(NamedTuple):
    network: RecurrentQNetwork
    target: RecurrentQNetwork
    optimiser: Any
    scales: scaling.ReturnStatistics
    observations: scaling.Moments
    """Of each input of the torso, over sequences replayed so far; see
    `Rules.normalise_inputs`."""
    novelty: NoveltyState | None
    """Of random network distillation; None without an intrinsic head."""
    updates: Int[Array, ""]
    skipped: "Skipped"


class Skipped(NamedTuple):
    """Counts updates that were left out."""

    total: Int[Array, ""]
    in_a_row: Int[Array, ""]
    """Up to the newest update."""
    most_in_a_row: Int[Array, ""]

    def count(self, finite: Bool[Array, ""]) -> "Skipped":
        """After one update more."""
        in_a_row = jnp.where(finite, 0, self.in_a_row + 1)
        return Skipped(
            jnp.where(finite, self.total, self.total + 1),
            in_a_row,
            jnp.maximum(self.most_in_a_row, in_a_row),
        )


Update: TypeAlias = Callable[
    [LearnerState, Step, CoreState, Float[Array, "N"]],
    tuple[LearnerState, Float[Array, "N"], Metrics],
]


class Learner(NamedTuple):
    init: Callable[[Key], LearnerState]
    update: Update
    """(state, steps [N, P + T], core [N], weights) -> (state, priorities, metrics)."""
    witness: Callable[[LearnerState, Step, Float[Array, "L B H"]], LearnerState]
    """Takes in what actors report: a block of steps and the values they saw."""
    greedy: Callable[[LearnerState], tuple[RecurrentQNetwork, Float[Array, "H"]]]
    """What actors act by: newest parameters and return scales."""
    no_metrics: Callable[[], Metrics]


def make_learner(
    make_network: Callable[[Key], RecurrentQNetwork],
    optimiser: optax.GradientTransformation,
    rules: Rules,
    *,
    target_interval: int,
    novelty: Novelty | None = None,
) -> Learner:
    """A learner of `rules.heads`; an intrinsic head needs `novelty`."""

    def init(key: Key) -> LearnerState:
        network_key, novelty_key = jax.random.split(key)
        network = make_network(network_key)
        parameters: Any = network  # optax's types know no modules
        zero = jnp.zeros((), jnp.int32)
        unseen = jnp.zeros_like(network.standard.observation)
        return LearnerState(
            network=network,
            target=network,
            optimiser=optimiser.init(parameters),
            scales=scaling.init(len(rules.heads)),
            observations=scaling.Moments(zero.astype(jnp.float32), unseen, unseen),
            novelty=novelty.init(novelty_key) if novelty else None,
            updates=zero,
            skipped=Skipped(zero, zero, zero),
        )

    def witness(
        state: LearnerState, steps: Step, values: Float[Array, "L B H"]
    ) -> LearnerState:
        block = block_statistics(steps, values, rules)
        scales = merge_scales(state.scales, block, rules.heads, source="extrinsic")
        return state._replace(scales=scales)

    def greedy(state: LearnerState) -> tuple[RecurrentQNetwork, Float[Array, "H"]]:
        return state.network, scaling.used_scale(state.scales, state.scales)

    def no_metrics() -> Metrics:
        nothing, row = jnp.float32(jnp.nan), jnp.full(len(rules.heads), jnp.nan)
        return Metrics(nothing, row, row, row, *[nothing] * 5)

    update = make_update(optimiser, rules, target_interval, novelty)
    return Learner(init, update, witness, greedy, no_metrics)


def make_update(
    optimiser: optax.GradientTransformation,
    rules: Rules,
    target_interval: int,
    novelty: Novelty | None,
) -> Update:
    """One step down the gradient of the weighted losses."""

    def update(
        state: LearnerState, steps: Step, core: CoreState, weights: Float[Array, "N"]
    ) -> tuple[LearnerState, Float[Array, "N"], Metrics]:
        before = state
        # One observation of each sequence: neighbours look alike.
        state = standardise(state, steps.observation[:, 0], rules)
        trained = jax.tree.map(lambda leaf: leaf[:, rules.prefix :], steps)
        rewards, surprise, novelty_state = head_rewards(novelty, state, trained, rules)

        def loss_of(network: RecurrentQNetwork) -> tuple[Float[Array, ""], Losses]:
            losses = sequence_losses(network, state, steps, core, rewards, rules)
            return jnp.mean(weights * losses.each), losses

        (loss, losses), gradient = jax.value_and_grad(loss_of, has_aux=True)(state.network)
        norm = optax.tree.norm(gradient)
        changes, optimised = optimiser.update(gradient, state.optimiser)
        network = jax.tree.map(jnp.add, state.network, changes)
        updates = state.updates + 1
        learned = state._replace(
            network=network,
            target=_choose(updates % target_interval == 0, network, state.target),
            optimiser=optimised,
            # Actors see no intrinsic reward, so its scale is learned here.
            scales=merge_scales(
                state.scales, losses.statistics, rules.heads, source="intrinsic"
            ),
            novelty=novelty_state,
            updates=updates,
        )
        # One update that is not finite would spoil all that follow: it is left out.
        finite = jnp.isfinite(loss) & jnp.isfinite(norm) & jnp.all(jnp.isfinite(surprise))
        skipped = before.skipped.count(finite)
        state = _choose(finite, learned, before)._replace(skipped=skipped)
        priorities = new_priorities(losses, rules)
        metrics = metrics_of(loss, losses, norm, priorities, surprise, skipped)
        return state, priorities, metrics

    return update


def standardise(
    state: LearnerState, observations: Num[Array, "N ..."], rules: Rules
) -> LearnerState:
    """Sets what both networks count from, and in which units, as the rules ask for."""
    if not (rules.normalise_inputs or rules.normalise_values):
        return state

    def encoded(observation: Num[Array, "..."]) -> Float[Array, "..."]:
        x = encode(state.network.spec, observation, jnp.dtype("float32"))
        # One that is not finite would be remembered for ever.
        return jnp.where(jnp.isfinite(x), x, state.observations.mean)

    seen, standard = state.observations, state.network.standard
    if rules.normalise_inputs:
        seen = scaling.moments(jax.vmap(encoded)(observations), axis=0)
        seen = scaling.merge(state.observations, seen)
        unit = jnp.maximum(jnp.sqrt(jnp.mean(seen.variance)), scaling.FLOOR)
        standard = standard._replace(observation=seen.mean, observation_unit=unit)
    if rules.normalise_values:
        standard = standard._replace(
            value=scaling.mean_value(state.scales),
            value_unit=scaling.used_scale(state.scales, state.scales),
        )

    def by_standard(network: RecurrentQNetwork) -> RecurrentQNetwork:
        return eqx.tree_at(lambda network: network.standard, network, standard)

    return state._replace(
        network=by_standard(state.network),
        target=by_standard(state.target),
        observations=seen,
    )


class Losses(NamedTuple):
    """Of a batch of N items."""

    each: Float[Array, "N"]
    errors: Errors
    scaled: Float[Array, "N T H"]
    """TD errors in units of the return scales."""
    scale: Float[Array, "H"]
    statistics: scaling.ReturnStatistics
    """Of the batch."""


def sequence_losses(
    network: RecurrentQNetwork,
    state: LearnerState,
    steps: Step,
    core: CoreState,
    rewards: Float[Array, "N T H"],
    rules: Rules,
) -> Losses:
    """The losses of `network`, with the target network and the scales of `state`."""
    trained = jax.tree.map(lambda leaf: leaf[:, rules.prefix :], steps)
    q, q_target = unroll(network, state.target, steps, core, rules.prefix)
    errors = sequence_errors(q, q_target, trained, rewards, rules)
    batch = batch_statistics(trained, rewards, errors.targets, rules)
    sigma = scaling.used_scale(state.scales, batch)
    scaled = errors.td / sigma.reshape(1, 1, -1)
    losses = 0.5 * jnp.sum(jnp.square(scaled), axis=(1, 2))
    return Losses(losses, errors, scaled, sigma, batch)


def new_priorities(losses: Losses, rules: Rules) -> Float[Array, "N"]:
    """Of the items of a batch, by their errors in units of the return scales."""
    sizes = jnp.mean(jnp.abs(losses.scaled), axis=2)
    priorities = jax.vmap(lambda row: sequence_priority(row, rules.priority_mix))(sizes)
    # A sequence that spoilt its update would spoil the next one it is drawn for.
    return jnp.where(jnp.isfinite(losses.each), priorities, 0.0)


def metrics_of(
    loss: Float[Array, ""],
    losses: Losses,
    gradient_norm: Float[Array, ""],
    priorities: Float[Array, "N"],
    surprise: Float[Array, "N T"],
    skipped: Skipped,
) -> Metrics:
    """Of one update; `surprise` is the intrinsic reward."""
    return Metrics(
        loss=loss,
        td_error=jnp.mean(jnp.abs(losses.errors.td), axis=(0, 1)),
        scale=losses.scale,
        value=jnp.mean(losses.errors.q_taken, axis=(0, 1)),
        gradient_norm=gradient_norm,
        priority=jnp.mean(priorities),
        intrinsic_reward=jnp.mean(surprise),
        skipped=skipped.total.astype(jnp.float32),
        skipped_in_a_row=skipped.most_in_a_row.astype(jnp.float32),
    )


def head_rewards(
    novelty: Novelty | None, state: LearnerState, steps: Step, rules: Rules
) -> tuple[Float[Array, "N T H"], Float[Array, "N T"], NoveltyState | None]:
    """What each head earns for each transition, and the novelty learner's next state."""
    arrived = steps.reward[:, 1:]
    surprise, novelty_state = jnp.zeros_like(arrived), state.novelty
    if novelty is not None and state.novelty is not None:
        novelty_state, surprise = novelty.update(state.novelty, steps.observation[:, 1:])
        # The first observation of an episode is not what the last action led to.
        surprise = jnp.where(steps.is_first[:, 1:], 0.0, surprise)
    sources = {"extrinsic": arrived, "intrinsic": surprise}
    rewards = jnp.stack([sources[head.source] for head in rules.heads], axis=-1)
    return rewards, surprise, novelty_state


def _choose(condition: Bool[Array, ""], new, old):
    return jax.tree.map(lambda x, y: jnp.where(condition, x, y), new, old)

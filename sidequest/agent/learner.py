"""The learner: its state, and one update of it from a batch of replay (appendix A.2).

The loss is in `losses`. Besides the parameters, the learner keeps running statistics: of
rewards and returns, for the scale of each head's errors, and of observations, for the
normalisation of the network's inputs. An update that is not finite changes nothing and is
counted.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, Num

from sidequest.agent import scaling
from sidequest.agent.convolutions import encode
from sidequest.agent.losses import Batch, Rules, Step, is_terminal, r2d2_loss
from sidequest.agent.networks import CoreState, QFunction, RecurrentQNetwork
from sidequest.agent.rnd import RND, RNDState
from sidequest.agent.scaling import Moments, Normalisation, ReturnStatistics
from sidequest.types import Key


class Metrics(NamedTuple):
    """Metrics of one update, as recorded in the table `learning`."""

    loss: Float[Array, ""]
    td_error: Float[Array, "H"]
    """Mean |delta|."""
    scale: Float[Array, "H"]
    value: Float[Array, "H"]
    """Mean Q of the actions taken."""
    gradient_norm: Float[Array, ""]
    priority: Float[Array, ""]
    intrinsic_reward: Float[Array, ""]
    """Mean novelty, before it is scaled."""
    skipped: Float[Array, ""]
    """Updates skipped so far because they were not finite."""
    skipped_in_a_row: Float[Array, ""]
    """Longest run of consecutive skipped updates."""


class Skipped(NamedTuple):
    """Numbers of updates that were skipped."""

    total: Int[Array, ""]
    in_a_row: Int[Array, ""]
    """Updates skipped without a break, up to the newest one."""
    most_in_a_row: Int[Array, ""]

    def count(self, finite: Bool[Array, ""]) -> "Skipped":
        """Returns the counts after one more update."""
        total = jnp.where(finite, self.total, self.total + 1)
        in_a_row = jnp.where(finite, 0, self.in_a_row + 1)
        return Skipped(total, in_a_row, jnp.maximum(self.most_in_a_row, in_a_row))


class LearnerState(NamedTuple):
    network: RecurrentQNetwork
    target: RecurrentQNetwork
    normalisation: Normalisation
    """Normalisation of both networks, as of the newest update."""
    optimiser: Any
    return_statistics: ReturnStatistics
    """Statistics that `scales` are computed from."""
    observations: Moments
    """Moments of each input of the torso, over sequences replayed so far; see
    `Rules.normalise_inputs`."""
    rnd: RNDState | None
    """None without an intrinsic head."""
    novelty: Moments
    """Moments of the novelty in recent updates."""
    updates: Int[Array, ""]
    skipped: Skipped

    @property
    def q_function(self) -> QFunction:
        """Returns the newest Q-function, to act by."""
        return QFunction(self.network, self.normalisation)

    @property
    def scales(self) -> Float[Array, "H"]:
        """Returns the newest return scale of each head."""
        return scaling.used_scale(self.return_statistics, self.return_statistics)


class Learner(NamedTuple):
    init: Callable[[Key], LearnerState]
    update: Callable[
        [LearnerState, Step, CoreState, Float[Array, "N"]],
        tuple[LearnerState, Float[Array, "N"], Metrics],
    ]
    """(state, steps [N, P + T], core [N], weights) -> (state, priorities, metrics)."""
    update_return_scales: Callable[
        [LearnerState, Step, Float[Array, "L B H"]], LearnerState
    ]
    """Takes in the actors' block of steps and the values they predicted."""
    no_metrics: Callable[[], Metrics]


def make_learner(
    make_network: Callable[[Key], RecurrentQNetwork],
    optimiser: optax.GradientTransformation,
    rules: Rules,
    *,
    target_interval: int,
    rnd: RND | None = None,
) -> Learner:
    """Returns a learner of `rules.heads`; an intrinsic head needs `rnd`."""
    heads = rules.heads

    def init(key: Key) -> LearnerState:
        network_key, rnd_key = jax.random.split(key)
        network = make_network(network_key)
        parameters: Any = network  # optax's types know no modules
        zero = jnp.zeros((), jnp.int32)
        identity = network.identity_normalisation()
        unseen = jnp.zeros_like(identity.observation_mean)
        return LearnerState(
            network=network,
            target=network,
            normalisation=identity,
            optimiser=optimiser.init(parameters),
            return_statistics=scaling.init(len(heads)),
            observations=Moments(zero.astype(jnp.float32), unseen, unseen),
            rnd=rnd.init(rnd_key) if rnd else None,
            novelty=Moments(*[jnp.zeros(())] * 3),
            updates=zero,
            skipped=Skipped(zero, zero, zero),
        )

    def update(
        state: LearnerState, steps: Step, core: CoreState, weights: Float[Array, "N"]
    ) -> tuple[LearnerState, Float[Array, "N"], Metrics]:
        before = state
        # One observation of each sequence: neighbours look alike.
        state = _update_normalisation(state, steps.observation[:, 0], rules)
        trained = jax.tree.map(lambda leaf: leaf[:, rules.prefix :], steps)
        state, novelty = _update_novelty(state, trained, rnd)
        rewards = _head_rewards(novelty, state.novelty, trained, rules)

        (loss, outputs), gradient = jax.value_and_grad(r2d2_loss, has_aux=True)(
            state.network,
            state.target,
            state.normalisation,
            state.return_statistics,
            Batch(steps, core, rewards, weights),
            rules,
        )
        norm = optax.tree.norm(gradient)
        changes, optimiser_state = optimiser.update(gradient, state.optimiser)
        network = jax.tree.map(jnp.add, state.network, changes)
        updates = state.updates + 1
        learned = state._replace(
            network=network,
            target=_choose(updates % target_interval == 0, network, state.target),
            optimiser=optimiser_state,
            # Actors see no intrinsic reward, so its scale is learned here.
            return_statistics=scaling.update(
                state.return_statistics, outputs.statistics, heads, "intrinsic"
            ),
            updates=updates,
        )
        # One update that is not finite would spoil all that follow, so it is skipped.
        finite = jnp.isfinite(loss) & jnp.isfinite(norm) & jnp.all(jnp.isfinite(novelty))
        skipped = before.skipped.count(finite)
        state = _choose(finite, learned, before)._replace(skipped=skipped)
        metrics = Metrics(
            loss=loss,
            td_error=jnp.mean(jnp.abs(outputs.errors.td), axis=(0, 1)),
            scale=outputs.scale,
            value=jnp.mean(outputs.errors.q_taken, axis=(0, 1)),
            gradient_norm=norm,
            priority=jnp.mean(outputs.priorities),
            intrinsic_reward=jnp.mean(novelty),
            skipped=skipped.total.astype(jnp.float32),
            skipped_in_a_row=skipped.most_in_a_row.astype(jnp.float32),
        )
        return state, outputs.priorities, metrics

    def update_return_scales(
        state: LearnerState, steps: Step, values: Float[Array, "L B H"]
    ) -> LearnerState:
        block = scaling.block_statistics(
            steps.reward, is_terminal(steps, rules), steps.is_first, values, heads
        )
        statistics = scaling.update(state.return_statistics, block, heads, "extrinsic")
        return state._replace(return_statistics=statistics)

    def no_metrics() -> Metrics:
        nothing, row = jnp.float32(jnp.nan), jnp.full(len(heads), jnp.nan)
        return Metrics(nothing, row, row, row, *[nothing] * 5)

    return Learner(init, update, update_return_scales, no_metrics)


def _choose(condition: Bool[Array, ""], new, old):
    return jax.tree.map(partial(jnp.where, condition), new, old)


def _update_normalisation(
    state: LearnerState, observations: Num[Array, "N ..."], rules: Rules
) -> LearnerState:
    """Returns the state with these observations counted, and normalised as `rules` say."""
    seen, normalisation = state.observations, state.normalisation

    def encoded(observation: Num[Array, "..."]) -> Float[Array, "..."]:
        x = encode(state.network.spec, observation)
        # One that is not finite would be remembered for ever.
        return jnp.where(jnp.isfinite(x), x, state.observations.mean)

    if rules.normalise_inputs:
        new = scaling.moments(jax.vmap(encoded)(observations), axis=0)
        seen = scaling.merge(state.observations, new)
        unit = jnp.maximum(jnp.sqrt(jnp.mean(seen.variance)), scaling.FLOOR)
        normalisation = normalisation._replace(
            observation_mean=seen.mean, observation_unit=unit
        )
    if rules.normalise_values:
        normalisation = normalisation._replace(
            value_mean=scaling.mean_value(state.return_statistics), value_unit=state.scales
        )
    return state._replace(normalisation=normalisation, observations=seen)


def _update_novelty(
    state: LearnerState, steps: Step, rnd: RND | None
) -> tuple[LearnerState, Float[Array, "N T"]]:
    """Trains the predictor, if there is one, on the observation that each step led to;
    returns their novelty before that."""
    rnd_state, novelty = state.rnd, jnp.zeros_like(steps.reward[:, 1:])
    if rnd is not None and rnd_state is not None:
        rnd_state, novelty = rnd.update(rnd_state, steps.observation[:, 1:])
    new = scaling.moments(novelty.reshape(-1), axis=0)
    recent = scaling.merge(state.novelty, new, scaling.RECENT_UPDATES * new.count)
    return state._replace(rnd=rnd_state, novelty=recent), novelty


def _head_rewards(
    novelty: Float[Array, "N T"], recent: Moments, steps: Step, rules: Rules
) -> Float[Array, "N T H"]:
    """Returns the reward of each step that each head predicts."""
    intrinsic = scaling.scale_novelty(novelty, recent, rules.centre_novelty)
    if all(head.episodic for head in rules.heads):
        # The first observation of an episode is not what the last action led to.
        intrinsic = jnp.where(steps.is_first[:, 1:], 0.0, intrinsic)
    rewards = {"extrinsic": steps.reward[:, 1:], "intrinsic": intrinsic}
    return jnp.stack([rewards[head.source] for head in rules.heads], axis=-1)

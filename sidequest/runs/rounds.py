"""What both runtimes do in a round, and what a round leaves behind.

A round is one block of steps of all streams, and the updates that it pays for. Where the
block comes from and what is compiled with what differs: see `ondevice` and `hosted`.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from sidequest.agent.actor import Policy, StepRecord
from sidequest.agent.learner import LearnerState, Metrics
from sidequest.agent.losses import Step, first_priorities
from sidequest.runs.assembly import Parts
from sidequest.runs.state import Member, Tail
from sidequest.switching.metacontroller import MetaState
from sidequest.types import EpisodeSummary, Timestep


class RoundRecord(NamedTuple):
    """What one round leaves behind for the tables."""

    summaries: EpisodeSummary
    """[L, B]; read only where `finished`."""
    choices: Int[Array, "L B D"]
    metrics: Metrics
    """Of the last update; NaN in a round without one."""
    probabilities: Float[Array, "D K"]
    """Of the bandits' arms."""
    modes: Bool[Array, "L"]
    """Of stream 0, for traces; and so are the next three."""
    signals: Float[Array, "L"]
    rewards: Float[Array, "L"]
    is_first: Bool[Array, "L"]


def stored_step(timesteps: Timestep, actions: Int[Array, "B"], records: StepRecord) -> Step:
    """What replay stores of one step [B]."""
    return Step(
        observation=timesteps.observation,
        previous_action=records.previous_action,
        reward=timesteps.reward,
        terminated=timesteps.terminated,
        truncated=timesteps.truncated,
        is_first=timesteps.is_first,
        action=actions,
    )


def remember(
    parts: Parts, steps: Step, records: StepRecord, core: Any, member: Member
) -> Member:
    """Adds the block to replay, and what it says of returns to the return scales."""
    tail = Tail(
        steps=steps._replace(observation=None),
        q_taken=records.q_taken,
        values=records.values[..., 0],
    )
    whole = jax.tree.map(lambda *halves: jnp.concatenate(halves), member.tail, tail)
    learner = parts.learner.update_return_scales(member.learner, steps, records.values)
    priorities = first_priorities(
        whole.steps, whole.q_taken, whole.values, learner.scale[0], parts.rules
    )
    replay = parts.replay.add(member.replay, steps, core, priorities)
    return member._replace(learner=learner, replay=replay, tail=tail)


def newest_policy(parts: Parts, learner: LearnerState, meta: MetaState) -> Policy:
    """What actors act by after a pull: the newest parameters, scales and arms."""
    return Policy(learner.q_function, learner.scale, parts.meta.arm_probabilities(meta))


def sum_up(
    steps: Step, records: StepRecord, metrics: Metrics, member: Member
) -> RoundRecord:
    """What is kept for the tables of a block [L, B]."""
    return RoundRecord(
        summaries=records.summary,
        choices=records.choices,
        metrics=metrics,
        probabilities=member.policy.arms.probabilities,
        modes=records.mode[:, 0],
        signals=records.signal[:, 0],
        rewards=steps.reward[:, 0],
        is_first=steps.is_first[:, 0],
    )

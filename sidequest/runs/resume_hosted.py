"""What a checkpoint of a hosted run holds, and how the run goes on with fresh emulators.

All of the device's state is saved between two blocks: learner, bandits, homeostats, replay,
and the record of the newest block, which the bandits have yet to hear of. What is not saved
is inside the emulators. So when a run goes on,

    episodes in flight     are dropped: their accounts are emptied, no table and no bandit
                           ever hears of them
    streams in replay      are cut off: an episode begins where none has ended, and nothing
                           is learned across that (see `agent.targets`)
    random numbers         go on where they were: those of acting are counted by visits
    replay, if not saved   is filled anew; no update is due, or owed later, for that time
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sidequest.runs.assembly import Parts
from sidequest.runs.collection import begin_playing, empty_block
from sidequest.runs.evaluation import GreedyEpisode
from sidequest.runs.hosted import BlockRecord, HostedRun
from sidequest.runs.keys import is_key
from sidequest.runs.manifest import Manifest
from sidequest.runs.pace import Pace, shifted
from sidequest.runs.packing import pack
from sidequest.runs.programs import HostedState, make_programs
from sidequest.runs.resume import Standing
from sidequest.runs.state import Individual, Member

HOST_COPY = 2 * 10**9
"""Bytes of state that are copied, to be written while the run goes on. More than that is
streamed from the device to the disk, while the run stands still."""


def saved_state(hosted: HostedRun, replay: bool) -> dict[str, Any]:
    """The arrays of a run between two blocks, to be put into a checkpoint."""
    member = readable(hosted.state.member)
    if not replay:
        member = member._replace(replay=None)
    unread = hosted.unread
    assert unread is not None, "there is one from the first block on"
    state = {"member": member, "unread": unread.round}
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(state))
    return jax.tree.map(copy_to_host, state) if size <= HOST_COPY else state


def copy_to_host(leaf):
    return leaf if is_key(leaf) else np.array(leaf)  # keys are never donated


def saved_counters(hosted: HostedRun, replay: bool) -> dict[str, Any]:
    """The numbers of the host's side that belong to it."""
    unread = hosted.unread
    assert unread is not None, "there is one from the first block on"
    return {
        "replay": replay,
        "blocks": hosted.blocks,
        "updates": hosted.updates,
        "warm_up": hosted.pace.warm_up,
        "unread": {
            "block": unread.block,
            "updates": unread.updates,
            "evaluations": [list(episode) for episode in unread.evaluations],
        },
    }


def like_saved(parts: Parts, individual: Individual, groups: int) -> dict[str, Any]:
    """The structure of `saved_state`; nothing is computed."""
    programs = make_programs(parts, groups, 0)

    def first_block(individual: Individual) -> dict[str, Any]:
        state = programs.begin(individual)
        metrics = parts.learner.no_metrics()
        member, record = programs.absorb(state.member, state.block, metrics)
        return {"member": readable(member), "unread": record}

    return jax.eval_shape(first_block, individual)


def readable(member: Member) -> Member:
    """With actors as they are in every runtime, not packed."""
    return member._replace(actors=member.actors.unpack())


def fit_saved(manifest: Manifest, like: dict[str, Any]) -> dict[str, Any]:
    """Without replay, if the checkpoint has none."""
    if manifest.host.get("replay"):
        return like
    return {**like, "member": like["member"]._replace(replay=None)}


def go_on(hosted: HostedRun, saved: Mapping[str, Any], counters: Mapping[str, Any]) -> None:
    """Puts a saved state, which lies on the device, into a run with fresh emulators."""
    member: Member = saved["member"]
    actors = without_episodes(member.actors)
    if member.replay is None:
        member = member._replace(replay=jax.jit(hosted.parts.replay.init)())
    visits = counters["blocks"] * len(hosted.groups) * hosted.parts.block_length
    around = partial(surroundings, hosted.parts, hosted.evaluator_episodes)
    block, playing = jax.jit(around)(member.policy, actors)
    member = member._replace(actors=pack(actors, axes=1))
    block = block._replace(visits=jnp.int32(visits % 2**31))
    unread = counters["unread"]
    record = BlockRecord(
        unread["block"],
        unread["updates"],
        saved["unread"],
        [GreedyEpisode(*episode) for episode in unread["evaluations"]],
    )
    state = HostedState(member, block, playing)
    hosted.go_on(state, counters["blocks"], counters["updates"], record)


def without_episodes(actors):
    """Actors that have not begun an episode; what they learned of rates stays."""
    empty = jax.tree.map(jnp.zeros_like, (actors.periods, actors.episode_return))
    return actors._replace(periods=empty[0], episode_return=empty[1])


def surroundings(parts, episodes: int, policy, actors):
    """An empty block, and an evaluator before its first episodes."""
    block = empty_block(parts, jax.random.key(0), policy, actors)
    playing = begin_playing(policy.q_function, episodes) if episodes else None
    # Copies: the block and the actors are both donated, each by itself.
    return jax.tree.map(jnp.copy, (block, playing))


def pace_from(standing: Standing, pace: Pace) -> Pace:
    """The pace that a run goes on with."""
    if standing.manifest is None:
        return pace
    host = standing.manifest.host
    if host["replay"]:
        return pace._replace(warm_up=host["warm_up"])
    return shifted(pace, host["blocks"])

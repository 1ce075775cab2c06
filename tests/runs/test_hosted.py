"""Hosted runs: what emulators show is what replay gets, in lock-step and repeatable."""

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sidequest.agent.networks import Inputs, QFunction
from sidequest.config import PAPER, change
from sidequest.environments import atari
from sidequest.environments.base import EnvironmentSpec
from sidequest.replay.tiles import tile_store
from sidequest.runs.build import build_agent
from sidequest.runs.emulators import NICENESS, build_politely
from sidequest.runs.hosted import HostedRun, choose_lag, share
from sidequest.runs.hosted_device import (
    begin_playing,
    pack_timestep,
    play,
    unpack_timestep,
)
from sidequest.runs.state import Chunk, IterationRecord, RunArrays, run_arrays
from sidequest.switching.metacontroller import UPDATE_CHUNK, Episodes
from sidequest.switching.variants import parse
from sidequest.types import Timestep
from tests.agent.batches import unroll_one
from tests.runs.left import make_q_function

VARIANT = parse("XU-intra(10,informed,p*,X)")
GROUPS, SIZE, LENGTH = 3, 2, 8

TINY = change(
    PAPER,
    **{
        "network.channels": (4, 4),
        "network.kernels": (7, 5),
        "network.strides": (4, 4),
        "network.pre_units": 8,
        "network.core_units": 8,
        "network.post_units": 8,
        "network.head_units": 8,
        "network.scan_unroll": 1,
        "acting.environments": GROUPS * SIZE,
        "acting.sync_interval": 2 * LENGTH,
        "replay.block_length": LENGTH,
        "replay.prefix": 4,
        "replay.capacity": GROUPS * SIZE * LENGTH * 10,
        "replay.warm_up": 0,
        "learning.batch_size": 4,
    },
)

MARK = 255  # what only the evaluator's emulators show


class Drawn:
    """A group without emulators: stream i paints i above and the step below.

    Its episodes last 5 + i steps, if nothing else is said. Those of stream 0 terminate,
    others run out of time.
    """

    spec = EnvironmentSpec(
        "drawn", (14, 16, 3), np.dtype(np.uint8), 3, maximum=255.0, frames_per_step=4
    )

    def __init__(self, streams, lengths=None):
        self.streams = np.array(streams)
        self.lengths = 5 + self.streams if lengths is None else np.array(lengths)
        self.step = 0
        self.in_flight = True

    def send(self, actions):
        assert not self.in_flight and len(actions) == len(self.streams)
        self.in_flight = True
        self.step += 1

    def recv(self):
        assert self.in_flight
        self.in_flight = False
        return self.shown(self.step)

    def shown(self, step: int) -> Timestep:
        frames = np.zeros((len(self.streams), *self.spec.observation_shape), np.uint8)
        frames[:, :7] = self.streams.reshape(-1, 1, 1, 1)
        frames[:, 7:] = step
        over = (step > 0) & (step % self.lengths == 0)
        terminated = over & (self.streams == 0)
        reward = np.full(len(self.streams), float(step > 0), np.float32)
        return Timestep(frames, reward, terminated, over & ~terminated, over | (step == 0))

    def close(self):
        pass


class Told:
    """A group that remembers the actions it was sent."""

    def __init__(self, group):
        self.spec, self.recv, self.group = group.spec, group.recv, group
        self.actions: list[np.ndarray] = []

    def send(self, actions):
        self.actions.append(actions)
        self.group.send(actions)

    def close(self):
        self.group.close()


def individual(seed: int) -> RunArrays:
    return run_arrays(VARIANT, seed, build_agent(TINY, Drawn.spec, [VARIANT]))


def make_run(spec: EnvironmentSpec, groups, evaluator=None, episodes=0) -> HostedRun:
    store = tile_store(lambda step: step.observation, memory=60_000_000)
    agent = build_agent(TINY, spec, [VARIANT], store)
    return HostedRun(agent, groups, evaluator, episodes)


def drawn_evaluator() -> Drawn:
    return Drawn([MARK - 1, MARK], lengths=[7, 9])


def drawn_groups() -> list[Drawn]:
    return [Drawn(range(SIZE * group, SIZE * (group + 1))) for group in range(GROUPS)]


@pytest.fixture(scope="module")
def compiled() -> HostedRun:
    """One run for many tests, since its programs take a while to compile."""
    return make_run(Drawn.spec, drawn_groups(), drawn_evaluator(), episodes=2)


@pytest.fixture
def run(compiled) -> HostedRun:
    compiled.release()
    compiled.groups, compiled.evaluator = drawn_groups(), drawn_evaluator()
    compiled.start(individual(0))
    return compiled


def blocks(run: HostedRun, count: int) -> list[Chunk]:
    return [run.advance() for _ in range(count)]


def recorded(chunk: Chunk) -> IterationRecord:
    return jax.tree.map(lambda leaf: leaf[0], chunk.records[0])


def test_a_block_holds_what_the_groups_showed(run):
    blocks(run, 3)
    # The record of a block comes one block late, so the fourth is complete as well.
    steps, _ = jax.device_get(run.block.contents())
    for group in drawn_groups():
        for t in range(LENGTH):
            shown = group.shown(3 * LENGTH + t)
            for name, value in shown._asdict().items():
                column = getattr(steps, name)[t, group.streams]
                np.testing.assert_array_equal(column, value, err_msg=name)


def test_replay_gives_back_consecutive_frames_of_one_stream(run):
    blocks(run, 8)
    batch = jax.device_get(run.sample())
    frames, actions = batch.steps.observation, batch.steps.action
    for item, stream in enumerate(batch.index.stream):
        assert np.all(frames[item, :, :7] == stream)
        times = frames[item, :, 7, 0, 0].astype(int)
        first = batch.index.block[item] * LENGTH - TINY.replay.prefix
        np.testing.assert_array_equal(times, first + np.arange(len(times)))
        np.testing.assert_array_equal(
            batch.steps.previous_action[item, 1:], actions[item, :-1]
        )


def test_every_ended_episode_is_summed_up_once(run):
    summaries = [recorded(chunk).summaries for chunk in blocks(run, 8)]
    finished = np.concatenate([summary.finished for summary in summaries])
    lengths = np.concatenate([summary.length for summary in summaries])
    returns = np.concatenate([summary.episode_return for summary in summaries])
    for stream in range(GROUPS * SIZE):
        ends = np.flatnonzero(finished[:, stream])
        np.testing.assert_array_equal(ends, np.arange(5 + stream, 64, 5 + stream))
        assert set(lengths[ends, stream]) == set(returns[ends, stream]) == {5 + stream}


def test_bandits_hear_of_every_episode_of_the_blocks_that_were_read(run):
    summaries = [recorded(chunk).summaries for chunk in blocks(run, 5)]
    lengths = np.asarray(run.state.meta.lengths)
    expected = [
        own.length[t, stream]
        for own in summaries
        for t, stream in np.argwhere(own.finished)
    ]
    np.testing.assert_array_equal(lengths[~np.isnan(lengths)], expected[-100:])


def test_bandits_hear_of_more_episodes_than_fit_one_call(run):
    record = recorded(run.advance())
    shape = record.summaries.finished.shape
    assert UPDATE_CHUNK < np.prod(shape) < 2 * UPDATE_CHUNK
    lengths = np.arange(1, np.prod(shape) + 1, dtype=np.int32).reshape(shape)
    summaries = record.summaries._replace(finished=np.ones(shape, bool), length=lengths)
    meta = jax.tree.map(jnp.copy, run.state.meta)
    update, counts = jax.jit(run.agent.meta.update), np.ones(1, bool)
    for choices, length in zip(record.choices.reshape(-1, 3), lengths.flat, strict=True):
        episode = Episodes(choices[None], np.zeros(1, np.float32), np.array([length]))
        meta = update(meta, episode, counts)
    zeros = np.zeros(shape, np.float32)
    summaries = summaries._replace(episode_return=zeros)
    run._update_bandits(record._replace(summaries=summaries))
    for ours, theirs in zip(*map(jax.tree.leaves, (run.state.meta, meta)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_the_replay_ratio_is_exact(run):
    chunks = blocks(run, 12)
    ratio = run.pace.numerator / run.pace.denominator
    # Block n is paid for while block n + 1 is played; two more are needed for an item.
    paid = [max(block - run.pace.warm_up, 0) for block in range(12)]
    assert [chunk.updates for chunk in chunks] == [[int(n * ratio)] for n in paid]
    owed = TINY.replay.ratio * paid[-1] * GROUPS * SIZE
    replayed = chunks[-1].updates[0] * TINY.learning.batch_size
    assert 0 <= owed - replayed < TINY.learning.batch_size
    learner = run.state.learner
    assert int(learner.updates) + int(learner.skipped.total) == run.updates
    assert not int(learner.skipped.total)


def test_the_evaluator_is_recorded_and_nowhere_else(run):
    evaluations = [e for chunk in blocks(run, 10) for e in chunk.evaluations[0]]
    # In 80 steps eleven episodes of 7 and eight of 9 steps end, with reward 1 a step.
    assert sorted(e[1:] for e in evaluations) == [(7.0, 7)] * 11 + [(9.0, 9)] * 8
    # Episode n of the first begins with step 7 n, in blocks of 8 steps.
    began = sorted(frames for frames, _, length in evaluations if length == 7)
    per_block = run.agent.frames_per_block
    assert began == [7 * n // LENGTH * per_block for n in range(11)]
    batch = jax.device_get(run.sample())
    assert batch.steps.observation[:, :, :7].max() < GROUPS * SIZE
    assert np.max(run.block.frames[:, :, :7]) < GROUPS * SIZE


def test_the_same_seed_gives_the_same_records(run):
    once = blocks(run, 6)
    for seed in (0, 1):
        run.release()
        run.groups, run.evaluator = drawn_groups(), drawn_evaluator()
        run.start(individual(seed))
        again = blocks(run, 6)
        same = jax.tree.map(partial(np.array_equal, equal_nan=True), once, again)
        assert all(jax.tree.leaves(same)) == (seed == 0)


class Logged(Drawn):
    """Tells when it is received from and sent to."""

    def __init__(self, streams, name, log):
        super().__init__(streams)
        self.name, self.log = name, log

    def send(self, actions):
        self.log[-1] += f">{self.name}"
        super().send(actions)

    def recv(self):
        self.log.append(self.name)
        return super().recv()


def test_what_is_sent_off_when_and_that_records_do_not_depend_on_it():
    """The first group is received at the start, then one a group step: after that, what
    was dispatched `lag` group steps ago is sent off. The evaluator e is received with g0,
    which the last group step of all groups receives, and acts in the next."""
    expected = {
        1: "g0|g1|g2>g0|g3>g1|g4>g2|g5>g3|g0>g4|e|g1>g5|g2>g0>e|g3>g1|g4>g2|g5>g3|g0>g4|e",
        2: "g0|g1|g2|g3>g0|g4>g1|g5>g2|g0>g3|e|g1>g4|g2>g5|g3>g0>e|g4>g1|g5>g2|g0>g3|e",
        4: "g0|g1|g2|g3|g4|g5>g0|g0>g1|e|g1>g2|g2>g3|g3>g4|g4>g5|g5>g0>e|g0>g1|e",
    }
    many, records = GROUPS * SIZE, []
    groups = [Drawn([stream]) for stream in range(many)]
    run = make_run(Drawn.spec, groups, drawn_evaluator(), episodes=2)
    for lag in (2, 1, 4):
        log: list[str] = []
        run.release()
        run.groups = [Logged([stream], f"g{stream}", log) for stream in range(many)]
        run.evaluator = Logged([MARK - 1, MARK], "e", log)
        run._lag = lag
        run.start(individual(0))
        records.append(blocks(run, 4))
        run.release()
        assert "|".join(log).startswith(expected[lag])
        assert all(one.in_flight for one in (*run.groups, run.evaluator))
    for other in records[1:]:
        same = jax.tree.map(partial(np.array_equal, equal_nan=True), records[0], other)
        assert all(jax.tree.leaves(same))


@pytest.mark.parametrize("groups", range(3, 13))
def test_a_group_is_sent_off_before_it_is_wanted(groups):
    """Acted on in group step v, it is received again in group step v + groups - 1."""
    assert 1 <= choose_lag(groups) <= groups - 2


def test_parameters_are_synced_when_it_is_time(run):
    def synced() -> bool:
        policy, learner = run.state.policy, run.state.learner
        return bool(
            jnp.all(policy.q_function.network.post.weight == learner.network.post.weight)
        )

    # Every second block. Updates start with the fourth block, the first sync after them
    # is that of the sixth; here its end is seen when the record of the fifth is out.
    seen = []
    for block in range(1, 9):
        run.advance()
        seen.append((block, synced()))
    assert [block for block, newest in seen if newest and block > 3] == [5, 7]


def test_emulators_get_the_actions_that_the_block_holds():
    game = atari.make("frostbite")

    def start():
        return game.build(groups=GROUPS, environments=SIZE, seed=3, threads=1)

    told = [Told(group) for group in start()]
    run = make_run(game.spec, told)
    run.start(individual(0))
    count = 3
    blocks(run, count - 1)
    steps, _ = jax.device_get(run.block.contents())
    for number, fresh in enumerate(start()):
        timesteps = [fresh.recv()]
        for actions in told[number].actions[: count * LENGTH - 1]:
            fresh.send(actions)
            timesteps.append(fresh.recv())
        columns = slice(number * SIZE, (number + 1) * SIZE)
        for t, shown in enumerate(timesteps[-LENGTH:]):
            for name, value in shown._asdict().items():
                np.testing.assert_array_equal(getattr(steps, name)[t, columns], value)
        # The newest actions of the last group have yet to be sent.
        sent = np.stack(told[number].actions[(count - 1) * LENGTH : count * LENGTH - 1])
        np.testing.assert_array_equal(steps.action[:-1, columns], sent)
        fresh.close()
    first = jax.device_get(run.state.learner.network)
    run.release()
    again = [Told(group) for group in start()]
    run.groups = again
    run.start(individual(0))
    blocks(run, count - 1)
    second = jax.device_get(run.state.learner.network)
    assert jax.tree.all(jax.tree.map(np.array_equal, first, second))
    for group in [*told, *again]:
        group.close()


play_once, begin_two = jax.jit(play), jax.jit(partial(begin_playing, episodes=2))


def packed(timestep: Timestep):
    rest = jnp.asarray(pack_timestep(timestep))
    return jnp.asarray(timestep.observation), rest


def test_a_timestep_survives_packing():
    timestep = Drawn([0, 1, 2]).shown(35)
    again = unpack_timestep(*packed(timestep))
    for ours, theirs in zip(again, timestep, strict=True):
        np.testing.assert_array_equal(ours, theirs)
        assert ours.dtype == theirs.dtype


def test_episodes_are_played_by_the_parameters_they_began_with():
    old, new = (make_q_function(TINY, Drawn.spec, 1, jax.random.key(i)) for i in (0, 1))
    timestep = Drawn([0, 1]).shown(5)  # stream 0 starts anew
    assert timestep.is_first.tolist() == [True, False]
    _, playing = play_once(new, packed(timestep), begin_two(old))
    trees = jax.device_get((playing.q_functions, new, old))
    for parameters, ours, theirs in zip(*map(jax.tree.leaves, trees), strict=True):
        np.testing.assert_array_equal(parameters[0], ours)
        np.testing.assert_array_equal(parameters[1], theirs)


def test_the_evaluator_plays_what_the_network_likes_best():
    """Step by step as in one go: the same inputs, the same memory."""
    q_function = make_q_function(TINY, Drawn.spec, 1, jax.random.key(3))
    # Strong enough to tell one input from another.
    weights = jax.device_get(q_function.network)
    stronger = jax.tree.map(lambda leaf: jnp.asarray(4 * leaf), weights)
    q_function = QFunction(stronger, q_function.normalisation)
    drawn, playing, actions, shown = Drawn([0, 1]), begin_two(q_function), [], []
    for step in range(12):
        timestep = drawn.shown(step)._replace(reward=np.float32([step, -step]))
        shown.append(timestep)
        chosen, playing = play_once(q_function, packed(timestep), playing)
        actions.append(np.asarray(chosen))
    assert len({tuple(chosen) for chosen in actions}) > 3
    before = [np.zeros(2, np.int32), *actions[:-1]]
    steps = jax.tree.map(lambda *leaves: np.stack(leaves), *shown)
    inputs = Inputs(steps.observation, np.stack(before), steps.reward, steps.is_first)
    for stream in range(2):
        own = jax.tree.map(lambda leaf, i=stream: jnp.asarray(leaf[:, i]), inputs)
        q, _ = unroll_one(q_function, own, q_function.initial_state())
        expected = np.argmax(np.asarray(q)[:, 0], axis=-1)
        np.testing.assert_array_equal(np.stack(actions)[:, stream], expected)


@pytest.mark.parametrize("steps, events", [(8, 3), (12, 4), (5, 0), (4, 9), (320, 16)])
def test_events_are_spread_evenly(steps, events):
    shares = [share(number, steps, events) for number in range(steps)]
    assert sum(shares) == events
    assert max(shares) - min(shares) <= 1
    if (steps, events) == (8, 3):
        assert shares == [0, 1, 0, 1, 0, 0, 1, 0]


@pytest.mark.skipif(sys.platform != "linux", reason="threads have priorities on Linux only")
def test_emulators_stand_back():
    """Also from a process of a lower priority, which may not raise it again."""

    def niceness() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    def in_a_thread(function):
        with ThreadPoolExecutor(max_workers=1) as pool:
            return pool.submit(function).result()

    def of_a_nice_process() -> tuple[int, int]:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)
        return build_politely(niceness), niceness()

    own = niceness()
    assert build_politely(lambda: in_a_thread(niceness)) == max(own, NICENESS)
    assert niceness() == own
    assert in_a_thread(of_a_nice_process) == (19, 19)

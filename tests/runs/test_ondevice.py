"""The compiled loop against itself: runs alone, iterations by hand, steps by hand."""

import functools
import itertools
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sidequest.config import change
from sidequest.environments.suites import make_probe, memory
from sidequest.runs import ondevice
from sidequest.runs.build import Pace
from sidequest.runs.ondevice import make_mesh, map_runs, split_runs
from tests.runs.tiny import TINY, arrays, at, make_loop, stack

ITERATIONS = 9
HEADS = "XI-intra(2,informed:variance,p*,X)"  # decides the heads, and so the program
RUNS = [
    # Seeds and variants differ. What needs fewer heads can share the program.
    (HEADS, 0),
    ("XU-intra(2,informed,p*,X)", 0),
    ("XS-intra(*,blind,n*,G)", 1),
    ("XU-episode-level-*", 0),
]
ADAPTED = [["exploit"], ["exploit"], ["exploit", "explore"], ["start"]]
GAME = make_probe("probe:memory_7", memory(7))  # episodes of 8 steps
# 5/2 * 3 / 8 updates a block, a bandit's choice among few arms, a sync every second block.
CONFIG = change(
    TINY,
    **{
        "acting.environments": 3,
        "acting.sync_interval": 16,
        "replay.ratio": 2.5,
        "replay.warm_up": 3 * 8 * 3 + 1,
        "switching.exploit_arms": (2, 4),
        "switching.explore_arms": (1, 3),
    },
)


@pytest.fixture(scope="module")
def loop():
    return make_loop(GAME, HEADS, config=CONFIG)


@pytest.fixture(scope="module")
def individuals(loop):
    return [loop.arrays(*run) for run in RUNS]


@pytest.fixture(scope="module")
def alone(loop, individuals):
    """Each run by itself, an iteration at a time: its states and its records."""
    init = jax.jit(loop.init)
    one = jax.jit(lambda state, block: loop.iterate(state, block, 1))
    lives = []
    for individual in individuals:
        states, records = [init(individual)], []
        for block in range(ITERATIONS):
            state, record = one(states[-1], jnp.int32(block))
            states.append(state)
            records.append(at(arrays(record), 0))
        lives.append((states, jax.tree.map(lambda *leaves: np.stack(leaves), *records)))
    return lives


@pytest.fixture(scope="module")
def together(loop, individuals):
    """All runs side by side, all iterations in one scan."""

    @jax.jit
    def run(individuals):
        states = jax.vmap(loop.init)(individuals)
        iterations = functools.partial(loop.iterate, count=ITERATIONS)
        return jax.vmap(iterations, (0, None))(states, jnp.int32(0))

    return run(stack(individuals))


def test_a_population_is_its_members_alone_and_a_scan_its_rounds(alone, together):
    all_together = arrays(together)
    for i, (states, expected_record) in enumerate(alone):
        end, record = at(all_together, i)
        expected = arrays(states[-1])
        assert expected.learner.updates > 0
        # What was done is the same to the letter; numbers agree up to rounding.
        for ours, theirs in [
            (end.replay.contents, expected.replay.contents),
            (end.timesteps, expected.timesteps),
            (end.key, expected.key),
            (record.modes, expected_record.modes),
            (record.choices, expected_record.choices),
            (record.summaries, expected_record.summaries),
        ]:
            jax.tree.map(np.testing.assert_array_equal, ours, theirs)
        jax.tree.map(
            lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5),
            (end, record),
            (expected, expected_record),
        )


@pytest.fixture
def in_turn(loop):
    """Any number of runs as `train` runs them on a CPU, optimised as there."""

    def iterations(state, block):
        return loop.iterate(state, block, ITERATIONS)

    def run(individuals):
        mesh = make_mesh(len(individuals), sharded=len(individuals) > 1)
        init = jax.jit(map_runs(mesh, loop.init))
        play = jax.jit(map_runs(mesh, iterations, shared=1))
        rows = split_runs(mesh, stack(individuals))
        done = [arrays(play(init(row), jnp.int32(0))) for row in rows]
        return jax.tree.map(lambda *leaves: np.concatenate(leaves), *done)

    quick = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", False)
    yield run
    jax.config.update("jax_disable_most_optimizations", quick)


@pytest.mark.slow
def test_on_a_cpu_a_population_is_its_members_alone_bit_by_bit(in_turn, individuals):
    states, records = arrays(in_turn(individuals[:2]))
    assert (states.learner.updates > 0).all()
    for i, individual in enumerate(individuals[:2]):
        alone = arrays(in_turn([individual]))
        jax.tree.map(
            np.testing.assert_array_equal,
            (at(states, i), at(records, i)),
            at(alone, 0),
        )


def test_members_differ(together):
    contents = arrays(together[0].replay.contents)
    rows = [at(contents, i) for i in range(len(RUNS))]
    for i, j in itertools.combinations(range(len(RUNS)), 2):
        leaves = zip(jax.tree.leaves(rows[i]), jax.tree.leaves(rows[j]), strict=True)
        assert any((x != y).any() for x, y in leaves)


def test_updates_are_made_as_often_as_the_ratio_says(loop, alone):
    assert loop.agent.pace == Pace(numerator=15, denominator=16, warm_up=4, sync_every=2)
    for states, records in alone:
        made = [int(state.learner.updates) for state in states]
        # None while it warms up, then 15 in 16 blocks, rounded down, and no burst.
        expected = [max(block - 4, 0) * 15 // 16 for block in range(ITERATIONS + 1)]
        assert made == expected
        had_one = np.diff(made) > 0
        np.testing.assert_array_equal(~np.isnan(records.metrics.loss), had_one)


def test_actors_pull_at_their_interval_only(loop, alone):
    states, _ = alone[0]
    arm_probabilities = jax.jit(loop.agent.meta.arm_probabilities)
    for block, (before, after) in enumerate(zip(states[:-1], states[1:], strict=True)):
        synced, kept = arrays((after.policy, before.policy))
        expected = kept[:2]
        if block % 2 == 1:
            expected = arrays((after.learner.q_function, after.learner.scales))
        jax.tree.map(np.testing.assert_array_equal, tuple(synced[:2]), tuple(expected))
        # Arms are those of the bandits after every block.
        arms = arm_probabilities(after.meta)
        close = functools.partial(np.testing.assert_allclose, rtol=1e-6)
        close(synced.arms.probabilities, arms.probabilities)
    # And pulling makes a difference.
    first, last = arrays((states[0].policy.q_function, states[-1].policy.q_function))
    assert (first.network.post.weight != last.network.post.weight).any()


def test_bandits_are_fed_every_episode_once_in_order_with_its_return(loop, alone):
    dimensions = {"start": 0, "exploit": 1, "explore": 2}
    for (states, records), adapted in zip(alone, ADAPTED, strict=True):
        record = arrays(records)
        finished = record.summaries.finished
        assert finished.sum() > 16
        meta = states[-1].meta
        assert (np.asarray(meta.bandit.episodes) == finished.sum()).all()
        # Iterations, then steps, then environments: the last 16 are what the window holds.
        returns = record.summaries.episode_return[finished][-16:]
        choices = record.choices[finished][-16:]
        for d in dimensions.values():
            np.testing.assert_array_equal(meta.bandit.fitness, returns)
            np.testing.assert_array_equal(meta.bandit.arms[d], choices[:, d])
        for name in adapted:
            assert len(set(choices[:, dimensions[name]])) > 1
        lengths = record.summaries.length[finished]
        np.testing.assert_array_equal(meta.lengths[-16:], lengths[-16:])


def test_returns_of_the_memory_probe_are_right(alone):
    record = arrays(alone[0][1])
    finished = record.summaries.finished
    # An episode is eight steps, of which the last pays 1 or -1.
    assert set(np.unique(record.summaries.episode_return[finished])) == {-1.0, 1.0}
    assert (record.summaries.length[finished] == 8).all()


def test_collecting_in_a_scan_is_stepping_by_hand(loop, alone):
    states, _ = alone[0]
    state, key = states[3], jax.random.key(5)
    collect = functools.partial(ondevice.collect, loop.agent, GAME)
    after, steps, records, core = jax.jit(collect)(key, state)
    act, move, pick = map(jax.jit, (loop.agent.actor.act, GAME.step, at))
    steps, records, core = jax.device_get((steps, records, core))
    for b in range(loop.agent.environments):
        actor, timestep = pick(state.actors, b), pick(state.timesteps, b)
        world = pick(state.environments, b)
        for t in range(loop.agent.block_length):
            if t == loop.agent.replay.core_offset:
                jax.tree.map(
                    functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6),
                    at(core, b),
                    actor.core,
                )
            act_key, move_key = jax.random.split(jax.random.fold_in(key, t))
            keys = jax.random.split(act_key, 3), jax.random.split(move_key, 3)
            action, actor, record = act(state.policy, keys[0][b], timestep, actor)
            stored = at(at(steps, t), b)
            for name in ("observation", "reward", "terminated", "truncated", "is_first"):
                np.testing.assert_array_equal(
                    getattr(stored, name), getattr(timestep, name), name
                )
            assert stored.action == action
            assert stored.previous_action == record.previous_action
            assert records.mode[t, b] == record.mode
            np.testing.assert_allclose(records.q_taken[t, b], record.q_taken, rtol=1e-4)
            world, timestep = move(keys[1][b], world, action)
        assert pick(after.actors, b).previous_action == action
        np.testing.assert_array_equal(
            pick(after.timesteps, b).observation, timestep.observation
        )


def test_first_priorities_are_of_the_block_and_the_one_before(loop, alone):
    states, _ = alone[0]
    replay = arrays(states[1].replay)
    assert not replay.priorities.any()  # one block makes no item
    replay = arrays(states[3].replay)
    # Three blocks make the items (1, b), with priorities from the actors' errors.
    assert np.count_nonzero(replay.priorities) == 3
    assert (replay.priorities[1] > 1e-3).all()


def test_novelty_and_twin_heads_take_part(loop, alone):
    heads = [head.name for head in loop.agent.rules.heads]
    assert heads == ["extrinsic", "intrinsic", "twin"]
    states, records = alone[0]
    record = arrays(records)
    updated = ~np.isnan(record.metrics.loss)
    assert (record.metrics.intrinsic_reward[updated] > 0).all()
    assert (record.metrics.skipped[updated] == 0).all()
    start, end = arrays((states[0].learner.rnd, states[-1].learner.rnd))
    assert (start.predictor.output.weight != end.predictor.output.weight).any()
    jax.tree.map(np.testing.assert_array_equal, start.target, end.target)


def test_informed_triggers_hear_their_signals(alone):
    for _, records in alone[:2]:
        signals = arrays(records).signals
        heard = signals[np.isfinite(signals)]
        assert len(heard) > 5 and (heard > 0).all()
    for _, records in alone[2:]:
        assert np.isnan(arrays(records).signals).all()
    for _, records in alone:
        assert 0 < arrays(records).modes.mean() < 1


def test_devices_share_members_evenly():
    run_on_four_devices(
        """
import jax, jax.numpy as jnp
from sidequest.runs.ondevice import make_mesh, map_runs, split_runs

assert [make_mesh(runs, True).size for runs in (1, 3, 5, 8)] == [2, 3, 4, 4]
assert [make_mesh(runs, False).size for runs in (1, 3)] == [1, 1]
mesh = make_mesh(8, True)
double = jax.jit(map_runs(mesh, lambda x, y: {"sum": 2 * x + y}, shared=1))
rows = [double(row, jnp.int32(1))["sum"] for row in split_runs(mesh, jnp.arange(8))]
assert [row.tolist() for row in rows] == [[1, 3, 5, 7], [9, 11, 13, 15]]
assert len(rows[0].sharding.device_set) == 4
filled = split_runs(mesh, jnp.arange(6))[1]
assert filled.tolist() == [4, 5, 5, 5]
"""
    )


def test_devices_share_a_function_with_an_empty_constant():
    """As MiniGrid's; the compiler of JAX 0.11 ended the process."""
    run_on_four_devices(
        """
import jax, jax.numpy as jnp, numpy as np
from sidequest.runs.ondevice import make_mesh, map_runs

nothing = np.zeros(0, np.int32)
add = jax.jit(map_runs(make_mesh(4, True), lambda x: x + jnp.asarray(nothing).sum()))
assert add(jnp.arange(4)).tolist() == [0, 1, 2, 3]
"""
    )


@pytest.mark.slow
def test_a_population_on_four_devices_is_that_on_one(together, tmp_path):
    run_on_four_devices(
        """
import sys
import jax, jax.numpy as jnp, numpy as np
from sidequest.runs.ondevice import make_mesh, map_runs, split_runs
from tests.runs.test_ondevice import CONFIG, GAME, HEADS, RUNS, ITERATIONS
from tests.runs.tiny import arrays, make_loop, stack

loop = make_loop(GAME, HEADS, config=CONFIG)

def life(individual):
    return loop.iterate(loop.init(individual), jnp.int32(0), ITERATIONS)

population = stack([loop.arrays(*run) for run in RUNS])
states, records = jax.jit(map_runs(make_mesh(4, True), life))(population)
assert len(states.learner.updates.sharding.device_set) == 4
np.savez(sys.argv[1], *jax.tree.leaves(arrays((states, records))))
""",
        str(tmp_path / "shared.npz"),
    )
    shared = np.load(tmp_path / "shared.npz")
    for i, leaf in enumerate(jax.tree.leaves(arrays(together))):
        np.testing.assert_allclose(shared[f"arr_{i}"], leaf, rtol=1e-4, atol=1e-5)


def run_on_four_devices(program, *arguments):
    flags = (
        "--xla_force_host_platform_device_count=4 --xla_backend_optimization_level=0 "
        "--xla_llvm_disable_expensive_passes=true"
    )
    subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
        check=True,
    )

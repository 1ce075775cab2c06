"""The actor against its own records: signals, episodes, arms, and the recurrent core."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sidequest import periods
from sidequest.agent.actor import Policy, _read_signals, make_actor
from sidequest.agent.modes import modes_of
from sidequest.agent.networks import CoreState, QFunction, RecurrentQNetwork
from sidequest.switching import bandits
from sidequest.switching.controllers import make_controller
from sidequest.switching.metacontroller import make_metacontroller, variant_arrays
from sidequest.switching.variants import parse
from sidequest.types import Timestep
from tests.agent.batches import spec_of

GAMMA = 0.9
ACTIONS, STEPS = 4, 200
META = make_metacontroller(lambda arms: bandits.proportional(arms, window=8))


class Script(eqx.Module):
    """A network whose Q-values are the observation, and whose core counts its steps."""

    def initial_state(self):
        return CoreState(jnp.zeros(1), jnp.zeros(1))

    def step(self, inputs, core):
        counted = jnp.where(inputs.is_first, 0.0, core.cell) + 1.0
        return inputs.observation, CoreState(core.hidden, counted)


def stream(seed=0, heads=1, steps=STEPS) -> Timestep:
    """Random Q-values and rewards; episodes of random lengths that end both ways."""
    rng = np.random.default_rng(seed)
    ended = rng.random(steps) < 0.15
    ended[0] = False
    truncated = ended & (rng.random(steps) < 0.3)
    reward = rng.normal(size=steps).astype(np.float32)
    reward[0] = 0.0
    first = ended.copy()
    first[0] = True
    return Timestep(
        observation=rng.normal(size=(steps, heads, ACTIONS)).astype(np.float32),
        reward=reward,
        terminated=ended & ~truncated,
        truncated=truncated,
        is_first=first,
    )


@functools.cache
def compiled(heads):
    """All steps of one stream: records, and after each step the arm and the core."""
    actor = make_actor(make_controller(), heads, discount=GAMMA)

    @jax.jit
    def play(policy, modes, key, timesteps):
        def step(state, now):
            timestep, key = now
            _, state, record = actor.act(policy, key, timestep, state)
            return state, (record, state.choices, state.controller.arm, state.core)

        _, key = jax.random.split(key)
        start = actor.init(policy, modes)
        keys = jax.random.split(key, len(timesteps.reward))
        return jax.lax.scan(step, start, (timesteps, keys))[1]

    return play


def play(name, timesteps, seed=0):
    variant = parse(name)
    arms = META.arm_probabilities(META.init(variant_arrays(variant)))
    policy = Policy(Script(), jnp.ones(len(variant.heads)), arms)
    modes = modes_of(variant, variant.heads)
    out = compiled(variant.heads)(policy, modes, jax.random.key(seed), timesteps)
    return jax.tree.map(np.asarray, out)


def episodes(timesteps):
    """(first step, first step of the next episode) of every finished episode."""
    starts = np.flatnonzero(timesteps.is_first)
    return list(zip(starts[:-1], starts[1:], strict=True))


def test_signals_by_hand():
    q = jnp.array([[1.0, 2.0, 3.0, 4.0, 5.0], [9.0, 0.0, 0.0, 0.0, 0.0], [5, 4, 3, 2, 1]])
    no, yes = jnp.bool_(False), jnp.bool_(True)
    timestep = Timestep(jnp.zeros(1), jnp.float32(7.0), no, yes, yes)
    signals = _read_signals(q, timestep, GAMMA, twin=2)
    assert signals.value == 5.0  # of the extrinsic head, though another is greater
    assert signals.reward == 7.0 and signals.is_first
    # A time limit takes nothing away from what the state is worth.
    assert signals.discount == np.float32(GAMMA)
    # Of the best three, 3 4 5 and 1 2 3, one is shared.
    np.testing.assert_allclose(signals.action_mismatch, 2 / 3, rtol=1e-6)
    # Halves of the differences -4 -2 0 2 4, squared: 4 1 0 1 4.
    np.testing.assert_allclose(signals.value_variance, 2.0, rtol=1e-6)
    over = _read_signals(q, timestep._replace(terminated=yes, truncated=no), GAMMA, None)
    assert over.discount == 0.0
    assert over.action_mismatch == over.value_variance == over.novelty == 0.0


def test_the_trigger_listens_to_the_value_promise():
    timesteps = stream(3)
    record, *_ = play("XU-intra(1,informed,0.1,G)", timesteps)
    value = timesteps.observation[:, 0].max(axis=1)
    heard = 0
    for start, end in episodes(timesteps):
        for t in range(start, end):
            # Nothing to say in explore mode, nor before five steps have gone by.
            if t < start + 5 or record.mode[t - 1]:
                assert np.isnan(record.signal[t])
                continue
            paid = sum(GAMMA**j * timesteps.reward[t - 4 + j] for j in range(5))
            promise = abs(value[t - 5] - paid - GAMMA**5 * value[t])
            np.testing.assert_allclose(record.signal[t], promise, rtol=1e-4, atol=1e-5)
            heard += 1
    assert heard > 10


@pytest.mark.parametrize(
    "name",
    ["XU-step-level-0.4", "XU-intra(*,blind,n*,X)", "XU-intra(2,informed,0.1,G)"],
)
def test_summaries_are_those_of_the_recorded_modes(name):
    timesteps = stream(1)
    record, *_ = play(name, timesteps)
    ends = [end for _, end in episodes(timesteps)]
    assert len(ends) > 8
    np.testing.assert_array_equal(np.flatnonzero(record.summary.finished), ends)
    for start, end in episodes(timesteps):
        summary = [field[end] for field in record.summary]
        modes = record.mode[start:end]
        stats = periods(modes)
        entries = len(stats.lengths) - modes[0]
        exploited = np.count_nonzero(~modes)
        expected = [
            True,
            # The first reward came from the episode before; the last is yet to come.
            timesteps.reward[start + 1 : end + 1].sum(),
            end - start,
            stats.p,
            stats.median,
            stats.relative_median,
            len(stats.lengths),
            entries / exploited if exploited else np.nan,
        ]
        np.testing.assert_allclose(summary[:-1], expected, rtol=1e-5, atol=1e-6)


def test_the_target_rate_is_what_the_arm_asks_for():
    timesteps = stream(1)
    for name, rate in [
        ("XU-step-level-0.4", 0.4),
        ("XU-intra(2,informed,0.1,G)", 0.1),
        ("XU-intra(2,blind,4,G)", np.nan),
        ("XU-episode-level-*", np.nan),
    ]:
        record, *_ = play(name, timesteps)
        rates = record.summary.target_rate[record.summary.finished]
        np.testing.assert_allclose(rates, rate, rtol=1e-6)


def test_an_arm_lasts_an_episode_and_is_drawn_anew_at_its_first_step():
    timesteps = stream(2)
    record, choices, arm, _ = play("XU-intra(*,blind,n*,X)", timesteps)
    changed = (np.diff(choices, axis=0) != 0).any(axis=1)
    first = timesteps.is_first[1:]
    assert not changed[~first].any()
    assert changed[first].mean() > 0.5  # 11 times in 12, if three and four arms are drawn
    arms = np.array([1, 10, 100])[choices[:, 2]], np.array([10, 100, 1000, 10000])
    np.testing.assert_array_equal(arm.explore.amount, arms[0])
    np.testing.assert_array_equal(arm.exploit.amount, arms[1][choices[:, 1]])
    # What is fed back with an episode is the arm that it was played with.
    ended = record.summary.finished
    np.testing.assert_array_equal(record.choices[ended], choices[np.flatnonzero(ended) - 1])


def test_arms_are_drawn_by_the_probabilities_on_offer():
    variant = parse("XU-episode-level-*")
    arms = META.arm_probabilities(META.init(variant_arrays(variant)))
    only = np.array(arms.probabilities)
    only[0] = [0.0, 1.0, 0.0, 0.0]
    policy = Policy(Script(), jnp.ones(1), arms._replace(probabilities=only))
    timesteps = stream(1)
    modes = modes_of(variant, variant.heads)
    record, *_ = compiled(variant.heads)(policy, modes, jax.random.key(0), timesteps)
    assert record.mode.all()


def test_actions_follow_the_mode():
    timesteps = stream(4, heads=2)
    record, *_ = play("XI-intra(2,blind,3,G)", timesteps)
    best = timesteps.observation.argmax(axis=2)
    followed = np.where(record.mode, best[:, 1], best[:, 0])
    taken = record.previous_action[1:]
    np.testing.assert_array_equal(taken, followed[:-1])
    assert record.mode.any() and (best[:, 0] != best[:, 1]).any()
    np.testing.assert_array_equal(record.values, timesteps.observation.max(axis=2))
    extrinsic = timesteps.observation[np.arange(STEPS - 1), 0, taken]
    np.testing.assert_array_equal(record.q_taken[:-1], extrinsic)


def test_the_core_starts_over_with_every_episode():
    timesteps = stream(5)
    *_, core = play("XU-step-level-0.4", timesteps)
    for start, end in episodes(timesteps):
        np.testing.assert_array_equal(core.cell[start:end, 0], 1 + np.arange(end - start))


@functools.cache
def real():
    """A policy with a real network, and the compiled functions of its actor."""
    variant = parse("XU-intra(2,informed,p*,X)")
    make_network = functools.partial(
        RecurrentQNetwork,
        spec=spec_of(ACTIONS, actions=ACTIONS),
        num_heads=len(variant.heads),
        convolutions=(),
        torso_units=(8,),
        core_units=6,
        post_units=7,
        head_units=5,
    )
    network = jax.jit(make_network)(jax.random.key(0))
    arms = META.arm_probabilities(META.init(variant_arrays(variant)))
    q_function = QFunction(network, network.identity_normalisation())
    policy = Policy(q_function, jnp.ones(len(variant.heads)), arms)
    actor = make_actor(make_controller(), variant.heads, discount=GAMMA)
    modes = modes_of(variant, variant.heads)
    init = jax.jit(lambda: actor.init(policy, modes))
    return policy, init, jax.jit(actor.act), jax.jit(jax.vmap(actor.act, (None, 0, 0, 0)))


def test_streams_side_by_side_are_streams_alone():
    policy, init, act, act_all = real()
    streams = [stream(seed, steps=20) for seed in range(3)]
    streams = [row._replace(observation=row.observation[:, 0]) for row in streams]
    together = jax.tree.map(lambda *rows: np.stack(rows, axis=1), *streams)
    alone = [init() for _ in streams]
    batch = jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *alone)
    for t in range(20):
        keys = jax.random.split(jax.random.key(100 + t), 3)
        actions, batch, record = act_all(
            policy, keys, jax.tree.map(lambda x, t=t: x[t], together), batch
        )
        for b in range(3):
            timestep = jax.tree.map(lambda x, t=t: x[t], streams[b])
            action, alone[b], own = act(policy, keys[b], timestep, alone[b])
            assert action == np.asarray(actions)[b]
            assert own.mode == np.asarray(record.mode)[b]
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *alone)
    jax.tree.map(
        lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6), batch, stacked
    )


def test_nothing_of_an_old_episode_reaches_the_first_q_values_of_a_new_one():
    policy, init, act, _ = real()
    fresh = init()
    used = fresh._replace(
        core=CoreState(jnp.full(6, 3.0), jnp.full(6, -2.0)),
        previous_action=jnp.int32(3),
    )
    no, yes = np.bool_(False), np.bool_(True)
    start = Timestep(np.ones(ACTIONS, np.float32), np.float32(0.0), no, no, yes)

    def values(state, timestep):
        return act(policy, jax.random.key(1), timestep, state)[2].values

    rewarded = start._replace(reward=np.float32(5.0))
    np.testing.assert_array_equal(values(used, rewarded), values(fresh, start))
    later = start._replace(is_first=no)
    assert (values(used, later) != values(fresh, later)).all()

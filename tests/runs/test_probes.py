"""Every probe is learned to its known answer, by every head, through the whole loop.

Probes differ in nothing that a program is made of, once they show observations of one
shape. So they are the runs of a population: one compiled program learns them all.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sidequest.agent.networks import Inputs
from sidequest.agent.rnd import RND, RNDState
from sidequest.config import change
from sidequest.environments import registry
from sidequest.environments.base import CompiledEnvironment
from sidequest.environments.suites import PROBES
from sidequest.runs import build
from tests.agent.batches import unroll_one
from tests.environments import answers
from tests.runs.tiny import TINY, at, make_loop

WIDTH = 2  # of the widest observation; narrower ones are filled up with 0
DISCOUNTS = {"extrinsic": 0.9, "short": 0.5, "twin": 0.9}
BEHAVIOUR = "XU-step-level-0.5"
CONFIG = change(
    TINY,
    **{
        "network.pre_units": 24,
        "network.core_units": 24,
        "acting.environments": 8,
        "replay.capacity": 8 * 8 * 60,
        "replay.ratio": 4.0,
        "learning.batch_size": 16,
        "learning.learning_rate": 3e-3,
        "learning.target_interval": 10,
        # Half of the actions are random: returns that ran on through them would be those
        # of such a policy, not of the best one.
        "learning.watkins": True,
        "learning.trace_tolerance": 0.0,
    },
)


def fill_up(observation):
    return jnp.pad(observation, (0, WIDTH - observation.shape[0]))


def one_of(environments, index) -> CompiledEnvironment:
    """The environment of that index, which the program does not know."""

    def choose(name):
        def branch(function):
            def run(*inputs):
                state, timestep = function(*inputs)
                shown = fill_up(timestep.observation)
                return state, timestep._replace(observation=shown)

            return run

        branches = [branch(getattr(one, name)) for one in environments]
        return lambda *inputs: jax.lax.switch(index, branches, *inputs)

    spec = environments[0].spec._replace(observation_shape=(WIDTH,))
    return CompiledEnvironment(choose("reset"), choose("step"), spec)


def learn(names, variant, config, iterations) -> dict:
    """Trains an agent with this variant's heads on each probe; returns their networks."""
    environments = [registry.make(name) for name in names]
    loop = make_loop(one_of(environments, 0), variant, config=config)
    arrays = loop.arrays(BEHAVIOUR, 0)

    # It runs for so long that some optimisation pays, but not all of it.
    @functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 1})
    @jax.vmap
    def life(index):
        own = loop._replace(environment=one_of(environments, index))
        state, _ = own.iterate(own.init(arrays), jnp.int32(0), iterations)
        return state.learner

    learner = life(jnp.arange(len(names)))
    assert not np.asarray(learner.skipped.total).any()
    return {name: at(learner.q_function, i) for i, name in enumerate(names)}


@functools.partial(jax.jit, static_argnums=1)
def unroll(network, length, observations, actions, rewards):
    previous = jnp.append(jnp.zeros(1, jnp.int32), actions[:-1])
    first = jnp.arange(length) == 0
    inputs = Inputs(jax.vmap(fill_up)(observations), previous, rewards, first)
    return unroll_one(network, inputs, network.initial_state())[0]


def episodes(network, name, discount=0.9):
    """For each cue: what every head thinks of an episode [T, H, A], and the answer."""
    for known in answers.answer(name, discount):
        played = known.observations, known.actions, known.rewards
        yield np.asarray(unroll(network, len(known.actions), *played)), known.q_values


@pytest.fixture(scope="module")
def networks():
    return learn(list(PROBES), "Xγ-intra(1,informed:variance,0.3,G)", CONFIG, 300)


@pytest.mark.parametrize("name", PROBES)
def test_every_head_finds_the_answer_to_its_discount(networks, name):
    # The time limit's values are up to 10, so 5% of it.
    tolerance = 0.5 if name == "probe:time_limit" else 0.08
    for head, discount in enumerate(DISCOUNTS.values()):
        for q, answer in episodes(networks[name], name, discount):
            np.testing.assert_allclose(q[:, head], answer, atol=tolerance)


ONE_EACH = RND(
    init=lambda key: RNDState(None, None, None, jnp.zeros(())),
    update=lambda state, x: (state, jnp.ones(x.shape[:-1])),
)


@pytest.fixture(scope="module")
def crippled():
    """Without memory, with time limits taken for ends; novelty is always 1."""
    names = ["probe:two_step", "probe:memory_1", "probe:memory_2", "probe:time_limit"]
    changes = {
        "network.recurrent": False,
        "learning.timeout_is_terminal": True,
        "novelty.centred": False,  # centred, a novelty that is always the same is 0
        "novelty.weight": 1.0,
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "_make_rnd", lambda config, spec: ONE_EACH)
        variant = "XI-intra(1,informed:variance,0.3,G)"
        return learn(names, variant, change(CONFIG, **changes), 150)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["probe:memory_1", "probe:memory_2"])
def test_what_needs_memory_is_not_learned_without_it(crippled, name):
    down, up = (q for q, _ in episodes(crippled[name], name))
    # What it sees is the same for both cues, and so are its values: 0, but for noise,
    # where the answer is 1 and -1 one way or the other. One of the two cues is lost.
    np.testing.assert_allclose(down[-1, 0], up[-1, 0], atol=1e-5)
    assert np.abs(down[-1, 0]).max() < 0.9


@pytest.mark.slow
def test_what_needs_no_memory_is_learned_without_it(crippled):
    for q, answer in episodes(crippled["probe:two_step"], "probe:two_step"):
        np.testing.assert_allclose(q[:, 0], answer, atol=0.05)
        np.testing.assert_allclose(q[:, 2], answer, atol=0.05)


@pytest.mark.slow
def test_the_intrinsic_head_learns_novelty(crippled):
    """The second step is new, with 1; the start of the next episode is not its doing."""
    for q, _ in episodes(crippled["probe:two_step"], "probe:two_step"):
        np.testing.assert_allclose(q[:, 1], [[1.0, 1.0], [0.0, 0.0]], atol=0.05)


@pytest.mark.slow
def test_a_time_limit_taken_for_an_end_makes_values_small(crippled):
    for q, answer in episodes(crippled["probe:time_limit"], "probe:time_limit"):
        np.testing.assert_array_equal(np.abs(answer), np.float32(10.0))
        # Never more than the rewards of five steps: 1 + 0.9 + ... = 4.1.
        assert (np.abs(q[:, 0]) < 4.2).all()
        assert (np.sign(q[:, 0]) == np.sign(answer)).all()

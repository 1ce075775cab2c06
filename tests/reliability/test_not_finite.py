"""Numbers that are not finite: one is left out, several in a row end the run."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sidequest.config import change
from sidequest.environments.base import CompiledEnvironment, auto_reset
from sidequest.errors import Diverged
from sidequest.records import read_run, read_table
from sidequest.runs import checkpoint, trainer
from sidequest.runs.checkpoint import listed
from tests.reliability.harness import CONFIG, run, specs
from tests.runs.tiny import bargains

ONE_STREAM = change(CONFIG, **{"acting.environments": 1, "replay.ratio": 4.0})


def spoilt(first: int, last: int, reward=float("nan"), game=None) -> CompiledEnvironment:
    """Rewards are spoilt from one step of each stream to another."""
    game = game or bargains()

    def reset(key):
        state, timestep = game.reset(key)
        return (state, jnp.int32(1)), timestep

    def step(key, state, action):
        inner, count = state
        inner, timestep = game.step(key, inner, action)
        bad = (count >= first) & (count <= last)
        timestep = timestep._replace(reward=jnp.where(bad, reward, timestep.reward))
        return (inner, count + 1), timestep

    return CompiledEnvironment(reset, step, game.spec)


def test_what_is_not_finite_is_counted():
    ring = np.zeros((200, 3, 2))
    ring[50:150, 1, 0] = np.nan
    state = {"ring": ring, "fine": np.ones(3), "scalar": np.float32(np.inf)}
    assert trainer.not_finite(state) == {"['ring']": 100, "['scalar']": 1}


def eights() -> CompiledEnvironment:
    """Episodes of 8 steps, as long as a block."""

    def reset(key):
        offers = jax.random.normal(key, (2,))
        return (offers, jnp.int32(0)), offers

    def step(key, state, action):
        (offers, steps), following = state, jax.random.normal(key, (2,))
        over = steps == 7
        return (following, steps + 1), following, offers[action], over, jnp.array(False)

    return auto_reset(reset, step, bargains().spec)


def test_case_15_a_reward_that_is_not_a_number(tmp_path):
    """One sequence cannot be learned from: one update is left out, no more, no less.

        block        9                10               11
        step         72 ...    79     80 ...    87     88 ...
        reward                        NaN, for step 79
        item 9       t  t t t  t      t  t t t  t              is spoilt
        item 10                       t  t t t  t      t       has it before its first
                                                               transition, and no use for it
    The network sees no reward of an episode that has gone.
    """
    (one,) = specs(tmp_path, 0)
    run([one], chunks=1, config=ONE_STREAM, game=lambda: spoilt(80, 80, game=eights()))
    assert read_run(one.folder)["finished"]
    learning = read_table(one.folder, "learning")
    assert learning["skipped"][-1] == 1 and learning["skipped_in_a_row"][-1] == 1
    assert learning["loss"].is_finite().all()
    assert read_table(one.folder, "episodes")["return"].null_count() == 1
    with np.load(one.folder / checkpoint.PARAMETERS) as parameters:
        assert all(np.isfinite(parameters[name]).all() for name in parameters)


@pytest.mark.slow
def test_case_15_in_the_middle_of_an_episode(tmp_path):
    """Two sequences hold it: too few to end a run. What follows is as good as ever."""
    (one,) = specs(tmp_path, 0)
    run([one], chunks=1, config=ONE_STREAM, game=lambda: spoilt(300, 300))
    assert read_table(one.folder, "learning")["skipped"][-1] in (1, 2)
    assert read_table(one.folder, "episodes")["return"].null_count() == 1


@pytest.mark.slow
def test_case_16_rewards_that_are_never_numbers_again(tmp_path):
    (one,) = specs(tmp_path, 0)
    with pytest.raises(Diverged, match="updates in a row were not finite") as fault:
        # Until replay, of 12 blocks here, holds nothing else.
        config = change(CONFIG, **{"replay.capacity": 4 * 8 * 12})
        run([one], chunks=6, config=config, game=lambda: spoilt(600, 10**9))
    assert fault.value.exit_code == 70
    report = json.loads((one.folder / trainer.DIVERGED_FILE).read_text())
    assert report["newest_update"]["skipped_in_a_row"] >= 3
    assert report["not_finite"]["['run'].replay.contents.reward"] > 0
    manifest = checkpoint.read_manifest(listed(one.folder)[0])
    assert manifest.snapshot.frames <= 2 * 1024
    assert not any("learner" in path for path in report["not_finite"])


@pytest.mark.slow
def test_case_17_huge_rewards(tmp_path):
    (one,) = specs(tmp_path, 0)
    run([one], chunks=3, game=lambda: spoilt(300, 300, 1e30))
    scale = read_table(one.folder, "learning")["scale_extrinsic"]
    assert scale.is_finite().all()

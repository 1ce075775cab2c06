"""Numbers that are not finite: one is left out, several in a row end the run."""

import json

import jax.numpy as jnp
import numpy as np
import pytest

from sidequest.agent.learner import Metrics
from sidequest.config import change
from sidequest.environments.base import CompiledEnvironment
from sidequest.runs import checkpoint
from sidequest.runs.breakdown import REPORT, Streak
from sidequest.runs.checkpoint import listed
from sidequest.runs.faults import NotFinite
from sidequest.runs.records import read_run, read_table
from sidequest.runs.saving import refuse_not_finite
from tests.reliability.harness import CONFIG, run, specs
from tests.runs.tiny import bargains


def spoilt(first: int, last: int, reward: float = float("nan")) -> CompiledEnvironment:
    """Rewards are spoilt from one step of each stream to another."""
    game = bargains()

    def reset(key):
        state, timestep = game.reset(key)
        return (state, jnp.int32(0)), timestep

    def step(key, state, action):
        inner, count = state
        inner, timestep = game.step(key, inner, action)
        bad = (count >= first) & (count <= last)
        timestep = timestep._replace(reward=jnp.where(bad, reward, timestep.reward))
        return (inner, count + 1), timestep

    return CompiledEnvironment(reset, step, game.spec)


def metrics(skipped, losses):
    nothing = np.zeros(len(losses))
    return Metrics(
        *(np.array(losses), *[nothing] * 6),
        skipped=np.array(skipped, float),
    )


def test_streaks_by_hand():
    nan = np.nan
    # One update a round:      fine, bad, fine, bad, bad | bad
    streak = Streak().after(metrics([0, 1, 1, 2, 3], [1, nan, 1, nan, nan]), [1] * 5)
    assert streak == Streak(skipped=3, in_a_row=2, longest=2)
    assert not streak.is_breakdown
    assert streak.after(metrics([4], [nan]), [1]).is_breakdown
    assert not streak.after(metrics([3], [1.0]), [1]).is_breakdown
    # Four updates a round: all bad; then one of four, not the last; a round without any.
    assert Streak().after(metrics([4], [nan]), [4]).is_breakdown
    streak = Streak(2, 2, 2).after(metrics([3, nan], [1.0, nan]), [4, 0])
    assert streak == Streak(3, 0, 2)
    assert Streak(2, 2, 2).after(metrics([3], [nan]), [4]) == Streak(3, 1, 2)


def test_parameters_that_are_not_finite_are_never_saved(tmp_path):
    refuse_not_finite(tmp_path, {"weights": np.ones(3), "count": np.int32(1)})
    with pytest.raises(NotFinite, match=r"\['weights'\] are not finite") as fault:
        refuse_not_finite(tmp_path, {"weights": np.array([1.0, np.inf])})
    assert fault.value.exit == 70


def test_case_15_a_reward_that_is_not_a_number(tmp_path):
    (one,) = specs(tmp_path, 0)
    run([one], chunks=2, game=lambda: spoilt(300, 300))
    assert read_run(one.folder)["finished"]
    # It reached the tables and replay, where a sequence that holds it has the lowest
    # priority there is: it is hardly ever drawn, and left out when it is.
    assert read_table(one.folder, "episodes")["return"].null_count() == 4
    assert read_table(one.folder, "learning")["skipped"][-1] <= 2
    with np.load(one.folder / checkpoint.PARAMETERS) as parameters:
        assert all(np.isfinite(parameters[name]).all() for name in parameters)


@pytest.mark.slow
def test_case_16_rewards_that_are_never_numbers_again(tmp_path):
    (one,) = specs(tmp_path, 0)
    with pytest.raises(NotFinite, match="updates in a row were not finite") as fault:
        # Until replay, of 12 blocks here, holds nothing else.
        config = change(CONFIG, **{"replay.capacity": 4 * 8 * 12})
        run([one], chunks=6, config=config, game=lambda: spoilt(600, 10**9))
    assert fault.value.exit == 70
    report = json.loads((one.folder / REPORT).read_text())
    assert report["skipped"]["longest"] >= 3
    assert any("replay" in path for path in report["not_finite"])
    assert checkpoint.read_manifest(listed(one.folder)[0]).frames <= 2 * 1024
    assert not any("learner" in path for path in report["not_finite"])


@pytest.mark.slow
def test_case_17_huge_rewards(tmp_path):
    (one,) = specs(tmp_path, 0)
    run([one], chunks=3, game=lambda: spoilt(300, 300, 1e30))
    scale = read_table(one.folder, "learning")["scale_extrinsic"]
    assert scale.is_finite().all()

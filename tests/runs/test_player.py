"""Agents put together again from what a run left on disk."""

import dataclasses
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

from sidequest.config import change
from sidequest.environments import registry
from sidequest.errors import NotEvaluable
from sidequest.records import Recorder
from sidequest.runs import checkpoint
from sidequest.runs.assembly import make_q_function
from sidequest.runs.player import COMPILED_LEARNER, load_player
from tests.runs.left import TINY_FRAMES, leave_run
from tests.runs.tiny import TINY, bargains, make_agent

GAME = "probe:memory_2"


def test_the_agent_is_the_one_that_was_saved(tmp_path):
    player = load_player(leave_run(tmp_path, "XI-intra(10,blind,100,G)", GAME, TINY))
    spec = registry.make(GAME).spec
    saved = make_q_function(TINY, spec, 2, jax.random.key(3))
    jax.tree.map(np.testing.assert_array_equal, player.q_function, saved)
    assert player.config == TINY
    assert str(player.variant) == "XI-intra(10,blind,100,G)"
    np.testing.assert_array_equal(player.scales, [1.0, 1.0])


def test_scales_are_the_last_that_were_recorded(tmp_path):
    variant = "XI-step-level-0.01"
    run = {"variant": variant, "game": GAME, "seed": 0, "config": dataclasses.asdict(TINY)}
    recorder = Recorder(tmp_path, run)
    for scale in (2.0, 3.5):
        row = {"frames": 0, "scale_extrinsic": scale, "scale_intrinsic": scale / 2}
        recorder.write("learning", [row])
    recorder.close()
    network = make_q_function(TINY, registry.make(GAME).spec, 2, jax.random.key(0))
    checkpoint.save(tmp_path / checkpoint.PARAMETERS, network)
    np.testing.assert_array_equal(load_player(tmp_path).scales, [3.5, 1.75])


def test_a_run_without_parameters_is_told_so(tmp_path):
    folder = leave_run(tmp_path, "XU-step-level-0.1", GAME, TINY)
    (folder / checkpoint.PARAMETERS).unlink()
    with pytest.raises(NotEvaluable, match="no parameters yet"):
        load_player(folder)


class Learning(NamedTuple):
    """As much of a run's state as matters here."""

    network: Any
    normalisation: Any
    updates: Any


def parts(q_function):
    return q_function.network, q_function.normalisation


class Going(NamedTuple):
    learner: Learning


def test_an_atari_run_keeps_its_parameters_elsewhere(tmp_path):
    folder = leave_run(tmp_path, "XU-step-level-0.1", "pong", TINY_FRAMES)
    network = checkpoint.load(
        folder / checkpoint.PARAMETERS, load_player(folder).q_function
    )
    (folder / checkpoint.PARAMETERS).unlink()
    state = {"member": Going(Learning(*parts(network), np.int32(0))), "unread": np.int32(0)}
    checkpoint.write(folder, checkpoint.Snapshot({}, 40, {}, {}, state))
    jax.tree.map(np.testing.assert_array_equal, load_player(folder).q_function, network)


def test_compiled_runs_keep_them_where_they_are_looked_for():
    agent = make_agent(bargains(), "XU-step-level-0.1")
    member = jax.eval_shape(agent.loop.init, agent.individual("XU-step-level-0.1", 0))
    paths, _ = checkpoint.named_arrays(jax.eval_shape(checkpoint.portable, member.learner))
    own, _ = checkpoint.named_arrays(member.learner.q_function)
    assert COMPILED_LEARNER == ".learner" and set(own) <= set(paths)


def test_a_run_that_goes_on_is_played_by_its_newest_checkpoint(tmp_path):
    folder = leave_run(tmp_path, "XU-step-level-0.1", GAME, TINY)
    spec = registry.make(GAME).spec
    networks = [make_q_function(TINY, spec, 1, jax.random.key(seed)) for seed in (10, 11)]
    for frames, network in zip((800, 1600), networks, strict=True):
        state = Going(Learning(*parts(network), np.int32(frames)))
        checkpoint.write(folder, checkpoint.Snapshot({}, frames, {}, {}, state))

    def sign(network) -> float:
        return float(jax.tree.leaves(network)[0].sum())

    def played() -> float:
        return sign(load_player(folder).q_function)

    first = [sign(network) for network in networks]
    finished = sign(make_q_function(TINY, spec, 1, jax.random.key(3)))
    assert played() == finished != first[1]
    (folder / checkpoint.PARAMETERS).unlink()
    assert played() == first[1] != first[0]
    shard = next((folder / checkpoint.FOLDER / "000000001600").glob("*.npz"))
    shard.write_bytes(shard.read_bytes()[:-1])
    assert played() == first[0]


def test_parameters_of_another_network_are_refused(tmp_path):
    folder = leave_run(tmp_path, "XU-step-level-0.1", GAME, TINY)
    wider = change(TINY, **{"network.core_units": 17})
    network = make_q_function(wider, registry.make(GAME).spec, 1, jax.random.key(0))
    checkpoint.save(folder / checkpoint.PARAMETERS, network)
    with pytest.raises(NotEvaluable, match=r"parameters.npz is of another .*\(19, 64\)"):
        load_player(folder)


@pytest.mark.parametrize("content", [b"", b"no zip at all"])
def test_damaged_parameters_are_refused(tmp_path, content):
    folder = leave_run(tmp_path, "XU-step-level-0.1", GAME, TINY)
    (folder / checkpoint.PARAMETERS).write_bytes(content)
    with pytest.raises(NotEvaluable, match="parameters.npz is .* damaged"):
        load_player(folder)

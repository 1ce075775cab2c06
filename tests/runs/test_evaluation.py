"""The greedy evaluator on players and games whose scores are known, and players that are
built again from what a run left on disk."""

import dataclasses
import subprocess
import sys
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sidequest.agent.networks import CoreState, QFunction
from sidequest.config import change
from sidequest.environments import registry
from sidequest.environments.base import EnvironmentSpec, HostedGame, auto_reset
from sidequest.errors import InvalidRequest
from sidequest.records import Recorder
from sidequest.runs import checkpoint, evaluation, hosted, ondevice
from sidequest.runs.build import build_agent
from sidequest.runs.evaluation import (
    GreedyScores,
    evaluate_run,
    load_player,
    make_evaluator,
)
from sidequest.runs.memory import tiled
from sidequest.switching.variants import parse
from sidequest.types import Timestep
from tests.runs.left import TINY_FRAMES, leave_run, make_q_function
from tests.runs.test_hosted import Drawn
from tests.runs.tiny import TINY, bargains, make_loop

GAME = "probe:memory_2"


class Rememberer(QFunction):
    """Acts by the first observation of an episode; a second head wants the opposite."""

    sign: jax.Array

    def __init__(self, sign):
        self.network = self.normalisation = None
        self.sign = jnp.float32(sign)

    def initial_state(self):
        return CoreState(jnp.zeros(1), jnp.zeros(1))

    def step(self, inputs, core):
        cue = jnp.where(inputs.is_first, inputs.observation[0], core.cell[0])
        q = self.sign * jnp.stack([-cue, cue])
        return jnp.stack([q, -q]), CoreState(core.hidden, cue[None])


def play(environment, network, episodes, seed=0):
    run = jax.jit(make_evaluator(environment, episodes))
    return jax.tree.map(np.asarray, run(jax.random.key(seed), network))


def test_the_extrinsic_head_plays_greedily():
    environment = registry.make("probe:memory_2")
    right = play(environment, Rememberer(1.0), 16)
    # The reward for the last action comes with the first step of the next episode.
    np.testing.assert_array_equal(right.episode_return, np.ones(16))
    np.testing.assert_array_equal(right.length, np.full(16, 3))
    wrong = play(environment, Rememberer(-1.0), 16)
    np.testing.assert_array_equal(wrong.episode_return, -np.ones(16))


def gamble(ends: float, **limits):
    """Every step pays 1 and may be the last."""
    spec = EnvironmentSpec("gamble", (1,), np.dtype(np.float32), 2, **limits)

    def step(key, state, action):
        over = jax.random.bernoulli(key, ends)
        return state, jnp.zeros(1), 1.0, over, jnp.bool_(False)

    return auto_reset(lambda key: (0, jnp.zeros(1)), step, spec)


def test_each_episode_is_played_to_its_end_and_no_further():
    scores = play(gamble(0.3), Rememberer(1.0), 64)
    np.testing.assert_array_equal(scores.episode_return, scores.length)
    assert scores.length.min() == 1 and scores.length.max() > 8
    # The mean of a geometric distribution, within four standard errors.
    assert abs(scores.length.mean() - 1 / 0.3) < 4 * np.sqrt(0.7) / 0.3 / 8


def test_the_seed_decides():
    environment, player = gamble(0.3), Rememberer(1.0)
    run = jax.jit(make_evaluator(environment, 64))
    one, same, other = (run(jax.random.key(seed), player) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.length, same.length)
    assert (one.length != other.length).any()


def test_endless_episodes_are_cut_off(monkeypatch):
    monkeypatch.setattr(evaluation, "_LONGEST", 20)
    scores = play(gamble(0.0), Rememberer(1.0), 2)
    np.testing.assert_array_equal(scores.length, [20, 20])
    scores = play(gamble(0.0, max_steps=7), Rememberer(1.0), 2)
    np.testing.assert_array_equal(scores.episode_return, [7.0, 7.0])


class Stubborn(Rememberer):
    """Takes one action, whatever it sees; of a network it has the memory only."""

    def step(self, inputs, core):
        return jnp.stack([jnp.arange(4.0) == 2, jnp.arange(4.0) == 0]), core


class Group:
    """Emulators that pay the action's number; emulator i ends after `lengths[i]` steps."""

    spec = EnvironmentSpec("told", (1,), np.dtype(np.float32), 4)

    def __init__(self, lengths):
        self.lengths, self.steps, self.closed = np.array(lengths), 0, False
        self.reward = np.zeros(len(lengths), np.float32)

    def send(self, actions):
        self.reward = actions.astype(np.float32)
        self.steps += 1

    def recv(self):
        over = self.steps % self.lengths == 0
        ended = over & (self.steps > 0)
        shown = np.zeros((len(over), 1), np.float32)
        return Timestep(shown, self.reward, ended, np.zeros_like(over), over)

    def close(self):
        self.closed = True


def test_scores_of_emulators_by_hand():
    # is_first   1  0  0  1  0  1      two episodes, of 3 and of 2 steps
    # reward     0  1  2  4  8  16     the reward of a first step closes the episode before
    # blocks     0  0  1  1  2  3      what it began with counts
    # The second emulator is within an episode at first, which does not count.
    rewards, blocks = (0, 1, 2, 4, 8, 16), (0, 0, 1, 1, 2, 3)
    first = (1, 0, 0, 1, 0, 1), (0, 0, 1, 0, 1, 0)
    scores, ended = GreedyScores(2), []
    for *is_first, reward, block in zip(*first, rewards, blocks, strict=True):
        is_first, no = np.array(is_first, bool), np.zeros(2, bool)
        reward = np.full(2, reward, np.float32)
        ended.append(scores.count(Timestep(None, reward, is_first, no, is_first), block))
    assert ended == [{}, {}, {}, {0: (7.0, 3, 0)}, {1: (12.0, 2, 1)}, {0: (24.0, 2, 1)}]


def evaluate_group(lengths, episodes):
    group, heard = Group(lengths), []

    def build(*, groups, environments, seed):
        assert (groups, environments, seed) == (1, len(lengths), 9)
        return [group]

    game = HostedGame(build, Group.spec)
    report = lambda *told: heard.append(told)  # noqa: E731
    scores = evaluation._evaluate_hosted(game, Stubborn(1.0), episodes, 9, report)
    assert group.closed
    return scores, heard


def test_emulators_play_the_share_that_each_was_given():
    scores, heard = evaluate_group([3, 7], episodes=2)
    # The quick emulator has ended twice before the other has once; its second is not asked.
    np.testing.assert_array_equal(scores.length, [3, 7])
    np.testing.assert_array_equal(scores.episode_return, [6.0, 14.0])
    assert heard[-1] == (2, 14) and heard[2] == (1, 6)


def test_episodes_are_shared_out_evenly(monkeypatch):
    monkeypatch.setattr(evaluation, "_EMULATORS", 3)
    scores, _ = evaluate_group([2, 5, 4], episodes=5)
    np.testing.assert_array_equal(scores.length, [2, 2, 5, 5, 4])
    np.testing.assert_array_equal(scores.episode_return, 2 * scores.length)


def test_episodes_that_never_end_are_given_up(monkeypatch):
    monkeypatch.setattr(evaluation, "_LONGEST", 20)
    with pytest.raises(
        InvalidRequest, match="1 of 2 episodes of told have not ended after"
    ):
        evaluate_group([3, 10**6], episodes=2)


def test_an_atari_run_is_played_and_compared_with_a_human(tmp_path):
    folder = leave_run(tmp_path, "XU-step-level-0.01", "pong", TINY_FRAMES)
    heard = []
    scores = evaluate_run(folder, 1, 0, lambda *told: heard.append(told))
    # Nobody who was never taught wins a game of 21 points.
    assert scores["episodes"] == 1 and len(scores["returns"]) == 1
    assert -21 <= scores["min"] <= scores["mean"] <= scores["max"] <= -18
    assert scores["human_normalised"] == pytest.approx((scores["mean"] + 20.7) / 35.3)
    assert 700 < scores["length"] < 2_000 and heard[-1][0] == 1


def test_a_game_that_no_human_played_has_no_such_score(tmp_path):
    folder = leave_run(tmp_path, "XU-step-level-0.01", "probe:constant", TINY)
    scores = evaluate_run(folder, 3, 0)
    assert scores["human_normalised"] is None
    assert scores["returns"] == [1.0, 1.0, 1.0] and scores["length"] == 1.0
    assert (scores["game"], scores["seed"]) == ("probe:constant", 3)


def test_a_compiled_game_needs_no_emulators():
    code = (
        "import sidequest.runs.evaluation, sys;"
        "print([name for name in sys.modules if 'hosted' in name or 'ale_py' in name])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.stdout == "[]\n", found.stderr


def test_the_agent_is_the_one_that_was_saved(tmp_path):
    player = load_player(leave_run(tmp_path, "XI-intra(10,blind,100,G)", GAME, TINY))
    spec = registry.make(GAME).spec
    saved = make_q_function(TINY, spec, 2, jax.random.key(3))
    jax.tree.map(np.testing.assert_array_equal, player.q_function, saved)
    assert str(player.spec.variant) == "XI-intra(10,blind,100,G)"
    np.testing.assert_array_equal(player.scales, [1.0, 1.0])


def test_scales_are_the_last_that_were_recorded(tmp_path):
    variant = "XI-step-level-0.01"
    run = {"variant": variant, "game": GAME, "seed": 0, "config": dataclasses.asdict(TINY)}
    run["frames"] = 1_000
    recorder = Recorder(tmp_path, run)
    for scale in (2.0, 3.5):
        row = {"frames": 0, "scale_extrinsic": scale, "scale_intrinsic": scale / 2}
        recorder.write("learning", [row])
    network = make_q_function(TINY, registry.make(GAME).spec, 2, jax.random.key(0))
    checkpoint.save(tmp_path / checkpoint.PARAMETERS, network)
    recorder.finish(checkpoint.PARAMETERS)
    np.testing.assert_array_equal(load_player(tmp_path).scales, [3.5, 1.75])


def test_a_run_without_parameters_is_told_so(tmp_path):
    folder = leave_run(tmp_path, "XU-step-level-0.1", GAME, TINY)
    (folder / checkpoint.PARAMETERS).unlink()
    with pytest.raises(InvalidRequest, match="no parameters yet"):
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


def test_checkpoints_keep_parameters_where_they_are_looked_for():
    def paths(tree):
        leaves = jax.tree_util.tree_leaves_with_path(tree)
        return {jax.tree_util.keystr(where) for where, _ in leaves}

    loop = make_loop(bargains(), "XU-step-level-0.1")
    variant = parse("XU-step-level-0.1")
    compiled = {"run": ondevice.state_spec(loop.agent, loop.environment, variant)}
    tiles = build_agent(TINY_FRAMES, Drawn.spec, [variant], tiled(10**8))
    own = {checkpoint.LEARNER + path for path in paths(compiled["run"].learner.q_function)}
    assert own <= paths(compiled)
    assert own <= paths(hosted.state_spec(tiles, variant))


def test_a_run_that_goes_on_is_played_by_its_newest_checkpoint(tmp_path):
    folder = leave_run(tmp_path, "XU-step-level-0.1", GAME, TINY)
    spec = registry.make(GAME).spec
    networks = [make_q_function(TINY, spec, 1, jax.random.key(seed)) for seed in (10, 11)]
    for frames, network in zip((800, 1600), networks, strict=True):
        state = {"run": Going(Learning(*parts(network), np.int32(frames)))}
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
    shard = next((folder / checkpoint.FOLDER / "000000001600").glob("*.bin"))
    shard.write_bytes(shard.read_bytes()[:-1])
    assert played() == first[0]


def test_parameters_of_another_network_are_refused(tmp_path):
    folder = leave_run(tmp_path, "XU-step-level-0.1", GAME, TINY)
    wider = change(TINY, **{"network.core_units": 17})
    network = make_q_function(wider, registry.make(GAME).spec, 1, jax.random.key(0))
    checkpoint.save(folder / checkpoint.PARAMETERS, network)
    with pytest.raises(InvalidRequest, match=r"parameters.npz is of another .*\(19, 64\)"):
        load_player(folder)


@pytest.mark.parametrize("content", [b"PK", b"no zip at all"])
def test_damaged_parameters_are_refused(tmp_path, content):
    folder = leave_run(tmp_path, "XU-step-level-0.1", GAME, TINY)
    (folder / checkpoint.PARAMETERS).write_bytes(content)
    with pytest.raises(InvalidRequest, match="parameters.npz is .* damaged") as fault:
        load_player(folder)
    assert str(fault.value).startswith(str(folder / checkpoint.PARAMETERS))

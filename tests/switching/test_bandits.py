"""Bandits: numbers worked by hand, invariants, and transcriptions in plain NumPy."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidequest.switching.bandits import (
    Bandit,
    Ended,
    _best_window,
    _window_candidates,
    draw,
    proportional,
    ucb,
)

proportional = functools.cache(proportional)
ucb = functools.cache(ucb)


@functools.cache
def compiled(bandit: Bandit) -> Bandit:
    return Bandit(*(jax.jit(part) for part in bandit))


def play(bandit: Bandit, items, state=None):
    """The state after episodes (arm, return), oldest first."""
    update = compiled(bandit).update
    state = compiled(bandit).init() if state is None else state
    for arm, fitness in items:
        state = update(state, one(arm, fitness))
    return state


def one(arm, fitness) -> Ended:
    """An episode."""
    if isinstance(arm, jax.Array):
        return Ended(arm[..., None], fitness[None], jnp.int32(1))
    return Ended(np.int32(arm)[..., None], np.float32([fitness]), np.int32(1))


@jax.jit
def sample(key, probabilities):
    """An arm drawn with these probabilities."""
    return draw(jax.random.uniform(key)[None], probabilities[None])[0]


def chances(bandit: Bandit, items) -> list[float]:
    return np.asarray(compiled(bandit).probabilities(play(bandit, items))).tolist()


# The proportional bandit with a fixed window.


def test_proportional_by_hand():
    bandit = proportional(2, 4)
    items = [(0, 1.0), (0, 0.0), (1, 3.0), (1, 0.0)]
    # Mean 1. Arm 0: a tie and a failure, mu = (1/2 + 1/2) / 3 = 2/6.
    #         Arm 1: a success and a failure, mu = (1/2 + 1) / 3 = 3/6.
    assert chances(bandit, items) == pytest.approx([2 / 5, 3 / 5])
    # The next one pushes out the first. Mean 3. Arm 0: 0 fails, 9 succeeds, mu = 3/6.
    #         Arm 1: 3 is a tie, 0 fails, mu = 2/6.
    assert chances(bandit, [*items, (0, 9.0)]) == pytest.approx([3 / 5, 2 / 5])


def test_an_arm_without_data_sits_at_one_half():
    # Arm 0: 1 of 2 succeeds, mu = 1.5/3. Arms 1 and 2: 1/2.
    assert chances(proportional(3, 8), [(0, 0.0), (0, 2.0)]) == pytest.approx([1 / 3] * 3)
    # Arm 0: 1 of 1, mu = 1.5/2; arm 1: 0 of 1, mu = 0.5/2; arm 2: 1/2.
    found = chances(proportional(3, 8), [(0, 2.0), (1, 0.0)])
    assert found == pytest.approx([3 / 6, 1 / 6, 2 / 6])


@pytest.mark.parametrize("arms", [1, 2, 3, 7])
@pytest.mark.parametrize("window", [5, "adaptive"])
def test_uniform_at_the_start(arms, window):
    assert chances(proportional(arms, window), []) == pytest.approx([1 / arms] * arms)


# Small whole numbers: their sums and means are exact in float32.
EPISODES = st.lists(st.tuples(st.integers(0, 2), st.integers(-8, 8)), max_size=14)


@settings(max_examples=30)
@given(EPISODES)
def test_probabilities_are_positive_and_sum_to_one(items):
    found = chances(proportional(3, 8), items)
    assert sum(found) == pytest.approx(1.0, abs=1e-6)
    assert min(found) > 0


@settings(max_examples=30)
@given(EPISODES, st.permutations(range(3)))
def test_permuting_the_arms_permutes_the_probabilities(items, order):
    found = chances(proportional(3, 8), items)
    permuted = chances(proportional(3, 8), [(order[arm], f) for arm, f in items])
    assert [permuted[order[arm]] for arm in range(3)] == pytest.approx(found)


@settings(max_examples=30)
@given(EPISODES, st.sampled_from([0.25, 2.0, 1024.0]), st.integers(-1000, 1000))
def test_the_unit_and_origin_of_returns_do_not_matter(items, scale, offset):
    moved = [(arm, scale * fitness + offset) for arm, fitness in items]
    assert chances(proportional(3, 8), moved) == chances(proportional(3, 8), items)


@settings(max_examples=30)
@given(EPISODES)
def test_the_window_forgets(items):
    assert chances(proportional(3, 8), items) == chances(proportional(3, 8), items[-8:])


@pytest.mark.parametrize("arms, window", [(2, 100), (3, 100), (7, 100), (3, "adaptive")])
def test_equal_returns_keep_the_arms_exactly_uniform(arms, window):
    bandit = compiled(proportional(arms, window))
    rng = np.random.default_rng(0)
    for fitness in (0.0, 0.1, -3.7, 1e7):
        state = bandit.init()
        for arm in rng.integers(0, arms - 1, 30):  # the last arm is never played
            state = bandit.update(state, one(arm, fitness))
            found = np.asarray(bandit.probabilities(state))
            assert set(found.tolist()) == {float(np.float32(1) / np.float32(arms))}


@functools.partial(jax.jit, static_argnums=0)
def learn(bandit: Bandit, key, returns):
    """Plays returns [T, K]: the probabilities before each episode, and its arm."""

    def episode(state, inputs):
        key, row = inputs
        probabilities = bandit.probabilities(state)
        arm = sample(key, probabilities)
        return bandit.update(state, one(arm, row[arm])), (probabilities, arm)

    keys = jax.random.split(key, returns.shape[0])
    return jax.lax.scan(episode, bandit.init(), (keys, returns))[1]


def best_arm_moves(episodes: int = 600) -> np.ndarray:
    """Returns of four arms: the best is arm 2, then, from the middle on, arm 0."""
    returns = np.zeros((episodes, 4), np.float32)
    returns[: episodes // 2, 2] = 1.0
    returns[episodes // 2 :, 0] = 1.0
    return returns


@pytest.mark.parametrize("window", [100, "adaptive"])
def test_the_best_arm_is_followed_when_it_moves(window):
    probabilities, arms = learn(
        proportional(4, window), jax.random.key(0), best_arm_moves()
    )
    probabilities = np.asarray(probabilities)
    assert probabilities[150:300, 2].mean() > 0.7  # 0.82 in the long run
    assert probabilities[450:600, 0].mean() > 0.6  # a short window is a bit softer
    assert np.mean(np.asarray(arms)[450:] == 0) > 0.6


def test_noisy_returns_never_lock_an_arm_in():
    noise = np.random.default_rng(0).normal(size=(2_000, 4)).astype(np.float32)
    noise[:, 1] += 0.5
    probabilities, _ = learn(proportional(4, 100), jax.random.key(0), noise)
    late = np.asarray(probabilities)[200:]
    assert 0.28 < late[:, 1].mean() < 0.4  # soft: the best arm is a bit more likely
    assert late.min() > 0.02 and late.max() < 0.7


# The adaptive window.


def test_candidate_windows():
    assert _window_candidates(4) == (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
    assert _window_candidates(3) == (12, 24, 48, 96, 192, 384, 768, 1536, 3072)


def test_the_best_window_by_hand():
    candidates = (16, 32, 64)
    for errors, expected in [
        ([np.nan] * 3, 64),  # nothing known: the longest
        ([1.0, 2.0, 3.0], 16),
        ([1.0, 1.0, 3.0], 32),  # of equals the longer
        ([1.0, 1.0, 1.0], 64),
    ]:
        assert int(_best_window(jnp.array(errors), candidates)) == expected


def adaptive_in_numpy(items, arms: int):
    """After each episode: the window that predicted returns best so far, and P from it."""
    candidates = _window_candidates(arms)
    errors = np.full(len(candidates), np.nan)
    history = []
    for arm, fitness in items:
        if history:
            for j, h in enumerate(candidates):
                recent = history[-h:]
                own = [f for a, f in recent if a == arm]
                predicted = np.mean(own or [f for _, f in recent])
                error = (fitness - predicted) ** 2
                old = errors[j]
                errors[j] = error if np.isnan(old) else old + (error - old) / 64
        history.append((arm, fitness))
        known = np.nan_to_num(errors, nan=np.inf)
        best = max(np.flatnonzero(known == known.min()))  # of equals the longest
        recent = history[-candidates[best] :]
        mean = np.mean([f for _, f in recent])
        mu = np.full(arms, 0.5)
        plays = np.ones(arms)
        for a, f in recent:
            mu[a] += 0.5 if f == mean else float(f > mean)
            plays[a] += 1
        mu /= plays
        yield candidates[best], mu / mu.sum()


def drifting_items(episodes: int, change_at: int) -> list[tuple[int, float]]:
    rng = np.random.default_rng(0)
    arms = rng.integers(0, 2, episodes)
    level = np.where(np.arange(episodes) < change_at, 4 * arms, 40 - 8 * arms)
    returns = level + rng.integers(-2, 3, episodes)
    return list(zip(arms.tolist(), returns.tolist(), strict=True))


def test_adaptive_window_is_the_transcription():
    bandit = compiled(proportional(2, "adaptive"))
    items = drifting_items(150, change_at=100)
    state = bandit.init()
    for item, (length, expected) in zip(items, adaptive_in_numpy(items, 2), strict=True):
        state = play(proportional(2, "adaptive"), [item], state)
        found = bandit.probabilities(state)
        # Windows that have seen the same episodes are equals up to rounding; so are
        # their probabilities, unless the shorter one has begun to forget.
        if state.episodes > 2 * 8:
            assert int(_best_window(state.errors, _window_candidates(2))) == length
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_after_a_change_the_window_is_short():
    candidates = _window_candidates(2)
    items = drifting_items(430, change_at=400)
    steady = play(proportional(2, "adaptive"), items[:400])
    changed = play(proportional(2, "adaptive"), items[400:], steady)
    assert int(_best_window(steady.errors, candidates)) >= 64
    assert int(_best_window(changed.errors, candidates)) == 8


# The sliding-window UCB.


def ucb_in_numpy(items, arms: int, window: int, epsilon: float, bonus: float):
    """Probabilities of the next arm after these episodes."""
    if len(items) < arms:
        return np.eye(arms)[len(items)]
    index = np.full(arms, np.inf)
    for arm in range(arms):
        own = [f for a, f in items[-window:] if a == arm]
        if own:
            index[arm] = np.mean(own) + bonus * np.sqrt(1 / len(own))
    return epsilon / arms + (1 - epsilon) * np.eye(arms)[np.argmax(index)]


@pytest.mark.parametrize("epsilon, bonus", [(0.5, 1.0), (0.01, 5.0), (0.0, 0.0)])
def test_ucb_is_the_transcription(epsilon, bonus):
    arms, window = 4, 10
    bandit = ucb(arms, window, epsilon, bonus)
    rng = np.random.default_rng(0)
    items, state = [], bandit.init()
    for episode in range(80):
        expected = ucb_in_numpy(items, arms, window, epsilon, bonus)
        found = compiled(bandit).probabilities(state)
        np.testing.assert_allclose(found, expected, atol=1e-6, err_msg=str(episode))
        arm = (
            episode
            if episode < arms
            else int(rng.choice(arms, p=expected / expected.sum()))
        )
        items.append((arm, float(np.float32(rng.normal() + arm))))
        state = play(bandit, items[-1:], state)


def test_ucb_plays_every_arm_once_first():
    _, arms = learn(ucb(4), jax.random.key(0), best_arm_moves(20))
    assert np.asarray(arms)[:4].tolist() == [0, 1, 2, 3]


def test_ucb_follows_the_best_arm():
    _, arms = learn(ucb(4, window=40, epsilon=0.1), jax.random.key(0), best_arm_moves())
    assert np.mean(np.asarray(arms)[200:300] == 2) > 0.75
    assert np.mean(np.asarray(arms)[500:] == 0) > 0.75


def test_an_arm_that_left_the_window_is_tried_again():
    bandit = ucb(3, window=4, epsilon=0.0)
    items = [(0, 5.0), (1, 1.0), (2, 0.0), (0, 5.0), (0, 5.0)]
    assert chances(bandit, items) == [1.0, 0.0, 0.0]
    # The next one pushes out the only episode of arm 1.
    assert chances(bandit, [*items, (0, 5.0)]) == [0.0, 1.0, 0.0]


# What both have in common.


@pytest.mark.parametrize("make", [proportional, ucb])
@pytest.mark.parametrize("sizes", [(40,), (0, 3, 37), (17, 23), (1, 1, 38)])
def test_many_episodes_at_once_are_many_one_by_one(make, sizes):
    bandit = make(3)
    items = drifting_items(40, change_at=25)
    arms, returns = (np.array(column) for column in zip(*items, strict=True))
    expected, state, first = play(bandit, items), compiled(bandit).init(), 0
    for size in sizes:
        some = slice(first, first + size)
        # What comes after the count is padding, and must not matter.
        padding = np.resize([2, 1], 42 - size), np.resize([np.nan, 1e9], 42 - size)
        padded = np.append(arms[some], padding[0]), np.append(returns[some], padding[1])
        ended = Ended(np.int32(padded[0]), np.float32(padded[1]), np.int32(size))
        state = compiled(bandit).update(state, ended)
        first += size
    for ours, theirs in zip(state, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_a_window_shorter_than_what_it_hears_of_at_once():
    bandit = proportional(2, 4)
    items = [(i % 2, float(i)) for i in range(11)]
    arms, returns = (jnp.array(column) for column in zip(*items, strict=True))
    state = compiled(bandit).update(bandit.init(), Ended(arms, returns, jnp.int32(11)))
    assert state.arms.tolist() == [1, 0, 1, 0]
    assert state.fitness.tolist() == [7.0, 8.0, 9.0, 10.0]


def test_draw_has_the_right_frequencies():
    probabilities = jnp.array([0.1, 0.0, 0.6, 0.3, 0.0])
    uniforms = np.random.default_rng(0).random((1, 20_000), np.float32)
    drawn = draw(uniforms, np.asarray(probabilities)[None])[0]
    np.testing.assert_array_equal(
        drawn, draw(jnp.asarray(uniforms), probabilities[None])[0]
    )
    found = np.bincount(drawn, minlength=5) / 20_000
    np.testing.assert_allclose(found, probabilities, atol=0.014)
    assert found[1] == found[4] == 0.0


@pytest.mark.parametrize("make", [lambda: proportional(5, 16), lambda: ucb(5, 16)])
def test_padded_arms_are_never_played(make):
    bandit = make()
    state = compiled(bandit).init(3)
    keys = jax.random.split(jax.random.key(0), 500)
    for episode in range(30):
        probabilities = np.asarray(compiled(bandit).probabilities(state))
        assert probabilities[3:].tolist() == [0.0, 0.0]
        assert probabilities.sum() == pytest.approx(1.0)
        state = play(bandit, [(episode % 3, -float(episode))], state)
    drawn = jax.vmap(sample, in_axes=(0, None))(keys, compiled(bandit).probabilities(state))
    assert set(np.asarray(drawn).tolist()) == {0, 1, 2}


def test_fewer_arms_in_use_is_the_same_as_fewer_arms():
    items = [(0, 1.0), (1, 0.0), (1, 5.0), (2, 2.0)]
    padded = play(proportional(5, 16), items, proportional(5, 16).init(3))
    found = compiled(proportional(5, 16)).probabilities(padded)[:3]
    np.testing.assert_allclose(found, chances(proportional(3, 16), items), rtol=1e-6)


@pytest.mark.parametrize("make", [lambda: proportional(4), lambda: ucb(4)])
def test_a_saved_state_goes_on_as_if_nothing_had_happened(make, tmp_path):
    bandit = compiled(make())
    state = play(make(), [(0, 1.0), (3, 2.0), (1, 0.5), (2, 0.0), (0, 3.0)])
    np.savez(tmp_path / "bandit.npz", **state._asdict())
    with np.load(tmp_path / "bandit.npz") as saved:
        restored = type(state)(**{name: jnp.asarray(saved[name]) for name in saved.files})
    for round_ in range(5):
        key = jax.random.key(round_)
        arm, same_arm = (sample(key, bandit.probabilities(s)) for s in (state, restored))
        assert arm == same_arm
        item = (int(arm), float(round_))
        state, restored = (play(make(), [item], s) for s in (state, restored))
    for left, right in zip(state, restored, strict=True):
        np.testing.assert_array_equal(left, right)


def test_bandits_of_two_dimensions_learn_from_the_same_return():
    bandit = proportional(4, 8)
    both = compiled(bandit)
    state = both.init(jnp.array([4, 3]))
    first, second = both.init(4), both.init(3)
    for arms, fitness in [((0, 2), 1.0), ((3, 2), 5.0), ((1, 0), -2.0), ((3, 1), 4.0)]:
        state = both.update(state, one(arms, fitness))
        first = play(bandit, [(arms[0], fitness)], first)
        second = play(bandit, [(arms[1], fitness)], second)
    found = np.asarray(both.probabilities(state))
    np.testing.assert_allclose(found[0], both.probabilities(first), rtol=1e-6)
    np.testing.assert_allclose(found[1], both.probabilities(second), rtol=1e-6)


@settings(max_examples=20)
@given(st.data())
def test_numpy_and_jax_have_the_same_bandits(data):
    make = data.draw(st.sampled_from([proportional, ucb]))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**31)))
    bandit = make(3)
    in_use = np.array([3, 2], np.int32)
    state, other = bandit.init(in_use), compiled(bandit).init(in_use)
    for size in data.draw(st.lists(st.integers(1, 60), min_size=1, max_size=4)):
        arms = np.stack([rng.integers(0, 3, size), rng.integers(0, 2, size)])
        returns = rng.integers(-9, 10, size).astype(np.float32)
        state = bandit.update(state, Ended(arms.astype(np.int32), returns, size))
        some = np.pad(arms, ((0, 0), (0, 60 - size))), np.pad(returns, (0, 60 - size))
        other = compiled(bandit).update(other, Ended(*map(jnp.asarray, some), size))
        for ours, theirs in zip(state, other, strict=True):
            assert isinstance(ours, np.ndarray | np.generic)
            assert ours.dtype == theirs.dtype
            np.testing.assert_allclose(ours, theirs, rtol=1e-4)
        found = bandit.probabilities(state)
        np.testing.assert_allclose(found, compiled(bandit).probabilities(other), rtol=1e-4)


@pytest.mark.parametrize("make", [proportional, ucb])
def test_nonsense_sizes_are_refused(make):
    for arms, window in [(0, 5), (3, 0)]:
        with pytest.raises(ValueError, match=f"arms is {arms} and window is {window}"):
            make(arms, window)


def test_no_arms_are_refused_before_windows_are_chosen():
    with pytest.raises(ValueError, match="arms is 0 and window is adaptive"):
        proportional(0)

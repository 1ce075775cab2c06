"""Which head each mode follows, how often it does not, and when return scales matter."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sidequest.agent.modes import Behaviour, Head, choose, current, make_heads, modes_of
from sidequest.switching.variants import parse

ACTIONS = 4
DRAWS = 20_000
# Each head prefers another action.
Q = jnp.array([[0.0, 5.0, 1.0, 2.0], [3.0, 0.0, 2.0, 1.0], [0.0, 1.0, 2.0, 9.0]])
ONES = jnp.ones(3)
TWIN = (0, [1, 0, 0]), (0, [0, 1, 0])  # a twin head has no say in actions


@jax.jit
def frequencies(q, scales, behaviour):
    """How often each action is drawn."""
    keys = jax.random.split(jax.random.key(0), DRAWS)
    actions = jax.vmap(choose, (0, None, None, None))(keys, q, scales, behaviour)
    return jnp.mean(jax.nn.one_hot(actions, ACTIONS), axis=0)


@pytest.mark.parametrize(
    ("name", "heads", "exploit", "explore"),
    [
        # (epsilon, weights of the heads)
        ("XU-intra(1,blind,2,G)", "extrinsic", (0, [1]), (1, [1])),
        ("XU-step-level-0.01", "extrinsic", (0, [1]), (1, [1])),
        ("XU-experiment-level-X", "extrinsic", (0, [1]), (1, [1])),
        ("XI-intra(1,blind,2,G)", "extrinsic intrinsic", (0, [1, 0]), (0, [0, 1])),
        ("XI-episode-level-*", "extrinsic intrinsic", (0, [1, 0]), (0, [0, 1])),
        ("XI-step-level-0.01", "extrinsic intrinsic", (0, [1, 1]), (1, [1, 0])),
        ("XS-intra(1,blind,2,G)", "extrinsic", (0.1, [1]), (0.4, [1])),
        ("XS-step-level-0.5", "extrinsic", (0.1, [1]), (0.4, [1])),
        ("Xγ-intra(1,blind,2,G)", "extrinsic short", (0, [1, 0]), (0, [0, 1])),
        # Heads are found by name, wherever they are.
        ("XI-episode-level-*", "extrinsic short intrinsic", (0, [1, 0, 0]), (0, [0, 0, 1])),
        ("Xγ-intra(1,informed:variance,p*,G)", "extrinsic short twin", TWIN[0], TWIN[1]),
    ],
)
def test_the_table_of_behaviours(name, heads, exploit, explore):
    modes = modes_of(parse(name), tuple(heads.split()))
    for behaviour, (epsilon, weights) in zip(modes, (exploit, explore), strict=True):
        assert behaviour.epsilon == np.float32(epsilon)
        np.testing.assert_array_equal(behaviour.weights, weights)


def test_a_missing_head_is_named():
    with pytest.raises(ValueError, match=r"XI-.* needs the heads \['intrinsic'\]"):
        modes_of(parse("XI-episode-level-*"), ("extrinsic",))
    with pytest.raises(ValueError, match=r"\['short', 'twin'\]"):
        modes_of(parse("Xγ-intra(1,informed:variance,0.1,G)"), ("extrinsic", "intrinsic"))


def test_without_epsilon_the_followed_head_decides():
    for head, best in enumerate([1, 0, 3]):
        follow = Behaviour(jnp.float32(0.0), jnp.eye(3)[head])
        assert frequencies(Q, ONES, follow)[best] == 1.0


@pytest.mark.parametrize("epsilon", [0.1, 0.4, 1.0])
def test_epsilon_is_the_share_of_uniform_draws(epsilon):
    drawn = frequencies(Q, ONES, Behaviour(jnp.float32(epsilon), jnp.eye(3)[0]))
    expected = np.full(ACTIONS, epsilon / ACTIONS)
    expected[1] += 1 - epsilon
    # Four standard deviations of a share over so many draws.
    np.testing.assert_allclose(drawn, expected, atol=4 * np.sqrt(0.25 / DRAWS))


def test_the_mixture_is_in_units_of_the_return_scales():
    q = jnp.array([[10.0, 0.0, 6.0], [0.0, 3.0, 2.0]])
    both = Behaviour(jnp.float32(0.0), jnp.ones(2))
    key = jax.random.key(0)
    # 10 0 6 + 0 3 2 = 10 3 8;  1 0 .6 + 0 3 2 = 1 3 2.6;  2.5 0 1.5 + 0 3 2 = 2.5 3 3.5
    for scales, best in [((1, 1), 0), ((10, 1), 1), ((4, 1), 2)]:
        assert choose(key, q, jnp.array(scales, jnp.float32), both) == best


def test_a_single_head_does_not_depend_on_the_scales():
    key = jax.random.key(0)
    for head, best in enumerate([1, 0, 3]):
        follow = Behaviour(jnp.float32(0.0), jnp.eye(3)[head])
        for scales in ([1e-2, 1e4, 1.0], [1e4, 1e-2, 7.0]):
            assert choose(key, Q, jnp.array(scales), follow) == best


def test_the_mode_picks_the_behaviour():
    modes = modes_of(parse("XS-step-level-0.5"), ("extrinsic",))
    modes = jax.tree.map(jnp.asarray, modes)
    many = jax.vmap(current, (None, 0))(modes, jnp.array([False, True, False]))
    np.testing.assert_array_equal(many.epsilon, np.float32([0.1, 0.4, 0.1]))
    assert many.weights.shape == (3, 1)


def test_only_the_explore_mode_of_xi_has_the_epsilon_of_novelty():
    heads = ("extrinsic", "intrinsic")
    modes = modes_of(parse("XI-episode-level-*"), heads, novelty_epsilon=0.1)
    assert (modes.exploit.epsilon, modes.explore.epsilon) == (0.0, np.float32(0.1))
    for name in ("XI-step-level-0.01", "XU-episode-level-*"):
        same = modes_of(parse(name), heads, novelty_epsilon=0.1)
        jax.tree.map(np.testing.assert_array_equal, same, modes_of(parse(name), heads))


def test_the_extrinsic_head_is_always_there():
    expected = Head("extrinsic", "extrinsic", 0.997, False, True)
    assert make_heads(()) == make_heads(("extrinsic",)) == (expected,)


def test_order_does_not_depend_on_the_caller():
    heads = make_heads(("twin", "short", "intrinsic", "short"))
    names = [head.name for head in heads]
    assert names == ["extrinsic", "intrinsic", "short", "twin"]


def test_an_intrinsic_head_brings_trace_cutting_to_all():
    extrinsic, intrinsic = make_heads(("intrinsic",))
    assert extrinsic == Head("extrinsic", "extrinsic", 0.997, True, True)
    assert intrinsic == Head("intrinsic", "intrinsic", 0.997, True, True)


def test_only_the_intrinsic_head_may_pass_into_the_next_episode():
    heads = make_heads(("intrinsic", "twin"), episodic_novelty=False)
    assert [head.episodic for head in heads] == [True, False, True]


@pytest.mark.parametrize("cut", [True, False])
def test_trace_cutting_can_be_asked_for(cut):
    assert all(head.cut_traces is cut for head in make_heads(["intrinsic"], cut_traces=cut))
    assert all(head.cut_traces is cut for head in make_heads(["twin"], cut_traces=cut))


def test_the_twin_differs_from_the_extrinsic_head_by_name_only():
    extrinsic, twin = make_heads(("twin",), discount=0.9)
    assert twin == extrinsic._replace(name="twin")


def test_only_the_short_head_has_the_short_discount():
    heads = make_heads(("short", "twin"), discount=0.9, short_discount=0.5)
    assert [head.discount for head in heads] == [0.9, 0.5, 0.9]


def test_an_unknown_name_is_refused():
    with pytest.raises(ValueError, match="intrisic"):
        make_heads(("intrisic",))

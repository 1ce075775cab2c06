"""Layers agree with plain ones; observations are encoded as their spec says."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from sidequest.agent import convolutions as layers
from sidequest.agent.convolutions import (
    Convolution,
    ConvolutionShape,
    Torso,
    encode,
    encoded_shape,
    is_image,
)
from tests.agent.batches import spec_of

PAPER_TORSO = [
    ConvolutionShape(*layer)
    for layer in zip((32, 64, 128, 128), (7, 5, 5, 3), (4, 2, 2, 1), strict=True)
]


def plain(x, layer):
    """The convolution by its definition, as XLA has it, and the ReLU as JAX has it."""
    stride = layer.shape.stride
    y = lax.conv_general_dilated(
        x[None],
        layer.weight,
        (stride, stride),
        "SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )
    return jax.nn.relu(y[0] + layer.bias.reshape(1, 1, -1))


@pytest.mark.parametrize(
    "size, kernel, stride",
    [
        ((210, 160, 3), 7, 4),  # the paper's first layer
        ((105, 80, 3), 8, 4),  # the first layer of RND
        ((9, 8, 1), 3, 2),
        ((11, 13, 4), 2, 3),  # a stride that skips pixels
        ((10, 10, 4), 3, 1),  # as bands, below
        ((7, 7, 26), 3, 1),
        ((7, 5, 2), 4, 1),
        ((14, 10, 128), 3, 1),  # plain
        ((27, 20, 8), 5, 2),  # by columns, as the paper's second and third layers
        ((9, 8, 6), 4, 2),
        ((9, 12, 5), 2, 3),
    ],
)
def test_every_way_to_convolve_is_the_plain_one(monkeypatch, size, kernel, stride):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")  # where there are most ways
    shape, rng = ConvolutionShape(6, kernel, stride), np.random.default_rng(0)
    layer = eqx.filter_jit(Convolution)(jax.random.key(0), size[-1], shape)
    bias, x = (jnp.asarray(rng.normal(size=s), jnp.float32) for s in (6, size))
    layer = eqx.tree_at(lambda x: x.bias, layer, bias)

    @jax.jit
    def both(layer):
        def gradient(convolve):
            def loss(layer):
                y = convolve(layer)
                return jnp.sum(jnp.sin(y)), y

            return jax.grad(loss, has_aux=True)(layer)

        return gradient(lambda layer: layer(x)), gradient(lambda layer: plain(x, layer))

    (ours, y), (theirs, expected) = both(layer)
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(ours.weight, theirs.weight, rtol=1e-3, atol=1e-3)
    assert ours.weight.shape == (kernel, kernel, size[-1], 6)


@pytest.mark.parametrize("backend, first", [("gpu", ["space_to_depth"]), ("cpu", [])])
def test_how_the_first_layers_are_computed(monkeypatch, backend, first):
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    used = []

    def spy(name):
        original = getattr(layers, f"_{name}_convolution")

        def convolve(*args):
            used.append(name)
            return original(*args)

        monkeypatch.setattr(layers, f"_{name}_convolution", convolve)

    spy("space_to_depth")
    spy("banded")

    def apply(shape, convolutions):
        torso = Torso(jax.random.key(0), shape, convolutions, ())
        return torso(jnp.zeros(shape))

    eqx.filter_eval_shape(apply, (210, 160, 3), PAPER_TORSO)
    assert used == first
    eqx.filter_eval_shape(apply, (10, 10, 4), [ConvolutionShape(16, 3)])
    assert used == [*first, "banded"]


def test_sizes_of_the_paper_torso():
    # Rows 210 / 4 = 53, / 2 = 27, / 2 = 14, 14; columns 160 / 4 = 40, 20, 10, 10.
    torso = eqx.filter_eval_shape(
        Torso, jax.random.key(0), (210, 160, 3), PAPER_TORSO, (512,)
    )
    assert torso.layers[0].weight.shape == (14 * 10 * 128, 512)
    assert torso.features == 512


def test_images_have_an_axis_of_channels():
    shapes = [(210, 160, 3), (10, 10, 4), (8, 8), (4,)]
    assert [is_image(spec_of(*shape)) for shape in shapes] == [
        True,
        True,
        False,
        False,
    ]


def test_a_torso_without_layers_lays_the_observation_flat():
    torso = Torso(jax.random.key(0), (2, 3), (), ())
    np.testing.assert_array_equal(torso(jnp.arange(6.0).reshape(2, 3)), [0, 1, 2, 3, 4, 5])


def test_numbers_are_divided_by_their_maximum():
    spec = spec_of(2, maximum=255.0)
    encoded = encode(spec, jnp.array([255, 51], jnp.uint8))
    np.testing.assert_allclose(encoded, [1.0, 0.2])


def test_categories_become_one_hot_vectors():
    spec = spec_of(2, 2, maximum=9.0, categories=(3, 2))
    encoded = encode(spec, jnp.array([[0, 1], [2, 0]], jnp.uint8))
    np.testing.assert_array_equal(encoded, [[1, 0, 0, 0, 1], [0, 0, 1, 1, 0]])
    assert encoded.shape == encoded_shape(spec)


def test_weights_start_with_variance_one_over_fan_in():
    layer = layers.Linear(jax.random.key(0), 400, 300)
    np.testing.assert_allclose(np.std(layer.weight), 1 / 20, rtol=0.02)
    np.testing.assert_array_equal(layer.bias, 0)

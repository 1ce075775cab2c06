"""From observations to feature vectors: convolutions, linear layers, torso.

All layers compute in the dtype of their parameters, so mixed precision is a cast of the
module (`cast`) before use. Weights start truncated normal with variance 1 / fan-in, biases
at 0; the paper does not say.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Num

from sidequest.types import EnvironmentSpec, Key

_initialise = jax.nn.initializers.lecun_normal()


class ConvolutionShape(NamedTuple):
    """One layer of a convolutional torso. The paper does not print the padding; ours is
    SAME, its library's default."""

    channels: int
    kernel: int
    stride: int = 1


def is_image(spec: EnvironmentSpec) -> bool:
    """Returns whether observations are images, with channels in the last of three axes."""
    return len(spec.observation_shape) == 3


def encoded_shape(spec: EnvironmentSpec) -> tuple[int, ...]:
    """Returns the shape of an observation after `encode`."""
    if spec.categories is None:
        return spec.observation_shape
    return (*spec.observation_shape[:-1], sum(spec.categories))


def encode(spec: EnvironmentSpec, observation: Num[Array, "..."]) -> Float[Array, "..."]:
    """Returns observation / maximum, or category indices as joined one-hot vectors."""
    if spec.categories is None:
        return observation.astype(jnp.float32) / jnp.float32(spec.maximum)
    one_hot = [
        jax.nn.one_hot(observation[..., i], n) for i, n in enumerate(spec.categories)
    ]
    return jnp.concatenate(one_hot, axis=-1)


class Linear(eqx.Module):
    """y = x W + b, for one vector."""

    weight: Float[Array, "inputs outputs"]
    bias: Float[Array, "outputs"]

    def __init__(self, key: Key, inputs: int, outputs: int):
        self.weight = _initialise(key, (inputs, outputs))
        self.bias = jnp.zeros(outputs)

    def __call__(self, x: Float[Array, "inputs"]) -> Float[Array, "outputs"]:
        return x.astype(self.weight.dtype) @ self.weight + self.bias


class Convolution(eqx.Module):
    """A convolution of one image and a ReLU, computed in the fastest of four ways."""

    weight: Float[Array, "kernel kernel inputs channels"]
    bias: Float[Array, "channels"]
    shape: ConvolutionShape = eqx.field(static=True)

    def __init__(self, key: Key, inputs: int, shape: ConvolutionShape):
        kernel = (shape.kernel, shape.kernel, inputs, shape.channels)
        self.weight = _initialise(key, kernel)
        self.bias = jnp.zeros(shape.channels)
        self.shape = shape

    def __call__(
        self, x: Float[Array, "height width inputs"]
    ) -> Float[Array, "height2 width2 channels"]:
        height, width, inputs = x.shape
        kernel, stride, channels = self.shape.kernel, self.shape.stride, self.shape.channels
        padding = lax.padtype_to_pads(
            (height, width), (kernel, kernel), (stride, stride), "SAME"
        )
        # Few channels leave an accelerator's matrix units idle: on an H200 the paper's
        # torso takes half the time if the first layer is computed by space_to_depth. On a
        # CPU, moving the pixels takes longer than the convolution.
        few = stride > 1 and inputs <= 4
        if few and jax.default_backend() != "cpu":
            y = _space_to_depth_convolution(x, self.weight, stride, padding)
        # On a CPU, convolutions are slow inside loops and with a population's different
        # weights (backward, population of 16: 1.7 to 8.8 s against 1.0 s as bands).
        elif stride == 1 and width * inputs <= 256:
            y = _banded_convolution(x, self.weight, padding)
        elif stride > 1 and width % stride == 0 and not few:
            y = _column_convolution(x, self.weight, stride, padding)
        else:
            y = _convolution(x, self.weight, (stride, stride), padding)
        # Some return neighbouring columns in the channels. They are split last, so that
        # convolution, bias and ReLU are one kernel on a GPU.
        together = y.shape[-1] // channels
        y = _rectify(y + jnp.tile(self.bias, together).reshape(1, 1, -1))
        return y.reshape(y.shape[0], -1, channels)[:, : -(-width // stride)]


@jax.custom_vjp
def _rectify(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """Returns ReLU, with a gradient from the output, so that the input need not be stored
    and a GPU's convolution can apply it before it writes."""
    return jnp.maximum(x, 0)


def _rectify_forward(x: Array) -> tuple[Array, Array]:
    y = jnp.maximum(x, 0)
    return y, y


def _rectify_backward(y: Array, gradient: Array) -> tuple[Array]:
    # Not y > 0, which XLA takes for x > 0: then it would keep the input after all.
    return (jnp.where(y != 0, gradient, jnp.zeros((), gradient.dtype)),)


_rectify.defvjp(_rectify_forward, _rectify_backward)


def _convolution(
    x: Float[Array, "height width inputs"],
    weight: Float[Array, "kernel1 kernel2 inputs channels"],
    strides: tuple[int, int],
    padding: Sequence[tuple[int, int]],
) -> Float[Array, "height2 width2 channels"]:
    """Returns the plain convolution."""
    layout = ("NHWC", "HWIO", "NHWC")
    y = lax.conv_general_dilated(
        x[None], weight, strides, padding, dimension_numbers=layout
    )
    return y[0]


def _space_to_depth_convolution(
    x: Float[Array, "height width inputs"],
    weight: Float[Array, "kernel kernel inputs channels"],
    stride: int,
    padding: Sequence[tuple[int, int]],
) -> Float[Array, "height2 half_width2 two_channels"]:
    """Returns the same convolution as stride 1 over tiles of `stride` x 2 `stride` pixels.

    Each tile gives two neighbouring columns of the output, side by side in its channels.
    The kernel is filled up with zeros to whole tiles; 7 x 7 x 3 with stride 4 becomes
    2 x 2 x 96, and a frame of 210 x 160 x 3 becomes 54 x 21 x 96.
    """
    kernel, _, inputs, channels = weight.shape
    sides = stride, 2 * stride
    # A tile's last output needs pixels from stride * (outputs of a tile - 1) on.
    tiles = -(-kernel // stride), -(-(kernel + stride) // (2 * stride))

    def tile(axis: int) -> tuple[int, int, int]:
        low, outputs = padding[axis][0], -(-x.shape[axis] // stride)
        count = -(-outputs * stride // sides[axis]) - 1 + tiles[axis]
        # The second is negative where the stride leaves pixels over.
        return low, count * sides[axis] - low - x.shape[axis], count

    (top, bottom, rows), (left, right, columns) = tile(0), tile(1)
    zero = jnp.zeros((), x.dtype)
    x = lax.pad(x, zero, ((top, bottom, 0), (left, right, 0), (0, 0, 0)))
    x = x.reshape(rows, sides[0], columns, sides[1], inputs)
    x = x.transpose(0, 2, 1, 3, 4).reshape(rows, columns, -1)
    below, beside = (n * side - kernel for n, side in zip(tiles, sides, strict=True))
    pair = [
        jnp.pad(weight, ((0, below), (shift, beside - shift), (0, 0), (0, 0)))
        for shift in (0, stride)
    ]
    weight = jnp.stack(pair, axis=3)
    weight = weight.reshape(tiles[0], sides[0], tiles[1], sides[1], inputs, 2 * channels)
    weight = weight.transpose(0, 2, 1, 3, 4, 5).reshape(*tiles, -1, 2 * channels)
    return _convolution(x, weight, (1, 1), ((0, 0), (0, 0)))


def _column_convolution(
    x: Float[Array, "height width inputs"],
    weight: Float[Array, "kernel kernel inputs channels"],
    stride: int,
    padding: Sequence[tuple[int, int]],
) -> Float[Array, "height2 width2 channels"]:
    """Returns the same convolution, with `stride` neighbouring columns as channels.

    That moves nothing in memory, and leaves a stride to the rows alone. The kernel is
    filled up with zeros to whole columns of that kind. For 40 columns, kernel 5, stride 2
    and one column of padding on the left (p), the first output reads

        column           p   0   1   2   3   4
        kernel       0   a   b   c   d   e
        together     |  -1   |   0   |   1   |

    so the padding is one column on either side, which cuDNN does by itself. For the plain
    convolution it is 1 on the left and 2 on the right, and XLA would copy the image.
    """
    kernel, _, inputs, channels = weight.shape
    height, width, _ = x.shape
    low = padding[1][0]
    before, after = -(-low // stride), (kernel - 1 - low) // stride
    fill = before * stride - low
    columns = before + 1 + after
    beside = columns * stride - kernel - fill
    weight = jnp.pad(weight, ((0, 0), (fill, beside), (0, 0), (0, 0)))
    weight = weight.reshape(kernel, columns, stride * inputs, channels)
    x = x.reshape(height, width // stride, stride * inputs)
    return _convolution(x, weight, (stride, 1), (padding[0], (before, after)))


def _banded_convolution(
    x: Float[Array, "height width inputs"],
    weight: Float[Array, "kernel kernel inputs channels"],
    padding: Sequence[tuple[int, int]],
) -> Float[Array, "height2 width2 channels"]:
    """Returns the same convolution with stride 1 as one matrix product: `kernel` rows of
    the image, laid end to end, give one row of the output. The matrix is a band, the kernel
    shifted by one pixel from each output column to the next. It multiplies many zeros,
    which for small images is cheaper than gathering patches."""
    kernel, _, inputs, channels = weight.shape
    x = jnp.pad(x, (*padding, (0, 0)))
    height, width = x.shape[0] - kernel + 1, x.shape[1] - kernel + 1
    shifts = np.stack([np.eye(x.shape[1], width, -j) for j in range(kernel)])
    band = jnp.einsum("jab,ijkf->iakbf", jnp.asarray(shifts, weight.dtype), weight)
    rows = x.reshape(x.shape[0], -1)
    rows = jnp.concatenate([rows[i : i + height] for i in range(kernel)], axis=1)
    return (rows @ band.reshape(rows.shape[1], -1)).reshape(height, width, channels)


class Torso(eqx.Module):
    """Convolutions, if any, then linear layers; a ReLU after each."""

    convolutions: tuple[Convolution, ...]
    layers: tuple[Linear, ...]
    features: int = eqx.field(static=True)
    """Length of the output."""

    def __init__(
        self,
        key: Key,
        shape: tuple[int, ...],
        convolutions: Sequence[ConvolutionShape],
        units: Sequence[int],
    ):
        keys = iter(jax.random.split(key, len(convolutions) + len(units)))
        convolved = []
        for layer in convolutions:
            convolved.append(Convolution(next(keys), shape[-1], layer))
            height, width = (-(-side // layer.stride) for side in shape[:2])
            shape = (height, width, layer.channels)
        sizes = [math.prod(shape), *units]
        linear = zip(sizes[:-1], sizes[1:], strict=True)
        self.convolutions = tuple(convolved)
        self.layers = tuple(Linear(next(keys), *size) for size in linear)
        self.features = sizes[-1]

    def __call__(self, x: Float[Array, "..."]) -> Float[Array, "features"]:
        for layer in self.convolutions:
            x = layer(x.astype(layer.weight.dtype))
        x = x.reshape(-1)
        for layer in self.layers:
            x = jax.nn.relu(layer(x))
        return x


def cast(module, dtype: jnp.dtype):
    """Returns the module with its parameters, and so its computations, in another dtype."""
    return jax.tree.map(lambda leaf: leaf.astype(dtype), module)

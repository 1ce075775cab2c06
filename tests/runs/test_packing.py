"""Packed trees come back bit-for-bit, whole or in part."""

import jax
import jax.numpy as jnp
import numpy as np

from sidequest.runs.hosted_device import pack

TREE = {
    "count": jnp.array([[2**31 - 1], [-(2**24) - 1]], jnp.int32),
    "flag": jnp.array([[True], [False]]),
    "weights": jnp.array([[[1.5, -0.0, jnp.inf]], [[jnp.nan, 1e-38, 3.0]]], jnp.float32),
    "word": jnp.array([[2**32 - 1], [7]], jnp.uint32),
}


def same_bits(found, expected):
    assert found.dtype == expected.dtype and found.shape == expected.shape
    assert np.asarray(found).tobytes() == np.asarray(expected).tobytes()


def test_what_was_packed_comes_back_bit_by_bit():
    packed = pack(TREE, axes=2)
    assert packed.words.shape == (2, 1, 1 + 1 + 3 + 1)
    jax.tree.map(same_bits, packed.unpack(), TREE)


def test_streams_can_be_cut_out_inside_jit():
    second = jax.jit(lambda packed: jax.tree.map(lambda leaf: leaf[1:], packed).unpack())
    found = second(pack(TREE, axes=2))
    jax.tree.map(same_bits, found, jax.tree.map(lambda leaf: leaf[1:], TREE))


def test_packing_can_be_mapped_over_streams():
    packed = jax.vmap(lambda tree: pack(tree, axes=0))(TREE)
    jax.tree.map(same_bits, packed.unpack(), TREE)
    assert packed.layout == pack(TREE, axes=1).layout

"""Many small arrays as one.

The state of a stream is some thirty numbers in as many arrays, and a step leaves twenty
more behind. A program that is called hundreds of times a second pays for each array: the
host handles a buffer, and the device runs a kernel to cut a group out of it and another to
write it back. Packed, they are one array of 32-bit words [..., F], and cost what one costs.
"""

import itertools
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, UInt32


class Layout(NamedTuple):
    """Where the leaves of a tree lie in the words."""

    structure: Any
    leaves: tuple[jax.ShapeDtypeStruct, ...]
    """Without the leading axes that all of them share."""


@partial(jax.tree_util.register_dataclass, data_fields=["words"], meta_fields=["layout"])
@dataclass(frozen=True)
class Packed:
    """A tree of numbers as words [..., F]. It keeps its layout through `jit` and
    `tree.map`, as long as the last axis stays as it is."""

    words: UInt32[Array, "*lead F"]
    layout: Layout

    def unpack(self) -> Any:
        """The tree that was packed, or the part of it that the leading axes were cut to."""
        lead = self.words.shape[:-1]
        sizes = [leaf.size for leaf in self.layout.leaves]
        pieces = jnp.split(self.words, list(itertools.accumulate(sizes))[:-1], axis=-1)
        leaves = [
            _from_words(piece, leaf.dtype).reshape(*lead, *leaf.shape)
            for piece, leaf in zip(pieces, self.layout.leaves, strict=True)
        ]
        return jax.tree.unflatten(self.layout.structure, leaves)


def pack(tree: Any, axes: int) -> Packed:
    """Packs numbers of 32 bits and flags, whose first `axes` axes are the same for all."""
    leaves, structure = jax.tree.flatten(tree)
    layout = Layout(
        structure,
        tuple(jax.ShapeDtypeStruct(leaf.shape[axes:], leaf.dtype) for leaf in leaves),
    )
    lead = leaves[0].shape[:axes]
    pieces = [_to_words(leaf).reshape(*lead, -1) for leaf in leaves]
    return Packed(jnp.concatenate(pieces, axis=-1), layout)


def _to_words(leaf: Array) -> UInt32[Array, "..."]:
    if leaf.dtype == jnp.bool_:
        return leaf.astype(jnp.uint32)
    return lax.bitcast_convert_type(leaf, jnp.uint32)


def _from_words(words: UInt32[Array, "..."], dtype: Any) -> Array:
    if dtype == jnp.bool_:
        return words > 0
    return lax.bitcast_convert_type(words, dtype)

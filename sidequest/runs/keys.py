"""Random numbers of a run: each purpose has keys of its own.

    key(seed)  ->  fold_in(key, PURPOSE)  ->  fold_in(that, number of the block, visit, ...)

`split(key, n)[i]` equals `fold_in(key, i)` in JAX, so a key is either split or folded, and
numbers are folded in below a purpose only. Any other way, two of them would meet one day.
"""

import jax
import jax.numpy as jnp

BEGIN = 0xBE61
"""Parameters, first states of environments and actors."""
ROUNDS = 0x4070
"""Acting, stepping and sampling of a compiled loop, by block."""
VISITS, DRAWS = 0x5717, 0xD1A3
"""Acting by visit, and sampling by update, of a run on emulators."""
EVALUATION = 0xE7A1
RESETS, STEPS, ACTS = 0x4E5E, 0x57E9, 0xAC75
"""Of an episode that is watched."""


def is_key(leaf) -> bool:
    """Whether an array, or the shape of one, is of random keys."""
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)

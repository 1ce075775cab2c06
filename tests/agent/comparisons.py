"""Trees of numbers, compared."""

import jax
import numpy as np


def assert_close(ours, theirs, tolerance=1e-5):
    jax.tree.map(
        lambda x, y: np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance),
        ours,
        theirs,
    )

"""The switching core is pure array code: nothing in it may broadcast by accident."""

import jax
import pytest


@pytest.fixture(autouse=True)
def no_rank_promotion():
    """Adding [B] to [T, B] without saying so raises."""
    with jax.numpy_rank_promotion("raise"):
        yield

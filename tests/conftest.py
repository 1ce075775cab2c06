"""What all tests share: where they run, and how Hypothesis looks for examples."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import pytest
from hypothesis import HealthCheck, settings

# The same examples in every run, so that a failure on one machine is one on all. What
# compiles is slow once and quick afterwards, which is no fault of an example.
settings.register_profile(
    "sidequest",
    derandomize=True,
    deadline=None,
    print_blob=False,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("sidequest")


# Most programs of the tests run for a moment: compiling them so takes half as long. What
# they compute is the same up to rounding.
QUICK = "jax_disable_most_optimizations"
jax.config.update(QUICK, True)


@pytest.fixture(scope="module")
def optimised():
    """For programs that run for long, or whose last digit counts."""
    jax.config.update(QUICK, False)
    yield
    jax.config.update(QUICK, True)

"""What all tests share: where they run, and how Hypothesis looks for examples."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

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

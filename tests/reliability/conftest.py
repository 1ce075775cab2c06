"""One store of compiled programs for all tests here: most of them run the same ones."""

import jax
import jax.experimental.compilation_cache.compilation_cache
import pytest


@pytest.fixture(scope="session")
def program_store(tmp_path_factory):
    return tmp_path_factory.mktemp("programs")


@pytest.fixture(scope="module", autouse=True)
def stored_programs(program_store, quick_compilation):
    settings = {
        "jax_compilation_cache_dir": str(program_store),
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    before = {name: getattr(jax.config, name) for name in settings}
    for name, value in settings.items():
        jax.config.update(name, value)
    jax.experimental.compilation_cache.compilation_cache.reset_cache()
    yield
    for name, value in before.items():
        jax.config.update(name, value)
    jax.experimental.compilation_cache.compilation_cache.reset_cache()

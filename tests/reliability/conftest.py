"""One store of compiled programs for all tests here: most of them run the same ones."""

import jax
import jax.experimental.compilation_cache.compilation_cache
import pytest

from tests.reliability import child
from tests.reliability.harness import OPTIONS, results


@pytest.fixture(scope="session")
def program_store(tmp_path_factory):
    return tmp_path_factory.mktemp("programs")


@pytest.fixture(scope="session")
def uninterrupted_process(tmp_path_factory, program_store):
    """What the command leaves behind if nothing happens to it."""
    folder = tmp_path_factory.mktemp("process")
    process = child.start("train", *OPTIONS, "--out", str(folder), store=program_store)
    _, said = process.communicate()
    assert process.returncode == 0, said
    return [results(path.parent) for path in sorted(folder.rglob("run.json"))]


@pytest.fixture(scope="module", autouse=True)
def stored_programs(program_store):
    settings = {
        # Where the command looks, if XDG_CACHE_HOME is the store.
        "jax_compilation_cache_dir": str(program_store / "sidequest" / "jax"),
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

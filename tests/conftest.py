"""What all tests share: compiled programs, checked shapes, and Hypothesis's examples."""

import gc
import os
import resource
from importlib.metadata import version
from pathlib import Path

# Programs that any test has compiled are kept for all tests, for the processes that tests
# start, and for the next time: where the command keeps its own, in a folder of the tests.
os.environ["XDG_CACHE_HOME"] = str(Path(__file__).parents[1] / ".pytest_cache" / "kept")
os.environ |= {
    "JAX_PLATFORMS": os.environ.get("JAX_PLATFORMS", "cpu"),
    "JAX_COMPILATION_CACHE_DIR": os.environ["XDG_CACHE_HOME"] + "/sidequest/jax",
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    # Most programs of the tests run for a moment: compiling them so takes a fifth of the
    # time. What they compute is the same up to rounding.
    "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
    "XLA_FLAGS": "--xla_cpu_parallel_codegen_split_count=1"  # more parts are extra work
    # JAX 0.11 has no other way to compile, and ends a process that names this flag.
    + " --xla_cpu_use_fusion_emitters=false" * version("jax").startswith("0.10."),
    "PJRT_NPROC": "1",  # threads that wait for a program of some steps take half the time
    "MALLOC_ARENA_MAX": "2",  # the compiler's threads leave holes in more of them
}

import jax
import jaxtyping
import pytest
from hypothesis import HealthCheck, settings

# Shapes and types are checked while tests run, where arrays are: nowhere else do
# annotations say more than pyright has seen.
jaxtyping.install_import_hook(
    [f"sidequest.{package}" for package in ("agent", "replay", "environments")]
    + ["sidequest.runs"],
    "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))",
)

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


# Tracing makes objects by the million, of which few are garbage in cycles.
gc.set_threshold(50_000, 20, 20)


def pytest_collection_finish():
    gc.freeze()  # what was imported stays, and need not be looked through again


# Files that share a made-up study, or a compiled run, stay in one process.
GROUPS = {
    "figures": "tests/figures/",
    "runs": ("tests/reliability/", "tests/study/test_end_to_end", "tests/test_records_doc"),
}


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid):
            found = (name for name, files in GROUPS.items() if nodeid.startswith(files))
            return next(found, super()._split_scope(nodeid))

    return Scheduling(config, log) if config.getoption("dist") == "loadfile" else None


_programs = 0


def _count_programs(event: str, **_) -> None:
    global _programs
    _programs += event == "/jax/compilation_cache/compile_requests_use_cache"


jax.monitoring.register_event_listener(_count_programs)


@pytest.fixture(scope="module", autouse=True)
def forget_programs():
    """Frees what a file's tests have compiled: of all of them, it is gigabytes."""
    yield
    global _programs
    if _programs > 50:
        jax.clear_caches()
        gc.collect()
        _programs = 0


def _peak_memory() -> float:
    """Returns the most memory that this process has held, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


_peaks: dict[str, float] = {}


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):  # this is one of xdist's workers
        session.config.workeroutput["peak"] = _peak_memory()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error):
    _peaks[node.gateway.id] = getattr(node, "workeroutput", {}).get("peak", 0.0)


def pytest_terminal_summary(terminalreporter):
    peaks = _peaks or {"this process": _peak_memory()}
    told = ", ".join(f"{name} {peak:.1f} GB" for name, peak in sorted(peaks.items()))
    terminalreporter.write_line(f"peak memory: {told}")

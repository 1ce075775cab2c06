"""Tests. Programs are compiled quickly, but for those that take the options here."""

OPTIMISED = {
    "xla_backend_optimization_level": 3,
    "xla_llvm_disable_expensive_passes": False,
}
"""As users' programs are compiled: for programs that run for long, or whose last digit
counts."""

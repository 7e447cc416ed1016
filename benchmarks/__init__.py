"""Benchmarks of `ndde_jax`, run from a checkout: `python -m benchmarks.<name> run --help`."""

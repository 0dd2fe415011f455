"""Whole programs: models that tests and benchmarks run."""

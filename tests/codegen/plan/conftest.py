"""Every test here is a leak test too."""

from tests.leaks import pytest_pyfunc_call  # noqa: F401

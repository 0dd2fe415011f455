"""Every test starts with an empty compiler that raises its own errors instead of falling back."""
import pytest
import torch

import jit

torch.set_num_threads(1)

# Each third quick test is also run with a break forced after every call.
THIRD = 3


def pytest_configure(config):
    config.addinivalue_line("markers", "long: whole models and other slow tests")
    config.addinivalue_line("markers", "break_everywhere: part of the run under JIT_BREAK_EVERYWHERE=1")


@pytest.fixture(autouse=True)
def empty_compiler():
    jit.reset()
    before = jit.config.on_error
    jit.config.on_error = "raise"
    yield
    jit.config.on_error = before
    jit.reset()

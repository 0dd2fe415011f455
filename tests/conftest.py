"""Every test starts with an empty compiler that raises its own errors instead of falling back."""
import atexit
import os
import shutil
import tempfile

import pytest
import torch

import jit

HERE = os.path.dirname(os.path.abspath(__file__))
COMPARING = ("symbolic", "sideeffects", "test_graph_breaks.py", "test_guards.py", "test_recursion.py", "test_threads.py")
THIRD = 3
INIT = torch.nn.Module.__init__

torch.set_num_threads(1)
jit.config.cache_dir = tempfile.mkdtemp(prefix="framejit-tests-")  # kept by no other run
atexit.register(shutil.rmtree, jit.config.cache_dir, ignore_errors=True)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Each third quick test of programs also runs with breaks everywhere: a sample of every file, itself unchanging."""
    places = {}
    for item in items:
        inside = os.path.relpath(item.path, HERE).split(os.sep)[0]
        if inside in COMPARING and not item.get_closest_marker("long"):
            places[item.path] = place = places.get(item.path, -1) + 1
            if place % THIRD == 0:
                item.add_marker("break_everywhere")


@pytest.fixture(autouse=True)
def empty_compiler():
    jit.reset()
    before = jit.config.on_error
    jit.config.on_error = "raise"
    yield
    jit.config.on_error = before
    torch.nn.Module.__init__ = INIT  # torch.compile, a peer in some tests, leaves one of its own that breaks graphs
    jit.reset()

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
ONLY = os.environ.get("JIT_TEST_BACKEND")

torch.set_num_threads(1)
if "JIT_TEST_CACHE" not in os.environ:  # the processes of a run share a folder of their own
    os.environ["JIT_TEST_CACHE"] = tempfile.mkdtemp(prefix="framejit-tests-")
    atexit.register(shutil.rmtree, os.environ["JIT_TEST_CACHE"], ignore_errors=True)
jit.config.cache_dir = os.environ["JIT_TEST_CACHE"]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Each third quick test of programs also runs with breaks everywhere: a sample of every file, itself unchanging.
    Where a run is told its backend, tests of several backends are run on that one."""
    places = {}
    for item in items:
        inside = os.path.relpath(item.path, HERE).split(os.sep)[0]
        if inside in COMPARING and not item.get_closest_marker("long"):
            places[item.path] = place = places.get(item.path, -1) + 1
            if place % THIRD == 0:
                item.add_marker("break_everywhere")
    if ONLY:
        through = {key(item) for item in items if backend_of(item) == ONLY}
        items[:] = [item for item in items if backend_of(item) in (None, ONLY) or key(item) not in through]


def backend_of(item):
    return item.callspec.params.get("backend") if hasattr(item, "callspec") else None


def key(item):
    return item.path, item.originalname


@pytest.fixture(autouse=True)
def empty_compiler():
    jit.reset()
    before = jit.config.on_error
    jit.config.on_error = "raise"
    yield
    jit.config.on_error = before
    jit.reset()

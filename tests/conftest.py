"""Every test starts with an empty compiler that raises its own errors instead of falling back."""
import atexit
import os
import shutil
import tempfile
import zlib

import pytest
import torch

import jit
from tests.anew import begin_anew

HERE = os.path.dirname(os.path.abspath(__file__))
COMPARING = ("symbolic", "sideeffects", "test_graph_breaks.py", "test_guards.py", "test_recursion.py", "test_threads.py")
SAMPLE = 20  # one in so many
DEPTHS = {"eager": 0, "aot_eager": 1, "default": 2}

torch.set_num_threads(1)
if "JIT_TEST_CACHE" not in os.environ:  # the processes of a run share a folder of their own
    os.environ["JIT_TEST_CACHE"] = tempfile.mkdtemp(prefix="framejit-tests-")
    atexit.register(shutil.rmtree, os.environ["JIT_TEST_CACHE"], ignore_errors=True)
jit.config.cache_dir = os.environ["JIT_TEST_CACHE"]


def pytest_addoption(parser):
    parser.addoption(
        "--thin", type=int, default=1, metavar="N", help="of each test's quick cases, run the first and one in N others"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """One in twenty quick tests of programs also runs with breaks everywhere: a sample of every file, itself unchanging.
    Where a run is told its backend, tests of several backends are run on the last of them alone.

    Of a test that is `sampled`, the cases that are not in the sample are long: which, their names say, so that it is
    spread over all parameters; the first is always in it."""
    places, begun = {}, set()
    for item in items:
        sampled = item.get_closest_marker("sampled")
        if sampled and key(item) in begun and zlib.crc32(item.name.encode()) % sampled.args[0]:
            item.add_marker("long")
        begun.add(key(item))
        inside = os.path.relpath(item.path, HERE).split(os.sep)[0]
        if inside in COMPARING and not item.get_closest_marker("long"):
            places[item.path] = place = places.get(item.path, -1) + 1
            if place % SAMPLE == 0:
                item.add_marker("break_everywhere")
    thin(config, items)
    if "JIT_TEST_BACKEND" in os.environ:
        deepest = {}
        for item in items:
            deepest[key(item)] = max(deepest.get(key(item), -1), depth(item))
        items[:] = [item for item in items if depth(item) == deepest[key(item)]]


def thin(config, items):
    """Leaves out what `--thin` leaves out: drawn by names as samples are, but from the whole names."""
    one_in, begun, left = config.getoption("thin"), set(), set()
    for item in items:
        if not item.get_closest_marker("long"):
            if key(item) in begun and zlib.crc32(item.nodeid.encode()) % one_in:
                left.add(item)
            begun.add(key(item))
    config.hook.pytest_deselected(items=list(left))
    items[:] = [item for item in items if item not in left]


def key(item):
    return item.path, item.originalname


def depth(item):
    """How far its graphs go."""
    params = item.callspec.params if hasattr(item, "callspec") else {}
    return DEPTHS.get(params["backend"], 0) if isinstance(params.get("backend"), str) else 0


@pytest.fixture(autouse=True)
def empty_compiler():
    begin_anew()
    before = jit.config.on_error
    jit.config.on_error = "raise"
    yield
    jit.config.on_error = before
    jit.reset()

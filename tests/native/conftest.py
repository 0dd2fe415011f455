"""Every test here is a leak test too: its body is repeated, and memory must not climb. A crash is met in a child process."""

import textwrap

import pytest

from tests import children
from tests.leaks import pytest_pyfunc_call  # noqa: F401


@pytest.fixture
def child():
    """Runs a script in a process of its own, so that a crash is a failed test and not the end of all tests."""

    return lambda script: children.run(PRELUDE + textwrap.dedent(script), 120)


PRELUDE = """
import sys, threading, torch
import jit._C as C

caches = C.Caches()
wanted = set()

def classify(code):
    return C.Cache(code, 8) if code.co_name in wanted else None

def stand_in(answer, count):
    names = "".join(f"a{i}, " for i in range(count))
    space = {}
    exec(f"def compiled({names}): return {answer}", globals(), space)
    return space["compiled"]

def miss(cache, slots, function):
    entry = C.Entry(C.Guards([], [], []), stand_in(("compiled", cache.code.co_name), len(slots)))
    cache.add(entry)
    return entry

region = C.Region(caches, classify, miss)
"""

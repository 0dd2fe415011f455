"""Every test here is a leak test too: its body is repeated, and memory must not climb. A crash is met in a child process."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.leaks import pytest_pyfunc_call  # noqa: F401


@pytest.fixture
def child():
    """Runs a script in a process of its own, so that a crash is a failed test and not the end of all tests."""

    def run(script):
        done = subprocess.run(
            [sys.executable, "-X", "faulthandler", "-c", PRELUDE + textwrap.dedent(script)],
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


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

"""Every test here is a leak test too: its body is repeated, and memory must not climb. A crash is met in a child process."""

import gc
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch  # noqa: F401  (must be loaded before the extension)

ROUNDS, REPEATS = 30, 10


gc.collect()
gc.freeze()  # what torch made on import need not be looked at by each collection below


def blocks_after(body):
    for _ in range(REPEATS):
        body()
    gc.collect()
    return sys.getallocatedblocks()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Runs the body once as the test, and then again and again, looking at the number of allocated blocks."""
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}

    def body():
        pyfuncitem.obj(**arguments)

    body()
    if "child" in arguments:
        return True
    before = blocks_after(body)
    growth = []
    # Torch and the interpreter fill tables of their own for a while; a leak of a block per run never ends.
    for _ in range(ROUNDS):
        after = blocks_after(body)
        growth.append(after - before)
        if growth[-1] < REPEATS:
            return True
        before = after
    pytest.fail(f"{pyfuncitem.name} leaks: {growth} more blocks after each {REPEATS} runs")


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

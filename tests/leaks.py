"""Tests as leak tests: a conftest that imports the hook repeats each body, and memory must not climb."""

import gc
import sys

import pytest
import torch  # noqa: F401  (must be loaded before the extension)

ROUNDS, REPEATS = 90, 10


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
    # Torch and the interpreter fill tables of their own for a while (3.13 for some forty rounds, by the addresses of
    # objects); a leak of a block per run never ends.
    for _ in range(ROUNDS):
        after = blocks_after(body)
        growth.append(after - before)
        if growth[-1] < REPEATS:
            return True
        before = after
    pytest.fail(f"{pyfuncitem.name} leaks: {growth} more blocks after each {REPEATS} runs")

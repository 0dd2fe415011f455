"""A process of `tools/coverage`: runs test methods of one module of CPython's tests, plain or compiled.

What it found goes line by line into a file, so that it is known however the process ends: which methods there are, the
name of each when it begins, its outcome when it is over.
"""

from __future__ import annotations

import faulthandler
import gc
import importlib
import json
import os
import signal
import sys
import time
import unittest
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import MethodType
from typing import IO, Any

import test
import torch
from test import support

import jit
from jit import _C, backends, compiler
from jit.api import door_for
from jit.compiler import Compiler

#: A method runs this often: what compiled code does in a cached call is looked at, too.
RUNS = 2
FALLS_BACK = "falls back"


@dataclass(frozen=True)
class Task:
    """`links`: where the tests are read from. `methods`: their ids and how much processor time each may take, in
    seconds; None: all of the module, each `limit`. `results`: the file that takes the lines."""

    module: str
    links: str
    results: str
    limit: float
    is_compiled: bool = False
    methods: dict[str, float] | None = None


@dataclass(frozen=True)
class Outcome:
    """`verdict`: "passes", "skipped" or "fails", `trouble`: what it failed with. `reasons`: (reason, detail) of each
    graph break, or of a frame that was not compiled (`FALLS_BACK`). `is_compiled`: whether its own frame was."""

    verdict: str
    seconds: float
    trouble: str = ""
    reasons: list[tuple[str, str]] = field(default_factory=list)
    is_compiled: bool = False


def cases(suite: unittest.TestSuite | unittest.TestCase) -> Iterator[unittest.TestCase]:
    """The test methods of a suite; the examples in docstrings are none."""
    if isinstance(suite, unittest.TestSuite):
        for each in suite:
            yield from cases(each)
    elif hasattr(suite, suite._testMethodName) and suite._testMethodName.startswith("test"):
        yield suite


def run_once(case: unittest.TestCase) -> tuple[str, str]:
    """The verdict on one run, and what went wrong."""
    result = unittest.TestResult()
    unittest.TestSuite([case]).run(result)
    wrong = [text for _, text in (*result.errors, *result.failures)]
    if wrong or result.unexpectedSuccesses:
        return "fails", wrong[0] if wrong else "unexpected success"
    return ("skipped" if result.skipped or result.expectedFailures else "passes"), ""


def run(case: unittest.TestCase, made: Compiler | None) -> Outcome:
    """Runs a method, each time in an instance of its own; stops at the first run that does not pass."""
    started, name = time.process_time(), case._testMethodName
    verdict, trouble = "skipped", ""
    errors = compiler.stats.errors
    for _ in range(RUNS):
        case = type(case)(name)
        if made is not None:
            vars(case)[name] = compiled(made, getattr(case, name))
        verdict, trouble = run_once(case)
        if verdict != "passes":
            break
    if compiler.stats.errors > errors:
        verdict, trouble = "fails", trouble or "an error of the compiler that the test took for its own"
    outcome = Outcome(verdict, time.process_time() - started, trouble)
    if made is None:
        return outcome
    reasons, is_compiled = records(made)
    return replace(outcome, reasons=reasons, is_compiled=is_compiled)


def compiled(made: Compiler, method: Any) -> Any:
    """The method, compiled: it alone, and what it calls as far as it is inlined or reached after a graph break."""
    if isinstance(method, MethodType):
        door = door_for(made, method.__func__)
        return _C.BoundDoor(door, method.__self__) if isinstance(door, _C.Door) else method
    return door_for(made, method)


def records(made: Compiler) -> tuple[list[tuple[str, str]], bool]:
    """Why the method is not one graph, and whether it is compiled at all."""
    reasons = [(each.reason, each.detail) for record in made.records for each in record.breaks]
    reasons += [(FALLS_BACK, record.skipped) for record in made.records if record.skipped]
    if not made.records:
        reasons.append((FALLS_BACK, "a coroutine, a generator or no function"))
    return list(dict.fromkeys(reasons)), bool(made.records) and not made.records[0].skipped


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Ends the process, with a traceback, after as many seconds of processor time, or twenty times as long in all:
    others may keep the machine busy."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    faulthandler.dump_traceback_later(20 * seconds, exit=True, file=2)
    yield
    signal.setitimer(signal.ITIMER_PROF, 0)
    faulthandler.cancel_dump_traceback_later()


def tell(results: IO[str], line: dict[str, Any]) -> None:
    results.write(json.dumps(line) + "\n")
    results.flush()


def main() -> None:
    task = Task(**json.loads(Path(sys.argv[1]).read_text()))
    # As links they are in no folder of the standard library, whose functions are left alone after a graph break.
    test.__path__.insert(0, task.links)
    support.use_resources = []
    suite = unittest.defaultTestLoader.loadTestsFromModule(importlib.import_module(f"test.{task.module}"))
    found = {case.id(): case for case in cases(suite)}
    jit.config.on_error = "raise"
    faulthandler.register(signal.SIGPROF, file=2, chain=True)
    if task.is_compiled:
        jit.compile(lambda x: x + 1, backend="eager")(torch.ones(1))  # it brings more of torch's modules
    gc.freeze()  # tests that collect garbage need not go through torch each time
    with open(task.results, "a") as results:
        tell(results, {"has": list(found)})
        for name, limit in (task.methods or dict.fromkeys(found, task.limit)).items():
            tell(results, {"begins": name})
            made = Compiler(backends.eager, jit.config, False, None) if task.is_compiled else None
            with limited(limit):
                outcome = run(found[name], made)
            tell(results, {"ends": name, **asdict(outcome)})
    os._exit(0)  # threads that tests left behind may never end


if __name__ == "__main__":
    main()

"""`tools/coverage --auto`: CPython's own tests as a program that knows nothing of the compiler, under `JIT_AUTO=1`.

Each module runs some times in one process, plain and under the variable: no test that passes plain may fail, nothing
may crash or hang, and when all is warm a run is to take no longer. Time is the processor's, child processes too.
The tests are read from a folder that is no library's, so the frame hook looks at every call of theirs.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import test
import torch  # noqa: F401  with which the compiler comes
from test import support

from tools.coverage_child import cases
from tools.environment import ROOT
from tools.report import machine, show

#: Runs before those that count, and how many of these at most, in how many seconds: the least of them is the time.
WARMING, RUNS, ENOUGH = 2, 10, 1.0


@dataclass(frozen=True)
class Run:
    """What became of a module: the tests that did not pass and the seconds of a warm run, or why there is neither."""

    failed: frozenset[str]
    seconds: float
    trouble: str = ""


def run(module: str, links: str, limit: float, auto: bool) -> Run:
    """Runs a module in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    environment["JIT_AUTO"] = str(int(auto))
    with tempfile.TemporaryDirectory(prefix="framejit-coverage-") as folder:
        results = Path(folder, "results")
        command = [sys.executable, "-m", "tools.coverage_auto", module, links, str(results)]
        try:
            done = subprocess.run(
                command, cwd=folder, env=environment, timeout=limit, stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace",
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return Run(frozenset(), 0, "hangs")
        if not results.exists():
            said = done.stderr.strip().splitlines() or [f"status {done.returncode}"]
            return Run(frozenset(), 0, f"crashes: {said[-1]}")
        found = json.loads(results.read_text())
    return Run(frozenset(found["failed"]), found["seconds"])


def report(modules: Sequence[str], links: str, limit: float, markdown: bool) -> int:
    """Runs the modules and prints the table; 1 if something fails under the variable alone."""
    rows, wrong, together = [], [], [0.0, 0.0]
    for module in modules:
        plain, auto = (run(module, links, limit, auto) for auto in (False, True))
        if plain.trouble:
            rows.append([module, plain.trouble, "", "", ""])
            continue
        new = sorted(auto.failed - plain.failed)
        wrong += [[f"{module}", auto.trouble]] if auto.trouble else [[f"{module}.{name}", "fails"] for name in new]
        times = ["", "", ""]
        if not auto.trouble:
            before, after = plain.seconds, auto.seconds
            together = [sum(pair) for pair in zip(together, (before, after), strict=True)]
            times = [f"{before:.3f}", f"{after:.3f}", f"{after / before:.2f}"]
        rows.append([module, auto.trouble or str(len(new)), *times])
        print(*rows[-1], file=sys.stderr)
    rows.append(["all", str(len(wrong)), *(f"{each:.3f}" for each in together), f"{together[1] / together[0]:.2f}"])
    print(machine())
    show("Under JIT_AUTO=1", ["", "new failures", "plain, s", "auto, s", "ratio"], rows, markdown)
    if wrong:
        print()
        show("Wrong", ["", "trouble"], wrong, markdown)
    return int(bool(wrong))


def used() -> float:
    """Seconds of processors so far, those of children that ended too."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def main() -> None:
    """The process of one module."""
    module, links, results = sys.argv[1:]
    test.__path__.insert(0, links)
    support.use_resources = []
    failed: set[str] = set()
    seconds: list[float] = []
    while len(seconds) <= WARMING or (len(seconds) < WARMING + RUNS and sum(seconds[WARMING:]) < ENOUGH):
        suite = unittest.defaultTestLoader.loadTestsFromName(f"test.{module}")
        chosen = unittest.TestSuite(cases(suite))
        started = used()
        result = unittest.TestResult()
        chosen.run(result)
        seconds.append(used() - started)
        failed.update(each.id() for each, _ in (*result.errors, *result.failures))
        failed.update(each.id() for each in result.unexpectedSuccesses)
    Path(results).write_text(json.dumps({"failed": sorted(failed), "seconds": min(seconds[WARMING:])}))
    os._exit(0)  # threads that tests left behind may never end


if __name__ == "__main__":
    main()

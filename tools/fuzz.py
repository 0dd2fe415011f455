"""`tools/fuzz`: whole Python programs made at random, compiled against eager.

Each program is a module with a function `program` and its arguments, made from a number (`tools.fuzz_author`). It runs
eagerly and compiled; all that a caller can see must be the same (`tools.fuzz_judge`). What is not is made small
(`tools.fuzz_shrink`), and printed with the command that runs it again.
"""

from __future__ import annotations

import argparse
import faulthandler
import functools
import multiprocessing
import os
import resource
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path

import jit
from tools.fuzz_author import FAMILIES, write
from tools.fuzz_judge import Verdict, judge, tried
from tools.fuzz_shrink import shrink

#: Seconds that one program may take, and that making it small may take.
LIMIT, PATIENCE = 120, 400
#: Programs that one process judges: what they leave behind goes with it.
PER_PROCESS = 60
#: Bytes that such a process may have.
MEMORY = 4 << 30


@dataclass(frozen=True)
class Finding:
    """`name`: what `tools/fuzz` takes to run the program again (and the family, if there was one)."""

    name: str
    verdict: Verdict
    text: str


@dataclass
class Report:
    programs: int = 0
    endless: int = 0
    whole: int = 0
    findings: list[Finding] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, found: Finding) -> None:
        self.programs += found.verdict.judged
        self.endless += not found.verdict.judged
        if found.verdict.kind:
            self.findings.append(found)
            print(f"\n# {found.verdict.trouble}\n# again: tools/fuzz {found.name}\n{found.text}", flush=True)
        else:
            self.whole += found.verdict.judged and not found.verdict.reasons
            self.reasons.update(found.verdict.reasons)

    def __str__(self) -> str:
        reasons = "".join(f"\n  {count:5} {reason}" for reason, count in self.reasons.most_common(12))
        said = f"{self.programs} programs ({self.endless} more are endless), {len(self.findings)} findings, "
        said += f"{self.whole} one graph; not whole:{reasons}"
        return said + "".join(f"\nfinding {each.name}: {in_short(each.verdict.trouble)}" for each in self.findings)


def in_short(trouble: str) -> str:
    return trouble.splitlines()[0][:200]


def prepare() -> None:
    jit.config.on_error = "raise"
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))


def examine(name: str, text: str, patience: float = PATIENCE) -> Finding:
    """Judges a program, and makes it small if something is wrong with it."""
    faulthandler.dump_traceback_later(LIMIT, exit=True)
    verdict = judge(text)
    faulthandler.cancel_dump_traceback_later()
    if verdict.kind and patience:
        faulthandler.dump_traceback_later(patience + LIMIT, exit=True)
        text = shrink(text, functools.partial(_is_wrong_alike, verdict), patience)
        verdict = judge(text)
        faulthandler.cancel_dump_traceback_later()
    return Finding(name, verdict, text)


def _is_wrong_alike(verdict: Verdict, text: str) -> bool:
    try:
        return judge(text).kind == verdict.kind
    except Exception:  # the judge's own, of a program that lacks what others rely on
        return False


def ends(text: str) -> bool:
    """Whether the program does, eagerly: one that goes through lists of lists may take hours."""
    faulthandler.dump_traceback_later(LIMIT, exit=True)
    known = tried(text) is not None
    faulthandler.cancel_dump_traceback_later()
    return known


def examined(
    workers: ProcessPoolExecutor, name: str, text: str, patience: float
) -> tuple[Finding, ProcessPoolExecutor]:
    """What a process says of the program, and one for the next: another, where the program has ended the first."""
    try:
        return workers.submit(examine, name, text, patience).result(), workers
    except BrokenProcessPool:
        verdict = Verdict("crash", f"crashes, or runs longer than {LIMIT} s")
    except Exception:  # the judge's own
        return Finding(name, Verdict("no verdict", traceback.format_exc()), text), workers
    workers = pool()
    try:
        verdict = verdict if workers.submit(ends, text).result() else Verdict(judged=False)
    except BrokenProcessPool:
        workers, verdict = pool(), Verdict(judged=False)
    return Finding(name, verdict, text), workers


def pool() -> ProcessPoolExecutor:
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(1, context, initializer=prepare, max_tasks_per_child=PER_PROCESS)


def work(
    seed: int, first: int, step: int, end: float, family: str, patience: float, report: Report, lock: threading.Lock
) -> None:
    """Programs `first`, `first + step`, ... of a seed, in a process of their own, until the time is over."""
    workers, number = pool(), first
    while time.monotonic() < end:
        name = f"{seed}.{number}"
        found, workers = examined(workers, name, write(number_of(name), family), patience)
        with lock:
            report.add(found)
        number += step
    workers.shutdown()


def number_of(name: str) -> int:
    """What the program of this name is made from."""
    seed, _, number = name.partition(".")
    return int(seed) * 10_000_000 + int(number or 0)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tools/fuzz", description=__doc__.split("\n")[0], allow_abbrev=False)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help="a file, or SEED.NUMBER: only these are run")
    parser.add_argument("--seed", type=int, default=int(time.time()) % 1_000_000, help="the same programs each time")
    parser.add_argument("--minutes", type=float, default=10, help="how long (default 10)")
    parser.add_argument("--processes", type=int, default=max(1, (os.cpu_count() or 1) // 2), help="programs at a time")
    parser.add_argument("--break-everywhere", action="store_true", help="break the graph wherever it can be broken")
    parser.add_argument("--family", choices=FAMILIES, default="", help="write programs with much of it")
    parser.add_argument("--patience", type=float, default=PATIENCE, help="seconds to make a finding small, 0: as it is")
    options = parser.parse_args(arguments)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if options.break_everywhere:
        os.environ["JIT_BREAK_EVERYWHERE"] = "1"

    report, lock = Report(), threading.Lock()
    if options.programs:
        for name in options.programs:
            text = Path(name).read_text() if os.path.exists(name) else write(number_of(name), options.family)
            found, workers = examined(pool(), name, text, options.patience)
            workers.shutdown()
            report.add(found)
    else:
        print(f"seed {options.seed}", flush=True)
        end, count = time.monotonic() + 60 * options.minutes, options.processes
        rest = (count, end, options.family, options.patience, report, lock)
        threads = [threading.Thread(target=work, args=(options.seed, first, *rest)) for first in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    print(f"\n{report}")
    return int(bool(report.findings))


if __name__ == "__main__":
    sys.exit(main())

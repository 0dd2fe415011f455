"""`tools/models_coverage`: which models of all families are captured whole, and compute what eager code does.

Each of tests/models/families.py runs in processes of its own, as captured (bit for bit) and through kernels (rounding
aside): a forward pass, training steps, and, where it has that, the generation of a few tokens.
"""

from __future__ import annotations

import argparse
import importlib.util
import logging
import multiprocessing
import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection

import torch

import jit
from jit import backends
from tests.models.families import BREAKS, FAMILIES
from tests.models.judge import WAYS, Verdict, judge
from tools.report import machine, show

FORKED = multiprocessing.get_context("fork")
CRASHED = Verdict(0, (), 0, "the process died")


@dataclass(frozen=True)
class Run:
    """One way to run one model with one backend."""

    name: str
    way: str
    backend: str


def verdict(run: Run, limit: float) -> Verdict:
    """Of a process of its own, which may take `limit` seconds."""
    mine, theirs = FORKED.Pipe(duplex=False)
    process = FORKED.Process(target=answer, args=(run, theirs))
    process.start()
    theirs.close()
    try:
        found = Verdict(**mine.recv()) if mine.poll(limit) else CRASHED
    except EOFError:
        found = CRASHED
    process.kill()
    process.join()
    return found


def answer(run: Run, to: Connection) -> None:
    """Sends what became of it, as plain data."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    try:
        found = judge(FAMILIES[run.name], WAYS[run.way], backends.BACKENDS[run.backend])
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        found = Verdict(0, (), 0, f"{type(error).__name__}: {error} at {os.path.basename(last.filename)}:{last.lineno}")
    to.send(asdict(found))


def runs(names: Sequence[str], backend_names: Sequence[str]) -> list[Run]:
    return [
        Run(name, way, backend)
        for name in names
        for backend in backend_names
        for way in WAYS
        if way != "generation" or FAMILIES[name].generates
    ]


# --- the report -------------------------------------------------------------------------------------------------------
def captured(found: Verdict | None) -> str:
    if found is None:
        return ""
    return f"{found.graphs}" + (f", {len(found.breaks)} breaks" if found.breaks else "")


def is_whole(name: str, found: dict[Run, Verdict], backend: str) -> bool:
    """Forward and training, one graph each."""
    return all(found[Run(name, way, backend)].is_whole for way in ("forward", "training"))


def same(name: str, found: dict[Run, Verdict]) -> str:
    wrong = [f"{run.way}, {run.backend}" for run, each in found.items() if run.name == name and each.wrong]
    return f"**no**: {'; '.join(wrong)}" if wrong else "yes"


def report(names: Sequence[str], found: dict[Run, Verdict], backend: str, markdown: bool) -> None:
    """Graphs and breaks are those with `backend`: all capture alike."""
    rows = [
        [
            name, FAMILIES[name].package, *(captured(found.get(Run(name, way, backend))) for way in WAYS),
            same(name, found),
        ]
        for name in names
    ]  # fmt: skip
    show("Graphs", ["", "of", *WAYS, "same as eager"], rows, markdown)
    whole = [name for name in names if is_whole(name, found, backend)]
    share = f"{100 * len(whole) / len(names):.0f} %"
    print(f"\n{len(whole)} of {len(names)} are one graph, forward and training: {share}\n")
    causes = [
        [
            name, BREAKS.get(name) or BREAKS.get(f"{name} training", "?"),
            "; ".join(dict.fromkeys(lines(name, found, backend))),
        ]
        for name in names
        if name not in whole
    ]
    show("Breaks", ["", "cause", "where"], causes, markdown)
    wrong = [run for run, each in found.items() if each.wrong]
    if wrong:
        print()
        rows = [[run.name, run.way, run.backend, found[run].wrong[:200].replace("\n", " ")] for run in wrong]
        show("Not the same", ["", "way", "backend", "difference"], rows, markdown)


def lines(name: str, found: dict[Run, Verdict], backend: str) -> list[str]:
    """Where a model breaks, and why; the steps of a loop that goes on after a break are left out."""
    breaks = [each for way in ("forward", "training") for each in found[Run(name, way, backend)].breaks]
    return [f"{place}: {reason}" for place, reason in breaks if "__next__ of" not in reason]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tools/models_coverage", description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="MODEL", help="such as llama (default: all that are installed)")
    parser.add_argument("--backends", nargs="+", default=["eager", "default"], choices=sorted(backends.BACKENDS))
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 1) // 2), help="processes at a time")
    parser.add_argument("--limit", type=float, default=600, help="seconds that one run may take (default 600)")
    parser.add_argument("--markdown", action="store_true", help="print tables as Markdown")
    options = parser.parse_args(arguments)

    torch.set_num_threads(1)
    jit.config.on_error = "raise"
    packages = {model.package for model in FAMILIES.values() if importlib.util.find_spec(model.package)}
    names = options.names or [name for name, model in FAMILIES.items() if model.package in packages]
    for package in packages:
        importlib.import_module(package)  # once, not in each process
    todo = runs(names, options.backends)
    with ThreadPoolExecutor(options.jobs) as pool:
        found = dict(zip(todo, pool.map(lambda run: verdict(run, options.limit), todo), strict=True))
    print(machine())
    report(names, found, options.backends[0], options.markdown)
    return int(any(each.wrong for each in found.values()))


if __name__ == "__main__":
    sys.exit(main())

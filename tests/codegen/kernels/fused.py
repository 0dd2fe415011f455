"""Random fused programs beside the reference evaluator.

    python -m tests.codegen.kernels.fused [--first N] [--count N] [--processes N]

Programs are drawn as `drawn` has them, traced with their gradients, lowered, fused into kernels and planned; many share
a C file, so that ten thousand take minutes. What a plan gives must be what the evaluator makes of the definitions from
before they were fused.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import logging
import multiprocessing
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from unittest.mock import patch

import torch

from codegen.aot.recorder import Untraceable
from codegen.artifacts.store import Store
from codegen.kernels import columns
from codegen.kernels.c import print_c
from codegen.kernels.evaluate_program import run_program
from codegen.kernels.lowering.context import Unsupported
from codegen.kernels.planning import plan
from codegen.kernels.schedule import Launch, Schedule, schedule
from codegen.kernels.toolchain import compile_c
from codegen.plan.build import build
from codegen.plan.steps import Function
from tests.codegen.kernels.drawn import BOUNDS, SIGNLESS, Draw, difference
from tests.codegen.kernels.lowered import Lowered, copy, lowered, tangents

#: Programs of one C file.
BATCH = 50


#: Bounds by which small programs have stretches of rows.
SHORT = {"LEAST": 2, "MOST": 4, "STRETCHES": 1, "NARROWEST": 2}


@dataclass(frozen=True)
class Fused:
    draw: Draw
    lowered: Lowered
    schedule: Schedule

    def __str__(self):
        program = self.draw.program
        return f"# fused {program.seed}\n# {self.draw.specs}\n{program.text}\n{self.schedule}"


def fused(seed):
    """The program of that seed; None where there is nothing to fuse."""
    draw = Draw(seed)
    program = draw.run()
    if not program.results:
        return None
    try:
        made = lowered(program.function(), draw.make(), program.dynamic)
        with patch.multiple(columns, **SHORT):
            found = schedule(made.program, in_stretches=True)
    except (Unsupported, Untraceable, NotImplementedError):
        return None
    # equal names of different kernels must not meet in a file
    named = {kernel: replace(kernel, name=f"p{seed}_{kernel.name}") for kernel in found.kernels}
    steps = [replace(s, kernel=named[s.kernel]) if isinstance(s, Launch) else s for s in found.steps]
    return Fused(draw, made, replace(found, steps=tuple(steps), kernels=tuple(named.values())))


def wrong_in(fused, library):
    """What is wrong in what the kernels give, or ""."""
    draw, graph = fused.draw, fused.lowered.graph
    names = [node.name for node in graph.graph.find_nodes(op="placeholder")]
    functions = {k.name: Function(k.name, _address(library, k.name), library) for k in fused.schedule.kernels}
    try:
        run = build(plan(fused.schedule, names, functions, "fused"))
    except Unsupported:
        return ""
    program = draw.program
    inexact = max([*program.bounds, *(BOUNDS[d] * 10 for _, d, *_ in draw.specs if program.gradients)], default=0.0)
    for more in (0, 3) if program.dynamic else (0,):
        torch.manual_seed(program.seed)
        given = [t.detach() for t in draw.make(more)]
        if not _fits(graph, given):
            continue
        given += tangents(graph, given)
        theirs, ours = [copy(g) for g in given], [copy(g) for g in given]
        try:
            with torch.no_grad():
                expected = run_program(fused.lowered.program, dict(zip(names, theirs, strict=True)))
        except (IndexError, RuntimeError):
            if more:  # it was drawn for other sizes
                continue
            if all(_refuses(function, given) for function in (graph, run)):  # a derivative that eager code refuses, too
                return ""
            raise
        found = run(*ours)
        for at, (a, b) in enumerate(zip([*expected, *theirs], [*found, *ours], strict=True)):
            if not isinstance(a, torch.Tensor):
                wrong = "" if a == b or a != a else f"{b}, not {a}"
            else:
                wrong = difference(a.contiguous(), b.contiguous(), inexact * (4 if more else 1), not SIGNLESS.search(program.text))
            if wrong:
                return f"answer {at} (more={more}): {wrong}"
    return ""


def _refuses(function, given):
    try:
        function(*map(copy, given))
    except RuntimeError:
        return True
    return False


def _fits(graph, given):
    """Whether the graph is for inputs of these sizes: some are constants in it, some equal."""
    known = {}
    for node, value in zip(graph.graph.find_nodes(op="placeholder"), given):
        for size, actual in zip((*node.meta["val"].shape, *node.meta["val"].stride()), (*value.shape, *value.stride())):
            symbol = size.node.expr if isinstance(size, torch.SymInt) else size
            if actual != (size if symbol is size else known.setdefault(symbol, actual) if symbol.is_Symbol else symbol.subs(known)):
                return False
    return True


def _address(library, name):
    return ctypes.cast(library[name], ctypes.c_void_p).value


def examined(seeds):
    """(seed, text, what is wrong or "") of the programs of these seeds that are fused: one batch."""
    made = [f for f in map(fused, seeds) if f is not None]
    source = print_c([kernel for f in made for kernel in f.schedule.kernels])
    library = ctypes.CDLL(str(compile_c(source, store=Store(None, 0), openmp=False, level="-O1")))
    return [(f.draw.program.seed, str(f), _judged(f, library)) for f in made]


def _judged(fused, library):
    try:
        return wrong_in(fused, library)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def batches(first, count):
    seeds = range(first, first + count)
    return [seeds[at : at + BATCH] for at in range(0, count, BATCH)]


def prepare():
    logging.disable(logging.ERROR)  # torch logs an error of a fake before it raises it
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)


def all_examined(first, count, processes):
    prepare()
    if processes == 1:
        yield from itertools.chain.from_iterable(map(examined, batches(first, count)))
        return
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), prepare) as pool:
        yield from itertools.chain.from_iterable(pool.map(examined, batches(first, count)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    total = bad = 0
    for _, text, why in all_examined(options.first, options.count, options.processes):
        total, bad = total + 1, bad + bool(why)
        if why:
            print(f"{text}\n{why}\n", flush=True)
        if total % 500 == 0:
            print(f"{total} of them are right or told of", flush=True)
    print(f"{options.count} programs, {total} of them fused, {bad} wrong")

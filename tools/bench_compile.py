"""`tools/bench compile`: how long compiling a model takes with our kernels, beside torch.compile's inductor.

Each figure comes from a process of its own, in which the model has run eagerly once and the compiler is imported: the
first call less the next one, which takes what the model itself does.
"Cold" starts with an empty folder of compiled code, "warm" is the next process with that folder. When training, the
first call is forward and backward. "32 / 4" tables, `--compilers ours --layers 4 32 --processor`, are in seconds of
processors, those of the C compiler with them: what a busy machine adds to the clock on the wall is not in the ratio.
"""
import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch

from tools import bench_zoo
from tools.environment import ROOT
from tools.report import duration, machine, ratio, show

COMPILERS = ("ours", "inductor")
STATES = ("cold", "warm")


def compiler(name: str) -> Callable[[Any], Any]:
    """Imports one compiler, and only that one: the clock starts after this."""
    if name == "ours":
        import jit

        jit.config.on_error = "raise"  # a fallback to eager would look like a quick compilation
        return lambda model: jit.compile(model, backend="default")
    import torch._dynamo  # torch.compile imports it in its first call

    return torch.compile


def processor() -> float:
    """Seconds that processors have worked for this process and those that it waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def child(compiler_name: str, model_name: str, layers: int, train: bool, clock: Callable[[], float]) -> float:
    """In a fresh process: the seconds of the first call, less those of the next one."""
    program = bench_zoo.make(model_name, layers=layers, train=train)
    with torch.set_grad_enabled(train):
        program.loss(program.model)
        compile = compiler(compiler_name)
        compiled, times = compile(program.model), []
        for _ in range(2):
            start = clock()
            loss = program.loss(compiled)
            if train:
                loss.backward()
            times.append(clock() - start)
        return times[0] - times[1]


def fresh_process(name: str, model: str, layers: int, options: argparse.Namespace, folder: str) -> float | None:
    """Runs `child` in a new process; what it says is on its last line. None if it failed."""
    command = [sys.executable, "-m", "tools.bench_compile", "--child", name, "--models", model]
    command += ["--layers", str(layers), *(["--train"] if options.train else [])]
    command += ["--processor"] if options.processor else []
    folders = {"JIT_CACHE_DIR": f"{folder}/ours", "TORCHINDUCTOR_CACHE_DIR": f"{folder}/theirs"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, **folders})
    if done.returncode != 0:
        print(f"{model}, {name}: {(done.stderr.strip().splitlines() or ['failed'])[-1]}", file=sys.stderr)
        return None
    return json.loads(done.stdout.splitlines()[-1])


def row(model: str, layers: int, options: argparse.Namespace) -> list[str]:
    names = options.compilers
    times: dict[tuple[str, str], list[float | None]] = {(state, name): [] for state in STATES for name in names}
    for _ in range(options.runs):
        for name in names:
            with tempfile.TemporaryDirectory(prefix="bench-") as folder:
                for state in STATES:
                    times[state, name].append(fresh_process(name, model, layers, options, folder))
    cells = []
    for state in STATES:
        medians = [_median(times[state, name]) for name in names]
        cells += ["failed" if median is None else duration(median) for median in medians]
        if names == COMPILERS:
            ours, theirs = medians
            cells.append("-" if ours is None or theirs is None else ratio(ours, theirs))
    return [f"{model}, {layers} layers", *cells]


def _median(times: list[float | None]) -> float | None:
    known = [seconds for seconds in times if seconds is not None]
    return statistics.median(known) if len(known) == len(times) else None


def main() -> None:
    parser = argparse.ArgumentParser(prog="tools/bench compile", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1, help="the median of how many (default 1)")
    parser.add_argument("--layers", type=int, nargs="+", default=[4], help="of each model (default 4); try 4 32")
    parser.add_argument("--models", nargs="+", choices=bench_zoo.NAMES, default=bench_zoo.NAMES, metavar="NAME")
    parser.add_argument("--train", action="store_true", help="forward and backward in train mode (default: inference)")
    parser.add_argument("--compilers", nargs="+", choices=COMPILERS, default=COMPILERS)
    parser.add_argument("--processor", action="store_true", help="seconds of processors, not of the clock on the wall")
    parser.add_argument("--markdown", action="store_true", help="print Markdown on a terminal too")
    parser.add_argument("--child", choices=COMPILERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        clock = processor if options.processor else time.perf_counter
        print(json.dumps(child(options.child, options.models[0], options.layers[0], options.train, clock)))
        return
    options.compilers = tuple(name for name in COMPILERS if name in options.compilers)

    rows = []
    for model in options.models:
        for layers in options.layers:
            rows.append(row(model, layers, options))
            print(*rows[-1], sep="  ", file=sys.stderr, flush=True)
    compared = ("inductor / ours",) if options.compilers == COMPILERS else ()
    columns = ["compiling", *(f"{state}: {what}" for state in STATES for what in (*options.compilers, *compared))]
    show(f"Compiling a model: {'training' if options.train else 'inference'}", columns, rows, options.markdown)
    print(f"\nMedians of {options.runs} fresh processes each, taken in turn. {machine()}.")


if __name__ == "__main__":
    main()

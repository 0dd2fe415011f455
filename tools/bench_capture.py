"""`tools/bench capture`: how long the first call of a compiled model takes, beside torch.compile.

Both capture with a backend that runs the graph as it is, so no kernel is compiled: what is timed is reading the
program. Each figure comes from a process of its own, in which the model has run eagerly once and the compiler is
imported; the compilers take turns.
"""
import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from rich.progress import Progress
from torch import fx

from tests.models.zoo import MODELS
from tools.environment import ROOT
from tools.report import duration, machine, ratio, show

COMPILERS = ("ours", "theirs")


def compiler(name: str) -> Callable[..., Any]:
    """Imports one compiler, and only that one: the clock starts after this."""
    if name == "ours":
        import jit

        jit.config.on_error = "raise"  # a fallback to eager would look like a quick capture
        return jit.compile
    import torch._dynamo  # torch.compile imports it in its first call

    return torch.compile


def child(compiler_name: str, model_name: str, layers: int, train: bool) -> dict[str, Any]:
    """In a fresh process: the first call's seconds, and what was captured."""
    entry = MODELS[model_name]
    model = entry.make_model(layers=layers, train=train)
    inputs = entry.make_inputs(model)
    expected = model(**inputs).loss
    graphs: list[int] = []

    def eager(graph: fx.GraphModule, _: list[Any]) -> Callable[..., Any]:
        """What backend="eager" does, and the operations counted."""
        graphs.append(sum(node.op.startswith("call") for node in graph.graph.nodes))
        return graph.forward

    compile = compiler(compiler_name)
    start = time.perf_counter()
    loss = compile(model, backend=eager)(**inputs).loss
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "graphs": graphs, "equal": torch.equal(loss, expected)}


def fresh_process(compiler_name: str, model_name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Runs `child` in a new process; what it says is on its last line."""
    command = [sys.executable, "-m", "tools.bench_capture", "--child", compiler_name, "--models", model_name]
    command += ["--layers", str(options.layers), *(["--train"] if options.train else [])]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        return {"failed": done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]}
    return json.loads(done.stdout.splitlines()[-1])


def row(model_name: str, results: dict[str, list[dict[str, Any]]]) -> list[str]:
    """One line of the table: a model on which a compiler fails or differs says so in place of its time."""
    times: dict[str, float] = {}
    cells, counts = [], []
    for name in COMPILERS:
        failed = [result["failed"][0] for result in results[name] if "failed" in result]
        if failed:
            cells.append("failed")
            counts.append("-")
            print(f"{model_name}, {name}: {failed[0]}", file=sys.stderr)
            continue
        times[name] = statistics.median(result["seconds"] for result in results[name])
        equal = all(result["equal"] for result in results[name])
        cells.append(duration(times[name]) + ("" if equal else " (loss differs)"))
        graphs = results[name][0]["graphs"]
        counts.append(f"{len(graphs)} / {sum(graphs)}")
    speed = ratio(times["ours"], times["theirs"]) if len(times) == len(COMPILERS) else "-"
    return [model_name, *cells, speed, *counts]


def main() -> None:
    parser = argparse.ArgumentParser(prog="tools/bench capture", description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=3, help="the median of how many (default 3)")
    parser.add_argument("--layers", type=int, default=4, help="of each model (default 4)")
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS), metavar="NAME")
    parser.add_argument("--train", action="store_true", help="models in train mode (default: eval)")
    parser.add_argument("--markdown", action="store_true", help="print Markdown on a terminal too")
    parser.add_argument("--child", choices=COMPILERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(child(options.child, options.models[0], options.layers, options.train)))
        return

    rows = []
    with Progress(transient=True, disable=not sys.stdout.isatty()) as bar:
        task = bar.add_task("first calls", total=len(options.models) * options.runs * len(COMPILERS))
        for model_name in options.models:
            results: dict[str, list[dict[str, Any]]] = {name: [] for name in COMPILERS}
            for _ in range(options.runs):
                for name in COMPILERS:
                    results[name].append(fresh_process(name, model_name, options))
                    bar.advance(task)
            rows.append(row(model_name, results))
            if bar.disable:
                print(*rows[-1], file=sys.stderr, flush=True)

    columns = ["first call", "ours", "torch.compile", "theirs / ours", "ours: graphs / operations", "torch.compile"]
    show("Capturing a model", columns, rows, options.markdown)
    print(f"\nMedians of {options.runs} fresh processes each, taken in turn; {options.layers} layers, "
          f"{'train' if options.train else 'eval'} mode. {machine()}.")


if __name__ == "__main__":
    main()

"""`tools/bench models`: how long whole models take through our kernels, beside eager torch and torch.compile.

Each side runs in this process, on the same threads, and takes its turn in each round. "Inference" is a forward pass in
eval mode without gradients; "training" is forward and backward in train mode. Clocks are as in `tools/bench kernels`.
"""
import argparse
import time
import timeit
from collections.abc import Callable
from typing import Any

import torch

import jit
from tools import bench_zoo
from tools.bench_kernels import SIDES, report
from tools.report import machine, take_turns

MODES = ("inference", "training")


def call_of(name: str, mode: str, compile: Callable[[Any], Any]) -> Callable[[], Any]:
    """What runs a fresh model once, and gives its loss, and its gradients when training."""
    program = bench_zoo.make(name, train=mode == "training")
    compiled = compile(program.model)
    weights = [weight for weight in program.model.parameters() if weight.requires_grad]

    def step() -> Any:
        loss = program.loss(compiled)
        return loss, *torch.autograd.grad(loss, weights, allow_unused=True)

    return step if mode == "training" else lambda: program.loss(compiled)


def measure(name: str, mode: str, rounds: int, clock: Callable[[], float]) -> dict[str, float]:
    """Seconds of each side, whose results are compared first: of ours all, of the peer's the loss. An element at the
    bend of a ReLU may fall to either side of it, as sums are ordered, and with it a part of the gradients."""
    jit.reset()
    torch.compiler.reset()
    timers: dict[str, timeit.Timer | None] = {}
    expected: Any = None
    for side, compile in SIDES.items():
        call = call_of(name, mode, compile)
        found = call()
        if side == "eager":
            expected = found
        if side == "inductor" and mode == "training":
            found, expected = found[0], expected[0]
        torch.testing.assert_close(found, expected, rtol=1e-2, atol=1e-3)
        for _ in range(2):
            call()
        timers[side] = timeit.Timer(call, timer=clock)
    return take_turns(timers, rounds)


def main() -> None:
    parser = argparse.ArgumentParser(prog="tools/bench models", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15, help="the median of how many (default 15)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES)
    parser.add_argument("--models", nargs="+", choices=bench_zoo.NAMES, default=bench_zoo.NAMES, metavar="NAME")
    parser.add_argument("--markdown", action="store_true", help="print Markdown on a terminal too")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    clock = time.process_time if options.threads == 1 else time.perf_counter
    jit.config.on_error = "raise"  # a fallback to eager would be no slower than eager

    for mode in options.modes:
        with torch.set_grad_enabled(mode == "training"):
            cases = ((name, measure(name, mode, options.rounds, clock)) for name in options.models)
            report(f"Models through our kernels: {mode}", mode, cases, options.markdown)
    print(f"{bench_zoo.LAYERS} layers, width {bench_zoo.WIDTH}, batch {bench_zoo.BATCH}, length {bench_zoo.LENGTH}. "
          f"Medians of {options.rounds} rounds taken in turn, {options.threads} threads. {machine()}.")


if __name__ == "__main__":
    main()

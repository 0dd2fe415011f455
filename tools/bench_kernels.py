"""`tools/bench kernels`: how long small programs take through our kernels, beside eager torch and torch.compile.

Each side runs in this process, on the same threads, and takes its turn in each round. "Forward" is called without
gradients; "training" is forward and backward, with gradients for all floats among inputs and parameters.

One thread's times are those of the processor: what the neighbours on a shared machine do hardly counts. With more
threads they are those of the clock, since who waits for another thread may burn the processor's time.
"""
import argparse
import ctypes
import statistics
import sys
import time
import timeit
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import torch
from torch import nn

import jit
from tools.bench_programs import CASES, Case
from tools.report import duration, machine, show, take_turns

SIDES: dict[str, Callable[[Any], Any]] = {
    "eager": lambda program: program,
    "ours": partial(jit.compile, backend="default"),
    "inductor": partial(torch.compile, dynamic=False),
}
MODES = ("forward", "training")
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # names of mallopt(3)


def keep_pages() -> None:
    """glibc's allocator no longer gives memory back: tensors of megabytes lie in pages that are there already.

    Without it each call may ask the kernel for new pages, thousands of faults, for some sides and not for others, by
    what happens to lie at the heap's end: layer norm's training took 1.5 to 5.4 ms in eager mode by that alone.
    """
    libc = ctypes.CDLL(None)
    for threshold in (M_TRIM_THRESHOLD, M_MMAP_THRESHOLD):
        if not libc.mallopt(threshold, 1 << 30):
            raise SystemExit("--keep-pages: this C library's allocator has no such setting (mallopt)")


def call_of(
    case: Case, mode: str, compile: Callable[[Any], Any], inputs: Sequence[Any] | None = None
) -> Callable[[], Any]:
    """A fresh program, with inputs of its own if it is given none, and what runs it once: the same for each side. Gives
    its result, or its gradients too."""
    torch.manual_seed(0)
    program = case.run() if case.is_made else case.run
    inputs = case.inputs() if inputs is None else inputs
    compiled = compile(program)
    if mode == "forward":
        return lambda: compiled(*inputs)
    leaves = [x.requires_grad_() for x in inputs if x.is_floating_point()]
    leaves += program.parameters() if isinstance(program, nn.Module) else []
    with torch.no_grad():
        upstream = torch.randn_like(program(*inputs))

    def step() -> Any:
        out = compiled(*inputs)
        return out, *torch.autograd.grad(out, leaves, upstream)

    return step


def measure(case: Case, mode: str, rounds: int, clock: Callable[[], float]) -> dict[str, float]:
    """Seconds of each side, whose results are compared first. All have the very same inputs: where megabytes lay in
    other pages, ATen's own calls took 0.93 to 1.05 of the time."""
    jit.reset()
    torch.compiler.reset()  # else torch gives up on compiling what looks like one function
    timers: dict[str, timeit.Timer | None] = {}
    expected: Any = None
    torch.manual_seed(0)
    inputs = case.inputs()
    for side, compile in SIDES.items():
        call = call_of(case, mode, compile, inputs)
        torch.manual_seed(1)
        found = call()
        if side == "eager":
            expected = found
        elif not (case.is_random and side == "inductor"):
            torch.testing.assert_close(found, expected, rtol=1e-3, atol=case.apart)
        call()
        timers[side] = timeit.Timer(call, timer=clock)
    return take_turns(timers, rounds)


def report(title: str, mode: str, cases: Iterable[tuple[str, dict[str, float]]], markdown: bool) -> None:
    """The table of what was measured; a line on stderr as soon as each case is."""
    rows, found = [], []
    for name, times in cases:
        ratios = [times[side] / times["ours"] for side in SIDES if side != "ours"]
        rows.append([name, *map(duration, times.values()), *(f"{r:.2f}" for r in ratios)])
        found.append(ratios)
        print(*rows[-1], sep="  ", file=sys.stderr, flush=True)
    if found:
        means = [f"{statistics.geometric_mean(column):.2f}" for column in zip(*found, strict=True)]
        rows.append(["geometric mean", *("" for _ in SIDES), *means])
    show(title, [mode, *SIDES, *(f"{side} / ours" for side in SIDES if side != "ours")], rows, markdown)
    print()


def main() -> None:
    parser = argparse.ArgumentParser(prog="tools/bench kernels", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=25, help="the median of how many (default 25)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES)
    parser.add_argument("--only", default="", metavar="TEXT", help="only the cases with TEXT in their name")
    parser.add_argument("--markdown", action="store_true", help="print Markdown on a terminal too")
    parser.add_argument("--keep-pages", action="store_true", help="measure kernels alone, without the faults of pages "
                        "that the allocator gave back: for sides that differ by megabytes")
    options = parser.parse_args()
    if options.keep_pages:
        keep_pages()
    torch.set_num_threads(options.threads)
    clock = time.process_time if options.threads == 1 else time.perf_counter
    jit.config.on_error = "raise"  # a fallback to eager would be no slower than eager

    for mode in options.modes:
        chosen = [c for c in CASES if options.only in c.name and (c.trains or mode == "forward")]
        with torch.set_grad_enabled(mode == "training"):
            cases = ((case.name, measure(case, mode, options.rounds, clock)) for case in chosen)
            report(f"Programs through our kernels: {mode}", mode, cases, options.markdown)
    print(f"Medians of {options.rounds} rounds taken in turn, {options.threads} threads. {machine()}.")


if __name__ == "__main__":
    main()

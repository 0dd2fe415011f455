"""`python3 -m tools.bench_cuda`: how long small programs take on a GPU, beside eager torch and torch.compile.

The programs are those of `tools/bench kernels`, those that memory bounds in sizes that no cache holds. Times are the
device's own, of launches that follow each other. "of copying": the bytes of inputs and results a second, beside those
that a copy of a large tensor moves.
"""
import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

import jit
from tools import bench_kernels
from tools.bench_kernels import MODES, call_of
from tools.bench_programs import CASES, LABELS, Case, randn
from tools.report import duration

SIDES: dict[str, Callable[[Any], Any]] = {
    **bench_kernels.SIDES,
    "tuned": partial(jit.compile, backend="default", mode="max-autotune-no-cudagraphs"),
}
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
ROWS = (32768, 1024)
#: Of programs that memory bounds: tens of millions of elements.
LARGE = {
    "five operations, 4 M": randn((1 << 25,)), "gelu, 1 M": randn((1 << 25,)), "gelu by tanh, 1 M": randn((1 << 25,)),
    "ten operations of three, 1 M": randn(*((1 << 24,),) * 3), "dropout, 1 M": randn((1 << 25,)),
    "swiglu of halves": randn((16384, 4096)), "layer norm": randn(ROWS, (1024,), (1024,)),
    "residual, layer norm": randn(ROWS, ROWS, (1024,), (1024,)), "rms norm": randn(ROWS, (1024,)),
    "softmax, 4096 x 1024": randn(ROWS), "softmax, 8192 x 64": randn((1 << 19, 64)), "sum of rows": randn(ROWS),
    "log softmax, nll": lambda: [torch.randn(4096, LABELS), torch.randint(LABELS, (4096,))],
    "cross entropy": lambda: [torch.randn(4096, LABELS), torch.randint(LABELS, (4096,))],
    "smooth l1": randn((1 << 24,), (1 << 24,)), "sum of columns": randn(ROWS), "largest of rows": randn(ROWS),
    "variance of rows": randn(ROWS), "columns standardised": randn(ROWS), "cumsum of rows": randn((8192, 4096)),
    "x.T + y": randn((4096, 8192), (8192, 4096)), "cat of pointwise": randn((16384, 1024), (16384, 1024)),
}  # fmt: skip

Clock = Callable[[Callable[[], Any]], float]


@dataclass(frozen=True)
class Row:
    """Seconds of each side (none for one that failed) and the bytes that a call reads and writes at least."""

    name: str
    mode: str
    dtype: str
    times: dict[str, float]
    bytes: int


def on_device(case: Case, dtype: torch.dtype, device: str) -> Case:
    inputs = LARGE.get(case.name, case.inputs) if device == "cuda" else case.inputs

    def moved() -> list[Any]:
        return [x.to(device, dtype if x.is_floating_point() else None) for x in inputs()]

    return replace(case, inputs=moved, run=(lambda: case.run().to(device, dtype)) if case.is_made else case.run)


def event_clock(call: Callable[[], Any], rounds: int = 10) -> float:
    """Seconds of the device for a call, the median of several rounds of calls in a row."""
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    times = []
    for _ in range(rounds):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(5):
            call()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / 5e3)
    return statistics.median(times)


def measure(case: Case, mode: str, dtype: str, sides: list[str], clock: Clock) -> Row:
    """Of ours, the results are compared with eager's first, as far as their length goes."""
    jit.reset()
    torch.compiler.reset()
    times: dict[str, float] = {}
    expected: list[Any] = []
    with torch.set_grad_enabled(mode == "training"):
        for side in sides:
            try:
                call = call_of(case, mode, SIDES[side])
                torch.manual_seed(1)
                found = tree_leaves(call())
                if side == "eager":
                    expected = [x.detach().clone() if isinstance(x, torch.Tensor) else x for x in found]
                elif side in ("ours", "tuned") and not case.is_random:
                    compare(found, expected, 1e-3 if dtype == "float32" else 0.1)
                times[side] = clock(call)
            except Exception as error:  # one side's failure is a hole in the table
                print(f"{case.name}, {mode}, {dtype}: {side}: {type(error).__name__}: {error}"[:500], file=sys.stderr)
    given = [*case.inputs(), *(x for x in expected if isinstance(x, torch.Tensor))]
    return Row(case.name, mode, dtype, times, sum(x.numel() * x.element_size() for x in given))


def compare(found: list[Any], expected: list[Any], close: float) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        if isinstance(theirs, torch.Tensor):
            error, size = (ours.double() - theirs.double()).norm(), theirs.double().norm() + theirs.numel() ** 0.5
            if not error <= close * size:
                raise AssertionError(f"far from eager: {float(error / size):.3g}")


def bandwidth(device: str, clock: Clock) -> float:
    """Bytes a second that a copy reads and writes."""
    x = torch.randn(1 << (28 if device == "cuda" else 20), device=device)
    y = torch.empty_like(x)
    return 2 * x.numel() * x.element_size() / clock(lambda: y.copy_(x))


def rows(options: argparse.Namespace, clock: Clock) -> Iterator[Row]:
    """Case by case until the time is up; forward before training, so that a cut leaves whole columns."""
    end = time.monotonic() + options.seconds
    for mode in options.modes:
        for name in options.dtypes:
            for case in CASES:
                if options.only in case.name and (case.trains or mode == "forward"):
                    if time.monotonic() > end:
                        return
                    yield measure(on_device(case, DTYPES[name], options.device), mode, name, options.sides, clock)


def table(found: list[Row], sides: list[str], copied: float) -> str:
    """Markdown, one table for each mode and dtype, with geometric means."""
    peers = [side for side in sides if side not in ("ours", "tuned")]
    lines = []
    for mode, dtype in dict.fromkeys((row.mode, row.dtype) for row in found):
        of = [row for row in found if (row.mode, row.dtype) == (mode, dtype)]
        columns = [*sides, *(f"{peer} / ours" for peer in peers), "of copying"]
        lines += [f"## {mode}, {dtype}", "", f"| | {' | '.join(columns)} |"]
        lines.append("|---" + "|---:" * (len(sides) + len(peers) + 1) + "|")
        for row in of:
            times = [duration(row.times[side]) if side in row.times else "failed" for side in sides]
            ours = row.times.get("ours")
            ratios = [f"{row.times[p] / ours:.2f}" if ours and p in row.times else "" for p in peers]
            share = f"{row.bytes / ours / copied:.0%}" if ours and mode == "forward" else ""
            lines.append(f"| {row.name} | {' | '.join([*times, *ratios, share])} |")
        means = []
        for peer in peers:
            both = [row.times[peer] / row.times["ours"] for row in of if {peer, "ours"} <= row.times.keys()]
            means.append(f"{statistics.geometric_mean(both):.2f}" if both else "")
        lines += [f"| geometric mean | {' | '.join([*('' for _ in sides), *means, ''])} |", ""]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python3 -m tools.bench_cuda", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=400, help="no case begins after that (default 400)")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES)
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=list(DTYPES))
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=list(bench_kernels.SIDES))
    parser.add_argument("--only", default="", metavar="TEXT", help="only the cases with TEXT in their name")
    parser.add_argument("--append", type=Path, metavar="FILE", help="add the tables to that file as they grow")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        parser.exit(2, f"tools.bench_cuda needs a CUDA device, and torch {torch.__version__} sees none.\n")
    options.device = "cuda"
    jit.config.on_error = "raise"
    before = options.append.read_text() if options.append and options.append.exists() else ""
    copied = bandwidth("cuda", event_clock)
    head = f"{torch.cuda.get_device_name()}, torch {torch.__version__}; a copy moves {copied / 1e9:.0f} GB/s.\n"
    found: list[Row] = []
    for row in rows(options, event_clock):
        found.append(row)
        times = (f"{side} {duration(seconds)}" for side, seconds in row.times.items())
        print(row.name, row.mode, row.dtype, *times, sep="  ", flush=True)
        if options.append:  # as it is now: whoever is stopped leaves what is known
            options.append.write_text(f"{before}{head}\n{table(found, options.sides, copied)}")
    print(f"\n{head}\n{table(found, options.sides, copied)}")


if __name__ == "__main__":
    main()

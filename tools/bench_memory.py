"""`tools/bench memory`: how much memory a training step of the demo's GPT takes at its peak.

Each figure comes from a process of its own. "Allocated" counts every allocation and release of torch's allocator during
one step, once all is compiled and warm: the peak above what lasts from step to step, the weights and AdamW's state.
"Whole" has these in it. "Resident" is the most that the operating system saw in steps, above what the process had
before its first one: what compiling needs is in it, too. Large blocks go back to the system when they are released, so
that it does not depend on chance where in its heap the C library finds room.

`tools/bench steps` says how long steps take.
"""
import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from rich.progress import Progress
from torch.profiler import ProfilerActivity, profile

from tools.demo_gpt import BYTES, GPT
from tools.environment import ROOT
from tools.report import machine, show

STEPS = 5
LARGE = {"MALLOC_MMAP_THRESHOLD_": str(1 << 16)}
SIDES = {
    "eager": "eager",
    "ours": 'ours, "aot_eager"',
    "all": "ours, all saved that is read",
    "fused": "ours, as if operations were fused",
    "aot_eager": 'torch.compile, "aot_eager"',
    "inductor": 'torch.compile, "inductor"',
}


def compiler(side: str) -> Callable[[Any], Any]:
    """Imports what that side needs, and only that."""
    if side == "eager":
        return lambda model: model
    if side in ("aot_eager", "inductor"):
        return lambda model: torch.compile(model, backend=side)
    import jit
    from codegen.aot.backend import compile_graph
    from codegen.aot.function import Settings
    from codegen.aot.partition import default_partition, min_cut_partition

    jit.config.on_error = "raise"  # a fallback to eager would take eager's memory
    rule = {"all": default_partition, "fused": min_cut_partition}.get(side)
    settings = None if rule is None else Settings(partition=rule, mutations_inside=True)
    return lambda model: jit.compile(model, backend=lambda graph, inputs: compile_graph(graph, inputs, settings))


def peak(run: Callable[[], object]) -> int:
    """The bytes that are allocated at once, at most, while that runs."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        run()
    events = record.profiler.kineto_results.experimental_event_tree()
    changes: list[tuple[int, int]] = []
    while events:
        event = events.pop()
        events.extend(event.children)
        if event.tag == torch._C._profiler._EventType.Allocation:
            changes.append((event.start_time_ns, event.extra_fields.alloc_size))
    live = most = 0
    for _, change in sorted(changes, key=lambda change: change[0]):
        live += change
        most = max(most, live)
    return most


def resident(what: str) -> int:
    """`VmRSS`, the memory that the process has now, or `VmHWM`, the most that it had."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(what)).split()[1]) * 1024


def child(side: str, options: argparse.Namespace) -> dict[str, Any]:
    """In a fresh process."""
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    model = GPT(options.layers, options.width, options.length)
    tokens = torch.randint(0, BYTES, (options.batch, options.length + 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    call = compiler(side)(model)
    losses: list[float] = []

    def step() -> None:
        optimizer.zero_grad()
        loss = call(tokens[:, :-1], tokens[:, 1:])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())

    before = resident("VmRSS")
    for _ in range(STEPS):
        step()
    most = resident("VmHWM") - before
    state = [value for values in optimizer.state.values() for value in values.values()]
    lasting = sum(t.numel() * t.element_size() for t in (*model.parameters(), *state) if isinstance(t, torch.Tensor))
    optimizer.zero_grad()
    return {"allocated": peak(step), "lasting": lasting, "resident": most, "losses": losses}


def fresh_process(side: str, arguments: list[str]) -> dict[str, Any]:
    """Runs `child` in a new process; what it says is on its last line."""
    command = [sys.executable, "-m", "tools.bench_memory", "--child", side, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, **LARGE})
    if done.returncode != 0:
        raise SystemExit(f"{side}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def row(side: str, result: dict[str, Any], eager: dict[str, Any]) -> list[str]:
    same = all(abs(a - b) <= 1e-3 * abs(b) for a, b in zip(result["losses"], eager["losses"], strict=True))
    whole, whole_eager = (r["allocated"] + r["lasting"] for r in (result, eager))
    pairs = [(result[key], eager[key]) for key in ("allocated", "resident")]
    pairs.insert(1, (whole, whole_eager))
    cells = [f"{ours / 1e6:.0f} MB ({ours / theirs:.2f})" for ours, theirs in pairs]
    return [SIDES[side] + ("" if same else " (losses differ)"), *cells]


def main() -> None:
    parser = argparse.ArgumentParser(prog="tools/bench memory", description=__doc__.split("\n")[0])
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=list(SIDES), default=list(SIDES), metavar="SIDE",
                        help=f"of {', '.join(SIDES)}; eager always runs")
    parser.add_argument("--markdown", action="store_true", help="print Markdown on a terminal too")
    parser.add_argument("--child", choices=list(SIDES), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(child(options.child, options)))
        return

    arguments = [text for name in ("layers", "width", "batch", "length", "threads")
                 for text in (f"--{name}", str(getattr(options, name)))]
    sides = [side for side in SIDES if side in ("eager", *options.only)]
    results = {}
    with Progress(transient=True, disable=not sys.stdout.isatty()) as bar:
        for side in bar.track(sides, description="steps"):
            results[side] = fresh_process(side, arguments)
    rows = [row(side, results[side], results["eager"]) for side in sides]
    columns = ["peak of a step (part of eager's)", "allocated", "whole", "resident"]
    show("Memory of training", columns, rows, options.markdown)
    print(f"\nThe demo's GPT, {options.layers} layers of width {options.width}, batch {options.batch}, length "
          f"{options.length}, float32, AdamW. {options.threads} thread(s). {machine()}.")


if __name__ == "__main__":
    main()

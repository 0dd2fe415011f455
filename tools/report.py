"""What the benchmarks share: the machine's name, a table, a clock that takes turns."""
import os
import platform
import statistics
import sys
import timeit
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table


def machine() -> str:
    """Names what a figure was measured on: figures without this say nothing."""
    about_cpu = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    models = [line.split(":")[1].strip() for line in about_cpu.splitlines() if line.startswith("model name")]
    cpu = models[0] if models else platform.processor() or platform.machine()
    return f"{cpu}, {os.cpu_count()} cores, Python {platform.python_version()}, torch {torch.__version__}"


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], markdown: bool) -> None:
    """Prints a table: in colour on a terminal, else (or when asked) as Markdown. The first column is text."""
    if sys.stdout.isatty() and not markdown:
        table = Table(title=title)
        for number, column in enumerate(columns):
            table.add_column(column, justify="right" if number else "left")
        for row in rows:
            table.add_row(*row)
        Console().print(table)
        return
    print(f"{title}\n")
    print("| " + " | ".join(columns) + " |")
    print("|---" + "|---:" * (len(columns) - 1) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |")


def duration(seconds: float) -> str:
    """A time with three figures or so, in the unit that suits it."""
    size = abs(seconds)
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if size >= scale:
            return f"{seconds / scale:.3g} {unit}" if size < 100 * scale else f"{seconds / scale:.0f} {unit}"
    return f"{seconds / 1e-9:.0f} ns"


def ratio(ours: float, theirs: float) -> str:
    """How many times as long theirs takes; times below the clock's noise have no ratio."""
    return f"{theirs / ours:.1f}x" if ours > 0 else "-"


def take_turns(
    given: Mapping[str, timeit.Timer | None], rounds: int, round_seconds: float = 0.01
) -> dict[str, float]:
    """Seconds per run of each statement there is: the median over rounds in which each has its turn.

    Taking turns lets a busy neighbour hurt all of them alike; the median forgets the rounds that it hurt most.
    """
    timers = {name: timer for name, timer in given.items() if timer is not None}
    repeats = {name: max(1, int(round_seconds * 20 / timer.timeit(20))) for name, timer in timers.items()}
    times: dict[str, list[float]] = {name: [] for name in timers}
    for _ in range(rounds):
        for name, timer in timers.items():
            times[name].append(timer.timeit(repeats[name]) / repeats[name])
    return {name: statistics.median(taken) for name, taken in times.items()}

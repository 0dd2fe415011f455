"""Where the time of a compiled call goes: `jit.profile(f)(*args)`, a table by kernel."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from io import StringIO
from typing import Any, TextIO

import torch
from torch.utils._pytree import tree_leaves

from codegen import _C
from codegen.plan.about import Doing, Place, Run, profiled
from jit.report import short

#: Bytes of what is copied to learn how quick copies are: more than caches hold.
COPIED = 1 << 26
ROUNDS = 5


@dataclass(frozen=True)
class Row:
    """One call's share of a kernel, of an operation of ATen, or of what else a plan does.

    `kind`: "kernel", "ATen", "Python", "memory" (tensors made, viewed and freed) or "rest" (all that no plan does);
    `phase`: "forward", "backward", or "" for the rest; `places`: the program's lines; `times`: how often; `seconds`: of
    all these; `bytes`: that all these moved, None where nobody knows."""

    name: str
    kind: str
    phase: str
    places: tuple[Place, ...]
    times: float
    seconds: float
    bytes: int | None

    @property
    def bandwidth(self) -> float | None:
        """Bytes a second."""
        return self.bytes / self.seconds if self.bytes and self.seconds else None


@dataclass(frozen=True)
class Profile:
    """What `calls` calls came to, each number the median over them. `rows`: the longest first; `seconds`: of a whole
    call; `copies`: bytes a second that a copy of a large tensor reads and writes on `device`."""

    name: str
    calls: int
    rows: tuple[Row, ...]
    seconds: float
    device: torch.device
    copies: float
    result: Any = field(repr=False)

    def share(self, row: Row) -> float:
        return row.seconds / self.seconds

    def show(self, out: TextIO) -> None:
        """Writes the table: in colour on a terminal, unless NO_COLOR is set."""
        from rich.console import Console  # most programs print no table
        from rich.table import Table
        from rich.text import Text

        console = Console(file=out, width=None if out.isatty() else 160, highlight=False)
        title = (
            f"framejit: {self.name}, {_duration(self.seconds)} a call (median of {self.calls}); "
            f"a copy moves {self.copies / 1e9:.1f} GB/s on {self.device}"
        )
        table = Table(title=Text(title), title_justify="left", box=None, pad_edge=False)
        table.add_column("kernel or operation", overflow="fold")
        table.add_column("of")
        for column in ("times", "time", "share", "moved", "GB/s", "of a copy"):
            table.add_column(column, justify="right")
        table.add_column("line", overflow="fold")
        for row in self.rows:
            bandwidth = row.bandwidth
            table.add_row(
                Text(row.name, style="bold" if row.kind == "kernel" else ""), row.phase, f"{row.times:g}",
                _duration(row.seconds), f"{self.share(row):.1%}", "" if row.bytes is None else _size(row.bytes),
                "" if bandwidth is None else f"{bandwidth / 1e9:.1f}",
                "" if bandwidth is None else f"{bandwidth / self.copies:.0%}", Text(_lines(row.places)),
            )  # fmt: skip
        console.print(table)

    def __str__(self) -> str:
        out = StringIO()
        self.show(out)
        return out.getvalue()


def measure(call: Callable[[], Any], name: str, calls: int, backward: bool) -> Profile:
    """Of `calls` calls, after one that is not measured."""
    differentiate = backward and _differentiate(call())
    found = []
    for _ in range(calls):
        with profiled() as runs:
            start = _now()
            result = call()
            if differentiate:
                _differentiate(result)
            found.append(_Call(_now() - start, runs))
    seconds = statistics.median(each.seconds for each in found)
    sums = [each.sums() for each in found]
    keys = dict.fromkeys(key for each in sums for key in each)
    rows = [_row(key, [each[key] for each in sums if key in each]) for key in keys]
    rest = max(seconds - sum(row.seconds for row in rows), 0.0)
    rows.append(Row("Python, guards, autograd, graphs without kernels", "rest", "", (), 1, rest, None))
    rows.sort(key=lambda row: -row.seconds)
    device = next((device for each in found for device in each.devices()), torch.device("cpu"))
    return Profile(name, calls, tuple(rows), seconds, device, copies(device), result)


Key = tuple[str, Doing]
_MEMORY = Doing("memory: tensors made, viewed, freed", "memory", ())


@dataclass
class _Sum:
    """Of what has one key, in one call."""

    times: int = 0
    seconds: float = 0.0
    bytes: int | None = 0

    def add(self, seconds: float, moved: int | None) -> None:
        self.times += 1
        self.seconds += seconds
        self.bytes = None if moved is None or self.bytes is None else self.bytes + moved


@dataclass(frozen=True)
class _Call:
    seconds: float
    runs: list[Run]

    def sums(self) -> dict[Key, _Sum]:
        found: dict[Key, _Sum] = {}
        for run in self.runs:
            phase = "backward" if run.about.is_backward else "forward"
            for doing, seconds, moved in zip(run.about.doings(), run.seconds, run.bytes, strict=False):
                found.setdefault((phase, doing or _MEMORY), _Sum()).add(seconds, moved)
        return found

    def devices(self) -> Iterator[torch.device]:
        """Those of the graphs' tensors that are no CPU."""
        for run in self.runs:
            for node in run.about.graph.graph.find_nodes(op="placeholder"):
                value = node.meta.get("val")
                if isinstance(value, torch.Tensor) and value.device.type != "cpu":
                    yield value.device


def _row(key: Key, sums: list[_Sum]) -> Row:
    phase, doing = key
    times = statistics.median(each.times for each in sums)
    moved = [each.bytes for each in sums if each.bytes is not None]
    count = int(statistics.median(moved)) if len(moved) == len(sums) else None
    return Row(doing.name, doing.kind, phase, doing.places, times, statistics.median(s.seconds for s in sums), count)


def _now() -> float:
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return time.perf_counter()


# --- gradients --------------------------------------------------------------------------------------------------------
def _differentiate(result: Any) -> bool:
    """Computes the gradients of all that the result was made of, and puts them nowhere; whether there are any."""
    tensors = [each for each in tree_leaves(result) if isinstance(each, torch.Tensor) and each.grad_fn is not None]
    leaves = list(_leaves(each.grad_fn for each in tensors))
    if not leaves:
        return False
    try:
        torch.autograd.grad(tensors, leaves, [torch.ones_like(each) for each in tensors], allow_unused=True)
    except RuntimeError as error:
        if _C.backward_twice.partition(".")[0] not in str(error):
            raise
        return False  # the function has done so itself
    return True


def _leaves(nodes: Iterable[Any]) -> Iterator[torch.Tensor]:
    seen: set[Any] = set()
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            yield node.variable
        waiting += [before for before, _ in node.next_functions]


# --- copies -----------------------------------------------------------------------------------------------------------
@cache
def copies(device: torch.device) -> float:
    """Bytes a second that a copy of a large tensor reads and writes: the best of some."""
    source = torch.ones(COPIED, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    times = []
    for _ in range(ROUNDS):
        start = _now()
        target.copy_(source)
        times.append(_now() - start)
    return 2 * COPIED / min(times)


# --- text -------------------------------------------------------------------------------------------------------------
def _duration(seconds: float) -> str:
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}" if seconds * factor < 1e3 else f"{seconds * factor:.0f} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def _size(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.3g} {unit}" if unit != "B" else f"{count} B"
        size /= 1024
    return f"{size:.3g} GiB"


def _lines(places: Iterable[Place]) -> str:
    """Lines of one file name it once."""
    found: dict[str, list[str]] = {}
    for place in places:
        found.setdefault(place.file, []).append(str(place.line))
    return ", ".join(short(f"{file}:{','.join(lines)}") for file, lines in found.items())

"""What became of a program's functions, as tables: `JIT_AUTO=report`, `python -m jit explain`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TextIO

from jit.state import DebugState, EntryState, FrameState

#: Breaks that are listed under "to mend first".
FIRST = 5


@dataclass(frozen=True)
class Row:
    """One function, or what is left of one after a graph break. `calls`: those that compiled code served. `saved`: in
    seconds."""

    name: str
    place: str
    calls: int
    entries: int
    operations: int
    breaks: int
    saved: float | None


@dataclass(frozen=True)
class Mend:
    """A break, and how often a call met it."""

    calls: int
    reason: str


def rows(state: DebugState) -> list[Row]:
    """The functions that were compiled, those called most often first."""
    found = [_row(frame) for frame in state.frames if frame.entries]
    return sorted(found, key=lambda row: (-row.calls, row.place))


def mends(state: DebugState) -> list[Mend]:
    """The breaks by how often they were met."""
    calls: dict[str, int] = {}
    for frame in state.frames:
        for entry in frame.entries:
            for reason in entry.breaks:
                text = str(reason)
                calls[text] = calls.get(text, 0) + entry.hits
    return [Mend(count, text) for text, count in sorted(calls.items(), key=lambda item: -item[1])]


def show(state: DebugState, out: TextIO) -> None:
    """Writes the tables: in colour on a terminal, unless NO_COLOR is set."""
    from rich.console import Console  # a program that asks for no report need not have waited for it
    from rich.table import Table

    console = Console(file=out, width=None if out.isatty() else 160, highlight=False)
    found = rows(state)
    if not found:
        console.print("framejit: nothing was compiled (no function of the program was called with tensors or modules)")
        return
    table = Table(title="framejit: what was compiled", title_justify="left", box=None, pad_edge=False)
    table.add_column("function", overflow="fold")
    table.add_column("place", overflow="fold")
    for name in ("calls", "compilations", "operations"):
        table.add_column(name, justify="right")
    table.add_column("breaks", justify="right", style="yellow")
    is_timed = any(row.saved is not None for row in found)
    if is_timed:
        table.add_column("time saved", justify="right")
    for row in found:
        cells = (row.calls, row.entries, row.operations, row.breaks or "")
        saved = "" if row.saved is None else f"{row.saved:.3f} s"
        table.add_row(row.name, short(row.place), *map(str, cells), *([saved] if is_timed else []))
    console.print(table)
    listed = mends(state)
    if listed:
        console.print("\nTo mend first:")
        for mend in listed[:FIRST]:
            console.print(f"  {mend.calls} calls  {mend.reason}", markup=False)
        if len(listed) > FIRST:
            console.print(f"  and {len(listed) - FIRST} more (JIT_LOGS=breaks lists them)")


def _row(frame: FrameState) -> Row:
    operations = max(sum(1 for _ in _operations(entry)) for entry in frame.entries)
    breaks = max(len(entry.breaks) for entry in frame.entries)
    calls = sum(entry.hits for entry in frame.entries)
    return Row(frame.name, frame.place, calls, len(frame.entries), operations, breaks, frame.saved)


def _operations(entry: EntryState) -> Iterator[object]:
    if entry.graph is not None:
        yield from (node for node in entry.graph.graph.nodes if node.op.startswith("call"))


def short(place: str) -> str:
    """Relative to the working folder, where it lies below."""
    file, _, line = place.rpartition(":")
    near = os.path.relpath(file) if os.path.isabs(file) else file
    return place if near.startswith(os.pardir) else f"{near}:{line}"

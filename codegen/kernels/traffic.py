"""How many bytes a kernel moves, if all that it reads or writes again is still in the caches."""

from __future__ import annotations

import math
from collections.abc import Iterator

from codegen.kernels import index as ix
from codegen.kernels import ir
from codegen.kernels.index import Index, Symbol
from codegen.kernels.ir import Kernel


def traffic(kernel: Kernel) -> Index:
    """In its sizes. An element counts once where it is read, and once where it is written."""
    sizes = {buffer.name: (buffer.size, buffer.dtype.itemsize) for buffer in kernel.buffers}
    places: dict[tuple[str, bool], dict[Index, Index]] = {}
    for buffer, is_store, place, axes in _accesses(kernel):
        places.setdefault((buffer, is_store), {})[place] = _rounds(place, axes)
    total = ix.index(0)
    for (buffer, _), rounds in places.items():
        size, width = sizes[buffer]
        total += ix.extremum("min", sum(rounds.values(), start=ix.index(0)), size) * width
    return total


def _accesses(kernel: Kernel) -> Iterator[tuple[str, bool, Index, tuple[Symbol, ...]]]:
    """The buffer, whether it is written, where, and the axes of the loop that it is done in."""
    for loop in kernel.loops:
        axes = (*kernel.axes, *loop.axes)
        for statement in loop.body:
            if isinstance(statement, ir.Store):
                yield statement.buffer, True, statement.index, axes
            for expr in ir.walk(*ir.reads(statement)):
                if isinstance(expr, ir.Load):
                    yield expr.buffer, False, expr.index, axes


def _rounds(place: Index, axes: tuple[Symbol, ...]) -> Index:
    """For how many rounds it may be another one: a place that is computed may be in all of them."""
    known = ix.symbols(place)
    moving = [axis for axis in axes if ix.has_values(place) or axis in known]
    return math.prod((axis.size or ix.index(1) for axis in moving), start=ix.index(1))

"""Which axis of a kernel becomes vectors: the innermost one of each loop (rows) or the kernel's own (lanes)."""

from __future__ import annotations

from collections.abc import Sequence

from codegen.kernels import index as ix
from codegen.kernels.axes import indices
from codegen.kernels.index import Index, Symbol
from codegen.kernels.ir import Kernel, Load, Loop, Op, Reduce, Running, Statement, Store, reads, walk
from codegen.kernels.ops import OPS

#: Elements of a vector, for these estimates.
WIDTH = 16
#: A size that is not known is taken to be this.
TYPICAL = 256
#: In operations: what a reduction to one number takes at the end of a row, a read of elements that lie apart, and what
#: each step of a running sum waits for the last one. (Eight threads can share so many lanes.)
REDUCED, APART, WAITED, SHARED = 50.0, 1.0, 2.0, 64
#: Lanes in a tile where each has lines of the cache of its own; and where strides of so many elements make these lines
#: meet in the few places that the first cache has for them. (Running sums of 8192 rows of 64 floats, cycles for an
#: element: 3.8 in tiles of 1024, 1.7 in 16, ATen 2.2. Of 1024 rows of 1024: 6 in 16, 1 in 8, 1.3 in ATen and in rows.)
APART_LANES, FEW_LANES, MEETING = 16, 8, 512


def in_lanes(kernel: Kernel) -> bool:
    """Whether the kernel's innermost axis should be the vectors."""
    if not kernel.axes or kernel.stretch > 1:
        return False
    if not any(loop.axes for loop in kernel.loops):
        return True
    placed = [store for loop in kernel.loops for store in puts(loop.body)]
    if placed:  # the places lie anywhere; what is read should not
        exprs = walk(*(value for store in placed for value in reads(store)))
        strides = [ix.stride_of(expr.index, kernel.axes[-1]) for expr in exprs if isinstance(expr, Load)]
        return not any(map(_is_far, strides))
    return _cost(kernel, lanes=True) < _cost(kernel, lanes=False)


def transposed_loads(kernel: Kernel) -> list[Load]:
    """Loads of a kernel without loops that go through memory along the last axis but one."""
    if len(kernel.axes) < 2 or any(loop.axes for loop in kernel.loops):
        return []
    row, lane = kernel.axes[-2:]
    read = {buffer.name for buffer in kernel.buffers if buffer.role == "in"}
    return [
        expr
        for expr in walk(*(value for loop in kernel.loops for statement in loop.body for value in reads(statement)))
        if isinstance(expr, Load) and expr.mask is None and expr.buffer in read and not ix.has_values(expr.index)
        and ix.stride_of(expr.index, row) == 1 and _is_far(ix.stride_of(expr.index, lane))
    ]  # fmt: skip


def lanes_apart(kernel: Kernel, lane: Symbol) -> int:
    """How many lanes a tile has where each reads or writes in other lines of the cache than the next one, else 0."""
    strides = [ix.stride_of(at, lane) for loop in kernel.loops for at in indices(loop.body)]
    if not any(map(_is_far, strides)):
        return 0
    meet = any(stride is not None and stride.constant and stride.constant % MEETING == 0 for stride in strides)
    return FEW_LANES if meet else APART_LANES


def _is_far(stride: Index | None) -> bool:
    """Whether elements of that stride lie in other lines of the cache."""
    return stride is not None and (stride.constant is None or stride.constant >= WIDTH)


def _cost(kernel: Kernel, lanes: bool) -> float:
    """Of one element of the kernel's axes."""
    total = 0.0
    for loop in kernel.loops:
        axis = kernel.axes[-1] if lanes else loop.axes[-1] if loop.axes else None
        width = 1.0 if axis is None or (not lanes and _runs(loop)) else min(WIDTH, _extent(axis))
        rounds = 1.0
        for loop_axis in loop.axes:
            rounds *= _extent(loop_axis)
        each = 0.0
        for at in indices(loop.body):
            cost = _access(at, axis, width)
            if lanes and cost == APART and not set(loop.axes) & ix.symbols(at):  # read once, and kept
                total, cost = total + APART, 1 / width
            each += cost
        exprs = {expr for statement in loop.body for expr in walk(*reads(statement))}
        each += sum(OPS[expr.name].cost for expr in exprs if isinstance(expr, Op)) / width
        each += WAITED if not lanes and _runs(loop) and _extent(kernel.axes[-1]) >= SHARED else 0
        reduced = sum(isinstance(statement, Reduce) for statement in loop.body)
        total += rounds * (each + (reduced / width if lanes else 0)) + (0 if lanes else reduced * REDUCED)
    return total


def _access(at: Index, axis: Symbol | None, width: float) -> float:
    stride = None if axis is None else ix.stride_of(at, axis)
    return 1 / width if stride is not None and stride.constant in (0, 1) and not _gathers(at, axis) else APART


def _gathers(at: Index, axis: Symbol | None) -> bool:
    return axis is not None and ix.has_values(at)


def puts(body: Sequence[Statement]) -> list[Store]:
    """The stores whose rounds are to be done in order."""
    return [statement for statement in body if isinstance(statement, Store) and statement.into is not None]


def _runs(loop: Loop) -> bool:
    return any(isinstance(expr, Running) for statement in loop.body for expr in walk(*reads(statement)))


def _extent(axis: Symbol) -> float:
    assert axis.size is not None
    constant = axis.size.constant
    return float(TYPICAL if constant is None else max(constant, 1))

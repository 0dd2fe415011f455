"""What is computed once and kept in an array: from one loop over a row to the next, or for all rounds of a lane."""

from __future__ import annotations

from codegen.kernels.index import Index, Symbol, stride_of, symbols
from codegen.kernels.ir import Expr, Kernel, Load, Loop, Op, Result, Running, indices_in, reads, walk
from codegen.kernels.ops import OPS

#: A value is kept if it costs as much: writing and reading it, in the first cache, costs some operations, too.
WORTH = 8
#: The same where many rounds read it.
DEAR = 4
#: Elements of a row that may be kept, and bytes of all that is.
LONGEST, MOST = 8192, 32768


def kept_values(kernel: Kernel) -> list[Expr]:
    """Values of loops over one axis of known size that later loops over that axis need, too."""
    written = {buffer.name for buffer in kernel.buffers if buffer.role != "in"}
    kept: list[Expr] = []
    room = MOST
    for number, loop in enumerate(kernel.loops):
        size = loop.axes[0].size.constant if len(loop.axes) == 1 and loop.axes[0].size is not None else None
        if size is None or size > LONGEST:
            continue
        later = [other for other in kernel.loops[number + 1 :] if other.axes == loop.axes]
        needed = set(walk(*_roots(later)))
        for expr in reversed(list(walk(*_roots([loop])))):
            below = list(walk(expr))
            if expr not in needed or any(expr in walk(known) for known in kept):
                continue
            cost = sum(OPS[e.name].cost for e in below if isinstance(e, Op) and _depends(e, loop.axes[0]))
            changes = any(isinstance(e, Running) or (isinstance(e, Load) and e.buffer in written) for e in below)
            if (
                isinstance(expr, Op)
                and cost >= WORTH
                and not changes
                and room >= size * 8
                and _depends(expr, loop.axes[0])
            ):
                kept.append(expr)
                room -= size * 8
    return kept


def values_of_lanes(loop: Loop, lane: Symbol, written: set[str]) -> list[Expr]:
    """Values that depend on the lane and not on the round, and cost more than reading an array."""
    fixed: set[Expr] = set()
    varying: set[Expr] = set()
    costs: dict[Expr, int] = {}
    found: dict[Expr, None] = {}
    roots = _roots([loop])
    for expr in walk(*roots):
        at = indices_in(expr)
        here = symbols(at) if at is not None else frozenset()
        changes = isinstance(expr, Running) or (isinstance(expr, Load) and expr.buffer in written)
        own = OPS[expr.name].cost if isinstance(expr, Op) else DEAR if at is not None and _is_apart(at, lane) else 0
        costs[expr] = sum(costs[arg] for arg in expr.args) + own
        if changes or here & set(loop.axes) or any(arg in varying for arg in expr.args):
            varying.add(expr)
            found |= {arg: None for arg in expr.args if arg in fixed and costs[arg] >= DEAR}
        elif lane in here or isinstance(expr, Result) or any(arg in fixed for arg in expr.args):
            fixed.add(expr)
    return list(found)


def _is_apart(at: Index, lane: Symbol) -> bool:
    """Whether neighbouring lanes read what is apart."""
    stride = stride_of(at, lane)
    return stride is None or stride.constant not in (0, 1)


def _roots(loops: list[Loop]) -> list[Expr]:
    return [value for loop in loops for statement in loop.body for value in reads(statement)]


def _depends(expr: Expr, axis: Symbol) -> bool:
    return any(axis in symbols(at) for e in walk(expr) if (at := indices_in(e)) is not None)

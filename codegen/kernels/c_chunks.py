"""Rows that are reduced in chunks: each lane of some vectors has a total of its own, and these are added up at the end.

Left to itself, a compiler adds up a row in one vector, each addition waiting for the one before, and its lanes one by
one. Arrays as long as a vector, all of whose elements a loop goes through at once, stay in registers.
"""

from __future__ import annotations

import torch

from codegen.kernels.c_ops import CReduction, ctype
from codegen.kernels.index import Symbol, has_values, symbols
from codegen.kernels.ir import Expr, Loop, Op, Reduce, Running, Store, indices_in, reads, walk
from codegen.kernels.ops import OPS

#: So many rounds of a loop go together, if what each does costs no more than that: over lanes, over chunks.
TOGETHER, LIGHT, LIGHTEST = 4, 12, 8
#: Elements of a chunk on the machine that has the longest; rows of less than so many, or, where some elements are left
#: over at the end, of less than so many, are not worth it.
LONGEST, LONG = 16, 256
#: Kinds of reductions whose lanes are added up, and what adds up a pair.
FOLDS = {"sum": "{0} + {1}", "max": "{0} > {1} ? {0} : {1}", "min": "{0} < {1} ? {0} : {1}"}
KINDS = {"sum": "sum", "max": "max", "argmax": "max", "min": "min", "argmin": "min"}


def lanes(loop: Loop) -> str:
    """What says in C how many lanes a chunk of that loop has, whose rounds may run in any order; "" where it is none.
    All that is computed is of one width, or vectors would not be full."""
    reduced = [statement for statement in loop.body if isinstance(statement, Reduce)]
    if not loop.axes or not reduced or any(s.kind not in KINDS for s in reduced):
        return ""
    size = loop.axes[-1].size.constant if loop.axes[-1].size is not None else None
    if size is not None and (size < LONGEST or (size % LONGEST and size < LONG)):
        return ""
    if not all(s.value.dtype.is_floating_point for s in reduced):
        return ""
    widths = {ctype(value.dtype).bits for value in _varying(loop, loop.axes[-1])}
    return f"LANES_{widths.pop()}" if widths in ({32}, {64}) else ""


def _varying(loop: Loop, axis: Symbol) -> list[Expr]:
    """What changes from round to round, but for truths, which are masks of vectors; also what is stored."""
    found: set[Expr] = set()
    values = [value for statement in loop.body for value in reads(statement)]
    for expr in walk(*values):
        at = indices_in(expr)
        if (at is not None and (axis in symbols(at) or has_values(at))) or any(arg in found for arg in expr.args):
            found.add(expr)
    stored = [statement.value for statement in loop.body if isinstance(statement, Store)]
    return [expr for expr in (*found, *stored) if not (isinstance(expr, Op) and expr.dtype is torch.bool)]


def together(loop: Loop) -> int:
    """How many chunks of a loop go together."""
    axis = loop.axes[-1]
    if not is_light(loop, LIGHTEST):
        return 1
    size = axis.size.constant if axis.size is not None else None
    return TOGETHER if size is None else max(1, min(TOGETHER, size // LONGEST))


def rests(loop: Loop, most: int) -> list[int]:
    """How many chunks go together, pass by pass: `most`, one, 0 for a part of one; only what may be there."""
    size = loop.axes[-1].size.constant if loop.axes[-1].size is not None else None
    if size is None:
        size = 1
    return [most, *([1] if most > 1 and size % (most * LONGEST) else []), *([0] if size % LONGEST else [])]


def in_chunks(spec: CReduction, kind: str) -> CReduction:
    """What lanes do: of extreme values the plain one, which forgets a NaN."""
    if KINDS[kind] == "sum":
        return spec
    held = {"int32_t": "float", "int64_t": "double"}[spec.held]
    start = f"{'-' if KINDS[kind] == 'max' else ''}__builtin_inf{'f' if held == 'float' else ''}()"
    return CReduction(held, start, FOLDS[KINDS[kind]])


def fold(kind: str, parts: list[str]) -> list[str]:
    """Statements after which the first of the parts is all of them in one, added up pair by pair."""
    found, parts = [], list(parts)
    while len(parts) > 1:
        pairs = list(zip(parts[::2], parts[1::2], strict=False))
        found += [f"{a} = {FOLDS[KINDS[kind]].format(a, b)};" for a, b in pairs]
        parts = parts[::2]
    return found


def is_light(loop: Loop, most: int = LIGHT) -> bool:
    """Whether it only reduces, each round by a few operations."""
    if not all(isinstance(s, Reduce) and s.kind in ("sum", "prod", "max", "min", "any", "all") for s in loop.body):
        return False
    exprs = list(walk(*(value for statement in loop.body for value in reads(statement))))
    if any(isinstance(expr, Running) or has_values(at) for expr in exprs if (at := indices_in(expr)) is not None):
        return False
    return sum(OPS[expr.name].cost for expr in exprs if isinstance(expr, Op)) <= most

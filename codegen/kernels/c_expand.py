"""What there is no single loop for, in loops that there are: `logsumexp` as a maximum and a sum; in C also what is
combined with an element, as that element, read and computed with."""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from codegen.kernels.ir import (
    Expr,
    Kernel,
    Load,
    Loop,
    Reduce,
    Result,
    Running,
    Statement,
    Store,
    literal,
    load,
    op,
    reads,
    result,
    rewrite,
    walk,
)
from codegen.kernels.ops import PUTS


def expand(kernel: Kernel) -> Kernel:
    """A kernel that does the same. A `logsumexp` stays where a loop needs it while it runs or reads what it writes."""
    known: dict[Expr, Expr] = {}
    loops: list[Loop] = []
    for loop in kernel.loops:
        body = [_with_results(statement, known) for statement in loop.body]
        found = [s for s in body if isinstance(s, Reduce) and s.kind == "logsumexp" and _is_free(s, body)]
        if not found:
            loops.append(replace(loop, body=tuple(body)))
            continue
        tops: list[Statement] = [Reduce(f"{s.name}_top", "max", wide(s.value)) for s in found]
        loops.append(Loop(loop.axes, tuple(tops)))
        for s in found:
            value = wide(s.value)
            top = finite(result(f"{s.name}_top", value.dtype))
            power = op("exp", value.dtype, op("sub", value.dtype, value, top))
            body[body.index(s)] = Reduce(f"{s.name}_sum", "sum", power)
            total = op("add", value.dtype, op("log", value.dtype, result(f"{s.name}_sum", value.dtype)), top)
            known[result(s.name, s.dtype)] = total if s.dtype == value.dtype else op("to", s.dtype, total)
        loops.append(replace(loop, body=tuple(body)))
    return replace(kernel, loops=tuple(loops)) if known else kernel


def in_order(kernel: Kernel) -> Kernel:
    """The same where rounds are done one after the other: what stores combine with elements is read before."""
    loops = tuple(Loop(loop.axes, tuple(map(_read_first, loop.body))) for loop in kernel.loops)
    return replace(kernel, loops=loops)


def _read_first(statement: Statement) -> Statement:
    if not isinstance(statement, Store) or not statement.into or not PUTS[statement.into]:
        return statement
    there = load(statement.buffer, statement.index, statement.value.dtype)
    value = op(PUTS[statement.into], there.dtype, there, statement.value)
    return replace(statement, value=value, into="last")


def _with_results(statement: Statement, known: dict[Expr, Expr]) -> Statement:
    if not known:
        return statement

    def rule(leaf: Expr) -> Expr | None:
        return known.get(leaf) if isinstance(leaf, Result) else None

    if isinstance(statement, Reduce):
        return replace(statement, value=rewrite(statement.value, rule))
    at = rewrite(load(statement.buffer, statement.index, torch.int8), rule)
    assert isinstance(at, Load)
    return replace(statement, index=at.index, value=rewrite(statement.value, rule))


def _is_free(reduce: Reduce, body: list[Statement]) -> bool:
    written = {s.buffer for s in body if isinstance(s, Store)}
    return not any(
        (isinstance(expr, Running) and expr.name == reduce.name) or (isinstance(expr, Load) and expr.buffer in written)
        for statement in body
        for expr in walk(*reads(statement))
    ) and not any(isinstance(expr, Running) for expr in walk(reduce.value))


def wide(value: Expr) -> Expr:
    return value if value.dtype in (torch.float32, torch.float64) else op("to", torch.float32, value)


def finite(top: Expr) -> Expr:
    """0 for an infinite one: its difference to another one would be NaN."""
    infinite = op("eq", torch.bool, op("abs", top.dtype, top), literal(math.inf, top.dtype))
    return op("where", top.dtype, infinite, literal(0.0, top.dtype), top)

"""Halves as float32 from where they are read to where they are stored: what `round_halves` off asks for.

Eager code rounds what each operation gives, and so do kernels. Here only what is stored is rounded, what is reduced to
a half, and what steps: a comparison, a conversion to an integer, `floor` see the values that eager code sees, as far as
one rounding tells.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from codegen.kernels import ir
from codegen.kernels.check import check
from codegen.kernels.ir import Expr, Kernel, Literal, Loop, Op, Reduce, Statement
from codegen.kernels.schedule import Launch, Schedule

HALVES = (torch.float16, torch.bfloat16)
#: Their results leap where their operands hardly change.
LEAPING = {"floor", "ceil", "round", "trunc", "sign", "floor_div", "trunc_div", "remainder", "fmod", "nextafter",
           "bits"}  # fmt: skip
#: Reductions that add up; others choose one of the values.
ADDING = {"sum", "prod", "logsumexp"}


def unrounded(what: Schedule) -> Schedule:
    """The same with kernels that round less."""
    made = {kernel: check(_kernel(kernel)) for kernel in what.kernels}
    steps = tuple(replace(step, kernel=made[step.kernel]) if isinstance(step, Launch) else step for step in what.steps)
    return replace(what, kernels=tuple(made.values()), steps=steps)


def _kernel(kernel: Kernel) -> Kernel:
    values = _Values()
    loops = (Loop(loop.axes, tuple(_statement(values, s) for s in loop.body)) for loop in kernel.loops)
    return replace(kernel, loops=tuple(loops))


def _statement(values: _Values, statement: Statement) -> Statement:
    found = values.of(statement.value)
    is_free = not isinstance(statement, Reduce) or statement.kind in ADDING
    return replace(statement, value=found.free if is_free else found.rounded)


@dataclass(frozen=True)
class _Value:
    """An expression in its dtype, what it computes from halves being rounded before it, and not. Of a half, which is
    rounded in both, `wide` is the float32 value that it had before."""

    rounded: Expr
    free: Expr
    wide: Expr | None = None


class _Values:
    def __init__(self) -> None:
        self.known: dict[Expr, _Value] = {}

    def of(self, value: Expr) -> _Value:
        for expr in ir.walk(value):
            if expr not in self.known:
                self.known[expr] = self._op(expr) if isinstance(expr, Op) else _leaf(expr)
        return self.known[value]

    def _op(self, expr: Op) -> _Value:
        given = [self.known[operand] for operand in expr.operands]
        rounded = ir.op(expr.name, expr.dtype, *(each.rounded for each in given))
        if expr.name == "to" and expr.dtype.is_floating_point:
            (only,) = given
            free = only.wide or only.free
            if expr.dtype not in HALVES:
                return _Value(rounded, free if free.dtype == expr.dtype else ir.op("to", expr.dtype, free))
            return _half(free, expr.dtype) if free.dtype == torch.float32 else _leaf(rounded)
        if not expr.dtype.is_floating_point or expr.name in LEAPING:
            return _leaf(rounded)
        if expr.dtype in HALVES:
            return _half(ir.op(expr.name, torch.float32, *(each.wide or each.free for each in given)), expr.dtype)
        return _Value(rounded, ir.op(expr.name, expr.dtype, *(each.free for each in given)))


def _leaf(expr: Expr) -> _Value:
    """It has that value, and no other."""
    if expr.dtype not in HALVES:
        return _Value(expr, expr)
    if isinstance(expr, Literal):
        return _Value(expr, expr, ir.literal(expr.value, torch.float32))
    return _Value(expr, expr, ir.op("to", torch.float32, expr))


def _half(wide: Expr, dtype: torch.dtype) -> _Value:
    same = ir.op("to", dtype, wide)
    return _Value(same, same, wide)

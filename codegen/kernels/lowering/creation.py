"""New tensors: copies, conversions, and those made of numbers."""

from __future__ import annotations

from typing import Any

import torch

from codegen.kernels import ir
from codegen.kernels.index import Index
from codegen.kernels.ir import Expr
from codegen.kernels.lowering.context import (
    Lowering,
    Ref,
    Unsupported,
    broadcast,
    computed_in,
    draws,
    fn,
    number,
    rounded,
    shape_of,
    to,
    where,
)
from codegen.kernels.lowering.table import lowers

aten = torch.ops.aten


# --- copies -----------------------------------------------------------------------------------------------------------
@lowers(
    aten._to_copy.default, aten.clone.default, aten.contiguous.default, aten.lift_fresh_copy.default,
    aten._conj_physical.default, aten.conj_physical.default, aten.resolve_conj.default, aten.resolve_neg.default,
)  # fmt: skip
def _copy(low: Lowering, x: Ref, **options: Any) -> Ref:
    """Where its elements come to lie is what the fake says."""
    return low.define(x.shape, low.out.dtype, lambda *at: to(x[at], low.out.dtype))


@lowers(aten.copy.default)
def _copy_into(low: Lowering, x: Ref, source: Ref, non_blocking: bool = False) -> Ref:
    return low.define(x.shape, x.dtype, lambda *at: to(broadcast(source, at), x.dtype))


# --- the same number everywhere ---------------------------------------------------------------------------------------
def filled(low: Lowering, value: Any) -> Ref:
    expr = number(value, low.out.dtype)
    return low.define(shape_of(low.out), low.out.dtype, lambda *at: expr)


@lowers(
    aten.zeros.default, aten.zeros_like.default, aten.new_zeros.default, aten.zero.default,
    aten.ones.default, aten.ones_like.default, aten.new_ones.default,
)  # fmt: skip
def _constant(low: Lowering, *like: Any, **options: Any) -> Ref:
    return filled(low, "ones" in str(low.node.target))


@lowers(aten.full.default, aten.full_like.default, aten.new_full.default, aten.scalar_tensor.default)
def _full(low: Lowering, *like_value: Any, **options: Any) -> Ref:
    return filled(low, like_value[-1])


@lowers(aten.fill.Scalar)
def _fill(low: Lowering, x: Ref, value: Any) -> Ref:
    return filled(low, value)


@lowers(aten.fill.Tensor)
def _fill_tensor(low: Lowering, x: Ref, value: Ref) -> Ref:
    return low.define(x.shape, x.dtype, lambda *at: to(broadcast(value, at), x.dtype))


@lowers(
    aten.empty.memory_format, aten.empty_like.default, aten.new_empty.default, aten.empty_strided.default,
    aten.new_empty_strided.default, aten.empty_permuted.default,
)  # fmt: skip
def _empty(low: Lowering, *like: Any, **options: Any) -> Ref:
    """Nobody may look at the values; random numbers are ATen's, and so is what they only take the looks of."""
    if any(draws(user) for user in low.node.users):
        raise Unsupported("what random numbers are drawn like")
    return filled(low, 0)


# --- positions --------------------------------------------------------------------------------------------------------
@lowers(aten.arange.default)
def _arange(low: Lowering, end: Any, **options: Any) -> Ref:
    return _steps(low, 0, 1)


@lowers(aten.arange.start, aten.arange.start_step)
def _arange_from(low: Lowering, start: Any, end: Any, step: Any = 1, **options: Any) -> Ref:
    return _steps(low, start, step)


def _steps(low: Lowering, start: Any, step: Any) -> Ref:
    """Integers as integers; floats as eager: in float64."""
    if all(isinstance(value, int | Index) for value in (start, step)):
        return low.define(
            shape_of(low.out), low.out.dtype, lambda i: to(ir.position(i * step + start), low.out.dtype)
        )
    if not low.out.dtype.is_floating_point:
        raise Unsupported("integers in steps of floats")
    first, by = (number(value, torch.float64) for value in (start, step))
    return low.define(
        shape_of(low.out), low.out.dtype,
        lambda i: to(first + to(ir.position(i), torch.float64) * by, low.out.dtype),
    )


@lowers(aten.linspace.default)
def _linspace(low: Lowering, start: Any, end: Any, steps: int, **options: Any) -> Ref:
    """The first half counts from the start, the other one from the end."""
    wide = computed_in(low.out.dtype)
    if not wide.is_floating_point:
        raise Unsupported("a line of integers")
    if steps < 2:
        return filled(low, start)

    def halved(value: Expr) -> Expr:  # whatever lies between is of the result's dtype
        return rounded(value, low.out.dtype)

    first, last = (to(number(value, low.out.dtype), wide) for value in (start, end))
    step = halved(halved(last - first) / halved(to(ir.position(steps - 1), wide)))

    def element(i: Index) -> Expr:
        at, back = (halved(to(ir.position(place), wide)) for place in (i, steps - 1 - i))
        forth = first + halved(step * at)
        return to(where(ir.position(i) < steps // 2, forth, last - halved(step * back)), low.out.dtype)

    return low.define(shape_of(low.out), low.out.dtype, element)


@lowers(aten.eye.default, aten.eye.m)
def _eye(low: Lowering, *sizes: Any, **options: Any) -> Ref:
    def element(row: Index, column: Index) -> Expr:
        return where(fn("eq", ir.position(row), ir.position(column)), ir.literal(1, low.out.dtype), 0)

    return low.define(shape_of(low.out), low.out.dtype, element)

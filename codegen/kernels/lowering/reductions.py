"""Reductions over dims, and scans along one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from codegen.kernels import index as ix
from codegen.kernels import ir
from codegen.kernels.index import Index
from codegen.kernels.ir import Expr
from codegen.kernels.lowering.context import (
    Lowering,
    Ref,
    Unsupported,
    computed_in,
    fn,
    is_true,
    rounded,
    to,
    where,
    wrap,
)
from codegen.kernels.lowering.table import lowers

aten = torch.ops.aten


def dims_of(ref: Ref, dims: int | Sequence[int] | None) -> list[int]:
    """Named dims; all of them where none is."""
    if isinstance(dims, int):
        dims = [dims]
    return sorted(wrap(dim, ref.dim) for dim in dims if ref.dim) if dims else list(range(ref.dim))


def count(ref: Ref, dims: Sequence[int]) -> Index:
    """How many elements are reduced to one."""
    return math.prod((ref.shape[dim] for dim in dims), start=ix.index(1))


def sized(count: Index, dtype: torch.dtype) -> Expr:
    """A number of elements as a value."""
    return to(ir.literal(count.constant, torch.int64) if count.constant is not None else ir.position(count), dtype)


def converted(low: Lowering, ref: Ref, dtype: torch.dtype, formula: Callable[[Expr], Expr] | None = None) -> Ref:
    """formula(element) in that dtype."""
    if formula is None and ref.dtype == dtype:
        return ref
    return low.define(ref.shape, dtype, lambda *at: to(ref[at] if formula is None else formula(ref[at]), dtype))


def kept(at: Sequence[Index], dims: Sequence[int]) -> list[Index]:
    """Where an element's reduction lies, if that keeps the dims."""
    return [ix.index(0) if dim in dims else i for dim, i in enumerate(at)]


def total(
    low: Lowering, x: Ref, dims: Sequence[int], keepdim: bool, value: Callable[[Expr], Expr], kind: str = "sum",
    hint: str = "",
) -> Ref:
    """A reduction of value(element)."""
    return low.reduce(kind, x.shape, dims, lambda *at: value(x[at]), keepdim, hint)


# --- sums -------------------------------------------------------------------------------------------------------------
def _summed(kind: str) -> Callable[..., Ref]:
    def row(low: Lowering, x: Ref, dims: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Ref:
        out = low.out.dtype
        if out == torch.bool:
            raise Unsupported("a sum that is a bool")
        found = total(
            low, x, dims_of(x, dims), keepdim, lambda e: to(to(e, out), computed_in(out)), kind,
        )
        return converted(low, found, out)

    return row


lowers(aten.sum.default, aten.sum.dim_IntList)(_summed("sum"))
lowers(aten.prod.default, aten.prod.dim_int)(_summed("prod"))


@lowers(aten.nansum.default)
def _nansum(low: Lowering, x: Ref, dims: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Ref:
    out = low.out.dtype
    if not out.is_floating_point or dtype is not None:
        raise Unsupported("integers, or another dtype")
    wide = computed_in(out)

    def value(e: Expr) -> Expr:
        return where(fn("isnan", e), 0, to(e, wide)) if e.dtype.is_floating_point else to(e, wide)

    return converted(low, total(low, x, dims_of(x, dims), keepdim, value), out)


@lowers(aten.mean.default, aten.mean.dim)
def _mean(low: Lowering, x: Ref, dims: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Ref:
    return mean_of(low, x, dims_of(x, dims), keepdim, low.out.dtype)


def mean_of(low: Lowering, x: Ref, over: Sequence[int], keepdim: bool, out: torch.dtype) -> Ref:
    wide = computed_in(out)
    found = total(low, x, over, keepdim, lambda e: to(to(e, out), wide), hint="sum")
    return converted(low, found, out, lambda e: e / sized(count(x, over), wide))


@lowers(aten.logsumexp.default)
def _logsumexp(low: Lowering, x: Ref, dims: Any, keepdim: bool = False) -> Ref:
    over, out = dims_of(x, dims), low.out.dtype
    wide = computed_in(out)
    if out == wide:
        return converted(low, total(low, x, over, keepdim, lambda e: to(e, wide), "logsumexp"), out)
    # of halves: eager code's own steps, which round each
    largest = low.reduce("max", x.shape, over, lambda *at: x[at], True, "largest")

    def shift(*at: Index) -> Expr:
        found = largest.at(kept(at, over))
        return to(where(fn("eq", fn("abs", found), math.inf), 0.0, found), wide)

    def power(*at: Index) -> Expr:
        return rounded(fn("exp", rounded(to(x[at], wide) - shift(*at), out)), out)

    sums = low.reduce("sum", x.shape, over, power, keepdim, "powers")

    def finished(*at: Index) -> Expr:
        rest = iter(at)
        whole = at if keepdim else [ix.index(0) if dim in over else next(rest) for dim in range(x.dim)]
        return to(rounded(fn("log", rounded(sums[at], out)), out) + shift(*whole), out)

    return low.define(sums.shape, out, finished)


# --- extremes ---------------------------------------------------------------------------------------------------------
def _extreme(kind: str) -> Callable[..., Ref]:
    def row(low: Lowering, x: Ref, dims: Any = None, keepdim: bool = False) -> Ref:
        return total(low, x, dims_of(x, dims), keepdim, lambda e: e, kind)

    return row


lowers(aten.amax.default, aten.max.default)(_extreme("max"))
lowers(aten.amin.default, aten.min.default)(_extreme("min"))


@lowers(aten.aminmax.default)
def _aminmax(low: Lowering, x: Ref, *, dim: int | None = None, keepdim: bool = False) -> tuple[Ref, Ref]:
    dims = dims_of(x, dim)
    lowest = total(low, x, dims, keepdim, lambda e: e, "min", "min")
    return lowest, total(low, x, dims, keepdim, lambda e: e, "max", "max")


def _ordered(e: Expr) -> Expr:
    return to(e, torch.uint8) if e.dtype == torch.bool else e


def _extreme_and_place(kind: str) -> Callable[..., tuple[Ref, Ref]]:
    def row(low: Lowering, x: Ref, dim: int, keepdim: bool = False) -> tuple[Ref, Ref]:
        dims = dims_of(x, dim)
        return (
            total(low, x, dims, keepdim, lambda e: e, kind, "values"),
            total(low, x, dims, keepdim, _ordered, f"arg{kind}", "indices"),
        )

    return row


lowers(aten.max.dim)(_extreme_and_place("max"))
lowers(aten.min.dim)(_extreme_and_place("min"))


def _place(kind: str) -> Callable[..., Ref]:
    def row(low: Lowering, x: Ref, dim: int | None = None, keepdim: bool = False) -> Ref:
        return total(low, x, dims_of(x, dim), keepdim, _ordered, kind)

    return row


lowers(aten.argmax.default)(_place("argmax"))
lowers(aten.argmin.default)(_place("argmin"))


def _truth(kind: str) -> Callable[..., Ref]:
    def row(low: Lowering, x: Ref, dims: Any = None, keepdim: bool = False) -> Ref:
        # no dims at all are all of them, an empty list of them are none
        over = [] if isinstance(dims, list | tuple) and not dims else dims_of(x, dims)
        return converted(low, total(low, x, over, keepdim, is_true, kind), low.out.dtype)

    return row


lowers(aten.any.default, aten.any.dim, aten.any.dims)(_truth("any"))
lowers(aten.all.default, aten.all.dim, aten.all.dims)(_truth("all"))


# --- deviations -------------------------------------------------------------------------------------------------------
def deviations(
    low: Lowering, x: Ref, dims: Sequence[int], wide: torch.dtype, keepdim: bool = True
) -> tuple[Ref, Ref]:
    """(mean, sum of the squared distances from it) over dims. The mean keeps them."""
    mean = converted(
        low, total(low, x, dims, True, lambda e: to(e, wide), hint="sum"), wide,
        lambda e: e / sized(count(x, dims), wide),
    )
    return mean, _squares(low, x, mean, dims, keepdim)


def _squares(low: Lowering, x: Ref, mean: Ref, dims: Sequence[int], keepdim: bool) -> Ref:
    def squared(*at: Index) -> Expr:
        distance = to(x[at], mean.dtype) - mean.at(kept(at, dims))
        return distance * distance

    return low.reduce("sum", x.shape, dims, squared, keepdim, "squares")


def _from_the_first(low: Lowering, x: Ref, dims: Sequence[int], wide: torch.dtype) -> Ref:
    """A mean over dims, which it keeps. That of equal values is their value: their sum, divided, is not, and eager
    code's deviation of theirs is 0, which decides their gradient."""
    is_empty = any(x.shape[dim] == 0 for dim in dims)

    def first(at: Sequence[Index]) -> Expr:
        return ir.literal(0.0, wide) if is_empty else to(x.at(kept(at, dims)), wide)

    def distance(*at: Index) -> Expr:
        return to(x[at], wide) - first(at)

    def moved(*at: Index) -> Expr:
        return sums[at] / sized(count(x, dims), wide) + first(at)

    sums = low.reduce("sum", x.shape, dims, distance, True, "sum")
    return low.define(sums.shape, wide, moved)


def _variance(root: bool, with_mean: bool) -> Callable[..., Any]:
    def row(low: Lowering, x: Ref, dims: Any = None, correction: Any = 1, keepdim: bool = False) -> Any:
        over = dims_of(x, dims)
        out = low.out[0].dtype if with_mean else low.out.dtype
        wide = computed_in(out)
        if isinstance(correction, Expr):
            raise Unsupported("a correction that varies")
        squares = _squares(low, x, _from_the_first(low, x, over, wide), over, keepdim)
        if float(correction) == int(correction):
            freedom = count(x, over) - int(correction)
            divisor = sized(ix.extremum("max", freedom, ix.index(0)), wide)
        else:
            divisor = fn("maximum", sized(count(x, over), wide) - float(correction), 0)

        def finished(e: Expr) -> Expr:
            return fn("sqrt", e / divisor) if root else e / divisor

        found = converted(low, squares, out, finished)
        return (found, mean_of(low, x, over, keepdim, out)) if with_mean else found

    return row


def _in_order(row: Callable[..., Any]) -> Callable[..., Any]:
    """(x, dim, correction=, keepdim=), and the older (x, unbiased) and (x, dim, unbiased, keepdim)."""

    def bound(low: Lowering, x: Ref, *args: Any, **options: Any) -> Any:
        dims, unbiased, keepdim = None, True, False
        if args and isinstance(args[0], bool):
            (unbiased,) = args
        elif args:
            given = (*args, *(None, True, False)[len(args) :])
            dims, unbiased, keepdim = given
        correction = options.get("correction", int(unbiased))
        return row(low, x, dims, 1 if correction is None else correction, options.get("keepdim", keepdim))

    return bound


for _name, _root in (("var", False), ("std", True)):
    lowers(getattr(aten, _name).correction, getattr(aten, _name).default, getattr(aten, _name).dim)(
        _in_order(_variance(_root, False))
    )
    lowers(getattr(aten, f"{_name}_mean").correction)(_in_order(_variance(_root, True)))


# --- norms ------------------------------------------------------------------------------------------------------------
LINEAR = (1, math.inf, -math.inf)


def _norm_of(low: Lowering, x: Ref, order: Any, dims: list[int], keepdim: bool) -> Ref:
    out = low.out.dtype
    wide = computed_in(out)
    if isinstance(order, Expr):
        raise Unsupported("an order that varies")

    def size(e: Expr) -> Expr:
        e = to(to(e, out), wide)
        if order == 0:
            return to(fn("ne", e, 0), wide)
        if order == 2:
            return e * e
        return fn("abs", e) if order in LINEAR else fn("pow", fn("abs", e), float(order))

    kind = {math.inf: "max", -math.inf: "min"}.get(float(order), "sum")
    if kind != "sum" and any(x.shape[dim] == 0 for dim in dims):
        raise Unsupported("an extreme of no elements")
    found = total(low, x, dims, keepdim, size, kind, "sum")
    if order in (0, *LINEAR):
        return converted(low, found, out)
    if order == 2:
        return converted(low, found, out, lambda e: fn("sqrt", e))
    return converted(low, found, out, lambda e: fn("pow", e, 1 / float(order)))


@lowers(aten.linalg_vector_norm.default)
def _vector_norm(
    low: Lowering, x: Ref, order: Any = 2, dims: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Ref:
    return _norm_of(low, x, order, dims_of(x, dims), keepdim)


@lowers(aten.norm.Scalar, aten.norm.ScalarOpt_dim)
def _norm(low: Lowering, x: Ref, order: Any = 2, dims: Any = None, keepdim: bool = False) -> Ref:
    return _norm_of(low, x, 2 if order is None else order, dims_of(x, dims), keepdim)


# --- scans ------------------------------------------------------------------------------------------------------------
def _scanned(kind: str) -> Callable[..., Ref]:
    def row(low: Lowering, x: Ref, dim: int, *, dtype: Any = None) -> Ref:
        out = low.out.dtype
        if out == torch.bool:
            raise Unsupported("a sum that is a bool")
        if not x.dim:
            return low.define((), out, lambda: to(x[()], out))
        found = low.scan(kind, x.shape, wrap(dim, x.dim), lambda *at: to(to(x[at], out), computed_in(out)))
        return converted(low, found, out)

    return row


lowers(aten.cumsum.default)(_scanned("sum"))
lowers(aten.cumprod.default)(_scanned("prod"))
lowers(aten.logcumsumexp.default)(_scanned("logsumexp"))

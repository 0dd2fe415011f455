"""Elements that are put where other elements say, into a tensor or combined with what it has there.

The dimensions of what is put that name a dimension of the tensor each are done side by side; along the others several
elements may meet, and the last one of them counts, or all are added in the order of eager code.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from codegen.kernels import index as ix
from codegen.kernels import ir
from codegen.kernels.definitions import Shape
from codegen.kernels.index import Index
from codegen.kernels.ir import Expr
from codegen.kernels.lowering.context import (
    Element,
    Lowering,
    Ref,
    Unsupported,
    broadcast,
    fn,
    number,
    shape_of,
    to,
    where,
    wrap,
)
from codegen.kernels.lowering.gathers import looked_up, of_integers
from codegen.kernels.lowering.table import lowers
from codegen.kernels.lowering.views import moved

aten = torch.ops.aten

#: Fewer elements side by side are rounds like the others.
SIDE_BY_SIDE = 8
#: What eager code calls them, and the rows of `ops.PUTS`.
REDUCTIONS = {"sum": "sum", "prod": "prod", "amax": "max", "amin": "min"}


def _put(low: Lowering, kind: str, base: Ref, shape: Shape, apart: Sequence[int], element: Element) -> Ref:
    """`element(i0, i1, ...)`: a value and where it goes; `apart`: dims of `shape` that are one of the tensor's each."""
    if low.out.device.type != "cpu":
        raise Unsupported("elements put by several threads at once")
    if kind in ("sum", "prod") and base.dtype in (torch.float16, torch.bfloat16, torch.bool):
        raise Unsupported(f"a {kind} in {base.dtype}")
    if not base.dim:
        raise Unsupported("positions in a number")
    if any(size == 0 for size in shape):
        return low.define(base.shape, base.dtype, lambda *at: base[at])
    count = math.prod((shape[dim] for dim in apart), start=ix.index(1)).constant
    if count is not None and count < SIDE_BY_SIDE:
        apart = ()
    return low.put(kind, base, shape, apart, element)


@lowers(aten.index_put.default, aten._unsafe_index_put.default)
def _index_put(
    low: Lowering, x: Ref, positions: Sequence[Ref | None], values: Ref, accumulate: bool = False
) -> Ref:
    of_integers(*positions)
    if values.dtype != x.dtype:
        raise Unsupported("values of another dtype")
    named = [dim for dim, each in enumerate(positions) if each is not None]
    places = [each for each in positions if each is not None]
    depth = max(each.dim for each in places)
    first = named[0] if named[-1] - named[0] + 1 == len(named) else 0
    chosen = [_broadcast([each.shape[at - depth] for each in places if at - depth >= -each.dim]) for at in range(depth)]
    others = [size for dim, size in enumerate(x.shape) if dim not in named]
    shape = (*others[:first], *chosen, *others[first:])

    def element(*at: Index) -> tuple[Expr, Sequence[Index]]:
        those, rest = at[first : first + depth], iter((*at[:first], *at[first + depth :]))
        own = []
        for dim, size in enumerate(x.shape):
            each = positions[dim] if dim < len(positions) else None
            own.append(next(rest) if each is None else looked_up(broadcast(each, those), size, "wrap_index"))
        return broadcast(values, at), own

    apart = [dim for dim in range(len(shape)) if not first <= dim < first + depth]
    return _put(low, "sum" if accumulate else "last", x, shape, apart, element)


def _broadcast(sizes: Sequence[Index]) -> Index:
    return next((size for size in sizes if size != 1), sizes[0])


@lowers(aten.index_add.default)
def _index_add(low: Lowering, x: Ref, dim: int, positions: Ref, source: Ref, *, alpha: Any = 1) -> Ref:
    if alpha != 1:
        raise Unsupported("a multiple that is added in one rounding")
    return _along(low, "sum", x, dim, positions, source)


@lowers(aten.index_copy.default)
def _index_copy(low: Lowering, x: Ref, dim: int, positions: Ref, source: Ref) -> Ref:
    return _along(low, "last", x, dim, positions, source)


def _along(low: Lowering, kind: str, x: Ref, dim: int, positions: Ref, source: Ref) -> Ref:
    of_integers(positions)
    if not x.dim or source.dim != x.dim or source.dtype != x.dtype:
        raise Unsupported("a number that is put")
    dim = wrap(dim, x.dim)

    def element(*at: Index) -> tuple[Expr, Sequence[Index]]:
        place = looked_up(positions.at([at[dim]] if positions.dim else []), x.shape[dim])
        return source[at], moved(at, dim, place)

    return _put(low, kind, x, source.shape, [each for each in range(x.dim) if each != dim], element)


@lowers(aten.scatter.src)
def _scatter(low: Lowering, x: Ref, dim: int, positions: Ref, source: Ref) -> Ref:
    return _scattered(low, "last", x, dim, positions, source)


@lowers(aten.scatter.value)
def _scatter_value(low: Lowering, x: Ref, dim: int, positions: Ref, value: Any) -> Ref:
    return _scattered(low, "last", x, dim, positions, number(value, x.dtype))


@lowers(aten.scatter_add.default)
def _scatter_add(low: Lowering, x: Ref, dim: int, positions: Ref, source: Ref) -> Ref:
    return _scattered(low, "sum", x, dim, positions, source)


@lowers(aten.scatter_reduce.two)
def _scatter_reduce(
    low: Lowering, x: Ref, dim: int, positions: Ref, source: Ref, reduce: str, *, include_self: bool = True
) -> Ref:
    if reduce not in REDUCTIONS or not include_self:
        raise Unsupported(f"{reduce} of what is put, without what was there")
    return _scattered(low, REDUCTIONS[reduce], x, dim, positions, source)


def _scattered(low: Lowering, kind: str, x: Ref, dim: int, positions: Ref, source: Ref | Expr) -> Ref:
    of_integers(positions)
    if not x.dim or positions.dim != x.dim or source.dtype != x.dtype:
        raise Unsupported("a number that is put")
    dim = wrap(dim, x.dim)
    fill = low.fill_of(x)
    if kind == "last" and fill is not None and [*positions.shape] == moved(x.shape, dim, ix.index(1)):
        return _marked(low, x, dim, positions, source, fill)

    def element(*at: Index) -> tuple[Expr, Sequence[Index]]:
        value = source[at] if isinstance(source, Ref) else source
        return value, moved(at, dim, looked_up(positions[at], x.shape[dim]))

    return _put(low, kind, x, positions.shape, [each for each in range(x.dim) if each != dim], element)


def _marked(low: Lowering, x: Ref, dim: int, positions: Ref, source: Ref | Expr, fill: Expr) -> Ref:
    """One element of each line of what is filled, as with one_hot: each element looks whether it is the one, and no
    memory is filled first."""

    def element(*at: Index) -> Expr:
        line = moved(at, dim, ix.index(0))
        value = source[tuple(line)] if isinstance(source, Ref) else source
        place = looked_up(positions[tuple(line)], x.shape[dim])
        return where(fn("eq", ir.position(place), ir.position(at[dim])), value, fill)

    return low.define(x.shape, x.dtype, element)


@lowers(aten.embedding_dense_backward.default)
def _embedding_backward(
    low: Lowering, grad: Ref, positions: Ref, rows: Any, padding_idx: Any, scale_grad_by_freq: bool
) -> Ref:
    of_integers(positions)
    if scale_grad_by_freq or not isinstance(padding_idx, int):
        raise Unsupported("gradients in shares")
    shape = shape_of(low.out)
    base = low.define(shape, grad.dtype, lambda *at: ir.literal(0, grad.dtype), "zeros")

    def element(*at: Index) -> tuple[Expr, Sequence[Index]]:
        place, value = to(positions.at(at[:-1]), torch.int64), grad[at]
        if padding_idx >= 0:
            value = where(fn("eq", place, padding_idx), 0, value)
        return value, (looked_up(place, shape[0]), at[-1])

    return _put(low, "sum", base, grad.shape, [grad.dim - 1], element)

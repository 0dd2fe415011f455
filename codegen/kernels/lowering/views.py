"""Views: where an element of the result lies in the base. Nothing is computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from codegen.kernels import index as ix
from codegen.kernels.index import Index
from codegen.kernels.lowering.context import Lowering, Ref, shape_of, wrap
from codegen.kernels.lowering.table import lowers

aten = torch.ops.aten


def view(low: Lowering, base: Ref, at: Callable[[tuple[Index, ...]], Sequence[Index]]) -> Ref:
    """result[indices] = base[at(indices)]"""
    return low.define(shape_of(low.out), base.dtype, lambda *indices: base.at(at(indices)), is_view=True)


@lowers(aten.view.default, aten.reshape.default, aten._unsafe_view.default)
def _view(low: Lowering, base: Ref, shape: Any) -> Ref:
    new = shape_of(low.out)
    return view(low, base, lambda at: ix.indices_at(ix.linear_position(at, new), base.shape))


@lowers(aten.permute.default)
def _permute(low: Lowering, base: Ref, dims: Sequence[int]) -> Ref:
    order = [wrap(dim, base.dim) for dim in dims]
    return view(low, base, lambda at: [at[order.index(dim)] for dim in range(base.dim)])


@lowers(aten.t.default)
def _t(low: Lowering, base: Ref) -> Ref:
    return view(low, base, lambda at: at[::-1])


@lowers(aten.expand.default)
def _expand(low: Lowering, base: Ref, shape: Any, implicit: bool = False) -> Ref:
    def at(indices: tuple[Index, ...]) -> list[Index]:
        own = indices[len(indices) - base.dim :]
        return [ix.index(0) if size == 1 else i for size, i in zip(base.shape, own, strict=True)]

    return view(low, base, at)


@lowers(aten.slice.Tensor)
def _slice(low: Lowering, base: Ref, dim: int = 0, start: Any = None, end: Any = None, step: Any = 1) -> Ref:
    dim, size = wrap(dim, base.dim), base.shape[wrap(dim, base.dim)]
    first = ix.index(0 if start is None else start)
    if not ix.is_nonnegative(first):
        first = first + size if ix.is_nonnegative(-first - 1) else first
    first = ix.extremum("max", ix.extremum("min", first, size), ix.index(0))
    return view(low, base, lambda at: [*at[:dim], at[dim] * step + first, *at[dim + 1 :]])

"""Elements that other elements name the positions of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from codegen.kernels import index as ix
from codegen.kernels import ir
from codegen.kernels.index import Index
from codegen.kernels.ir import Expr
from codegen.kernels.lowering.context import Lowering, Ref, Unsupported, broadcast, shape_of, to, wrap
from codegen.kernels.lowering.table import lowers
from codegen.kernels.lowering.views import moved

aten = torch.ops.aten


def looked_up(position: Expr, size: Index, check: str = "check_index") -> Index:
    """An integer of the kernel as an index: `check` is what the IR does with those outside of 0..size-1."""
    value = ir.op(check, torch.int64, to(position, torch.int64), ir.position(size))
    return ix.index(ix.Value(value, size))


def of_integers(*positions: Ref | None) -> None:
    for each in positions:
        if each is not None and each.dtype not in (torch.int32, torch.int64):
            raise Unsupported(f"positions of {each.dtype}")


@lowers(aten.index.Tensor, aten._unsafe_index.Tensor)
def _index(low: Lowering, x: Ref, positions: Sequence[Ref | None]) -> Ref:
    of_integers(*positions)
    named = [dim for dim, each in enumerate(positions) if each is not None]
    depth = max(positions[dim].dim for dim in named)  # type: ignore[union-attr]
    # what the positions are broadcast to stands where they stand if that is one place, else in front
    first = named[0] if named[-1] - named[0] + 1 == len(named) else 0

    def element(*at: Index) -> Expr:
        chosen, others = at[first : first + depth], iter((*at[:first], *at[first + depth :]))
        own = []
        for dim, size in enumerate(x.shape):
            each = positions[dim] if dim < len(positions) else None
            own.append(next(others) if each is None else looked_up(broadcast(each, chosen), size, "wrap_index"))
        return x.at(own)

    return low.define(shape_of(low.out), x.dtype, element)


@lowers(aten.index_select.default)
def _index_select(low: Lowering, x: Ref, dim: int, positions: Ref) -> Ref:
    of_integers(positions)
    if not x.dim:
        raise Unsupported("positions in a number")
    dim = wrap(dim, x.dim)

    def element(*at: Index) -> Expr:
        return x.at(moved(at, dim, looked_up(positions.at([at[dim]] if positions.dim else []), x.shape[dim])))

    return low.define(shape_of(low.out), x.dtype, element)


@lowers(aten.gather.default)
def _gather(low: Lowering, x: Ref, dim: int, positions: Ref, *, sparse_grad: bool = False) -> Ref:
    of_integers(positions)
    if not x.dim or not positions.dim:
        raise Unsupported("positions in a number, or one position")
    dim = wrap(dim, x.dim)

    def element(*at: Index) -> Expr:
        return x.at(moved(at, dim, looked_up(positions[at], x.shape[dim])))

    return low.define(shape_of(low.out), x.dtype, element)


@lowers(aten.take.default)
def _take(low: Lowering, x: Ref, positions: Ref) -> Ref:
    of_integers(positions)
    count = ix.index(1)
    for size in x.shape:
        count = count * size

    def element(*at: Index) -> Expr:
        return x.at(ix.indices_at(looked_up(positions[at], count, "wrap_index"), x.shape))

    return low.define(shape_of(low.out), x.dtype, element)


@lowers(aten.embedding.default)
def _embedding(
    low: Lowering, weight: Ref, positions: Ref, padding_idx: Any = -1, scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Ref:
    of_integers(positions)

    def element(*at: Index) -> Expr:
        return weight.at([looked_up(positions.at(at[: positions.dim]), weight.shape[0]), *at[positions.dim :]])

    return low.define(shape_of(low.out), weight.dtype, element)

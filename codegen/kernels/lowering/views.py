"""Views: where an element of the result lies in the base. Nothing is computed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from codegen.kernels import index as ix
from codegen.kernels import ir
from codegen.kernels.definitions import dense_order
from codegen.kernels.index import Index
from codegen.kernels.lowering.context import Lowering, Ref, Unsupported, shape_of, strides_of, wrap
from codegen.kernels.lowering.table import lowers

aten = torch.ops.aten
Where = Callable[[tuple[Index, ...]], Sequence[Index]]


def view(low: Lowering, base: Ref, at: Where, fake: torch.Tensor | None = None) -> Ref:
    """result[indices] = base[at(indices)]; `fake` stands for the result, if it is not the only one."""
    shape = shape_of(low.out if fake is None else fake)
    return low.define(shape, base.dtype, lambda *indices: base.at(at(indices)), is_view=True)


def moved(at: Sequence[Index], dim: int, index: Index) -> list[Index]:
    """The same indices with another one at `dim`."""
    return [*at[:dim], index, *at[dim + 1 :]]


def position_in(size: Index, position: Any) -> Index:
    """A position, where negative ones count from the end; outside of 0..size: the nearest end."""
    at = ix.index(position)
    if not ix.is_nonnegative(at):
        if not ix.is_nonnegative(-at - 1):
            raise Unsupported(f"a position {at} that may be negative or not")
        at = at + size
    return ix.extremum("max", ix.extremum("min", at, size), ix.index(0))


@lowers(aten.view.default, aten.reshape.default, aten._unsafe_view.default, aten._reshape_alias.default)
def _view(low: Lowering, base: Ref, shape: Any, strides: Any = None) -> Ref:
    new = shape_of(low.out)
    if any(size == 0 for size in base.shape):
        return view(low, base, lambda at: [ix.index(0)] * base.dim)
    return view(low, base, lambda at: ix.indices_at(ix.linear_position(at, new), base.shape))


@lowers(aten.alias.default, aten.detach.default, aten.lift_fresh.default)
def _alias(low: Lowering, base: Ref) -> Ref:
    return view(low, base, lambda at: at)


@lowers(aten.view.dtype)
def _view_dtype(low: Lowering, base: Ref, dtype: torch.dtype) -> Ref:
    if torch.bool in (dtype, base.dtype) or dtype.itemsize != base.dtype.itemsize:
        raise Unsupported(f"{base.dtype} viewed as {dtype}")
    return low.define(base.shape, dtype, lambda *at: ir.op("bits", dtype, base[at]))


@lowers(aten.permute.default)
def _permute(low: Lowering, base: Ref, dims: Sequence[int]) -> Ref:
    order = [wrap(dim, base.dim) for dim in dims]
    return view(low, base, lambda at: [at[order.index(dim)] for dim in range(base.dim)])


@lowers(aten.transpose.int)
def _transpose(low: Lowering, base: Ref, a: int, b: int) -> Ref:
    order = list(range(base.dim))
    if order:
        a, b = wrap(a, base.dim), wrap(b, base.dim)
        order[a], order[b] = b, a
    return view(low, base, lambda at: [at[dim] for dim in order])


@lowers(aten.t.default)
def _t(low: Lowering, base: Ref) -> Ref:
    return view(low, base, lambda at: at[::-1])


@lowers(aten.expand.default)
def _expand(low: Lowering, base: Ref, shape: Any, implicit: bool = False) -> Ref:
    def at(indices: tuple[Index, ...]) -> list[Index]:
        own = indices[len(indices) - base.dim :]
        return [ix.index(0) if size == 1 else i for size, i in zip(base.shape, own, strict=True)]

    return view(low, base, at)


# --- dims that come and go --------------------------------------------------------------------------------------------
def _without(low: Lowering, base: Ref, dims: Sequence[int]) -> Ref:
    """Without these of the dims of size 1."""
    gone = {dim for dim in range(base.dim) if dim in dims and base.shape[dim] == 1}

    def at(indices: tuple[Index, ...]) -> list[Index]:
        own = iter(indices)
        return [ix.index(0) if dim in gone else next(own) for dim in range(base.dim)]

    return view(low, base, at)


@lowers(aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims)
def _squeeze(low: Lowering, base: Ref, dims: Any = None) -> Ref:
    named = range(base.dim) if dims is None else [dims] if isinstance(dims, int) else dims
    return _without(low, base, [wrap(dim, base.dim) for dim in named])


@lowers(aten.unsqueeze.default)
def _unsqueeze(low: Lowering, base: Ref, dim: int) -> Ref:
    new = wrap(dim, base.dim + 1)
    return view(low, base, lambda at: [*at[:new], *at[new + 1 :]])


# --- parts ------------------------------------------------------------------------------------------------------------
@lowers(aten.slice.Tensor)
def _slice(low: Lowering, base: Ref, dim: int = 0, start: Any = None, end: Any = None, step: Any = 1) -> Ref:
    dim = wrap(dim, base.dim)
    first = position_in(base.shape[dim], 0 if start is None else start)
    return view(low, base, lambda at: moved(at, dim, at[dim] * step + first))


@lowers(aten.select.int)
def _select(low: Lowering, base: Ref, dim: int, index: Any) -> Ref:
    dim = wrap(dim, base.dim)
    at_dim = position_in(base.shape[dim], index)
    return view(low, base, lambda at: [*at[:dim], at_dim, *at[dim:]])


@lowers(aten.unbind.int)
def _unbind(low: Lowering, base: Ref, dim: int = 0) -> list[Ref]:
    dim = wrap(dim, base.dim)

    def part(index: int, fake: torch.Tensor) -> Ref:
        return view(low, base, lambda at: [*at[:dim], ix.index(index), *at[dim:]], fake)

    return [part(index, fake) for index, fake in enumerate(low.out)]


@lowers(
    aten.split.Tensor, aten.split_with_sizes.default, aten.unsafe_split.Tensor, aten.unsafe_split_with_sizes.default
)
def _split(low: Lowering, base: Ref, sizes: Any, dim: int = 0) -> list[Ref]:
    dim, parts, start = wrap(dim, base.dim), [], ix.index(0)
    for fake in low.out:

        def at(indices: tuple[Index, ...], start: Index = start) -> list[Index]:
            return moved(indices, dim, indices[dim] + start)

        parts.append(view(low, base, at, fake))
        start = start + parts[-1].shape[dim]
    return parts


@lowers(aten.diagonal.default)
def _diagonal(low: Lowering, base: Ref, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Ref:
    row, column = wrap(dim1, base.dim), wrap(dim2, base.dim)

    def at(indices: tuple[Index, ...]) -> list[Index]:
        *others, along = indices
        own = iter(others)
        known = {row: along + max(-offset, 0), column: along + max(offset, 0)}
        return [known[dim] if dim in known else next(own) for dim in range(base.dim)]

    return view(low, base, at)


@lowers(aten.unfold.default)
def _unfold(low: Lowering, base: Ref, dim: int, size: Any, step: Any) -> Ref:
    if not base.dim:
        raise Unsupported("windows of a number")
    dim = wrap(dim, base.dim)
    return view(low, base, lambda at: moved(at[:-1], dim, at[dim] * step + at[-1]))


@lowers(aten.as_strided.default)
def _as_strided(low: Lowering, base: Ref, shape: Any, strides: Sequence[Any], start: Any = None) -> Ref:
    memory = Memory(base, low.fake(0))
    new = shape_of(low.out)
    places = [memory.place(at, strides, start) for at in ([ix.index(0)] * len(new), [size - 1 for size in new])]
    if not all(ix.is_within(place, memory.size) for place in places):
        raise Unsupported("a geometry that reaches beyond its base")
    return view(low, base, lambda at: memory.indices(memory.place(at, strides, start)))


class Memory:
    """The memory of a tensor without gaps: its elements by place, whatever the order of its dims."""

    def __init__(self, ref: Ref, fake: torch.Tensor) -> None:
        """Raises Unsupported for tensors with gaps or overlaps."""
        self.start = ix.of_size(fake.storage_offset())
        order = dense_order(ref.shape, strides_of(fake))
        if order is None:
            raise Unsupported("another geometry of a tensor with gaps")
        self.order = order
        self.sizes = tuple(ref.shape[dim] for dim in self.order)
        self.size = math.prod(self.sizes, start=ix.index(1))

    def place(self, at: Sequence[Index], strides: Sequence[Any], start: Any = None) -> Index:
        """Where an element of another geometry lies: `start` counts from the storage's first element."""
        first = ix.index(0) if start is None else ix.index(start) - self.start
        return sum((i * step for i, step in zip(at, strides, strict=True)), first)

    def indices(self, place: Index) -> list[Index]:
        found = dict(zip(self.order, ix.indices_at(place, self.sizes), strict=True))
        return [found[dim] for dim in range(len(self.order))]

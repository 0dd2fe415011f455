"""Copies that put elements elsewhere: flips, pads, joins, and parts written into a whole."""

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
    number,
    shape_of,
    strides_of,
    to,
    where,
    wrap,
)
from codegen.kernels.lowering.reductions import converted
from codegen.kernels.lowering.table import lowers
from codegen.kernels.lowering.views import Memory, moved, position_in

aten = torch.ops.aten
MOST_JOINED = 8  # each element of a join asks for each part whether it lies there


def placed(low: Lowering, base: Ref, at: Callable[[tuple[Index, ...]], Sequence[Index]]) -> Ref:
    """result[indices] = base[at(indices)], in memory of its own."""
    return low.define(shape_of(low.out), base.dtype, lambda *indices: base.at(at(indices)))


def is_within(at: Index, start: Any, end: Any) -> Expr:
    """start <= at < end, without what is known to be so."""
    start, end, true = ix.index(start), ix.index(end), ir.literal(True, torch.bool)
    above = true if ix.is_nonnegative(at - start) else ir.position(at) >= ir.position(start)
    below = true if ix.is_nonnegative(end - 1 - at) else ir.position(at) < ir.position(end)
    return below if above is true else above if below is true else above & below


@lowers(aten.flip.default)
def _flip(low: Lowering, base: Ref, dims: Sequence[int]) -> Ref:
    turned = {wrap(dim, base.dim) for dim in dims}
    return placed(
        low, base, lambda at: [base.shape[dim] - 1 - i if dim in turned else i for dim, i in enumerate(at)]
    )


@lowers(aten.roll.default)
def _roll(low: Lowering, base: Ref, shifts: Sequence[Any], dims: Sequence[int] = ()) -> Ref:
    def at(indices: tuple[Index, ...]) -> Sequence[Index]:
        if any(size == 0 for size in base.shape):
            return indices
        if not dims:
            flat = (ix.linear_position(indices, base.shape) - shifts[0]) % math.prod(base.shape, start=ix.index(1))
            return ix.indices_at(flat, base.shape)
        found = list(indices)
        for shift, dim in zip(shifts, dims, strict=True):
            dim = wrap(dim, base.dim)
            found[dim] = (found[dim] - shift) % base.shape[dim]
        return found

    return placed(low, base, at)


@lowers(aten.repeat.default)
def _repeat(low: Lowering, base: Ref, repeats: Sequence[Any]) -> Ref:
    new = len(repeats) - base.dim

    def at(indices: tuple[Index, ...]) -> list[Index]:
        own = zip(indices[new:], base.shape, strict=True)
        return [ix.index(0) if size in (0, 1) else i % size for i, size in own]

    return placed(low, base, at)


def _triangle(below: bool) -> Callable[..., Ref]:
    def row(low: Lowering, x: Ref, diagonal: Any = 0) -> Ref:
        def element(*at: Index) -> Expr:
            distance, bound = ir.position(at[-1] - at[-2]), ir.position(ix.index(diagonal))
            return where(distance <= bound if below else distance >= bound, x[at], number(0, x.dtype))

        return low.define(x.shape, x.dtype, element)

    return row


lowers(aten.tril.default)(_triangle(True))
lowers(aten.triu.default)(_triangle(False))


@lowers(aten.constant_pad_nd.default)
def _pad(low: Lowering, x: Ref, pad: Sequence[Any], value: Any = 0) -> Ref:
    before = {x.dim - 1 - pair: pad[2 * pair] for pair in range(len(pad) // 2)}

    def element(*at: Index) -> Expr:
        own = [i - before.get(dim, 0) for dim, i in enumerate(at)]
        inside = _all([is_within(i, 0, size) for i, size in zip(own, x.shape, strict=True)])
        return where(inside, x.at(own, inside), number(value, x.dtype))

    return low.define(shape_of(low.out), x.dtype, element)


def _all(conditions: Sequence[Expr]) -> Expr:
    true = ir.literal(True, torch.bool)
    found: Expr = true
    for condition in conditions:
        if condition is not true:
            found = condition if found is true else found & condition
    return found


@lowers(aten.cat.default)
def _cat(low: Lowering, parts: Sequence[Ref], dim: int = 0) -> Ref:
    shape = shape_of(low.out)
    parts = [part for part in parts if part.dim == len(shape)]  # flat empty ones are left out
    dim = wrap(dim, len(shape))
    if not 0 < len(parts) <= MOST_JOINED:
        raise Unsupported("many tensors joined")
    starts = [ix.index(0)]
    for part in parts[:-1]:
        starts.append(starts[-1] + part.shape[dim])

    def element(*at: Index) -> Expr:
        found: Expr = ir.literal(0, low.out.dtype)
        for part, start in zip(reversed(parts), reversed(starts), strict=True):
            inside = is_within(at[dim], start, start + part.shape[dim])
            mine = to(part.at(moved(at, dim, at[dim] - start), inside), low.out.dtype)
            found = where(inside, mine, found)
        return found

    return low.define(shape, low.out.dtype, element)


@lowers(aten.stack.default)
def _stack(low: Lowering, parts: Sequence[Ref], dim: int = 0) -> Ref:
    shape = shape_of(low.out)
    dim = wrap(dim, len(shape))
    if len(parts) > MOST_JOINED:
        raise Unsupported("many tensors joined")

    def element(*at: Index) -> Expr:
        found: Expr = ir.literal(0, low.out.dtype)
        for number_of, part in reversed(list(enumerate(parts))):
            mine = fn("eq", ir.position(at[dim]), number_of)
            found = where(mine, to(part.at([*at[:dim], *at[dim + 1 :]], mine), low.out.dtype), found)
        return found

    return low.define(shape, low.out.dtype, element)


# --- parts written into a whole ---------------------------------------------------------------------------------------
@lowers(aten.select_scatter.default)
def _select_scatter(low: Lowering, x: Ref, part: Ref, dim: int, index: Any) -> Ref:
    dim = wrap(dim, x.dim)
    there = ir.position(position_in(x.shape[dim], index))

    def element(*at: Index) -> Expr:
        inside = fn("eq", ir.position(at[dim]), there)
        return where(inside, to(part.at([*at[:dim], *at[dim + 1 :]], inside), x.dtype), x[at])

    return low.define(x.shape, x.dtype, element)


@lowers(aten.slice_scatter.default)
def _slice_scatter(
    low: Lowering, x: Ref, part: Ref, dim: int = 0, start: Any = None, end: Any = None, step: Any = 1
) -> Ref:
    dim = wrap(dim, x.dim)
    first = position_in(x.shape[dim], 0 if start is None else start)
    return low.define(x.shape, x.dtype, lambda *at: _sliced(part, at, dim, first, step, x[at]))


def _sliced(part: Ref, at: Sequence[Index], dim: int, first: Index, step: Any, other: Expr) -> Expr:
    """The element of `part` that lies at first, first + step, ... of `dim`, or the other one."""
    own = at[dim] - first
    inside = is_within(at[dim], first, first + part.shape[dim] * step)
    if step != 1:
        inside = inside & fn("eq", ir.position(own % step), 0)
    return where(inside, to(part.at(moved(at, dim, own // step), inside), other.dtype), other)


@lowers(aten.diagonal_scatter.default)
def _diagonal_scatter(low: Lowering, x: Ref, part: Ref, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Ref:
    row, column = wrap(dim1, x.dim), wrap(dim2, x.dim)
    return low.define(x.shape, x.dtype, lambda *at: _on_diagonal(part, at, offset, row, column, x[at]))


def _on_diagonal(part: Ref, at: Sequence[Index], offset: int, row: int, column: int, other: Expr) -> Expr:
    inside = fn("eq", ir.position(at[column] - at[row]), offset)
    along = at[row] - max(-offset, 0)
    own = [*(i for dim, i in enumerate(at) if dim not in (row, column)), along]
    return where(inside, to(part.at(own, inside), other.dtype), other)


@lowers(aten.slice_backward.default)
def _slice_backward(
    low: Lowering, grad: Ref, sizes: Any, dim: int, start: Any, end: Any, step: Any
) -> Ref:
    shape = shape_of(low.out)
    dim = wrap(dim, len(shape))
    first, zero = position_in(shape[dim], start), ir.literal(0, grad.dtype)
    return low.define(shape, grad.dtype, lambda *at: _sliced(grad, at, dim, first, step, zero))


@lowers(aten.select_backward.default)
def _select_backward(low: Lowering, grad: Ref, sizes: Any, dim: int, index: Any) -> Ref:
    shape = shape_of(low.out)
    dim = wrap(dim, len(shape))
    there, zero = ir.position(position_in(shape[dim], index)), ir.literal(0, grad.dtype)

    def element(*at: Index) -> Expr:
        inside = fn("eq", ir.position(at[dim]), there)
        return where(inside, grad.at([*at[:dim], *at[dim + 1 :]], inside), zero)

    return low.define(shape, grad.dtype, element)


@lowers(aten.diagonal_backward.default)
def _diagonal_backward(low: Lowering, grad: Ref, sizes: Any, offset: int, dim1: int, dim2: int) -> Ref:
    shape = shape_of(low.out)
    row, column, zero = wrap(dim1, len(shape)), wrap(dim2, len(shape)), ir.literal(0, grad.dtype)
    return low.define(shape, grad.dtype, lambda *at: _on_diagonal(grad, at, offset, row, column, zero))


@lowers(aten.as_strided_scatter.default)
def _as_strided_scatter(
    low: Lowering, x: Ref, part: Ref, shape: Sequence[Any], strides: Sequence[Any], start: Any = None
) -> Ref:
    """Where each stride is beyond all that the smaller ones reach, an element has one place in the part at most."""
    fake = low.fake(0)
    if start is None and (tuple(map(ix.index, shape)), tuple(map(ix.index, strides))) == (x.shape, strides_of(fake)):
        return low.define(x.shape, x.dtype, lambda *at: to(part[at], x.dtype))
    memory = Memory(x, fake)
    if not all(isinstance(each, int) for each in (*shape, *strides, start or 0)):
        raise Unsupported("a geometry that varies")
    dims = sorted((dim for dim, size in enumerate(shape) if size != 1), key=lambda dim: strides[dim])
    reach = 0
    for dim in dims:
        if strides[dim] <= reach:
            raise Unsupported("a geometry that names elements twice")
        reach += (shape[dim] - 1) * strides[dim]
    first = memory.place([ix.index(0)] * len(shape), strides, start)

    def element(*at: Index) -> Expr:
        rest = ix.linear_position(tuple(at[dim] for dim in memory.order), memory.sizes) - first
        conditions, own = [is_within(rest, 0, reach + 1)], [ix.index(0)] * len(shape)
        for dim in reversed(dims):
            own[dim] = rest // strides[dim]
            conditions.append(is_within(own[dim], 0, shape[dim]))
            rest = rest % strides[dim]
        inside = _all([*conditions, is_within(rest, 0, 1)])
        return where(inside, to(part.at(own, inside), x.dtype), x[at])

    return low.define(x.shape, x.dtype, element)


# --- pads that repeat what there is -----------------------------------------------------------------------------------
def _padded(nearest: Callable[[Index, Index], Index]) -> Callable[..., Ref]:
    """`nearest(index, size)`: of which element one outside is a copy."""

    def row(low: Lowering, x: Ref, pad: Sequence[Any]) -> Ref:
        before = {x.dim - 1 - pair: pad[2 * pair] for pair in range(len(pad) // 2)}

        def at(indices: tuple[Index, ...]) -> list[Index]:
            return [
                nearest(i - before[dim], x.shape[dim]) if dim in before else i for dim, i in enumerate(indices)
            ]

        return placed(low, x, at)

    return row


def _clamped(i: Index, size: Index) -> Index:
    return ix.extremum("min", ix.extremum("max", i, ix.index(0)), size - 1)


def _reflected(i: Index, size: Index) -> Index:
    distance = ix.extremum("max", i, -i)
    return ix.extremum("min", distance, (size - 1) * 2 - distance)


for _dims in ("1d", "2d", "3d"):
    lowers(getattr(aten, f"replication_pad{_dims}").default)(_padded(_clamped))
    lowers(getattr(aten, f"reflection_pad{_dims}").default)(_padded(_reflected))


# --- pixels and channels ----------------------------------------------------------------------------------------------
@lowers(aten.pixel_shuffle.default)
def _pixel_shuffle(low: Lowering, x: Ref, factor: int) -> Ref:
    def at(indices: tuple[Index, ...]) -> list[Index]:
        *outer, channel, row, column = indices
        return [*outer, (channel * factor + row % factor) * factor + column % factor, row // factor, column // factor]

    return placed(low, x, at)


@lowers(aten.pixel_unshuffle.default)
def _pixel_unshuffle(low: Lowering, x: Ref, factor: int) -> Ref:
    def at(indices: tuple[Index, ...]) -> list[Index]:
        *outer, channel, row, column = indices
        down, right = channel // factor % factor, channel % factor
        return [*outer, channel // (factor * factor), row * factor + down, column * factor + right]

    return placed(low, x, at)


@lowers(aten.upsample_nearest1d.default, aten.upsample_nearest2d.default, aten.upsample_nearest3d.default)
def _upsample_nearest(low: Lowering, x: Ref, sizes: Sequence[Any], *scales: Any) -> Ref:
    """By whole factors: each element stands as often."""
    factors = _factors(shape_of(low.out), x.shape, scales)
    return placed(low, x, lambda at: [*at[:2], *(i // f for i, f in zip(at[2:], factors, strict=True))])


@lowers(
    aten.upsample_nearest1d_backward.default, aten.upsample_nearest2d_backward.default,
    aten.upsample_nearest3d_backward.default,
)  # fmt: skip
def _upsample_nearest_backward(low: Lowering, grad: Ref, sizes: Any, input_sizes: Any, *scales: Any) -> Ref:
    shape, wide = shape_of(low.out), computed_in(grad.dtype)
    factors = _factors(grad.shape, shape, scales)
    count = len(factors)

    def share(*at: Index) -> Expr:
        places = zip(at[2 : 2 + count], at[2 + count :], factors, strict=True)
        return to(grad.at([*at[:2], *(i * f + r for i, r, f in places)]), wide)

    over = range(2 + count, 2 + 2 * count)
    return converted(low, low.reduce("sum", (*shape, *factors), over, share, hint="sum"), grad.dtype)


def _factors(large: Sequence[Index], small: Sequence[Index], scales: Sequence[Any]) -> list[Index]:
    factors = []
    for dim in range(2, len(small)):
        scale = scales[dim - 2] if scales else None
        factor = large[dim] // small[dim] if small[dim] != 0 else ix.index(0)
        if factor.constant in (None, 0) or large[dim] != small[dim] * factor or scale not in (None, factor.constant):
            raise Unsupported("factors that are not whole, or vary")
        factors.append(factor)
    return factors


@lowers(aten.diag_embed.default)
def _diag_embed(low: Lowering, x: Ref, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Ref:
    row, column, zero = wrap(dim1, x.dim + 1), wrap(dim2, x.dim + 1), ir.literal(0, x.dtype)
    return low.define(shape_of(low.out), x.dtype, lambda *at: _on_diagonal(x, at, offset, row, column, zero))

"""Fewer and plainer axes: what a kernel means is the same, and so is the row-major position of each of its elements.

Axes of size 1 go; an axis that indices divide (`k // 16`, `k % 16`) becomes two; neighbours that all indices go through
in one stride become one; loops of equal sizes share their axes, so that what two of them compute is one expression.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import torch

from codegen.kernels import index as ix
from codegen.kernels.index import Index, Symbol
from codegen.kernels.ir import Kernel, Loop, Reduce, Statement, Store, indices_in, load, reads, rewrite, walk

#: An innermost axis is not divided into pieces shorter than this: they would be too few to fill a vector.
SHORTEST_PIECE = 8


def simplify(kernel: Kernel) -> Kernel:
    """A kernel that does the same."""
    kernel = _shared(_without_ones(kernel))
    kernel = _split_all(kernel)
    kernel = _merged(kernel)
    return replace(kernel, loops=tuple(_merged_loop(loop) for loop in kernel.loops))


def indices(statements: Iterable[Statement]) -> Iterator[Index]:
    """Every index expression in them."""
    for statement in statements:
        if isinstance(statement, Store):
            yield statement.index
            if statement.since is not None:
                yield statement.since
        for expr in walk(*reads(statement)):
            at = indices_in(expr)
            if at is not None:
                yield at


def statements_of(kernel: Kernel) -> list[Statement]:
    return [statement for loop in kernel.loops for statement in loop.body]


# --- other axes -------------------------------------------------------------------------------------------------------
def _renamed(statement: Statement, known: Mapping[Symbol, Index]) -> Statement:
    if isinstance(statement, Reduce):
        return replace(statement, value=rewrite(statement.value, lambda _: None, known))
    # a load of the same index is rewritten, with the values that are part of it
    at = rewrite(load(statement.buffer, statement.index, torch.int8), lambda _: None, known)
    where = indices_in(at)
    assert where is not None
    since = None if statement.since is None else ix.substitute(statement.since, known)
    return Store(statement.buffer, where, rewrite(statement.value, lambda _: None, known), since, statement.into)


def shifted(statement: Statement, axis: Symbol, by: int) -> Statement:
    """What it does in a round that comes `by` later."""
    return _renamed(statement, {axis: ix.index(axis) + by}) if by else statement


def _with_loop_axes(loop: Loop, axes: tuple[Symbol, ...], known: Mapping[Symbol, Index]) -> Loop:
    return Loop(axes, tuple(_renamed(statement, known) for statement in loop.body))


def _with_axes(kernel: Kernel, axes: tuple[Symbol, ...], known: Mapping[Symbol, Index]) -> Kernel:
    return replace(kernel, axes=axes, loops=tuple(_with_loop_axes(loop, loop.axes, known) for loop in kernel.loops))


def _without_ones(kernel: Kernel) -> Kernel:
    def others(axes: Sequence[Symbol]) -> tuple[Symbol, ...]:
        return tuple(axis for axis in axes if axis.size != 1)

    known = {axis: ix.index(0) for axis in kernel.axes if axis.size == 1}
    if known:
        kernel = _with_axes(kernel, others(kernel.axes), known)
    loops = []
    for loop in kernel.loops:
        known = {axis: ix.index(0) for axis in loop.axes if axis.size == 1}
        loops.append(_with_loop_axes(loop, others(loop.axes), known) if known else loop)
    return replace(kernel, loops=tuple(loops))


def _shared(kernel: Kernel) -> Kernel:
    first: dict[tuple[Index | None, ...], tuple[Symbol, ...]] = {}
    loops = []
    for loop in kernel.loops:
        axes = first.setdefault(tuple(axis.size for axis in loop.axes), loop.axes)
        known = {old: ix.index(new) for old, new in zip(loop.axes, axes, strict=True) if old != new}
        loops.append(_with_loop_axes(loop, axes, known) if known else loop)
    return replace(kernel, loops=tuple(loops))


# --- one axis into two ------------------------------------------------------------------------------------------------
def _split_all(kernel: Kernel) -> Kernel:
    while (found := _divided(kernel.axes, statements_of(kernel), kernel)) is not None:
        axis, pieces, value = found
        kernel = _with_axes(kernel, _put(kernel.axes, axis, pieces), {axis: value})
    loops = []
    for loop in kernel.loops:
        while (found := _divided(loop.axes, loop.body, kernel)) is not None:
            axis, pieces, value = found
            loop = _with_loop_axes(loop, _put(loop.axes, axis, pieces), {axis: value})
        loops.append(loop)
    return replace(kernel, loops=tuple(loops))


def _put(axes: tuple[Symbol, ...], old: Symbol, new: tuple[Symbol, ...]) -> tuple[Symbol, ...]:
    at = axes.index(old)
    return (*axes[:at], *new, *axes[at + 1 :])


def _divided(
    axes: tuple[Symbol, ...], statements: Iterable[Statement], kernel: Kernel
) -> tuple[Symbol, tuple[Symbol, Symbol], Index] | None:
    """An axis that is divided into whole pieces, the two in its place, and its value in them."""
    divided = [
        (atom.dividend, atom.divisor)
        for at in indices(statements)
        for atom in ix.atoms(at)
        if isinstance(atom, ix.Quotient | ix.Remainder)
    ]
    for axis in axes:
        for dividend, divisor in divided:
            short = axis is axes[-1] and divisor.constant is not None and divisor.constant < SHORTEST_PIECE
            if dividend != ix.index(axis) or short or axis.size is None or ix.remainder(axis.size, divisor) != 0:
                continue
            if divisor == axis.size or any(symbol.size is not None for symbol in ix.symbols(divisor)):
                continue
            names = _names(kernel)
            high = Symbol(_fresh(axis.name + "h", names), ix.floor_divide(axis.size, divisor))
            low = Symbol(_fresh(axis.name + "l", names), divisor)
            return axis, (high, low), ix.index(high) * divisor + ix.index(low)
    return None


def _names(kernel: Kernel) -> set[str]:
    loops = {axis.name for loop in kernel.loops for axis in loop.axes}
    numbers = {scalar.name for scalar in kernel.scalars} | {buffer.name for buffer in kernel.buffers}
    return loops | numbers | {symbol.name for symbol in (*kernel.sizes, *kernel.axes)}


def _fresh(name: str, names: set[str]) -> str:
    while name in names:
        name += "_"
    return name


# --- two axes into one ------------------------------------------------------------------------------------------------
def _merged(kernel: Kernel) -> Kernel:
    while (found := _mergeable(kernel.axes, list(indices(statements_of(kernel))))) is not None:
        axes, known = found
        kernel = _with_axes(kernel, axes, known)
    return kernel


def _merged_loop(loop: Loop) -> Loop:
    while (found := _mergeable(loop.axes, list(indices(loop.body)))) is not None:
        axes, known = found
        loop = _with_loop_axes(loop, axes, known)
    return loop


def _mergeable(axes: tuple[Symbol, ...], found: list[Index]) -> tuple[tuple[Symbol, ...], dict[Symbol, Index]] | None:
    """The axes with two neighbours as one, and what takes the place of the two."""
    for outer, inner in zip(axes, axes[1:], strict=False):
        assert outer.size is not None and inner.size is not None
        if all(_is_one_stride(at, outer, inner) for at in found):
            both = Symbol(outer.name + inner.name, outer.size * inner.size)
            if both.name not in {symbol.name for at in found for symbol in ix.symbols(at)}:
                at = axes.index(outer)
                return (*axes[:at], both, *axes[at + 2 :]), {outer: ix.index(0), inner: ix.index(both)}
    return None


def _is_one_stride(at: Index, outer: Symbol, inner: Symbol) -> bool:
    far, near = ix.stride_of(at, outer), ix.stride_of(at, inner)
    assert inner.size is not None
    return far is not None and near is not None and far == near * inner.size

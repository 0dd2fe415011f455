"""How views of other sizes lie where sizes vary: what `Tensor.view` finds by comparing numbers, found by comparing
expressions, so that nothing is asked of the sizes and the answer holds for all of them."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Sequence
from typing import Any

import sympy
import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

from symbolic.shapes import expression

Lies = tuple[tuple[Any, ...], tuple[Any, ...]]
#: The same, and how many elements before the first one are left out.
Part = tuple[tuple[Any, ...], tuple[Any, ...], Any]


def same(sizes: Sequence[Any], strides: Sequence[Any]) -> Lies:
    return tuple(sizes), tuple(strides)


def is_by_rows(sizes: Sequence[Any], strides: Sequence[Any]) -> bool:
    """Whether expressions say that elements lie side by side, those of the last dimension next to each other."""
    steps = itertools.accumulate(reversed(sizes[1:]), lambda a, b: a * b, initial=1)
    both = zip(reversed(sizes), reversed(strides), steps, strict=True) if sizes else ()
    return all(_is(size, 1) or _is(stride, step) for size, stride, step in both)


def permute(sizes: Sequence[Any], strides: Sequence[Any], dims: Sequence[int]) -> Lies | None:
    """Sizes and strides of the same in another order of dimensions. None where that is none."""
    if len(dims) != len(sizes) or any(not -len(sizes) <= dim < len(sizes) for dim in dims):
        return None
    places = [dim % len(sizes) for dim in dims]
    if len(set(places)) < len(places):
        return None
    return tuple(sizes[at] for at in places), tuple(strides[at] for at in places)


def transpose(sizes: Sequence[Any], strides: Sequence[Any], one: int, other: int) -> Lies | None:
    dims = list(range(len(sizes)))
    if not all(-len(dims) <= dim < len(dims) for dim in (one, other)):
        return None
    dims[one], dims[other] = dims[other], dims[one]
    return permute(sizes, strides, dims)


def turn(sizes: Sequence[Any], strides: Sequence[Any]) -> Lies | None:
    return permute(sizes, strides, range(len(sizes))[::-1]) if len(sizes) <= 2 else None


def unsqueeze(sizes: Sequence[Any], strides: Sequence[Any], dim: int) -> Lies | None:
    """Sizes and strides of the same with one dimension more. None where there is no such place."""
    places = len(sizes) + 1
    if not -places <= dim < places:
        return None
    at = dim % places
    step = sizes[at] * strides[at] if at < len(sizes) else 1
    return (*sizes[:at], 1, *sizes[at:]), (*strides[:at], step, *strides[at:])


def squeeze(sizes: Sequence[Any], strides: Sequence[Any], dims: int | Sequence[int]) -> Lies | None:
    """Sizes and strides of the same without these dimensions, where they are 1. None where that depends on a size."""
    asked = [dims] if isinstance(dims, int) else dims
    if not all(_is_fixed(sizes, dim) for dim in asked):
        return None
    gone = {dim % len(sizes) for dim in asked if sizes[dim] == 1}
    kept = [at for at in range(len(sizes)) if at not in gone]
    return tuple(sizes[at] for at in kept), tuple(strides[at] for at in kept)


def part(
    sizes: Sequence[Any], strides: Sequence[Any], dim: int = 0, start: Any = None, end: Any = None, step: Any = 1
) -> Part | None:
    """How a slice lies of a dimension whose size does not vary, or all of any. None of others."""
    if isinstance(start, torch.SymInt) and isinstance(end, torch.SymInt) and step == 1 and _is_fixed(sizes, dim):
        return _window(sizes, strides, dim, start, end)
    if not -len(sizes) <= dim < len(sizes) or not all(each is None or type(each) is int for each in (start, end, step)):
        return None
    if start in (None, 0) and end in (None, sys.maxsize) and step == 1:
        return *same(sizes, strides), 0
    if not _is_fixed(sizes, dim) or step < 1:
        return None
    first, last, _ = slice(start, end, step).indices(sizes[dim])
    at, count = dim % len(sizes), len(range(first, last, step))
    changed = (*sizes[:at], count, *sizes[at + 1 :]), (*strides[:at], strides[at] * step, *strides[at + 1 :])
    return *changed, first * strides[at]


def _window(sizes: Sequence[Any], strides: Sequence[Any], dim: int, start: Any, end: Any) -> Part | None:
    """The same of so many that begin somewhere inside."""
    count = sympy.expand(expression(end) - expression(start))
    is_inside = statically_known_true(start >= 0) and statically_known_true(end <= sizes[dim])
    if not count.is_Integer or count < 0 or not is_inside:
        return None
    at = dim % len(sizes)
    return (*sizes[:at], int(count), *sizes[at + 1 :]), tuple(strides), start * strides[at]


def select(sizes: Sequence[Any], strides: Sequence[Any], dim: int, index: Any) -> Part | None:
    """How one of a dimension whose size does not vary lies. None of others, and where there is no such one."""
    if not _is_fixed(sizes, dim) or type(index) is not int or not -sizes[dim] <= index < sizes[dim]:
        return None
    at, left_out = dim % len(sizes), (index % sizes[dim]) * strides[dim]
    return (*sizes[:at], *sizes[at + 1 :]), (*strides[:at], *strides[at + 1 :]), left_out


def split(sizes: Sequence[Any], strides: Sequence[Any], lengths: Any, dim: int = 0) -> list[Part | None]:
    """How the parts of a dimension whose size does not vary lie; empty of others."""
    if not _is_fixed(sizes, dim) or not sizes[dim]:
        return []
    if type(lengths) is int and lengths > 0:
        lengths = [min(lengths, sizes[dim] - start) for start in range(0, sizes[dim], lengths)]
    if not isinstance(lengths, (list, tuple)) or not all(type(n) is int and n >= 0 for n in lengths):
        return []
    if sum(lengths) != sizes[dim]:
        return []
    ends = list(itertools.accumulate(lengths))
    return [part(sizes, strides, dim, end - length, end) for length, end in zip(lengths, ends, strict=True)]


def unbind(sizes: Sequence[Any], strides: Sequence[Any], dim: int = 0) -> list[Part | None]:
    """The same of what `unbind` gives."""
    return [select(sizes, strides, dim, at) for at in range(sizes[dim])] if _is_fixed(sizes, dim) else []


def _is_fixed(sizes: Sequence[Any], dim: int) -> bool:
    """Whether there is such a dimension, and its size is a number."""
    return -len(sizes) <= dim < len(sizes) and type(sizes[dim]) is int


def expand(sizes: Sequence[Any], strides: Sequence[Any], wanted: Sequence[Any]) -> Lies | None:
    """Sizes and strides of the same, expanded. None where expressions do not say."""
    new = len(wanted) - len(sizes)
    if new < 0:
        return None
    found: list[tuple[Any, Any]] = []  # from the last dimension on
    for at in reversed(range(len(wanted))):
        size, stride = (sizes[at - new], strides[at - new]) if at >= new else (1, math.prod(found[-1]) if found else 1)
        other = size if at >= new and _is(wanted[at], -1) else wanted[at]
        if not _is(other, size):
            if not _is(size, 1) or (isinstance(other, int) and other < 1):
                return None
            size, stride = other, 0
        found.append((size, stride))
    return tuple(size for size, _ in reversed(found)), tuple(stride for _, stride in reversed(found))


def view(sizes: Sequence[Any], strides: Sequence[Any], wanted: Sequence[Any]) -> Lies | None:
    """Sizes and strides of a view with the sizes `wanted`, of which one may be -1. None where expressions do not say.
    Runs of dimensions that lie one after the other are one, which is divided anew."""
    known = _inferred(sizes, wanted) if not any(_is(size, 0) for size in sizes) else None
    if known is None:
        return None
    found: list[Any] = [None] * len(known)
    left = len(known) - 1  # of the new dimensions, the last that has no stride yet
    end = len(sizes)  # of the run, which begins at `dim`
    for dim in reversed(range(len(sizes))):
        count, step = math.prod(sizes[dim:end]), strides[end - 1]
        if dim and (_is(strides[dim - 1], count * step) or _is(sizes[dim - 1], 1)):
            continue
        end = dim
        taken: Any = 1
        while left >= 0 and (not _is(taken, count) or _is(known[left], 1)):
            found[left] = taken * step
            taken = taken * known[left]
            left -= 1
        if not _is(taken, count):
            return None
    return (known, tuple(found)) if left < 0 else None


def _inferred(sizes: Sequence[Any], wanted: Sequence[Any]) -> tuple[Any, ...] | None:
    """`wanted`, with a number for -1, if that many elements are there."""
    total, rest = math.prod(sizes), math.prod(size for size in wanted if not _is(size, -1))
    is_open = [_is(size, -1) for size in wanted]
    if sum(is_open) > 1 or (any(is_open) and rest == 0):  # which is asked: then it raises
        return None
    missing = total // rest if any(is_open) else 1
    found = tuple(missing if open_ else size for open_, size in zip(is_open, wanted, strict=True))
    return found if _is(missing * rest, total) else None


def _is(one: Any, other: Any) -> bool:
    """Whether the expressions say that they are equal."""
    a, b = expression(one), expression(other)
    return bool(a == b or (not (a.is_number and b.is_number) and sympy.expand(a - b) == 0))


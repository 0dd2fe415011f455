"""Sums over the rows of another kernel: the gradients of a norm's weights, of a bias.

By itself such a sum reads all that the other kernel reads once more. Instead one thread of that kernel goes through
some rows in order, a stretch, and adds up each column of them; a kernel of its own adds up what the stretches give.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import torch

from codegen.kernels import index as ix
from codegen.kernels.definitions import Definition, Shape, contiguous
from codegen.kernels.index import Symbol
from codegen.kernels.nodes import Node
from codegen.kernels.places import Member, cut_rows, inner, row, sizes_of
from codegen.kernels.split import rest_of

#: Rows of a stretch, and stretches: few rows write the sums too often, few stretches leave threads without work, and
#: sums of more floats in one go are less accurate than eager's.
LEAST, MOST, STRETCHES = 8, 32, 64
#: Columns: fewer fill no vectors, the sums of more do not stay in the first cache.
NARROWEST, WIDEST = 64, 8192


def is_of_columns(node: Node) -> bool:
    """Whether it may be added up so."""
    definition = node.definition
    is_sum = definition.kind == "sum" and definition.is_reduction
    if not is_sum or definition.dtype not in (torch.float32, torch.float64):
        return False
    columns = math.prod(definition.shape, start=ix.index(1)).constant
    return columns is not None and NARROWEST <= columns <= WIDEST and bool(_stretch(_count(sizes_of(definition.over))))


def added_up(
    rows: Shape, members: Mapping[str, Member], node: Node
) -> tuple[Shape, dict[str, Member], Node] | None:
    """A group with the sums of each stretch among its members, and the node that adds up these. None where the node is
    no sum over the group's rows."""
    definition = node.definition
    count, columns = _count(sizes_of(definition.over)), _count(definition.shape)
    within = next((member.inner for member in members.values() if member.inner), None)
    if within is None:
        cut = cut_rows(rows, members, ix.index(columns))
        if cut is None:
            return None
        rows, members = cut
        within = next(iter(members.values())).inner
    if _count(rows) != count or _count(within) != columns:
        return None
    axes = tuple(row(number, size) for number, size in enumerate(rows))
    inside = tuple(inner(number, size) for number, size in enumerate(within))
    position, column = (ix.linear_position(tuple(map(ix.index, each)), sizes_of(each)) for each in (axes, inside))
    stretch = ix.index(_stretch(count))
    stretches = ix.floor_divide(ix.index(count), stretch)
    part = Symbol("part", stretches)
    place = {part: ix.floor_divide(position, stretch)}
    for these, at in ((definition.over, position), (definition.axes, column)):
        long = tuple(axis for axis in these if axis.size != 1)
        place |= {axis: ix.index(0) for axis in these if axis.size == 1}
        place |= dict(zip(long, ix.indices_at(at, sizes_of(long)), strict=True))
    shape = (stretches, *definition.shape)
    of_stretch = Definition(
        f"{node.name}.part", shape, definition.dtype, contiguous(shape), (part, *definition.axes), node.value,
        source=definition.source,
    )  # fmt: skip
    member = Member(Node(of_stretch.name, of_stretch, node.value), place, within, ix.remainder(position, stretch))
    rest = rest_of(definition, of_stretch)
    return rows, {**members, of_stretch.name: member}, replace(node, definition=rest, value=rest.value)


def stretch_of(rows: Shape) -> int:
    """How many of a group's rows are one of its stretches."""
    return _stretch(_count(rows))


def _stretch(rows: int) -> int:
    """0 where they don't fall into stretches."""
    return next((n for n in range(min(MOST, rows // STRETCHES), LEAST - 1, -1) if rows % n == 0), 0)


def _count(sizes: Shape) -> int:
    """0 where it varies."""
    return math.prod(sizes, start=ix.index(1)).constant or 0

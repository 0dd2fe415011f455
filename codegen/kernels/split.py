"""Long reductions of few rows, in two steps: parts that run in parallel, and what these give together."""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from codegen.kernels import index as ix
from codegen.kernels import ir
from codegen.kernels.definitions import Definition, Program, Tensor, contiguous
from codegen.kernels.index import Symbol
from codegen.kernels.nodes import at
from codegen.kernels.ops import REDUCTIONS

#: Reductions of more rows than that have enough to do in parallel.
FEW_ROWS = 32
#: Shorter ones are over before threads have started.
LONG = 1 << 16
#: So many rows of parts there should be.
PARTS = 64


def split(program: Program) -> Program:
    """The program with such reductions in two."""
    tensors: dict[str, Tensor] = {}
    for name, tensor in program.tensors.items():
        if isinstance(tensor, Definition) and _is_long(tensor):
            part, tensor = _halves(tensor, program)
            tensors[part.name] = part
        tensors[name] = tensor
    return replace(program, tensors=tensors)


def _is_long(definition: Definition) -> bool:
    if not definition.is_reduction or definition.kind in ("argmax", "argmin"):
        return False
    rows, length = _rows(definition), _count(definition.over)
    if rows is None or rows > FEW_ROWS or _to_cut(definition) is None:
        return False
    return length is None or length * rows >= LONG


def _count(axes: tuple[Symbol, ...]) -> int | None:
    return math.prod((axis.size or ix.index(1) for axis in axes), start=ix.index(1)).constant


def _rows(definition: Definition) -> int | None:
    return math.prod(definition.shape, start=ix.index(1)).constant


def _to_cut(definition: Definition) -> tuple[Symbol, int] | None:
    """The first axis that is long enough, or may be, and into how many parts: what divides it needs no mask."""
    wanted = PARTS // max(1, _rows(definition) or 1)
    for axis in definition.over:
        assert axis.size is not None
        size = axis.size.constant
        if size is None or size >= wanted:
            fitting = range(wanted, max(1, wanted // 2), -1)
            return axis, next((n for n in fitting if size is not None and size % n == 0), wanted)
    return None


def _halves(definition: Definition, program: Program) -> tuple[Definition, Definition]:
    found = _to_cut(definition)
    assert definition.kind is not None and found is not None and found[0].size is not None
    cut, parts = found
    size = found[0].size
    length = (size + parts - 1) // parts
    # [part, ..]: over the places of that axis in this part, and the other axes. What lies next to each other stays so.
    axes = (Symbol("part", ix.index(parts)), *definition.axes)
    within = Symbol(cut.name, length)
    place = ix.index(axes[0]) * length + ix.index(within)
    value = definition.value
    if ix.is_within(place, size):
        value = ir.rewrite(value, lambda expr: None, {cut: place})
    else:
        mask = ir.op("lt", torch.bool, ir.position(place), ir.position(size))
        neutral = ir.literal(REDUCTIONS[definition.kind].empty(value.dtype), value.dtype)
        # the elements beyond the end are read nowhere
        whole = ir.read(definition.name, (place,), value.dtype, mask)
        value = ir.op("where", value.dtype, mask, at(value, (cut,), whole), neutral)
    shape = tuple(axis.size for axis in axes if axis.size is not None)
    name = f"{definition.name}.part"
    part = Definition(
        name, shape, definition.dtype, contiguous(shape), axes, value, definition.kind,
        tuple(within if axis is cut else axis for axis in definition.over), definition.source,
    )  # fmt: skip
    return part, rest_of(definition, part)


def rest_of(definition: Definition, part: Definition) -> Definition:
    """What combines the parts: the first axis of `part` is over these."""
    over = Symbol("r0", part.shape[0])
    element = ir.read(part.name, (ix.index(over), *map(ix.index, definition.axes)), definition.dtype)
    return replace(definition, value=element, over=(over,))

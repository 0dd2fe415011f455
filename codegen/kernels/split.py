"""Long reductions of few rows, in two steps: parts that run in parallel, and what these give together."""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from codegen.kernels import index as ix
from codegen.kernels import ir
from codegen.kernels.definitions import Definition, Program, Tensor, axes_of, contiguous
from codegen.kernels.index import Symbol
from codegen.kernels.nodes import at
from codegen.kernels.ops import REDUCTIONS

#: Reductions of more rows than that have enough to do in parallel.
FEW_ROWS = 32
#: Shorter ones are over before threads have started.
LONG = 1 << 16
#: Into how many parts, if the length allows it: a divisor of it, which needs no mask, else the last one.
PARTS = (64, 60, 56, 48, 40, 32, 64)


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
    if not definition.over or definition.is_scan or definition.kind in ("argmax", "argmin"):
        return False
    rows = math.prod(definition.shape, start=ix.index(1)).constant
    length = math.prod((axis.size or ix.index(1) for axis in definition.over), start=ix.index(1)).constant
    if rows is None or rows > FEW_ROWS or _longest(definition) is None:
        return False
    return length is None or length * rows >= LONG


def _longest(definition: Definition) -> Symbol | None:
    """The axis to cut: the first one that is long enough for all parts, or may be."""
    for axis in definition.over:
        assert axis.size is not None
        if axis.size.constant is None or axis.size.constant >= min(PARTS):
            return axis
    return None


def _halves(definition: Definition, program: Program) -> tuple[Definition, Definition]:
    cut = _longest(definition)
    assert definition.kind is not None and cut is not None and cut.size is not None
    size = cut.size
    parts = next((n for n in PARTS if size.constant is None or size.constant % n == 0), PARTS[-1])
    length = (size + parts - 1) // parts
    # [.., part]: over the places of that axis in this part, and the other axes
    axes = axes_of((*definition.shape, ix.index(parts)))
    within = Symbol(cut.name, length)
    place = ix.index(axes[-1]) * length + ix.index(within)
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
    name = f"{definition.name}_part"
    while name in program.tensors:
        name += "_"
    part = Definition(
        name, shape, definition.dtype, contiguous(shape), axes, value, definition.kind,
        tuple(within if axis is cut else axis for axis in definition.over), definition.source,
    )  # fmt: skip
    over = Symbol("r0", ix.index(parts))
    element = ir.read(name, (*map(ix.index, definition.axes), ix.index(over)), definition.dtype)
    return part, replace(definition, value=element, over=(over,))

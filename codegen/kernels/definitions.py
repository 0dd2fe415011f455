"""A graph before its kernels are made: what each tensor's elements are, one definition a tensor.

    Program    ::= Tensor*, in an order in which each is defined before it is read
    Tensor     ::= Given(shape, strides)                     an input of the graph
                 | Made(node)                                what an ATen operation gives: it is called
                 | Definition(axes, value)                   t[axes] = value
                 | Definition(axes, value, kind, over)       t[axes] = value combined over the axes `over`; where `over`
                                                             is one of `axes`: over the elements up to this one (a scan)
                 | Definition(axes, value, kind, over, base) `base`, and over all axes, those of `over` innermost and in
                                                             order, the element that `value`, which is Placed, is at
                                                             combined with it by `ops.PUTS[kind]`; no element is met at
                                                             two places of `axes`

`value` reads other tensors by Read(tensor, indices), so a view is a definition like any other, and costs nothing where
it is read: it is put in the place of the Read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload

from codegen.kernels import index as ix
from codegen.kernels import ir
from codegen.kernels.index import Index, Symbol
from codegen.kernels.ir import Expr

Shape = tuple[Index, ...]

#: They give memory of their argument, and their schemas do not say so.
_SECRET_VIEWS = (torch.ops.aten._unsafe_view.default,)


@dataclass(frozen=True)
class Given:
    name: str
    shape: Shape
    dtype: torch.dtype
    strides: Shape


@dataclass(frozen=True)
class Made:
    """The tensor that `node` gives, an operation (or a function of ours) called or an attribute of the graph; of a node
    that gives several the one at `item`: a place, and the place in the list that is there, if it is one. `operands`:
    what `node.all_input_nodes` are, in their order: names of tensors, sizes. `has_effects`: it is called whether
    anybody reads it or not."""

    name: str
    shape: Shape
    dtype: torch.dtype
    strides: Shape
    node: fx.Node
    item: tuple[int, ...] = ()
    operands: tuple[str | Index, ...] = ()
    has_effects: bool = False

    @property
    def reads(self) -> tuple[str, ...]:
        """The tensors that it is called with."""
        return tuple(operand for operand in self.operands if isinstance(operand, str))

    @property
    def is_fresh(self) -> bool:
        """Whether it is memory of its own."""
        target = self.node.target
        if not isinstance(target, OpOverload):
            return self.node.op == "call_function"
        if target in _SECRET_VIEWS:
            return False
        return all(result.alias_info is None for result in target._schema.returns)

    def __str__(self) -> str:
        item = "".join(f"[{at}]" for at in self.item)
        return f"{self.name} = {self.node.target}({', '.join(map(str, self.operands))}){item}"


@dataclass(frozen=True)
class Definition:
    """`strides`: of the tensor if it comes to lie in memory, in elements. `is_view`: it is the
    memory of the tensor that it reads, if that can be; never a copy where torch has none. `is_kept`: it comes to lie in
    memory, cheap as it is. `source`: the user's line."""

    name: str
    shape: Shape
    dtype: torch.dtype
    strides: Shape
    axes: tuple[Symbol, ...]
    value: Expr
    kind: str | None = None
    over: tuple[Symbol, ...] = ()
    source: str = ""
    is_view: bool = False
    is_kept: bool = False
    base: str = ""

    def __str__(self) -> str:
        if self.is_put:
            every = ", ".join(f"{axis} < {axis.size}" for axis in (*self.axes, *self.over))
            return f"{self.name} = {self.base}, and {self.kind} over {every} of {self.value}"
        left = f"{self.name}[{', '.join(f'{axis} < {axis.size}' for axis in self.axes)}]"
        if self.kind is None:
            return f"{left} = {self.value}"
        over = ", ".join(f"{axis} < {axis.size}" for axis in self.over)
        return f"{left} = {self.kind} over {over} of {self.value}"

    @property
    def is_scan(self) -> bool:
        return bool(self.over) and self.over[0] in self.axes

    @property
    def is_put(self) -> bool:
        return bool(self.base)

    @property
    def is_reduction(self) -> bool:
        return bool(self.over) and not self.is_scan and not self.is_put

    @property
    def read(self) -> set[str]:
        """The tensors that it is made of."""
        own = {self.base} if self.is_put else set()
        return own | {expr.tensor for expr in ir.walk(self.value) if isinstance(expr, ir.Read)}


@dataclass(frozen=True)
class Stored:
    """A tensor that kernels fill, whatever its elements are. `strides`: in elements."""

    name: str
    shape: Shape
    dtype: torch.dtype
    strides: Shape


Tensor = Given | Made | Definition | Stored


@dataclass(frozen=True)
class Number:
    """The number in a tensor of one element, as Python has it."""

    tensor: str


@dataclass
class Program:
    """`results`: names of tensors, or what else the graph gives (Numbers, sizes, constants). `writes`: (input, what is
    written into it at the end). `sizes`: where each symbol is read, (input, dim), or (input, None) for an input that is
    the number; `steps`: the same for symbols of strides; `scalars`: other inputs that are numbers.

    A tensor's name is that of the node that it was made for, or begins with it, and a point follows."""

    tensors: dict[str, Tensor] = field(default_factory=dict)
    results: list[Any] = field(default_factory=list)
    writes: list[tuple[str, str]] = field(default_factory=list)
    sizes: dict[Symbol, tuple[str, int | None]] = field(default_factory=dict)
    steps: dict[Symbol, tuple[str, int]] = field(default_factory=dict)
    scalars: dict[str, ir.Scalar] = field(default_factory=dict)

    @property
    def given_back(self) -> list[str]:
        """The tensors that results are, or are read from."""
        values = (value.tensor if isinstance(value, Number) else value for value in self.results)
        return [value for value in values if isinstance(value, str)]

    def __str__(self) -> str:
        return "\n".join(map(str, self.tensors.values()))


def contiguous(shape: Sequence[Index]) -> Shape:
    strides: list[Index] = []
    step: Index | int = 1  # an int as long as it can be, which is quicker
    for size in reversed(shape):
        strides.append(ix.index(step))
        constant = size.constant
        step = step * (ix.extremum("max", size, ix.index(1)) if constant is None else max(constant, 1))
    return tuple(reversed(strides))


def dense_order(shape: Sequence[Index], strides: Sequence[Index]) -> list[int] | None:
    """The dimensions from the outermost in as they lie in memory that has no gaps, which has it from `contiguous`; None
    where it has gaps, or nobody knows. Dimensions that lie anywhere, of size 1, stay where they are if they can."""
    dims = range(len(shape))
    if any(size.constant == 0 for size in shape):
        return list(dims)
    left = [dim for dim in dims if shape[dim] != 1]
    inner: list[int] = []
    step = ix.index(1)
    while left:
        found = next((dim for dim in reversed(left) if strides[dim] == step), None)
        if found is None:
            return None
        left.remove(found)
        inner.append(found)
        step *= ix.extremum("max", shape[found], ix.index(1))
    inner.reverse()
    return list(dims) if inner == sorted(inner) else [dim for dim in dims if shape[dim] == 1] + inner


def axes_of(shape: Sequence[Index], prefix: str = "i") -> tuple[Symbol, ...]:
    return tuple(ix.axis(prefix, number, size) for number, size in enumerate(shape))

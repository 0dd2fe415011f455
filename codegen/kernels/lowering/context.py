"""What the rows of the lowering tables are written with: tensors by name, and definitions made of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from codegen.kernels import index as ix
from codegen.kernels import ir
from codegen.kernels.definitions import Definition, Program, Shape, Tensor, axes_of, contiguous
from codegen.kernels.index import Index
from codegen.kernels.ir import Expr, Operand
from codegen.kernels.ops import OPS, REDUCTIONS


class Unsupported(Exception):
    """Raised by a row for arguments that it does not serve: ATen is called then."""


class Impossible(Exception):
    """Raised for what ATen can't be called for either: its graph is not lowered."""


#: A value and where it goes, at some indices.
Element = Callable[..., tuple[Expr, Sequence[Index]]]


@dataclass(frozen=True)
class Ref:
    """A tensor of the program, to a row. `ref[i, j]`: its element there."""

    name: str
    shape: Shape
    dtype: torch.dtype

    def __getitem__(self, indices: Index | tuple[Index, ...]) -> Expr:
        return self.at(indices if isinstance(indices, tuple) else (indices,))

    def at(self, indices: Sequence[ix.Integer], mask: Expr | None = None) -> Expr:
        """Its element there; 0 where the mask is false, and nothing is read."""
        assert len(indices) == len(self.shape), (self, indices)
        return ir.read(self.name, tuple(map(ix.index, indices)), self.dtype, mask)

    @property
    def dim(self) -> int:
        return len(self.shape)


class Lowering:
    """The program as it grows. `node` is the graph's node that is being lowered, `out` its fake result (a tensor or a
    tuple of them): rows read shapes and dtypes from it instead of working them out again."""

    node: fx.Node
    out: Any

    def __init__(self) -> None:
        self.program = Program()
        self.source = ""

    def enter(self, node: fx.Node, source: str) -> None:
        """`source`: the user's line that it is made for."""
        self.node, self.out, self.source = node, node.meta.get("val"), source

    def fake(self, at: int) -> torch.Tensor:
        """The stand-in for that argument, which is a tensor."""
        node = self.node.args[at]
        assert isinstance(node, fx.Node)
        return node.meta["val"]

    # --- making tensors -----------------------------------------------------------------------------------------------
    def define(
        self, shape: Sequence[Index], dtype: torch.dtype, value: Callable[..., Expr], hint: str = "",
        is_view: bool = False, is_kept: bool = False,
    ) -> Ref:
        """t[i0, i1, ...] = value(i0, i1, ...), of that dtype already. `is_view`, `is_kept`: as in `Definition`."""
        axes = axes_of(shape)
        return self._add(tuple(shape), dtype, axes, value(*map(ix.index, axes)), None, (), hint, is_view, is_kept)

    def reduce(
        self, kind: str, shape: Sequence[Index], dims: Sequence[int], value: Callable[..., Expr],
        keepdim: bool = False, hint: str = "",
    ) -> Ref:
        """A row of `ops.REDUCTIONS` over some dims of value(i0, i1, ...), which has that shape."""
        if not dims:
            place: Callable[..., Expr] = lambda *at: ir.literal(0, torch.int64)  # noqa: E731
            element_of = place if kind in ("argmax", "argmin") else value
            return self.define(shape, element_of(*map(ix.index, axes_of(shape))).dtype, element_of, hint)
        sizes = [ix.index(1) if dim in dims else size for dim, size in enumerate(shape)]
        if not keepdim:
            sizes = [size for dim, size in enumerate(sizes) if dim not in dims]
        axes = axes_of(sizes)
        over = dict(zip(sorted(dims), axes_of([shape[dim] for dim in sorted(dims)], "r"), strict=True))
        rest = iter(axes)
        kept = [next(rest) if keepdim or dim not in over else None for dim in range(len(shape))]
        element = value(*(ix.index(over.get(dim) or kept[dim]) for dim in range(len(shape))))  # type: ignore[arg-type]
        dtype = torch.int64 if kind in ("argmax", "argmin") else element.dtype
        return self._add(tuple(sizes), dtype, axes, element, kind, tuple(over.values()), hint)

    def scan(self, kind: str, shape: Sequence[Index], dim: int, value: Callable[..., Expr], hint: str = "") -> Ref:
        """A row of `ops.SCANS` along one dim of value(i0, i1, ...), which has that shape."""
        axes = axes_of(shape)
        element = value(*map(ix.index, axes))
        return self._add(tuple(shape), element.dtype, axes, element, kind, (axes[dim],), hint)

    def put(
        self, kind: str, base: Ref, shape: Sequence[Index], apart: Sequence[int], element: Element
    ) -> Ref:
        """A row of `ops.PUTS` of base and, over that shape, a value and where it goes: element(i0, i1, ...). `apart`:
        the dims of which each tells elements of the base apart."""
        axes = axes_of(shape, "r")
        value, place = element(*map(ix.index, axes))
        name = self.fresh(self.node.name)
        side, rounds = ([axis for dim, axis in enumerate(axes) if (dim in apart) is there] for there in (True, False))
        self.program.tensors[name] = Definition(
            name, base.shape, base.dtype, contiguous(base.shape), tuple(side), ir.placed(value, tuple(place)), kind,
            tuple(rounds), self.source, base=base.name,
        )  # fmt: skip
        return Ref(name, base.shape, base.dtype)

    def _add(
        self, shape: Shape, dtype: torch.dtype, axes: Any, value: Expr, kind: str | None, over: Any, hint: str,
        is_view: bool = False, is_kept: bool = False,
    ) -> Ref:
        assert kind is not None or value.dtype == dtype, (self.node, value.dtype, dtype)
        if any(size == 0 for size in shape):  # nothing is read
            value, kind, over = ir.literal(0, dtype), None, ()
        elif kind is not None and any(axis.size == 0 for axis in over):
            value, kind, over = ir.literal(REDUCTIONS[kind].empty(value.dtype), dtype), None, ()
        name = self.fresh(f"{self.node.name}.{hint}" if hint else self.node.name)
        self.program.tensors[name] = Definition(
            name, shape, dtype, contiguous(shape), axes, value, kind, over, self.source, is_view, is_kept
        )
        return Ref(name, shape, dtype)

    def fill_of(self, ref: Ref) -> ir.Literal | None:
        """The number that all elements are, where that is known and there are any."""
        made = self.program.tensors[ref.name]
        if not isinstance(made, Definition) or made.kind is not None or any(size == 0 for size in ref.shape):
            return None
        return made.value if isinstance(made.value, ir.Literal) else None

    def fresh(self, name: str) -> str:
        """`name` is that of a node, or begins with it and a point (see `Program`)."""
        number, found = 0, name
        while found in self.program.tensors:
            number += 1
            found = f"{name}.{number}"
        return found

    def ref(self, tensor: Tensor) -> Ref:
        return Ref(tensor.name, tensor.shape, tensor.dtype)


# --- what rows compute with -------------------------------------------------------------------------------------------
def to(value: Expr, dtype: torch.dtype) -> Expr:
    """The value converted, if it has another dtype; constants at once."""
    if value.dtype == dtype:
        return value
    if isinstance(value, ir.Literal):
        return ir.literal(value.value, dtype)
    return ir.op("to", dtype, value)


def rounded(value: Expr, dtype: torch.dtype) -> Expr:
    """As it is between two operations of eager code in that dtype."""
    return to(to(value, dtype), value.dtype)


def fn(name: str, first: Expr, *others: Operand) -> Expr:
    """An operation of the IR, of values that have the first one's dtype."""
    dtype = torch.bool if OPS[name].gives == "bool" else first.dtype
    return ir.op(name, dtype, first, *(ir.like(first, other) for other in others))


def where(condition: Expr, a: Operand, b: Operand) -> Expr:
    """One of a and b is an expression, the other one may be a number."""
    dtype = (a if isinstance(a, Expr) else b).dtype  # type: ignore[union-attr]
    return ir.op("where", dtype, condition, number(a, dtype), number(b, dtype))


def is_true(value: Expr) -> Expr:
    """As a bool: whether it is not 0."""
    return value if value.dtype == torch.bool else fn("ne", value, 0)


def computed_in(dtype: torch.dtype) -> torch.dtype:
    """What eager's composite kernels compute in for tensors of that dtype."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def number(value: Any, dtype: torch.dtype) -> Expr:
    """A number as a value of that dtype: plain, or one that each call gives. Raises Unsupported where it does not fit:
    eager wraps it round or complains."""
    if isinstance(value, Expr):
        return to(value, dtype)
    if isinstance(value, Index):
        return to(ir.position(value), dtype)
    if dtype.is_floating_point:
        fits = not math.isfinite(value) or abs(value) <= torch.finfo(dtype).max
    else:
        bounds = torch.iinfo(dtype if dtype is not torch.bool else torch.int8)
        fits = math.isfinite(value) and bounds.min <= value <= bounds.max
    if not fits:
        raise Unsupported(f"{value} as {dtype}")
    return ir.literal(value, dtype)


def shape_of(fake: torch.Tensor) -> Shape:
    return tuple(map(ix.of_size, fake.shape))


def strides_of(fake: torch.Tensor) -> Shape:
    if fake.layout is not torch.strided:
        raise Unsupported(f"a tensor of layout {fake.layout}")
    return tuple(map(ix.of_size, fake.stride()))


def broadcast(ref: Ref, indices: Sequence[Index], mask: Expr | None = None) -> Expr:
    """The element that meets `indices` of a result that `ref` is broadcast to."""
    own = indices[len(indices) - ref.dim :]
    return ref.at([ix.index(0) if size == 1 else at for size, at in zip(ref.shape, own, strict=True)], mask)


def wrap(dim: int, dims: int) -> int:
    return dim + max(dims, 1) if dim < 0 else dim


def draws(node: fx.Node) -> bool:
    """Whether it gives random numbers."""
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())

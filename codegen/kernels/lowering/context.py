"""What the rows of the lowering tables are written with: tensors by name, and definitions made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from codegen.kernels import index as ix
from codegen.kernels import ir
from codegen.kernels.definitions import Definition, Program, Shape, Tensor, axes_of, contiguous
from codegen.kernels.index import Index
from codegen.kernels.ir import Expr


class Unsupported(Exception):
    """Raised by a row for arguments that it does not serve: ATen is called then."""


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
    """The program as it grows. `name` is the graph's node that is being lowered, `out` its fake result (a tensor or a
    tuple of them): rows read shapes and dtypes from it instead of working them out again."""

    def __init__(self) -> None:
        self.program = Program()
        self.name = ""
        self.out: Any = None
        self.source = ""

    # --- making tensors -----------------------------------------------------------------------------------------------
    def define(
        self, shape: Sequence[Index], dtype: torch.dtype, value: Callable[..., Expr], hint: str = "",
        is_view: bool = False,
    ) -> Ref:
        """t[i0, i1, ...] = value(i0, i1, ...), of that dtype already. `is_view`: as in `Definition`."""
        axes = axes_of(shape)
        return self._add(tuple(shape), dtype, axes, value(*map(ix.index, axes)), None, (), hint, is_view)

    def reduce(
        self, kind: str, ref: Ref, dims: Sequence[int], keepdim: bool = False, hint: str = "",
        value: Callable[[Expr], Expr] | None = None,
    ) -> Ref:
        """A row of `ops.REDUCTIONS` over some dims of value(element)."""
        over = {dim: axis for dim, axis in zip(dims, axes_of([ref.shape[dim] for dim in dims], "r"), strict=True)}
        shape = [ix.index(1) if dim in over else size for dim, size in enumerate(ref.shape)]
        axes = axes_of(shape)
        kept = axes if keepdim else axes_of([size for dim, size in enumerate(ref.shape) if dim not in over])
        rest = iter(kept)
        indices = []
        for dim in range(ref.dim):
            own = next(rest) if keepdim or dim not in over else None
            at = over.get(dim, own)
            assert at is not None
            indices.append(ix.index(at))
        element = ref.at(indices)
        if value is not None:
            element = value(element)
        dtype = torch.int64 if kind in ("argmax", "argmin") else element.dtype
        sizes = tuple(axis.size for axis in kept if axis.size is not None)
        reduced = tuple(over[dim] for dim in sorted(over))
        return self._add(sizes, dtype, kept, element, kind, reduced, hint)

    def scan(self, kind: str, ref: Ref, dim: int, hint: str = "") -> Ref:
        """A row of `ops.SCANS` along one dim."""
        axes = axes_of(ref.shape)
        element = ref.at([ix.index(axis) for axis in axes])
        return self._add(ref.shape, element.dtype, axes, element, kind, (axes[dim],), hint)

    def _add(
        self, shape: Shape, dtype: torch.dtype, axes: Any, value: Expr, kind: str | None, over: Any, hint: str,
        is_view: bool = False,
    ) -> Ref:
        assert kind is not None or value.dtype == dtype, (self.name, value.dtype, dtype)
        name = self.fresh(f"{self.name}_{hint}" if hint else self.name)
        self.program.tensors[name] = Definition(
            name, shape, dtype, contiguous(shape), axes, value, kind, over, self.source, is_view
        )
        return Ref(name, shape, dtype)

    def fresh(self, name: str) -> str:
        number, found = 0, name
        while found in self.program.tensors:
            number += 1
            found = f"{name}_{number}"
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


def computed_in(dtype: torch.dtype) -> torch.dtype:
    """What eager's composite kernels compute in for tensors of that dtype."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def number(value: Any, dtype: torch.dtype) -> Expr:
    """A number as a value of that dtype: plain, one that comes of sizes, or one that each call gives."""
    if isinstance(value, Index):
        value = ir.position(value)
    return to(value, dtype) if isinstance(value, Expr) else ir.literal(value, dtype)


def shape_of(fake: torch.Tensor) -> Shape:
    return tuple(map(ix.of_size, fake.shape))


def broadcast(ref: Ref, indices: Sequence[Index]) -> Expr:
    """The element that meets `indices` of a result that `ref` is broadcast to."""
    own = indices[len(indices) - ref.dim :]
    return ref.at([ix.index(0) if size == 1 else at for size, at in zip(ref.shape, own, strict=True)])


def wrap(dim: int, dims: int) -> int:
    return dim + dims if dim < 0 else dim

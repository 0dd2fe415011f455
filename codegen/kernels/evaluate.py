"""What a kernel means: a slow evaluator, all rounds of a loop at once, each operation as torch has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from codegen.kernels import index as ix
from codegen.kernels.index import Symbol
from codegen.kernels.ir import Expr, Kernel, Literal, Load, Loop, Op, Position, Reduce, Result, Running, Scalar, Store
from codegen.kernels.ops import OPS, REDUCTIONS, SCANS


def run(
    kernel: Kernel, buffers: Mapping[str, torch.Tensor], sizes: Sequence[int] = (), scalars: Sequence[Any] = ()
) -> None:
    """Does what `kernel` does to these buffers: one-dimensional contiguous tensors, of at least the sizes it names.

    Raises IndexError where an index lies outside of its buffer or an element is stored twice."""
    numbers = dict(zip(kernel.sizes, sizes, strict=True))
    for buffer in kernel.buffers:
        given, size = buffers[buffer.name], ix.evaluate(buffer.size, numbers.__getitem__)
        assert given.dim() == 1 and given.dtype == buffer.dtype and given.numel() >= size, buffer
    named = dict(zip((scalar.name for scalar in kernel.scalars), scalars, strict=True))
    results: dict[str, torch.Tensor] = {}
    for loop in kernel.loops:
        _Rounds(kernel, loop, buffers, numbers, named, results).run()


class _Rounds:
    """All rounds of one loop under all of its kernel's: a value is a tensor with a dimension for each axis, of size 1
    where it does not depend on that axis."""

    def __init__(
        self, kernel: Kernel, loop: Loop, buffers: Mapping[str, torch.Tensor], numbers: Mapping[Symbol, int],
        scalars: Mapping[str, Any], results: dict[str, torch.Tensor],
    ) -> None:
        self.axes = (*kernel.axes, *loop.axes)
        self.outer = len(kernel.axes)
        self.loop = loop
        self.buffers = buffers
        self.numbers = numbers
        self.scalars = scalars
        self.results = results
        self.shape = [ix.evaluate(axis.size, numbers.__getitem__) for axis in self.axes if axis.size is not None]
        self.values: dict[Expr, torch.Tensor] = {}
        self.runs: dict[str, torch.Tensor] = {}
        self.written: dict[str, torch.Tensor] = {}

    def run(self) -> None:
        for statement in self.loop.body:
            if 0 in self.shape:  # nothing is computed, nothing is read
                if isinstance(statement, Reduce):
                    self._reduce_nothing(statement)
            elif isinstance(statement, Reduce):
                self._reduce(statement)
            else:
                self._store(statement)
            self.values.clear()  # a store changes what loads give

    def _store(self, store: Store) -> None:
        value, at = self.value(store.value), self.number(store.index)
        flat = torch.as_tensor(at).expand(self.shape).reshape(-1)
        if flat.unique().numel() != flat.numel():
            raise IndexError(f"{store} names elements twice")
        target = self.buffers[store.buffer]
        _check(flat, target, str(store))
        target[flat] = value.expand(self.shape).reshape(-1).to(target.dtype)

    def _reduce(self, reduce: Reduce) -> None:
        values = self.value(reduce.value).expand(self.shape)
        dims = tuple(range(self.outer, len(self.shape)))
        spec = REDUCTIONS[reduce.kind]
        found = spec.meaning(values, dims).to(reduce.dtype)
        self.results[reduce.name] = found
        if reduce.kind in SCANS:
            flat = values.flatten(self.outer) if self.loop.axes else values.unsqueeze(-1)
            runs = SCANS[reduce.kind](flat, flat.dim() - 1)
            self.runs[reduce.name] = runs.reshape(self.shape).to(reduce.dtype)

    def _reduce_nothing(self, reduce: Reduce) -> None:
        empty = REDUCTIONS[reduce.kind].empty(reduce.value.dtype)
        self.results[reduce.name] = torch.full(self.shape[: self.outer], empty, dtype=reduce.dtype)

    # --- values -------------------------------------------------------------------------------------------------------
    def value(self, expr: Expr) -> torch.Tensor:
        if expr not in self.values:
            found = self._computed(expr)
            assert found.dtype == expr.dtype, f"{expr}: {found.dtype}, not {expr.dtype}"
            self.values[expr] = found
        return self.values[expr]

    def _computed(self, expr: Expr) -> torch.Tensor:
        match expr:
            case Literal():
                return self._constant(expr.value, expr.dtype)
            case Scalar():
                return self._constant(self.scalars[expr.name], expr.dtype)
            case Position():
                return torch.as_tensor(self.number(expr.index), dtype=torch.int64).reshape(self._broad(expr))
            case Load():
                return self._load(expr)
            case Op():
                spec = OPS[expr.name]
                operands = [self.value(operand) for operand in expr.operands]
                return spec.meaning(*operands, *([expr.dtype] if spec.gives == "free" else []))
            case Result():
                found = self.results[expr.name]
                return found.reshape([*self.shape[: self.outer], *[1] * (len(self.shape) - self.outer)])
            case Running():
                return self.runs[expr.name]
        raise TypeError(expr)

    def _constant(self, value: Any, dtype: torch.dtype) -> torch.Tensor:
        return torch.full([1] * len(self.shape), value, dtype=dtype)

    def _broad(self, expr: Position) -> list[int]:
        number = self.number(expr.index)
        return list(number.shape) if isinstance(number, torch.Tensor) else [1] * len(self.shape)

    def _load(self, load: Load) -> torch.Tensor:
        source = self.buffers[load.buffer]
        at = torch.as_tensor(self.number(load.index), dtype=torch.int64)
        at = at.reshape(at.shape if at.dim() else [1] * len(self.shape))
        if load.mask is not None:
            mask = self.value(load.mask)
            mask, at = torch.broadcast_tensors(mask, at)
            _check(at[mask], source, str(load))
            if not source.numel():
                return torch.zeros(at.shape, dtype=source.dtype)
            found = source[at.where(mask, 0)]
            return found.where(mask, torch.zeros((), dtype=found.dtype))
        _check(at, source, str(load))
        return source[at]

    def number(self, at: ix.Index) -> Any:
        """An int, or a tensor of them."""
        return ix.evaluate(at, self._symbol)

    def _symbol(self, atom: Symbol | ix.Value) -> Any:
        if isinstance(atom, ix.Value):
            return self.value(atom.payload)  # type: ignore[arg-type]
        if atom.size is None:
            return self.numbers[atom]
        dim = self.axes.index(atom)
        shape = [1] * len(self.shape)
        shape[dim] = self.shape[dim]
        return torch.arange(self.shape[dim]).reshape(shape)


def _check(at: torch.Tensor, buffer: torch.Tensor, what: str) -> None:
    if at.numel() and not (0 <= int(at.min()) and int(at.max()) < buffer.numel()):
        raise IndexError(f"{what}: outside of {buffer.numel()} elements")

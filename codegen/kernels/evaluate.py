"""What a kernel means: a slow evaluator, all rounds of a loop at once, each operation as torch has it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from codegen.kernels import index as ix
from codegen.kernels.index import Index, Symbol
from codegen.kernels.ir import (
    Expr,
    Kernel,
    Literal,
    Load,
    Loop,
    Op,
    Position,
    Reduce,
    Result,
    Running,
    Scalar,
    Store,
    values_in,
    walk,
)
from codegen.kernels.ops import OPS, PUTS, REDUCTIONS, SCANS


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
        _Kernel(kernel, loop, buffers, numbers, named, results).run()


class Rounds:
    """All rounds over some axes at once: a value is a tensor with a dimension for each axis, of size 1 where it does
    not depend on that axis. What leaves other than numbers give is said by who derives from it."""

    def __init__(
        self, axes: Sequence[Symbol], numbers: Mapping[Symbol, int], scalars: Mapping[str, Any]
    ) -> None:
        self.axes = tuple(axes)
        self.numbers = numbers
        self.scalars = scalars
        self.shape = [ix.evaluate(axis.size, numbers.__getitem__) for axis in self.axes if axis.size is not None]
        self.values: dict[Expr, torch.Tensor] = {}

    def value(self, root: Expr) -> torch.Tensor:
        for expr in walk(root):
            if expr not in self.values:
                found = self._computed(expr)
                assert found.dtype == expr.dtype, f"{expr}: {found.dtype}, not {expr.dtype}"
                self.values[expr] = found
        return self.values[root]

    def leaf(self, expr: Expr) -> torch.Tensor:
        raise TypeError(expr)

    def _computed(self, expr: Expr) -> torch.Tensor:
        match expr:
            case Literal():
                return self._constant(expr.value, expr.dtype)
            case Scalar():
                return self._constant(self.scalars[expr.name], expr.dtype)
            case Position():
                return self.position(expr.index)
            case Op():
                spec = OPS[expr.name]
                operands = [self.values[operand] for operand in expr.operands]
                return spec.meaning(*operands, *([expr.dtype] if spec.gives == "free" else []))
        return self.leaf(expr)

    def _constant(self, value: Any, dtype: torch.dtype) -> torch.Tensor:
        return torch.full([1] * len(self.shape), value, dtype=dtype)

    def position(self, at: ix.Index) -> torch.Tensor:
        found = torch.as_tensor(self.number(at), dtype=torch.int64)
        return found if found.dim() else found.reshape([1] * len(self.shape))

    def number(self, at: ix.Index) -> Any:
        """An int, or a tensor of them."""
        return ix.evaluate(at, self._symbol)

    def _symbol(self, atom: Symbol | ix.Value) -> Any:
        if isinstance(atom, ix.Value):
            return self.values[atom.payload]  # type: ignore[index]
        if atom.size is None:
            return self.numbers[atom]
        dim = self.axes.index(atom)
        shape = [1] * len(self.shape)
        shape[dim] = self.shape[dim]
        return torch.arange(self.shape[dim]).reshape(shape)

    def element(self, source: torch.Tensor, at: Sequence[Index], mask: Expr | None, what: Any) -> torch.Tensor:
        """source[at]; 0 where the mask is false. Raises IndexError where one lies outside."""
        where = [self.position(each) for each in at]
        if mask is None:
            _check(where, source, what)
            return source[tuple(where)] if where else source.reshape([1] * len(self.shape))
        inside, *where = torch.broadcast_tensors(self.values[mask], *where)
        _check([each[inside] for each in where], source, what)
        if not source.numel():
            return torch.zeros(inside.shape, dtype=source.dtype)
        found = source[tuple(each.where(inside, 0) for each in where)]
        return found.where(inside, torch.zeros((), dtype=found.dtype))


class _Kernel(Rounds):
    """All rounds of one loop under all of its kernel's."""

    def __init__(
        self, kernel: Kernel, loop: Loop, buffers: Mapping[str, torch.Tensor], numbers: Mapping[Symbol, int],
        scalars: Mapping[str, Any], results: dict[str, torch.Tensor],
    ) -> None:
        super().__init__((*kernel.axes, *loop.axes), numbers, scalars)
        self.kernel = kernel
        self.outer = len(kernel.axes)
        self.loop = loop
        self.buffers = buffers
        self.results = results
        self.runs: dict[str, torch.Tensor] = {}

    def run(self) -> None:
        stores = []
        for statement in self.loop.body:
            if 0 in self.shape:  # nothing is computed, nothing is read
                if isinstance(statement, Reduce):
                    given = statement.kind, self.shape[: self.outer], statement.value.dtype, statement.dtype
                    self.results[statement.name] = reduced_nothing(*given)
            elif isinstance(statement, Reduce):
                self._reduce(statement)
            else:
                for inside in values_in(statement.index):
                    self.value(inside)
                stores.append((statement, self.value(statement.value)))
        for store, value in stores:
            self._store(store, value)

    def _store(self, store: Store, value: torch.Tensor) -> None:
        flat = self.position(store.index).expand(self.shape).reshape(-1)
        if store.into is not None:
            self._put(store, store.into, flat, value)
            return
        named = flat if store.since is None else self._begun(store, flat)
        if named.unique().numel() != named.numel():
            raise IndexError(f"{store} names elements twice")
        target = self.buffers[store.buffer]
        _check([flat], target, store)
        given = value.expand(self.shape).reshape(-1).to(target.dtype)
        if store.since is None:
            target[flat] = given
        else:
            sums = torch.zeros(target.shape, dtype=torch.float64).index_add_(0, flat, given.double())
            target[named] = sums[named].to(target.dtype)

    def _put(self, store: Store, kind: str, flat: torch.Tensor, value: torch.Tensor) -> None:
        rows = flat.reshape(math.prod(self.shape[: self.outer]), -1)
        if sum(row.unique().numel() for row in rows) != flat.unique().numel():
            raise IndexError(f"{store} names an element in two rows")
        target = self.buffers[store.buffer]
        _check([flat], target, store)
        put(kind, target, flat, value.expand(self.shape).reshape(-1))

    def _begun(self, store: Store, flat: torch.Tensor) -> torch.Tensor:
        """The elements that a sum of rounds begins: all of its, at the first of their rounds, in one stretch each."""
        assert store.since is not None
        begins = (self.position(store.since) == 0).expand(self.shape).reshape(-1)
        rows = math.prod(self.shape[: self.outer])
        stretch = (torch.arange(rows) // self.kernel.stretch).repeat_interleave(flat.numel() // rows)
        for element in flat.unique():
            rounds = flat == element
            if not begins[rounds][0] or len(stretch[rounds].unique()) != 1:
                raise IndexError(f"{store}: a sum that is not one of a stretch")
        return flat[begins]

    def _reduce(self, reduce: Reduce) -> None:
        values = self.value(reduce.value).expand(self.shape)
        self.results[reduce.name] = reduced(reduce.kind, values, range(self.outer, len(self.shape)), reduce.dtype)
        if reduce.kind in SCANS:
            flat = values.flatten(self.outer) if self.loop.axes else values.unsqueeze(-1)
            self.runs[reduce.name] = scanned(reduce.kind, flat, flat.dim() - 1).reshape(self.shape)

    def leaf(self, expr: Expr) -> torch.Tensor:
        match expr:
            case Load():
                return self.element(self.buffers[expr.buffer], [expr.index], expr.mask, expr)
            case Result():
                found = self.results[expr.name]
                return found.reshape([*self.shape[: self.outer], *[1] * (len(self.shape) - self.outer)])
            case Running():
                return self.runs[expr.name]
        raise TypeError(expr)


def reduced(kind: str, values: torch.Tensor, dims: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """A row of `ops.REDUCTIONS` over these dims, which have elements."""
    return REDUCTIONS[kind].meaning(values, tuple(dims)).to(dtype)


def reduced_nothing(kind: str, shape: Sequence[int], of: torch.dtype, dtype: torch.dtype) -> torch.Tensor:
    """What it gives for no elements of the dtype `of`."""
    return torch.full(list(shape), REDUCTIONS[kind].empty(of), dtype=dtype)


def put(kind: str, target: torch.Tensor, flat: torch.Tensor, values: torch.Tensor) -> None:
    """Combines each of the values with the element of `target` there, one after the other."""
    for at, value in zip(flat.tolist(), values, strict=True):
        target[at] = OPS[PUTS[kind]].meaning(target[at], value) if PUTS[kind] else value


def scanned(kind: str, values: torch.Tensor, dim: int) -> torch.Tensor:
    return SCANS[kind](values, dim).to(values.dtype)


def _check(at: Sequence[torch.Tensor], source: torch.Tensor, what: Any) -> None:
    for each, size in zip(at, source.shape, strict=True):
        if each.numel() and not (0 <= int(each.min()) and int(each.max()) < size):
            raise IndexError(f"{what}: outside of {tuple(source.shape)} elements")

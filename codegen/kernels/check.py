"""What a well-formed kernel is. Run on every kernel in all tests, between all passes that make or change one."""

from __future__ import annotations

import math

import torch

from codegen.kernels import index as ix
from codegen.kernels.index import Index, Symbol
from codegen.kernels.ir import (
    Expr,
    Kernel,
    Load,
    Loop,
    Op,
    Reduce,
    Result,
    Running,
    Scalar,
    Store,
    indices_in,
    reads,
    walk,
)
from codegen.kernels.ops import OPS, PUTS, REDUCTIONS, SCANS, kind_of


class Malformed(Exception):
    """A kernel that means nothing."""


def check(kernel: Kernel) -> Kernel:
    """`kernel` itself. Raises Malformed, with the statement and what is wrong about it."""
    _Check(kernel).run()
    return kernel


class _Check:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.buffers = {buffer.name: buffer for buffer in kernel.buffers}
        self.results: dict[str, torch.dtype] = {}
        self.running: dict[str, torch.dtype] = {}
        self.known: set[Symbol] = set()
        self.where: object = kernel.name  # its text, which may be long, is made only for an error

    def need(self, condition: bool, what: str) -> None:
        if not condition:
            raise Malformed(f"{self.kernel.name}: {self.where}: {what}\n{self.kernel}")

    def run(self) -> None:
        kernel = self.kernel
        names = [b.name for b in kernel.buffers] + [s.name for s in kernel.sizes] + [s.name for s in kernel.scalars]
        self.need(len(set(names)) == len(names), "a name twice")
        self.need(all(size.size is None for size in kernel.sizes), "a size with a size")
        for buffer in kernel.buffers:
            self.need(buffer.role in ("in", "out", "inout"), f"role {buffer.role}")
            self._index(buffer.size, set(kernel.sizes))
        self._axes(kernel.axes, set(kernel.sizes))
        rows = math.prod((axis.size or ix.index(1) for axis in kernel.axes), start=ix.index(1))
        self.need(kernel.stretch == 1 or ix.remainder(rows, ix.index(kernel.stretch)) == 0, "a part of a stretch")
        for loop in kernel.loops:
            self._loop(loop)

    def _axes(self, axes: tuple[Symbol, ...], known: set[Symbol]) -> None:
        for axis in axes:
            self.need(axis.size is not None, f"{axis} is no axis")
            assert axis.size is not None
            self._index(axis.size, known)
        self.need(len({axis.name for axis in axes}) == len(axes), "an axis twice")

    def _loop(self, loop: Loop) -> None:
        self.where = f"for {', '.join(map(str, loop.axes))}"
        sizes = set(self.kernel.sizes)
        self._axes(loop.axes, sizes)
        self._axes((*self.kernel.axes, *loop.axes), sizes)
        self.known = sizes | set(self.kernel.axes) | set(loop.axes)
        self.running = {}
        made: dict[str, torch.dtype] = {}
        for statement in loop.body:
            self.where = statement
            for expr in walk(*reads(statement)):
                self._expr(expr)
            match statement:
                case Store():
                    self._store(statement)
                    self._put(statement, loop)
                case Reduce():
                    self.need(statement.name not in self.results | made, f"{statement.name} is known already")
                    self.need(statement.kind in REDUCTIONS, f"reduction {statement.kind}")
                    kinds = REDUCTIONS[statement.kind].kinds
                    self.need(kind_of(statement.value.dtype) in kinds, f"{statement.kind} of {statement.value.dtype}")
                    made[statement.name] = statement.dtype
                    if statement.kind in SCANS:
                        self.running[statement.name] = statement.dtype
        self.results |= made

    def _store(self, store: Store) -> None:
        buffer = self.buffers.get(store.buffer)
        self.need(buffer is not None and buffer.role != "in", f"{store.buffer} is not written")
        assert buffer is not None
        self.need(store.value.dtype == buffer.dtype, f"{store.value.dtype} into {buffer.dtype}")
        self._index(store.index, self.known)
        if store.since is not None:
            self._index(store.since, self.known)
            self.need(self.kernel.stretch > 1, "a sum over rows that are done in parallel")
            self.need(store.value.dtype in (torch.float32, torch.float64), f"a sum of {store.value.dtype}")

    def _put(self, store: Store, loop: Loop) -> None:
        if store.into is None:
            return
        self.need(store.into in PUTS, f"no way to combine {store.into}")
        kinds = OPS[PUTS[store.into]].kinds if PUTS[store.into] else "fib"
        self.need(kind_of(store.value.dtype) in kinds, f"{store.into} of {store.value.dtype}")
        self.need(store.since is None and self.kernel.stretch == 1, "what is combined in stretches")
        self.need(self.buffers[store.buffer].role == "inout", f"{store.buffer} is not read")
        others = [other for each in self.kernel.loops for other in each.body if other is not store]
        touched = [other.buffer for other in others if isinstance(other, Store)]
        exprs = walk(*(value for each in self.kernel.loops for other in each.body for value in reads(other)))
        touched += [expr.buffer for expr in exprs if isinstance(expr, Load)]
        self.need(store.buffer not in touched, f"{store.buffer} is touched by others, too")

    def _index(self, at: Index, known: set[Symbol]) -> None:
        strange = ix.symbols(at) - known
        self.need(not strange, f"{', '.join(map(str, strange))} in {at} stand for nothing")

    def _expr(self, expr: Expr) -> None:
        at = indices_in(expr)
        if at is not None:
            self._index(at, self.known)
            for atom in ix.atoms(at):
                if isinstance(atom, ix.Value):
                    self.need(isinstance(atom.payload, Expr), f"{atom} in an index")
                    assert isinstance(atom.payload, Expr)
                    self.need(atom.payload.dtype == torch.int64, f"an index of {atom.payload.dtype}")
        match expr:
            case Load():
                buffer = self.buffers.get(expr.buffer)
                self.need(buffer is not None and buffer.role != "out", f"{expr.buffer} is not read")
                assert buffer is not None
                self.need(expr.dtype == buffer.dtype, f"{expr.buffer} is {buffer.dtype}, not {expr.dtype}")
                self.need(expr.mask is None or expr.mask.dtype == torch.bool, f"the mask of {expr.buffer}")
            case Op():
                self._op(expr)
            case Result():
                self.need(self.results.get(expr.name) == expr.dtype, f"no result {expr.name} of {expr.dtype} yet")
            case Running():
                self.need(self.running.get(expr.name) == expr.dtype, f"{expr.name} does not run in this loop yet")
            case Scalar():
                self.need(expr in self.kernel.scalars, f"no scalar {expr}")

    def _op(self, expr: Op) -> None:
        spec = OPS.get(expr.name)
        self.need(spec is not None, f"no operation {expr.name}")
        assert spec is not None
        self.need(len(expr.operands) == spec.arity, f"{expr.name} takes {spec.arity}, not {len(expr.operands)}")
        compared = [operand.dtype for operand in expr.operands]
        if expr.name == "where":
            self.need(compared[0] == torch.bool, "the condition of a where")
            compared = compared[1:]
        self.need(len(set(compared)) == 1, f"{expr.name} of {', '.join(map(str, compared))}")
        self.need(kind_of(compared[0]) in spec.kinds, f"{expr.name} of {compared[0]}")
        expected = {"same": compared[0], "bool": torch.bool, "free": expr.dtype}[spec.gives]
        self.need(expr.dtype == expected, f"{expr.name} gives {expected}, not {expr.dtype}")

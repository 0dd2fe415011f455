"""What a program of definitions means: a slow evaluator, each definition over all of its elements at once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import attrgetter, getitem
from typing import Any

import torch
from torch import fx

from codegen.kernels import index as ix
from codegen.kernels.definitions import Definition, Given, Made, Number, Program
from codegen.kernels.evaluate import Rounds, put, reduced, reduced_nothing, scanned
from codegen.kernels.index import Index, Symbol
from codegen.kernels.ir import Expr, Placed, Read, values_in


def run_program(program: Program, given: Mapping[str, Any]) -> list[Any]:
    """The program's results for these inputs (tensors and numbers, by name), into which its writes go at the end.

    Definitions lie in memory of their own with the strides that they are said to have, but for those where elements
    share memory other than by a stride of 0: these are dense. Raises IndexError where an index lies outside of its
    tensor."""
    return _Run(program, given).results()


class _Run:
    def __init__(self, program: Program, given: Mapping[str, Any]) -> None:
        self.program = program
        self.numbers = {
            symbol: given[name] if dim is None else given[name].shape[dim]
            for symbol, (name, dim) in program.sizes.items()
        }
        self.numbers |= {symbol: given[name].stride(dim) for symbol, (name, dim) in program.steps.items()}
        self.scalars = {name: given[name] for name in program.scalars}
        self.tensors: dict[str, torch.Tensor] = {}
        self.called: dict[fx.Node, Any] = {}
        for name, tensor in program.tensors.items():
            match tensor:
                case Given():
                    found = given[name]
                case Made():
                    found = self._call(tensor)
                case Definition():
                    found = self._laid_out(self._define(tensor), tensor)
            if found is None:  # called for the error that it may raise
                continue
            shape = [self.size(size) for size in tensor.shape]
            assert list(found.shape) == shape and found.dtype == tensor.dtype, (str(tensor), found.shape, found.dtype)
            self.tensors[name] = found

    def results(self) -> list[Any]:
        found = [self._result(value) for value in self.program.results]
        new = [(target, self.tensors[source].clone()) for target, source in self.program.writes]
        for target, value in new:
            self.tensors[target].copy_(value)
        return found

    def _result(self, value: Any) -> Any:
        match value:
            case str():
                return self.tensors[value].clone()
            case Index():
                return self.size(value)
            case Number():
                return self.tensors[value.tensor].item()
        return value

    def size(self, size: Index) -> int:
        return int(ix.evaluate(size, self.numbers.__getitem__))

    def _laid_out(self, found: torch.Tensor, definition: Definition) -> torch.Tensor:
        strides, reach = list(map(self.size, definition.strides)), 1
        once = found[tuple(slice(None) if step else slice(0, 1) for step in strides)]
        for step, size in sorted((step, size) for step, size in zip(strides, once.shape, strict=True) if size > 1):
            if step < reach:
                return found
            reach += step * (size - 1)
        return torch.empty_strided(once.shape, strides, dtype=found.dtype).copy_(once).expand(found.shape)

    def _call(self, made: Made) -> torch.Tensor:
        if made.node not in self.called:
            self.called[made.node] = self._made(made)
        return reduce(getitem, made.item, self.called[made.node])

    def _made(self, made: Made) -> Any:
        if made.node.op == "get_attr":
            module = made.node.graph.owning_module
            assert module is not None
            return attrgetter(str(made.node.target))(module)
        known = dict(zip(made.node.all_input_nodes, made.operands, strict=True))
        given: Any = fx.map_arg((made.node.args, made.node.kwargs), lambda node: self._operand(known[node]))
        args, kwargs = given
        assert callable(made.node.target)
        return made.node.target(*args, **kwargs)

    def _operand(self, operand: str | Index) -> Any:
        return self.tensors[operand] if isinstance(operand, str) else self.size(operand)

    def _define(self, definition: Definition) -> torch.Tensor:
        """Reduced axes lie behind the others while it is computed."""
        axes = definition.axes if definition.is_scan else (*definition.axes, *definition.over)
        rounds = _Elements(self, axes)
        if definition.is_put:
            return self._put(definition, rounds)
        if 0 in rounds.shape:  # nothing is computed, nothing is read
            shape, of = rounds.shape[: len(definition.axes)], definition.value.dtype
            if definition.kind is None or definition.is_scan:
                return torch.zeros(shape, dtype=definition.dtype)
            return reduced_nothing(definition.kind, shape, of, definition.dtype)
        values = rounds.value(definition.value).expand(rounds.shape)
        if definition.kind is None:
            return values.clone()
        if definition.is_scan:
            return scanned(definition.kind, values, axes.index(definition.over[0]))
        return reduced(definition.kind, values, range(len(definition.axes), len(axes)), definition.dtype)


    def _put(self, definition: Definition, rounds: _Elements) -> torch.Tensor:
        found = self.tensors[definition.base].clone(memory_format=torch.contiguous_format)
        if 0 in rounds.shape:
            return found
        placed = definition.value
        assert isinstance(placed, Placed) and definition.kind is not None
        for value in (value for at in placed.indices for value in values_in(at)):
            rounds.value(value)
        places = [rounds.position(at).expand(rounds.shape).reshape(-1) for at in placed.indices]
        flat = torch.zeros(math.prod(rounds.shape), dtype=torch.int64)
        for place, size in zip(places, found.shape, strict=True):
            flat = flat * size + place
        put(definition.kind, found.view(-1), flat, rounds.value(placed.value).expand(rounds.shape).reshape(-1))
        return found


class _Elements(Rounds):
    def __init__(self, run: _Run, axes: Sequence[Symbol]) -> None:
        super().__init__(axes, run.numbers, run.scalars)
        self.tensors = run.tensors

    def leaf(self, expr: Expr) -> torch.Tensor:
        if not isinstance(expr, Read):
            raise TypeError(expr)
        return self.element(self.tensors[expr.tensor], expr.indices, expr.mask, expr)

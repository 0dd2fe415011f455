"""Sizes that depend on values, as the graph builder knows them: what operations give (`nonzero`, masks), and numbers
that are read from tensors, once an operation takes them for sizes or places.

Such a number is a symbol from there on, which the graph checks: a size is `SMALLEST` or more, a place none that counts
from the end. What operations take to be true of symbols is checked, too. Where a check fails, the frame runs again as
it was written.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import sympy
import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils._sympy import functions

from symbolic.errors import GraphBreak, Restart
from symbolic.late import Unknown
from symbolic.shapes import (
    SMALLEST,
    Shapes,
    as_place,
    as_size,
    must_be_at_most,
    must_be_equal,
    must_be_so,
    must_be_usual,
)
from symbolic.variables.base import MISSING, Variable
from symbolic.variables.constants import ConstantVariable, SliceVariable
from symbolic.variables.containers import ListVariable, TupleVariable
from symbolic.variables.foreseen import foresee, item, number
from symbolic.variables.numbers import NumberVariable, is_late, numbers_in, parts_of, replaced
from symbolic.variables.symbols import SymbolVariable
from symbolic.variables.tensors import TensorVariable

if TYPE_CHECKING:
    from symbolic.inner import InnerGraph
    from symbolic.translator import Translator

#: Operations whose numbers say where, by how they are spelled; those of others say how many.
_SAY_WHERE = frozenset({
    *(operator.getitem, operator.setitem, torch.narrow, torch.select, torch.roll, torch.tril, torch.triu),
    torch.nn.functional.pad, *("narrow", "select", "roll", "tril", "triu"),
})  # fmt: skip
#: Operations that make tensors: all that they are given may be sizes.
_MAKE = frozenset({
    torch.zeros, torch.ones, torch.empty, torch.full, torch.rand, torch.randn, torch.arange, torch.eye, torch.randperm,
    torch.linspace,
})  # fmt: skip
_INTS = frozenset({torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8})
#: In what torch says of a tensor among the sizes that it can't read.
_NO_NUMBER = "failed to unpack the object at pos"
_SELECT = frozenset({torch.select, "select"})
#: Arithmetic that symbols know as Python does.
_OF_SYMBOLS = frozenset({operator.add, operator.sub, operator.mul, operator.neg, operator.floordiv, operator.mod})
#: Expressions as operations on what they are made of.
_OPERATIONS: dict[Any, Callable[..., Any]] = {
    sympy.Add: operator.add, sympy.Mul: operator.mul, functions.FloorDiv: operator.floordiv,
    functions.CleanDiv: operator.floordiv, functions.Mod: operator.mod, functions.PythonMod: operator.mod,
}  # fmt: skip
#: Relations -> what checks that they hold, of the sides in what order, and what is added to the first.
_RELATIONS: dict[Any, tuple[Callable[..., int], int, int]] = {
    sympy.Eq: (must_be_equal, 1, 0), sympy.Le: (must_be_at_most, 1, 0), sympy.Ge: (must_be_at_most, -1, 0),
    sympy.Lt: (must_be_at_most, 1, 1), sympy.Gt: (must_be_at_most, -1, 1),
}  # fmt: skip


class SizesByValue:
    """What the graph builder does with them."""

    tx: Translator
    shapes: Shapes | None
    inner: list[InnerGraph]
    _symbols: dict[Any, SymbolVariable]
    _sized: dict[fx.Node, SymbolVariable]  # numbers that are sizes or places
    _of_results: list[Any]  # what the operation that was run last took to be true of its results
    _node: Callable[..., fx.Node]
    _argument: Callable[..., tuple[Any, Any]]
    _symbol: Callable[..., Variable]
    _open_sizes: Callable[[], Shapes]
    here: Callable[[fx.Node], fx.Node]
    sizes: Callable[[TensorVariable], list[Variable]]
    tensors: Callable[[], list[TensorVariable]]

    # --- numbers that become sizes ----------------------------------------------------------------------------------
    def as_symbols(
        self, cause: GraphBreak, target: Any, args: list[Variable], kwargs: dict[str, Variable]
    ) -> dict[Variable, Variable]:
        """Numbers that an operation asked for when it broke, as symbols; none where it asked for something else, or
        where there is nobody to run the frame again."""
        why = cause.__cause__
        if self.inner or not isinstance(why, (Unknown, GuardOnDataDependentSymNode)):
            return {}
        numbers = [each for each in numbers_in((*args, *kwargs.values())) if each.kind is int and is_late(each)]
        asked = [each for each in numbers if each.node is getattr(why, "asked", None)]
        least = 0 if target in _SAY_WHERE else SMALLEST
        found: dict[Variable, Variable] = {each: self.symbol_of(each.node, least) for each in asked or numbers}
        if target in _SELECT and len(args) == 3 and args[1].is_constant() and args[2] in found:
            self.check_place(found[args[2]], args[0], args[1].constant())  # type: ignore[arg-type]
        return found

    def as_numbers(self, cause: GraphBreak, target: Any, args: list[Variable]) -> dict[Variable, Variable]:
        """Tensors that an operation read for sizes when it broke, as the numbers in them."""
        why = cause.__cause__
        given = parts_of(args if target in _MAKE else args[1:], TensorVariable)
        ints = [each for each in given if each.fake.dtype in _INTS and each.is_one()]
        asked = [each for each in ints if each.fake is getattr(why, "asked", None)]
        is_size = isinstance(why, TypeError) and _NO_NUMBER in str(why)
        wanted = [] if self.inner else ints if is_size else asked
        return {each: each.method(self.tx, "item", [], {}) for each in dict.fromkeys(wanted)}

    def symbol_of(self, node: fx.Node, least: int) -> Variable:
        """A number that is read from a tensor, which is no less than that, as a symbol."""
        value = node.meta["example_value"]
        if isinstance(value, torch.SymInt):
            return self._symbols[value.node.expr]
        parts = [each in self._sized for each in node.all_input_nodes]
        if node not in self._sized and node.target in _OF_SYMBOLS and (any(parts) or node.target is operator.neg):
            sides = [self.symbol_of(each, 0) if isinstance(each, fx.Node) else _plain(each) for each in node.args]
            made = sides[0].unary(self.tx, node.target) if len(sides) == 1 else self.tx.binary(node.target, *sides)
            if not isinstance(made, SymbolVariable):
                return made
            self._sized[node] = made
        if node not in self._sized:
            shapes = self.shapes or self._open_sizes()
            symbol = shapes.env.number(least)
            check = as_place if least == 0 else as_size
            self._must_run_again("a size")
            made = self._symbol(self._node("call_function", check, (self.here(node),), {}, symbol), symbol, SMALLEST)
            assert isinstance(made, SymbolVariable)
            self._sized[node] = made
        found = self._sized[node]
        if least:
            self._make_usual(found)
        return found

    def _make_usual(self, size: SymbolVariable) -> None:
        """Checks that it is such a size as graphs are made for, unless that is known."""
        assert self.shapes is not None
        if not self.shapes.env.is_usual(size.value):
            otherwise = f"{size.describe()} is less than {SMALLEST}"
            self._take(size.value >= SMALLEST, must_be_usual, [self._argument(size)[0]], otherwise)

    def placed(self, tensor: TensorVariable, index: Variable) -> Variable:
        """The index of a tensor with symbols for numbers among its parts, which torch takes for none otherwise, and for
        what counts from the end."""
        parts = index.items if isinstance(index, TupleVariable) and index.python_type() is tuple else [index]
        known: dict[Variable, Variable] = {}
        for dim, part in enumerate(() if self.inner else parts):
            if isinstance(part, TensorVariable) and _is_place(part) and foresee(self.tx, part.node, item) is MISSING:
                read = part.method(self.tx, "item", [], {})
                known[part] = self.symbol_of(read.node, 0) if isinstance(read, NumberVariable) else read
            if isinstance(part, NumberVariable) and part.kind is int and is_late(part):
                answer = foresee(self.tx, part.node, number)
                known[part] = ConstantVariable(answer) if answer is not MISSING else self.symbol_of(part.node, 0)
            if isinstance(part, SliceVariable) and all(each.python_type() in (int, slice) for each in parts[:dim]):
                ends = [each for each in part.parts[:2] if _is_from_end(each)]
                known.update((each, self._from_end(each, tensor, dim)) for each in ends)  # type: ignore[arg-type]
                known.update({} if ends else self._window(part, tensor, dim))
        return replaced(index, known) if known else index

    def _window(self, part: SliceVariable, tensor: TensorVariable, dim: int) -> dict[Variable, Variable]:
        """`n : n + 4`, as symbols, of which the graph checks that they are inside: then that is the size."""
        start, stop, step = part.parts
        numbers = [each for each in (start, stop) if isinstance(each, NumberVariable) and each.kind is int]
        is_plain = len(numbers) == 2 and all(map(is_late, numbers)) and dim < tensor.fake.dim()
        is_plain = is_plain and numbers[0].node in numbers[1].node.all_input_nodes and _is_one(step)
        if not is_plain or any(foresee(self.tx, each.node, number) is not MISSING for each in numbers):
            return {}
        first, last = (self.symbol_of(each.node, 0) for each in numbers)
        self._at_most(last, self.sizes(tensor)[dim])
        return {start: first, stop: last}

    def _from_end(self, end: NumberVariable, tensor: TensorVariable, dim: int) -> Variable:
        """`-n` of a slice, counted from the beginning."""
        (count,) = end.node.all_input_nodes
        if dim >= tensor.fake.dim() or foresee(self.tx, end.node, number) is not MISSING:
            return end
        size, found = self.sizes(tensor)[dim], self.symbol_of(count, SMALLEST)
        self._at_most(found, size)
        return self.tx.binary(operator.sub, size, found)

    def check_place(self, place: Variable, tensor: TensorVariable, dim: int) -> None:
        """Checks that a symbol that depends on values is less than a size."""
        if isinstance(place, SymbolVariable) and place.value.node.hint is None:
            assert self.shapes is not None
            size = self.sizes(tensor)[dim]
            last = self.tx.binary(operator.sub, size, ConstantVariable(1))
            self._at_most(place, last)

    def _at_most(self, one: Variable, other: Variable) -> None:
        (node, number), (most, limit) = self._argument(one), self._argument(other)
        self._take(number <= limit, must_be_at_most, [node, most], f"{one.describe()} is more than {other.describe()}")

    def _take(self, so: Any, check: Callable[..., int], args: list[Any], otherwise: str) -> None:
        """It is true from here on, which the graph checks, unless that contradicts what it has checked before."""
        assert self.shapes is not None
        if self.shapes.env.is_never(so):
            raise GraphBreak("output shape depends on values", otherwise)
        self._check(check, args)
        self.shapes.env.told(so)

    # --- what is taken to be true -----------------------------------------------------------------------------------
    def _born(self) -> list[Any]:
        """The sizes that depend on values and came up with the operation that was run last. What it took to be true of
        those before is checked first."""
        assert self.shapes is not None
        born = self.shapes.env.born()
        self._of_results = []
        for expr in self.shapes.env.assumed():
            if expr.free_symbols.isdisjoint(born):
                self._check_assumed(expr)
            else:
                self._of_results.append(expr)
        return born

    def _check_assumed(self, expr: Any) -> None:
        if self.inner or not all(map(self._check_said, sympy.And.make_args(expr))):
            # What was taken to be true is known from here on.
            cause = GraphBreak("tensor value needed while tracing", str(expr))
            raise Restart(self.tx.anchor(), self.tx.located(cause))

    def _check_said(self, expr: Any) -> bool:
        """Records a check that it is true; whether there is a word for that."""
        row = _RELATIONS.get(expr.func)
        if row is None:
            return False
        check, order, more = row
        sides = [self._known_expression(side) for side in expr.args[::order]]
        if None in sides:
            return False
        if more:
            sides[0] = self.tx.binary(operator.add, sides[0], ConstantVariable(more))
        self._check(check, [self._argument(side)[0] for side in sides])
        return True

    def _known_expression(self, expr: Any) -> Any:
        """The variable of that number; None if it is none that the graph has, or can compute."""
        if expr.is_Integer:
            return ConstantVariable(int(expr))
        if expr in self._symbols:
            return self._symbols[expr]
        if expr.is_Symbol:
            having = [each for each in self.tensors() if any(is_symbol(size, expr) for size in each.fake.shape)]
            return next((self._symbols[expr] for each in having if self.sizes(each) and expr in self._symbols), None)
        operation = _OPERATIONS.get(expr.func)
        parts = [self._known_expression(each) for each in expr.args] if operation is not None else [None]
        if None in parts:
            return None
        return functools.reduce(functools.partial(self.tx.binary, operation), parts)

    def check_number(self, number: NumberVariable, wanted: bool) -> None:
        """Records a check that a number is true, or is not."""
        truth = self.here(number.node)
        if number.kind is not bool:
            truth = self._node("call_function", operator.ne, (truth, 0), {}, True)
        self._check(must_be_so, [truth, wanted], number.describe())

    def _must_run_again(self, why: str) -> None:
        if self.tx.first_check is None:
            self.tx.first_check = self.tx.anchor(), why

    def _check(self, check: Callable[..., int], args: list[Any], why: str = "a size") -> None:
        """Records a check of what depends on values: where it fails, the frame runs again as it was written."""
        if self.inner:
            raise GraphBreak("output shape depends on values", why)
        self._must_run_again(why)
        self._node("call_function", check, tuple(args), {}, SMALLEST)

    def _check_sizes(self, born: list[Any], made: Variable) -> None:
        """Records checks that these sizes of a result are such as the capture takes them for."""
        tensors = list(_tensors(made))
        for symbol in born:
            numbers = [size for tensor in tensors for size in self.sizes(tensor)]
            found = [each for each in numbers if isinstance(each, SymbolVariable) and is_symbol(each.value, symbol)]
            if not found or self.inner:
                raise GraphBreak("output shape depends on values", made.describe())
            self._check(must_be_usual, [self._argument(found[0])[0]])
        for expr in self._of_results:
            self._check_assumed(expr)

    def _check_computed(self, made: Variable) -> None:
        """The same of sizes that are computed of such."""
        assert self.shapes is not None
        for tensor in _tensors(made):
            if any(isinstance(size, torch.SymInt) and not self.shapes.env.is_usual(size) for size in tensor.fake.shape):
                if self.inner:
                    raise GraphBreak("output shape depends on values", made.describe())
                for size in self.sizes(tensor):
                    if isinstance(size, SymbolVariable):
                        self._make_usual(size)


def _tensors(made: Variable) -> Iterator[TensorVariable]:
    results = made.items if isinstance(made, (TupleVariable, ListVariable)) else [made]
    return (each for each in results if isinstance(each, TensorVariable))


def _plain(number: Any) -> Variable:
    return ConstantVariable(number)


def _is_one(step: Variable) -> bool:
    return isinstance(step, ConstantVariable) and step.value in (None, 1)


def _is_place(index: TensorVariable) -> bool:
    """Whether torch reads it, and takes it for an int."""
    return index.fake.dim() == 0 and index.fake.dtype in _INTS - {torch.uint8}


def _is_from_end(end: Variable) -> bool:
    return isinstance(end, NumberVariable) and end.kind is int and is_late(end) and end.node.target is operator.neg


def is_symbol(size: Any, symbol: Any) -> bool:
    return isinstance(size, torch.SymInt) and size.node.expr == symbol

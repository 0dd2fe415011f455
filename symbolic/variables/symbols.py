"""Numbers that come of sizes that may vary: symbols of the shape environment, nodes of the graph.

Arithmetic of them is recorded; what is asked of them (comparisons, truth) is answered for the inputs at hand and
guarded. Where a plain number is needed, `constant` fixes the sizes that it comes of.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from symbolic.errors import GraphBreak
from symbolic.shapes import MOST_SAID, Shapes
from symbolic.shares import is_of_integers
from symbolic.sources import Source
from symbolic.variables.base import BINARY, COMPARISONS, MISSING, NUMBERS, Variable
from symbolic.variables.computed import OF_INTS, decide, derive, side
from symbolic.variables.constants import ConstantVariable
from symbolic.variables.methods import NativeMethod
from symbolic.variables.numbers import DECIDE, FLOAT_FUNCTIONS, Given, float_power, settled, sound
from symbolic.variables.tables import HANDLERS, POLYFILLS, PURE, BuiltinVariable, CallableTable
from symbolic.variables.tensors import TensorVariable

if TYPE_CHECKING:
    from symbolic.translator import Translator

_COMPARISONS = frozenset(COMPARISONS.values())
_COMPARED_BY = tuple(BINARY[op][0] for op in COMPARISONS.values())
_DIVISIONS = frozenset({operator.truediv, operator.floordiv, operator.mod})
#: What is recorded of integers, and of these with floats; other operators get plain numbers.
_OF_INTEGERS = _DIVISIONS | {operator.add, operator.sub, operator.mul, operator.pow}
_OF_FLOATS = frozenset({operator.add, operator.sub, operator.mul, operator.truediv})


class SymbolVariable(Given):
    """An int or float that comes of sizes: `value` a SymInt or SymFloat, `number` what it is for the inputs at hand,
    `output` what stands for it among the graph's results."""

    def __init__(self, node: fx.Node, value: Any, number: int | float, shapes: Shapes, output: Variable) -> None:
        self.node = node
        self.value = value
        self.number = number
        self.shapes = shapes
        self.output = output
        self.inputs = (self,)

    def settle(self) -> None:
        if self.value.node.hint is None:  # what is computed of it was computed of an example
            raise GraphBreak("tensor value needed", self.describe())
        self.constant()

    def python_type(self) -> type:
        return type(self.number)

    def varies(self) -> bool:
        return True

    def constant(self) -> Any:
        """The plain number, from here on fixed. One that depends on values has no example: there may be no choice."""
        found = self.shapes.fix(self.value)
        return self.number if self.value.node.hint is not None else found

    def plain(self) -> ConstantVariable:
        return ConstantVariable(self.constant())

    def key(self) -> Any:
        return self.constant()

    def reachable(self) -> list[Variable]:
        return [self.output]

    def describe(self) -> str:
        return f"number %{self.node.name}"

    def getattr(self, tx: Translator, name: str) -> Variable:
        return self.plain().getattr(tx, name)

    def method(self, tx: Translator, name: str, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        return self.plain().method(tx, name, args, kwargs)

    def truth(self, tx: Translator) -> bool:
        return _compare(tx, operator.ne, self, ConstantVariable(0))

    def binary(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        if isinstance(other, (SymbolVariable, ConstantVariable)):
            return _binary(tx, op, self, other)
        return _plainly(tx, op, self, other) if _is_derived(other) else None

    def rbinary(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        if isinstance(other, ConstantVariable):
            return _binary(tx, op, other, self)
        return _plainly(tx, op, other, self) if _is_derived(other) else None

    def unary(self, tx: Translator, op: Any) -> Variable:
        if op is operator.neg or (op is abs and self.python_type() is int):
            return tx.graph.number(op, [self], op(self.value), op(self.number))
        return self if op is operator.pos else self.plain().unary(tx, op)

    def is_same(self, tx: Translator, other: Variable) -> bool:
        if self is not other and other.python_type() is self.python_type():
            raise GraphBreak("identity of numbers", f"{self.describe()} is {other.describe()}")
        return self is other


class SymbolInput(SymbolVariable):
    """An int that came in."""

    def __init__(self, node: fx.Node, value: Any, number: int, shapes: Shapes, source: Source) -> None:
        super().__init__(node, value, number, shapes, self)
        self.source = source

    def reachable(self) -> list[Variable]:
        return []


def _is_derived(variable: Variable) -> bool:
    """Whether it is a number of a class of its own."""
    kind = variable.python_type()
    return issubclass(kind, NUMBERS) and kind not in (*NUMBERS, bool)


# --- operators --------------------------------------------------------------------------------------------------------
def _parts(variable: Any) -> tuple[Any, Any]:
    """(expression, number for the inputs at hand)"""
    if isinstance(variable, SymbolVariable):
        return variable.value, variable.number
    known = variable.constant()  # settled, if it is a number that is another one at every call
    return known, known


def _as_int(variable: Variable) -> Variable:
    """What is compared in the place of a constant that is an int by its class's base, and compares as ints do."""
    kind = variable.python_type()
    if not isinstance(variable, ConstantVariable) or kind is int or not issubclass(kind, int):
        return variable
    if any(getattr(kind, name) is not getattr(int, name) for name in _COMPARED_BY):
        return variable
    return ConstantVariable(int.__index__(variable.value))


def _binary(tx: Translator, op: Any, left: Variable, right: Variable) -> Variable | None:
    if op in _COMPARISONS:
        left, right = _as_int(left), _as_int(right)
    kinds = {left.python_type(), right.python_type()}
    if not kinds <= {int, float}:
        if op in (operator.eq, operator.ne) and not all(issubclass(kind, NUMBERS) for kind in kinds):
            return None
        return _plainly(tx, op, left, right)
    if op in _COMPARISONS:
        return ConstantVariable(_compare(tx, op, left, right))
    if op is divmod and kinds == {int}:
        parts = [_binary(tx, part, left, right) for part in (operator.floordiv, operator.mod)]
        return tx.new_tuple([part for part in parts if part is not None])
    if op is operator.pow and float in kinds:  # torch has it as something else, with other results
        return float_power(tx, left, right) or _plainly(tx, op, left, right)
    if kinds == {int} and op in OF_INTS and not (op is operator.pow and _is_small(right)):
        return derive(tx, OF_INTS[op], [side(left), side(right)]) or _plainly(tx, op, left, right)
    if op not in (_OF_INTEGERS if kinds == {int} else _OF_FLOATS):
        return _plainly(tx, op, left, right)
    if op in _DIVISIONS and not tx.truth(right):
        return _plainly(tx, op, left, right)
    (a, first), (b, second) = _parts(left), _parts(right)
    value = op(a, b)
    if _is_long(value):
        return _plainly(tx, op, left, right)
    return tx.graph.number(op, [left, right], value, op(first, second))


def _is_long(value: Any) -> bool:
    """Whether it comes of so many steps that it is to be a plain number. (One that depends on values can't be.)"""
    varies = isinstance(value, torch.SymInt | torch.SymFloat) and value.node.hint is not None
    return varies and value.node.expr.count_ops() > MOST_SAID


def _is_small(exponent: Variable) -> bool:
    return isinstance(exponent, ConstantVariable) and 0 <= exponent.value <= 64


def _plainly(tx: Translator, op: Any, left: Variable, right: Variable) -> Variable:
    return tx.binary(op, settled(left, SymbolVariable), settled(right, SymbolVariable))


def _compare(tx: Translator, op: Any, left: Any, right: Any) -> bool:
    """The answer for the inputs at hand, guarded. Floats are compared as such; what they come of is fixed where that is
    more than one number."""
    if float in (left.python_type(), right.python_type()):
        answer = decide(tx, op, [side(left), side(right)])
        if answer is not MISSING:
            return bool(answer)
        return bool(op(settled(left, SymbolVariable).constant(), settled(right, SymbolVariable).constant()))
    return tx.graph.ask(op, _parts(left)[0], _parts(right)[0])


# --- builtins ---------------------------------------------------------------------------------------------------------
Row = Callable[["Translator", list[Variable]], "Variable | None"]


def _length(tx: Translator, args: list[Variable]) -> Variable | None:
    return args[0].rows(tx) if len(args) == 1 and isinstance(args[0], TensorVariable) else None


def _extreme(recorded: Callable[..., Any], function: Any) -> Row:
    """max or min of integers or of floats: no condition on which it is."""

    def row(tx: Translator, args: list[Variable]) -> Variable | None:
        if len(args) < 2 or not _any_symbol(args):
            return None
        if all(isinstance(arg, (Given, ConstantVariable)) and arg.python_type() is float for arg in args):
            return tx.graph.compute(function, args, float)
        if len(args) != 2 or not all(arg.python_type() is int for arg in args):
            return None
        (a, first), (b, second) = map(_parts, args)
        return tx.graph.number(recorded, args, recorded(a, b), function(first, second))

    return row


def _as_float(tx: Translator, args: list[Variable]) -> Variable | None:
    if len(args) != 1 or not isinstance(number := args[0], SymbolVariable):
        return None
    return tx.graph.number(torch.sym_float, args, torch.sym_float(number.value), float(number.number))


def _recorded(fn: Any) -> Row:
    """A function of `math` that gives a float."""

    def row(tx: Translator, args: list[Variable]) -> Variable | None:
        is_known = all(isinstance(arg, (Given, ConstantVariable)) and arg.python_type() in (int, float) for arg in args)
        return sound(tx, tx.graph.compute(fn, args, float)) if is_known and _any_symbol(args) else None

    return row


def _decided(fn: Any) -> Row:
    """A function that says yes or no."""

    def row(tx: Translator, args: list[Variable]) -> Variable | None:
        is_one = len(args) == 1 and isinstance(args[0], SymbolVariable)
        answer = decide(tx, fn, [side(args[0])]) if is_one else MISSING
        return None if answer is MISSING else ConstantVariable(answer)

    return row


def _is_share(number: SymbolVariable) -> bool:
    """Whether it comes of an int at once: of several steps of floats torch makes one, which rounds otherwise."""
    operands = [each.meta["example_value"] for each in number.node.all_input_nodes]
    return number.value.node.hint is not None and all(isinstance(each, torch.SymInt) for each in operands)


#: function -> what is recorded for it where the result is as good as one of integers
_WHOLE = {int: torch.sym_int, math.trunc: torch.sym_int, math.floor: math.floor, math.ceil: math.ceil}


def _integer(fn: Any) -> Row:
    """What makes an int of a number."""

    def row(tx: Translator, args: list[Variable]) -> Variable | None:
        if len(args) != 1 or not isinstance(args[0], SymbolVariable):
            return None
        if args[0].python_type() is int:
            return args[0]
        recorded = _WHOLE.get(fn)
        if recorded is not None and _is_share(args[0]):
            made = recorded(args[0].value)
            if is_of_integers(made.node.expr):
                return tx.graph.number(recorded, args, made, fn(args[0].number))
        return tx.graph.compute(fn, args, int)

    return row


#: Builtins that know symbols. None: the call means what it means for other values.
_ROWS: CallableTable[Row] = CallableTable(
    {
        len: _length, max: _extreme(torch.sym_max, max), min: _extreme(torch.sym_min, min), float: _as_float,
        **{fn: _integer(fn) for fn in (int, round, math.floor, math.ceil, math.trunc, operator.index)},
        **{fn: _recorded(fn) for fn in FLOAT_FUNCTIONS}, **{fn: _decided(fn) for fn in DECIDE},
    }
)  # fmt: skip
#: Builtins that want plain numbers, in containers too.
_PLAIN: CallableTable[bool] = CallableTable({hash: True})


def call(tx: Translator, function: Variable, args: list[Variable], kwargs: dict[str, Variable]) -> Variable | None:
    """A call of a native function that symbols have a rule for; None: as for any other values."""
    if isinstance(function, BuiltinVariable):
        fn = function.value
        row = _ROWS.get(fn) if not kwargs else None
        if row is not None and (answer := row(tx, args)) is not None:
            return answer
        only_computes = fn in PURE and fn not in HANDLERS and fn not in POLYFILLS and _any_symbol(args)
        if not only_computes and fn not in _PLAIN:
            return None
        are_numbers = only_computes and not kwargs and all(isinstance(arg, (Given, ConstantVariable)) for arg in args)
        if are_numbers and (made := derive(tx, fn, [*map(side, args)])) is not None:
            return made
    elif not isinstance(function, NativeMethod) or not function.owner.is_constant() or function.name == "format":
        return None
    plain = [settled(arg, SymbolVariable) for arg in args]
    return function.call(tx, plain, {name: settled(arg, SymbolVariable) for name, arg in kwargs.items()})


def _any_symbol(args: list[Variable]) -> bool:
    return any(isinstance(arg, SymbolVariable) for arg in args)

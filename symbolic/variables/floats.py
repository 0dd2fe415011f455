"""Floats that are known only when the graph runs: what `.item()` reads from a tensor, floats that come in with another
value at every call, and what is computed from these.

Arithmetic is recorded as Python's own, so results have the bits of eager code. What a program decides by such a number
(a comparison, its text, a conversion to int) breaks the graph, or is guarded if the number came in.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from symbolic.errors import GraphBreak
from symbolic.sources import Source
from symbolic.variables.base import Variable
from symbolic.variables.constants import ConstantVariable
from symbolic.variables.containers import ListVariable, TupleVariable
from symbolic.variables.tensors import METHODS, NumberOutput, TensorVariable

if TYPE_CHECKING:
    from symbolic.translator import Translator

#: What operations get for such a number in the fake run. Nothing that they answer there depends on it.
STAND_IN = 0.5
#: Operations whose result has a shape that depends on the value of a float.
SIZED_BY_VALUES = frozenset({torch.arange, torch.range, torch.nn.functional.interpolate, torch.nn.functional.upsample})


class FloatVariable(Variable):
    """A float that a node of the graph gives."""

    def __init__(self, node: fx.Node) -> None:
        self.node = node
        self.output = NumberOutput(node, STAND_IN)  # type: ignore[arg-type]

    def python_type(self) -> type:
        return float

    def constant(self) -> Any:
        raise GraphBreak("tensor value needed", self.describe())

    def plain(self) -> ConstantVariable:
        return ConstantVariable(self.constant())

    def key(self) -> Any:
        return self.constant()

    def truth(self, tx: Translator) -> bool:
        return bool(self.constant())

    def reachable(self) -> list[Variable]:
        return [self.output]

    def describe(self) -> str:
        return f"number %{self.node.name}"

    def getattr(self, tx: Translator, name: str) -> Variable:
        return self.plain().getattr(tx, name)

    def method(self, tx: Translator, name: str, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        return self.plain().method(tx, name, args, kwargs)

    def binary(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        return _compute(tx, op, self, other)

    def rbinary(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        return _compute(tx, op, other, self)

    def unary(self, tx: Translator, op: Any) -> Variable:
        if op in (operator.neg, operator.pos, abs):
            return tx.graph.scalar("call_function", op, [self])
        return self.plain().unary(tx, op)

    def is_same(self, tx: Translator, other: Variable) -> bool:
        if self is not other and other.python_type() is float:
            raise GraphBreak("identity of numbers", f"{self.describe()} is {other.describe()}")
        return self is other


class FloatInput(FloatVariable):
    """A float that came in. Where its value is needed, it is guarded."""

    def __init__(self, node: fx.Node, value: float, source: Source, tx: Translator) -> None:
        super().__init__(node)
        self.value = value
        self.source = source
        self.tx = tx

    def is_constant(self) -> bool:
        return True

    def constant(self) -> Any:
        self.tx.know(self.source, "eq", self.value)
        return self.value

    def reachable(self) -> list[Variable]:
        return []


def holds_float(variables: Iterable[Variable]) -> bool:
    """Whether one of these, or an element of one, is a float of the graph."""
    return any(
        isinstance(v, FloatVariable) or (isinstance(v, (TupleVariable, ListVariable)) and holds_float(v.items))
        for v in variables
    )


def real_power(base: float, exponent: float) -> float:
    """`base ** exponent` where that is a float. Raises ValueError where it is complex."""
    result = base**exponent
    if isinstance(result, complex):
        raise ValueError(f"{base} ** {exponent} is complex")
    return result


#: operator -> what is recorded for it
_RECORDED = {
    operator.add: operator.add,
    operator.sub: operator.sub,
    operator.mul: operator.mul,
    operator.truediv: operator.truediv,
    operator.pow: real_power,
}


def _compute(tx: Translator, op: Any, left: Variable, right: Variable) -> Variable | None:
    operands = (left, right)
    if any(isinstance(operand, TensorVariable) for operand in operands):
        return None
    if not all(operand.python_type() in (int, float) for operand in operands) or op not in _RECORDED:
        plain = [operand.plain() if isinstance(operand, FloatVariable) else operand for operand in operands]
        return tx.binary(op, *plain)
    return tx.graph.scalar("call_function", _RECORDED[op], [left, right])


def _item(tx: Translator, tensor: Variable) -> Variable:
    assert isinstance(tensor, TensorVariable)
    if not tensor.fake.is_floating_point() or tensor.fake.numel() != 1:
        raise GraphBreak("tensor value needed", "item")
    return tx.graph.scalar("call_method", "item", [tensor])


METHODS["item"] = _item

"""What calls before the graph give: numbers and tensors are inputs of the graph, arrays are computed with before it.

The call itself is run while tracing, too, on an example, which says what kind of value the program will have.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from symbolic.errors import GraphBreak
from symbolic.variables.base import BINARY, MISSING, UNARY, Variable
from symbolic.variables.constants import ConstantVariable
from symbolic.variables.methods import NativeMethod
from symbolic.variables.numbers import DrawnNumber
from symbolic.variables.outside import Answer
from symbolic.variables.tables import known, library
from symbolic.variables.torch_functions import HANDLERS as TORCH_HANDLERS

if TYPE_CHECKING:
    from symbolic.translator import Translator

try:
    import numpy
except ImportError:  # torch does without it, too
    numpy = None  # type: ignore[assignment]

NONE = ConstantVariable(None)
#: How many values a list may have that are told apart.
_LIMIT = 256


def early(
    tx: Translator, example: Any, name: str, function: Any, args: list[Variable], kwargs: dict[str, Variable]
) -> Variable:
    """`function(*args, **kwargs)` before the graph, which gives the like of `example`."""
    called = library(tx, function)
    if tx.graph.inner:
        raise GraphBreak("random numbers inside of a graph", name)
    kind = type(example)
    result: Variable
    if kind in (int, float):
        result = tx.graph.add_drawn(kind, name)
    elif kind is torch.Tensor:
        _check_modes(tx, name)
        result = tx.graph.add_drawn_tensor(example, name)
    elif numpy is not None and isinstance(example, (numpy.ndarray, numpy.generic)):
        result = DrawnArray(example, name)
    elif kind in (list, tuple) and len(example) <= _LIMIT:
        result = Answer(kind)
        tx.ledger.early(result, called, *args, **kwargs)
        at = [tx.from_constant(index) for index in range(len(example))]
        items = [early(tx, item, name, operator.getitem, [result, i], {}) for item, i in zip(example, at, strict=True)]
        return tx.new_list(items) if kind is list else tx.new_tuple(items)
    elif example is None:
        tx.ledger.early(None, called, *args, **kwargs)
        return NONE
    elif kind in (str, bytes, bool):
        result = Answer(kind)
    else:
        raise GraphBreak("random choice among objects", f"{name} of {kind.__qualname__}")
    tx.ledger.early(result, called, *args, **kwargs)
    return result


def _check_modes(tx: Translator, name: str) -> None:
    """The call is made as if the frame had not yet switched anything: but what draws asks for no gradients."""
    if tx.graph.is_elsewhere() or torch.is_inference_mode_enabled():
        raise GraphBreak("random tensor under a switch of torch's state", name)


def example_of(tx: Translator, variable: Variable, more: int = 0) -> Any:
    """A value for the call on an example: the value if it is known, or one like it (by so much more)."""
    if isinstance(variable, DrawnNumber):
        return variable.value + more
    if isinstance(variable, DrawnArray):
        return variable.example + more if more else variable.example
    if variable.python_type() in (list, tuple):
        items = [example_of(tx, item, more) for item in tx.unpack(variable)]
        return MISSING if any(item is MISSING for item in items) else variable.python_type()(items)
    return known(tx, variable)


def form_of(example: Any) -> Any:
    """What is taken for certain of what a call gives."""
    if isinstance(example, (list, tuple)):
        return type(example), [form_of(item) for item in example]
    return type(example), getattr(example, "dtype", None), getattr(example, "shape", None)


class DrawnArray(Variable):
    """An array of numpy, or a number of its own types, that the residual code has before it calls the graph; what is
    computed of it, it has as well.

    `roots` are the arrays whose memory it may share; `lent` to a tensor, which the graph may change."""

    def __init__(self, example: Any, name: str) -> None:
        self.example = example
        self.name = name
        self.roots: tuple[DrawnArray, ...] = ()
        self.lent = False
        self.joined: Any = None  # what stands for it in the graph, beside other arrays

    def python_type(self) -> type:
        return type(self.example)

    def _compute(self, tx: Translator, function: Any, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        values = [example_of(tx, arg) for arg in args]
        named = {name: example_of(tx, arg) for name, arg in kwargs.items()}
        arrays = [arg for arg in args if isinstance(arg, DrawnArray)]
        if any(each.lent for array in arrays for each in (array, *array.roots)):
            raise GraphBreak("array that shares memory with a tensor", self.describe())
        result = early(tx, tx.attempt(function, *values, **named), self.name, function, args, kwargs)
        if isinstance(result, DrawnArray):
            result.roots = tuple(each for array in arrays for each in (array, *array.roots))
        return result

    def getattr(self, tx: Translator, name: str) -> Variable:
        if name in ("shape", "ndim", "size", "itemsize", "nbytes"):
            return tx.from_constant(getattr(self.example, name))
        if name in _METHODS:
            return NativeMethod(self, name)
        raise GraphBreak("attribute of an array", name)

    def method(self, tx: Translator, name: str, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        if name not in _METHODS or not all(arg.is_constant() for arg in (*args, *kwargs.values())):
            raise GraphBreak("method of an array", name)
        return self._compute(tx, getattr(self.python_type(), name), [self, *args], kwargs)

    def getitem(self, tx: Translator, index: Variable) -> Variable:
        if not index.is_constant():
            raise GraphBreak("index of an array", index.describe())
        return self._compute(tx, operator.getitem, [self, index], {})

    def length(self, tx: Translator) -> int:
        return tx.attempt(len, self.example)

    def binary(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        return self._compute(tx, op, [self, other], {}) if _goes_with(op, other) else None

    def rbinary(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        return self._compute(tx, op, [other, self], {}) if _goes_with(op, other) else None

    def unary(self, tx: Translator, op: Any) -> Variable:
        return self._compute(tx, op, [self], {}) if op in UNARY else super().unary(tx, op)


def _goes_with(op: Any, other: Variable) -> bool:
    if issubclass(other.python_type(), (numpy.ndarray, numpy.generic)) and not isinstance(other, DrawnArray):
        return False  # which answers
    if not isinstance(other, (ConstantVariable, DrawnArray, DrawnNumber)):
        raise GraphBreak("array beside what is not known before the graph", other.describe())
    return op in BINARY


_METHODS = frozenset(
    """all any argmax argmin argsort astype clip copy cumsum flatten item max mean min prod ravel repeat reshape round
    squeeze std sum swapaxes tolist transpose var""".split()
)


def _to_tensor(function: Callable[..., Any], lends: bool) -> None:
    before = TORCH_HANDLERS.get(function)

    def handler(tx: Translator, *args: Variable, **kwargs: Variable) -> Variable:
        array = args[0] if args else None
        if not isinstance(array, DrawnArray):
            if before is not None:
                return before(tx, *args, **kwargs)
            if function is torch.from_numpy:
                raise GraphBreak("numpy array", "torch.from_numpy")
            return tx.graph.call(function, list(args), kwargs)
        result = array._compute(tx, function, list(args), kwargs)
        for each in (array, *array.roots):
            each.lent = each.lent or lends
        return result

    TORCH_HANDLERS[function] = handler


_to_tensor(torch.from_numpy, True)
_to_tensor(torch.as_tensor, True)
_to_tensor(torch.tensor, False)

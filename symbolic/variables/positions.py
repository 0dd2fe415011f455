"""Values that stand for a position, a count or a slice, as Python's `__index__` protocol has it."""

from __future__ import annotations

import operator
from array import array
from collections import deque
from collections.abc import Iterable
from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch

from symbolic.passing import home_of
from symbolic.variables.base import MISSING, Variable, lookup

if TYPE_CHECKING:
    from symbolic.translator import Translator

_MODEST = (int, float, complex, str, bytes, bytearray, list, tuple, deque, array, torch.Size)
HEAP_TYPE, IMMUTABLE = 1 << 9, 1 << 8  # of type.__flags__
#: Of `type.__flags__`: calling the class is an error.
NO_INSTANCES = 1 << 7


def is_python_class(kind: type) -> bool:
    """Whether a class statement made the type, whose attributes so may be set."""
    return bool(kind.__flags__ & HEAP_TYPE) and not kind.__flags__ & IMMUTABLE


def type_name(kind: type) -> str:
    """The name that CPython prints for a type: those written in C, outside of `builtins`, go by their full name."""
    plain = is_python_class(kind) or home_of(kind) == "builtins"
    return kind.__name__ if plain else f"{kind.__module__}.{kind.__name__}"


def has(kind: type, name: str) -> bool:
    """Whether the instances of a class have a special method (`hasattr` would ask the class's own class, too)."""
    found = lookup(kind, name)
    return found is not MISSING and found is not None


def native_part(variable: Variable) -> Variable:
    """The container in an instance of a container's subclass, which other variables call its payload."""
    payload = getattr(variable, "payload", None)
    return payload if isinstance(payload, Variable) else variable


def has_own(variable: Variable, names: Iterable[str]) -> bool:
    """Whether it is an object whose class has one of these methods written in Python."""
    kind = variable.python_type()
    return hasattr(variable, "special") and any(isinstance(lookup(kind, name), FunctionType) for name in names)


def answers(other: Variable, reflected: str) -> bool:
    """Whether the right operand may have its own idea of an operation with a sequence on the left. (Python's numbers
    and sequences have none; tensors were asked before.)"""
    kind = other.python_type()
    method = lookup(kind, reflected)
    if method is MISSING or method is None or issubclass(kind, torch.Tensor):
        return False
    return getattr(method, "__objclass__", None) not in _MODEST


def stand_in(variable: Variable) -> Any:
    """An object that Python's own code takes for the value: the value if it is known, or one of a class of the same
    name, so that the error message is right: with the value, where that is native, else one that is no index and no
    iterable. A text or a truth that is not known breaks the graph."""
    if variable.is_constant() or variable.python_type() in (str, bool):
        return variable.constant()
    part, name = native_part(variable), type_name(variable.python_type())
    if part is not variable and part.is_constant():
        value = part.constant()
        return type(name, (type(value),), {})(value)
    return type(name, (), {})()


def answering(name: str, value: Any, called: str = "Answering") -> Any:
    """An object of a class of that name whose special method gives `value`, for Python's own code to judge."""
    return type(called, (), {name: lambda self: value})()


def as_index(tx: Translator, variable: Variable) -> Any:
    """The value of an argument that stands for a position, a count or a slice."""
    kind = variable.python_type()
    if variable.is_constant() and not issubclass(kind, type):
        value = variable.constant()
        return value if isinstance(value, int) or not has(kind, "__index__") else tx.attempt(operator.index, value)
    if kind is slice:
        step, start, stop = (_bound(tx, variable.getattr(tx, name)) for name in ("step", "start", "stop"))
        return slice(start, stop, step)
    if issubclass(kind, int):  # whose `__index__` nobody asks
        return int(native_part(variable).constant())
    return _asked(tx, variable) if has(kind, "__index__") else stand_in(variable)


def _bound(tx: Translator, part: Variable) -> Any:
    """Of a slice, whose bounds are asked in the order of the caller."""
    kind = part.python_type()
    if kind is not type(None) and not has(kind, "__index__"):
        tx.raise_(TypeError, "slice indices must be integers or None or have an __index__ method")
    return as_index(tx, part)


def _asked(tx: Translator, variable: Variable) -> int:
    """The answer of its `__index__`."""
    method = index_method(tx, variable)
    answer = tx.call(method if method is not None else tx.getattr(variable, "__index__"), [], {}).constant()
    if not isinstance(answer, int):
        tx.raise_(TypeError, f"__index__ returned non-int (type {type_name(type(answer))})")
    return answer


def index_method(tx: Translator, variable: Variable) -> Variable | None:
    """The `__index__` that the program's class has for an object, or its metaclass for a class."""
    ask = getattr(variable, "special", None) or getattr(variable, "of_metaclass", None)
    return ask(tx, "__index__") if ask is not None else None

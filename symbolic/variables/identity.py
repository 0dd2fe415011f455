"""`id(value)` as a value, and `hash(value)` where that comes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from symbolic.errors import UNSURE, GraphBreak
from symbolic.variables.base import Identity, Variable
from symbolic.variables.constants import ConstantVariable

if TYPE_CHECKING:
    from symbolic.translator import Translator


class IdVariable(Variable):
    """`id(value)`: compared and used as a key while tracing; as a number it exists only when the program runs."""

    def __init__(self, value: Variable) -> None:
        if getattr(value, "is_unsure", False):
            raise GraphBreak(UNSURE, value.describe())
        self.value = value

    def python_type(self) -> type:
        return int

    def key(self) -> Any:
        return ("id", Identity(self.value))

    def truth(self, tx: Translator) -> bool:
        return True

    def binary(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        if type(other) is type(self) and op.__name__ in ("eq", "ne"):
            return ConstantVariable(self.value.is_same(tx, other.value) is (op.__name__ == "eq"))
        raise GraphBreak("identity number needed", self.describe())

    def unary(self, tx: Translator, op: Any) -> Variable:
        raise GraphBreak("identity number needed", self.describe())

    def is_same(self, tx: Translator, other: Variable) -> bool:
        raise GraphBreak("identity number needed", self.describe())

    def reachable(self) -> list[Variable]:
        return [self.value]

    def describe(self) -> str:
        return f"id of {self.value.describe()}"


class HashVariable(IdVariable):
    """`hash(value)` of an object that is hashed by identity: no two of these that are there at a time have the same."""

    def key(self) -> Any:
        return ("hash", Identity(self.value))

    def truth(self, tx: Translator) -> bool:
        raise GraphBreak("identity number needed", self.describe())

    def describe(self) -> str:
        return f"hash of {self.value.describe()}"

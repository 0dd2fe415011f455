"""Methods of values that are not Python functions, bound: `[].append`, `"".join`, `tensor.add`, `generator.send`."""

from __future__ import annotations

import inspect
import operator
from types import (
    BuiltinMethodType,
    ClassMethodDescriptorType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    WrapperDescriptorType,
)
from typing import TYPE_CHECKING, Any

from symbolic.errors import GraphBreak, Observed
from symbolic.sources import Source
from symbolic.variables.base import MISSING, Identity, Variable, lookup
from symbolic.variables.positions import type_name

if TYPE_CHECKING:
    from symbolic.frames import Frame
    from symbolic.translator import Translator

#: type of a method as a class holds it -> type of the bound method
_BOUND: dict[Any, type] = {
    WrapperDescriptorType: MethodWrapperType,
    MethodDescriptorType: BuiltinMethodType,
    ClassMethodDescriptorType: BuiltinMethodType,
}
#: What a bound method has of the one that the class holds.
_NAMES = frozenset(("__name__", "__qualname__", "__doc__", "__text_signature__"))


def native_method(tx: Translator, owner: Variable, name: str) -> Variable:
    """`owner.name`, where the owner has nothing but what its type says."""
    raw = lookup(owner.python_type(), name)
    if raw is MISSING:
        tx.raise_(AttributeError, f"{type_name(owner.python_type())!r} object has no attribute {name!r}")
    if name == "__class__":
        return tx.class_of(owner)
    if not (inspect.isfunction(raw) or inspect.ismethoddescriptor(raw)):
        raise GraphBreak("attribute access not supported", f"{owner.describe()}.{name}")
    return NativeMethod(owner, name)


class NativeMethod(Variable):
    """`owner.name` as a value: calling it is `owner.method(tx, name, ...)`. `source` is set where `value` existed."""

    def __init__(self, owner: Variable, name: str, source: Source | None = None, value: Any = MISSING) -> None:
        self.owner = owner
        self.name = name
        self.source = source
        self.value = value
        self.is_called = False  # at once, as `owner.name(...)`

    def __str__(self) -> str:
        return f"{self.owner}.{self.name}"

    def python_type(self) -> type:
        return _BOUND.get(type(inspect.getattr_static(self.owner.python_type(), self.name)), MethodType)

    def real(self) -> Any:
        return self.value

    def key(self) -> Any:
        if self.owner.is_constant():
            raise GraphBreak("identity of a constant", self.describe())
        return (NativeMethod, Identity(self.owner), self.name)

    def call(self, tx: Translator, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        try:
            return self.owner.method(tx, self.name, args, kwargs)
        except Observed as raised:
            if not self.is_called and self.owner.whole is not self.owner:
                self._say_again(tx, raised)
            raise

    def _say_again(self, tx: Translator, raised: Observed) -> None:
        """What is wrong with the arguments is said of the class of the owner, but in a call where the method is read:
        then of the class that has the method."""
        said = tx.getattr(raised.variable, "args")
        words = said.constant() if raised.variable.python_type() is TypeError and said.is_constant() else ()
        before, there, after = str(words[0]).partition(f".{self.name}() takes ") if words else ("", "", "")
        if there and before == self.owner.python_type().__qualname__:
            tx.raise_(TypeError, f"{self.owner.whole.python_type().__qualname__}{there}{after}")

    def getattr(self, tx: Translator, name: str) -> Variable:
        whole = self.owner.whole
        if name == "__self__":
            return whole
        if name == "__qualname__" and whole is not self.owner and self.python_type() is BuiltinMethodType:
            return tx.from_constant(f"{whole.python_type().__qualname__}.{self.name}")
        if name in _NAMES:
            return tx.from_constant(tx.attempt(getattr, getattr(self.owner.python_type(), self.name), name))
        return super().getattr(tx, name)

    def binary(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        if op not in (operator.eq, operator.ne) or not isinstance(other, NativeMethod):
            return None
        same = self.name == other.name and self.owner.is_same(tx, other.owner)
        return tx.from_constant(same is (op is operator.eq))

    def reachable(self) -> list[Variable]:
        return [self.owner]

    keeps = reachable

    def describe(self) -> str:
        return f"{self.owner.describe()}.{self.name}"


class CallMethod(NativeMethod):
    """`function.__call__`, which calls the function."""

    def __init__(self, function: Variable) -> None:
        super().__init__(function, "__call__")

    def enter(self, tx: Translator, args: list[Variable], kwargs: dict[str, Variable]) -> Frame | None:
        return self.owner.enter(tx, args, kwargs)

    def call(self, tx: Translator, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        return tx.call(self.owner, args, kwargs)

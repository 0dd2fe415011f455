"""Variables of the context (`contextvars`): what is set is read when a call begins, and set and reset as effects."""

from __future__ import annotations

from contextvars import Context, ContextVar, Token
from typing import TYPE_CHECKING, Any

from symbolic.errors import GraphBreak
from symbolic.sources import Source
from symbolic.variables.base import FixedVariable, Variable
from symbolic.variables.constants import ConstantVariable
from symbolic.variables.methods import NativeMethod
from symbolic.variables.tables import library

try:
    from numpy._core import umath
except ImportError:  # an older numpy, or none
    umath = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from symbolic.translator import Translator

_UNSET = object()
#: Those that the C++ of a library reads while it computes: numpy's, of what becomes of its errors.
_READ_BY_LIBRARIES = frozenset({getattr(umath, "_extobj_contextvar", None)})
_METHODS = ("get", "set", "reset")


def held(variable: ContextVar[Any]) -> Any:
    """What it was set to in this context."""
    return variable.get(_UNSET)


def default_of(variable: ContextVar[Any]) -> Any:
    """What it gives where nothing has set it. Raises LookupError where that is nothing."""
    return Context().run(variable.get)


class ContextVariable(FixedVariable):
    """A `ContextVar` that exists. What the frame has set it to is in `tx.contexts`; None there: it has reset it to
    nothing."""

    def python_type(self) -> type:
        return ContextVar

    def getattr(self, tx: Translator, name: str) -> Variable:
        if name in _METHODS:
            return NativeMethod(self, name)
        return ConstantVariable(self.value.name) if name == "name" else super().getattr(tx, name)

    def method(self, tx: Translator, name: str, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        if kwargs or name not in _METHODS or len(args) > 1 or (name != "get" and not args):
            return super().method(tx, name, args, kwargs)
        if self.value in _READ_BY_LIBRARIES:
            raise GraphBreak("numpy's errors are not as usual", f"{self.describe()}.{name}")
        tx.repeats.tell(None)
        if name == "get":
            found = self._set_to(tx)
            return found or (args[0] if args else self._default(tx))
        return self._set(tx, args[0]) if name == "set" else self._reset(tx, args[0])

    def _set_to(self, tx: Translator) -> Variable | None:
        if self.value in tx.contexts:
            return tx.contexts[self.value]
        assert self.source is not None
        value, source = held(self.value), self.source.step("call", held)
        if value is _UNSET:
            tx.know(source, "is", _UNSET)
            return None
        return tx.wrap(value, source)

    def _default(self, tx: Translator) -> Variable:
        value = tx.attempt(default_of, self.value)
        assert self.source is not None
        return tx.wrap(value, self.source.step("call", default_of))

    def _set(self, tx: Translator, value: Variable) -> Variable:
        token = ContextToken(self, self.value in tx.contexts, tx.contexts.get(self.value))
        tx.ledger.bear(token, library(tx, ContextVar.set), self, value)
        tx.contexts[self.value] = value
        return token

    def _reset(self, tx: Translator, token: Variable) -> Variable:
        if not isinstance(token, ContextToken) or token.of.value is not self.value or token.is_used:
            raise GraphBreak("threads and tasks", f"{self.describe()}.reset, by a token of another time")
        token.is_used = True
        tx.ledger.call(library(tx, ContextVar.reset), self, token)
        if token.was_known:
            tx.contexts[self.value] = token.before
        else:
            del tx.contexts[self.value]
        return ConstantVariable(None)


class ContextToken(Variable):
    """What `set` gives: made by an effect. `before`: what was set then, if that `was_known`."""

    def __init__(self, of: ContextVariable, was_known: bool, before: Variable | None) -> None:
        self.of = of
        self.was_known = was_known
        self.before = before
        self.is_used = False

    def python_type(self) -> type:
        return Token

    def getattr(self, tx: Translator, name: str) -> Variable:
        return self.of if name == "var" else super().getattr(tx, name)


def existing(tx: Translator, value: ContextVar[Any], source: Source) -> Variable:
    """One that the frame found."""
    if source.kind != "const":
        tx.know(source, "is", value)
    return ContextVariable(value, source)

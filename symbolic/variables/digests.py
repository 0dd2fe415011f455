"""`hashlib`: digests of bytes that are known, as programs name caches and compare settings by."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from symbolic.errors import GraphBreak
from symbolic.variables.base import MISSING, Variable
from symbolic.variables.classes import NATIVE_CONSTRUCTORS
from symbolic.variables.constants import ConstantVariable
from symbolic.variables.methods import NativeMethod
from symbolic.variables.tables import HANDLERS, Args, Kwargs, known, library

if TYPE_CHECKING:
    from symbolic.translator import Translator

#: Attributes that only depend on which digest it is.
_FACTS = ("name", "digest_size", "block_size")
_METHODS = ("update", "digest", "hexdigest", "copy")


class DigestVariable(Variable):
    """`hashlib.sha256(...)` of the frame: `function(*args, **kwargs)`, or a copy, that an effect makes (None). `value`
    is a real one that was told the same as effects tell the program's."""

    def __init__(self, value: Any, function: Any, args: Args, kwargs: Kwargs) -> None:
        self.value = value
        self.function = function
        self.args = args
        self.kwargs = kwargs

    def python_type(self) -> type:
        return type(self.value)

    def getattr(self, tx: Translator, name: str) -> Variable:
        if name in _FACTS:
            return tx.from_constant(getattr(self.value, name))
        if name in _METHODS:
            return NativeMethod(self, name)
        return tx.class_of(self) if name == "__class__" else super().getattr(tx, name)

    def method(self, tx: Translator, name: str, args: Args, kwargs: Kwargs) -> Variable:
        if name not in _METHODS:
            return super().method(tx, name, args, kwargs)
        given, named = _values(tx, self, args, kwargs)
        answer = tx.attempt(getattr(self.value, name), *given, **named)
        function = getattr(type(self.value), name)
        if name == "update":
            tx.ledger.call(library(tx, function), self, *map(ConstantVariable, given))
        if name != "copy":
            return tx.from_constant(answer)
        made = DigestVariable(answer, None, [self], {})
        tx.ledger.bear(made, library(tx, function), self)
        return made

    def reachable(self) -> list[Variable]:
        return [*self.args, *self.kwargs.values()]


def _values(tx: Translator, what: Any, args: Args, kwargs: Kwargs) -> tuple[list[Any], dict[str, Any]]:
    """The arguments as they are now; what may be written later as bytes."""
    given = [known(tx, arg) for arg in args]
    named = {name: known(tx, arg) for name, arg in kwargs.items()}
    if any(value is MISSING for value in (*given, *named.values())):
        raise GraphBreak("bytes not known", str(what))
    frozen = [bytes(value) if isinstance(value, bytearray) else value for value in given]
    return frozen, {name: bytes(value) if isinstance(value, bytearray) else value for name, value in named.items()}


def _row(function: Any) -> None:
    def handler(tx: Translator, args: Args, kwargs: Kwargs) -> Variable:
        given, named = _values(tx, function.__name__, args, kwargs)
        value = tx.attempt(function, *given, **named)
        parts: Args = [ConstantVariable(part) for part in given]
        return DigestVariable(value, function, parts, {key: ConstantVariable(part) for key, part in named.items()})

    HANDLERS[function] = handler
    if isinstance(function, type):
        NATIVE_CONSTRUCTORS[function] = handler


for _name in sorted(hashlib.algorithms_guaranteed):
    _row(getattr(hashlib, _name))
try:
    import _hashlib
except ImportError:  # Python without OpenSSL
    pass
else:
    _row(_hashlib.new)

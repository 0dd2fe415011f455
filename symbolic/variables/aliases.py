"""`list[int]` and the like, made by Python's own `types.GenericAlias`."""

from __future__ import annotations

from types import GenericAlias
from typing import TYPE_CHECKING, Any

from symbolic import polyfills
from symbolic.errors import GraphBreak
from symbolic.variables.base import Variable
from symbolic.variables.classes import NATIVE_CONSTRUCTORS
from symbolic.variables.objects import ObjectVariable

if TYPE_CHECKING:
    from symbolic.sources import Source
    from symbolic.translator import Translator


class _Answers(type):
    """Answers whatever it is asked."""

    def __getattribute__(cls, name: str) -> Any:
        return _Answers


class _Origin(metaclass=_Answers):
    pass


class AliasVariable(ObjectVariable):
    """An existing alias, or one made of constants while tracing. What isn't its own, it has of the class behind it."""

    def getattr(self, tx: Translator, name: str) -> Variable:
        if getattr(GenericAlias(_Origin, ()), name, None) is _Answers:
            return tx.getattr(self.plain_getattr(tx, "__origin__"), name)
        return self.plain_getattr(tx, name)

    def call(self, tx: Translator, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        return tx.inline(polyfills.made_by_alias, [self, *args], kwargs)


def existing(tx: Translator, value: GenericAlias, source: Source) -> Variable:
    if source.kind != "const":
        tx.know(source, "type", GenericAlias)
    return AliasVariable(GenericAlias, value, source)


def _make(tx: Translator, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
    if kwargs:
        raise GraphBreak("arguments do not fit the function", "types.GenericAlias")
    return tx.of_classes(GenericAlias, *args)


NATIVE_CONSTRUCTORS[GenericAlias] = _make

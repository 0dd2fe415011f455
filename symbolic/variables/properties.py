"""Instances of subclasses of `property` that the frame makes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from symbolic.errors import GraphBreak
from symbolic.variables.base import Variable
from symbolic.variables.constants import ConstantVariable
from symbolic.variables.objects import NATIVE_METHODS, ObjectVariable

if TYPE_CHECKING:
    from symbolic.translator import Translator

#: Where a property keeps its functions and text, and what reads them.
_OWN = frozenset(property.__dict__) - {"__init__", "__new__", "__getattribute__"}


class PropertyVariable(ObjectVariable):
    """`made_of`: the arguments that `property.__init__` had, by position and by name, if it was called."""

    made_of: tuple[tuple[Variable, ...], dict[str, Variable]] | None = None

    def find(self, tx: Translator, name: str) -> Variable | None:
        if name in _OWN:
            raise GraphBreak("native attribute of an object born in the frame", f"{self.cls.__qualname__}.{name}")
        return super().find(tx, name)

    def reachable(self) -> list[Variable]:
        args, kwargs = self.made_of or ((), {})
        return [*super().reachable(), *args, *kwargs.values()]


def _init(tx: Translator, made: Variable, *args: Variable, **kwargs: Variable) -> Variable:
    if not isinstance(made, PropertyVariable) or made.made_of is not None or tx.ledger.stores(made):
        raise GraphBreak("native method of an object", f"{made.describe()}.__init__")
    made.made_of = args, kwargs
    return ConstantVariable(None)


NATIVE_METHODS[property.__init__] = _init

"""`types.MappingProxyType`: asks the mapping that it shows, as that is now."""

from __future__ import annotations

import operator
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from symbolic.errors import GraphBreak
from symbolic.sources import Source
from symbolic.variables.base import MISSING, Variable
from symbolic.variables.mappings import DictVariable
from symbolic.variables.native import SWAPPED, NativeVariable
from symbolic.variables.tables import handles

if TYPE_CHECKING:
    from symbolic.translator import Translator


class ProxyVariable(NativeVariable):
    """`shown` is what answers."""

    cls = MappingProxyType

    def __init__(self, shown: Variable, source: Source | None = None, value: Any = MISSING) -> None:
        self.shown = shown
        self.source = source
        self.value = value

    def blank(self) -> Any:
        return MappingProxyType({})

    def reachable(self) -> list[Variable]:
        return [self.shown]

    # --- protocol ---------------------------------------------------------------------------------------------------
    def length(self, tx: Translator) -> int:
        return self.shown.length(tx)

    def truth(self, tx: Translator) -> bool:
        return self.shown.truth(tx)

    def contains(self, tx: Translator, item: Variable) -> bool:
        return self.shown.contains(tx, item)

    def getitem(self, tx: Translator, index: Variable) -> Variable:
        return self.shown.getitem(tx, index)

    def iterator(self, tx: Translator) -> Variable:
        return self.shown.iterator(tx)

    def reversed(self, tx: Translator) -> Variable:
        return self.shown.reversed(tx)  # type: ignore[attr-defined]

    def unpack(self, tx: Translator) -> list[Variable]:
        return self.shown.unpack(tx)

    # --- operators --------------------------------------------------------------------------------------------------
    def binary(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        if op in SWAPPED:
            return tx.binary(op, self.shown, other)
        return tx.binary(op, self.shown, _under(other)) if op is operator.or_ else None

    def rbinary(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        if op in SWAPPED:
            return tx.binary(SWAPPED[op], self.shown, other)
        return tx.binary(op, _under(other), self.shown) if op is operator.or_ else None

    def inplace(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        if op is operator.ior:
            self.misuse(tx, op, self.blank(), {})
        return None

    # --- methods ----------------------------------------------------------------------------------------------------
    def do_get(self, tx: Translator, key: Variable, default: Variable | None = None, /) -> Variable:
        return self.shown.method(tx, "get", [key] if default is None else [key, default], {})

    def do_keys(self, tx: Translator, /) -> Variable:
        return self.shown.method(tx, "keys", [], {})

    def do_values(self, tx: Translator, /) -> Variable:
        return self.shown.method(tx, "values", [], {})

    def do_items(self, tx: Translator, /) -> Variable:
        return self.shown.method(tx, "items", [], {})

    def do_copy(self, tx: Translator, /) -> Variable:
        return self.shown.method(tx, "copy", [], {})


def _under(operand: Variable) -> Variable:
    """What takes part in a union."""
    return operand.shown if isinstance(operand, ProxyVariable) else operand


@handles(MappingProxyType)
def _proxy(tx: Translator, mapping: Variable) -> Variable:
    if not isinstance(mapping, DictVariable):
        raise GraphBreak("mapping proxy made while running", mapping.describe())
    return ProxyVariable(mapping)

"""What the filters of `warnings` make of a warning, where the frame has set them, or would see the warning as an error.

`catch_warnings`, `simplefilter` and their like are read as any Python; the walk through the filters is here."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any

from sideeffects.effects import Place
from symbolic.errors import Observed
from symbolic.variables.base import MISSING, Variable
from symbolic.variables.classes import ClassVariable
from symbolic.variables.constants import ConstantVariable
from symbolic.variables.exceptions import ExceptionVariable
from symbolic.variables.tables import handles, known, library
from symbolic.variables.text import str_of
from symbolic.warned import Said

if TYPE_CHECKING:
    from symbolic.translator import Translator

_module: Any = warnings  # its stubs lack what is its own
NONE = ConstantVariable(None)


@handles(_module._filters_mutated)
def _filters_mutated(tx: Translator) -> Variable:
    """Modules forget, by and by, which of their warnings were shown."""
    tx.filters_changed = True
    tx.ledger.call(library(tx, _module._filters_mutated))
    return NONE


def is_settled(tx: Translator, place: Place, message: Variable, category: Variable, source: Variable) -> bool:
    """Whether all is done: the warning is ignored, or shown by what the frame has set. Raises `Observed` where it is an
    error. False: it is to be shown as ever, or nothing is known of it."""
    module = tx.wrap(warnings, tx.sources.const(warnings, "warnings"))
    made = _instance(tx, message, category)
    if made is None:
        return False
    match _action(tx, module, str_of(tx, made), made.cls, place):
        case "error":
            tx.ledger.call_at(place, tx.function(remember))
            raise Observed(tx.with_context(made))
        case "always" if not are_shown_as_ever(tx, module):
            where = [ConstantVariable(place.file), ConstantVariable(place.line)]
            kind = tx.wrap(made.cls, tx.sources.const(made.cls, made.cls.__name__))
            told = tx.call(tx.getattr(module, "WarningMessage"), [made, kind, *where], {"source": source})
            tx.ledger.call_at(place, tx.function(remember))
            tx.call(tx.getattr(module, "_showwarnmsg"), [told], {})
        case "ignore":
            tx.ledger.call_at(place, tx.function(remember))
        case _:
            return False
    return True


def is_ignored(tx: Translator, place: Place, heard: Said) -> bool:
    """The same of what an operation has warned of on stand-ins, which nobody sees then."""
    module = tx.wrap(warnings, tx.sources.const(warnings, "warnings"))
    if _action(tx, module, str(heard.message), heard.category, place) != "ignore":
        return False
    tx.ledger.call_at(place, tx.function(remember))
    return True


def _instance(tx: Translator, message: Variable, category: Variable) -> ExceptionVariable | None:
    """The warning that is shown or raised; None if nothing is known of it."""
    if isinstance(message, ExceptionVariable):
        return message if issubclass(message.cls, Warning) else None
    if message.python_type() is not str or not message.is_constant():
        return None
    if category.is_constant() and category.constant() is None:
        category = tx.wrap(UserWarning, tx.sources.const(UserWarning, "UserWarning"))
    if not isinstance(category, ClassVariable) or not issubclass(category.constant(), Warning):
        return None
    made = tx.call(category, [message], {})
    return made if isinstance(made, ExceptionVariable) else None


def _action(tx: Translator, module: Variable, text: str, category: type, place: Place) -> str:
    """That of the first filter that fits, as in C; "" where a filter is not known."""
    name = place.namespace.get("__name__", "<string>")
    for each in tx.unpack(tx.getattr(module, "filters")):
        found = known(tx, each)
        if found is MISSING or type(found) is not tuple or len(found) != 5:
            return ""
        action, message, kind, where, line = found
        fits = _fits(message, text) and issubclass(category, kind) and _fits(where, name) and line in (0, place.line)
        if fits:
            return str(action)
    return str(known(tx, tx.getattr(module, "defaultaction")))


def _fits(pattern: Any, text: str) -> bool:
    return pattern is None or (text == pattern if type(pattern) is str else pattern.match(text) is not None)


def are_shown_as_ever(tx: Translator, module: Variable) -> bool:
    """Whether the frame has not replaced what shows warnings."""
    shows = ((tx.getattr(module, name), getattr(_module, name)) for name in ("showwarning", "_showwarnmsg_impl"))
    return all(each.source is not None and each.real() is value for each, value in shows)


def remember() -> None:
    """What a warning that is not shown does to what its module remembers: made if need be, and cleared after filters
    have changed."""
    registry = sys._getframe(1).f_globals.setdefault("__warningregistry__", {})
    filters, _module.filters = _module.filters, [("ignore", None, Warning, None, 0)]
    try:
        warnings.warn_explicit("", UserWarning, "", 0, registry=registry)
    finally:
        _module.filters = filters

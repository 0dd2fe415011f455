"""Immutable values of the standard library, as constants: compiled patterns and their matches, dates and times.

What depends on more than the values (the clock, the time zone of the machine) is not asked while tracing; what depends
on the locale is guarded by it.
"""

from __future__ import annotations

import _string
import ast
import locale
import operator
import re
import struct
from array import array
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from datetime import time as time_of_day
from typing import TYPE_CHECKING, Any

from symbolic import polyfills
from symbolic.errors import TOLD, GraphBreak
from symbolic.signatures import takes
from symbolic.variables.buffers import from_python
from symbolic.variables.constants import ASKED, OWN_METHODS, ConstantVariable
from symbolic.variables.positions import has
from symbolic.variables.tables import (
    FOLDING_CLASS_METHODS,
    LATE,
    Args,
    Kwargs,
    class_method,
    handles,
    known,
    pure,
)
from symbolic.warned import Hearing

if TYPE_CHECKING:
    from symbolic.translator import Translator
    from symbolic.variables.base import Variable

#: Directives of `strftime` that ask the machine for its time zone.
_OF_THE_ZONE = frozenset("Zzs+")

_ON_TEXT = (re.compile, re.match, re.search, re.fullmatch)
pure(_ON_TEXT)
pure((date, datetime, time_of_day, timedelta, timezone, struct.Struct))
FOLDING_CLASS_METHODS.update(
    (cls, name)
    for cls in (date, datetime)
    for name in ("fromordinal", "fromisoformat", "fromisocalendar", "combine")
    if hasattr(cls, name)
)


class _SameLocale:
    """the locale of dates is as it was"""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, function: Any) -> bool:
        return function(locale.LC_TIME) == self.name


def _know_locale(tx: Translator, value: Any, name: str, args: list[Any]) -> None:
    """Of `strftime` and `__format__`."""
    directives = [piece[:1] for piece in str(args[0]).split("%")[1:]] if args else []
    if not _OF_THE_ZONE.isdisjoint(directives):
        _refuse(tx, value, name, args)
    root = tx.sources.const(locale.setlocale, "locale.setlocale")
    tx.know(root, "predicate", _SameLocale(locale.setlocale(locale.LC_TIME)))


def _refuse(tx: Translator, value: Any, name: str, args: list[Any]) -> None:
    raise GraphBreak("clock or calendar", f"{type(value).__name__}.{name}")


def _unless_fixed(tx: Translator, value: Any, name: str, args: list[Any]) -> None:
    """The instant of a time of day without a zone depends on that of the machine."""
    if value.tzinfo is None:
        _refuse(tx, value, name, args)


def _refuse_iterator(tx: Translator, value: Any, name: str, args: list[Any]) -> None:
    raise GraphBreak("text processing", f"{type(value).__name__}.{name}")


def _unless_it_changes(tx: Translator, value: Any, name: str, args: list[Any]) -> None:
    """A match looks at its text whenever it is asked."""
    if any(isinstance(arg, (bytearray, array)) for arg in args):
        _refuse_iterator(tx, value, name, args)


def _check_text(tx: Translator, args: Args, kwargs: Kwargs) -> Variable | None:
    """Of the functions that compile a pattern, which may print it."""
    values = [known(tx, arg) for arg in (*args, *kwargs.values())]
    if any(isinstance(value, int) and value & re.DEBUG for value in values):
        raise GraphBreak("text processing", "re.DEBUG")
    _unless_it_changes(tx, re, "match", values)
    return None


LATE.update(dict.fromkeys(_ON_TEXT, _check_text))


@class_method(datetime, "strptime")
def _strptime(tx: Translator, fn: Any, text: Variable, form: Variable) -> Variable:
    """In the locale that names the months, unless the time zone of the machine is asked for."""
    given = [known(tx, text), known(tx, form)]
    if not all(isinstance(each, str) for each in given) or fn.__self__ is not datetime:
        raise GraphBreak("clock or calendar", "datetime.strptime")
    _know_locale(tx, datetime, "strptime", given[1:])
    return tx.from_constant(_quietly(tx, datetime.strptime, *given))


@handles(ast.literal_eval)
def _literal(tx: Translator, node_or_string: Variable) -> Variable:
    text = known(tx, node_or_string)
    if type(text) is not str:
        raise GraphBreak("text processing", "ast.literal_eval")
    return from_python(tx, _quietly(tx, ast.literal_eval, text))


def _quietly(tx: Translator, function: Callable[..., Any], *args: Any) -> Any:
    """What it answers or raises; a break where it warns."""
    with Hearing(always=False) as said:
        found = tx.attempt(function, *args)
    if said:
        raise GraphBreak(TOLD, str(said[0].message))
    return found


_ROWS: dict[str, tuple[tuple[type, ...], Callable[[Any, Any, str, list[Any]], None]]] = {
    "strftime": ((date, datetime, time_of_day), _know_locale),
    "__format__": ((date, datetime, time_of_day), _know_locale),
    "timestamp": ((datetime,), _unless_fixed),
    "astimezone": ((datetime,), _unless_fixed),
    "scanner": ((re.Pattern,), _refuse_iterator),
    "iter_unpack": ((struct.Struct,), _refuse_iterator),
    "pack_into": ((struct.Struct,), _refuse_iterator),
    "__init__": ((struct.Struct,), _refuse_iterator),
    "match": ((re.Pattern,), _unless_it_changes),
    "search": ((re.Pattern,), _unless_it_changes),
    "fullmatch": ((re.Pattern,), _unless_it_changes),
}
ASKED.update({(kind, name): check for name, (kinds, check) in _ROWS.items() for kind in kinds})


# --- functions that are called for each match -------------------------------------------------------------------------
_ZERO = ConstantVariable(0)


def _matches(tx: Translator, pattern: Variable, text: Variable, *bounds: Variable) -> list[Variable]:
    if text.python_type() not in (str, bytes):
        raise GraphBreak("text processing", f"{pattern.describe()} in {text.describe()}")
    ends = [bound.constant() for bound in bounds]
    found = tx.attempt(lambda: [*pattern.constant().finditer(text.constant(), *ends)])
    return [ConstantVariable(match, tx.sources.const(match, f"match {at}")) for at, match in enumerate(found)]


def _subn(tx: Translator, pattern: Variable, repl: Variable, string: Variable, count: Variable = _ZERO) -> Variable:
    most = tx.attempt(operator.index, count.constant())
    matches = _matches(tx, pattern, string)[: most if most > 0 else None]
    made = tx.inline(polyfills.substitute, [repl, string, tx.new_tuple(matches)], {})
    return tx.new_tuple([made, ConstantVariable(len(matches))])


def _sub(tx: Translator, pattern: Variable, repl: Variable, string: Variable, count: Variable = _ZERO) -> Variable:
    return _subn(tx, pattern, repl, string, count).getitem(tx, _ZERO)


def _finditer(tx: Translator, pattern: Variable, string: Variable, *bounds: Variable) -> Variable:
    return tx.inline(polyfills.find_iter, [tx.new_tuple(_matches(tx, pattern, string, *bounds))], {})


def _method(body: Callable[..., Variable]) -> Callable[..., Variable | None]:
    """The method of a pattern; None where no function of the program's says what takes the place of a match."""

    def method(tx: Translator, pattern: Variable, args: Args, kwargs: Kwargs) -> Variable | None:
        if not takes(body, tx, pattern, *args, **kwargs):
            return None
        if body is not _finditer and not has((args[0] if args else kwargs["repl"]).python_type(), "__call__"):
            return None
        return body(tx, pattern, *args, **kwargs)

    return method


#: Whether Python warns of a count by position.
_WARNS_OF_COUNTS = hasattr(re, "_zero_sentinel")


def _of_module(name: str, place: int) -> Callable[..., Variable]:
    """The function of the module, which compiles the pattern first; the flags may be in that place."""

    def handler(
        tx: Translator, pattern: Variable, *given: Variable, flags: Variable = _ZERO, **kwargs: Variable
    ) -> Variable:
        if len(given) > 2 and _WARNS_OF_COUNTS:
            raise GraphBreak("text processing", f"re.{name} with a count by position")
        args = list(given)
        if len(args) > place:
            flags = args.pop(place)
        _check_text(tx, [pattern, flags], {})
        compiled = tx.attempt(re.compile, pattern.constant(), flags.constant())
        return ConstantVariable(compiled).method(tx, name, args, kwargs)

    return handler


for _name, _body, _place in (("sub", _sub, 3), ("subn", _subn, 3), ("finditer", _finditer, 1)):
    OWN_METHODS[re.Pattern, _name] = _method(_body)
    handles(getattr(re, _name))(_of_module(_name, _place))


# --- templates --------------------------------------------------------------------------------------------------------
@handles(_string.formatter_parser)
def _pieces(tx: Translator, template: Variable, /) -> Variable:
    """Of `string.Formatter`."""
    found = tx.attempt(lambda: [*_string.formatter_parser(template.constant())])
    return tx.new_tuple([tx.from_constant(piece) for piece in found]).iterator(tx)


@handles(_string.formatter_field_name_split)
def _field(tx: Translator, name: Variable, /) -> Variable:
    first, rest = tx.attempt(_string.formatter_field_name_split, name.constant())
    parts = tx.new_tuple([tx.from_constant(part) for part in tx.attempt(list, rest)])
    return tx.new_tuple([tx.from_constant(first), parts.iterator(tx)])

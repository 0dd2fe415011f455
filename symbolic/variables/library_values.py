"""Immutable values of the standard library, as constants: compiled patterns and their matches, dates and times.

What depends on more than the values (the clock, the time zone of the machine) is not asked while tracing; what depends
on the locale is guarded by it.
"""

from __future__ import annotations

import locale
import re
from array import array
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from datetime import time as time_of_day
from typing import TYPE_CHECKING, Any

from symbolic.errors import GraphBreak
from symbolic.variables.constants import ASKED
from symbolic.variables.tables import FOLDING_CLASS_METHODS, LATE, Args, Kwargs, known, pure

if TYPE_CHECKING:
    from symbolic.translator import Translator
    from symbolic.variables.base import Variable

#: Directives of `strftime` that ask the machine for its time zone.
_OF_THE_ZONE = frozenset("Zzs+")

_ON_TEXT = (re.compile, re.match, re.search, re.fullmatch)
pure(_ON_TEXT)
pure((date, datetime, time_of_day, timedelta, timezone))
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
_ROWS: dict[str, tuple[tuple[type, ...], Callable[[Any, Any, str, list[Any]], None]]] = {
    "strftime": ((date, datetime, time_of_day), _know_locale),
    "__format__": ((date, datetime, time_of_day), _know_locale),
    "timestamp": ((datetime,), _unless_fixed),
    "astimezone": ((datetime,), _unless_fixed),
    "scanner": ((re.Pattern,), _refuse_iterator),
    "finditer": ((re.Pattern,), _refuse_iterator),
    "match": ((re.Pattern,), _unless_it_changes),
    "search": ((re.Pattern,), _unless_it_changes),
    "fullmatch": ((re.Pattern,), _unless_it_changes),
}
ASKED.update({(kind, name): check for name, (kinds, check) in _ROWS.items() for kind in kinds})

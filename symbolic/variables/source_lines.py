"""Lines of source files, which `traceback` shows: read now, and guarded by what the file system says of the files."""

from __future__ import annotations

import linecache
import os
import traceback
from typing import TYPE_CHECKING, Any

from symbolic import polyfills
from symbolic.errors import GraphBreak
from symbolic.variables.base import MISSING, Variable
from symbolic.variables.constants import ConstantVariable
from symbolic.variables.tables import POLYFILLS, handles, known, library, name_of, pure, reason_of

if TYPE_CHECKING:
    from symbolic.translator import Translator

NONE = ConstantVariable(None)


def _stamp(file: str) -> tuple[int, int] | None:
    """Size and time, None where there is no file."""
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


def _cached(file: str) -> list[str] | None:
    """The lines that `linecache` has of a file, None if it is to read them."""
    entry: Any = linecache.cache.get(file)
    return None if entry is None or len(entry) == 1 else entry[2]


class _SameLine:
    """the line of the source file is the same"""

    def __init__(self, file: str, number: int, text: str) -> None:
        self.file = file
        self.number = number
        self.text = text
        self.stamp = _stamp(file)

    def __call__(self, _: Any) -> bool:
        held = _cached(self.file)
        if held is None and self.stamp is None:
            return False
        is_held = held is None or (held[self.number - 1] if 0 < self.number <= len(held) else "") == self.text
        return is_held and _stamp(self.file) == self.stamp


@handles(linecache.getline)
def _line(tx: Translator, filename: Variable, lineno: Variable, module_globals: Variable | None = None) -> Variable:
    """What is read stays in the cache, as it does without a compiler."""
    file, number = filename.constant(), lineno.constant()
    is_right = type(file) is str and type(number) is int
    if not is_right or (_stamp(file) is None and _cached(file) is None):
        raise GraphBreak(reason_of(linecache.getline), f"{name_of(linecache.getline)} of what is no file: {file}")
    text = linecache.getline(file, number)
    tx.know(tx.sources.const(linecache.getline, "linecache.getline"), "predicate", _SameLine(file, number, text))
    tx.ledger.call(library(tx, linecache.getline), filename, lineno)
    return ConstantVariable(text)


@handles(linecache.checkcache)
def _check(tx: Translator, filename: Variable = NONE) -> Variable:
    tx.attempt(linecache.checkcache, filename.constant())  # lines that are asked for now don't come from what it drops
    tx.ledger.call(library(tx, linecache.checkcache), filename)
    return NONE


@handles(linecache.lazycache)
def _lazily(tx: Translator, filename: Variable, module_globals: Variable) -> Variable:
    """For `traceback`, which asks no more of it: which loader has the text is of no matter where a file has it."""
    if tx.frames[-1].namespace.real() is not vars(traceback):
        raise GraphBreak(reason_of(linecache.lazycache), name_of(linecache.lazycache))
    return NONE


# --- what `traceback` asks --------------------------------------------------------------------------------------------
POLYFILLS[traceback.TracebackException.print] = polyfills.print_traceback
pure((traceback._extract_caret_anchors_from_line_segment,))  # type: ignore[attr-defined]


@handles(traceback._get_code_position)  # type: ignore[attr-defined]
def _position(tx: Translator, code: Variable, instruction_index: Variable) -> Variable:
    return tx.from_constant(traceback._get_code_position(code.real(), instruction_index.constant()))  # type: ignore[attr-defined]


def _shows_carets(
    tx: Translator, _: Variable, start: Variable, end: Variable, lines: Variable, anchors: Variable
) -> Variable:
    """Of 3.13: whether they are under more, or less, than all of what is done there."""
    given = [known(tx, each) for each in (start, end, lines)]
    if any(each is MISSING for each in given):
        raise GraphBreak("text processing", name_of(_SHOWS_CARETS))
    return ConstantVariable(_SHOWS_CARETS(None, *given, tx.truth(anchors)))


_SHOWS_CARETS: Any = getattr(traceback.StackSummary, "_should_show_carets", None)
if _SHOWS_CARETS is not None:
    handles(_SHOWS_CARETS)(_shows_carets)

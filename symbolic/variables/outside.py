"""What a program tells the world outside: printed text, log messages, warnings, text written to files.

It goes to the ledger, and residual code does it after the graph, in eager code's order. What is told is as it was at
the time: text is put together while tracing, as far as it is known, and tensors are copied in the graph.
"""

from __future__ import annotations

import functools
import io
import logging
import sys
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sideeffects.effects import Place
from symbolic import callers, polyfills
from symbolic.errors import GraphBreak
from symbolic.variables.base import FixedVariable, Variable
from symbolic.variables.constants import ConstantVariable
from symbolic.variables.late_text import LATE, snapshot, unmarked
from symbolic.variables.objects import NATIVE_METHODS, ExceptionVariable, ObjectVariable
from symbolic.variables.objects import lookup as type_lookup
from symbolic.variables.tables import HANDLERS, Args, Kwargs, handles, library, name_of
from symbolic.variables.tensors import TensorVariable
from symbolic.variables.text import str_of

if TYPE_CHECKING:
    from symbolic.frames import Frame
    from symbolic.translator import Translator

NONE, NO, ONE = ConstantVariable(None), ConstantVariable(False), ConstantVariable(1)
#: Files whose `write` is Python, but shows text and does nothing else.
_SHOWS = frozenset({"ipykernel.iostream.OutStream"})
#: Containers in one another that are copied for a message.
_DEPTH = 20


# --- where ------------------------------------------------------------------------------------------------------------
def _activations(tx: Translator) -> list[Frame]:
    """The frames that eager code would have, the innermost first."""
    return [frame for frame in reversed(tx.frames) if frame.filename != polyfills.__file__]


def _place(frame: Frame) -> Place:
    return Place(frame.filename, frame.code.raw.co_name, frame.line, frame.namespace.real())


def _check_uncaught(tx: Translator) -> None:
    """Before an effect that may raise. Breaks inside `try`: an error in the replay would not be caught there."""
    for frame in tx.frames:
        row = frame.code.handler(frame.code.insts[frame.current].offset)
        if row is None:
            continue
        at = frame.code.index(row.target)
        first, second = (inst.op for inst in frame.code.insts[at : at + 2])
        if first == "PUSH_EXC_INFO" and second != "WITH_EXCEPT_START":
            raise GraphBreak("effect inside of a try block", f"{frame.name}, line {frame.line}")
    tx.ledger.part()


# --- print and files --------------------------------------------------------------------------------------------------
@handles(print)
def _print(
    tx: Translator, *values: Variable, sep: Variable = NONE, end: Variable = NONE, file: Variable = NONE,
    flush: Variable = NO,
) -> Variable:  # fmt: skip
    for name, text in (("sep", sep), ("end", end)):
        if text.python_type() not in (str, type(None)):
            tx.raise_(TypeError, f"{name} must be None or a string, not {text.python_type().__name__}")
    if _is_none(file):
        file = tx.getattr(tx.wrap(sys, tx.sources.const(sys, "sys")), "stdout")
        if _is_none(file):
            return NONE
    texts = [v if v.python_type() is str else unmarked(tx, str_of(tx, v)) for v in values]
    wanted = tx.truth(flush)
    if _writes_natively(tx, file):
        _check_uncaught(tx)
        named = {"sep": sep, "end": end, "file": file, "flush": ConstantVariable(wanted)}
        given = {name: v for name, v in named.items() if not _is_none(v) and not (name == "flush" and not wanted)}
        tx.ledger.call(library(tx, print), *texts, **given)
        return NONE
    between = ConstantVariable(" ") if _is_none(sep) else sep
    pieces = [piece for text in texts for piece in (between, text)][1:]
    for piece in [*pieces, ConstantVariable("\n") if _is_none(end) else end]:
        file.method(tx, "write", [piece], {})
    if wanted:
        file.method(tx, "flush", [], {})
    return NONE


def _is_none(variable: Variable) -> bool:
    return variable.python_type() is type(None)


def _writes_natively(tx: Translator, file: Variable) -> bool:
    kind = file.python_type()
    known = isinstance(file, ObjectVariable) and f"{kind.__module__}.{kind.__qualname__}" in _SHOWS
    return known or type_lookup(kind, "write") in NATIVE_METHODS


class Answer(Variable):
    """What a replayed call answers with."""

    def __init__(self, kind: type) -> None:
        self.kind = kind

    def python_type(self) -> type:
        return self.kind


def _on_file(raw: Any) -> Callable[..., Variable]:
    def handler(tx: Translator, file: Variable, *args: Variable) -> Variable:
        if not isinstance(file, ObjectVariable) or not all(arg.python_type() is str for arg in args):
            raise GraphBreak("native method of an object", f"{file.describe()}.{raw.__name__}")
        _check_uncaught(tx)
        if args and not args[0].is_constant():
            count = Answer(int)
            tx.ledger.bear(count, library(tx, raw), file, *args)
            return count
        tx.ledger.call(library(tx, raw), file, *args)
        return ConstantVariable(len(args[0].constant())) if args else NONE

    return handler


for _raw in (io.TextIOWrapper.write, io.TextIOWrapper.flush, io.StringIO.write, io.StringIO.flush):
    NATIVE_METHODS[_raw] = _on_file(_raw)


# --- logging ----------------------------------------------------------------------------------------------------------
def logged(tx: Translator, fn: Any, args: Args, kwargs: Kwargs) -> Variable:
    """A log message: nobody sees it earlier than eager code would show it."""
    if any(name in kwargs and kwargs[name].truth(tx) for name in ("exc_info", "stack_info")):
        raise GraphBreak("log message with its surroundings", name_of(fn))
    given = dict(kwargs)
    level = given.pop("stacklevel", ONE).constant()
    frames = _activations(tx)
    if not 1 <= level <= len(frames):
        raise GraphBreak("log message of a frame further out", name_of(fn))
    logger, *told = args
    shown = (logger, *(_as_now(tx, arg) for arg in told))
    given = {name: _as_now(tx, arg) for name, arg in given.items()}
    tx.ledger.part()
    tx.ledger.call_at(_place(frames[level - 1]), library(tx, fn), shown, given)
    return NONE


def _as_now(tx: Translator, variable: Variable, around: tuple[Variable, ...] = ()) -> Variable:
    """What a handler may show of a value later is what it is now: tensors and containers are copied. Breaks for others
    whose text may change."""
    kind = variable.python_type()
    if isinstance(variable, TensorVariable):
        if not variable.fake.requires_grad:
            return snapshot(tx, variable)
    elif variable.is_constant() or isinstance(variable, (*LATE, FixedVariable, ExceptionVariable)):
        return variable
    elif variable not in around and len(around) < _DEPTH:
        inside = functools.partial(_as_now, tx, around=(*around, variable))
        if kind is list:
            return tx.new_list([inside(item) for item in tx.unpack(variable)])
        if kind is tuple:
            return tx.new_tuple([inside(item) for item in tx.unpack(variable)])
        if kind is dict:
            return tx.new_dict([(key, inside(variable.getitem(tx, key))) for key in tx.unpack(variable)])
    raise GraphBreak("log message with what may change", variable.describe())


@handles(logging.getLogger)
def _get_logger(tx: Translator, name: Variable = NONE) -> Variable:
    """The one logger of that name."""
    logger = tx.attempt(logging.getLogger, name.constant())
    return tx.wrap(logger, tx.sources.const(logger, f"logging.getLogger({logger.name!r})"))


for _name in ("debug", "info", "warning", "error", "critical", "log"):
    HANDLERS[getattr(logging.Logger, _name)] = functools.partial(
        lambda fn, tx, args, kwargs: logged(tx, fn, args, kwargs), getattr(logging.Logger, _name)
    )


# --- warnings ---------------------------------------------------------------------------------------------------------
@handles(warnings.warn)
def _warn(
    tx: Translator, message: Variable, category: Variable = NONE, stacklevel: Variable = ONE,
    source: Variable = NONE, **named: Variable,
) -> Variable:  # fmt: skip
    level = stacklevel.constant()
    if named or type(level) is not int:
        raise GraphBreak("warning or log message", "warnings.warn with arguments not known")
    _check_uncaught(tx)
    frames = _activations(tx)
    warn = library(tx, warnings.warn)
    if level <= len(frames):
        at = _place(frames[max(level, 1) - 1])
        tx.ledger.call_at(at, warn, (message, category, ONE, source), {})
    else:
        above = ConstantVariable(level - len(frames))
        tx.ledger.call(tx.function(callers.warn_above), above, message, category, source)
    return NONE

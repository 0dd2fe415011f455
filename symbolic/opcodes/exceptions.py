"""Raising, catching, `with`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from symbolic.code import Inst
from symbolic.errors import GraphBreak, Observed
from symbolic.frames import Frame
from symbolic.opcodes.table import opcode, refuse
from symbolic.variables.base import Variable
from symbolic.variables.constants import ConstantVariable
from symbolic.variables.objects import ExceptionVariable, TracebackVariable

if TYPE_CHECKING:
    from symbolic.translator import Translator


class HandledVariable(Variable):
    """What PUSH_EXC_INFO puts under the exception: the one that was being handled before (None: nothing)."""

    def __init__(self, previous: Variable | None, current: Variable) -> None:
        self.previous = previous
        self.current = current

    def reachable(self) -> list[Variable]:
        return [part for part in (self.previous, self.current) if part is not None]

    def describe(self) -> str:
        return "handled exception"


@opcode("PUSH_EXC_INFO")
def push_exc_info(tx: Translator, frame: Frame, inst: Inst) -> None:
    error = frame.pop()
    frame.push(HandledVariable(tx.handled, error))
    frame.push(error)
    tx.handled = error


@opcode("POP_EXCEPT")
def pop_except(tx: Translator, frame: Frame, inst: Inst) -> None:
    handled = frame.pop()
    assert isinstance(handled, HandledVariable)
    tx.handled = handled.previous


@opcode("CHECK_EXC_MATCH")
def check_exc_match(tx: Translator, frame: Frame, inst: Inst) -> None:
    cls = frame.pop()
    kinds = tx.classes(cls)
    if not all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in kinds):
        raise GraphBreak("except clause with something that is no exception class", cls.describe())
    frame.push(ConstantVariable(issubclass(frame.stack[-1].python_type(), tuple(kinds))))


@opcode("RERAISE")
def reraise(tx: Translator, frame: Frame, inst: Inst) -> None:
    raise Observed(frame.pop())


@opcode("RAISE_VARARGS")
def raise_varargs(tx: Translator, frame: Frame, inst: Inst) -> None:
    if inst.arg == 0:
        if tx.handled is None:
            raise GraphBreak("bare raise outside an except block")
        raise Observed(tx.handled)
    cause = frame.pop() if inst.arg == 2 else None
    error = tx.exception_from([frame.pop()])
    if not issubclass(error.python_type(), BaseException):
        tx.raise_(TypeError, "exceptions must derive from BaseException")
    if not isinstance(error, ExceptionVariable) and tx.handled not in (None, error):
        raise GraphBreak("context set on an existing exception", error.describe())
    if cause is not None:
        if not isinstance(error, ExceptionVariable):
            raise GraphBreak("cause set on an existing exception", error.describe())
        none = isinstance(cause, ConstantVariable) and cause.value is None
        source = None if none else tx.exception_from([cause])
        if source is not None and not issubclass(source.python_type(), BaseException):
            tx.raise_(TypeError, "exception causes must derive from BaseException")
        error.cause, error.suppress = source, True
    raise Observed(tx.with_context(error))


@opcode("LOAD_ASSERTION_ERROR")
def load_assertion_error(tx: Translator, frame: Frame, inst: Inst) -> None:
    frame.push(tx.from_constant(AssertionError))


@opcode("BEFORE_WITH")
def before_with(tx: Translator, frame: Frame, inst: Inst) -> None:
    manager = frame.pop()
    kind = tx.class_of(manager)
    if not (tx.hasattr(kind, "__enter__") and tx.hasattr(kind, "__exit__")):
        raise GraphBreak("object without __enter__ and __exit__", manager.describe())
    frame.push(tx.getattr(manager, "__exit__"))
    tx.invoke(tx.getattr(manager, "__enter__"), [], {})


@opcode("WITH_EXCEPT_START")
def with_except_start(tx: Translator, frame: Frame, inst: Inst) -> None:
    error = frame.stack[-1]
    leave = frame.stack[-4]
    tx.invoke(leave, [tx.class_of(error), error, TracebackVariable(error)], {})


refuse("except* is not traced", "PREP_RERAISE_STAR", "CHECK_EG_MATCH")
refuse("async code is not traced", "BEFORE_ASYNC_WITH", "END_ASYNC_FOR", "GET_AITER", "GET_ANEXT", "GET_AWAITABLE")

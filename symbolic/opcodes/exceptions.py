"""Raising, catching, `with`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from symbolic import polyfills
from symbolic.code import Inst
from symbolic.errors import GraphBreak, Observed
from symbolic.frames import Frame
from symbolic.opcodes.table import opcode
from symbolic.variables.base import MISSING, Variable
from symbolic.variables.constants import ConstantVariable, is_none
from symbolic.variables.exceptions import AnyException, is_exception_class
from symbolic.variables.generators import special
from symbolic.variables.positions import type_name

if TYPE_CHECKING:
    from symbolic.translator import Translator


class HandledVariable(Variable):
    """What PUSH_EXC_INFO puts under the exception: the one that was being handled before (None: nothing)."""

    def __init__(self, previous: Variable | None, current: Variable) -> None:
        self.previous = previous
        self.current = current

    def python_type(self) -> type:
        return object  # nobody sees it

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
    given = tx.unpack(cls) if issubclass(cls.python_type(), tuple) else [cls]
    kinds = [each.constant() if each.is_constant() else each.real() for each in given]
    if not all(map(is_exception_class, kinds)):
        tx.raise_(TypeError, "catching classes that do not inherit from BaseException is not allowed")
    mro = tx.mro(frame.stack[-1].python_type())
    frame.push(ConstantVariable(any(kind in mro for kind in kinds)))


@opcode("RERAISE")
def reraise(tx: Translator, frame: Frame, inst: Inst) -> None:
    if inst.arg:
        frame.again = (frame.current, 2 * frame.stack[-1 - inst.arg].constant())
    raise Observed(frame.pop())


@opcode("RAISE_VARARGS")
def raise_varargs(tx: Translator, frame: Frame, inst: Inst) -> None:
    if inst.arg == 0:
        raise Observed(tx.handling() or tx.new_exception(RuntimeError, "No active exception to reraise"))
    cause = frame.pop() if inst.arg == 2 else None
    error = tx.exception_from([frame.pop()])
    if not issubclass(error.python_type(), BaseException):
        tx.raise_(TypeError, "exceptions must derive from BaseException")
    if cause is not None:
        source = cause if is_none(cause) else tx.exception_from([cause])
        if not is_none(source) and not issubclass(source.python_type(), BaseException):
            tx.raise_(TypeError, "exception causes must derive from BaseException")
        if not isinstance(error, AnyException):
            raise GraphBreak("cause of an exception that is not looked into", error.describe())
        error.plain_setattr(tx, "__cause__", source)
    raise Observed(tx.with_context(error))


@opcode("LOAD_ASSERTION_ERROR")
def load_assertion_error(tx: Translator, frame: Frame, inst: Inst) -> None:
    frame.push(tx.from_constant(AssertionError))


@opcode("BEFORE_WITH")
def before_with(tx: Translator, frame: Frame, inst: Inst) -> None:
    manager = frame.pop()
    enter, leave = entry_and_exit(tx, manager, "__enter__", "__exit__", "context manager")
    frame.push(leave)
    tx.invoke(enter, [], {})


def entry_and_exit(tx: Translator, manager: Variable, enter: str, leave: str, what: str) -> tuple[Variable, Variable]:
    """The methods of a manager, as its class has them."""
    for name, missed in ((enter, ""), (leave, f" (missed {leave} method)")):
        if tx.lookup(manager.python_type(), name) is MISSING:
            cls = type_name(manager.python_type())
            tx.raise_(TypeError, f"{cls!r} object does not support the {what} protocol{missed}")
    return special(tx, manager, enter), special(tx, manager, leave)


@opcode("WITH_EXCEPT_START")
def with_except_start(tx: Translator, frame: Frame, inst: Inst) -> None:
    error = frame.stack[-1]
    leave = frame.stack[-4]
    if not isinstance(error, AnyException):
        raise GraphBreak("traceback of an exception", error.describe())
    tx.invoke(leave, [tx.class_of(error), error, error.own(tx, "__traceback__")], {})


@opcode("CHECK_EG_MATCH")
def check_eg_match(tx: Translator, frame: Frame, inst: Inst) -> None:
    """Of an `except*`: what the clause handles becomes the exception being handled."""
    condition, error = frame.pop(), frame.pop()
    rest, match = tx.unpack(tx.inline(polyfills.match_group, [error, condition], {}))
    frame.stack += [rest, match]
    if not is_none(match):
        frame.stack = handling(frame.stack, match)
        tx.handled = match


def handling(stack: list[Variable], error: Variable) -> list[Variable]:
    """The stack where the innermost block that handles an exception handles this one."""
    at = max(i for i, item in enumerate(stack) if isinstance(item, HandledVariable))
    block = stack[at]
    assert isinstance(block, HandledVariable)
    return [*stack[:at], HandledVariable(block.previous, error), *stack[at + 1 :]]


@opcode("PREP_RERAISE_STAR")
def prep_reraise_star(tx: Translator, frame: Frame, inst: Inst) -> None:
    found, error = frame.pop(), frame.pop()
    frame.push(tx.inline(polyfills.what_is_left, [error, found], {}))

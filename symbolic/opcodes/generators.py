"""Generators: `yield`, `yield from`."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from symbolic import versions
from symbolic.code import Inst
from symbolic.errors import GraphBreak, Observed
from symbolic.frames import Frame
from symbolic.opcodes.exceptions import entry_and_exit
from symbolic.opcodes.table import opcode, refuse
from symbolic.variables.base import MISSING, Variable
from symbolic.variables.constants import ConstantVariable, is_none
from symbolic.variables.generators import CoroutineVariable, GeneratorVariable, awaited, special
from symbolic.variables.objects import ObjectVariable
from symbolic.variables.positions import type_name

if TYPE_CHECKING:
    from symbolic.translator import Translator


@opcode("YIELD_VALUE")
def yield_value(tx: Translator, frame: Frame, inst: Inst) -> None:
    if not frame.is_generator:
        raise GraphBreak("generator frame", frame.name)
    tx.yield_value(frame.pop())


@opcode("GET_YIELD_FROM_ITER")
def get_yield_from_iter(tx: Translator, frame: Frame, inst: Inst) -> None:
    value = frame.pop()
    allowed = frame.code.raw.co_flags & (inspect.CO_COROUTINE | inspect.CO_ITERABLE_COROUTINE)
    if isinstance(value, CoroutineVariable) and not allowed:
        tx.raise_(TypeError, "cannot 'yield from' a coroutine object in a non-coroutine generator")
    frame.push(value if isinstance(value, GeneratorVariable) else tx.iter(value))


@opcode("SEND")
def send(tx: Translator, frame: Frame, inst: Inst) -> None:
    value, receiver = frame.pop(), frame.stack[-1]
    result, returned = _send(tx, receiver, value)
    if result is not None:
        frame.push(result)
        return
    frame.index = inst.target
    if versions.PY312:
        frame.push(returned)  # END_SEND drops the receiver below it
    else:
        frame.stack[-1] = returned


def _send(tx: Translator, receiver: Variable, value: Variable) -> tuple[Variable | None, Variable]:
    """(yielded value or None, returned value)"""
    nothing = ConstantVariable(None)
    if isinstance(receiver, GeneratorVariable):
        result = receiver.send(tx, value)
        return result, receiver.returned if result is None else nothing
    own = receiver.special(tx, "__next__") if isinstance(receiver, ObjectVariable) else None
    starts = is_none(value)
    try:
        if starts and own is None:
            return receiver.iternext(tx), nothing
        return tx.call(own, [], {}) if starts and own is not None else receiver.method(tx, "send", [value], {}), nothing
    except Observed as raised:
        if issubclass(raised.variable.python_type(), StopIteration):
            return None, raised.variable.getattr(tx, "value")
        raise


@opcode("END_SEND")
def end_send(tx: Translator, frame: Frame, inst: Inst) -> None:
    value = frame.pop()
    frame.stack[-1] = value


@opcode("CLEANUP_THROW")
def cleanup_throw(tx: Translator, frame: Frame, inst: Inst) -> None:
    error, _, _ = frame.pop(), frame.pop(), frame.pop()
    if not issubclass(error.python_type(), StopIteration):
        raise Observed(error)
    frame.push(ConstantVariable(None))
    frame.push(error.getattr(tx, "value"))


# --- async ------------------------------------------------------------------------------------------------------------
#: What TypeError says of an object that can't be awaited, by the argument of GET_AWAITABLE.
_REFUSALS = {
    1: "'async with' received an object from __aenter__ that does not implement __await__: {}",
    2: "'async with' received an object from __aexit__ that does not implement __await__: {}",
}


@opcode("GET_AWAITABLE")
def get_awaitable(tx: Translator, frame: Frame, inst: Inst) -> None:
    value = frame.pop()
    frame.push(awaited(tx, value, _REFUSALS[inst.arg]) if inst.arg in _REFUSALS else awaited(tx, value))


@opcode("BEFORE_ASYNC_WITH")
def before_async_with(tx: Translator, frame: Frame, inst: Inst) -> None:
    enter, leave = entry_and_exit(tx, frame.pop(), "__aenter__", "__aexit__", "asynchronous context manager")
    frame.push(leave)
    tx.invoke(enter, [], {})


@opcode("GET_AITER")
def get_aiter(tx: Translator, frame: Frame, inst: Inst) -> None:
    value = frame.pop()
    if tx.lookup(value.python_type(), "__aiter__") is MISSING:
        said = "'async for' requires an object with __aiter__ method, got "
        tx.raise_(TypeError, said + type_name(value.python_type()))
    found = tx.call(special(tx, value, "__aiter__"), [], {})
    if tx.lookup(found.python_type(), "__anext__") is MISSING:
        said = "'async for' received an object from __aiter__ that does not implement __anext__: "
        tx.raise_(TypeError, said + type_name(found.python_type()))
    frame.push(found)


@opcode("GET_ANEXT")
def get_anext(tx: Translator, frame: Frame, inst: Inst) -> None:
    found = tx.call(special(tx, frame.stack[-1], "__anext__"), [], {})
    try:
        frame.push(awaited(tx, found))
    except Observed as raised:
        said = f"'async for' received an invalid object from __anext__: {type_name(found.python_type())}"
        tx.raise_from(TypeError, said, cause=raised.variable)


@opcode("END_ASYNC_FOR")
def end_async_for(tx: Translator, frame: Frame, inst: Inst) -> None:
    error, _ = frame.pop(), frame.pop()
    if not issubclass(error.python_type(), StopAsyncIteration):
        raise Observed(error)


refuse("asynchronous generators are not traced", "ASYNC_GEN_WRAP", "GET_COROUTINE")

"""Generators: `yield`, `yield from`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from symbolic import versions
from symbolic.code import Inst
from symbolic.errors import GraphBreak, Observed
from symbolic.frames import Frame
from symbolic.opcodes.table import opcode, refuse
from symbolic.variables.base import Variable
from symbolic.variables.constants import ConstantVariable
from symbolic.variables.functions import GeneratorVariable

if TYPE_CHECKING:
    from symbolic.translator import Translator


@opcode("YIELD_VALUE")
def yield_value(tx: Translator, frame: Frame, inst: Inst) -> None:
    if not isinstance(frame.generator, GeneratorVariable):
        raise GraphBreak("generator frame", frame.name)
    tx.yield_value(frame.pop())


@opcode("GET_YIELD_FROM_ITER")
def get_yield_from_iter(tx: Translator, frame: Frame, inst: Inst) -> None:
    value = frame.pop()
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
    if isinstance(value, ConstantVariable) and value.value is None:
        return tx.next(receiver), nothing
    try:
        return receiver.method(tx, "send", [value], {}), nothing
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


refuse("async code is not traced", "ASYNC_GEN_WRAP", "GET_COROUTINE")

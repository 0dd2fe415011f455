"""Jumps, loops and returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from symbolic import checks, loops, sides, versions
from symbolic.code import Inst
from symbolic.errors import GraphBreak
from symbolic.frames import Frame
from symbolic.opcodes.table import opcode, refuse
from symbolic.variables.constants import ConstantVariable

if TYPE_CHECKING:
    from symbolic.translator import Translator


def _to(tx: Translator, frame: Frame, target: int) -> None:
    if target < frame.index:
        loops.turn(tx, frame, target)
    frame.index = target


@opcode("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT")
def jump(tx: Translator, frame: Frame, inst: Inst) -> None:
    _to(tx, frame, inst.target)


def _jump_if(tx: Translator, frame: Frame, inst: Inst, when: bool) -> None:
    value = checks.asked(tx, frame.pop())
    jumps = checks.jumps(tx, frame, value, inst.target, when)
    if jumps is None:
        sides.join(tx, frame, value, inst.target, when)
    elif jumps:
        _to(tx, frame, inst.target)


@opcode("POP_JUMP_FORWARD_IF_TRUE", "POP_JUMP_BACKWARD_IF_TRUE", "POP_JUMP_IF_TRUE")
def pop_jump_if_true(tx: Translator, frame: Frame, inst: Inst) -> None:
    _jump_if(tx, frame, inst, True)


@opcode("POP_JUMP_FORWARD_IF_FALSE", "POP_JUMP_BACKWARD_IF_FALSE", "POP_JUMP_IF_FALSE")
def pop_jump_if_false(tx: Translator, frame: Frame, inst: Inst) -> None:
    _jump_if(tx, frame, inst, False)


@opcode("JUMP_IF_TRUE_OR_POP")
def jump_if_true_or_pop(tx: Translator, frame: Frame, inst: Inst) -> None:
    if tx.truth(frame.stack[-1]):
        frame.index = inst.target
    else:
        frame.pop()


@opcode("JUMP_IF_FALSE_OR_POP")
def jump_if_false_or_pop(tx: Translator, frame: Frame, inst: Inst) -> None:
    if tx.truth(frame.stack[-1]):
        frame.pop()
    else:
        frame.index = inst.target


def _is_none(frame: Frame) -> bool:
    value = frame.pop()
    return isinstance(value, ConstantVariable) and value.value is None


@opcode("POP_JUMP_FORWARD_IF_NONE", "POP_JUMP_BACKWARD_IF_NONE", "POP_JUMP_IF_NONE")
def pop_jump_if_none(tx: Translator, frame: Frame, inst: Inst) -> None:
    if _is_none(frame):
        _to(tx, frame, inst.target)


@opcode("POP_JUMP_FORWARD_IF_NOT_NONE", "POP_JUMP_BACKWARD_IF_NOT_NONE", "POP_JUMP_IF_NOT_NONE")
def pop_jump_if_not_none(tx: Translator, frame: Frame, inst: Inst) -> None:
    if not _is_none(frame):
        _to(tx, frame, inst.target)


@opcode("GET_ITER")
def get_iter(tx: Translator, frame: Frame, inst: Inst) -> None:
    frame.push(tx.iter(frame.pop()))


@opcode("FOR_ITER")
def for_iter(tx: Translator, frame: Frame, inst: Inst) -> None:
    if not tx.anchors and loops.is_long(tx, frame, frame.current):
        raise GraphBreak(loops.LONG)
    item = tx.next(frame.stack[-1])
    if item is not None:
        frame.push(item)
        return
    frame.index = inst.target
    if versions.FOR_ITER_KEEPS_ITERATOR:
        # END_FOR (and POP_TOP on 3.13) clean up after the interpreter's own way; the iterator ends here.
        frame.pop()
        frame.index += 2 if versions.PY313 else 1
    else:
        frame.pop()


@opcode("END_FOR")
def end_for(tx: Translator, frame: Frame, inst: Inst) -> None:
    frame.pop()
    if not versions.PY313:
        frame.pop()


@opcode("RETURN_VALUE")
def return_value(tx: Translator, frame: Frame, inst: Inst) -> None:
    tx.return_value(frame.pop())


@opcode("RETURN_CONST")
def return_const(tx: Translator, frame: Frame, inst: Inst) -> None:
    tx.return_value(tx.from_fixed(inst.argval))


@opcode("RETURN_GENERATOR")
def return_generator(tx: Translator, frame: Frame, inst: Inst) -> None:
    # The generator object was made by the call; its frame passes here when it is first resumed.
    if not frame.is_generator:
        raise GraphBreak("generator frame", frame.name)


refuse(
    "not in the code of a function", "PRINT_EXPR", "INTERPRETER_EXIT", "EXIT_INIT_CHECK", "ENTER_EXECUTOR", "RESERVED"
)

"""Stack shuffling, constants and operators."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from symbolic import versions
from symbolic.code import Inst
from symbolic.frames import Frame
from symbolic.opcodes.table import opcode
from symbolic.variables.base import COMPARISONS, INPLACE, NULL
from symbolic.variables.constants import ConstantVariable, SliceVariable
from symbolic.variables.late_text import joined
from symbolic.variables.numbers import inverse_of

if TYPE_CHECKING:
    from symbolic.translator import Translator

#: BINARY_OP's argument, by the order of CPython's NB_* table: plain operators, then the in-place ones
_PLAIN = "add and_ floordiv lshift matmul mul mod or_ pow rshift sub truediv xor".split()
BINARY_OPS: list[Any] = [getattr(operator, name) for name in _PLAIN]
BINARY_OPS += [getattr(operator, "i" + name.rstrip("_")) for name in _PLAIN]


@opcode("POP_TOP")
def pop_top(tx: Translator, frame: Frame, inst: Inst) -> None:
    frame.pop()


@opcode("PUSH_NULL")
def push_null(tx: Translator, frame: Frame, inst: Inst) -> None:
    frame.push(NULL)


@opcode("COPY")
def copy(tx: Translator, frame: Frame, inst: Inst) -> None:
    frame.push(frame.stack[-inst.arg])


@opcode("SWAP")
def swap(tx: Translator, frame: Frame, inst: Inst) -> None:
    stack = frame.stack
    stack[-1], stack[-inst.arg] = stack[-inst.arg], stack[-1]


@opcode("LOAD_CONST")
def load_const(tx: Translator, frame: Frame, inst: Inst) -> None:
    frame.push(tx.from_fixed(inst.argval))


@opcode("UNARY_NEGATIVE")
def unary_negative(tx: Translator, frame: Frame, inst: Inst) -> None:
    frame.push(tx.unary(operator.neg, frame.pop()))


@opcode("UNARY_POSITIVE")
def unary_positive(tx: Translator, frame: Frame, inst: Inst) -> None:
    frame.push(tx.unary(operator.pos, frame.pop()))


@opcode("UNARY_INVERT")
def unary_invert(tx: Translator, frame: Frame, inst: Inst) -> None:
    frame.push(tx.unary(operator.invert, frame.pop()))


@opcode("UNARY_NOT")
def unary_not(tx: Translator, frame: Frame, inst: Inst) -> None:
    frame.push(inverse_of(tx, frame.pop()))


@opcode("TO_BOOL")
def to_bool(tx: Translator, frame: Frame, inst: Inst) -> None:
    frame.push(_as_bool(tx, frame, frame.pop()))


def _as_bool(tx: Translator, frame: Frame, value: Any) -> Any:
    """True or False. What follows mostly asks for the truth itself, on every Python, and gets the value: what has no
    truth yet must break there, where both sides of a jump are known."""
    if frame.code.whole.insts[frame.index].op in ("POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE", "UNARY_NOT"):
        return value
    return ConstantVariable(tx.truth(value))


@opcode("BINARY_OP")
def binary_op(tx: Translator, frame: Frame, inst: Inst) -> None:
    right, left = frame.pop(), frame.pop()
    op = BINARY_OPS[inst.arg]
    frame.push(tx.inplace(op, left, right) if op in INPLACE else tx.binary(op, left, right))


@opcode("COMPARE_OP")
def compare_op(tx: Translator, frame: Frame, inst: Inst) -> None:
    right, left = frame.pop(), frame.pop()
    symbol = ("<", "<=", "==", "!=", ">", ">=")[inst.arg >> versions.COMPARE_SHIFT]
    result = tx.binary(COMPARISONS[symbol], left, right)
    frame.push(_as_bool(tx, frame, result) if versions.compare_to_bool(inst.arg) else result)


@opcode("IS_OP")
def is_op(tx: Translator, frame: Frame, inst: Inst) -> None:
    right, left = frame.pop(), frame.pop()
    frame.push(ConstantVariable(left.is_same(tx, right) != bool(inst.arg)))


@opcode("CONTAINS_OP")
def contains_op(tx: Translator, frame: Frame, inst: Inst) -> None:
    container, item = frame.pop(), frame.pop()
    frame.push(ConstantVariable(tx.contains(container, item) != bool(inst.arg)))


@opcode("BINARY_SUBSCR")
def binary_subscr(tx: Translator, frame: Frame, inst: Inst) -> None:
    index, owner = frame.pop(), frame.pop()
    frame.push(tx.repeats.item(owner, "getitem", [index]))


@opcode("STORE_SUBSCR")
def store_subscr(tx: Translator, frame: Frame, inst: Inst) -> None:
    index, owner, value = frame.pop(), frame.pop(), frame.pop()
    tx.repeats.item(owner, "setitem", [index, value])


@opcode("DELETE_SUBSCR")
def delete_subscr(tx: Translator, frame: Frame, inst: Inst) -> None:
    index, owner = frame.pop(), frame.pop()
    owner.delitem(tx, index)


def make_slice(parts: list[Any]) -> Any:
    """A slice variable; constant if its parts are."""
    if all(isinstance(part, ConstantVariable) and (part.value is None or type(part.value) is int) for part in parts):
        return ConstantVariable(slice(*(part.value for part in parts)))
    return SliceVariable(parts)


@opcode("BUILD_SLICE")
def build_slice(tx: Translator, frame: Frame, inst: Inst) -> None:
    frame.push(make_slice(frame.popn(inst.arg)))


@opcode("BINARY_SLICE")
def binary_slice(tx: Translator, frame: Frame, inst: Inst) -> None:
    owner, start, stop = frame.popn(3)
    frame.push(owner.getitem(tx, make_slice([start, stop])))


@opcode("STORE_SLICE")
def store_slice(tx: Translator, frame: Frame, inst: Inst) -> None:
    value, owner, start, stop = frame.popn(4)
    owner.setitem(tx, make_slice([start, stop]), value)


@opcode("FORMAT_VALUE")
def format_value(tx: Translator, frame: Frame, inst: Inst) -> None:
    spec = frame.pop() if inst.arg & 4 else ConstantVariable("")
    frame.push(formatted(tx, converted(tx, frame.pop(), inst.arg & 3), spec))


@opcode("CONVERT_VALUE")
def convert_value(tx: Translator, frame: Frame, inst: Inst) -> None:
    frame.push(converted(tx, frame.pop(), inst.arg))


@opcode("FORMAT_SIMPLE")
def format_simple(tx: Translator, frame: Frame, inst: Inst) -> None:
    frame.push(formatted(tx, frame.pop(), ConstantVariable("")))


@opcode("FORMAT_WITH_SPEC")
def format_with_spec(tx: Translator, frame: Frame, inst: Inst) -> None:
    spec = frame.pop()
    frame.push(formatted(tx, frame.pop(), spec))


def converted(tx: Translator, value: Any, conversion: int) -> Any:
    """`!s`, `!r`, `!a`"""
    if conversion == 0:
        return value
    function = (None, str, repr, ascii)[conversion]
    return tx.call(tx.from_constant(function), [value], {})


def formatted(tx: Translator, value: Any, spec: Any) -> Any:
    return tx.call(tx.from_constant(format), [value, spec], {})


@opcode("BUILD_STRING")
def build_string(tx: Translator, frame: Frame, inst: Inst) -> None:
    frame.push(joined(tx, frame.popn(inst.arg)))

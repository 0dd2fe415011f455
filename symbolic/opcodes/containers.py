"""Building, filling and taking apart containers; pattern matching."""

from __future__ import annotations

import collections.abc
from typing import TYPE_CHECKING

from symbolic.code import Inst
from symbolic.errors import GraphBreak
from symbolic.frames import Frame
from symbolic.opcodes.table import opcode
from symbolic.variables.base import Variable
from symbolic.variables.constants import ConstantVariable
from symbolic.variables.native import is_iterable
from symbolic.variables.positions import has

if TYPE_CHECKING:
    from symbolic.translator import Translator


@opcode("BUILD_TUPLE")
def build_tuple(tx: Translator, frame: Frame, inst: Inst) -> None:
    frame.push(tx.new_tuple(frame.popn(inst.arg)))


@opcode("BUILD_LIST")
def build_list(tx: Translator, frame: Frame, inst: Inst) -> None:
    frame.push(tx.new_list(frame.popn(inst.arg)))


@opcode("BUILD_SET")
def build_set(tx: Translator, frame: Frame, inst: Inst) -> None:
    frame.push(tx.new_set(frame.popn(inst.arg)))


@opcode("BUILD_MAP")
def build_map(tx: Translator, frame: Frame, inst: Inst) -> None:
    flat = frame.popn(2 * inst.arg)
    frame.push(tx.new_dict(list(zip(flat[::2], flat[1::2], strict=True))))


@opcode("BUILD_CONST_KEY_MAP")
def build_const_key_map(tx: Translator, frame: Frame, inst: Inst) -> None:
    keys = tx.unpack(frame.pop())
    frame.push(tx.new_dict(list(zip(keys, frame.popn(inst.arg), strict=True))))


@opcode("LIST_TO_TUPLE")
def list_to_tuple(tx: Translator, frame: Frame, inst: Inst) -> None:
    frame.push(tx.new_tuple(tx.unpack(frame.pop())))


@opcode("LIST_APPEND")
def list_append(tx: Translator, frame: Frame, inst: Inst) -> None:
    value = frame.pop()
    frame.stack[-inst.arg].method(tx, "append", [value], {})


@opcode("LIST_EXTEND")
def list_extend(tx: Translator, frame: Frame, inst: Inst) -> None:
    value = frame.pop()
    if not is_iterable(value):
        name = value.python_type().__name__
        tx.raise_(TypeError, f"Value after * must be an iterable, not {name}")
    frame.stack[-inst.arg].method(tx, "extend", [value], {})


@opcode("SET_ADD")
def set_add(tx: Translator, frame: Frame, inst: Inst) -> None:
    value = frame.pop()
    frame.stack[-inst.arg].method(tx, "add", [value], {})


@opcode("SET_UPDATE")
def set_update(tx: Translator, frame: Frame, inst: Inst) -> None:
    value = frame.pop()
    frame.stack[-inst.arg].method(tx, "update", [value], {})


@opcode("MAP_ADD")
def map_add(tx: Translator, frame: Frame, inst: Inst) -> None:
    value, key = frame.pop(), frame.pop()
    frame.stack[-inst.arg].setitem(tx, key, value)


@opcode("DICT_UPDATE")
def dict_update(tx: Translator, frame: Frame, inst: Inst) -> None:
    value = frame.pop()
    if not has(value.python_type(), "keys"):
        tx.raise_(TypeError, f"{value.python_type().__name__!r} object is not a mapping")
    frame.stack[-inst.arg].method(tx, "update", [value], {})


@opcode("DICT_MERGE")
def dict_merge(tx: Translator, frame: Frame, inst: Inst) -> None:
    value = frame.pop()
    target = frame.stack[-inst.arg]
    if not has(value.python_type(), "keys"):
        raise GraphBreak("keyword arguments from no mapping", value.describe())
    for key in tx.unpack(value.method(tx, "keys", [], {})):
        if tx.contains(target, key):
            raise GraphBreak("keyword argument given twice", key.describe())
        target.setitem(tx, key, value.getitem(tx, key))


@opcode("UNPACK_SEQUENCE")
def unpack_sequence(tx: Translator, frame: Frame, inst: Inst) -> None:
    items = _exactly(tx, frame.pop(), inst.arg)
    frame.stack.extend(reversed(items))


def _exactly(tx: Translator, value: Variable, count: int) -> list[Variable]:
    """The elements of `value`, which must be `count`; infinite iterators are not run past that."""
    iterator = tx.iter(value)
    items: list[Variable] = []
    while (item := tx.next(iterator)) is not None:
        if len(items) == count:
            tx.raise_(ValueError, f"too many values to unpack (expected {count})")
        items.append(item)
    if len(items) < count:
        tx.raise_(ValueError, f"not enough values to unpack (expected {count}, got {len(items)})")
    return items


@opcode("UNPACK_EX")
def unpack_ex(tx: Translator, frame: Frame, inst: Inst) -> None:
    before, after = inst.arg & 0xFF, inst.arg >> 8
    items = tx.unpack(frame.pop())
    if len(items) < before + after:
        tx.raise_(ValueError, f"not enough values to unpack (expected at least {before + after}, got {len(items)})")
    end = len(items) - after
    frame.stack.extend(reversed([*items[:before], tx.new_list(items[before:end]), *items[end:]]))


# --- pattern matching -------------------------------------------------------------------------------------------------
@opcode("GET_LEN")
def get_len(tx: Translator, frame: Frame, inst: Inst) -> None:
    frame.push(ConstantVariable(tx.len(frame.stack[-1])))


@opcode("MATCH_MAPPING")
def match_mapping(tx: Translator, frame: Frame, inst: Inst) -> None:
    frame.push(ConstantVariable(issubclass(frame.stack[-1].python_type(), collections.abc.Mapping)))


@opcode("MATCH_SEQUENCE")
def match_sequence(tx: Translator, frame: Frame, inst: Inst) -> None:
    kind = frame.stack[-1].python_type()
    no_text = not issubclass(kind, (str, bytes, bytearray))
    frame.push(ConstantVariable(no_text and issubclass(kind, collections.abc.Sequence)))


@opcode("MATCH_KEYS")
def match_keys(tx: Translator, frame: Frame, inst: Inst) -> None:
    keys, subject = frame.stack[-1], frame.stack[-2]
    found = tx.unpack(keys)
    if all(tx.contains(subject, key) for key in found):
        frame.push(tx.new_tuple([subject.getitem(tx, key) for key in found]))
    else:
        frame.push(ConstantVariable(None))


_SELF_MATCHING = (bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple)


@opcode("MATCH_CLASS")
def match_class(tx: Translator, frame: Frame, inst: Inst) -> None:
    names, cls, subject = frame.pop(), frame.pop(), frame.pop()
    if not tx.isinstance(subject, cls):
        frame.push(ConstantVariable(None))
        return
    attributes: list[Variable] = []
    real = cls.real()
    if inst.arg:
        if tx.hasattr(cls, "__match_args__"):
            arguments = [arg.constant() for arg in tx.unpack(tx.getattr(cls, "__match_args__"))]
            if len(arguments) < inst.arg:
                raise GraphBreak("class pattern with too many positions", cls.describe())
            attributes = [tx.getattr(subject, name) for name in arguments[: inst.arg]]
        elif issubclass(real, _SELF_MATCHING) and inst.arg == 1:
            attributes = [subject]
        else:
            raise GraphBreak("class pattern with too many positions", cls.describe())
    for name in tx.unpack(names):
        if not tx.hasattr(subject, name.constant()):
            frame.push(ConstantVariable(None))
            return
        attributes.append(tx.getattr(subject, name.constant()))
    frame.push(tx.new_tuple(attributes))

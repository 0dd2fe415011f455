"""Building, filling and taking apart containers; pattern matching."""

from __future__ import annotations

from typing import TYPE_CHECKING

from symbolic.code import Inst
from symbolic.errors import GraphBreak, Observed
from symbolic.frames import Frame
from symbolic.opcodes.table import opcode
from symbolic.variables.base import MISSING, Variable
from symbolic.variables.classes import ClassVariable
from symbolic.variables.constants import ConstantVariable
from symbolic.variables.mappings import DictVariable
from symbolic.variables.native import is_iterable, taken
from symbolic.variables.objects import ObjectVariable
from symbolic.variables.positions import has, type_name

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
    target = frame.stack[-inst.arg]
    assert isinstance(target, DictVariable)
    try:
        target.merge(tx, value)
    except Observed as raised:
        if not issubclass(raised.variable.python_type(), AttributeError):
            raise
        tx.raise_(TypeError, f"{type_name(value.python_type())!r} object is not a mapping")


@opcode("DICT_MERGE")
def dict_merge(tx: Translator, frame: Frame, inst: Inst) -> None:
    value = frame.pop()
    target = frame.stack[-inst.arg]
    if not has(value.python_type(), "keys"):
        raise GraphBreak("keyword arguments from no mapping", value.describe())
    for key, item in tx.new_dict([]).merged(tx, value):
        if tx.contains(target, key):
            raise GraphBreak("keyword argument given twice", key.describe())
        target.setitem(tx, key, item)


@opcode("UNPACK_SEQUENCE")
def unpack_sequence(tx: Translator, frame: Frame, inst: Inst) -> None:
    items = _exactly(tx, frame.pop(), inst.arg)
    frame.stack.extend(reversed(items))


def _exactly(tx: Translator, value: Variable, count: int) -> list[Variable]:
    """The elements of `value`, which must be `count`; infinite iterators are not run past that."""
    _check_iterable(tx, value)
    iterator = tx.iter(value)
    items: list[Variable] = []
    while (item := tx.next(iterator)) is not None:
        if len(items) == count:
            tx.raise_(ValueError, f"too many values to unpack (expected {count})")
        items.append(item)
    if len(items) < count:
        tx.raise_(ValueError, f"not enough values to unpack (expected {count}, got {len(items)})")
    return items


def _check_iterable(tx: Translator, value: Variable) -> None:
    if isinstance(value, (ConstantVariable, ObjectVariable)):
        kind = value.python_type()
        if tx.lookup(kind, "__iter__") is MISSING and tx.lookup(kind, "__getitem__") is MISSING:
            tx.raise_(TypeError, f"cannot unpack non-iterable {type_name(kind)} object")


@opcode("UNPACK_EX")
def unpack_ex(tx: Translator, frame: Frame, inst: Inst) -> None:
    before, after = inst.arg & 0xFF, inst.arg >> 8
    _check_iterable(tx, frame.stack[-1])
    iterator = tx.iter(frame.pop())
    first = [item for _ in range(before) if (item := tx.next(iterator)) is not None]
    rest = taken(tx, iterator) if len(first) == before else []
    if len(rest) < after or len(first) < before:
        count = len(first) + len(rest)
        tx.raise_(ValueError, f"not enough values to unpack (expected at least {before + after}, got {count})")
    end = len(rest) - after
    frame.stack.extend(reversed([*first, tx.new_list(rest[:end]), *rest[end:]]))


# --- pattern matching -------------------------------------------------------------------------------------------------
@opcode("GET_LEN")
def get_len(tx: Translator, frame: Frame, inst: Inst) -> None:
    frame.push(ConstantVariable(tx.len(frame.stack[-1])))


#: Of `type.__flags__`: what patterns go by.
_SEQUENCE, _MAPPING, _MATCHES_ITSELF = 1 << 5, 1 << 6, 1 << 22


@opcode("MATCH_MAPPING")
def match_mapping(tx: Translator, frame: Frame, inst: Inst) -> None:
    frame.push(ConstantVariable(bool(frame.stack[-1].python_type().__flags__ & _MAPPING)))


@opcode("MATCH_SEQUENCE")
def match_sequence(tx: Translator, frame: Frame, inst: Inst) -> None:
    frame.push(ConstantVariable(bool(frame.stack[-1].python_type().__flags__ & _SEQUENCE)))


@opcode("MATCH_KEYS")
def match_keys(tx: Translator, frame: Frame, inst: Inst) -> None:
    keys, subject = frame.stack[-1], frame.stack[-2]
    get, nothing = tx.getattr(subject, "get"), tx.new_instance(object, [], {})
    seen: list[Variable] = []
    values: list[Variable] = []
    for key in tx.unpack(keys):
        if any(tx.equal(key, other) for other in seen):
            raise GraphBreak("mapping pattern with a key twice", key.describe())
        seen.append(key)
        values.append(tx.call(get, [key, nothing], {}))
        if values[-1] is nothing:
            frame.push(ConstantVariable(None))
            return
    frame.push(tx.new_tuple(values))


@opcode("MATCH_CLASS")
def match_class(tx: Translator, frame: Frame, inst: Inst) -> None:
    keywords, cls, subject = frame.pop(), frame.pop(), frame.pop()
    if not tx.isinstance(subject, cls):
        frame.push(ConstantVariable(None))
        return
    attributes: list[Variable] = []
    names = [name.constant() for name in tx.unpack(keywords)]
    given = _attribute(tx, cls, "__match_args__") if inst.arg else None
    if given is not None:
        if given.python_type() is not tuple:
            raise GraphBreak("class pattern over __match_args__ that are none", cls.describe())
        arguments = [arg.constant() for arg in tx.unpack(given)]
        if len(arguments) < inst.arg or not all(isinstance(name, str) for name in arguments[: inst.arg]):
            raise GraphBreak("class pattern over __match_args__ that are none", cls.describe())
        names = [*arguments[: inst.arg], *names]
    elif inst.arg == 1 and _value(cls).__flags__ & _MATCHES_ITSELF:
        attributes = [subject]
    elif inst.arg:
        raise GraphBreak("class pattern with too many positions", cls.describe())
    if len(set(names)) < len(names):
        raise GraphBreak("class pattern with an attribute twice", cls.describe())
    for name in names:
        found = _attribute(tx, subject, name)
        if found is None:
            frame.push(ConstantVariable(None))
            return
        attributes.append(found)
    frame.push(tx.new_tuple(attributes))


def _attribute(tx: Translator, value: Variable, name: str) -> Variable | None:
    """None where reading it raises AttributeError."""
    try:
        return tx.getattr(value, name)
    except Observed as raised:
        if issubclass(raised.variable.python_type(), AttributeError):
            return None
        raise


def _value(cls: Variable) -> type:
    """The class, or what stands for one born in the frame."""
    return cls.value if isinstance(cls, ClassVariable) else cls.real()

"""The names of a class body, which are in a namespace that the metaclass may have made, and `class` itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from symbolic.code import Inst
from symbolic.errors import GraphBreak, Observed
from symbolic.frames import Frame
from symbolic.opcodes.names import load_deref
from symbolic.opcodes.table import opcode
from symbolic.variables.base import Variable
from symbolic.variables.constants import ConstantVariable

if TYPE_CHECKING:
    from symbolic.translator import Translator

_ANNOTATIONS = ConstantVariable("__annotations__")


@opcode("LOAD_BUILD_CLASS")
def load_build_class(tx: Translator, frame: Frame, inst: Inst) -> None:
    frame.push(tx.load_name(frame.namespace, "__build_class__"))


def _space(frame: Frame) -> Variable:
    if frame.space is None:
        raise GraphBreak("names outside of a class body", frame.name)
    return frame.space


def _find(tx: Translator, space: Variable, name: str) -> Variable | None:
    """`space[name]`, None if that is a KeyError."""
    try:
        return space.getitem(tx, ConstantVariable(name))
    except Observed as raised:
        if issubclass(raised.variable.python_type(), KeyError):
            return None
        raise


@opcode("LOAD_NAME")
def load_name(tx: Translator, frame: Frame, inst: Inst) -> None:
    found = _find(tx, _space(frame), inst.argval)
    frame.push(found if found is not None else tx.load_name(frame.namespace, inst.argval))


@opcode("STORE_NAME")
def store_name(tx: Translator, frame: Frame, inst: Inst) -> None:
    _space(frame).setitem(tx, ConstantVariable(inst.argval), frame.pop())


@opcode("DELETE_NAME")
def delete_name(tx: Translator, frame: Frame, inst: Inst) -> None:
    if _find(tx, _space(frame), inst.argval) is None:
        tx.no_name(inst.argval)
    _space(frame).delitem(tx, ConstantVariable(inst.argval))


@opcode("SETUP_ANNOTATIONS")
def setup_annotations(tx: Translator, frame: Frame, inst: Inst) -> None:
    if _find(tx, _space(frame), _ANNOTATIONS.value) is None:
        _space(frame).setitem(tx, _ANNOTATIONS, tx.new_dict([]))


@opcode("LOAD_LOCALS")
def load_locals(tx: Translator, frame: Frame, inst: Inst) -> None:
    frame.push(_space(frame))


@opcode("LOAD_CLASSDEREF")
def load_classderef(tx: Translator, frame: Frame, inst: Inst) -> None:
    _push_or_deref(tx, frame, inst, _space(frame))


@opcode("LOAD_FROM_DICT_OR_DEREF")
def load_from_dict_or_deref(tx: Translator, frame: Frame, inst: Inst) -> None:
    _push_or_deref(tx, frame, inst, frame.pop())


def _push_or_deref(tx: Translator, frame: Frame, inst: Inst, space: Variable) -> None:
    found = _find(tx, space, inst.argval)
    if found is not None:
        frame.push(found)
    else:
        load_deref(tx, frame, inst)


@opcode("LOAD_FROM_DICT_OR_GLOBALS")
def load_from_dict_or_globals(tx: Translator, frame: Frame, inst: Inst) -> None:
    found = _find(tx, frame.pop(), inst.argval)
    frame.push(found if found is not None else tx.load_name(frame.namespace, inst.argval))

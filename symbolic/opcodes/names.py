"""Locals, globals, cells, attributes, imports."""

from __future__ import annotations

import builtins
import importlib.util
from typing import TYPE_CHECKING

from symbolic import versions
from symbolic.code import Inst
from symbolic.errors import GraphBreak, Observed
from symbolic.frames import Frame
from symbolic.opcodes.table import opcode, refuse
from symbolic.variables.base import NULL, Variable
from symbolic.variables.classes import ClassVariable, SuperVariable
from symbolic.variables.functions import CellVariable
from symbolic.variables.imported import FIRST, imported
from symbolic.variables.tables import BuiltinVariable

if TYPE_CHECKING:
    from symbolic.translator import Translator

_IMPORT = builtins.__import__


def read_local(tx: Translator, frame: Frame, name: str) -> Variable:
    found = frame.locals.get(name)
    if found is None:
        tx.raise_(UnboundLocalError, f"cannot access local variable '{name}' where it is not associated with a value")
    found = frame.locals[name] = found.realize(tx)
    return found


def _in_slot(frame: Frame, inst: Inst) -> Variable | None:
    """What the slot of a local, cell or free variable holds at the moment: a value, a cell or nothing (None).

    A comprehension that is inlined (3.12) may use the slot of a cell for a plain value, and the other way round. A free
    variable and a comprehension's variable of the same name have slots of their own, told apart by their numbers."""
    code, name = frame.code.raw, inst.argval
    if inst.arg < code.co_nlocals:
        if name in frame.locals or name not in code.co_cellvars:
            return frame.locals.get(name)
    return frame.cells.get(name)


@opcode("LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_CLOSURE")
def load_fast(tx: Translator, frame: Frame, inst: Inst) -> None:
    if inst.argval in frame.locals and inst.arg < frame.code.raw.co_nlocals:
        frame.push(read_local(tx, frame, inst.argval))
        return
    found = _in_slot(frame, inst)
    is_cell = found is not None and found is not frame.locals.get(inst.argval)
    frame.push(found if is_cell else read_local(tx, frame, inst.argval))  # type: ignore[arg-type]


@opcode("LOAD_FAST_AND_CLEAR")
def load_fast_and_clear(tx: Translator, frame: Frame, inst: Inst) -> None:
    found = _in_slot(frame, inst)
    frame.push(found.realize(tx) if found is not None else NULL)
    _clear_slot(frame, inst.argval)


def _clear_slot(frame: Frame, name: str) -> None:
    frame.locals.pop(name, None)
    if name in frame.code.raw.co_cellvars:
        frame.cells.pop(name, None)


@opcode("STORE_FAST")
def store_fast(tx: Translator, frame: Frame, inst: Inst) -> None:
    name, value = inst.argval, frame.pop()
    _clear_slot(frame, name)
    if isinstance(value, CellVariable) and name in frame.code.raw.co_cellvars:
        frame.cells[name] = value  # LOAD_FAST_AND_CLEAR put the cell aside
    elif value is not NULL:  # null: it put an unbound name aside
        frame.locals[name] = value


@opcode("DELETE_FAST")
def delete_fast(tx: Translator, frame: Frame, inst: Inst) -> None:
    read_local(tx, frame, inst.argval)
    del frame.locals[inst.argval]


# --- cells ------------------------------------------------------------------------------------------------------------
def _cell(frame: Frame, name: str) -> CellVariable:
    cell = frame.cells[name]
    assert isinstance(cell, CellVariable)
    return cell


@opcode("MAKE_CELL")
def make_cell(tx: Translator, frame: Frame, inst: Inst) -> None:
    held = _in_slot(frame, inst)
    cell = CellVariable()
    if held is not None:
        cell.store(tx, held)
    if inst.arg < frame.code.raw.co_nlocals:
        frame.locals.pop(inst.argval, None)
    frame.cells[inst.argval] = cell


@opcode("LOAD_DEREF")
def load_deref(tx: Translator, frame: Frame, inst: Inst) -> None:
    found = _cell(frame, inst.argval).contents(tx)
    if found is None:
        if inst.argval in frame.code.raw.co_freevars:
            said = "cannot access free variable {!r} where it is not associated with a value in enclosing scope"
            tx.no_name(inst.argval, said)
        tx.raise_(
            UnboundLocalError, f"cannot access local variable '{inst.argval}' where it is not associated with a value"
        )
    frame.push(found)


@opcode("STORE_DEREF")
def store_deref(tx: Translator, frame: Frame, inst: Inst) -> None:
    _cell(frame, inst.argval).store(tx, frame.pop())


@opcode("DELETE_DEREF")
def delete_deref(tx: Translator, frame: Frame, inst: Inst) -> None:
    cell = _cell(frame, inst.argval)
    if cell.contents(tx) is None:
        raise GraphBreak("deletion of an empty cell", inst.argval)
    cell.clear(tx)


# --- globals ----------------------------------------------------------------------------------------------------------
@opcode("LOAD_GLOBAL")
def load_global(tx: Translator, frame: Frame, inst: Inst) -> None:
    wants_null = bool(inst.arg & 1)
    if wants_null and not versions.CALLABLE_FIRST:
        frame.push(NULL)
    frame.push(tx.load_name(frame.namespace, inst.argval))
    if wants_null and versions.CALLABLE_FIRST:
        frame.push(NULL)


@opcode("STORE_GLOBAL")
def store_global(tx: Translator, frame: Frame, inst: Inst) -> None:
    frame.namespace.store(tx, inst.argval, frame.pop())  # type: ignore[attr-defined]


@opcode("DELETE_GLOBAL")
def delete_global(tx: Translator, frame: Frame, inst: Inst) -> None:
    if frame.namespace.find(tx, inst.argval) is None:  # type: ignore[attr-defined]
        tx.no_name(inst.argval)
    frame.namespace.remove(tx, inst.argval)  # type: ignore[attr-defined]


# --- attributes -------------------------------------------------------------------------------------------------------
def push_method(frame: Frame, function: Variable) -> None:
    """Pushes what LOAD_METHOD leaves for CALL: we never split a method, so it is the NULL form."""
    if versions.CALLABLE_FIRST:
        frame.push(function)
        frame.push(NULL)
    else:
        frame.push(NULL)
        frame.push(function)


@opcode("LOAD_METHOD")
def load_method(tx: Translator, frame: Frame, inst: Inst) -> None:
    push_method(frame, tx.method_of(frame.pop(), inst.argval))


@opcode("LOAD_ATTR")
def load_attr(tx: Translator, frame: Frame, inst: Inst) -> None:
    if versions.PY312 and inst.arg & 1:
        push_method(frame, tx.method_of(frame.pop(), inst.argval))
    else:
        frame.push(tx.getattr(frame.pop(), inst.argval))


@opcode("STORE_ATTR")
def store_attr(tx: Translator, frame: Frame, inst: Inst) -> None:
    owner, value = frame.pop(), frame.pop()
    owner.setattr(tx, inst.argval, value)


@opcode("DELETE_ATTR")
def delete_attr(tx: Translator, frame: Frame, inst: Inst) -> None:
    frame.pop().delattr(tx, inst.argval)


@opcode("LOAD_SUPER_ATTR")
def load_super_attr(tx: Translator, frame: Frame, inst: Inst) -> None:
    function, cls, owner = frame.popn(3)
    if function.real() is not super:
        raise GraphBreak("super is no longer what it was", function.describe())
    found = make_super(cls, owner).getattr(tx, inst.argval)
    if inst.arg & 1:
        push_method(frame, found)
    else:
        frame.push(found)


def make_super(cls: Variable, owner: Variable) -> SuperVariable:
    """`super(cls, owner)`"""
    start = cls.value if isinstance(cls, ClassVariable) else cls.real()
    if not isinstance(start, type):
        raise GraphBreak("super() of a class not known", cls.describe())
    kinds = [owner.value, owner.python_type()] if isinstance(owner, ClassVariable) else [owner.python_type()]
    if not any(start in kind.__mro__ for kind in kinds):
        raise GraphBreak("super() of an object of another class", owner.describe())
    return SuperVariable(start, owner)


# --- imports ----------------------------------------------------------------------------------------------------------
@opcode("IMPORT_NAME")
def import_name(tx: Translator, frame: Frame, inst: Inst) -> None:
    names, level = frame.pop(), frame.pop()
    package = frame.namespace.find(tx, "__package__") if level.constant() else None  # type: ignore[attr-defined]
    full = inst.argval
    if level.constant():
        if package is None:
            raise GraphBreak("relative import without a package", inst.argval)
        full = importlib.util.resolve_name("." * level.constant() + inst.argval, package.constant())
    found = _imported(tx, full)
    if found is None:
        raise GraphBreak(FIRST, full)
    package_only = "." in full and not names.constant() and not level.constant()
    frame.push((_imported(tx, full.partition(".")[0]) if package_only else None) or found)


def _imported(tx: Translator, name: str) -> Variable | None:
    """The module of that name, None before its first import."""
    function = tx.getattr(tx.wrap(builtins, tx.sources.const(builtins, "builtins")), "__import__")
    if not isinstance(function, BuiltinVariable) or function.real() is not _IMPORT:
        raise GraphBreak("import by a function of the program", name)
    return imported(tx, name)


@opcode("IMPORT_FROM")
def import_from(tx: Translator, frame: Frame, inst: Inst) -> None:
    module = frame.stack[-1]
    try:
        return frame.push(tx.getattr(module, inst.argval))
    except Observed as raised:
        if not issubclass(raised.variable.python_type(), AttributeError):
            raise
    name = tx.getattr(module, "__name__").constant() if tx.hasattr(module, "__name__") else None
    submodule = _imported(tx, f"{name}.{inst.argval}") if isinstance(name, str) else None
    if submodule is None:
        raise GraphBreak("import of a name that is not there", inst.argval)
    frame.push(submodule)


refuse("star import inside a function", "IMPORT_STAR")

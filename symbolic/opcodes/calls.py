"""Calls, and the functions that frames make."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from symbolic import versions
from symbolic.code import Inst
from symbolic.errors import GraphBreak
from symbolic.frames import Frame
from symbolic.opcodes.exceptions import prep_reraise_star
from symbolic.opcodes.names import make_super
from symbolic.opcodes.table import opcode
from symbolic.variables.base import NULL, Variable
from symbolic.variables.constants import ConstantVariable
from symbolic.variables.functions import CellVariable, ClosureFunction, PythonFunction
from symbolic.variables.native import is_iterable, taken
from symbolic.variables.positions import has, type_name
from symbolic.variables.tables import BuiltinVariable

if TYPE_CHECKING:
    from symbolic.translator import Translator


def operands(frame: Frame, arg: int) -> tuple[Variable, list[Variable]]:
    """Pops callable and positional arguments of a CALL; a split method's self comes first among the arguments."""
    args = frame.popn(arg)
    second, first = frame.pop(), frame.pop()
    if versions.CALLABLE_FIRST:
        function, owner = first, second
    elif first is NULL:
        function, owner = second, NULL
    else:
        function, owner = first, second
    return function, args if owner is NULL else [owner, *args]


@opcode("KW_NAMES")
def kw_names(tx: Translator, frame: Frame, inst: Inst) -> None:
    frame.kw_names = frame.code.raw.co_consts[inst.arg]


@opcode("CALL")
def call(tx: Translator, frame: Frame, inst: Inst) -> None:
    names, frame.kw_names = frame.kw_names, ()
    function, args = operands(frame, inst.arg)
    _call(tx, frame, function, args, names)


@opcode("CALL_KW")
def call_kw(tx: Translator, frame: Frame, inst: Inst) -> None:
    names = frame.pop().constant()
    function, args = operands(frame, inst.arg)
    _call(tx, frame, function, args, names)


def _call(tx: Translator, frame: Frame, function: Variable, args: list[Variable], names: tuple[str, ...]) -> None:
    split = len(args) - len(names)
    if isinstance(function, BuiltinVariable) and function.real() is super:
        frame.push(_super(tx, frame, args))
        return
    tx.invoke(function, args[:split], dict(zip(names, args[split:], strict=True)))


def _super(tx: Translator, frame: Frame, args: list[Variable]) -> Variable:
    """`super(...)`; without arguments it reads the frame's `__class__` cell and first parameter."""
    if len(args) == 2:
        return make_super(args[0], args[1])
    if args:
        raise GraphBreak("super() with one argument")
    cell = frame.cells.get("__class__")
    code = frame.code.raw
    cls = cell.contents(tx) if isinstance(cell, CellVariable) else None
    if cls is None or not code.co_argcount:
        raise GraphBreak("super() without arguments")
    first = code.co_varnames[0]
    held = frame.cells.get(first)
    owner = held.contents(tx) if isinstance(held, CellVariable) else frame.locals.get(first)
    if owner is None:
        raise GraphBreak("super() without arguments")
    return make_super(cls, owner.realize(tx))


@opcode("CALL_FUNCTION_EX")
def call_function_ex(tx: Translator, frame: Frame, inst: Inst) -> None:
    keywords: dict[Any, Variable] = {}
    if inst.arg & 1:
        mapping = frame.pop()
        if not has(mapping.python_type(), "keys"):
            raise GraphBreak("keyword arguments from no mapping", mapping.describe())
        for key, item in tx.new_dict([]).merged(tx, mapping):
            keywords[key.constant()] = item
    sequence = frame.pop()
    if versions.CALLABLE_FIRST:
        frame.pop()
        function = frame.pop()
    else:
        function = frame.pop()
        frame.pop()
    if not is_iterable(sequence):
        kind = type_name(sequence.python_type())
        tx.raise_(TypeError, f"{_named(tx, function)} argument after * must be an iterable, not {kind}")
    args = taken(tx, sequence)
    if not all(isinstance(name, str) for name in keywords):
        if not isinstance(function, PythonFunction):  # functions in C may take them
            raise GraphBreak("keyword arguments that are no names", function.describe())
        tx.raise_(TypeError, "keywords must be strings")
    tx.invoke(function, args, keywords)


def _named(tx: Translator, function: Variable) -> str:
    """What the interpreter calls a function in what it says of its arguments."""
    if not tx.hasattr(function, "__qualname__"):
        raise GraphBreak("arguments from no iterable", function.describe())
    module = tx.getattr(function, "__module__").constant() if tx.hasattr(function, "__module__") else None
    name = f"{tx.getattr(function, '__qualname__').constant()}()"
    return name if module in (None, "builtins") else f"{module}.{name}"


@opcode("MAKE_FUNCTION")
def make_function(tx: Translator, frame: Frame, inst: Inst) -> None:
    code = frame.pop().real()
    function = ClosureFunction(code, frame.namespace, code.co_qualname)
    if not function.globals.exists:  # they may be filled after the function is rebuilt
        tx.ledger.store(function, "__module__", function.globals.find(tx, "__name__") or ConstantVariable(None))
    if not versions.PY313:
        for flag in (8, 4, 2, 1):
            if inst.arg & flag:
                set_attribute(tx, function, flag, frame.pop())
    frame.push(function)


@opcode("SET_FUNCTION_ATTRIBUTE")
def set_function_attribute(tx: Translator, frame: Frame, inst: Inst) -> None:
    function = frame.pop()
    assert isinstance(function, ClosureFunction)
    set_attribute(tx, function, inst.arg, frame.pop())
    frame.push(function)


def set_attribute(tx: Translator, function: ClosureFunction, flag: int, value: Variable) -> None:
    """The four extras of MAKE_FUNCTION: 1 defaults, 2 keyword defaults, 4 annotations, 8 closure."""
    if flag == 1:
        function.defaults = value
    elif flag == 2:
        function.kwdefaults = value
    elif flag == 4:
        function.annotations = value
    else:
        function.closure = tx.unpack(value)


@opcode("CALL_INTRINSIC_1")
def call_intrinsic_1(tx: Translator, frame: Frame, inst: Inst) -> None:
    intrinsic = versions.INTRINSICS_1[inst.arg]
    if intrinsic == "INTRINSIC_LIST_TO_TUPLE":
        frame.push(tx.new_tuple(tx.unpack(frame.pop())))
    elif intrinsic == "INTRINSIC_UNARY_POSITIVE":
        frame.push(tx.unary(operator.pos, frame.pop()))
    elif intrinsic == "INTRINSIC_STOPITERATION_ERROR":
        pass  # our generators convert StopIteration themselves
    else:
        raise GraphBreak("instruction not supported", intrinsic)


@opcode("CALL_INTRINSIC_2")
def call_intrinsic_2(tx: Translator, frame: Frame, inst: Inst) -> None:
    intrinsic = versions.INTRINSICS_2[inst.arg]
    if intrinsic != "INTRINSIC_PREP_RERAISE_STAR":
        raise GraphBreak("instruction not supported", intrinsic)
    prep_reraise_star(tx, frame, inst)

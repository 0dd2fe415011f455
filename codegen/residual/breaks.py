"""The instruction that broke the graph, run eagerly: one row per opcode.

A row says how many stack items the instruction takes and emits it with its operands loaded; what it leaves are the
results, in stack order. Jumps and loops have two ways to go on; their rows name both.
"""

from __future__ import annotations

import builtins
import operator
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MethodDescriptorType
from typing import Any

from codegen.residual import runtime
from codegen.residual.emitter import Emitter, Kind
from codegen.residual.writer import Emit, Placeholder, Writer
from symbolic import versions
from symbolic.code import Inst
from symbolic.frames import Frame
from symbolic.variables.base import NULL, Variable
from symbolic.variables.functions import CellVariable
from symbolic.variables.methods import NativeMethod
from symbolic.variables.native import is_iterable
from symbolic.variables.tables import BuiltinVariable


class NotBreakable(Exception):
    """No row for this opcode: the frame must run eagerly as a whole."""


@dataclass
class Broken:
    """One broken instruction being emitted: `operands` are its stack items, bottom first. `through`: what stands in for
    the inlined frames, the outermost first. `goes_on`: whether this code does if it raises; if not, a traceback holds
    the frame of this code, which has to keep the user's values that are `kept`, and not the arguments `dropped`."""

    writer: Writer
    frame: Frame
    inst: Inst
    operands: list[Variable]
    region: Any
    through: tuple[Any, ...] = ()
    kw_names: tuple[str, ...] = ()
    handled: Variable | None = None
    goes_on: bool = True
    kept: Sequence[Variable] = ()
    dropped: Sequence[str] = ()

    @property
    def emit(self) -> Emitter:
        return self.writer.emit

    def load(self, *indices: int) -> None:
        for index in indices:
            self.writer.load(self.operands[index])


#: what a row leaves on the symbolic stack: RESULT stands for the value it pushed, an int for operand number i
RESULT = object()


@dataclass(frozen=True)
class Row:
    """`takes(inst)` operands; `run` emits; `leaves(inst)` lists what is on the stack afterwards in their place."""

    takes: Callable[[Inst], int]
    run: Callable[[Broken], None]
    leaves: Callable[[Inst], list[Any]]


ROWS: dict[str, Row] = {}


def row(
    names: str, takes: int | Callable[[Inst], int], leaves: list[Any] | Callable[[Inst], list[Any]]
) -> Callable[[Callable[[Broken], None]], Callable[[Broken], None]]:
    def register(run: Callable[[Broken], None]) -> Callable[[Broken], None]:
        count = takes if callable(takes) else lambda inst: takes
        left = leaves if callable(leaves) else lambda inst: leaves
        for name in names.split():
            ROWS[name] = Row(count, run, left)
        return run

    return register


# --- calls ------------------------------------------------------------------------------------------------------------
def _split_call(b: Broken, operands: list[Variable]) -> tuple[Variable, list[Variable]]:
    first, second, *args = operands
    if first is not NULL and second is not NULL:
        function, args = first, [second, *args]
    else:
        function = first if versions.CALLABLE_FIRST else second
    if type(function) is NativeMethod and function.is_called and function.owner.whole is not function.owner:
        descriptor = getattr(function.owner.python_type(), function.name)
        if isinstance(descriptor, MethodDescriptorType):  # errors of the call name the class that has the method
            return BuiltinVariable(descriptor), [function.owner.whole, *args]
    return function, args


def _call(b: Broken, function: Variable, args: list[Variable], names: tuple[str, ...]) -> None:
    """`function(*args)`; inside a region, so that the frames it enters may be captured by the hook."""
    called = [*b.through, *([b.region] if b.region is not None else []), function]
    _load_callable(b, called)
    b.writer.load_all(args)
    b.emit.call(len(called) - 1 + len(args), names)


def _load_callable(b: Broken, called: list[Any]) -> None:
    """The first of them is called, with the others as its first arguments."""
    b.emit.begin_call()
    b.writer.push(called[0])
    b.emit.end_callable()
    for each in called[1:]:
        b.writer.push(each)


@row("CALL", lambda inst: inst.arg + 2, [RESULT])
def call(b: Broken) -> None:
    function, args = _split_call(b, b.operands)
    if function.real() is super and not args:
        args = _found_by_super(b)
    _call(b, function, args, b.kw_names)


def _found_by_super(b: Broken) -> list[Variable]:
    """What `super()` finds in the frame that calls it."""
    code = b.frame.code.raw
    first = code.co_varnames[0] if code.co_argcount else ""
    found = (b.frame.cells.get(name) for name in ("__class__", first))
    cells = [cell for cell in found if isinstance(cell, CellVariable)]
    local = b.frame.locals.get(first)
    if len(cells) + (local is not None) != 2:
        raise NotBreakable("super() without arguments")
    values = [Placeholder(b.emit.fresh("found")) for _ in cells]
    for cell, value in zip(cells, values, strict=True):
        b.writer.load(cell)
        b.emit.attr("cell_contents")
        b.emit.store(value.name)
    return [*values, *([local] if local is not None else [])]


@row("CALL_KW", lambda inst: inst.arg + 3, [RESULT])
def call_kw(b: Broken) -> None:
    function, args = _split_call(b, b.operands[:-1])
    _call(b, function, args, b.operands[-1].constant())


@row("CALL_FUNCTION_EX", lambda inst: 3 + (inst.arg & 1), [RESULT])
def call_function_ex(b: Broken) -> None:
    first, second, args, *keywords = b.operands
    function = first if versions.CALLABLE_FIRST else second
    emit, w = b.emit, b.writer
    if b.region is not None and is_iterable(args):  # what is none fails in the words of the call
        called = [*b.through, b.region.ex, function]
        _load_callable(b, called)
        w.call(tuple, args)
        if keywords:
            w.call(dict, keywords[0])
        emit.call(len(called) + len(keywords))
    else:
        _load_callable(b, [function])
        w.load(args)
        if keywords:
            w.load(keywords[0])
        emit.call_ex(bool(keywords))


@row("BEFORE_WITH", 1, [RESULT])
def before_with(b: Broken) -> None:
    """(`__exit__` bound, what `__enter__` gave): the assembler takes the pair apart."""
    b.load(0)
    b.emit.op("BEFORE_WITH")
    b.emit.build("tuple", 2)


@row("WITH_EXCEPT_START", 4, [0, 1, 2, 3, RESULT])
def with_except_start(b: Broken) -> None:
    b.load(0)
    b.emit.const(0)
    b.emit.const(None)
    b.load(3)
    b.emit.op("WITH_EXCEPT_START")
    b.emit.build("tuple", 5)
    b.emit.const(-1)
    b.emit.subscr()


# --- attributes, items, operators -------------------------------------------------------------------------------------
def _method_form(inst: Inst) -> list[Any]:
    method = inst.op == "LOAD_METHOD" or (versions.PY312 and inst.arg & 1)
    if not method:
        return [RESULT]
    return [RESULT, NULL] if versions.CALLABLE_FIRST else [NULL, RESULT]


@row("LOAD_ATTR LOAD_METHOD", 1, _method_form)
def load_attr(b: Broken) -> None:
    b.load(0)
    b.emit.attr(b.inst.argval)


@row("LOAD_SUPER_ATTR", 3, lambda inst: _method_form(inst))
def load_super_attr(b: Broken) -> None:
    if b.operands[0].real() is not super:
        raise NotBreakable("super is no longer what it was")
    b.writer.call(super, b.operands[1], b.operands[2])
    b.emit.attr(b.inst.argval)


@row("STORE_ATTR", 2, [])
def store_attr(b: Broken) -> None:
    b.load(0, 1)
    b.emit.store_attr(b.inst.argval)


@row("DELETE_ATTR", 1, [])
def delete_attr(b: Broken) -> None:
    b.load(0)
    b.emit.delete_attr(b.inst.argval)


@row("BINARY_OP", 2, [RESULT])
def binary_op(b: Broken) -> None:
    b.load(0, 1)
    b.emit.binary(b.inst.arg)


@row("COMPARE_OP", 2, [RESULT])
def compare_op(b: Broken) -> None:
    b.load(0, 1)
    symbol = ("<", "<=", "==", "!=", ">", ">=")[b.inst.arg >> versions.COMPARE_SHIFT]
    b.emit.compare(symbol, versions.compare_to_bool(b.inst.arg))


@row("IS_OP", 2, [RESULT])
def is_op(b: Broken) -> None:
    b.load(0, 1)
    b.emit.is_op(bool(b.inst.arg))


@row("CONTAINS_OP", 2, [RESULT])
def contains_op(b: Broken) -> None:
    b.load(0, 1)
    b.emit.contains_op(bool(b.inst.arg))


@row("UNARY_NEGATIVE UNARY_POSITIVE UNARY_INVERT UNARY_NOT", 1, [RESULT])
def unary(b: Broken) -> None:
    if b.inst.op == "UNARY_NOT":
        b.writer.call(operator.not_, b.operands[0])
        return
    b.load(0)
    b.emit.unary(b.inst.op)


_INTRINSICS: dict[str, Callable[..., Any]] = {
    "INTRINSIC_UNARY_POSITIVE": operator.pos,
    "INTRINSIC_LIST_TO_TUPLE": tuple,
}


@row("CALL_INTRINSIC_1", 1, [RESULT])
def call_intrinsic_1(b: Broken) -> None:
    name = versions.INTRINSICS_1[b.inst.arg]
    if name not in _INTRINSICS:
        raise NotBreakable(name)
    b.writer.call(_INTRINSICS[name], b.operands[0])


@row("TO_BOOL", 1, [RESULT])
def to_bool(b: Broken) -> None:
    b.writer.call(bool, b.operands[0])


@row("BINARY_SUBSCR", 2, [RESULT])
def binary_subscr(b: Broken) -> None:
    b.load(0, 1)
    b.emit.subscr()


@row("STORE_SUBSCR", 3, [])
def store_subscr(b: Broken) -> None:
    b.load(0, 1, 2)
    b.emit.store_subscr()


@row("DELETE_SUBSCR", 2, [])
def delete_subscr(b: Broken) -> None:
    b.load(0, 1)
    b.emit.delete_subscr()


@row("BUILD_SLICE", lambda inst: inst.arg, [RESULT])
def build_slice(b: Broken) -> None:
    b.load(*range(len(b.operands)))
    b.emit.build("slice", len(b.operands))


@row("BINARY_SLICE", 3, [RESULT])
def binary_slice(b: Broken) -> None:
    b.load(0, 1, 2)
    b.emit.build("slice", 2)
    b.emit.subscr()


@row("STORE_SLICE", 4, [])
def store_slice(b: Broken) -> None:
    b.load(0, 1, 2, 3)
    b.emit.build("slice", 2)
    b.emit.store_subscr()


@row("GET_ITER", 1, [RESULT])
def get_iter(b: Broken) -> None:
    b.load(0)
    b.emit.get_iter()


@row("GET_LEN", 1, [0, RESULT])
def get_len(b: Broken) -> None:
    b.writer.call(len, b.operands[0])


# --- text -------------------------------------------------------------------------------------------------------------
_CONVERSIONS = (None, str, repr, ascii)


@row("FORMAT_VALUE", lambda inst: 2 if inst.arg & 4 else 1, [RESULT])
def format_value(b: Broken) -> None:
    convert = _CONVERSIONS[b.inst.arg & 3]
    value: Any = b.operands[0]
    spec: Any = b.operands[1] if b.inst.arg & 4 else ""
    if convert is not None:
        inner = value
        value = Emit(lambda: b.writer.call(convert, inner))
    b.writer.call(format, value, spec)


@row("CONVERT_VALUE", 1, [RESULT])
def convert_value(b: Broken) -> None:
    b.writer.call(_CONVERSIONS[b.inst.arg], b.operands[0])  # type: ignore[arg-type]


@row("FORMAT_SIMPLE", 1, [RESULT])
def format_simple(b: Broken) -> None:
    b.writer.call(format, b.operands[0], "")


@row("FORMAT_WITH_SPEC", 2, [RESULT])
def format_with_spec(b: Broken) -> None:
    b.writer.call(format, b.operands[0], b.operands[1])


@row("BUILD_STRING", lambda inst: inst.arg, [RESULT])
def build_string(b: Broken) -> None:
    b.load(*range(len(b.operands)))
    b.emit.build("string", len(b.operands))


# --- containers -------------------------------------------------------------------------------------------------------
_BUILDS = {"BUILD_TUPLE": "tuple", "BUILD_LIST": "list", "BUILD_SET": "set"}


@row("BUILD_TUPLE BUILD_LIST BUILD_SET", lambda inst: inst.arg, [RESULT])
def build(b: Broken) -> None:
    b.load(*range(len(b.operands)))
    b.emit.build(_BUILDS[b.inst.op], len(b.operands))  # type: ignore[arg-type]


@row("BUILD_MAP", lambda inst: 2 * inst.arg, [RESULT])
def build_map(b: Broken) -> None:
    b.load(*range(len(b.operands)))
    b.emit.build("map", b.inst.arg)


@row("UNPACK_SEQUENCE UNPACK_EX", 1, [RESULT])
def unpack(b: Broken) -> None:
    """Leaves a tuple of the items in the order of the stack: the first comes last."""
    b.load(0)
    b.emit.op(b.inst.op, b.inst.arg)
    b.emit.build("tuple", unpacked(b.inst))


def unpacked(inst: Inst) -> int:
    """How many items an unpacking leaves."""
    return inst.arg if inst.op == "UNPACK_SEQUENCE" else (inst.arg & 0xFF) + 1 + (inst.arg >> 8)


#: opcode -> method of the container `arg` below the operands
_FILLS = {
    "LIST_APPEND": "append",
    "SET_ADD": "add",
    "SET_UPDATE": "update",
}


def _below(inst: Inst) -> list[Any]:
    return list(range(inst.arg))


@row(" ".join(_FILLS), lambda inst: inst.arg + 1, _below)
def fill(b: Broken) -> None:
    b.load(0)
    b.emit.method(_FILLS[b.inst.op])
    b.load(-1)
    b.emit.call(1)
    b.emit.pop()


#: opcode -> the display it adds to, the method of the container `arg` below that takes what is in another one
_UPDATES: dict[str, tuple[Kind, str]] = {"LIST_EXTEND": ("list", "extend"), "DICT_UPDATE": ("map", "update")}


@row(" ".join(_UPDATES), lambda inst: inst.arg + 1, _below)
def update(b: Broken) -> None:
    """By way of a display, for its error."""
    kind, method = _UPDATES[b.inst.op]
    b.load(0)
    b.emit.method(method)
    b.emit.build(kind, 0)
    b.load(-1)
    b.emit.op(b.inst.op, 1)
    b.emit.call(1)
    b.emit.pop()


#: how far below the dict of keyword arguments stands what is called
_CALLED = 3 if versions.CALLABLE_FIRST else 2


@row("DICT_MERGE", lambda inst: inst.arg + 1 + _CALLED, lambda inst: list(range(inst.arg + _CALLED)))
def dict_merge(b: Broken) -> None:
    b.writer.call(_merge, b.operands[0], b.operands[_CALLED], b.operands[-1])
    b.emit.pop()


def _merge(function: Any, target: dict[str, Any], more: Any) -> None:
    if type(more) is dict and target.keys().isdisjoint(more):
        target.update(more)
    else:
        # The errors name the function: a call of something of this name finds them. It takes keys that are no strings.
        name = getattr(function, "__qualname__", _merge.__qualname__)
        called = type(name, (OrderedDict,), {"__module__": getattr(function, "__module__", None), "__qualname__": name})
        target.update(called(**target, **more))


@row("MAP_ADD", lambda inst: inst.arg + 2, _below)
def map_add(b: Broken) -> None:
    b.load(-1, 0, -2)
    b.emit.store_subscr()


@row("MATCH_CLASS", 3, [RESULT])
def match_class(b: Broken) -> None:
    b.load(0, 1, 2)
    b.emit.op(b.inst.op, b.inst.arg)


@row("MATCH_KEYS", 2, [0, 1, RESULT])
def match_keys(b: Broken) -> None:
    b.load(0, 1)
    b.emit.op(b.inst.op)
    b.emit.build("tuple", 3)
    b.emit.const(-1)
    b.emit.subscr()


@row("LIST_TO_TUPLE", 1, [RESULT])
def list_to_tuple(b: Broken) -> None:
    b.writer.call(tuple, b.operands[0])


# --- names ------------------------------------------------------------------------------------------------------------
def _global_form(inst: Inst) -> list[Any]:
    if not inst.arg & 1:
        return [RESULT]
    return [RESULT, NULL] if versions.CALLABLE_FIRST else [NULL, RESULT]


@row("LOAD_GLOBAL", 0, _global_form)
def load_global(b: Broken) -> None:
    b.writer.call(runtime.load_name, b.frame.namespace, b.inst.argval)


@row("DELETE_GLOBAL", 0, [])
def delete_global(b: Broken) -> None:
    b.writer.call(runtime.delete_name, b.frame.namespace, b.inst.argval)
    b.emit.pop()


@row("LOAD_FAST LOAD_FAST_CHECK", 0, [RESULT])
def load_fast(b: Broken) -> None:
    name = b.inst.argval
    if name in b.frame.locals:
        b.writer.load(b.frame.locals[name])
        return
    text = f"cannot access local variable '{name}' where it is not associated with a value"
    b.writer.call(runtime.raise_error, UnboundLocalError, text)


@row("DELETE_FAST", 0, [])
def delete_fast(b: Broken) -> None:
    load_fast(b)
    b.emit.pop()


@row("LOAD_DEREF", 0, [RESULT])
def load_deref(b: Broken) -> None:
    b.writer.call(_deref, b.frame.cells[b.inst.argval], b.inst.argval, b.inst.argval in b.frame.code.raw.co_freevars)


def _deref(cell: Any, name: str, free: bool) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        pass
    if free:
        raise NameError(
            f"cannot access free variable '{name}' where it is not associated with a value in enclosing scope"
        )
    raise UnboundLocalError(f"cannot access local variable '{name}' where it is not associated with a value")


@row("IMPORT_NAME", 2, [RESULT])
def import_name(b: Broken) -> None:
    called = [*b.through, Emit(lambda: _load_import(b.emit))]
    _load_callable(b, called)
    args = (b.inst.argval, b.frame.namespace, None, b.operands[1], b.operands[0])
    for each in args:
        b.writer.push(each)
    b.emit.call(len(called) - 1 + len(args))


def _load_import(emit: Emitter) -> None:
    """`builtins.__import__`, as it is then: a module sees by whom it is imported."""
    emit.const(builtins)
    emit.attr("__import__")


@row("IMPORT_FROM", 1, [0, RESULT])
def import_from(b: Broken) -> None:
    b.writer.call(_import_submodule, b.operands[0], b.inst.argval)
    b.emit.pop()
    b.load(0)
    b.emit.op(b.inst.op, b.inst.argval)
    b.emit.swap(2)
    b.emit.pop()


def _import_submodule(module: Any, name: str) -> None:
    """What IMPORT_NAME does for the names that are wanted of a package, if it was not run."""
    if hasattr(module, "__path__"):
        __import__(module.__name__, None, None, (name,))


# --- exceptions -------------------------------------------------------------------------------------------------------
@row("RAISE_VARARGS", lambda inst: inst.arg, [])
def raise_varargs(b: Broken) -> None:
    if b.inst.arg == 0 and b.handled is None:
        raise NotBreakable("bare raise")
    b.load(*range(b.inst.arg))
    if not b.goes_on:
        b.writer.empty(b.dropped, b.kept)  # or the exception is in a local of a frame that its traceback holds
    b.emit.raise_(b.inst.arg)


@row("RERAISE", 1, [])
def reraise(b: Broken) -> None:
    b.load(0)
    b.emit.reraise()


@row("CHECK_EXC_MATCH", 2, [0, RESULT])
def check_exc_match(b: Broken) -> None:
    b.load(0, 1)
    b.emit.op("CHECK_EXC_MATCH")
    b.emit.swap(2)
    b.emit.pop()


@row("CHECK_EG_MATCH", 2, [RESULT])
def check_eg_match(b: Broken) -> None:
    """(the rest, what the clause handles): the assembler takes the pair apart."""
    b.load(0, 1)
    b.emit.op("CHECK_EG_MATCH")
    b.emit.build("tuple", 2)


@row("PREP_RERAISE_STAR", 2, [RESULT])
def prep_reraise_star(b: Broken) -> None:
    b.load(0, 1)
    b.emit.op(b.inst.op, b.inst.arg)


@row("CALL_INTRINSIC_2", 2, [RESULT])
def call_intrinsic_2(b: Broken) -> None:
    if versions.INTRINSICS_2[b.inst.arg] != "INTRINSIC_PREP_RERAISE_STAR":
        raise NotBreakable(versions.INTRINSICS_2[b.inst.arg])
    prep_reraise_star(b)


#: opcodes whose rows call functions of ours, which no traceback may show
BY_FUNCTIONS = frozenset(
    """LOAD_GLOBAL LOAD_NAME DELETE_GLOBAL LOAD_FAST LOAD_FAST_CHECK DELETE_FAST LOAD_DEREF DELETE_DEREF IMPORT_NAME
    IMPORT_FROM DICT_MERGE""".split()
)


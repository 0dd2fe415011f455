"""`torch.autograd.Function`: a call of `apply` is one operation of the graph, whose Python runs with it.

That is right as long as its functions see at each call what they saw at the capture, and leave nothing behind. So all
that their code reads besides its arguments is looked at: constants, modules, functions and classes are guarded; what
may change otherwise, and code that may write outside, breaks the graph, and the call runs as it is.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import torch

from symbolic.code import Inst, decode
from symbolic.errors import GraphBreak
from symbolic.variables.base import Variable
from symbolic.variables.classes import ClassVariable, PythonModuleVariable
from symbolic.variables.constants import ConstantVariable, is_constant_value
from symbolic.variables.containers import TupleVariable
from symbolic.variables.functions import CellVariable, ClosureFunction, FunctionVariable, PythonFunction
from symbolic.variables.numbers import NumberVariable
from symbolic.variables.symbols import SymbolVariable
from symbolic.variables.tables import BuiltinVariable, handles, skipped_module
from symbolic.variables.tensors import TensorVariable
from symbolic.variables.torch_functions import REFUSED, TorchFunction

if TYPE_CHECKING:
    from symbolic.translator import Translator

_Function: Any = torch.autograd.Function
#: The functions of a class.
_PARTS = ("forward", "setup_context", "backward", "vjp")
#: Builtins that only compute.
_HARMLESS = frozenset({
    *(abs, all, any, bool, callable, dict, divmod, enumerate, filter, float, getattr, hasattr, int, isinstance),
    *(issubclass, len, list, map, max, min, pow, range, repr, reversed, round, set, slice, sorted, str, sum, tuple),
    *(type, zip),
})  # fmt: skip
_HARMLESS_MODULES = ("math", "_operator", "operator")
_READS = ("LOAD_ATTR", "LOAD_METHOD")
_CELLS = ("LOAD_DEREF", "LOAD_CLOSURE", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF")
#: Instructions that look or write elsewhere.
_ELSEWHERE = frozenset("""STORE_GLOBAL DELETE_GLOBAL LOAD_NAME STORE_NAME IMPORT_NAME LOAD_BUILD_CLASS LOAD_LOCALS
    DELETE_ATTR""".split())


def operation(function: type) -> Callable[..., Any]:
    """`function.apply`, under the name of the class."""

    def apply(*args: Any, **kwargs: Any) -> Any:
        return function.apply(*args, **kwargs)  # type: ignore[attr-defined]

    apply.__name__ = apply.__qualname__ = function.__name__
    return apply


@handles(_Function.apply.__func__)
def _apply(tx: Translator, cls: Variable, *args: Variable, **kwargs: Variable) -> Variable:
    assert isinstance(cls, ClassVariable)
    if tx.overrides.has_modes:
        raise GraphBreak("torch function mode", "an autograd function inside, whose operations it sees")
    given = [*args, *kwargs.values()]
    for arg in given:
        if not _is_plain(arg):
            raise GraphBreak("object given to an autograd function", arg.describe())
    _Reader(tx, any(map(_has_numbers, given))).follow_class(cls)
    unknown = [tx.graph.unknown(arg) if isinstance(arg, NumberVariable) else arg for arg in args]
    result = tx.graph.call(operation(cls.value), unknown, kwargs)
    if isinstance(result, TupleVariable):
        tx.graph.given_together(result.items)
    return result


def _is_plain(variable: Variable) -> bool:
    """A tensor, a constant, or a tuple of such: nothing that the function could change unseen."""
    if isinstance(variable, TupleVariable):
        return all(_is_plain(item) and not isinstance(item, NumberVariable) for item in variable.items)
    return isinstance(variable, (TensorVariable, ConstantVariable, SymbolVariable, NumberVariable))


def _has_numbers(variable: Variable) -> bool:
    """Whether it is or has numbers that vary."""
    if isinstance(variable, TupleVariable):
        return any(map(_has_numbers, variable.items))
    if isinstance(variable, TensorVariable):
        return any(isinstance(size, torch.SymInt) for size in variable.fake.shape)
    return not isinstance(variable, ConstantVariable)


class _Reader:
    """Follows what the functions of a class read. `numbers`: what they are given has numbers that vary, which are of
    other types while the graph is traced."""

    def __init__(self, tx: Translator, numbers: bool) -> None:
        self.tx = tx
        self.numbers = numbers
        self.seen: set[Any] = set()

    def follow_class(self, cls: ClassVariable) -> None:
        if cls.value not in self.seen:
            self.seen.add(cls.value)
            function: Any = cls.value
            is_apart = function.setup_context is not _Function.setup_context
            for name in _PARTS:
                self.follow(cls.getattr(self.tx, name), (), name != "forward" or not is_apart)

    def follow(self, value: Variable, rest: Sequence[Inst], has_context: bool = False) -> None:
        """Raises GraphBreak for a value that isn't fixed by guards.

        `rest` is what the code goes on with. A function that `has_context` may leave what it likes on its first
        argument.
        """
        while isinstance(value, PythonModuleVariable) and rest and rest[0].op in _READS:
            value, rest = value.getattr(self.tx, rest[0].argval), rest[1:]
        if isinstance(value, FunctionVariable) or (isinstance(value, ClosureFunction) and not value.closure):
            self._function(value, has_context)
        elif _is_function_class(value) and rest and rest[0].op in _READS and rest[0].argval == "apply":
            assert isinstance(value, ClassVariable)
            self.follow_class(value)
        elif not _is_fixed(value):
            raise GraphBreak("autograd function that reads what may change", value.describe())

    def _function(self, function: FunctionVariable | ClosureFunction, has_context: bool) -> None:
        real: FunctionType = self.tx.model(function)
        if real in self.seen:
            return
        self.seen.add(real)
        module = real.__globals__.get("__name__", "")
        cells = {name: function.cell(self.tx, at) for at, name in enumerate(real.__code__.co_freevars)}
        if module.partition(".")[0] == "torch":
            if skipped_module(module):
                raise GraphBreak("autograd function that calls what is not captured", real.__qualname__)
            for cell in cells.values():  # a decorator holds the function that it decorates
                self.follow(self._content(cell), (), has_context)
            return
        if not all(map(is_constant_value, (*(real.__defaults__ or ()), *(real.__kwdefaults__ or {}).values()))):
            raise GraphBreak("autograd function that reads what may change", f"defaults of {real.__qualname__}")
        self._code(function, real.__code__, cells, has_context)

    def _content(self, cell: CellVariable) -> Variable:
        found = cell.contents(self.tx)
        if found is None or self.tx.ledger.pending(cell, "cell_contents") is not None:
            raise GraphBreak("autograd function that reads what the frame changes", cell.describe())
        return found

    def _code(
        self, function: PythonFunction, code: CodeType, cells: dict[str, CellVariable], has_context: bool
    ) -> None:
        insts = decode(code).insts
        if self.numbers and _asks_for_types(insts):
            raise GraphBreak("autograd function that asks for types of numbers", code.co_qualname)
        for at, inst in enumerate(insts):
            rest = insts[at + 1 :]
            if inst.op == "LOAD_GLOBAL":
                self.follow(self._global(function, inst.argval), rest)
            elif inst.op in _CELLS and inst.argval in cells:
                self.follow(self._content(cells[inst.argval]), rest)
            elif (
                inst.op in _ELSEWHERE
                or (inst.op in ("STORE_DEREF", "DELETE_DEREF") and inst.argval in cells)
                or (inst.op == "STORE_ATTR" and not (has_context and _is_context(code, insts[at - 1])))
            ):
                raise GraphBreak("autograd function that writes elsewhere", f"{inst} in {code.co_qualname}")
        for inner in code.co_consts:
            if isinstance(inner, CodeType):
                outside = {name: cells[name] for name in inner.co_freevars if name in cells}
                self._code(function, inner, outside, False)

    def _global(self, function: PythonFunction, name: str) -> Variable:
        tx = self.tx
        namespace = function.namespace(tx)
        if tx.ledger.pending(namespace, name) is not None:
            raise GraphBreak("autograd function that reads what the frame changes", name)
        if name not in namespace.real() and not hasattr(builtins, name):
            raise GraphBreak("autograd function that reads what is not there", name)
        return tx.load_name(namespace, name)


def _asks_for_types(insts: Sequence[Inst]) -> bool:
    """Whether code may tell Python's numbers from others."""
    names = {inst.argval for inst in insts if inst.op == "LOAD_GLOBAL"}
    if "type" in names or ("isinstance" in names and not names.isdisjoint(("int", "float", "object"))):
        return True
    pairs = zip(insts, insts[1:], strict=False)
    return any(inst.op == "MATCH_CLASS" for inst in insts) or any(
        inst.op == "IS_OP" and not (before.op == "LOAD_CONST" and before.argval in (None, True, False))
        for before, inst in pairs
    )


def _is_context(code: CodeType, before: Inst) -> bool:
    """Whether an instruction loads the first argument."""
    return before.op.startswith("LOAD_FAST") and code.co_argcount > 0 and before.argval == code.co_varnames[0]


def _is_function_class(value: Variable) -> bool:
    return isinstance(value, ClassVariable) and issubclass(value.value, torch.autograd.Function)


def _is_fixed(value: Variable) -> bool:
    if isinstance(value, (ConstantVariable, TupleVariable)):
        return value.is_constant()
    if isinstance(value, TorchFunction):
        return value.value not in REFUSED
    if isinstance(value, BuiltinVariable):
        known = isinstance(value.value, type) and issubclass(value.value, BaseException)
        return known or value.value in _HARMLESS or getattr(value.value, "__module__", None) in _HARMLESS_MODULES
    if isinstance(value, ClassVariable):
        return value.value.__module__.partition(".")[0] in ("torch", "builtins")
    return False

"""Callables made of Python code: functions, closures born in the frame, bound methods, partials."""

from __future__ import annotations

import ctypes
import functools
import gc
import inspect
import operator
from collections.abc import Callable
from types import CellType, CodeType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any, NoReturn

from sideeffects.effects import DELETED
from symbolic.code import decode
from symbolic.errors import SEES_END, GraphBreak, SkipFrame
from symbolic.frames import Frame
from symbolic.signatures import fits
from symbolic.sources import Source
from symbolic.variables.base import COMPARISONS, MISSING, FixedVariable, Identity, Variable, lookup, spelled
from symbolic.variables.constants import ConstantVariable, is_constant_value
from symbolic.variables.generators import CoroutineVariable, GeneratorVariable
from symbolic.variables.methods import CallMethod

if TYPE_CHECKING:
    from symbolic.translator import Translator
    from symbolic.variables.mappings import DictVariable

GENERATOR_FLAGS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


_COMPARISONS = frozenset(COMPARISONS.values())


class CellVariable(Variable):
    """A closure cell. Existing ones (`cell`, `source`) read through a guard, new ones live in the ledger only."""

    def __init__(self, cell: Any = MISSING, source: Source | None = None) -> None:
        self.cell = cell
        self.source = source

    def python_type(self) -> type:
        return type((lambda x: lambda: x)(0).__closure__[0])  # type: ignore[index]

    def real(self) -> Any:
        return self.cell

    def contents(self, tx: Translator) -> Variable | None:
        """The variable in the cell, None if it is empty."""
        pending = tx.ledger.pending(self, "cell_contents")
        if pending is not None:
            return None if pending is DELETED else pending.realize(tx)
        if self.cell is MISSING:
            return None
        try:
            value = self.cell.cell_contents
        except ValueError:
            raise GraphBreak("empty closure cell", self.describe()) from None
        assert self.source is not None
        return tx.wrap(value, self.source.step("cell"))

    def store(self, tx: Translator, value: Variable) -> None:
        tx.ledger.store(self, "cell_contents", value)

    def clear(self, tx: Translator) -> None:
        tx.ledger.store(self, "cell_contents", DELETED)

    def getattr(self, tx: Translator, name: str) -> Variable:
        if name == "cell_contents":
            found = self.contents(tx)
            return found if found is not None else tx.raise_(ValueError, "Cell is empty")
        return super().getattr(tx, name)

    def setattr(self, tx: Translator, name: str, value: Variable) -> None:
        if name != "cell_contents":
            super().setattr(tx, name, value)
        self.store(tx, value)

    def delattr(self, tx: Translator, name: str) -> None:
        if name != "cell_contents":
            super().delattr(tx, name)
        self.clear(tx)

    def binary(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        """Cells compare as what they hold; an empty one comes before all others."""
        if op not in _COMPARISONS or not isinstance(other, CellVariable):
            return None
        mine, theirs = self.contents(tx), other.contents(tx)
        if mine is None or theirs is None:
            return ConstantVariable(op(mine is not None, theirs is not None))
        return tx.binary(op, mine, theirs)

    def describe(self) -> str:
        return f"cell {self.source.text}" if self.source else "cell"


class PythonFunction(Variable):
    """What existing functions and closures born in the frame have in common: code, defaults, a closure, a namespace."""

    code: CodeType

    def python_type(self) -> type:
        return FunctionType

    def namespace(self, tx: Translator) -> Variable:
        raise NotImplementedError

    def default(self, tx: Translator, position: int) -> Variable | None:
        """The default of positional parameter number `position` counted from the last (0 = last)."""
        raise NotImplementedError

    def keyword_default(self, tx: Translator, name: str) -> Variable | None:
        raise NotImplementedError

    def cell(self, tx: Translator, index: int) -> CellVariable:
        raise NotImplementedError

    def name(self) -> str:
        return self.code.co_name

    def __str__(self) -> str:
        return spelled(self.name())

    def bind(self, tx: Translator, args: list[Variable], kwargs: dict[str, Variable]) -> dict[str, Variable]:
        """Parameter name -> argument, as CPython binds. What does not bind is left to eager code, which raises."""
        code = self.code
        positional = code.co_varnames[: code.co_argcount]
        keyword_only = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
        extra = code.co_argcount + code.co_kwonlyargcount
        bound = dict(zip(positional, args, strict=False))
        rest: dict[str, Variable] = {}
        by_name = (*positional[code.co_posonlyargcount :], *keyword_only)
        for name, value in kwargs.items():
            if name in by_name and name not in bound:
                bound[name] = value
            elif code.co_flags & inspect.CO_VARKEYWORDS and name not in by_name:
                rest[name] = value
            else:
                self._misfit(tx, args, kwargs, f"({name}=...)")
        if code.co_flags & inspect.CO_VARARGS:
            bound[code.co_varnames[extra]] = tx.new_tuple(args[len(positional) :])
            extra += 1
        elif len(args) > len(positional):
            self._misfit(tx, args, kwargs, f" takes {len(positional)}")
        if code.co_flags & inspect.CO_VARKEYWORDS:
            bound[code.co_varnames[extra]] = tx.new_dict([(ConstantVariable(k), v) for k, v in rest.items()])
        for i, name in enumerate(positional):
            if name not in bound:
                default = self.default(tx, len(positional) - 1 - i)
                if default is None:
                    self._misfit(tx, args, kwargs, f" needs {name}")
                bound[name] = default
        for name in keyword_only:
            if name not in bound:
                default = self.keyword_default(tx, name)
                if default is None:
                    self._misfit(tx, args, kwargs, f" needs {name}")
                bound[name] = default
        if tx.unnamed:
            tx.name_inputs(bound)
        return bound

    def _misfit(self, tx: Translator, args: list[Variable], kwargs: dict[str, Variable], detail: str) -> NoReturn:
        """The arguments do not fit: a function of the same signature says so in CPython's words."""
        code = self.code
        known = [self.default(tx, position) for position in range(code.co_argcount)]
        defaults = (None,) * sum(value is not None for value in known)
        cells = tuple(CellType() for _ in code.co_freevars)
        model = FunctionType(code, {}, code.co_name, defaults, cells)
        named = tx.ledger.pending(self, "__qualname__")
        model.__qualname__ = self.name() if named is None else named.constant()
        keyword_only = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
        model.__kwdefaults__ = {name: None for name in keyword_only if self.keyword_default(tx, name) is not None}
        if not fits(model, len(args), kwargs):
            tx.attempt(model, *(None for _ in args), **dict.fromkeys(kwargs))
        raise GraphBreak("arguments do not fit the function", f"{self.name()}{detail}")

    def frame(self, tx: Translator, args: list[Variable], kwargs: dict[str, Variable]) -> Frame:
        frame = Frame(decode(self.code), self.name(), self.namespace(tx), self)
        frame.locals = self.bind(tx, args, kwargs)
        for index, name in enumerate(self.code.co_freevars):
            frame.cells[name] = self.cell(tx, index)
        return frame

    def enter(self, tx: Translator, args: list[Variable], kwargs: dict[str, Variable]) -> Frame | None:
        if self.code.co_flags & GENERATOR_FLAGS or not self.namespace(tx).exists:  # type: ignore[attr-defined]
            return None
        tx.check_inline(self, kwargs)
        return self.frame(tx, args, kwargs)

    def call(self, tx: Translator, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        if self.code.co_flags & inspect.CO_ASYNC_GENERATOR:
            raise GraphBreak("asynchronous generator", self.name())
        if self.code.co_flags & GENERATOR_FLAGS:
            tx.check_inline(self)
            kind = CoroutineVariable if self.code.co_flags & inspect.CO_COROUTINE else GeneratorVariable
            made = kind(self, args, kwargs, self.frame(tx, args, kwargs), tx.anchor())
            made.born(tx)
            return made
        tx.check_inline(self, kwargs)
        return tx.run(self.frame(tx, args, kwargs))


def runs_other_code(function: FunctionType) -> bool:
    """Whether a call of the function is a call of something else, by `PyFunction_SetVectorcall` of CPython's C API.
    (That this was done later is not noticed where the function was inlined before.)"""
    return _called(function) != _called(_ORDINARY)


def _called(function: FunctionType) -> int | None:
    """The pointer `vectorcall` of a function; behind it stands one more number."""
    at = id(function) + FunctionType.__basicsize__ - 2 * ctypes.sizeof(ctypes.c_void_p)
    return ctypes.c_void_p.from_address(at).value


_ORDINARY: FunctionType = runs_other_code  # type: ignore[assignment]


class FunctionVariable(PythonFunction):
    """An existing Python function. Of one that its caller makes for each call the parts are guarded, not itself:
    where the program asks which one it is, that is (`pin`)."""

    def __init__(self, function: FunctionType, source: Source, pin: Callable[[], None] | None = None) -> None:
        self.function = function
        self.pin = pin
        self.code = function.__code__
        self.source = source

    def real(self) -> Any:
        return self.function

    def key(self) -> Any:
        if self.pin is not None:
            self.pin()
        return self.function

    def namespace(self, tx: Translator) -> Variable:
        return tx.namespace(self.function.__globals__)

    def default(self, tx: Translator, position: int) -> Variable | None:
        if (stored := tx.ledger.pending(self, "__defaults__")) is not None:
            return _from_last(tx, stored, position)
        defaults = self.function.__defaults__ or ()
        if position >= len(defaults):
            return None
        index = len(defaults) - 1 - position
        return self._value(tx, defaults[index], "__defaults__", "index", index)

    def keyword_default(self, tx: Translator, name: str) -> Variable | None:
        if (stored := tx.ledger.pending(self, "__kwdefaults__")) is not None:
            return _item(tx, stored, name)
        defaults = self.function.__kwdefaults__ or {}
        if (seen := tx.known.get(id(defaults))) is not None:  # the frame has the dict, and may have written to it
            return _item(tx, seen, name)
        return self._value(tx, defaults[name], "__kwdefaults__", "item", name) if name in defaults else None

    def _value(self, tx: Translator, value: Any, attr: str, kind: str, arg: Any) -> Variable:
        # Its guard compares the defaults tuple by identity, unless the function is made anew in calls: constants in it
        # need no guard of their own.
        if is_constant_value(value) and kind == "index" and self.pin is None:
            return ConstantVariable(value)
        assert self.source is not None
        return tx.wrap(value, self.source.attr(attr).step(kind, arg))

    def cell(self, tx: Translator, index: int) -> CellVariable:
        assert self.source is not None and self.function.__closure__ is not None
        cell = self.function.__closure__[index]
        return tx.cell(cell, self.source.attr("__closure__").step("index", index))

    def name(self) -> str:
        return self.function.__qualname__

    def getattr(self, tx: Translator, name: str) -> Variable:
        pending = tx.ledger.pending(self, name)
        if pending is DELETED:
            return tx.raise_(AttributeError, f"'function' object has no attribute {name!r}")
        if pending is not None:
            return pending
        if name == "__globals__":
            return self.namespace(tx)
        assert self.source is not None
        try:
            value = getattr(self.function, name)
        except AttributeError:
            tx.know(self.source, "no_attr", name)
            return tx.raise_(AttributeError, f"'function' object has no attribute {name!r}")
        if isinstance(value, MethodType) or type(value).__name__ == "method-wrapper":
            if name == "__get__":
                return FunctionGet(self)
            if name == "__call__":
                return CallMethod(self)
            raise GraphBreak("attribute of a function", name)
        return tx.wrap(value, self.source.attr(name))

    def setattr(self, tx: Translator, name: str, value: Variable) -> None:
        if name.startswith("__"):
            check_part(tx, name, value)
        tx.ledger.store(self, name, value)

    def delattr(self, tx: Translator, name: str) -> None:
        if name.startswith("__") and name not in _OF_CALLS:
            raise GraphBreak("attribute of a function", name)
        self.getattr(tx, name)  # which is an error if there is none
        tx.ledger.store(self, name, ConstantVariable(None) if name in _OF_CALLS else DELETED)

    def describe(self) -> str:
        return f"function {self.function.__qualname__}"


class ClosureFunction(PythonFunction):
    """A function made by MAKE_FUNCTION in the frame: `closure` cells, `defaults`, `kwdefaults`, `annotations`."""

    def __init__(self, code: CodeType, namespace: Any, qualname: str) -> None:
        self.code = code
        self.globals = namespace  # a `Names`
        self.qualname = qualname
        self.closure: list[Variable] = []
        self.defaults: Variable | None = None
        self.kwdefaults: Variable | None = None
        self.annotations: Variable | None = None

    def namespace(self, tx: Translator) -> Variable:
        return self.globals

    def default(self, tx: Translator, position: int) -> Variable | None:
        return None if self.defaults is None else _from_last(tx, self.defaults, position)

    def keyword_default(self, tx: Translator, name: str) -> Variable | None:
        return None if self.kwdefaults is None else _item(tx, self.kwdefaults, name)

    def cell(self, tx: Translator, index: int) -> CellVariable:
        cell = self.closure[index]
        assert isinstance(cell, CellVariable)
        return cell

    def name(self) -> str:
        return self.qualname

    def getattr(self, tx: Translator, name: str) -> Variable:
        pending = tx.ledger.pending(self, name)
        if pending is not None and pending is not DELETED:
            return pending
        simple = {"__name__": self.code.co_name, "__qualname__": self.qualname, "__doc__": None}
        if name in simple:
            doc = self.code.co_consts[0] if self.code.co_consts else None
            return ConstantVariable(doc if name == "__doc__" and isinstance(doc, str) else simple[name])
        if name == "__module__":
            return tx.load_name(self.globals, "__name__")
        if name == "__defaults__":
            return self.defaults or ConstantVariable(None)
        if name == "__kwdefaults__":
            return self.kwdefaults or ConstantVariable(None)
        if name == "__get__":
            return FunctionGet(self)
        if name == "__code__":
            if id(self.code) in tx.from_text:  # in each call another one, and gone with the function
                raise SkipFrame(f"{SEES_END} (code made of text)")
            return tx.wrap(self.code, tx.sources.const(self.code, f"{self.qualname}.__code__"))
        if name == "__globals__":
            return self.globals.itself()
        if name == "__annotations__":
            items = tx.unpack(self.annotations) if self.annotations is not None else []
            pairs = list(zip(items[::2], items[1::2], strict=True))
            tx.ledger.store(self, name, made := tx.new_dict(pairs))
            return made
        if name == "__closure__":
            return tx.new_tuple(self.closure) if self.closure else ConstantVariable(None)
        if name == "__call__":
            return CallMethod(self)
        if name == "__class__":
            return tx.class_of(self)
        if name == "__type_params__" and lookup(FunctionType, name) is not MISSING:
            return tx.new_tuple([])  # those that have some are not made in a frame
        if lookup(FunctionType, name) is not MISSING:
            raise GraphBreak("attribute of a function born in the frame", name)
        return tx.raise_(AttributeError, f"'function' object has no attribute {name!r}")

    def setattr(self, tx: Translator, name: str, value: Variable) -> None:
        check_part(tx, name, value)
        if name in _OF_CALLS:  # a function born in the frame is made with its last defaults
            setattr(self, name.strip("_"), None if _is_none(value) else value)
        else:
            tx.ledger.store(self, name, value)

    def delattr(self, tx: Translator, name: str) -> None:
        if name in vars(FunctionType) or name in _SETTABLE:
            super().delattr(tx, name)
        if tx.ledger.pending(self, name) in (None, DELETED):
            tx.attempt(delattr, lambda: None, name)
        tx.ledger.store(self, name, DELETED)

    def reachable(self) -> list[Variable]:
        parts = (self.defaults, self.kwdefaults, self.annotations)
        names = [] if self.globals.exists else [self.globals.itself()]
        return [*names, *self.closure, *(part for part in parts if part is not None)]

    def keeps(self) -> list[Variable]:
        return [*self.closure, *(part for part in (self.defaults, self.kwdefaults) if part is not None)]

    def describe(self) -> str:
        return f"function {self.qualname}"


def check_part(tx: Translator, name: str, value: Variable) -> None:
    """What Python says of a value for a part of a function; GraphBreak for what makes another function of it."""
    if name in ("__closure__", "__globals__", "__builtins__"):
        tx.raise_(AttributeError, "readonly attribute")
    if name in ("__code__", "__dict__", "__class__", "__type_params__"):
        raise GraphBreak("attribute of a function", name)
    if name in _SETTABLE:
        kind, what = _SETTABLE[name]
        if name == "__annotations__" and _is_none(value):
            raise GraphBreak("attribute of a function", name)
        if not (name in _OF_CALLS and _is_none(value)) and not issubclass(value.python_type(), kind):
            tx.raise_(TypeError, f"{name} must be set to a {what}")


def _is_none(value: Variable) -> bool:
    return isinstance(value, ConstantVariable) and value.value is None


#: The defaults.
_OF_CALLS = ("__defaults__", "__kwdefaults__")
#: attribute of a function -> its type, and how Python names that
_SETTABLE = {
    "__name__": (str, "string object"),
    "__qualname__": (str, "string object"),
    "__defaults__": (tuple, "tuple object"),
    "__kwdefaults__": (dict, "dict object"),
    "__annotations__": (dict, "dict object"),
}


def _from_last(tx: Translator, defaults: Variable, position: int) -> Variable | None:
    items = [] if _is_none(defaults) else tx.unpack(defaults)
    return items[len(items) - 1 - position] if position < len(items) else None


def _item(tx: Translator, table: Variable, name: str) -> Variable | None:
    if _is_none(table):
        return None
    key = ConstantVariable(name)
    return table.getitem(tx, key) if tx.contains(table, key) else None


class FunctionGet(Variable):
    """`function.__get__`, called by descriptors written in Python."""

    def __init__(self, function: Variable) -> None:
        self.function = function

    def call(self, tx: Translator, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        if isinstance(args[0], ConstantVariable) and args[0].value is None:
            return self.function
        return BoundMethod(self.function, args[0])

    def reachable(self) -> list[Variable]:
        return [self.function]


class BoundMethod(Variable):
    """`function` with `owner` as its first argument; `source` is set when the method object itself existed."""

    def __init__(self, function: Variable, owner: Variable, source: Source | None = None, value: Any = MISSING) -> None:
        self.function = function
        self.owner = owner
        self.source = source
        self.value = value

    def python_type(self) -> type:
        return MethodType

    def real(self) -> Any:
        if self.value is not MISSING:
            return self.value
        function, owner = self.function.real(), self.owner.real()
        return MISSING if function is MISSING or owner is MISSING else MethodType(function, owner)

    def key(self) -> Any:
        is_fixed = self.owner.is_constant() or isinstance(self.owner, FixedVariable)
        return ("bound method", self.function.key(), self.owner.key() if is_fixed else Identity(self.owner))

    def enter(self, tx: Translator, args: list[Variable], kwargs: dict[str, Variable]) -> Frame | None:
        return self.function.enter(tx, [self.owner, *args], kwargs)

    def call(self, tx: Translator, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        return tx.call(self.function, [self.owner, *args], kwargs)

    def getattr(self, tx: Translator, name: str) -> Variable:
        if name == "__func__":
            return self.function
        if name == "__self__":
            return self.owner
        if name == "__class__":
            return tx.class_of(self)
        if name == "__call__":
            return CallMethod(self)
        if name != "__doc__" and lookup(MethodType, name) is not MISSING:  # the method's own
            return super().getattr(tx, name)
        return self.function.getattr(tx, name)

    def binary(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        if op not in (operator.eq, operator.ne) or not isinstance(other, BoundMethod):
            return None
        same = self.owner.is_same(tx, other.owner) and tx.equal(self.function, other.function)
        return tx.from_constant(same is (op is operator.eq))

    def reachable(self) -> list[Variable]:
        return [self.function, self.owner]

    keeps = reachable

    def describe(self) -> str:
        return f"method {self.function.describe()}"


def has_no_attributes(value: Any) -> bool:
    """no attributes (those of a `partial`; its `__dict__` would be made by asking for it)"""
    return [type(held) for held in gc.get_referents(value)].count(dict) < 2


def has_empty_attributes(value: Any) -> bool:
    """no attributes, though it may have a dict for them"""
    return not any(type(held) is dict and held is not value.keywords and held for held in gc.get_referents(value))


class PartialVariable(Variable):
    """`functools.partial(function, *args, **kwargs)`, existing (`value`, `source`) or born in the frame."""

    def __init__(
        self, function: Variable, args: list[Variable], kwargs: dict[str, Variable], source: Source | None = None,
        value: Any = MISSING,
    ) -> None:  # fmt: skip
        self.value = value
        self.is_bare = True
        if isinstance(function, PartialVariable) and source is None and function.may_merge():
            args, kwargs = [*function.args, *args], {**function.kwargs, **kwargs}
            function = function.function
        self.function: Variable = function
        self.args: list[Variable] = args
        self._args: Variable | None = None  # the tuple that they are in, once the program has seen it
        self._given: dict[str, Variable] = kwargs
        self._keywords: DictVariable | None = None  # the dict that they are in, once the program has seen it
        self.source = source

    def python_type(self) -> type:
        return functools.partial

    @property
    def kwargs(self) -> dict[str, Variable]:
        if self._keywords is None:
            return self._given
        return {key.constant(): value for key, value in self._keywords.entries.values()}

    def enter(self, tx: Translator, args: list[Variable], kwargs: dict[str, Variable]) -> Frame | None:
        return self.function.enter(tx, [*self.args, *args], {**self.kwargs, **kwargs})

    def call(self, tx: Translator, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        return tx.call(self.function, [*self.args, *args], {**self.kwargs, **kwargs})

    def getattr(self, tx: Translator, name: str) -> Variable:
        if name == "func":
            return self.function
        if name == "args":
            return self._seen_args(tx)
        if name == "keywords":
            return self._seen_keywords(tx)
        if name == "__class__":
            return tx.class_of(self)
        if lookup(functools.partial, name) is not MISSING:
            return super().getattr(tx, name)
        stored = tx.ledger.pending(self, name)
        if stored is not None and stored is not DELETED:
            return stored
        if (found := getattr(self.value, name, MISSING)) is not MISSING:
            return tx.wrap(found, tx.source_of(self).attr(name))
        if self.source is not None:
            tx.know(self.source, "no_attr", name)
        return tx.raise_(AttributeError, f"'functools.partial' object has no attribute {name!r}")

    def setattr(self, tx: Translator, name: str, value: Variable) -> None:
        """Of one born in the frame: what has attributes is not merged with a partial of it."""
        if self.value is not MISSING or lookup(functools.partial, name) is not MISSING:
            super().setattr(tx, name, value)
        self.is_bare = False
        tx.ledger.store(self, name, value)

    def _seen_args(self, tx: Translator) -> Variable:
        if self._args is None:
            is_born = self.value is MISSING
            found = tx.new_tuple(self.args) if is_born else tx.wrap(self.value.args, tx.source_of(self).attr("args"))
            self._args = found
        return self._args

    def _seen_keywords(self, tx: Translator) -> Variable:
        """From now on what is written there is what it calls with."""
        if self._keywords is None:
            if self.value is MISSING:
                found = tx.new_dict([(ConstantVariable(k), v) for k, v in self._given.items()])
            else:
                found = tx.wrap(self.value.keywords, tx.source_of(self).attr("keywords")).as_dict(tx)
                found.load_all(tx)
            self._keywords = found
        return self._keywords

    def may_merge(self) -> bool:
        """Whether a partial of this one is one of its function."""
        return self.is_bare if self.value is MISSING else has_no_attributes(self.value)

    def reachable(self) -> list[Variable]:
        return [self.function, *self.args, *self.kwargs.values()]

    keeps = reachable

"""Questions about the running program: what of it is a function, a class or a generator, how functions are called,
what they say of themselves. What exists is asked while tracing; what the frame makes is asked by tracing the question,
if that is written in Python.
"""

from __future__ import annotations

import abc
import functools
import importlib.util
import inspect
import operator
import os
import platform
import sys
import types
from collections.abc import Callable, Sequence
from types import BuiltinFunctionType, CoroutineType, FunctionType, GeneratorType, MethodType, ModuleType, NoneType
from typing import TYPE_CHECKING, Any

from symbolic.errors import READS_FRAME, GraphBreak, SkipFrame
from symbolic.passing import namespace_of
from symbolic.variables.base import MISSING, Variable, lookup
from symbolic.variables.born import BornClass
from symbolic.variables.classes import ClassVariable
from symbolic.variables.constants import ConstantVariable, is_a, is_constant_value
from symbolic.variables.functions import (
    GENERATOR_FLAGS,
    BoundMethod,
    ClosureFunction,
    FunctionVariable,
    PartialVariable,
)
from symbolic.variables.generators import GeneratorVariable
from symbolic.variables.tables import REFUSED, BuiltinVariable, handles, known, name_of, reason_of

if TYPE_CHECKING:
    from symbolic.translator import Translator


def _of_type(cls: Any) -> Callable[..., Variable]:
    return lambda tx, object: ConstantVariable(issubclass(object.python_type(), cls))  # noqa: A006


_fn: Any
for _fn, _cls in (
    (inspect.isfunction, FunctionType),
    (inspect.isclass, type),
    (inspect.ismethod, MethodType),
    (inspect.ismodule, ModuleType),
    (inspect.isbuiltin, BuiltinFunctionType),
    (inspect.isgenerator, GeneratorType),
    (inspect.iscoroutine, CoroutineType),
):
    handles(_fn)(_of_type(_cls))


@handles(inspect.getgeneratorstate, inspect.getcoroutinestate)
def _state_of(tx: Translator, generator: Variable) -> Variable:
    if not isinstance(generator, GeneratorVariable):
        raise GraphBreak("inspection of the running program", generator.describe())
    return ConstantVariable(generator.inspected())


@handles(types.coroutine)
def _coroutine(tx: Translator, func: Variable) -> Variable:
    """A generator function becomes one whose generators can be awaited."""
    if not isinstance(func, ClosureFunction) or not func.code.co_flags & GENERATOR_FLAGS:
        raise GraphBreak("attribute of a function", "__code__")
    if not func.code.co_flags & inspect.CO_COROUTINE:
        func.code = func.code.replace(co_flags=func.code.co_flags | inspect.CO_ITERABLE_COROUTINE)
    return func


#: What is asked about by its guards; of other objects nothing else says that the next one has the same answer.
_ASKED = (FunctionType, BuiltinFunctionType, MethodType, ModuleType, type, str, NoneType)


def _may_be_asked_about(target: Variable | None, args: Sequence[Variable]) -> bool:
    """Whether a store to it may be seen by a question about these, which goes on to functions and classes."""
    leads_on = isinstance(target, (FunctionVariable, ClassVariable)) and target.real() is not MISSING
    return leads_on or any(target is arg for arg in args)


def _pin(variable: Variable) -> Callable[[], None] | None:
    """Guards which function it is, of one that may be another in each call."""
    function = _behind(variable)
    return function.pin if isinstance(function, FunctionVariable) else None


def _behind(function: Variable) -> Variable:
    """The function that a method or partial calls."""
    while isinstance(function, (BoundMethod, PartialVariable)):
        function = function.function
    return function


#: Questions that evaluate the text of a signature of C's in the namespace of its module, which then has one name more.
_FROM_TEXT: Any = inspect._signature_fromstr  # type: ignore[attr-defined]
_EVALUATE = (inspect.signature, inspect.getfullargspec, _FROM_TEXT)
#: Questions that are traced, as they are written in `inspect`, where they are asked about what the frame made.
_READ = (
    inspect.signature, inspect.getfullargspec, inspect.unwrap, inspect.getdoc, inspect.isroutine,
)  # fmt: skip


def _bare_modules() -> list[dict[str, Any]]:
    """The namespaces of modules in which nothing was evaluated yet."""
    spaces = [vars(module) for module in [*sys.modules.values()] if type(module) is ModuleType]
    return [space for space in spaces if "__builtins__" not in space]


def _query(fn: Any) -> Callable[..., Variable]:
    """A question about existing objects, asked now; in each call, too, where each answer is another object."""

    def handler(tx: Translator, *args: Variable, **kwargs: Variable) -> Variable:
        values = [arg.real() if arg.real() is not MISSING else known(tx, arg) for arg in args]
        named = {name: known(tx, arg) for name, arg in kwargs.items()}
        unknown = any(value is MISSING or id(value) in tx.ledger.classes for value in (*values, *named.values()))
        pins = [pin for arg in args if (pin := _pin(arg)) is not None]
        if unknown or (pins and fn in _READ) or any(_may_be_asked_about(target, args) for target in tx.ledger.written):
            if fn not in _READ:
                raise GraphBreak(reason_of(fn), name_of(fn))
            return tx.call(FunctionVariable(fn, tx.sources.const(fn, name_of(fn))), list(args), kwargs)
        for pin in pins:
            pin()
        for arg, value in zip(args, values, strict=True):
            if arg.source is not None and arg.source.kind != "const" and not is_a(value, _ASKED):
                tx.know(arg.source, "is", value)
        question = functools.partial(fn, *values, **named)
        bare = _bare_modules() if fn in _EVALUATE else []
        try:
            answer = tx.attempt(question)
        finally:
            if [space for space in bare if space.pop("__builtins__", None) is not None]:  # which the program is to do
                raise GraphBreak(reason_of(fn), name_of(fn))
        if isinstance(answer, tuple) or is_constant_value(answer) or question() is answer:
            return tx.from_constant(answer)
        asked = tx.sources.const(question, name_of(fn)).step("made", (operator.call, len(tx.keepalive)))
        tx.keepalive.append(question)
        return tx.wrap(answer, asked)

    return handler


#: Questions about objects that exist, and about the machine: the answer does not change while the program runs.
CONSTANT_QUERIES = (
    *_EVALUATE,
    inspect.isroutine,
    inspect.unwrap,
    inspect.getmodule,
    inspect.getdoc,
    importlib.util.find_spec,
    os.cpu_count,
    platform.system,
    platform.machine,
    platform.python_version,
    platform.python_implementation,
    sys.getdefaultencoding,
)
for _fn in CONSTANT_QUERIES:
    handles(_fn)(_query(_fn))


def _of_code(fn: Any, flag: int) -> Callable[..., Variable]:
    """A question that the code of a function answers: those born in the frame have one, too."""
    of_existing = _query(fn)

    def handler(tx: Translator, obj: Variable, /) -> Variable:
        function = _behind(obj)
        if isinstance(function, ClosureFunction):
            return ConstantVariable(bool(function.code.co_flags & flag))
        return of_existing(tx, obj)

    return handler


for _fn, _flag in (
    (inspect.isgeneratorfunction, inspect.CO_GENERATOR),
    (inspect.iscoroutinefunction, inspect.CO_COROUTINE),
    (inspect.isasyncgenfunction, inspect.CO_ASYNC_GENERATOR),
):
    handles(_fn)(_of_code(_fn, _flag))


_ABSTRACT = _query(inspect.isabstract)


@handles(inspect.isabstract)
def _is_abstract(tx: Translator, object: Variable) -> Variable:  # noqa: A002
    if not isinstance(object, BornClass):
        return _ABSTRACT(tx, object)
    if is_a(object.value, abc.ABCMeta) and "__abstractmethods__" not in namespace_of(object.value):
        raise GraphBreak(reason_of(inspect.isabstract), "of a class that is being made")
    return ConstantVariable(inspect.isabstract(object.value))


@handles(inspect.getattr_static)
def _static(tx: Translator, obj: Variable, attr: Variable, default: Variable | None = None) -> Variable:
    """Of a class, whose metaclass comes behind it."""
    cls = getattr(obj, "value", None) if isinstance(obj, (ClassVariable, BuiltinVariable)) else None
    if not isinstance(cls, type) or lookup(type(cls), "__dict__") is not type.__dict__["__dict__"]:
        raise GraphBreak(reason_of(inspect.getattr_static), obj.describe())
    name = attr.constant()
    for found in (cls, type(cls)):
        if tx.lookup(found, name) is not MISSING:
            return tx.class_attribute(found, name)
    return default if default is not None else tx.raise_(AttributeError, name)


#: Functions of the library that show more of frames than the places that traced ones leave in tracebacks (variables,
#: instructions, and what of these has run), by module: their names, or keywords that ask for it.
_SHOW_FRAMES = {
    "dis": {"adaptive", "distb", "Bytecode.from_traceback"},
}


def check_question(module: Any, name: str, kwargs: dict[str, Variable]) -> None:
    """Raises SkipFrame where a function that is not traced into is asked for frames: those of the program must run."""
    asked = {name, *(key for key, value in kwargs.items() if not value.is_constant() or value.constant())}
    if not asked.isdisjoint(_SHOW_FRAMES.get(module, ())):
        raise SkipFrame(f"{READS_FRAME} ({name})")


class _SameLimit:
    """as deep a recursion as it was"""

    def __init__(self, limit: int) -> None:
        self.limit = limit

    def __call__(self, function: Any) -> bool:
        return function() == self.limit


@handles(sys.getrecursionlimit)
def _recursion_limit(tx: Translator) -> Variable:
    """How many wrappers `inspect.unwrap` goes through."""
    if tx.frames[-1].namespace.real() is not vars(inspect):
        raise GraphBreak("state of the interpreter", name_of(sys.getrecursionlimit))
    limit = sys.getrecursionlimit()
    tx.know(tx.sources.const(sys.getrecursionlimit, "sys.getrecursionlimit"), "predicate", _SameLimit(limit))
    return ConstantVariable(limit)


REFUSED[sys.setrecursionlimit] = "state of the interpreter"

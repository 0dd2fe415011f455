"""Rows of the standard library for the tables of `builtins`: operator, functools, itertools, collections, math, ..."""

from __future__ import annotations

import cmath
import functools
import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from symbolic import polyfills
from symbolic.sources import Source
from symbolic.variables.base import BINARY, INPLACE, UNARY, Variable
from symbolic.variables.constants import ConstantVariable
from symbolic.variables.containers import as_index
from symbolic.variables.functions import PartialVariable
from symbolic.variables.tables import (
    KINDS,
    POLYFILLS,
    Args,
    Kwargs,
    handles,
    pure,
)

if TYPE_CHECKING:
    from symbolic.translator import Translator


def _public(module: Any) -> list[Any]:
    return [value for name, value in vars(module).items() if callable(value) and not name.startswith("_")]


# --- math -------------------------------------------------------------------------------------------------------------

pure(_public(math))
pure(_public(cmath))

# --- operator ---------------------------------------------------------------------------------------------------------


def _two(operation: Callable[..., Any], op: Any) -> Callable[..., Variable]:
    """A handler of two operands that leaves the work to the translator's protocol for `op`."""
    return lambda tx, a, b, /: operation(tx, op, a, b)


for _op in BINARY:
    if _op is not divmod:
        handles(_op)(_two(lambda tx, op, a, b: tx.binary(op, a, b), _op))
for _op in INPLACE:
    handles(_op)(_two(lambda tx, op, a, b: tx.inplace(op, a, b), _op))
for _fn, _op in ((operator.concat, operator.add), (operator.iconcat, operator.iadd)):
    handles(_fn)(_two(lambda tx, op, a, b: (tx.binary if op in BINARY else tx.inplace)(op, a, b), _op))
for _fn, _op in ((operator.neg, operator.neg), (operator.pos, operator.pos), (operator.invert, operator.invert),
                 (operator.inv, operator.invert), (operator.abs, abs)):
    assert _op in UNARY
    handles(_fn)((lambda op: lambda tx, value, /: tx.unary(op, value))(_op))


@handles(operator.truth)
def _truth(tx: Translator, value: Variable, /) -> Variable:
    return ConstantVariable(tx.truth(value))


@handles(operator.not_)
def _not(tx: Translator, value: Variable, /) -> Variable:
    return ConstantVariable(not tx.truth(value))


@handles(operator.is_)
def _is(tx: Translator, a: Variable, b: Variable, /) -> Variable:
    return ConstantVariable(a.is_same(tx, b))


@handles(operator.is_not)
def _is_not(tx: Translator, a: Variable, b: Variable, /) -> Variable:
    return ConstantVariable(not a.is_same(tx, b))


@handles(operator.contains)
def _contains(tx: Translator, container: Variable, item: Variable, /) -> Variable:
    return ConstantVariable(tx.contains(container, item))


@handles(operator.getitem)
def _getitem(tx: Translator, container: Variable, index: Variable, /) -> Variable:
    return container.getitem(tx, index)


@handles(operator.setitem)
def _setitem(tx: Translator, container: Variable, index: Variable, value: Variable, /) -> Variable:
    container.setitem(tx, index, value)
    return ConstantVariable(None)


@handles(operator.delitem)
def _delitem(tx: Translator, container: Variable, index: Variable, /) -> Variable:
    container.delitem(tx, index)
    return ConstantVariable(None)


@handles(operator.index)
def _index(tx: Translator, value: Variable, /) -> Variable:
    return ConstantVariable(as_index(tx, value))


@handles(operator.length_hint)
def _length_hint(tx: Translator, value: Variable, default: Variable | None = None, /) -> Variable:
    return ConstantVariable(tx.len(value))


@handles(operator.call)
def _call(tx: Translator, function: Variable, /, *args: Variable, **kwargs: Variable) -> Variable:
    return tx.call(function, list(args), kwargs)


POLYFILLS.update({operator.countOf: polyfills.count_of, operator.indexOf: polyfills.index_of})


class GetterVariable(Variable):
    """`operator.itemgetter(...)`, `attrgetter(...)` or `methodcaller(...)` (`kind`) with its arguments."""

    def __init__(self, kind: type, args: Args, kwargs: Kwargs, source: Source | None = None) -> None:
        self.kind = kind
        self.args = args
        self.kwargs = kwargs
        self.source = source

    def python_type(self) -> type:
        return self.kind

    def call(self, tx: Translator, args: Args, kwargs: Kwargs) -> Variable:
        if len(args) != 1 or kwargs:
            tx.raise_(TypeError, f"{self.kind.__name__} expected 1 argument, got {len(args)}")
        if self.kind is operator.methodcaller:
            return args[0].method(tx, self.args[0].constant(), self.args[1:], self.kwargs)
        get = _get_item if self.kind is operator.itemgetter else _get_dotted
        found = [get(tx, args[0], each) for each in self.args]
        return found[0] if len(found) == 1 else tx.new_tuple(found)

    def reachable(self) -> Args:
        return [*self.args, *self.kwargs.values()]


def _get_item(tx: Translator, value: Variable, index: Variable) -> Variable:
    return value.getitem(tx, index)


def _get_dotted(tx: Translator, value: Variable, path: Variable) -> Variable:
    for name in path.constant().split("."):
        value = tx.getattr(value, name)
    return value


_GETTER_NAMES = {operator.methodcaller: "method", operator.attrgetter: "attribute"}


def _new_getter(kind: type) -> Callable[..., Variable]:
    def handler(tx: Translator, first: Variable, /, *rest: Variable, **kwargs: Variable) -> Variable:
        if kind is not operator.itemgetter:
            names = (first,) if kind is operator.methodcaller else (first, *rest)
            if any(name.python_type() is not str for name in names):
                tx.raise_(TypeError, f"{_GETTER_NAMES[kind]} name must be a string")
        return GetterVariable(kind, [first, *rest], kwargs)

    return handler


def _existing_getter(tx: Translator, fn: Any, args: Args, kwargs: Kwargs) -> Variable:
    """A getter made before the frame; `__reduce__` says with which arguments."""
    kind, parts = fn.__reduce__()
    if not isinstance(kind, type):  # methodcaller with keywords: partial(methodcaller, name, **keywords), (args)
        named = {name: tx.wrap(value, tx.sources.const(value, repr(value))) for name, value in kind.keywords.items()}
        parts, kind = (*kind.args, *parts), operator.methodcaller
    else:
        named = {}
    made = GetterVariable(kind, [tx.wrap(part, tx.sources.const(part, repr(part))) for part in parts], named)
    return made.call(tx, args, kwargs)


for _kind in (operator.itemgetter, operator.attrgetter, operator.methodcaller):
    handles(_kind)(_new_getter(_kind))
    KINDS[_kind] = _existing_getter

# --- functools --------------------------------------------------------------------------------------------------------


@handles(functools.partial)
def _partial(tx: Translator, function: Variable, /, *args: Variable, **kwargs: Variable) -> Variable:
    return PartialVariable(function, list(args), kwargs)


POLYFILLS[functools.reduce] = polyfills.reduce

#: modules of the standard library whose Python functions are never traced
SKIPPED_MODULES = frozenset(
    """asyncio bdb concurrent ctypes datetime faulthandler gc glob importlib inspect io json linecache logging
    multiprocessing os pathlib pdb pickle platform posixpath pprint queue random re secrets select shutil signal
    socket sqlite3 ssl subprocess tempfile threading time timeit tokenize traceback tracemalloc unittest urllib uuid
    warnings weakref zipfile""".split()
)

"""Rows of the standard library for the tables of `builtins`: operator, functools, itertools, collections, math, ..."""

from __future__ import annotations

import abc
import binascii
import bisect
import cmath
import collections
import dataclasses
import fnmatch
import functools
import heapq
import hmac
import inspect
import json
import math
import operator
import os
import pprint
import re
import reprlib
import string
import struct
import sys
import textwrap
import traceback
import typing
import unicodedata
import urllib.parse
import uuid
import weakref
import zlib
from collections.abc import Callable
from types import MappingProxyType, MethodType
from typing import TYPE_CHECKING, Any

import torch

from sideeffects.effects import DELETED
from symbolic import polyfills
from symbolic.errors import MEMORY, READS_STACK, SEES_END, SEES_SIZE, GraphBreak, Observed
from symbolic.sources import Source
from symbolic.variables.base import BINARY, INPLACE, MISSING, UNARY, Variable, lookup
from symbolic.variables.constants import ConstantVariable, is_constant_value, is_none
from symbolic.variables.exceptions import NONE, AnyException, TracebackVariable
from symbolic.variables.functions import (
    BoundMethod,
    ClosureFunction,
    FunctionVariable,
    PartialVariable,
    has_no_attributes,
)
from symbolic.variables.native import each, taken
from symbolic.variables.numbers import inverse_of, truth_of
from symbolic.variables.objects import ObjectVariable
from symbolic.variables.positions import as_index, has, has_own, stand_in
from symbolic.variables.tables import (
    CODES,
    GROWING,
    HANDLERS,
    KINDS,
    POLYFILLS,
    REFUSED,
    SUITED,
    WRAPPERS,
    Args,
    Kwargs,
    fold,
    handles,
    is_tensor,
    known,
    library,
    name_of,
    pure,
    special,
)

if TYPE_CHECKING:
    from symbolic.translator import Translator


def _public(module: Any) -> list[Any]:
    return [value for name, value in vars(module).items() if callable(value) and not name.startswith("_")]


# --- math -------------------------------------------------------------------------------------------------------------

pure(_public(math))
pure(_public(cmath))
POLYFILLS[math.prod] = polyfills.prod
GROWING.update({fn: True for fn in (math.factorial, math.comb, math.perm)})


def _rounding(fn: Any, name: str) -> Callable[..., Variable]:
    def handler(tx: Translator, x: Variable, /) -> Variable:
        if is_tensor(x):
            raise GraphBreak("tensor value needed", name_of(fn))
        answer = special(tx, x, name)
        if answer is None:
            raise GraphBreak("number needed", f"{name_of(fn)} of {x.describe()}")
        return answer

    return handler


_fn: Any
_op: Any
for _fn, _name in ((math.floor, "__floor__"), (math.ceil, "__ceil__"), (math.trunc, "__trunc__")):
    handles(_fn)(_rounding(_fn, _name))


@handles(math.dist)
def _dist(tx: Translator, p: Variable, q: Variable, /) -> Variable:
    values = [known(tx, tx.new_tuple(taken(tx, each))) for each in (p, q)]
    if any(value is MISSING for value in values):
        raise GraphBreak("number needed", name_of(math.dist))
    return tx.from_constant(tx.attempt(math.dist, *values))


@handles(math.fsum)
def _fsum(tx: Translator, seq: Variable, /) -> Variable:
    """Each number is looked at before the next one is asked for."""
    values = []
    for item in each(tx, seq):
        values.append(known(tx, item))
        if values[-1] is MISSING:
            raise GraphBreak("number needed", item.describe())
        tx.attempt(math.fsum, values[-1:])
    return tx.from_constant(tx.attempt(math.fsum, values))

# --- operator ---------------------------------------------------------------------------------------------------------


def _two(operation: Callable[..., Any], op: Any) -> Callable[..., Variable]:
    """A handler of two operands that leaves the work to the translator's protocol for `op`."""
    return lambda tx, a, b, /: operation(tx, op, a, b)


for _op in BINARY:
    if _op is not divmod:
        handles(_op)(_two(lambda tx, op, a, b: tx.binary(op, a, b), _op))
for _op in INPLACE:
    handles(_op)(_two(lambda tx, op, a, b: tx.inplace(op, a, b), _op))


def _concatenation(fn: Any, op: Any) -> Callable[..., Variable]:
    def handler(tx: Translator, a: Variable, b: Variable, /) -> Variable:
        if not _is_sequence(a.python_type()):
            tx.attempt(fn, stand_in(a), stand_in(b))
        if isinstance(a, ObjectVariable) and a.special(tx, "__add__") is not None:  # which makes it a number, too
            raise GraphBreak("native operator of an object", a.describe())
        if op in BINARY:
            return a.as_sequence(tx, op, b) or tx.binary(op, a, b)
        return a.inplace(tx, op, b) or a.as_sequence(tx, operator.add, b) or tx.inplace(op, a, b)

    return handler


for _fn, _op in ((operator.concat, operator.add), (operator.iconcat, operator.iadd)):
    handles(_fn)(_concatenation(_fn, _op))
for _fn, _op in (
    (operator.neg, operator.neg),
    (operator.pos, operator.pos),
    (operator.invert, operator.invert),
    (operator.inv, operator.invert),
    (operator.abs, abs),
):
    assert _op in UNARY
    handles(_fn)((lambda op: lambda tx, value, /: tx.unary(op, value))(_op))


@handles(operator.truth)
def _truth(tx: Translator, value: Variable, /) -> Variable:
    return truth_of(tx, value)


@handles(operator.not_)
def _not(tx: Translator, value: Variable, /) -> Variable:
    return inverse_of(tx, value)


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
    return ConstantVariable(tx.attempt(operator.index, as_index(tx, value)))


@handles(operator.length_hint)
def _length_hint(tx: Translator, value: Variable, default: Variable | None = None, /) -> Variable:
    if default is not None:
        tx.attempt(operator.index, as_index(tx, default))
    if isinstance(value, ObjectVariable) and value.payload is None:
        return tx.inline(polyfills.length_hint, [value, default or ConstantVariable(0)], {})
    if tx.lookup(value.python_type(), "__len__") is MISSING or has_own(value, ("__len__", "__length_hint__")):
        raise GraphBreak("length hint of an iterator", value.describe())
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
            return tx.call(tx.getattr(args[0], self.args[0].constant()), self.args[1:], self.kwargs)
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


def _held(tx: Translator, part: Any) -> Variable:
    return tx.wrap(part, tx.sources.const(part, repr(part) if is_constant_value(part) else type(part).__qualname__))


def _existing_getter(tx: Translator, fn: Any, args: Args, kwargs: Kwargs) -> Variable:
    """A getter made before the frame; `__reduce__` says with which arguments."""
    kind, parts = fn.__reduce__()
    if not isinstance(kind, type):  # methodcaller with keywords: partial(methodcaller, name, **keywords), (args)
        named = {name: _held(tx, value) for name, value in kind.keywords.items()}
        parts, kind = (*kind.args, *parts), operator.methodcaller
    else:
        named = {}
    made = GetterVariable(kind, [_held(tx, part) for part in parts], named)
    return made.call(tx, args, kwargs)


for _kind in (operator.itemgetter, operator.attrgetter, operator.methodcaller):
    handles(_kind)(_new_getter(_kind))
    KINDS[_kind] = _existing_getter

# --- functools --------------------------------------------------------------------------------------------------------

POLYFILLS[functools.reduce] = polyfills.reduce


class ComparisonVariable(PartialVariable):
    """`functools.cmp_to_key(mycmp)`, which makes a `polyfills.ComparisonKey` of what it is called with."""

    def python_type(self) -> type:
        return type(functools.cmp_to_key(len))  # type: ignore[arg-type]

    def getattr(self, tx: Translator, name: str) -> Variable:
        raise GraphBreak("native attribute of an object born in the frame", f"{name} of {self.describe()}")


@handles(functools.cmp_to_key)
def _cmp_to_key(tx: Translator, mycmp: Variable) -> Variable:
    return ComparisonVariable(tx.class_variable(polyfills.ComparisonKey), [mycmp], {})


REFUSED[functools.total_ordering] = "class made while running"


@handles(functools.partial)
def _partial(tx: Translator, function: Variable, /, *args: Variable, **kwargs: Variable) -> Variable:
    if tx.lookup(function.python_type(), "__call__") is MISSING:
        tx.raise_(TypeError, "the first argument must be callable")
    if isinstance(function, PartialVariable) and function.source is not None and function.may_merge():
        tx.know(function.source, "predicate", has_no_attributes)
    return PartialVariable(function, list(args), kwargs)


@handles(functools.update_wrapper)
def _update_wrapper(
    tx: Translator, wrapper: Variable, wrapped: Variable, *names: Variable, **named: Variable
) -> Variable:
    if names or named:
        raise GraphBreak("functools.wraps with its own lists of attributes", wrapped.describe())
    born = wrapped if isinstance(wrapped, ClosureFunction) else None
    for name in functools.WRAPPER_ASSIGNMENTS:
        if born is not None and name == "__type_params__":
            if not isinstance(wrapper, ClosureFunction):  # a function has them as it is
                wrapper.setattr(tx, name, tx.new_tuple([]))
            continue
        try:
            value = tx.getattr(wrapped, name)
        except Observed as raised:
            if not issubclass(raised.variable.python_type(), AttributeError):
                raise
        else:
            has_none = name == "__type_params__" and not tx.unpack(value)
            if not has_none or not isinstance(wrapper, ClosureFunction):  # a function born has none as it is
                wrapper.setattr(tx, name, value)
    for own, value in _own_attributes(tx, wrapped):
        wrapper.setattr(tx, own, value)
    wrapper.setattr(tx, "__wrapped__", wrapped)
    return wrapper


def _own_attributes(tx: Translator, function: Variable) -> list[tuple[str, Variable]]:
    """The `__dict__` of a function, pending stores included."""
    if isinstance(function, ClosureFunction):
        stores = {name: value for name, value in tx.ledger.stores(function).items() if value is not DELETED}
        return [(name, value) for name, value in stores.items() if name not in functools.WRAPPER_ASSIGNMENTS]
    if not tx.hasattr(function, "__dict__"):
        return []
    namespace = tx.getattr(function, "__dict__")
    return [(key.constant(), namespace.getitem(tx, key)) for key in tx.unpack(namespace)]


@handles(functools.wraps)
def _wraps(tx: Translator, wrapped: Variable, *names: Variable, **named: Variable) -> Variable:
    if names:
        raise GraphBreak("functools.wraps with its own lists of attributes", wrapped.describe())
    return PartialVariable(library(tx, functools.update_wrapper), [], {"wrapped": wrapped, **named})


class _Dispatches:
    """a singledispatch function still chooses the same implementation"""

    def __init__(self, cls: type, chosen: Any) -> None:
        self.cls = cls
        self.chosen = chosen
        self.__doc__ = f"the implementation for {cls.__qualname__}"

    def __call__(self, dispatch: Any) -> bool:
        return dispatch(self.cls) is self.chosen


def _in_cell(function: Any, name: str) -> Any:
    return function.__closure__[function.__code__.co_freevars.index(name)].cell_contents


def _dispatch(tx: Translator, fn: Any, args: Args, kwargs: Kwargs) -> Variable:
    """`f.dispatch(cls)` of an existing function: asked now, unless the frame has what it would look at."""
    cache: Any = _in_cell(fn, "dispatch_cache")
    kind = type(cache)
    if kind is not weakref.WeakKeyDictionary:
        raise GraphBreak("builtin not supported", f"{name_of(fn)}, which remembers what it chose in a place of its own")
    looked_at = (_in_cell(fn, "registry"), cache, cache.data)
    if any(id(each) in tx.known for each in looked_at) or len(args) != 1 or kwargs or not args[0].is_constant():
        return tx.call(FunctionVariable(fn, tx.sources.const(fn, name_of(fn))), args, kwargs)
    cls = args[0].constant()
    chosen = tx.attempt(fn, cls)
    tx.know(tx.sources.const(fn, name_of(fn)), "predicate", _Dispatches(cls, chosen))
    return library(tx, chosen)


def _single_dispatch(tx: Translator, fn: Any, args: Args, kwargs: Kwargs) -> Variable:
    if not args:
        raise GraphBreak("arguments do not fit the function", name_of(fn))
    return tx.call(_dispatch(tx, _in_cell(fn, "dispatch"), [tx.class_of(args[0])], {}), args, kwargs)


def _register(tx: Translator, fn: Any, args: Args, kwargs: Kwargs) -> Variable:
    raise GraphBreak("builtin not supported", f"{name_of(fn)} of a function that exists")


@handles(abc.get_cache_token)
def _cache_token(tx: Translator) -> Variable:
    """What `singledispatch` remembers, to forget what it chose where that has changed."""
    if tx.frames[-1].namespace.real() is not vars(functools):
        raise GraphBreak("builtin not supported", name_of(abc.get_cache_token))
    return ConstantVariable(abc.get_cache_token())


_dispatching: Any = functools.singledispatch(lambda value: None)
for _fn, _family in (
    (_dispatching, _single_dispatch), (_dispatching.dispatch, _dispatch), (_dispatching.register, _register),
):  # fmt: skip
    CODES[_fn.__code__] = _family
_METHOD: Any = vars(functools.singledispatchmethod)["__get__"]
if "_method_cache" in _METHOD.__code__.co_names:

    @handles(_METHOD)
    def _dispatching_method(tx: Translator, descriptor: Variable, obj: Variable, cls: Variable = NONE) -> Variable:
        """An existing one remembers a method for each object for good, so that each call would find it changed."""
        if descriptor.real() is not MISSING:
            raise GraphBreak(MEMORY, "singledispatchmethod, which remembers its methods")
        made = FunctionVariable(_METHOD, tx.sources.const(_METHOD, name_of(_METHOD)))
        return tx.call(made, [descriptor, obj, cls], {})


# `repr` of a dataclass: its wrapper only stops at objects that hold themselves, too deep to trace anyway.
for _recursive in (reprlib.recursive_repr(), getattr(dataclasses, "_recursive_repr", reprlib.recursive_repr())):
    WRAPPERS[_recursive(lambda self: "").__code__] = ("user_function", None)

# --- collections, heapq, bisect ---------------------------------------------------------------------------------------
POLYFILLS[collections._count_elements] = polyfills.count_elements  # type: ignore[attr-defined]


def _is_plain_list(kind: type) -> bool:
    """The native versions ask no method of a derived class."""
    names = ("__len__", "__getitem__", "__setitem__", "append", "pop")
    return issubclass(kind, list) and all(lookup(kind, name) is lookup(list, name) for name in names)


def _is_sequence(kind: type) -> bool:
    return has(kind, "__getitem__") and not issubclass(kind, (dict, MappingProxyType, torch.Tensor))


for _suits, _module, _names in (
    (_is_plain_list, heapq, "heapify heappop heappush heapreplace heappushpop"),
    (_is_plain_list, heapq, "_heapify_max _heappop_max _heapreplace_max"),
    (_is_sequence, bisect, "bisect_left bisect_right insort_left insort_right"),
):
    for _name in _names.split():
        _native = getattr(_module, _name)
        POLYFILLS[_native], SUITED[_native] = getattr(polyfills, _name.lstrip("_")), _suits

# --- types, typing, inspect, os, sys ----------------------------------------------------------------------------------

REFUSED.update(
    {
        fn: READS_STACK
        for fn in (
            sys._getframe,
            sys._current_frames,
            inspect.currentframe,
            inspect.stack,
            traceback.print_stack,
            traceback.format_stack,
            traceback.extract_stack,
            traceback.walk_stack,
        )
    }
)
REFUSED.update({fn: "random numbers of Python" for fn in (uuid.uuid1, uuid.uuid4, uuid.getnode)})
REFUSED[sys.getrefcount] = SEES_END  # compiled code has references to constants and to what it works on
REFUSED[sys.getsizeof] = SEES_SIZE
REFUSED[sys.getallocatedblocks] = SEES_SIZE  # what is compiled in between stays
pure((sys.intern, os.path.join, os.path.basename, os.path.dirname, os.path.splitext, os.path.normpath, os.path.isabs))


def _pretty(tx: Translator, args: Args, kwargs: Kwargs) -> Variable:
    """`pprint.pformat`: keys that have no order it sorts by where they lie."""
    if not all(_have_an_order(known(tx, arg)) for arg in (*args, *kwargs.values())):
        raise GraphBreak("text of an object", "pprint.pformat, of keys that have no order")
    folded = fold(tx, pprint.pformat, args, kwargs)
    if folded is None:
        raise GraphBreak("text processing", "pformat")
    return folded


def _have_an_order(value: Any) -> bool:
    if isinstance(value, (dict, set, frozenset)):
        try:
            sorted(value)
        except TypeError:
            return False
    parts = [*value, *value.values()] if isinstance(value, dict) else value
    return not isinstance(value, (dict, set, frozenset, list, tuple)) or all(map(_have_an_order, parts))


HANDLERS[pprint.pformat] = _pretty
pure((struct.calcsize, struct.pack, struct.unpack, struct.unpack_from))
pure((re.escape, re.split, re.findall, re.sub, re.subn, string.capwords))
pure((os.path.split, os.path.normcase, os.path.commonpath, os.path.commonprefix))
pure((fnmatch.fnmatch, fnmatch.fnmatchcase, fnmatch.filter, fnmatch.translate, json.dumps, json.loads))
pure((urllib.parse.quote, urllib.parse.quote_plus, urllib.parse.unquote, urllib.parse.unquote_plus))
pure((unicodedata.normalize, unicodedata.category, unicodedata.name, unicodedata.lookup, unicodedata.combining))
pure((binascii.hexlify, binascii.unhexlify, binascii.b2a_base64, binascii.a2b_base64, binascii.crc32))
pure((zlib.crc32, zlib.adler32, zlib.compress, zlib.decompress))
pure((urllib.parse.parse_qs, urllib.parse.parse_qsl, urllib.parse.urlencode, urllib.parse.urljoin))
pure((hmac.compare_digest,))
pure((inspect.cleandoc, textwrap.dedent, textwrap.wrap, textwrap.fill, textwrap.shorten))


#: Modules that ask who calls them, for the name of a module.
_ASK_WHO_CALLS = tuple(vars(module) for module in (typing, dataclasses))


def _module_of(tx: Translator, depth: int) -> Variable:
    """The name of the module of the frame that is so far up from the one that asks."""
    asks = tx.frames[-1]
    if asks.name == "TypeVarTuple.__init__":  # what is made of it is remembered by the library
        raise GraphBreak(READS_STACK, asks.name)
    if not any(asks.namespace.real() is space for space in _ASK_WHO_CALLS) or depth >= len(tx.frames):
        raise GraphBreak(READS_STACK, "the name of a caller's module")
    return tx.load_name(tx.frames[-1 - depth].namespace, "__name__")


@handles(typing._caller)  # type: ignore[attr-defined]
def _caller(tx: Translator, depth: Variable | None = None, default: Variable | None = None) -> Variable:
    return _module_of(tx, 1 if depth is None else depth.constant())


if hasattr(sys, "_getframemodulename"):

    @handles(sys._getframemodulename)
    def _name_of_module(tx: Translator, depth: Variable | None = None) -> Variable:
        return _module_of(tx, 0 if depth is None else depth.constant())


@handles(traceback.clear_frames)
def _clear_frames(tx: Translator, tb: Variable) -> Variable:
    """Frames that were traced leave nothing in the traceback but their places."""
    while isinstance(tb, TracebackVariable):
        tb = tb.rest
    if not is_none(tb):
        raise GraphBreak("traceback of an exception", tb.describe())
    return NONE


@handles(sys.exc_info)
def _exc_info(tx: Translator) -> Variable:
    error = _exception(tx)
    if not isinstance(error, AnyException):
        return tx.new_tuple([NONE] * 3)
    return tx.new_tuple([tx.class_of(error), error, error.own(tx, "__traceback__")])


@handles(sys.exception)
def _exception(tx: Translator) -> Variable:
    return tx.handling() or NONE


@handles(MethodType)
def _method(tx: Translator, function: Variable, owner: Variable, /) -> Variable:
    if tx.lookup(function.python_type(), "__call__") is MISSING:
        tx.raise_(TypeError, "first argument must be callable")
    if owner.is_constant() and owner.constant() is None:
        tx.attempt(MethodType, len, None)
    return BoundMethod(function, owner)


@handles(typing._idfunc)  # type: ignore[attr-defined]
def _itself(tx: Translator, value: Variable, /) -> Variable:
    """What a `NewType` does to a value."""
    return value


@handles(typing.cast)
def _cast(tx: Translator, typ: Variable, val: Variable) -> Variable:
    return val


class _SameVariable:
    """An environment variable that still has its value."""

    def __init__(self, name: str, value: str | None) -> None:
        self.name = name
        self.value = value
        self.__doc__ = f"value of {name}"

    def __call__(self, environ: Any) -> bool:
        return environ.get(self.name) == self.value


@handles(os.getenv)
def _getenv(tx: Translator, key: Variable, default: Variable | None = None) -> Variable:
    name = key.constant()
    value = tx.attempt(os.environ.get, name)
    tx.know(tx.sources.const(os.environ, "os.environ"), "predicate", _SameVariable(name, value))
    if value is None:
        return default if default is not None else ConstantVariable(None)
    return ConstantVariable(value)

"""Functions behind `functools.lru_cache` and `functools.cache`: existing ones, and those that the frame makes."""

from __future__ import annotations

import builtins
import dis
import functools
import gc
import inspect
import logging
import math
from dataclasses import dataclass
from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch

from sideeffects.effects import DELETED, Call
from symbolic import polyfills
from symbolic.errors import GraphBreak, Observed
from symbolic.guards import Guard
from symbolic.sources import Source
from symbolic.told_to import INSTALLED
from symbolic.variables import born
from symbolic.variables.base import MISSING, NUMBERS, FixedVariable, Variable, lookup
from symbolic.variables.classes import NATIVE_CONSTRUCTORS
from symbolic.variables.constants import ConstantVariable, is_constant_value
from symbolic.variables.containers import TupleVariable
from symbolic.variables.functions import ClosureFunction, FunctionVariable
from symbolic.variables.methods import NativeMethod
from symbolic.variables.numbers import Given
from symbolic.variables.objects import ObjectVariable, is_data_descriptor
from symbolic.variables.outside import logged
from symbolic.variables.tables import HANDLERS, KINDS, PURE, Args, Kwargs, handles, library, name_of

if TYPE_CHECKING:
    from symbolic.frames import Frame
    from symbolic.translator import Translator

_CACHED: Any = type(functools.lru_cache(len))
_WRITES = frozenset(("STORE_GLOBAL", "DELETE_GLOBAL", "STORE_ATTR", "DELETE_ATTR", "IMPORT_NAME"))


def _cached(tx: Translator, fn: Any, args: Args, kwargs: Kwargs) -> Variable:
    """A cached function of known values. One of an installed library is called now; without its cache, as any other,
    where numbers among its arguments vary. One of the program answers with what it remembers, or is called now without
    its cache, if it is a function of its arguments alone; the residual code calls it, which fills the cache."""
    if args and issubclass(args[0].python_type(), logging.Logger):
        return logged(tx, fn, args, kwargs)  # `warning_once` and its like
    if fn.__module__ == "typing" and not kwargs:
        for arg in args:
            _same_again(tx, arg)
        return tx.of_classes(fn, *args)
    own: Any = getattr(fn, "__wrapped__", None)
    if inspect.isfunction(own) and own.__code__.co_filename.startswith(INSTALLED):
        return _installed(tx, fn, args, kwargs)
    is_known = all(arg.is_constant() for arg in (*args, *kwargs.values()))
    if not is_known or not (own in PURE if not inspect.isfunction(own) else _of_its_arguments(own)):
        reason = "cached function of more than its arguments" if is_known else "cached function of values not known"
        return _remembered(tx, fn, args, kwargs, reason)
    try:
        result = tx.attempt(own, *(arg.constant() for arg in args), **{k: arg.constant() for k, arg in kwargs.items()})
    except Observed as raised:
        raise GraphBreak("cached function that raises", name_of(fn)) from raised  # it is counted, but not remembered
    if not is_constant_value(result):
        return _remembered(tx, fn, args, kwargs, "cached function that makes an object")
    tx.ledger.call(library(tx, fn), *args, **kwargs)
    return tx.from_constant(result)


# --- what one of the program remembers --------------------------------------------------------------------------------
#: Stands for nothing remembered, and in a key for an object that is given.
_NOTHING, _GIVEN = object(), object()
_FILL = "once it remembers something for these arguments, calls are captured whole"


@dataclass(frozen=True)
class Memory:
    """What a cached function remembers for a call; it is given the function and those arguments that are objects."""

    args: tuple[Any, ...]
    names: tuple[str, ...]  # those that came by name, in order, are the last ones
    types: tuple[type, ...]  # 1 and True are equal

    __name__ = "what it remembers"

    def written(self, function: str, *objects: str) -> str:
        given = iter(objects)
        texts = [next(given) if arg is _GIVEN else repr(arg) for arg in self.args]
        first = len(texts) - len(self.names)
        named = [f"{name}={text}" for name, text in zip(self.names, texts[first:], strict=True)]
        return f"{function}.remembered({', '.join([*texts[:first], *named])})"

    def __call__(self, values: Any) -> Any:
        """Looks without a trace where CPython's `_functools` keeps results: nobody is counted, nothing gets newer."""
        function, *objects = values if isinstance(values, tuple) else (values,)
        held = gc.get_referents(function)
        end = len(held) - 1 - held[::-1].index(_LINK)
        results, mark = held[end - 3], held[end - 1]
        given = iter(objects)
        values = [next(given) if arg is _GIVEN else arg for arg in self.args]
        key = self._key(values, mark, function.cache_parameters()["typed"])
        found = results.get(key, _NOTHING)
        if type(found) is not _LINK:
            return found
        rows = range(held.index(_LINK) - 2, end - 3, 3)  # key, result, class
        return next(held[at + 1] for at in rows if type(held[at]) is type(key) and held[at] == key)

    def _key(self, values: list[Any], mark: Any, typed: bool) -> Any:
        if len(values) == 1 and not self.names and not typed and type(values[0]) in (int, str):
            return values[0]
        first = len(values) - len(self.names)
        named = [part for pair in zip(self.names, values[first:], strict=True) for part in pair]
        key = (*values[:first], *([mark, *named] if named else []))
        return (*key, *map(type, values)) if typed else key


def _link() -> type:
    """The class of what a bounded cache is a list of; each holds it."""
    held = gc.get_referents(functools.cache(len))
    return next(each for each in held if isinstance(each, type) and each.__name__ == "_lru_list_elem")


_LINK = _link()


def _remembered(tx: Translator, fn: Any, args: Args, kwargs: Kwargs, reason: str) -> Variable:
    """What it remembers for such arguments; the residual code has it count one call more. While it remembers nothing it
    is called between two graphs."""
    if not callable(getattr(fn, "cache_parameters", None)):  # made by what `lru_cache` is made of
        raise GraphBreak(reason, name_of(fn))
    function = library(tx, fn)
    source, found = _looked_up(tx, function, args, kwargs)
    if found is _NOTHING:
        raise GraphBreak(reason, name_of(fn), _FILL, (Guard(source, "is", _NOTHING, *tx.place()),))
    keeps_all = fn.cache_parameters()["maxsize"] is None
    for effect in [each for each in tx.ledger.effects() if isinstance(each, Call)]:
        if effect.risk is not None:  # it may clear the cache
            raise GraphBreak(reason, name_of(fn))
        if effect.function is function and not keeps_all:
            before, result = _looked_up(tx, function, list(effect.args), effect.kwargs)
            if result is _NOTHING:  # its result may be in the place of this one
                raise GraphBreak(reason, name_of(fn))
            tx.wrap(result, before)
    tx.ledger.call(function, *args, **kwargs)
    return tx.wrap(found, source)


def _looked_up(tx: Translator, function: Variable, args: Args, kwargs: Kwargs) -> tuple[Source, Any]:
    """What it remembers, and the path to that."""
    fn = function.real()
    given = [arg.realize(tx) for arg in (*args, *kwargs.values())]
    objects = [each for each in given if not each.is_constant()]
    parts = [variable.source for variable in objects if variable.source is not None and _is_one(variable.real())]
    if len(parts) < len(objects):
        raise GraphBreak("cached function of values not known", name_of(fn))
    keys = tuple(each.constant() if each.is_constant() else _GIVEN for each in given)
    tx.attempt(hash, keys)
    memory = Memory(keys, tuple(kwargs), tuple(map(type, keys)))
    assert function.source is not None
    source = (tx.sources.several([function.source, *parts]) if parts else function.source).step("call", memory)
    return source, memory((fn, *(each.real() for each in objects)))


def _is_one(value: Any) -> bool:
    """Whether it is a key as the one object that it is."""
    kind = type(value)
    return value is not MISSING and kind.__hash__ is object.__hash__ and kind.__eq__ is object.__eq__


def _installed(tx: Translator, fn: Any, args: Args, kwargs: Kwargs) -> Variable:
    """One of a library. What it remembers is the object that later calls find, too."""
    variables = [arg.realize(tx) for arg in (*args, *kwargs.values())]
    values = [_again(tx, variable) for variable in variables]
    if any(value is MISSING for value in values):
        if not all(_is_its_value(tx, variable) for variable in variables):
            raise GraphBreak("cached function of values not known", name_of(fn))
        return tx.inline(fn.__wrapped__, args, kwargs)
    misses = fn.cache_info().misses
    result = tx.attempt(fn, *values[: len(args)], **dict(zip(kwargs, values[len(args) :], strict=True)))
    if is_constant_value(result) or type(result) is tuple and all(map(is_constant_value, result)):
        return tx.from_constant(result)
    if fn.cache_info().misses > misses and born.holds((result,), lambda part: isinstance(part, torch.Tensor)):
        raise GraphBreak("cached function that makes an object", name_of(fn))  # under what modes the program has
    return tx.wrap(result, tx.sources.const(result, f"<what {name_of(fn)} remembers>"))


def _again(tx: Translator, variable: Variable) -> Any:
    """The value, if it is known to be the same one in later calls, and nothing of it was written to; else MISSING."""
    if isinstance(variable, Given):
        return MISSING
    if variable.is_constant():
        return variable.constant()
    if type(variable) is TupleVariable and variable.cls in (tuple, torch.Size):
        items = [_again(tx, item.realize(tx)) for item in variable.items]
        return MISSING if any(item is MISSING for item in items) else variable.cls(items)
    if tx.ledger.touched(variable):
        return MISSING
    if isinstance(variable, (FunctionVariable, FixedVariable)):
        return variable.key()
    value = variable.real()
    if value is MISSING or born.varies(variable) or type(value).__hash__ is not object.__hash__:
        return MISSING
    return value if variable.source is not None and variable.source.is_end else MISSING


def _is_its_value(tx: Translator, variable: Variable) -> bool:
    """Whether a cache can't tell it from another one that is equal, or has not come upon it yet."""
    if type(variable) is TupleVariable:
        return all(_is_its_value(tx, item.realize(tx)) for item in variable.items)
    if isinstance(variable, Given):
        return variable.python_type() in NUMBERS
    is_new = isinstance(variable, (ClosureFunction, ObjectVariable)) and variable.real() is MISSING
    return is_new and variable.python_type().__hash__ is object.__hash__ or _again(tx, variable) is not MISSING


def _same_again(tx: Translator, variable: Variable) -> None:
    """What is asked for its hash has it in the next call, too: it may be an alias whose hash raises, or be equal to
    something else."""
    variable = variable.realize(tx)
    if isinstance(variable, ObjectVariable) and variable.value is MISSING:  # what stands for it has no attributes
        raise GraphBreak("cached function of values not known", variable.describe())
    if isinstance(variable, TupleVariable):
        parts = variable.items
    else:
        parts = variable.recipe.parts() if isinstance(variable, born.MadeVariable) else []
    for part in parts:
        _same_again(tx, part)
    if not parts and born.varies(variable) and variable.real() is not MISSING:
        assert variable.source is not None
        tx.know(variable.source, "is", variable.real())


def _of_its_arguments(own: FunctionType) -> bool:
    """Whether a function reads pure built-in functions and `math` alone, and writes nothing but its own variables. One
    that calls itself asks its cache."""
    cells = dict(zip(own.__code__.co_freevars, own.__closure__ or (), strict=True))
    for step in dis.get_instructions(own):
        if step.opname in _WRITES or inspect.iscode(step.argval):
            return False
        if step.opname == "LOAD_GLOBAL":
            value = own.__globals__.get(step.argval, getattr(builtins, step.argval, MISSING))
        elif step.argval in cells:
            value = _contents(cells[step.argval])
        else:
            continue
        if value is not math and value not in PURE:
            return False
    return True


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # empty
        return MISSING


KINDS[_CACHED] = _cached


# --- made in the frame ------------------------------------------------------------------------------------------------
class CachedFunction(Variable):
    """`functools.lru_cache(maxsize, typed)(function)` of the frame. What it remembers is a dict, and how often it did a
    list, that nobody else has: the polyfill that is run in its place keeps both.

    No function tells the real one what to remember. Where the program gets one that was called, a break moves to where
    it was made (`born_at`)."""

    def __init__(self, tx: Translator, function: Variable, args: Args) -> None:
        self.function = function
        self.args = args  # maxsize, typed, and what tells how often it remembered
        self.kept = tx.new_dict([])
        self.counts = tx.new_list([ConstantVariable(0), ConstantVariable(0)])
        self.born_at = tx.anchor()

    def python_type(self) -> type:
        return _CACHED

    def describe(self) -> str:
        return f"cache of {self.function.describe()}"

    def _parts(self) -> Args:
        return [self.function, *self.args, self.kept, self.counts]

    def enter(self, tx: Translator, args: Args, kwargs: Kwargs) -> Frame | None:
        return tx.function(polyfills.cached).enter(tx, [*self._parts(), *args], kwargs)

    def call(self, tx: Translator, args: Args, kwargs: Kwargs) -> Variable:
        return tx.inline(polyfills.cached, [*self._parts(), *args], kwargs)

    def getattr(self, tx: Translator, name: str) -> Variable:
        stored = tx.ledger.pending(self, name)
        if stored is not None and stored is not DELETED:
            return stored
        if name in _OWN:
            return NativeMethod(self, name)
        if name == "__class__":
            return tx.class_of(self)
        if lookup(_CACHED, name) is not MISSING:
            return super().getattr(tx, name)
        return tx.raise_(AttributeError, f"'functools._lru_cache_wrapper' object has no attribute {name!r}")

    def method(self, tx: Translator, name: str, args: Args, kwargs: Kwargs) -> Variable:
        if name in _OWN:
            if args or kwargs:  # wrong, whatever it remembers
                tx.attempt(getattr(functools.cache(len), name), *(None for _ in args), **dict.fromkeys(kwargs))
            return tx.inline(_OWN[name], self._parts(), {})
        return super().method(tx, name, args, kwargs)

    def setattr(self, tx: Translator, name: str, value: Variable) -> None:
        if name in _OWN or is_data_descriptor(lookup(_CACHED, name)):
            super().setattr(tx, name, value)
        tx.ledger.store(self, name, value)

    def reachable(self) -> list[Variable]:
        return self._parts()


#: What it can do itself.
_OWN = {"cache_info": polyfills.cache_info, "cache_clear": polyfills.cache_clear}


@handles(_CACHED)
def _made(tx: Translator, function: Variable, maxsize: Variable, typed: Variable, info: Variable, /) -> Variable:
    if tx.lookup(function.python_type(), "__call__") is MISSING:
        tx.raise_(TypeError, "the first argument must be callable")
    return CachedFunction(tx, function, [maxsize, typed, info])


NATIVE_CONSTRUCTORS[_CACHED] = HANDLERS.get(_CACHED)


def _model(tx: Translator, variable: CachedFunction) -> Any:
    made = _CACHED(*(born.model(tx, part) for part in (variable.function, *variable.args)))
    vars(made).update({name: born.model(tx, value) for name, value in tx.ledger.stores(variable).items()
                       if value is not DELETED})
    return made


born.MODELS[CachedFunction] = _model

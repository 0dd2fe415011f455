"""Rows for what makes iterators: `iter`, `next`, `zip`, ... and `itertools`."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from types import FunctionType, NoneType
from typing import TYPE_CHECKING, Any

from symbolic import polyfills
from symbolic.errors import GraphBreak
from symbolic.variables import iterators
from symbolic.variables.base import MISSING, Variable
from symbolic.variables.constants import ConstantVariable
from symbolic.variables.native import NativeVariable, taken
from symbolic.variables.objects import ObjectVariable
from symbolic.variables.positions import as_index, native_part, stand_in, type_name
from symbolic.variables.tables import class_method, handles, is_tensor, special

if TYPE_CHECKING:
    from symbolic.translator import Translator


def _integer(tx: Translator, value: Variable) -> int:
    return tx.attempt(operator.index, as_index(tx, value))


# --- builtins ---------------------------------------------------------------------------------------------------------


@handles(iter)
def _iter(tx: Translator, value: Variable, sentinel: Variable | None = None, /) -> Variable:
    if sentinel is None:
        return tx.iter(value)
    if tx.lookup(value.python_type(), "__call__") is MISSING:
        tx.attempt(iter, None, None)
    return iterators.CallableIterator(value, sentinel)


@handles(next)
def _next(tx: Translator, iterator: Variable, default: Variable | None = None, /) -> Variable:
    if tx.lookup(iterator.python_type(), "__next__") is MISSING:
        tx.raise_(TypeError, f"{type_name(iterator.python_type())!r} object is not an iterator")
    if default is not None:
        return tx.next(iterator) or default
    item = iterator.iternext(tx)
    return item if item is not None else tx.stop_iteration(ConstantVariable(None))


@handles(enumerate)
def _enumerate(tx: Translator, iterable: Variable, start: Variable | None = None) -> Variable:
    walked, first = tx.iter(iterable), start or ConstantVariable(0)
    if first.python_type() is not int:
        first = ConstantVariable(_integer(tx, first))
    return iterators.EnumerateIterator(walked, first)


@handles(zip)
def _zip(tx: Translator, *iterables: Variable, strict: Variable | None = None) -> Variable:
    return iterators.ZipIterator([tx.iter(each) for each in iterables], strict is not None and tx.truth(strict))


@handles(map)
def _map(tx: Translator, function: Variable, iterable: Variable, /, *more: Variable) -> Variable:
    return iterators.MapIterator(function, [tx.iter(each) for each in (iterable, *more)])


@handles(filter)
def _filter(tx: Translator, function: Variable, iterable: Variable, /) -> Variable:
    return iterators.FilterIterator(function, tx.iter(iterable))


@handles(reversed)
def _reversed(tx: Translator, sequence: Variable, /) -> Variable:
    if (answer := special(tx, sequence, "__reversed__")) is not None:
        return answer
    kind = sequence.python_type()
    asked = [tx.lookup(kind, name) for name in ("__len__", "__getitem__")]
    is_own = MISSING not in asked and any(isinstance(each, FunctionType) for each in asked)
    if is_own and tx.lookup(kind, "__reversed__") is MISSING:
        return _backwards(tx, sequence)
    native = sequence.payload if isinstance(sequence, ObjectVariable) else sequence
    if isinstance(native, NativeVariable):
        if MISSING in asked and tx.lookup(kind, "__reversed__") is MISSING:
            tx.attempt(reversed, stand_in(sequence))
        return native.reversed(tx)
    if isinstance(native, ConstantVariable):
        tx.attempt(reversed, stand_in(sequence))
        if isinstance(native.value, range):
            return tx.constant_iterator(native.value[::-1])
        return iterators.ReversedText(native.value, len(native.value) - 1)
    if is_tensor(sequence):
        return tx.getattr(sequence, "__reversed__").call(tx, [], {})
    if tx.lookup(kind, "__reversed__") is not MISSING:
        raise GraphBreak("operation not supported by the object", f"reversed of {sequence.describe()}")
    if MISSING in asked:
        tx.raise_(TypeError, f"{type_name(kind)!r} object is not reversible")
    return _backwards(tx, sequence)


def _backwards(tx: Translator, sequence: Variable) -> Variable:
    """By its `__len__` and `__getitem__`."""
    made: Any = _standing_in(tx, reversed, polyfills.reversed, [sequence], {})
    made.sequence = sequence
    return made


# --- itertools --------------------------------------------------------------------------------------------------------

#: made of (function, iterable)
_fn: Any
for _fn, _make in (
    (itertools.takewhile, iterators.TakewhileIterator),
    (itertools.dropwhile, iterators.DropwhileIterator),
    (itertools.starmap, iterators.StarmapIterator),
    (itertools.filterfalse, iterators.FilterfalseIterator),
):
    handles(_fn)((lambda make: lambda tx, function, iterable, /: make(function, tx.iter(iterable)))(_make))


@handles(itertools.chain)
def _chain(tx: Translator, *iterables: Variable) -> Variable:
    return iterators.ChainIterator(tx.iter(tx.new_tuple(list(iterables))))


@class_method(itertools.chain, "from_iterable")
def _chain_from(tx: Translator, fn: Any, iterable: Variable, /) -> Variable:
    return iterators.ChainIterator(tx.iter(iterable))


@handles(itertools.count)
def _count(tx: Translator, start: Variable | None = None, step: Variable | None = None) -> Variable:
    first, by = start or ConstantVariable(0), step or ConstantVariable(1)
    for kind in (first.python_type(), by.python_type()):
        if kind is not complex and all(tx.lookup(kind, n) is MISSING for n in ("__index__", "__int__", "__float__")):
            tx.raise_(TypeError, "a number is required")
    if type(first) is ObjectVariable and issubclass(first.cls, int) and by.is_constant() and by.constant() == 1:
        first = native_part(first)  # counted by the interpreter itself
    return iterators.CountIterator(first, by)


@handles(itertools.repeat)
def _repeat(tx: Translator, object: Variable, times: Variable | None = None) -> Variable:
    return iterators.RepeatIterator(object, None if times is None else _integer(tx, times))


@handles(itertools.cycle)
def _cycle(tx: Translator, iterable: Variable, /) -> Variable:
    return iterators.CycleIterator(tx.iter(iterable))


@handles(itertools.islice)
def _islice(tx: Translator, iterable: Variable, /, *bounds: Variable) -> Variable:
    values = [as_index(tx, bound) for bound in bounds]
    tx.attempt(itertools.islice, (), *values)
    wanted = slice(*values)
    return iterators.IsliceIterator(tx.iter(iterable), wanted.start or 0, wanted.stop, wanted.step or 1)


@handles(itertools.accumulate)
def _accumulate(
    tx: Translator, iterable: Variable, func: Variable | None = None, *, initial: Variable | None = None
) -> Variable:
    return iterators.AccumulateIterator(tx.iter(iterable), func, None, initial)


@handles(itertools.pairwise)
def _pairwise(tx: Translator, iterable: Variable, /) -> Variable:
    return iterators.PairwiseIterator(tx.iter(iterable))


@handles(itertools.zip_longest)
def _zip_longest(tx: Translator, *iterables: Variable, fillvalue: Variable | None = None) -> Variable:
    return iterators.ZipLongestIterator([tx.iter(each) for each in iterables], fillvalue or ConstantVariable(None))


@handles(itertools.compress)
def _compress(tx: Translator, data: Variable, selectors: Variable) -> Variable:
    return iterators.CompressIterator(tx.iter(data), tx.iter(selectors))


@handles(itertools.groupby)
def _groupby(tx: Translator, iterable: Variable, key: Variable | None = None) -> Variable:
    return iterators.GroupbyIterator(tx.iter(iterable), key)


@handles(itertools.product)
def _product(tx: Translator, *iterables: Variable, repeat: Variable | None = None) -> Variable:
    times = 1 if repeat is None else _integer(tx, repeat)
    return iterators.combined(tx, itertools.product, list(iterables), repeat=times)


@handles(itertools.permutations)
def _permutations(tx: Translator, iterable: Variable, r: Variable | None = None) -> Variable:
    if r is not None and not issubclass(r.python_type(), int | NoneType):
        tx.attempt(itertools.permutations, taken(tx, iterable), stand_in(r))
    counts = [] if r is None else [as_index(tx, r)]
    return iterators.combined(tx, itertools.permutations, [iterable], *counts)


def _choosing(fn: Any) -> Callable[..., Variable]:
    def handler(tx: Translator, iterable: Variable, r: Variable) -> Variable:
        return iterators.combined(tx, fn, [iterable], _integer(tx, r))

    return handler


for _fn in (itertools.combinations, itertools.combinations_with_replacement):
    handles(_fn)(_choosing(_fn))


def _standing_in(
    tx: Translator, kind: type, function: Any, args: list[Variable], kwargs: dict[str, Variable]
) -> Variable:
    """Generators by which the frame goes through what Python has iterators of its own for, of this kind."""
    born_at = tx.anchor()
    made: Variable = tx.inline(function, args, kwargs)
    generators: list[Any] = tx.unpack(made) if made.python_type() is tuple else [made]
    for each in generators:
        each.stands_for, each.born_at = kind, born_at
    return made


def _stands_for(fn: Any, kind: type, function: Any) -> None:
    handles(fn)(lambda tx, *args, **kwargs: _standing_in(tx, kind, function, list(args), kwargs))


_stands_for(itertools.tee, type(itertools.tee(())[0]), polyfills.tee)
if hasattr(itertools, "batched"):
    _stands_for(itertools.batched, itertools.batched, polyfills.batched)

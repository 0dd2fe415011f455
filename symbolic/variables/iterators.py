"""Iterators of `builtins` and `itertools`, as small classes with their state in the open: a frame that breaks in the
middle of a loop makes the same iterator again from it.

What they iterate and call may be the user's, so it goes through `tx`.
"""

from __future__ import annotations

import itertools
import operator
import sys
from typing import TYPE_CHECKING, Any, ClassVar

from symbolic.errors import GraphBreak, Observed
from symbolic.variables.base import Variable
from symbolic.variables.constants import ConstantVariable
from symbolic.variables.containers import DequeIterator, ReversedIterator, SequenceIterator
from symbolic.variables.mappings import DictIterator
from symbolic.variables.native import IteratorVariable, taken
from symbolic.variables.sets import SetIterator

if TYPE_CHECKING:
    from symbolic.translator import Translator

__all__ = ["DequeIterator", "DictIterator", "ReversedIterator", "SequenceIterator", "SetIterator"]


def _is_none(variable: Variable | None) -> bool:
    return variable is None or (variable.is_constant() and variable.constant() is None)


# --- builtins ---------------------------------------------------------------------------------------------------------
class ConstantIterator(IteratorVariable):
    """iter(range, str or bytes): `index` is where the next element stands, one past the end if that was asked for."""

    STATE = ("value", "index")

    def __init__(self, value: range | str | bytes, index: int = 0) -> None:
        self.value = value
        self.index = index

    def python_type(self) -> type:
        return type(iter(self.value))

    def next(self, tx: Translator) -> Variable | None:
        there_is_one = bool(self.value[self.index : self.index + 1])  # a range may be longer than `len` can say
        self.index = self.index + 1 if there_is_one else len(self.value) + 1
        return tx.from_constant(self.value[self.index - 1]) if there_is_one else None


class ReversedText(IteratorVariable):
    """reversed(str or bytes), at `index`; `value` is None when it is exhausted."""

    STATE = ("value", "index")
    KIND = reversed

    def __init__(self, value: str | bytes | None, index: int) -> None:
        self.value = value
        self.index = index

    def next(self, tx: Translator) -> Variable | None:
        if self.value is None or self.index < 0:
            self.value = None
            return None
        self.index -= 1
        return tx.from_constant(self.value[self.index + 1])


class ZipIterator(IteratorVariable):
    """zip(*iterators, strict=strict)"""

    STATE = ("iterators", "strict")
    KIND = zip

    def __init__(self, iterators: list[Variable], strict: bool = False) -> None:
        self.iterators = iterators
        self.strict = strict

    def next(self, tx: Translator) -> Variable | None:
        items = []
        for position, iterator in enumerate(self.iterators):
            item = tx.next(iterator) if self.strict else iterator.iternext(tx)
            if item is None:
                if self.strict:
                    self._check(tx, position)
                return None
            items.append(item)
        return tx.new_tuple(items) if items else None

    def _check(self, tx: Translator, ended: int) -> None:
        """With `strict`, all have to end in the same round."""
        if ended:
            others = "argument 1" if ended == 1 else f"arguments 1-{ended}"
            tx.raise_(ValueError, f"zip() argument {ended + 1} is shorter than {others}")
        for position, iterator in enumerate(self.iterators[1:], 1):
            if tx.next(iterator) is not None:
                others = "argument 1" if position == 1 else f"arguments 1-{position}"
                tx.raise_(ValueError, f"zip() argument {position + 1} is longer than {others}")


class EnumerateIterator(IteratorVariable):
    """enumerate(iterator, count)"""

    STATE = ("source_iterator", "count")
    KIND = enumerate

    def __init__(self, iterator: Variable, count: Variable) -> None:
        self.source_iterator = iterator
        self.count = count

    def next(self, tx: Translator) -> Variable | None:
        item = self.source_iterator.iternext(tx)
        if item is None:
            return None
        count = self.count
        self.count = tx.binary(operator.add, count, ConstantVariable(1))
        return tx.new_tuple([count, item])


class MapIterator(IteratorVariable):
    """map(function, *iterators)"""

    STATE = ("function", "iterators")
    KIND = map

    def __init__(self, function: Variable, iterators: list[Variable]) -> None:
        self.function = function
        self.iterators = iterators

    def next(self, tx: Translator) -> Variable | None:
        items = []
        for iterator in self.iterators:
            item = iterator.iternext(tx)
            if item is None:
                return None
            items.append(item)
        return tx.call(self.function, items, {})


class FilterIterator(IteratorVariable):
    """filter(function, iterator): the items whose answer is KEEPS; a function of None asks the item itself."""

    STATE = ("function", "source_iterator")
    KEEPS: ClassVar[bool] = True
    KIND: ClassVar[type] = filter

    def __init__(self, function: Variable | None, iterator: Variable) -> None:
        self.function = function
        self.source_iterator = iterator

    def next(self, tx: Translator) -> Variable | None:
        while (item := self.source_iterator.iternext(tx)) is not None:
            answer = item if _is_none(self.function) else tx.call(self.function, [item], {})  # type: ignore[arg-type]
            if tx.truth(answer) is self.KEEPS:
                return item
        return None


class CallableIterator(IteratorVariable):
    """iter(function, sentinel); `function` is None when it is exhausted."""

    STATE = ("function", "sentinel")
    KIND = type(iter(int, 1))

    def __init__(self, function: Variable | None, sentinel: Variable) -> None:
        self.function = function
        self.sentinel = sentinel

    def next(self, tx: Translator) -> Variable | None:
        if self.function is None:
            return None
        try:
            result = tx.call(self.function, [], {})
        except Observed as raised:
            if not issubclass(raised.variable.python_type(), StopIteration):
                raise
            self.function = None
            return None
        if self.function is None:  # the call went through the iterator itself
            return None
        if tx.equal(self.sentinel, result):
            self.function = None
            return None
        return result


class _Items:
    def __getitem__(self, index: int) -> Any:
        raise IndexError(index)


class GetitemIterator(IteratorVariable):
    """iter(sequence) of an object that has only `__getitem__`; `sequence` is None when it is exhausted."""

    STATE = ("sequence", "index")
    KIND = type(iter(_Items()))

    def __init__(self, sequence: Variable | None, index: int = 0) -> None:
        self.sequence = sequence
        self.index = index

    @property
    def sized(self) -> Variable | None:
        return self.sequence

    def next(self, tx: Translator) -> Variable | None:
        if self.sequence is None:
            return None
        if self.index == sys.maxsize:
            tx.raise_(OverflowError, "iter index too large")
        try:
            item = self.sequence.getitem(tx, tx.from_constant(self.index))
        except Observed as raised:
            if not issubclass(raised.variable.python_type(), (IndexError, StopIteration)):
                raise
            self.sequence = None
            return None
        self.index += 1
        return item


# --- itertools --------------------------------------------------------------------------------------------------------
class FilterfalseIterator(FilterIterator):
    """itertools.filterfalse(function, iterator)"""

    KEEPS = False
    KIND: ClassVar[type] = itertools.filterfalse


class ChainIterator(IteratorVariable):
    """itertools.chain: over the iterables that `iterables` (an iterator) gives, `active` is the iterator of the current
    one. `iterables` is None when it is exhausted."""

    STATE = ("iterables", "active")
    KIND = itertools.chain

    def __init__(self, iterables: Variable | None, active: Variable | None = None) -> None:
        self.iterables = iterables
        self.active = active

    def next(self, tx: Translator) -> Variable | None:
        while self.iterables is not None:
            if self.active is None:
                iterable = tx.next(self.iterables)
                if iterable is None:
                    self.iterables = None
                    return None
                try:
                    self.active = self.begin(tx, iterable)
                except Observed:
                    self.iterables = None
                    raise
            item = tx.next(self.active)
            if item is not None:
                return item
            self.active = None
        return None

    def begin(self, tx: Translator, iterable: Variable) -> Variable:
        return tx.iter(iterable)


class CountIterator(IteratorVariable):
    """itertools.count(value, step)"""

    STATE = ("value", "step")
    KIND = itertools.count

    def __init__(self, value: Variable, step: Variable) -> None:
        self.value = value
        self.step = step

    def next(self, tx: Translator) -> Variable | None:
        value = self.value
        self.value = tx.binary(operator.add, value, self.step)
        return value


class RepeatIterator(IteratorVariable):
    """itertools.repeat(element, times); `times` is None for ever."""

    STATE = ("element", "times")
    KIND = itertools.repeat

    def __init__(self, element: Variable, times: int | None = None) -> None:
        self.element = element
        self.times = times if times is None else max(times, 0)

    def next(self, tx: Translator) -> Variable | None:
        if self.times is not None:
            if self.times == 0:
                return None
            self.times -= 1
        return self.element


class CycleIterator(IteratorVariable):
    """itertools.cycle(iterator): `saved` are the items seen, `index` the next of them once `source_iterator` (then
    None) has ended."""

    STATE = ("source_iterator", "saved", "index")
    KIND = itertools.cycle

    def __init__(self, iterator: Variable | None, saved: list[Variable] | None = None, index: int = 0) -> None:
        self.source_iterator = iterator
        self.saved = saved if saved is not None else []
        self.index = index

    def next(self, tx: Translator) -> Variable | None:
        if self.source_iterator is not None:
            item = tx.next(self.source_iterator)
            if item is not None:
                self.saved.append(item)
                return item
            self.source_iterator = None
        if not self.saved:
            return None
        item = self.saved[self.index]
        self.index = (self.index + 1) % len(self.saved)
        return item


class IsliceIterator(IteratorVariable):
    """itertools.islice(iterator, wanted, stop, step), of which `position` items are taken; `wanted` is the position of
    the next item to give. `source_iterator` is None when it is exhausted."""

    STATE = ("source_iterator", "wanted", "stop", "step", "position")
    KIND = itertools.islice

    def __init__(
        self, iterator: Variable | None, wanted: int = 0, stop: int | None = None, step: int = 1, position: int = 0
    ) -> None:
        self.source_iterator = iterator
        self.wanted = wanted
        self.stop = stop
        self.step = step
        self.position = position

    def next(self, tx: Translator) -> Variable | None:
        if self.source_iterator is None:
            return None
        item = None
        while self.position <= self.wanted:
            if self.position == self.wanted and self.stop is not None and self.position >= self.stop:
                item = None
                break
            try:
                item = self.source_iterator.iternext(tx)
            except Observed:
                self.source_iterator = None
                raise
            if item is None:
                break
            self.position += 1
        if item is None:
            self.source_iterator = None
            return None
        self.wanted += self.step
        if self.stop is not None:
            self.wanted = min(self.wanted, self.stop)
        return item


class AccumulateIterator(IteratorVariable):
    """itertools.accumulate(iterator, function): `total` so far, `initial` while it is still to be given."""

    STATE = ("source_iterator", "function", "total", "initial")
    KIND = itertools.accumulate

    def __init__(
        self,
        iterator: Variable,
        function: Variable | None = None,
        total: Variable | None = None,
        initial: Variable | None = None,
    ) -> None:
        self.source_iterator = iterator
        self.function = function
        self.total = total
        self.initial = None if _is_none(initial) else initial

    def next(self, tx: Translator) -> Variable | None:
        if self.initial is not None:
            self.total, self.initial = self.initial, None
            return self.total
        item = self.source_iterator.iternext(tx)
        if item is None:
            return None
        if self.total is None:
            self.total = item
        elif _is_none(self.function):
            self.total = tx.binary(operator.add, self.total, item)
        else:
            self.total = tx.call(self.function, [self.total, item], {})  # type: ignore[arg-type]
        return self.total


class TakewhileIterator(IteratorVariable):
    """itertools.takewhile(function, iterator)"""

    STATE = ("function", "source_iterator", "stopped")
    KIND = itertools.takewhile

    def __init__(self, function: Variable, iterator: Variable, stopped: bool = False) -> None:
        self.function = function
        self.source_iterator = iterator
        self.stopped = stopped

    def next(self, tx: Translator) -> Variable | None:
        if self.stopped:
            return None
        item = self.source_iterator.iternext(tx)
        if item is None:
            return None
        if tx.truth(tx.call(self.function, [item], {})):
            return item
        self.stopped = True
        return None


class DropwhileIterator(IteratorVariable):
    """itertools.dropwhile(function, iterator)"""

    STATE = ("function", "source_iterator", "started")
    KIND = itertools.dropwhile

    def __init__(self, function: Variable, iterator: Variable, started: bool = False) -> None:
        self.function = function
        self.source_iterator = iterator
        self.started = started

    def next(self, tx: Translator) -> Variable | None:
        while (item := self.source_iterator.iternext(tx)) is not None:
            if self.started or not tx.truth(tx.call(self.function, [item], {})):
                self.started = True
                return item
        return None


class StarmapIterator(IteratorVariable):
    """itertools.starmap(function, iterator)"""

    STATE = ("function", "source_iterator")
    KIND = itertools.starmap

    def __init__(self, function: Variable, iterator: Variable) -> None:
        self.function = function
        self.source_iterator = iterator

    def next(self, tx: Translator) -> Variable | None:
        args = self.source_iterator.iternext(tx)
        return tx.call(self.function, tx.unpack(args), {}) if args is not None else None


class PairwiseIterator(IteratorVariable):
    """itertools.pairwise(iterator): `previous` is the item before, `source_iterator` None when it is exhausted."""

    STATE = ("source_iterator", "previous")
    KIND = itertools.pairwise

    def __init__(self, iterator: Variable | None, previous: Variable | None = None) -> None:
        self.source_iterator = iterator
        self.previous = previous

    def next(self, tx: Translator) -> Variable | None:
        iterator, previous = self.source_iterator, self.previous
        if iterator is None:
            return None
        following = None
        try:
            if previous is None:
                previous = self.previous = iterator.iternext(tx)
            if previous is not None and self.source_iterator is not None:  # nor has it been asked by that
                following = iterator.iternext(tx)
        except Observed:
            self.source_iterator = self.previous = None
            raise
        if following is None or previous is None:
            self.source_iterator = self.previous = None
            return None
        self.previous = following
        return tx.new_tuple([previous, following])


class ZipLongestIterator(IteratorVariable):
    """itertools.zip_longest(*iterators, fillvalue=fill); an iterator that has ended is None."""

    STATE = ("iterators", "fill")
    KIND = itertools.zip_longest

    def __init__(self, iterators: list[Variable | None], fill: Variable) -> None:
        self.iterators = iterators
        self.fill = fill

    def next(self, tx: Translator) -> Variable | None:
        items = []
        for position, iterator in enumerate(self.iterators):
            item = tx.next(iterator) if iterator is not None else None
            if iterator is not None and item is None:
                self.iterators[position] = None
                if not any(self.iterators):
                    return None
            items.append(item if item is not None else self.fill)
        return tx.new_tuple(items) if any(self.iterators) else None


class CompressIterator(IteratorVariable):
    """itertools.compress(data, selectors), both iterators"""

    STATE = ("data", "selectors")
    KIND = itertools.compress

    def __init__(self, data: Variable, selectors: Variable) -> None:
        self.data = data
        self.selectors = selectors

    def next(self, tx: Translator) -> Variable | None:
        while (item := self.data.iternext(tx)) is not None:
            selector = self.selectors.iternext(tx)
            if selector is None:
                return None
            if tx.truth(selector):
                return item
        return None


class GroupbyIterator(IteratorVariable):
    """itertools.groupby(iterator, key): the item read last is `value` with key `current`; `target` is the key of the
    group given last, `group` its iterator while it may still read on."""

    STATE = ("source_iterator", "function", "current", "value", "target")
    KIND = itertools.groupby

    def __init__(
        self,
        iterator: Variable,
        function: Variable | None = None,
        current: Variable | None = None,
        value: Variable | None = None,
        target: Variable | None = None,
        group: GroupIterator | None = None,
    ) -> None:
        self.source_iterator = iterator
        self.function = function
        self.current = current
        self.value = value
        self.target = target
        self.group = group

    def advance(self, tx: Translator) -> bool:
        """Reads the next item and its key."""
        value = tx.next(self.source_iterator)
        if value is None:
            return False
        key = value if _is_none(self.function) else tx.call(self.function, [value], {})  # type: ignore[arg-type]
        self.value, self.current = value, key
        return True

    def next(self, tx: Translator) -> Variable | None:
        self.group = None
        # What a group has given is not compared again.
        while self.value is None or self.current is None or (self.target and tx.equal(self.target, self.current)):
            if not self.advance(tx):
                return None
        self.target = self.current
        self.group = GroupIterator(self, self.current)
        return tx.new_tuple([self.current, self.group])


class GroupIterator(IteratorVariable):
    """The items of one group of `parent`, those with key `target`."""

    STATE = ("parent", "target")
    KIND = type(next(itertools.groupby("a"))[1])

    def __init__(self, parent: GroupbyIterator, target: Variable) -> None:
        self.parent = parent
        self.target = target

    def next(self, tx: Translator) -> Variable | None:
        parent = self.parent
        if parent.group is not self or (parent.value is None and not parent.advance(tx)):
            return None
        assert parent.current is not None
        if not tx.equal(self.target, parent.current):
            return None
        value, parent.value = parent.value, None
        return value


class CombinedIterator(IteratorVariable):
    """product, permutations or combinations, `function`, of the elements of some iterables, which it looks at first; it
    stands at `index` of its results."""

    STATE = ("function", "pools", "counts", "options", "index")

    def __init__(
        self, function: Any, pools: list[Variable], counts: tuple[Any, ...], options: tuple[Any, ...], index: int,
        results: list[Any],
    ) -> None:  # fmt: skip
        self.function = function
        self.pools = pools
        self.counts = counts
        self.options = options
        self.index = index
        self.results = results

    def python_type(self) -> type:
        kind: type = self.function
        return kind

    def next(self, tx: Translator) -> Variable | None:
        if self.index >= len(self.results):
            return None
        self.index += 1
        return tx.new_tuple(list(self.results[self.index - 1]))


def combined(tx: Translator, function: Any, iterables: list[Variable], *counts: Any, **options: Any) -> Variable:
    """`function(*iterables, *counts, **options)` of itertools, which looks at all its input first."""
    pools = [taken(tx, iterable) for iterable in iterables]
    found = tx.attempt(_tuples, function, pools, counts, options, tx.options.unroll_limit)
    return CombinedIterator(function, [tx.new_tuple(pool) for pool in pools], counts, tuple(options.items()), 0, found)


def _tuples(function: Any, pools: list[list[Variable]], counts: Any, options: Any, limit: int) -> list[Any]:
    results = list(itertools.islice(function(*pools, *counts, **options), limit + 1))
    if len(results) > limit:
        raise GraphBreak("loop too long to unroll", function.__name__)
    return results

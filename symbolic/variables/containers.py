"""The sequences: lists, tuples and deques, and the iterators over them.

What a sequence does with positions (insertion, slices, rotation, their errors) is Python's own code, run now on a list
of variables; what it does with values (comparing, calling, iterating something else) goes through `tx`.
"""

from __future__ import annotations

import inspect
import operator
import sys
from array import array
from collections import deque, namedtuple
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from itertools import zip_longest
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, SupportsIndex

import torch

from symbolic import versions
from symbolic.errors import GraphBreak
from symbolic.sources import Source
from symbolic.variables.base import BINARY, MISSING, Variable, raw_attributes
from symbolic.variables.computed import pick
from symbolic.variables.constants import ConstantVariable
from symbolic.variables.native import (
    ORDERINGS,
    IteratorVariable,
    Method,
    NativeVariable,
    begun,
    each,
    each_of_some,
    taken,
)
from symbolic.variables.positions import answers, as_index, has, native_part, stand_in, type_name
from symbolic.variables.unread import Veiled

if TYPE_CHECKING:
    from symbolic.translator import Translator

__all__ = ["NativeVariable", "as_index"]  # and what is defined here

#: A repetition that makes a longer sequence than this is left to the running program.
MAX_LENGTH = 1 << 20


# --- sequences --------------------------------------------------------------------------------------------------------
def positional(name: str, kinds: str) -> Callable[..., Variable | None]:
    """A method that is Python's own, run on the variables; `kinds` says what its arguments are: v(alue), i(ndex)."""

    def run(self: SequenceVariable, tx: Translator, *args: Variable, **kwargs: Variable) -> Variable | None:
        if kwargs or len(args) > len(kinds):
            self.misuse(tx, getattr(self.blank(), name), *args, **kwargs)  # nothing is asked of them
        given = [as_index(tx, a) if kind == "i" else a for a, kind in zip_longest(args, kinds) if a is not None]
        tx.ledger.keep(self)
        with_contents = self.model()
        result = tx.attempt(getattr(with_contents, name), *given)
        self.replace(tx, with_contents)
        return result

    return run


class _Unknown:
    """Stands in an error message for an object that is not known."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


class SequenceVariable(NativeVariable):
    """A list, tuple or deque: `items` are its elements, `cls` its exact type."""

    NATIVE: ClassVar[type]

    def __init__(self, items: list[Variable], source: Source | None, cls: type, value: Any = MISSING) -> None:
        self.items = items
        self.source = source
        self.cls = cls
        self.value = value

    def native(self) -> type:
        return self.NATIVE

    def model(self) -> Any:
        """The elements in a container of the built-in type, to run Python's own code on."""
        return self.items

    def replace(self, tx: Translator, items: Iterable[Variable]) -> None:
        """These are the elements now. (They may be in place already: then the ledger has kept what was there.)"""
        tx.ledger.keep(self)
        self.items = items if isinstance(items, list) else list(items)
        tx.ledger.touch(self)

    def born(self, tx: Translator, items: Iterable[Variable]) -> Variable:
        """A new sequence of the built-in type, as slices and sums are."""
        raise NotImplementedError

    def reachable(self) -> list[Variable]:
        return list(self.items)

    def length(self, tx: Translator) -> int:
        return len(self.items)

    def item(self, tx: Translator, index: int) -> Variable:
        """The element at `index`, which there is."""
        return self.items[index]

    def varies(self) -> bool:
        return any(item.varies() for item in self.items)

    def truth(self, tx: Translator) -> bool:
        return bool(self.items)

    def iterator(self, tx: Translator) -> Variable:
        return SequenceIterator(self, 0)

    def reversed(self, tx: Translator) -> Variable:
        return ReversedIterator(self, len(self.items) - 1)

    def unpack(self, tx: Translator) -> list[Variable]:
        return list(self.items)

    def contains(self, tx: Translator, item: Variable) -> bool:
        return any(same for _, same in self.compared(tx, item))

    def compared(
        self, tx: Translator, value: Variable, first: int = 0, last: int = sys.maxsize
    ) -> Iterator[tuple[int, bool]]:
        """Each place with whether what is there equals the value. (The user's code that says so may change that.)"""
        position = first
        while position < min(last, len(self.items)):
            yield position, tx.equal(self.items[position], value)
            position += 1

    def getitem(self, tx: Translator, index: Variable) -> Variable:
        at = as_index(tx, index)
        if isinstance(at, int) and -len(self.items) <= at < len(self.items):
            return self.items[at]
        return self.result(tx, self.model(), lambda contents: contents[at])

    def result(self, tx: Translator, contents: Any, operation: Callable[[Any], Any]) -> Variable:
        """What `operation` makes of the contents, which may be the sequence itself: `t[:]`, `t * 1`."""
        made = tx.attempt(operation, contents)
        is_itself = made is contents and self.cls is tuple and self.whole is self
        return self if is_itself else self.born(tx, made)

    def do_index(
        self, tx: Translator, value: Variable, start: Variable | None = None, stop: Variable | None = None, /
    ) -> Variable:
        bounds = [as_index(tx, bound) for bound in (start, stop) if bound is not None]
        checked = tx.attempt(_bounds, self.NATIVE, *bounds)
        first, last = slice(*checked).indices(len(self.items))[:2]
        for position, same in self.compared(tx, value, first, last):
            if same:
                return tx.from_constant(position)
        self.not_found(tx, "index", value)

    def do_count(self, tx: Translator, value: Variable, /) -> Variable:
        return tx.from_constant(sum(same for _, same in self.compared(tx, value)))

    def not_found(self, tx: Translator, name: str, value: Variable) -> NoReturn:
        """The ValueError of `name`, which may print the value."""
        try:
            getattr(self.NATIVE(), name)(None)
        except ValueError as error:
            prints = "None" in str(error)
        if prints and not value.is_constant():
            text = tx.call(tx.wrap(repr, tx.sources.const(repr, "repr")), [value], {})
            self.misuse(tx, getattr(self.NATIVE(), name), _Unknown(text.constant()))
        self.misuse(tx, getattr(self.NATIVE(), name), value.constant() if value.is_constant() else None)

    # operators
    def binary(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        if op in ORDERINGS:
            theirs = native_part(other)
            return self.compare(tx, op, theirs) if self.is_kin(theirs) else None
        return None if answers(other, BINARY[op][1]) else self.as_sequence(tx, op, other)

    def rbinary(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        return self.repeated(tx, other) if op is operator.mul and not isinstance(other, SequenceVariable) else None

    def as_sequence(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        rule = self.OPERATORS.get(op)
        return rule(self, tx, other) if rule is not None else None

    def is_kin(self, other: Variable) -> bool:
        return isinstance(other, SequenceVariable) and other.NATIVE is self.NATIVE

    def compare(self, tx: Translator, op: Any, other: Any) -> Variable:
        if op in (operator.eq, operator.ne) and self.NATIVE is not tuple and len(self.items) != len(other.items):
            return tx.from_constant(op is operator.ne)
        position = 0
        # Not zip: comparing may run user code that changes the sequences.
        while position < min(len(self.items), len(other.items)):
            mine, theirs = self.items[position], other.items[position]
            if not tx.equal(mine, theirs):
                if self.NATIVE is list and position >= min(len(self.items), len(other.items)):
                    break  # they were made shorter meanwhile
                if op in (operator.eq, operator.ne):
                    return tx.from_constant(op is operator.ne)
                return tx.binary(op, mine, theirs)
            position += 1
        return tx.from_constant(op(len(self.items), len(other.items)))

    def concatenated(self, tx: Translator, other: Variable) -> Variable | None:
        theirs = native_part(other)
        if self.is_kin(theirs):
            added = theirs.model()  # type: ignore[attr-defined]
            return self.result(tx, self.model(), lambda contents: contents + added)
        self.misuse(tx, operator.add, self.blank(), stand_in(other))

    def repeated(self, tx: Translator, other: Variable) -> Variable:
        times = as_index(tx, other)
        if isinstance(times, int) and times * len(self.items) > MAX_LENGTH:
            raise GraphBreak("very long sequence", f"{len(self.items)} elements, {times} times")
        return self.result(tx, self.model(), lambda contents: contents * times)

    OPERATORS: ClassVar[dict[Any, Callable[..., Variable | None]]] = {
        operator.add: concatenated,
        operator.mul: repeated,
    }


def _bounds(kind: type, *bounds: Any) -> tuple[Any, ...]:
    """The bounds of `index`, if they can be such."""
    try:
        kind().index(None, *bounds)
    except ValueError:
        pass
    return (*bounds, None) if len(bounds) == 1 else bounds or (None, None)


_append = positional("append", "v")


class MutableSequence(SequenceVariable):
    """What lists and deques have in common. An existing one is read when its elements are asked for: appended to only,
    it may come in with any contents."""

    HOLDS = ("_items",)
    _items: list[Variable] | None = None
    unread: Callable[[], list[Variable]] | None = None  # gives the elements of one that was not read so far
    added: tuple[Variable, ...] = ()  # appended to it meanwhile
    was: Any = None  # the object itself, of an existing one

    @property
    def items(self) -> list[Variable]:
        if self.unread is not None:
            read, self.unread, self._items = self.unread, None, []
            self._items = self.kept([*read(), *self.added])
        assert self._items is not None
        return self._items

    @items.setter
    def items(self, items: list[Variable]) -> None:
        self.unread, self._items = None, items

    def kept(self, items: list[Variable]) -> list[Variable]:
        """What a sequence of this kind keeps of so many elements."""
        return items

    def reachable(self) -> list[Variable]:
        return list(self.added) if self.unread is not None else list(self.items)

    def appended(self, before: MutableSequence | None) -> tuple[Variable, ...] | None:
        """What was appended to the sequence as it was `before` (None: before the frame); None if that is not all."""
        if self.unread is not None:
            return self.added[len(before.added) if before is not None else 0 :]
        if before is None or before.unread is not None:
            return None
        count = len(before.items)
        return tuple(self.items[count:]) if self.items[:count] == before.items else None

    def takes(self, before: MutableSequence | None = None) -> str:
        appended = self.appended(before)
        if appended is not None:
            return f"{self}.extend([{', '.join(map(str, appended))}])"
        elements = f"[{', '.join(map(str, self.items))}]"
        return f"{self}[:] = {elements}" if self.NATIVE is list else f"{self}.clear(); {self}.extend({elements})"

    def do_append(self, tx: Translator, value: Variable, /) -> Variable | None:
        if self.unread is None:
            return _append(self, tx, value)
        tx.ledger.keep(self)
        self.added += (value,)
        tx.ledger.touch(self)
        return None

    def setitem(self, tx: Translator, index: Variable, value: Variable) -> None:
        at = as_index(tx, index)
        new: Any = value
        if isinstance(at, slice) and self.NATIVE is list:
            given = self if native_part(value) is self else value  # a list does not ask itself
            elements = given if given.python_type() in (list, tuple) else begun(tx, given)
            new = taken(tx, elements) if elements is not None else None
        tx.ledger.keep(self)
        contents = self.model()
        tx.attempt(operator.setitem, contents, at, new)
        self.replace(tx, contents)

    def delitem(self, tx: Translator, index: Variable) -> None:
        tx.ledger.keep(self)
        contents = self.model()
        tx.attempt(operator.delitem, contents, as_index(tx, index))
        self.replace(tx, contents)

    def extend(self, tx: Translator, iterable: Variable) -> None:
        # Sequences are read at once (one may be extended by itself), other iterables feed their elements one by one.
        feed = each_of_some if self.NATIVE is list else each
        items = iterable.unpack(tx) if isinstance(iterable, SequenceVariable) else feed(tx, iterable)
        for item in items:
            self.METHODS["append"].run(self, tx, item)

    def inplace(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        own = {operator.iadd: self.do___iadd__, operator.imul: self.do___imul__}.get(op)
        return None if own is None or self.asks_first(op, other) else own(tx, other)

    def do___iadd__(self, tx: Translator, other: Variable, /) -> Variable:
        self.extend(tx, other)
        return self

    def do___imul__(self, tx: Translator, other: Variable, /) -> Variable:
        repeated = tx.unpack(SequenceVariable.repeated(self, tx, other))
        if len(repeated) != len(self.items):  # else iterators over a deque do not notice
            self.replace(tx, repeated)
        return self

    def do___init__(self, tx: Translator, iterable: Variable | None = None, /) -> None:
        self.replace(tx, [])
        if iterable is not None:
            self.extend(tx, iterable)

    def do_extend(self, tx: Translator, iterable: Variable, /) -> None:
        self.extend(tx, iterable)

    def do_remove(self, tx: Translator, value: Variable, /) -> None:
        for position, same in self.compared(tx, value):
            if same:
                return self.drop(tx, position)
        self.not_found(tx, "remove", value)

    def drop(self, tx: Translator, position: int) -> None:
        tx.ledger.keep(self)
        self.replace(tx, [*self.items[:position], *self.items[position + 1 :]])

    do_insert = positional("insert", "iv")
    do_pop = positional("pop", "i")
    do_clear = positional("clear", "")
    do_reverse = positional("reverse", "")


class ListVariable(Veiled, MutableSequence):
    """A list. Reconstruction reads `items` and `cls`; for an existing one (`source`) that the ledger has as touched,
    the new contents are `items`."""

    NATIVE = list

    def __init__(
        self, items: list[Variable], source: Source | None = None, cls: type = list, value: Any = MISSING
    ) -> None:
        super().__init__(items, source, cls, value)

    def born(self, tx: Translator, items: Iterable[Variable]) -> Variable:
        return tx.new_list(list(items))

    def getitem(self, tx: Translator, index: Variable) -> Variable:
        return pick(tx, self, self.was, index) or super().getitem(tx, index)

    def do_copy(self, tx: Translator, /) -> Variable:
        return tx.new_list(list(self.items))

    def do_sort(self, tx: Translator, /, *, key: Variable | None = None, reverse: Variable | None = None) -> None:
        backwards = _is_backwards(tx, reverse) if reverse is not None else False
        done = len(tx.ledger.written)
        tx.ledger.keep(self)
        items, self.items = self.items, _Emptied()  # as in CPython, the list is empty while it is sorted
        tx.ledger.touch(self)
        try:
            if key is None or (key.is_constant() and key.constant() is None):
                ranked = [_Ranked(tx, item, item) for item in items]
            else:
                ranked = [_Ranked(tx, tx.call(key, [item], {}), item) for item in items]
            try:
                ranked.sort(key=_by_values(ranked), reverse=backwards)
            finally:
                items = [entry.item for entry in ranked]
        finally:
            modified, self.items = bool(self.items) or getattr(self.items, "was_filled", False), items
        if None in tx.ledger.written[done:]:  # if it raises, the list is to have its elements again
            raise GraphBreak("effect while a list is sorted", self.describe())
        if modified:
            tx.raise_(ValueError, "list modified during sort")


class _Emptied(list[Variable]):
    """What a list holds while it is sorted: CPython sees whether there was anything, though it is gone again."""

    was_filled = False

    def append(self, item: Variable, /) -> None:
        self.was_filled = True
        super().append(item)

    def insert(self, position: SupportsIndex, item: Variable, /) -> None:
        self.was_filled = True
        super().insert(position, item)


def _is_backwards(tx: Translator, reverse: Variable) -> bool:
    if not versions.REVERSE_IS_AN_INT:
        return tx.truth(reverse)
    number = as_index(tx, reverse)
    tx.attempt([].sort, reverse=number)
    return bool(number)


class _Ranked:
    """An element while its list is sorted by Python's own sort: the order of comparisons is the program's."""

    __slots__ = ("tx", "rank", "item")

    def __init__(self, tx: Translator, rank: Variable, item: Variable) -> None:
        self.tx = tx
        self.rank = rank
        self.item = item

    def __lt__(self, other: _Ranked) -> bool:
        return self.tx.truth(self.tx.binary(operator.lt, self.rank, other.rank))


def _by_values(ranked: list[_Ranked]) -> Callable[[_Ranked], Any] | None:
    """What sorts elements that are all ints, or texts, or tuples of them alike, by the values themselves: thousands of
    comparisons, each in variables, would take seconds."""
    found = {id(entry): _value_and_kinds(entry.rank) for entry in ranked}
    is_plain = None not in found.values() and len({kinds for _, kinds in found.values() if kinds}) == 1  # type: ignore
    return (lambda entry: found[id(entry)][0]) if is_plain else None  # type: ignore[index]


def _value_and_kinds(variable: Variable) -> tuple[Any, Any] | None:
    """A value that compares without asking anybody, and the types in it; None of other values."""
    if type(variable) is ConstantVariable:
        return (variable.value, type(variable.value)) if type(variable.value) in (int, str) else None
    parts = [_value_and_kinds(item) for item in variable.items] if type(variable) is TupleVariable else []
    if not parts or None in parts or variable.python_type() is not tuple:
        return None
    values, kinds = zip(*parts, strict=True)
    return values, kinds


class DequeVariable(MutableSequence):
    """A deque of at most `maxlen` elements (None: any number). `state` counts mutations, for the iterators over it.

    Reconstruction reads `items`, `maxlen` and `cls`, as for lists."""

    NATIVE = deque

    def __init__(
        self,
        items: list[Variable],
        maxlen: int | None = None,
        source: Source | None = None,
        cls: type = deque,
        value: Any = MISSING,
    ) -> None:
        super().__init__(items, source, cls, value)
        self.maxlen = maxlen
        self.state = 0
        self.is_bound_anew = False  # with another `maxlen` than it came with
        self.owner: Any = None  # the ObjectVariable whose native part this is

    def model(self) -> Any:
        return deque(self.items, self.maxlen)

    def takes(self, before: MutableSequence | None = None) -> str:
        if self.is_bound_anew:
            return f"{self}.__init__([{', '.join(map(str, self.items))}], {self.maxlen})"
        if self.only_set(before):
            return "; ".join(f"{self}[{at}] = {item}" for at, item in enumerate(self.items))
        return super().takes(before)

    def only_set(self, before: Any) -> bool:
        """Whether its elements were replaced in place since then (None: before the frame), or put the other way round:
        iterators over it go on."""
        return self.unread is None and self.state == (before.state if before is not None else 0)

    def kept(self, items: list[Variable]) -> list[Variable]:
        return list(deque(items, self.maxlen))

    def replace(self, tx: Translator, items: Iterable[Variable]) -> None:
        super().replace(tx, items)
        self.state += 1

    def born(self, tx: Translator, items: Iterable[Variable]) -> Variable:
        return DequeVariable(list(items), self.maxlen)

    def getitem(self, tx: Translator, index: Variable) -> Variable:
        at = self._position(tx, index)
        if isinstance(at, int) and -len(self.items) <= at < len(self.items):
            return self.items[at]
        return tx.attempt(operator.getitem, self.model(), at)

    def delitem(self, tx: Translator, index: Variable) -> None:
        super().delitem(tx, tx.from_constant(self._position(tx, index)))

    def _position(self, tx: Translator, index: Variable) -> Any:
        """An index. Python asks the class for the length that is added to a negative one."""
        at = as_index(tx, index)
        if not isinstance(at, int) or at >= 0 or not self._is_own(tx, "__len__"):
            return at
        at += self.owner.length(tx)
        return at if at >= 0 else len(self.items)

    def _is_own(self, tx: Translator, name: str) -> bool:
        """Whether the user's class has a method of its own where Python asks for it."""
        return self.owner is not None and tx.lookup(self.owner.cls, name) is not getattr(deque, name)

    def compared(
        self, tx: Translator, value: Variable, first: int = 0, last: int = sys.maxsize
    ) -> Iterator[tuple[int, bool]]:
        before = self.state
        for place in super().compared(tx, value, first, last):
            yield place
            if self.state != before:
                tx.raise_(RuntimeError, "deque mutated during iteration")

    def do_remove(self, tx: Translator, value: Variable, /) -> None:
        before = self.state
        for position, same in super().compared(tx, value):
            if self.state != before:
                tx.raise_(IndexError, "deque mutated during iteration")
            if same:
                return self.drop(tx, position)
        self.not_found(tx, "remove", value)

    def setitem(self, tx: Translator, index: Variable, value: Variable) -> None:
        before = self.state
        super().setitem(tx, tx.from_constant(self._position(tx, index)), value)
        self.state = before

    def compare(self, tx: Translator, op: Any, other: Any) -> Variable:
        if self is other and op in (operator.eq, operator.ne):
            return tx.from_constant(op is operator.eq)
        if any(isinstance(each, DequeVariable) and each._is_own(tx, "__iter__") for each in (self, other)):
            raise GraphBreak("subclass of a builtin container", self.describe())
        return tx.from_constant(tx.truth(super().compare(tx, op, other)))

    def iterator(self, tx: Translator) -> Variable:
        return DequeIterator(self, 0, self.state)

    def reversed(self, tx: Translator) -> Variable:
        return DequeIterator(self, 0, self.state, backwards=True)

    def getattr(self, tx: Translator, name: str) -> Variable:
        return tx.from_constant(self.maxlen) if name == "maxlen" else super().getattr(tx, name)

    def do___init__(self, tx: Translator, iterable: Variable | None = None, maxlen: Variable | None = None) -> None:
        bound = None
        if maxlen is not None:  # whose `__index__` nobody asks
            bound = as_index(tx, maxlen) if issubclass(maxlen.python_type(), int) else stand_in(maxlen)
        tx.attempt(deque, (), bound)
        self.replace(tx, [])
        self.is_bound_anew = self.is_bound_anew or bound != self.maxlen
        self.maxlen = bound
        if iterable is not None:
            self.extend(tx, iterable)

    def do_copy(self, tx: Translator, /) -> Variable:
        """One of a user's class is copied by calling the class."""
        if self.owner is None:
            return self.born(tx, self.items)
        bound = [] if self.maxlen is None else [tx.from_constant(self.maxlen)]
        made = tx.call(tx.class_of(self.owner), [self.owner, *bound], {})
        if not issubclass(made.python_type(), deque):
            kinds = type_name(self.owner.python_type()), type_name(made.python_type())
            tx.raise_(TypeError, "{}() must return a deque, not {}".format(*kinds))
        return made

    def do___copy__(self, tx: Translator, /) -> Variable:
        return self.do_copy(tx)

    def concatenated(self, tx: Translator, other: Variable) -> Variable | None:
        if not self.is_kin(native_part(other)):
            return super().concatenated(tx, other)
        made = self.do_copy(tx)
        native_part(made).extend(tx, getattr(other, "owner", None) or other)  # type: ignore[attr-defined]
        return made

    def repeated(self, tx: Translator, other: Variable) -> Variable:
        if self.owner is None:
            return super().repeated(tx, other)
        made = self.do_copy(tx)
        native_part(made).inplace(tx, operator.imul, other)
        return made

    OPERATORS: ClassVar[dict[Any, Callable[..., Variable | None]]] = {
        operator.add: concatenated,
        operator.mul: repeated,
    }

    def do_append(self, tx: Translator, value: Variable, /) -> Variable | None:
        if self.unread is not None:
            found = super().do_append(tx, value)
            self.state += 1
            return found
        self._put(tx, len(self.items), value)
        return None

    def do_appendleft(self, tx: Translator, value: Variable, /) -> None:
        self._put(tx, 0, value)

    def do_pop(self, tx: Translator, /) -> Variable:
        return self._take(tx, -1)

    def do_popleft(self, tx: Translator, /) -> Variable:
        return self._take(tx, 0)

    def _put(self, tx: Translator, position: int, value: Variable) -> None:
        """At one of the ends."""
        tx.ledger.keep(self)
        if len(self.items) == self.maxlen:
            return self.replace(tx, [*self.items[1:], value] if position else [value, *self.items][:-1])
        self.items.insert(position, value)
        self.replace(tx, self.items)

    def _take(self, tx: Translator, position: int) -> Variable:
        if not self.items:
            tx.raise_(IndexError, "pop from an empty deque")
        tx.ledger.keep(self)
        found = self.items.pop(position)
        self.replace(tx, self.items)
        return found

    def do_extendleft(self, tx: Translator, iterable: Variable, /) -> None:
        items = iterable.unpack(tx) if isinstance(iterable, SequenceVariable) else each(tx, iterable)
        for item in items:
            self.METHODS["appendleft"].run(self, tx, item)

    def do_reverse(self, tx: Translator, /) -> None:
        self.replace(tx, self.items[::-1])
        self.state -= 1  # the iterators of CPython don't notice

    def do_clear(self, tx: Translator, /) -> None:
        if self.items:
            self.replace(tx, [])

    def do_rotate(self, tx: Translator, steps: Variable | None = None, /) -> None:
        by = as_index(tx, steps) if steps is not None else 1
        tx.attempt(deque().rotate, by)
        if len(self.items) > 1:
            cut = -by % len(self.items)
            self.replace(tx, self.items[cut:] + self.items[:cut])



class TupleVariable(SequenceVariable):
    """A tuple, torch.Size, named tuple or struct sequence: reconstruction reads `items` and `cls`."""

    NATIVE = tuple

    def __init__(
        self, items: list[Variable], source: Source | None = None, cls: type = tuple, value: Any = MISSING
    ) -> None:
        super().__init__(items, source, cls, value)
        if cls is not tuple and (special := _special_method(cls)):
            raise GraphBreak("named tuple with special methods of its own", f"{cls.__qualname__}.{special}")

    def find(self, name: str) -> Method | None:
        own = inspect.getattr_static(self.cls, name, None)
        return None if _is_users(getattr(own, "__func__", own)) else super().find(name)

    def is_constant(self) -> bool:
        # Other subclasses may answer operators with user code.
        return self.cls in (tuple, torch.Size) and all(item.is_constant() for item in self.items)

    def constant(self) -> Any:
        if not issubclass(self.cls, tuple) or self.cls not in (tuple, torch.Size):
            return super().constant()
        return self.cls([item.constant() for item in self.items])

    def key(self) -> Any:
        return tuple([item.key() for item in self.items])

    def is_same(self, tx: Translator, other: Variable) -> bool:
        # There is one empty tuple.
        empty = isinstance(other, TupleVariable) and self.cls is other.cls is tuple and not (self.items or other.items)
        return empty or super().is_same(tx, other)

    def blank(self) -> Any:
        if self.cls is torch.Size:
            return torch.Size()
        if (names := getattr(self.cls, "_fields", None)) is not None:
            return tuple.__new__(self.cls, [None] * len(names))
        return super().blank()

    def model(self) -> Any:
        return tuple(self.items)

    def born(self, tx: Translator, items: Iterable[Variable]) -> Variable:
        return TupleVariable(list(items), cls=torch.Size) if self.cls is torch.Size else tx.new_tuple(list(items))

    def concatenated(self, tx: Translator, other: Variable) -> Variable | None:
        if not isinstance(other, TupleVariable):
            return super().concatenated(tx, other)
        if torch.Size not in (self.cls, other.cls):
            is_other = not self.items and other.cls is tuple
            return other if is_other else super().concatenated(tx, other)
        return new_size(tx, [*self.items, *other.items])

    OPERATORS = {**SequenceVariable.OPERATORS, operator.add: concatenated}

    def getattr(self, tx: Translator, name: str) -> Variable:
        position = field_position(self.cls, name)
        if position is not None:
            tx.lookup(self.cls, name)  # which guards it
            return self.items[position]
        if name in ("_fields", "__match_args__") and hasattr(self.cls, name):
            return tx.class_of(self).getattr(tx, name)
        return super().getattr(tx, name)

    def setattr(self, tx: Translator, name: str, value: Variable) -> None:
        if self.cls is WeekDate:
            tx.attempt(setattr, date(1, 1, 1).isocalendar(), name, None)
        if field_position(self.cls, name) is not None and not hasattr(self.cls, "_fields"):
            tx.raise_(AttributeError, "readonly attribute")
        if field_position(self.cls, name) is not None:
            tx.raise_(AttributeError, "can't set attribute")
        super().setattr(tx, name, value)

    def do___init__(self, tx: Translator, /, *args: Variable, **kwargs: Variable) -> None:
        """`object.__init__`: the elements are those of `__new__`."""

    def do_numel(self, tx: Translator, /) -> Variable:
        product = tx.from_constant(1)
        for item in self.items:
            product = tx.binary(operator.mul, product, item)
        return product if product.python_type() is int else tx.call(tx.class_variable(int), [product], {})

    def do__make(self, tx: Translator, iterable: Variable, /) -> Variable:
        items = tx.unpack(iterable)
        expected = len(self.cls._fields)  # type: ignore[attr-defined]
        if len(items) != expected:
            tx.raise_(TypeError, f"Expected {expected} arguments, got {len(items)}")
        return TupleVariable(items, cls=self.cls)

    def do__replace(self, tx: Translator, /, **fields: Variable) -> Variable:
        names = self.cls._fields  # type: ignore[attr-defined]
        if not fields.keys() <= set(names):
            # The generated function checks the names itself; the values don't matter.
            self.misuse(tx, self.blank()._replace, **dict.fromkeys(fields))
        return TupleVariable([fields.get(n, item) for n, item in zip(names, self.items, strict=True)], cls=self.cls)

    def do___replace__(self, tx: Translator, /, **fields: Variable) -> Variable:
        if not hasattr(self.cls, "_fields"):  # a struct sequence has fields beside its elements
            raise GraphBreak("operation of a container not supported", f"__replace__ of {self.describe()}")
        return self.do__replace(tx, **fields)

    def do__asdict(self, tx: Translator, /) -> Variable:
        names = self.cls._fields  # type: ignore[attr-defined]
        return tx.new_dict([(tx.from_constant(n), item) for n, item in zip(names, self.items, strict=True)])


#: The class of `date.isocalendar()`: no named tuple, nor what Python calls a struct sequence.
WeekDate: type = type(date(1, 1, 1).isocalendar())
_OF_WEEK_DATES = ("year", "week", "weekday")
_TupleGetter = type(inspect.getattr_static(namedtuple("_Pair", "a b"), "a"))


#: What the operations here don't look up on the class.
_UNSEEN = {"__bool__", "__hash__", "__getattr__", "__getattribute__"}


def new_size(tx: Translator, items: list[Variable]) -> TupleVariable:
    """A torch.Size of the items, which makes plain numbers of others than these."""
    made = TupleVariable(items, cls=torch.Size)
    if any(item.python_type() is not int for item in items):
        made.misuse(tx, torch.Size, [1 if has(item.python_type(), "__index__") else stand_in(item) for item in items])
    return made


def _is_users(function: Any) -> bool:
    """Whether a function of a named tuple is not one that `namedtuple` makes."""
    return inspect.isfunction(function) and function.__code__.co_filename != namedtuple.__code__.co_filename


def _special_method(cls: type) -> str | None:
    """A special method in Python by which a class of tuples does what tuples do in a way of its own."""
    for name, found in raw_attributes(cls.__mro__[: cls.__mro__.index(tuple)]):
        counts = name in _UNSEEN or (name.startswith("__") and name != "__init__" and name in TupleVariable.METHODS)
        if counts and _is_users(found):
            return name
    return None


def is_named(cls: type) -> bool:
    """Whether it is one of those classes of tuples that are known through and through."""
    return hasattr(cls, "_fields") or hasattr(cls, "n_sequence_fields") or cls is torch.Size


def field_position(cls: type, name: str) -> int | None:
    """Which element of a named tuple or struct sequence is its field `name`."""
    if cls is WeekDate:
        return _OF_WEEK_DATES.index(name) if name in _OF_WEEK_DATES else None
    found = inspect.getattr_static(cls, name, None)
    if isinstance(found, _TupleGetter):
        return found.__reduce__()[1][0]
    if isinstance(found, MemberDescriptorType) and hasattr(cls, "n_sequence_fields"):
        return cls.__match_args__.index(name) if name in cls.__match_args__ else None  # type: ignore[attr-defined]
    return None


# --- iterators over sequences -----------------------------------------------------------------------------------------
class SequenceIterator(IteratorVariable):
    """iter(list, tuple or buffer): looks at the sequence as it is now. `sequence` is None when it is exhausted."""

    STATE = ("sequence", "index")
    TYPES: ClassVar[dict[type, type]] = {
        list: type(iter([])),
        tuple: type(iter(())),
        bytearray: type(iter(bytearray())),
        array: type(iter(array("b"))),
    }

    def __init__(self, sequence: Any, index: int = 0) -> None:
        self.sequence: Any = sequence
        self.index = index
        self.native_sequence = sequence.native()

    def python_type(self) -> type:
        return self.TYPES[self.native_sequence]

    def next(self, tx: Translator) -> Variable | None:
        if self.sequence is None or not 0 <= self.index < self.sequence.length(tx):
            self.sequence = None
            return None
        item = self.sequence.item(tx, self.index)
        self.index += self.STEP
        return item

    STEP: ClassVar[int] = 1


class ReversedIterator(SequenceIterator):
    """reversed(list, tuple or buffer), at `index`."""

    TYPES = {list: type(reversed([])), tuple: type(reversed(())), bytearray: reversed, array: reversed}
    STEP = -1


class DequeIterator(IteratorVariable):
    """iter(deque) or reversed(deque), `index` elements on; `state` is that of the deque when it began, None
    for an iterator that has failed."""

    STATE = ("deque", "index", "state", "backwards")

    def __init__(self, owner: DequeVariable, index: int, state: int | None, backwards: bool = False) -> None:
        self.deque = owner
        self.index = index
        self.state = state
        self.backwards = backwards
        self.end = len(owner.items)

    def python_type(self) -> type:
        return type(reversed(deque())) if self.backwards else type(iter(deque()))

    def next(self, tx: Translator) -> Variable | None:
        items = self.deque.items
        if self.backwards and (self.state is None or self.index >= self.end):
            return None
        if self.deque.state != self.state:
            # The iterator that goes backwards ends here, the other one fails each time.
            self.state = None if self.backwards else self.state
            tx.raise_(RuntimeError, "deque mutated during iteration")
        if self.index >= len(items):
            return None
        self.index += 1
        return items[-self.index if self.backwards else self.index - 1]

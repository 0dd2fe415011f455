"""Dicts, their views and the iterators over them.

An existing dict is read entry by entry: each look-up of a constant key guards that entry only, and what needs all keys,
their number or their order guards these. Stores and deletions are kept as such, so that they need not know the rest.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

from symbolic.errors import GraphBreak
from symbolic.sources import Source
from symbolic.variables.base import BINARY, INPLACE, MISSING, UNARY, Variable
from symbolic.variables.computed import pick
from symbolic.variables.constants import FEW, ConstantVariable, is_constant_value, is_none, is_none_of
from symbolic.variables.containers import TupleVariable
from symbolic.variables.native import (
    ORDERINGS,
    SWAPPED,
    IteratorVariable,
    Method,
    NativeVariable,
    begun,
    each,
    each_of_some,
    hash_key,
    is_iterable,
    may_ask,
    raise_with,
    stored_key,
)
from symbolic.variables.positions import has, native_part, stand_in, type_name
from symbolic.variables.sets import OPERATORS, SetVariable
from symbolic.variables.unread import Veiled

if TYPE_CHECKING:
    from symbolic.translator import Translator

Pair = tuple[Variable, Variable]


class DictVariable(Veiled, NativeVariable):
    """A dict, OrderedDict, defaultdict or Counter.

    `entries` maps the key of a key to (key, value): all of them in order if `complete`, else those seen so far. For
    reconstruction of one born in the frame: `entries`, `cls`, `default_factory`. To replay onto an existing one: if
    `rewritten`, clear it and store all entries; else delete the keys in `deleted`, then store the entries in `stored`
    in that order (with the methods of `dict`, or of OrderedDict for such). If `arranged`, the order of an OrderedDict
    is that of the entries, whatever the stores made it.
    """

    HOLDS = ("entries", "stored", "deleted")
    owner: Any = None  # the ObjectVariable whose native part this is
    #: of globals the namespace of functions
    shown: Variable | None = None

    def __init__(
        self,
        entries: dict[Any, Pair],
        source: Source | None = None,
        cls: type = dict,
        default_factory: Variable | None = None,
        value: Any = MISSING,
    ) -> None:
        self.entries = entries
        self.source = source
        self.cls = cls
        self.default_factory = default_factory
        self.value = value
        self.complete = value is MISSING
        self.rewritten = self.arranged = False
        self.state = 0  # counts changes of the keys, for iterators
        self.unseen = 0  # those among them that an OrderedDict does not count
        self._names: dict[Any, tuple[Variable, Any]] | None = None
        self.stored: dict[Any, None] = {}
        self.deleted: dict[Any, Variable] = {}
        # Of an existing dict: its contents, its keys in order once they are known, and keys known not to be there.
        self._contents: dict[Any, Any] = {} if value is MISSING else value
        self._absent: set[Any] = set()

    # --- entries ----------------------------------------------------------------------------------------------------
    def find(self, name: str) -> Method | None:
        inherited = super().find(name)
        if self.cls is not Counter or name in _COUNTER_NATIVE:
            return inherited
        function = vars(Counter).get(name)
        if not inspect.isfunction(function):
            return inherited
        return Method(lambda self, tx, /, *args, **kwargs: tx.inline(function, [self, *args], kwargs))

    def as_dict(self, tx: Translator) -> DictVariable:
        return self

    def _put(self, tx: Translator, pairs: Iterable[Pair]) -> None:
        """An OrderedDict stores what it is given in the way of its class, a dict does not."""
        place = self.whole if issubclass(self.cls, OrderedDict) else self
        for key, value in pairs:
            place.setitem(tx, key, value)

    def hashed(self, tx: Translator, key: Variable) -> Any:
        """What stands for a key in `entries`."""
        return hash_key(tx, key)

    def lookup(self, tx: Translator, key: Variable) -> Variable | None:
        """The value under a key, None if there is none."""
        if key.varies() and self.length(tx) <= FEW and is_none_of(tx, key, self.names(tx).values()):
            return None
        return self._lookup(tx, self.hashed(tx, key), key)

    def _lookup(self, tx: Translator, hashed: Any, key: Variable) -> Variable | None:
        self._check_shown(tx)
        pair = self.entries.get(hashed)
        if pair is not None:
            return pair[1]
        if self.complete or hashed in self._absent or hashed in self.deleted:
            return None
        return self._load(tx, hashed, key)

    def _check_shown(self, tx: Translator) -> None:
        """Globals that a function has written to are read as they came."""
        if self.shown is not None and tx.ledger.touched(self.shown):
            raise GraphBreak("view of a dict that the frame changed", self.describe())

    def _load(self, tx: Translator, hashed: Any, key: Variable) -> Variable | None:
        """Looks into the existing dict for a key that the frame has not touched."""
        assert self.source is not None
        if self._names is None and not dict.__len__(self._contents):
            tx.know(self.source, "len", 0)  # one fact says it of all keys
            self._names = {}
        elif key.absent_if is not None:
            self._know_newer(tx, key)
            self._absent.add(hashed)
            return None
        if self._names is None and (not key.is_constant() or self._may_ask):
            self._load_names(tx)
        if self._names is not None:
            if hashed not in self._names:
                return None
            key, real = self._names[hashed]
        else:
            real = key.constant()
            if not dict.__contains__(self._contents, real):
                tx.know(self.source, "absent", real)
                self._absent.add(hashed)
                return None
        value = tx.wrap(dict.__getitem__(self._contents, real), self.source.step("item", real))
        self.entries[hashed] = (key, value)
        return value

    @functools.cached_property
    def _may_ask(self) -> bool:
        return may_ask(dict.keys(self._contents))

    def _know_newer(self, tx: Translator, key: Variable) -> None:
        assert key.absent_if is not None
        if not key.absent_if(self._contents):
            raise GraphBreak("value not known before the program runs", key.describe())
        tx.know(self.source, "predicate", key.absent_if)

    def _load_names(self, tx: Translator) -> None:
        """Learns the keys of the existing dict and their order."""
        assert self.source is not None
        reals = tuple(dict.__iter__(self._contents))
        if issubclass(self.cls, OrderedDict):
            reals = _in_order(self._contents, reals)
        tx.know(self.source, "keys", reals)  # in the order of the OrderedDict, not that of the dict under it
        self._names = {}
        for position, real in enumerate(reals):
            known = is_constant_value(real)
            key = tx.from_constant(real) if known else tx.wrap(real, self.source.step("key", position))
            if isinstance(key, ConstantVariable):
                key.found_at = self.source, "key", position
            self._names[stored_key(tx, key)] = (key, real)

    def read_again(self) -> None:
        """What it was made of has changed: the namespace of a class that the frame makes."""
        self.entries, self._names, self._absent, self.complete = {}, None, set(), False
        self.__dict__.pop("_may_ask", None)
        self.state += 1

    def names(self, tx: Translator) -> dict[Any, Variable]:
        """The keys, in order."""
        self._check_shown(tx)
        if self.complete:
            return {hashed: key for hashed, (key, _) in self.entries.items()}
        if self._names is None:
            self._load_names(tx)
        assert self._names is not None
        names = {hashed: key for hashed, (key, _) in self._names.items() if hashed not in self.deleted}
        for hashed in self.stored:
            names.setdefault(hashed, self.entries[hashed][0])
        return names

    def outermost(self, tx: Translator, from_end: bool) -> Variable | None:
        """The last key or the first one, None if there is none."""
        keys: dict[Any, Any] = self.entries if self.complete else self.names(tx)
        found = keys.get(next(reversed(keys) if from_end else iter(keys), MISSING))
        return found[0] if self.complete and found is not None else found

    def load_all(self, tx: Translator) -> dict[Any, Pair]:
        """All entries, in order."""
        self._check_shown(tx)
        if not self.complete:
            entries = {}
            for hashed, key in self.names(tx).items():
                value = self._lookup(tx, hashed, key) if hashed not in self.stored else self.entries[hashed][1]
                assert value is not None
                entries[hashed] = (key, value)
            self.entries = entries
            self.complete = True
        return self.entries

    def pairs(self, tx: Translator) -> list[Pair]:
        """All keys with their values, in order."""
        return list(self.load_all(tx).values())

    def store(self, tx: Translator, key: Variable, value: Variable) -> None:
        """`self[key] = value`, without asking `__setitem__`."""
        if not issubclass(self.cls, dict):
            super().setitem(tx, key, value)
        hashed = self.hashed(tx, key)
        pair = self.entries.get(hashed)
        known = pair is not None or (
            self._names is not None and not self.complete and hashed in self._names and hashed not in self.deleted
        )
        tx.ledger.keep(self)
        if not known:
            self.state += 1
        self.entries[hashed] = (pair[0] if pair is not None else key, value)
        self.stored.setdefault(hashed)
        tx.ledger.touch(self)

    def remove(self, tx: Translator, key: Variable) -> Variable | None:
        """Takes the entry out; None if there is none."""
        if not issubclass(self.cls, dict):
            super().delitem(tx, key)
        hashed = self.hashed(tx, key)
        existed = key.absent_if is None
        if existed and hashed in self.stored and not self.complete and self._names is None:
            self._load_names(tx)  # whether it was there before the frame stored it decides what is to be deleted
        found = self._lookup(tx, hashed, key)
        if found is None:
            return None
        tx.ledger.keep(self)
        own_key, _ = self.entries.pop(hashed)
        self.stored.pop(hashed, None)
        if existed and self.value is not MISSING and not self.rewritten:
            if self._was_there(hashed):
                self.deleted[hashed] = own_key
        self.state += 1
        tx.ledger.touch(self)
        return found

    def empty(self, tx: Translator) -> None:
        tx.ledger.keep(self)
        self.entries = {}
        self.stored, self.deleted = {}, {}
        self.complete = self.rewritten = True
        self.state += 1
        self.unseen += issubclass(self.cls, OrderedDict) and not _ORDERED_CLEAR_COUNTS
        tx.ledger.touch(self)

    def born(self, tx: Translator, pairs: Iterable[Pair], cls: type | None = None) -> DictVariable:
        """A new dict with these entries, of the same type if none is given."""
        kind = cls or self.cls
        made = DictVariable({}, cls=kind, default_factory=self.default_factory if kind is self.cls else None)
        for key, value in pairs:
            made.store(tx, key, value)
        return made

    def since(self, before: DictVariable | None) -> tuple[list[Variable], list[Pair]] | None:
        """The keys to delete and the entries to store, in this order, to come from what it was `before` (None: before
        the frame) to this. None: all is written anew."""
        if self.value is MISSING or self.rewritten:
            return None
        if before is None:
            return list(self.deleted.values()), [self.entries[hashed] for hashed in self.stored]
        gone = {hashed: key for hashed, key in self.deleted.items() if hashed not in before.deleted}
        old, new = list(before.stored), list(self.stored)
        same = 0  # entries stored before that are where they were
        while same < min(len(old), len(new)) and old[same] == new[same] and old[same] not in gone:
            same += 1
        for hashed in old[same:]:
            is_in_place = hashed in self.stored and hashed not in self.deleted and self._was_there(hashed)
            if not is_in_place:
                gone[hashed] = before.entries[hashed][0]
        changed = [h for h in new[:same] if self.entries[h][1] is not before.entries[h][1]]
        return list(gone.values()), [self.entries[hashed] for hashed in (*changed, *new[same:])]

    def _was_there(self, hashed: Any) -> bool:
        """Whether a key that was removed was that of an entry before the frame."""
        return self._names is None or hashed in self._names

    def takes(self, before: DictVariable | None = None) -> str:
        change = self.since(before)
        if change is None:
            pairs = [f"{key}: {value}" for key, value in self.entries.values()]
            return f"{self}.clear(); {self}.update({{{', '.join(pairs)}}})"
        gone = [f"del {self}[{key}]" for key in change[0]]
        stored = [f"{self}[{key}] = {value}" for key, value in change[1]]
        return "; ".join([*gone, *stored]) or f"{self}.update()"

    def reachable(self) -> list[Variable]:
        factory = [self.default_factory] if self.default_factory is not None else []
        return [*factory, *(variable for pair in self.entries.values() for variable in pair)]

    # --- protocol ---------------------------------------------------------------------------------------------------
    def length(self, tx: Translator) -> int:
        self._check_shown(tx)
        if self.complete:
            return len(self.entries)
        if self._names is None and not self.stored and not self.deleted:
            size = dict.__len__(self._contents)
            tx.know(self.source, "len", size)
            return size
        return len(self.names(tx))

    def truth(self, tx: Translator) -> bool:
        return bool(self.entries) or self.length(tx) != 0

    def contains(self, tx: Translator, item: Variable) -> bool:
        return self.lookup(tx, item) is not None

    def getitem(self, tx: Translator, index: Variable) -> Variable:
        found = pick(tx, self, self.value, index) or self.lookup(tx, index)
        return found if found is not None else self.missing(tx, index)

    def missing(self, tx: Translator, key: Variable) -> Variable:
        """What a look-up that finds nothing gives: a subclass may have a `__missing__` of its own."""
        own = self.owner.special(tx, "__missing__") if self.owner is not None else None
        return tx.call(own, [key], {}) if own is not None else self.do___missing__(tx, key)

    def setitem(self, tx: Translator, index: Variable, value: Variable) -> None:
        self.store(tx, index, value)

    def delitem(self, tx: Translator, index: Variable) -> None:
        if self.remove(tx, index) is None and self.cls is not Counter:
            raise_with(tx, KeyError, index)

    def iterator(self, tx: Translator) -> Variable:
        return DictIterator(self, "keys", list(self.names(tx).items()), born_at=tx.anchor())

    def reversed(self, tx: Translator) -> Variable:
        return DictIterator(self, "keys", list(self.names(tx).items())[::-1], backwards=True, born_at=tx.anchor())

    def unpack(self, tx: Translator) -> list[Variable]:
        return list(self.names(tx).values())

    def getattr(self, tx: Translator, name: str) -> Variable:
        if name == "default_factory" and issubclass(self.cls, defaultdict):
            return self.default_factory if self.default_factory is not None else tx.from_constant(None)
        return super().getattr(tx, name)

    def setattr(self, tx: Translator, name: str, value: Variable) -> None:
        if name != "default_factory" or not issubclass(self.cls, defaultdict):
            return super().setattr(tx, name, value)
        if not _may_make(value):
            raise GraphBreak("operation not supported by the object", "default_factory that can't be called")
        self.default_factory = value
        if self.source is not None or self.owner is not None:
            tx.ledger.store(self.whole, name, value)

    # --- operators --------------------------------------------------------------------------------------------------
    def binary(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        if self.cls is Counter and BINARY[op][0] in vars(Counter):
            return _implemented(tx.inline(getattr(Counter, BINARY[op][0]), [self, other], {}))
        theirs = other.as_dict(tx)
        if theirs is None:
            return None
        if op in (operator.eq, operator.ne):
            return tx.from_constant(self.equals(tx, theirs) is (op is operator.eq))
        return self._union(tx, self, theirs) if op is operator.or_ else None

    def _union(self, tx: Translator, left: DictVariable, right: DictVariable) -> Variable:
        """What the class of this one, of the two, makes of them: `dict` a dict; OrderedDict and defaultdict call the
        class of the first that is theirs."""
        base = next((each for each in _MAKERS if issubclass(self.cls, each)), None)
        if base is None:
            made: Variable = left._copied(tx, dict)
        else:
            maker = left if issubclass(left.cls, base) else self
            if maker.owner is not None:
                made = tx.call(tx.class_of(maker.owner), [*maker._factory(tx), left.whole], {})
            else:
                made = maker.born(tx, [])
                DictVariable.do_update(made, tx, left.whole)
        DictVariable.do_update(native_part(made), tx, right.whole)  # type: ignore[arg-type]
        return made

    def _factory(self, tx: Translator) -> list[Variable]:
        return [self.getattr(tx, "default_factory")] if issubclass(self.cls, defaultdict) else []

    def rbinary(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        if op in (operator.eq, operator.ne):
            return self.binary(tx, op, other)
        if self.cls is Counter and BINARY[op][1] in vars(Counter):
            return _implemented(tx.inline(getattr(Counter, BINARY[op][1]), [self, other], {}))
        theirs = other.as_dict(tx) if op is operator.or_ else None
        return self._union(tx, theirs, self) if theirs is not None else None

    def inplace(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        if self.cls is Counter and INPLACE[op][1] in vars(Counter):
            return _implemented(tx.inline(getattr(Counter, INPLACE[op][1]), [self, other], {}))
        if op is not operator.ior:
            return None
        if not issubclass(self.cls, dict):
            self.misuse(tx, operator.ior, self.blank(), {})
        DictVariable.do_update(self, tx, other)
        return self

    def unary(self, tx: Translator, op: Any) -> Variable:
        if self.cls is Counter and UNARY[op] in vars(Counter):
            return tx.inline(getattr(Counter, UNARY[op]), [self], {})
        return super().unary(tx, op)

    def equals(self, tx: Translator, other: DictVariable) -> bool:
        if self is other:
            return all(tx.equal(value, value) for _, value in self.pairs(tx))
        if self.length(tx) != other.length(tx):
            return False
        for hashed, (key, mine) in list(self.load_all(tx).items()):
            theirs = other._lookup(tx, hashed, key)
            if theirs is None or not tx.equal(theirs, mine):
                return False
        ordered = issubclass(self.cls, OrderedDict) and issubclass(other.cls, OrderedDict)
        return not ordered or list(self.names(tx)) == list(other.names(tx))

    # --- methods ----------------------------------------------------------------------------------------------------
    def method(self, tx: Translator, name: str, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        if kwargs and name in ("pop", "setdefault") and not issubclass(self.cls, OrderedDict):
            self.misuse(tx, getattr(self.blank(), name), *[None] * len(args), **dict.fromkeys(kwargs))
        return super().method(tx, name, args, kwargs)

    def do___init__(self, tx: Translator, /, *args: Variable, **kwargs: Variable) -> None:
        if issubclass(self.cls, defaultdict) and args:
            factory, args = args[0], args[1:]
            if not _may_make(factory):
                tx.raise_(TypeError, "first argument must be callable or None")
            if not is_none(factory) or self.default_factory is not None:
                self.setattr(tx, "default_factory", factory)
        self.do_update(tx, *args, **kwargs)

    def do___missing__(self, tx: Translator, key: Variable, /) -> Variable:
        if self.cls is Counter:
            return tx.from_constant(0)
        factory = self.default_factory
        if factory is None or is_none(factory):
            raise_with(tx, KeyError, key)
        value = tx.call(factory, [], {})
        self.whole.setitem(tx, key, value)
        return value

    def do_get(self, tx: Translator, key: Variable, default: Variable | None = None, /) -> Variable | None:
        found = self.lookup(tx, key)
        return found if found is not None else default

    def do_pop(self, tx: Translator, key: Variable, default: Variable | None = None) -> Variable:
        is_asked = issubclass(self.cls, OrderedDict) or self.length(tx)  # for the key's hash
        found = self.remove(tx, key) if is_asked else None
        if found is None and default is None:
            self._no_key(tx, "pop", key)
        return found if found is not None else default  # type: ignore[return-value]

    def _no_key(self, tx: Translator, name: str, key: Variable) -> NoReturn:
        """KeyError; OrderedDict makes a key that is a tuple the arguments of its own."""
        if issubclass(self.cls, OrderedDict) and native_part(key).is_constant():
            self.misuse(tx, getattr(OrderedDict(), name), native_part(key).constant())
        raise_with(tx, KeyError, key)

    def do_popitem(self, tx: Translator, last: Variable | None = None) -> Variable:
        if last is not None and not issubclass(self.cls, OrderedDict):
            self.misuse(tx, self.blank().popitem, None)
        from_end = last is None or tx.truth(last)
        key = self.outermost(tx, from_end)
        if key is None:
            self.misuse(tx, self.blank().popitem)
        value = self.remove(tx, key)
        assert value is not None
        return tx.new_tuple([key, value])

    def do_setdefault(self, tx: Translator, key: Variable, default: Variable | None = None) -> Variable:
        place = self.whole if issubclass(self.cls, OrderedDict) else self
        if place is not self:
            found = self.owner.getitem(tx, key) if self.owner.contains(tx, key) else None
        else:
            found = self.lookup(tx, key)
        if found is None:
            found = default if default is not None else tx.from_constant(None)
            place.setitem(tx, key, found)
        return found

    def do_update(self, tx: Translator, /, *args: Variable, **kwargs: Variable) -> None:
        if self.cls is Counter:
            return self._count(tx, list(args), kwargs)
        self._put(tx, self.incoming(tx, list(args), kwargs))

    def merge(self, tx: Translator, mapping: Variable) -> None:
        """`{**self, **mapping}` in place"""
        self._put(tx, self.merged(tx, mapping))

    def do_clear(self, tx: Translator, /) -> None:
        self.empty(tx)

    def do_copy(self, tx: Translator, /) -> Variable:
        if self.owner is not None and issubclass(self.cls, defaultdict):
            return tx.call(tx.class_of(self.owner), [*self._factory(tx), self.owner], {})
        if self.owner is not None and issubclass(self.cls, OrderedDict):
            made = tx.call(tx.class_of(self.owner), [], {})
            for key in self.unpack(tx):
                made.setitem(tx, key, self.owner.getitem(tx, key))
            return made
        return self._copied(tx, self.cls if self.cls in (OrderedDict, defaultdict, Counter) else dict)

    def _copied(self, tx: Translator, cls: type) -> DictVariable:
        """A derived class may have an `__iter__` or `keys` of its own, which is asked where there is something."""
        if self.owner is None:
            return self.born(tx, self.pairs(tx), cls)
        made = self.born(tx, [], cls)
        if self.length(tx):
            DictVariable.do_update(made, tx, self.owner)
        return made

    def do___copy__(self, tx: Translator, /) -> Variable:
        return self.do_copy(tx)

    def do_fromkeys(self, tx: Translator, iterable: Variable, value: Variable | None = None) -> Variable:
        if self.cls is Counter:
            self.misuse(tx, Counter.fromkeys, ())
        filler = value if value is not None else tx.from_constant(None)
        made = DictVariable({}, cls=self.cls)
        for key in each(tx, iterable):
            made.store(tx, key, filler)
        return made

    def do_move_to_end(self, tx: Translator, key: Variable, last: Variable | None = None) -> None:
        hashed = self.hashed(tx, key)
        entries = self.load_all(tx)
        if hashed not in entries:
            self._no_key(tx, "move_to_end", key)
        found = entries[hashed]  # keys are not compared once more
        moved = {k: pair for k, pair in entries.items() if pair is found}
        others = {k: pair for k, pair in entries.items() if pair is not found}
        arranged = {**others, **moved} if last is None or tx.truth(last) else {**moved, **others}
        if list(arranged.values()) != list(entries.values()):
            tx.ledger.keep(self)
            self.entries = arranged
            self.arranged = True
            self.state += 1
            tx.ledger.touch(self)

    def do_keys(self, tx: Translator, /) -> Variable:
        return DictViewVariable(self, "keys")

    def do_values(self, tx: Translator, /) -> Variable:
        return DictViewVariable(self, "values")

    def do_items(self, tx: Translator, /) -> Variable:
        return DictViewVariable(self, "items")

    def incoming(self, tx: Translator, args: list[Variable], kwargs: dict[str, Variable]) -> Iterator[Pair]:
        """What `update(*args, **kwargs)` stores, each before the next is asked for."""
        if len(args) > 1:
            self.misuse(tx, self.blank().update, *[None] * len(args))
        for other in args:
            if self._opened(other) is not None:
                yield from self.merged(tx, other)
            elif (keys := tx.optional(other, "keys")) is None:
                yield from self._unpaired(tx, other)
            else:  # a dict asks for the method again
                yield from self.merged(tx, other, keys if issubclass(self.cls, OrderedDict) else None)
        for name, value in kwargs.items():
            yield tx.from_constant(name), value

    def merged(self, tx: Translator, mapping: Variable, keys: Variable | None = None) -> Iterator[Pair]:
        """The same of `{**mapping}`, which must have keys."""
        if (theirs := self._opened(mapping)) is not None:
            pairs, before = theirs.pairs(tx), theirs.state
            for pair in pairs:
                yield pair
                if theirs.state != before:  # by a comparison of keys
                    raise GraphBreak("keys changed during iteration", theirs.describe())
            return
        drawn = tx.call(keys or tx.getattr(mapping, "keys"), [], {})
        for key in each(tx, self._drawn(tx, mapping, drawn)):
            yield key, mapping.getitem(tx, key)

    def _opened(self, mapping: Variable) -> DictVariable | None:
        """The dict that it is, where its elements are read without a method of the program's."""
        theirs = native_part(mapping)
        own = () if issubclass(self.cls, OrderedDict) else (dict.__iter__,)
        iters = _DICT_ITERS if theirs is mapping else own
        is_open = isinstance(theirs, DictVariable) and getattr(mapping.python_type(), "__iter__", None) in iters
        return theirs if is_open else None  # type: ignore[return-value]

    def _drawn(self, tx: Translator, mapping: Variable, keys: Variable) -> Variable:
        """What a mapping gives for its keys, which a dict draws all at once (an OrderedDict one by one)."""
        if issubclass(self.cls, OrderedDict) or keys.python_type() is list:
            return keys
        if (iterator := begun(tx, keys)) is None:
            names = [type_name(each.python_type()) for each in (mapping, keys)]
            tx.raise_(TypeError, f"{names[0]}.keys() returned a non-iterable (type {names[1]})")
        return tx.new_list(list(each_of_some(tx, iterator)))

    def _unpaired(self, tx: Translator, iterable: Variable) -> Iterator[Pair]:
        for position, element in enumerate(each(tx, iterable)):
            wrong: Any = None
            if not is_iterable(element):
                wrong = stand_in(element)
            elif len(pair := tx.unpack(element)) != 2:
                wrong = range(len(pair))
            else:
                yield pair[0], pair[1]
                continue
            self.misuse(tx, self.blank().update, [(0, 0)] * position + [wrong])

    def _count(self, tx: Translator, args: list[Variable], kwargs: dict[str, Variable]) -> None:
        """`Counter.update`"""
        if len(args) > 1:
            self.misuse(tx, Counter().update, *[None] * len(args))
        for other in [arg for arg in args if not (arg.is_constant() and arg.constant() is None)]:
            if tx.isinstance(other, tx.from_constant(Mapping)):
                if not self.length(tx):
                    self._put(tx, self.incoming(tx, [other], {}))
                    continue
                for pair in each(tx, tx.call(tx.getattr(other, "items"), [], {})):
                    key, count = tx.unpack(pair)
                    before = self.do_get(tx, key, tx.from_constant(0))
                    self.store(tx, key, tx.binary(operator.add, count, before))  # type: ignore[arg-type]
                continue
            for key in each(tx, other):
                before = self.do_get(tx, key, tx.from_constant(0))
                self.store(tx, key, tx.binary(operator.add, before, tx.from_constant(1)))  # type: ignore[arg-type]
        if kwargs:
            self._count(tx, [tx.new_dict([(tx.from_constant(name), value) for name, value in kwargs.items()])], {})


def _ordered_clear_counts() -> bool:
    """Whether the iterators of this Python's OrderedDict see `clear` as more than a change of size."""
    model = OrderedDict(a=1)
    iterator = iter(model)
    model.clear()
    try:
        next(iterator)
    except RuntimeError as error:
        return "mutated" in str(error)
    raise AssertionError("OrderedDict cleared during iteration")


_ORDERED_CLEAR_COUNTS = _ordered_clear_counts()
_MAKERS = (OrderedDict, defaultdict)  # classes derived from these are called to make unions
_DICT_ITERS = (dict.__iter__, OrderedDict.__iter__)
#: Methods of Counter that are written here; the others are those of the library, traced.
_COUNTER_NATIVE = frozenset({"__init__", "__missing__", "__delitem__", "update", "copy", "fromkeys"})


def _may_make(factory: Variable) -> bool:
    return is_none(factory) or has(factory.python_type(), "__call__")


def _implemented(answer: Variable) -> Variable | None:
    return None if answer.is_constant() and answer.constant() is NotImplemented else answer


def _in_order(contents: Any, keys: tuple[Any, ...]) -> tuple[Any, ...]:
    """The keys of an OrderedDict in its own order, which methods of dict leave as it is. They are hashed for that."""
    if may_ask(keys):
        raise GraphBreak("operation not supported by the object", "OrderedDict of keys that hash themselves")
    try:
        ordered = tuple(OrderedDict.__iter__(contents))
    except KeyError:  # of one that is in its order alone
        ordered = ()
    if set(map(id, ordered)) != set(map(id, keys)):
        raise GraphBreak("operation not supported by the object", "OrderedDict whose order has other keys than it has")
    return ordered


_SET_VIEWS: tuple[type, ...] = (type({}.keys()), type({}.items()))


class DictViewVariable(NativeVariable):
    """dict.keys(), .values() or .items() (`kind`): sees the dict, or `obj.__dict__`, as it is now."""

    def __init__(self, dict: Any, kind: str) -> None:
        self.dict = dict
        self.kind = kind

    def python_type(self) -> type:
        return type(self.blank())

    def blank(self) -> Any:
        return getattr(OrderedDict() if issubclass(self.dict.cls, OrderedDict) else {}, self.kind)()

    def reachable(self) -> list[Variable]:
        return [self.dict]

    def length(self, tx: Translator) -> int:
        return self.dict.length(tx)

    def truth(self, tx: Translator) -> bool:
        return self.dict.truth(tx)

    def iterator(self, tx: Translator) -> Variable:
        return DictIterator(self.dict, self.kind, list(self.dict.names(tx).items()), born_at=tx.anchor())

    def reversed(self, tx: Translator) -> Variable:
        names = list(self.dict.names(tx).items())[::-1]
        return DictIterator(self.dict, self.kind, names, backwards=True, born_at=tx.anchor())

    def contains(self, tx: Translator, item: Variable) -> bool:
        if self.kind == "keys":
            return self.dict.contains(tx, item)
        if self.kind == "values":
            return any(tx.equal(value, item) for _, value in self.dict.pairs(tx))
        pair = native_part(item)
        if not isinstance(pair, TupleVariable) or len(pair.items) != 2:
            return False
        found = self.dict.lookup(tx, pair.items[0])
        return found is not None and tx.equal(found, pair.items[1])

    def getattr(self, tx: Translator, name: str) -> Variable:
        if name == "mapping":
            return tx.call(tx.class_variable(MappingProxyType), [self.dict], {})
        return super().getattr(tx, name)

    def binary(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        if self.kind == "values":
            return None
        if op in ORDERINGS:
            is_one = issubclass(other.python_type(), (set, frozenset, *_SET_VIEWS))
            return tx.from_constant(self._compare(tx, op, other)) if is_one else None
        return self._combine(tx, op, self, other)

    def _compare(self, tx: Translator, op: Any, other: Variable) -> bool:
        """Lengths first; then whether all that is in one is in the other, which alone may ask for hashes."""
        within = op in (operator.lt, operator.le, operator.eq, operator.ne)
        is_as_long = (operator.eq if op is operator.ne else op)(self.length(tx), other.length(tx))
        smaller, larger = (self, other) if within else (other, self)
        is_so = is_as_long and all(tx.contains(larger, item) for item in each(tx, smaller))
        return is_so is (op is not operator.ne)

    def rbinary(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        if self.kind == "values":
            return None
        if op in ORDERINGS:
            return self.binary(tx, SWAPPED[op], other)
        # The operators of CPython's views see the view on the right as the first operand if the left is none.
        return self._combine(tx, op, self if op is operator.and_ else other, other if op is operator.and_ else self)

    def _combine(self, tx: Translator, op: Any, left: Variable, right: Variable) -> Variable | None:
        name = OPERATORS.get(op)
        if name is None:
            return None
        of_items = all(isinstance(each, DictViewVariable) and each.kind == "items" for each in (left, right))
        if op is operator.xor and of_items and isinstance(left.dict, DictVariable):  # type: ignore[attr-defined]
            return _changed(tx, left.dict, right)  # type: ignore[attr-defined]
        if op is operator.and_ and right.python_type() is set and left.length(tx) <= right.length(tx):
            return right.method(tx, "intersection", [left], {})
        if op is operator.and_ and isinstance(right, DictViewVariable) and right.length(tx) > self.length(tx):
            left, right = right, left
        made = SetVariable({})
        if op is not operator.and_:
            made.update(tx, left)
            made.combine_in_place(tx, name, [right])
            return made
        for item in each(tx, right):
            if tx.contains(left, item):
                made.add(tx, item)
        return made

    def do_isdisjoint(self, tx: Translator, other: Variable, /) -> Variable:
        if self.kind == "values":
            raise GraphBreak("operation of a container not supported", "isdisjoint of values")
        return tx.from_constant(not any(tx.contains(self, item) for item in each(tx, other)))


def _changed(tx: Translator, before: DictVariable, items: Variable) -> Variable:
    """The items that two dicts do not share, as CPython's `^` finds them: values that are equal are not hashed."""
    left, made = before._copied(tx, dict), SetVariable({})
    for pair in each(tx, items):
        key, value = tx.unpack(pair)
        found = left.lookup(tx, key)
        if found is not None and tx.equal(found, value):
            left.remove(tx, key)
        else:
            made.add(tx, pair)
    made.update(tx, DictViewVariable(left, "items"))
    return made


_MODELS: dict[bool, Any] = {False: {}, True: OrderedDict()}
_ITERATORS = {
    (ordered, kind, backwards): type((reversed if backwards else iter)(getattr(model, kind)()))
    for ordered, model in _MODELS.items()
    for kind in ("keys", "values", "items")
    for backwards in (False, True)
}


class DictIterator(IteratorVariable):
    """iter() or reversed() of a dict or a view (`kind`): `keys` are the keys when it began, as (hash key, key), `index`
    the next one's position. `dict` is None when it is exhausted. The dict's `state` was `state` when it began: with
    another it can't be made again, so a break moves to where it was made (`born_at`)."""

    STATE = ("dict", "kind", "keys", "index", "backwards")

    def __init__(
        self,
        dict: Any,
        kind: str,
        keys: list[tuple[Any, Variable]],
        index: int = 0,
        backwards: bool = False,
        born_at: int = 0,
    ) -> None:
        self.dict: Any = dict
        self.kind = kind
        self.keys = keys
        self.index = index
        self.backwards = backwards
        self.born_at = born_at
        self.state = dict.state
        self.ordered = issubclass(dict.cls, OrderedDict)
        self.counted = self._count(dict)

    def python_type(self) -> type:
        return _ITERATORS[self.ordered, self.kind, self.backwards]

    def next(self, tx: Translator) -> Variable | None:
        if self.dict is None:
            return None
        at_end = self.index >= len(self.keys)
        if not (self.ordered and at_end):
            self._check(tx, self.dict)
        if at_end:
            self.dict = None
            return None
        hashed, key = self.keys[self.index]
        self.index += 1
        if self.kind == "keys":
            return key
        value = self.dict._lookup(tx, hashed, key)
        assert value is not None
        return value if self.kind == "values" else tx.new_tuple([key, value])

    def keeps(self) -> list[Variable]:
        return [self.dict] if self.dict is not None else []

    def _count(self, owner: Any) -> int:
        """How many changes of the keys the iterator would notice."""
        count: int = owner.state - owner.unseen if self.ordered else owner.state
        return count

    def _check(self, tx: Translator, owner: Any) -> None:
        """The errors of a dict that is changed while it is iterated."""
        changed = self._count(owner) != self.counted
        if self.ordered and changed:
            self.dict = None
            tx.raise_(RuntimeError, "OrderedDict mutated during iteration")
        if (changed or self.ordered) and owner.length(tx) != len(self.keys):
            name = "OrderedDict" if self.ordered else "dictionary"
            tx.raise_(RuntimeError, f"{name} changed size during iteration")
        if changed:  # at the end, too: there may be a new key behind
            raise GraphBreak("keys changed during iteration", owner.describe())

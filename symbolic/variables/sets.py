"""Sets, frozensets and the iterators over them."""

from __future__ import annotations

import copy
import ctypes
import functools
import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from symbolic.errors import GraphBreak, Restart
from symbolic.sources import Source
from symbolic.variables.base import MISSING, Identity, Variable, lookup
from symbolic.variables.constants import ConstantVariable, is_a, is_constant_value, is_none_of
from symbolic.variables.native import (
    ORDERINGS,
    IteratorVariable,
    Method,
    NativeVariable,
    each,
    hash_key,
    is_hashed_by_identity,
    raise_with,
)
from symbolic.variables.positions import native_part
from symbolic.variables.unread import Veiled

if TYPE_CHECKING:
    from symbolic.translator import Translator

OPERATORS = {
    operator.or_: "union",
    operator.and_: "intersection",
    operator.sub: "difference",
    operator.xor: "symmetric_difference",
}
_IN_PLACE = {
    operator.ior: "union",
    operator.iand: "intersection",
    operator.isub: "difference",
    operator.ixor: "symmetric_difference",
}


_CHANGED = "order of an existing set that the frame changed"
_ITEM_BY_ITEM = ("union", "difference")


class _Pulled:
    """Keys that are asked for one by one: sets leave off where they know the answer. `taken` are those so far."""

    def __init__(self, keys: Iterator[Any]) -> None:
        self.keys = keys
        self.taken: list[Any] = []

    def __iter__(self) -> Iterator[Any]:
        for key in self.keys:
            self.taken.append(key)
            yield key


class HasOrder:
    """elements are as they were, in this order: the predicate of a guard"""

    def __init__(self, elements: Iterable[Any]) -> None:
        self.elements = list(elements)
        self.__doc__ = f"order {self.elements!r}"

    def __call__(self, container: Any) -> bool:
        kind = next(kind for kind in (set, frozenset) if isinstance(container, kind))
        found = list(kind.__iter__(container))
        return len(found) == len(self.elements) and all(
            a is b or (type(a) is type(b) and a == b) for a, b in zip(found, self.elements, strict=True)
        )


@functools.cache
def membership(kind: Any, is_exact: bool, answer: bool) -> Callable[[tuple[Any, Any]], bool]:
    """Whether an object is in a set of this kind, whatever a derived class says: the predicate of a guard, of both."""
    contains = kind.__contains__
    if is_exact:  # the usual ones, in less time

        def holds(both: tuple[Any, Any]) -> bool:
            return (both[0] in both[1]) is answer

    else:
        def holds(both: tuple[Any, Any]) -> bool:
            return contains(both[1], both[0]) is answer

    holds.written = lambda item, container: f"{item} {'in' if answer else 'not in'} {container}"  # type: ignore
    return holds


@dataclass(frozen=True)
class Place:
    """An existing set in a recipe: its number among those that `make` and `change` are called with."""

    number: int


@dataclass(frozen=True)
class Recipe:
    """How a set was made: by `history`, methods of `cls` with their operands, from an empty one or that of the step
    "from". Those that answer with a set go on with that."""

    cls: type
    history: tuple[tuple[str, tuple[Any, ...]], ...]

    def make(self, *existing: Any) -> Any:
        steps = [(name, _made(operands, existing)) for name, operands in self.history]
        made: Any = self.cls()
        if steps and steps[0][0] == "from":
            _, (made,) = steps.pop(0)
        elif self.cls is frozenset:  # made of its elements at once
            first = [operands[0] for name, operands in itertools.takewhile(lambda step: step[0] == "add", steps)]
            if not first and steps and steps[0][0] == "update":
                made, first = frozenset(steps[0][1][0]), [None]
            else:
                made = frozenset(first)
            del steps[: len(first)]
        for name, operands in steps:
            answer = getattr(self.cls, name)(made, *operands)
            made = made if answer is None or name == "pop" else answer
        return made

    def change(self, target: Any, *existing: Any) -> None:
        """`target`, of this or a derived class, goes through the same methods; overridden ones are not run."""
        for name, operands in self.history:
            getattr(self.cls, name)(target, *_made(operands, existing))

    def is_in_place(self) -> bool:
        """Whether no method makes another set."""
        return not any(name == "copy" or name in OPERATORS.values() for name, _ in self.history)

    def is_plain(self) -> bool:
        """Whether all elements that it tells of are known."""
        return all(_is_plain(name, operand) for name, operands in self.history for operand in operands)

    def existing(self) -> list[SetVariable]:
        """The existing sets that it reads."""
        found: list[SetVariable] = []
        self.placed(found)
        return found

    def placed(self, existing: list[SetVariable]) -> Recipe:
        """The same with places for existing sets, which are added to the list."""

        def place(operand: Any) -> Any:
            if isinstance(operand, Recipe):
                return operand.placed(existing)
            if not isinstance(operand, SetVariable):
                return operand
            existing.append(operand)
            return Place(len(existing) - 1)

        return Recipe(self.cls, tuple((name, tuple(map(place, operands))) for name, operands in self.history))


def _made(operands: Iterable[Any], existing: Sequence[Any]) -> list[Any]:
    def made(operand: Any) -> Any:
        if isinstance(operand, Recipe):
            return operand.make(*existing)
        return existing[operand.number] if isinstance(operand, Place) else operand

    return [made(operand) for operand in operands]


def _is_plain(name: str, operand: Any) -> bool:
    """A frozenset among the elements may stand for the very object that was added, or for one of a derived class."""
    if is_a(operand, Recipe):
        return bool(operand.is_plain())
    if is_a(operand, SetVariable):
        return True
    holds = name not in ("add", "discard", "remove") and type(operand) in (set, frozenset, dict, list)
    return all(
        is_a(element, type) or (is_constant_value(element) and not is_a(element, frozenset))
        for element in (operand if holds else (operand,))
    )


class HasElements:
    """elements are as they were: the predicate of a guard"""

    def __init__(self, elements: Iterable[Any]) -> None:
        self.elements = _exactly(elements)
        self.__doc__ = f"elements {set(elements)!r}"

    def __call__(self, container: Any) -> bool:
        return _exactly(set().union(container)) == self.elements  # as they are, whatever the set's class says


def _exactly(elements: Iterable[Any]) -> frozenset[Any]:
    """Something equal for the same elements only: `1`, `True` and `1.0` are equal, as are the zeros."""
    return frozenset(map(_exact, elements))


def _exact(value: Any) -> tuple[type, Any]:
    if type(value) is tuple:
        return tuple, tuple(map(_exact, value))
    if type(value) is frozenset:
        return frozenset, _exactly(value)
    return type(value), repr(value) if type(value) in (float, complex) else value


def _is_dict(variable: Variable) -> bool:
    return isinstance(variable, NativeVariable) and issubclass(variable.python_type(), dict)


def _is_stable(variable: Variable) -> bool:
    """Whether the value has the same hash each time, so that a set of such has the same order each time."""
    return variable.is_constant() or isinstance(variable.real(), type)


def _sets_among(others: Iterable[Variable]) -> list[SetVariable]:
    return [theirs for theirs in map(native_part, others) if isinstance(theirs, SetVariable)]


def _told(others: Iterable[Variable], operands: Iterable[Any]) -> tuple[Any, ...]:
    """Operands as a history has them: as they are now, new sets by how they were made, existing ones themselves."""
    sets = {id(theirs.table): theirs for theirs in _sets_among(others)}
    return tuple([_now(operand, sets.get(id(operand))) for operand in operands])


def _now(operand: Any, variable: SetVariable | None) -> Any:
    if variable is not None and variable.source is not None and not variable.is_ordered():
        return variable
    recipe = variable.recipe() if variable is not None else None
    if recipe is not None:
        return recipe
    return copy.copy(operand) if type(operand) in (set, dict, list) else operand


class _Head(ctypes.Structure):
    """How CPython lays out a set: `finger` is where `pop()` looks first."""

    _fields_: ClassVar[Any] = [
        *((name, ctypes.c_ssize_t) for name in ("references", "kind", "fill", "used", "mask")),
        ("table", ctypes.c_void_p), ("hash", ctypes.c_ssize_t), ("finger", ctypes.c_ssize_t),
    ]  # fmt: skip


class _Slot(ctypes.Structure):
    """A place in its table; of one whose element has gone the hash is -1."""

    _fields_: ClassVar[Any] = [("element", ctypes.c_void_p), ("hash", ctypes.c_ssize_t)]


def popped_first(container: Any) -> int:
    """The place, in the order of iteration, of the element that `pop()` gives."""
    head = _Head.from_address(id(container))
    slots = (_Slot * (head.finger & head.mask)).from_address(head.table)
    before = sum(slot.element is not None and slot.hash != -1 for slot in slots)
    return before if before < head.used else 0


def _is_laid_out_so() -> bool:
    if ctypes.sizeof(_Head) > set.__basicsize__:
        return False
    known = {1, 2, 3, 9, 17}
    known.discard(2)
    for _ in range(2):
        known.add(2)
        order, at = [*known], popped_first(known)
        if known.pop() != order[at]:
            return False
    return True


#: Whether what `pop()` gives can be read of an existing set.
_POPS_READ = _is_laid_out_so()


class Unread(Sized, Protocol):
    """The elements of an existing set of objects."""

    def has(self, item: Variable) -> bool | None:
        """Whether it is one of them; None where that is to be found among all of them."""

    def read(self) -> dict[Any, Variable]:
        """The elements by their keys."""

    def copied(self) -> tuple[int, ...]:
        """Where the elements of a copy are among them, in the order of iteration. Guarded."""


class SetVariable(Veiled, NativeVariable):
    """A set or frozenset: `items` maps the key of each element to it. Reconstruction reads `items` and `cls`; an
    existing one that was touched has `items` as its new contents.

    `table` is a real set of the keys that goes through the same operations, and so has the order of the program's set
    as long as its elements hash like their keys. `history` has these operations, (method of sets, operands), in order:
    an existing set goes through them as well.

    An existing set of objects is `by_place`: when somebody asks for its elements (they are `unread` before), they are
    read in the order of iteration, whatever that is. Of an unread one it is known what the frame added or discarded
    that is hashed by identity, and whether it is there: `changes`, by key. `came` are the elements of an existing set
    before the frame: where a history can't tell of them, the set discards and adds those that are others.

    How an existing set lies in memory is not known, so the order of what is made of several of its elements isn't. The
    residual code does the same with the real one. Where that has changed, or the frame asks for the order, is a break
    at the step where it was made, `unordered_at`."""

    HOLDS = ("items", "history", "changes")
    items: dict[Any, Variable]
    table: set[Any]

    def __init__(
        self,
        items: dict[Any, Variable],
        source: Source | None = None,
        cls: type = set,
        value: Any = MISSING,
        unread: Unread | None = None,
        existing: Any = MISSING,
    ) -> None:
        self.unread = self.places = unread
        self.existing = existing
        self.by_place = unread is not None
        self.changes: dict[Any, tuple[Variable, bool]] = {}
        self.came: dict[Any, Variable] = {}
        self.source = source
        self.cls = cls
        self.value = value
        self.state = 0
        self.owner: Any = None  # the ObjectVariable whose native part this is
        self.history: list[tuple[str, tuple[Any, ...]]] = []
        self.unordered_at: int | None = None
        #: An existing set of objects that this is a copy of, and how long the history was then.
        self.copy_of: tuple[SetVariable, int] | None = None
        self.is_order_known = False  # as it is for such a copy, once somebody has asked for it
        self.first_popped_at: int | None = None
        if unread is None:
            self.came = dict(items) if source is not None else {}
            self._fill(items)

    def _fill(self, items: dict[Any, Variable]) -> None:
        self.items, self.table = items, set()
        for key in items:  # set(items) would make a larger table, in another order
            self.table.add(key)

    def __getattr__(self, name: str) -> Any:
        unread = vars(self).get("unread") if name in ("items", "table") else None
        if unread is None:
            return super().__getattr__(name)
        self.came, self.unread = unread.read(), None
        self._fill(_changed(self.came, self.changes))
        return vars(self)[name]

    def is_constant(self) -> bool:
        return self.cls is frozenset and not self.by_place and all(item.is_constant() for item in self.items.values())

    def constant(self) -> Any:
        return frozenset(item.constant() for item in self.items.values()) if self.is_constant() else super().constant()

    def key(self) -> Any:
        return frozenset(self.items) if self.cls is frozenset else Identity(self)

    def reachable(self) -> list[Variable]:
        return list(self.items.values()) if self.unread is None else [item for item, _ in self.changes.values()]

    def keeps(self) -> list[Variable]:
        return list(self.items.values()) if self.unread is None else []

    def since(self, before: SetVariable | None) -> tuple[list[Variable], list[Variable]]:
        """The elements to discard and those to add, in this order, to come from what it was `before` (None: before the
        frame) to this."""
        if self.unread is not None:
            done = before.changes if before is not None else {}
            changes = [change for key, change in self.changes.items() if done.get(key) != change]
            return [item for item, is_in in changes if not is_in], [item for item, is_in in changes if is_in]
        if before is not None and before.unread is None:
            was = dict.fromkeys(before.items.values())
        else:
            was = dict.fromkeys(_changed(self.came, before.changes if before is not None else {}).values())
        now = dict.fromkeys(self.items.values())
        return [item for item in was if item not in now], [item for item in now if item not in was]

    def steps(self, done: int) -> list[tuple[str, Variable]]:
        """What it has done since then, pops among it, each with its element (of a pop this set stands there). Raises
        Restart for what it does not know the elements of any more."""
        known = {**self.came, **{key: item for key, (item, _) in self.changes.items()}, **self.items}
        found = []
        for name, operands in self.history[done:]:
            item = self if name == "pop" else known.get(operands[0]) if name in ("add", "discard") else None
            if item is None:
                assert self.first_popped_at is not None
                raise Restart(self.first_popped_at, GraphBreak(_CHANGED, self.describe()))
            found.append((name, item))
        return found

    def takes(self, before: SetVariable | None = None) -> str:
        changes = zip(("difference_update", "update"), self.since(before), strict=True)
        done = [f"{self}.{name}([{', '.join(map(str, items))}])" for name, items in changes if items]
        return "; ".join(done) or f"{self}.update()"

    def native(self) -> type:
        return frozenset if issubclass(self.cls, frozenset) else set

    # --- elements ---------------------------------------------------------------------------------------------------
    def add(self, tx: Translator, item: Variable) -> None:
        if self._takes_unread(item):
            return self._change(tx, item, True)
        key = hash_key(tx, item)
        if key not in self.items:
            self.keep(tx)
            self.items[key] = item
            self.act("add", [], key)
            self.changed(tx)

    def _takes_unread(self, *items: Variable) -> bool:
        """Whether it may be changed by these without being read."""
        return self.unread is not None and all(map(is_hashed_by_identity, items))

    def _change(self, tx: Translator, item: Variable, is_in: bool) -> None:
        key = hash_key(tx, item)
        if self.changes.get(key) != (item, is_in):
            self.keep(tx)
            self.changes[key] = item, is_in
            self.history.append(("add" if is_in else "discard", (key,)))
            self.changed(tx)

    def act(self, name: str, others: Iterable[Variable], *operands: Any) -> None:
        """A method of the set; `others` are the variables of operands that are sets."""
        self.history.append((name, _told(others, operands)))
        getattr(self.table, name)(*operands)

    def recipe(self) -> Recipe | None:
        """How a set that is new, and of known elements, was made."""
        if self.source is not None:
            return None
        found = Recipe(self.native(), tuple(self.history))
        return found if found.is_plain() else None

    def keep(self, tx: Translator) -> None:
        """It is about to change. (A frozenset that is being made was nothing before.)"""
        if self.native() is set:
            tx.ledger.keep(self)

    def changed(self, tx: Translator) -> None:
        self.state += 1
        if self.native() is set:
            tx.ledger.touch(self)

    def drop(self, tx: Translator, item: Variable) -> bool:
        if self._takes_unread(item) and (was_in := self._has_unread(tx, item)) is not None:
            if was_in:
                self._change(tx, item, False)
            return was_in
        key = self.key_of(tx, item)
        if key not in self.items:
            return False
        self.keep(tx)
        del self.items[key]
        self.act("discard", [], key)
        self.changed(tx)
        return True

    def _has_unread(self, tx: Translator, item: Variable) -> bool | None:
        if self.unread is None:
            return None
        change = self.changes.get(hash_key(tx, item)) if self.changes and is_hashed_by_identity(item) else None
        return change[1] if change is not None else self.unread.has(item)

    def key_of(self, tx: Translator, item: Variable) -> Any:
        """The key to look up: a set that has no hash is found by the frozenset of its elements."""
        theirs = native_part(item)
        if isinstance(theirs, SetVariable) and theirs.cls is set and item.python_type().__hash__ is None:
            return frozenset(theirs.items)
        return hash_key(tx, item)

    def ordered(self, tx: Translator) -> list[Variable]:
        """The elements in the order of iteration."""
        if len(self.items) < 2 or (self.by_place and not tx.ledger.touched(self)):
            return list(self.items.values())
        if (keys := self._as_copied()) is not None:
            return [self.items[key] for key in keys]
        if self.source is None and not all(map(_is_stable, self.items.values())):
            raise GraphBreak("order of a set of objects", self.describe())
        if self.source is None:
            self.check_order()
            return [self.items[key] for key in self.table]
        if not self._only_loses():
            raise GraphBreak(_CHANGED, self.describe())
        if not self.by_place:
            elements = [item.constant() if item.is_constant() else item.real() for item in self.came.values()]
            tx.know(self.source, "predicate", HasOrder(elements))
        return list(self.items.values())

    def _only_loses(self, since: int = 0) -> bool:
        """Whether what it has done since then leaves the elements where they are in memory."""
        return all(name in ("pop", "discard") for name, _ in self.history[since:])

    def _popped(self, tx: Translator) -> Any:
        """The key of the element that `pop()` gives of an existing set: the next one of those that it had from the
        place on where it looked first before the frame."""
        if not self._only_loses() or not _POPS_READ or self.existing is MISSING or self.owner is not None:
            raise GraphBreak(_CHANGED, self.describe())
        assert self.source is not None
        self.ordered(tx)
        first = popped_first(self.existing)
        tx.know(self.source.step("call", popped_first), "eq", first)
        keys = list(self.came)
        return next(key for key in keys[first:] + keys[:first] if key in self.items)

    def _as_copied(self) -> list[Any] | None:
        """The keys, of a copy from which elements were taken, in the order of iteration."""
        if self.copy_of is None or not self._only_loses(self.copy_of[1]):
            return None
        existing = self.copy_of[0]
        assert existing.places is not None
        keys = list(existing.came)
        self.is_order_known = True
        return [keys[at] for at in existing.places.copied() if keys[at] in self.items]

    def check_order(self) -> None:
        """Raises Restart where nobody knows the order of the elements, but it is one that eager code has each time, or
        that the frame has asked for."""
        is_one = self.is_order_known or all(map(_is_stable, self.items.values()))
        if self.unordered_at is not None and len(self.items) > 1 and is_one:
            raise Restart(self.unordered_at, GraphBreak("order of a set made of an existing one", self.describe()))

    def is_ordered(self) -> bool:
        return len(self.items) < 2 or (self.source is None and self.unordered_at is None)

    def update(self, tx: Translator, iterable: Variable) -> None:
        """Adds the elements, those before a failure included."""
        if _comes_at_once(iterable):
            return self.combine_in_place(tx, "union", [native_part(iterable)])
        for item in each(tx, iterable):
            self.add(tx, item)

    def keys_in(self, tx: Translator, iterable: Variable) -> tuple[Any, dict[int, Variable]]:
        """The keys of another operand, in a container of the kind that makes the real set act alike; and by identity of
        the key the variables that have them."""
        theirs = native_part(iterable)
        if isinstance(theirs, SetVariable):
            return theirs.table, {id(key): item for key, item in theirs.items.items()}
        if isinstance(theirs, ConstantVariable) and isinstance(theirs.value, frozenset):
            return theirs.value, {id(value): tx.from_constant(value) for value in theirs.value}
        if _is_dict(iterable):
            names = iterable.names(tx)  # type: ignore[attr-defined]
            return dict.fromkeys(names), {id(key): item for key, item in names.items()}
        return self._pulled(tx, iterable)

    def _pulled(self, tx: Translator, iterable: Variable) -> tuple[Any, dict[int, Variable]]:
        """The same of what is iterated, one by one."""
        found: dict[int, Variable] = {}

        def keys() -> Iterator[Any]:
            for item in each(tx, iterable):
                key = hash_key(tx, item)
                found[id(key)] = item
                yield key

        return _Pulled(keys()), found

    def combined(self, tx: Translator, name: str, others: Sequence[Variable]) -> SetVariable:
        """The new set that the method `name` makes of this one and other iterables."""
        asked = [self.keys_in(tx, other) for other in others]
        table = getattr(self.table, name)(*(keys for keys, _ in asked))
        operands = _taken(asked)
        made = SetVariable({}, cls=self.native())
        so_far = self.history if self.source is None else [("from", (_now(self.native()(self.table), self),))]
        made.history = [*so_far, (name, _told(others, [keys for keys, _ in operands]))]
        if not all(operand.is_ordered() for operand in (self, *_sets_among(others))):
            made.unordered_at = tx.anchor()
        made.take(table, [self.keys_in(tx, self), *operands])
        if name == "copy":
            made.is_copy(tx, self)
        return made

    def combine_in_place(self, tx: Translator, name: str, others: Sequence[Variable]) -> None:
        asked = [self.keys_in(tx, other) for other in others]
        pull = self.table.intersection if name == "intersection" else _pull
        pull(*(keys for keys, _ in asked))
        operands = _taken(asked)
        items = [item for _, variables in operands for item in variables.values()]
        if name in _ITEM_BY_ITEM and self._takes_unread(*items):
            for item in items:
                self._change(tx, item, name == "union")
            return
        before = [self.keys_in(tx, self)[1]]
        is_copied = name == "union" and len(others) == 1 and not self.items and self.source is None
        if not all(operand.is_ordered() for operand in _sets_among(others)):
            self.unordered_at = tx.anchor()
        self.keep(tx)
        self.act("update" if name == "union" else f"{name}_update", others, *(keys for keys, _ in operands))
        # Room is made for all that another set has, which is a new order, before it shows that all are there.
        makes_room = any(keys and not isinstance(keys, list) for keys, _ in operands)
        if operands and (len(self.items) != len(self.table) or name != "union" or makes_room):
            self.take(self.table, [(None, before[0]), *operands])
            self.changed(tx)
        for theirs in _sets_among(others) if is_copied else ():
            self.is_copy(tx, theirs)

    def drop_each(self, tx: Translator, iterable: Variable) -> None:
        """`difference_update`: what is taken before a failure is dropped."""
        if _comes_at_once(iterable):
            return self.combine_in_place(tx, "difference", [iterable])
        for item in each(tx, iterable):
            self.drop(tx, item)
        if not self._takes_unread():
            self.act("difference_update", [], [])  # which looks whether there is too much room
            self.take(self.table, [self.keys_in(tx, self)])

    def is_copy(self, tx: Translator, existing: SetVariable) -> None:
        """It has been made of that one."""
        if existing.by_place and existing.owner is None and not tx.ledger.touched(existing):
            self.copy_of = existing, len(self.history)

    def take(self, table: set[Any], operands: list[tuple[Any, dict[int, Variable]]]) -> None:
        """These are the keys now; the variables are found among those of the operands."""
        pool: dict[int, Variable] = {}
        for _, variables in reversed(operands):
            pool.update(variables)
        self.table = table
        self.items = {key: pool[id(key)] for key in table}

    # --- protocol ---------------------------------------------------------------------------------------------------
    def length(self, tx: Translator) -> int:
        return len(self.items if self.unread is None or self.changes else self.unread)

    def truth(self, tx: Translator) -> bool:
        return self.length(tx) != 0

    def contains(self, tx: Translator, item: Variable) -> bool:
        if (is_in := self._has_unread(tx, item)) is not None:
            return is_in
        if is_none_of(tx, item, self.items.values()):
            return False
        return self.key_of(tx, item) in self.items

    def iterator(self, tx: Translator) -> Variable:
        return SetIterator(self, self.ordered(tx))

    def unpack(self, tx: Translator) -> list[Variable]:
        return self.ordered(tx)

    def binary(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        theirs = set_of(tx, other)
        if theirs is None:
            return None
        if op in ORDERINGS:
            return tx.from_constant(op(self.table, theirs.table))
        name = OPERATORS.get(op)
        return self.combined(tx, name, [theirs]) if name is not None else None

    def rbinary(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        # A frozenset that is a constant is no SetVariable.
        left = set_of(tx, other)
        return left.binary(tx, op, self) if left is not None and isinstance(other, ConstantVariable) else None

    def reflected(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        left = set_of(tx, other)
        return left.binary(tx, op, self) if left is not None else None

    def inplace(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        theirs = set_of(tx, other)
        if theirs is None or op not in _IN_PLACE or self.native() is frozenset:
            return None
        self.combine_in_place(tx, _IN_PLACE[op], [theirs])
        return self

    # --- methods ----------------------------------------------------------------------------------------------------
    def do___init__(self, tx: Translator, iterable: Variable | None = None, /) -> None:
        if self.native() is set:
            self.do_clear(tx)
            if iterable is not None:
                self.update(tx, iterable)

    def do_add(self, tx: Translator, item: Variable, /) -> None:
        self.add(tx, item)

    def do_discard(self, tx: Translator, item: Variable, /) -> None:
        if self._takes_unread(item):
            return self._change(tx, item, False)
        self.drop(tx, item)

    def do_remove(self, tx: Translator, item: Variable, /) -> None:
        if not self.drop(tx, item):
            raise_with(tx, KeyError, item)

    def do_pop(self, tx: Translator, /) -> Variable:
        if not self.items:
            self.misuse(tx, set().pop)
        if len(self.items) > 1 and self.source is None:
            self.ordered(tx)
        first = self._popped(tx) if len(self.items) > 1 and self.source is not None else MISSING
        if first is MISSING and (copied := self._as_copied()):
            first = copied[0]
        self.keep(tx)
        key = self.table.pop() if first is MISSING else first  # it notes where the next one looks first
        self.table.discard(key)
        self.history.append(("pop", ()))
        self.first_popped_at = tx.anchor() if self.first_popped_at is None else self.first_popped_at
        item = self.items.pop(key)
        self.changed(tx)
        return item

    def do_clear(self, tx: Translator, /) -> None:
        self.keep(tx)
        self.items.clear()
        self.act("clear", [])
        self.changed(tx)

    def do_copy(self, tx: Translator, /) -> Variable:
        itself = self.cls is frozenset and self.owner is None
        return self if itself else self.combined(tx, "copy", [])

    def do___copy__(self, tx: Translator, /) -> Variable:
        return self.do_copy(tx)

    def do_update(self, tx: Translator, /, *others: Variable) -> None:
        for other in others:
            self.update(tx, other)


def _changed(items: dict[Any, Variable], changes: dict[Any, tuple[Variable, bool]]) -> dict[Any, Variable]:
    found = dict(items)
    for key, (item, is_in) in changes.items():
        if is_in:
            found.setdefault(key, item)
        else:
            found.pop(key, None)
    return found


def set_of(tx: Translator, variable: Variable) -> SetVariable | None:
    """A set operand of an operator; other iterables are none."""
    theirs = native_part(variable)
    if isinstance(theirs, SetVariable):
        return theirs
    if isinstance(theirs, ConstantVariable) and isinstance(theirs.value, frozenset):
        made = SetVariable({}, cls=frozenset)
        made.take(set(theirs.value), [made.keys_in(tx, theirs)])
        return made
    return None


def _combining(name: str, in_place: bool) -> Callable[..., Variable | None]:
    def run(self: SetVariable, tx: Translator, /, *others: Variable) -> Variable | None:
        if not in_place:
            return self.combined(tx, name, others)
        if name == "difference":
            for other in others:
                self.drop_each(tx, other)
        else:
            self.combine_in_place(tx, name, others)
        return None

    def one(self: SetVariable, tx: Translator, other: Variable, /) -> Variable | None:
        return run(self, tx, other)

    return one if name == "symmetric_difference" else run


def _asking(name: str) -> Callable[..., Variable]:
    def run(self: SetVariable, tx: Translator, other: Variable, /) -> Variable:
        is_iterated = name == "isdisjoint" and lookup(other.python_type(), "__iter__") not in _ITERS
        keys, _ = (self._pulled if is_iterated else self.keys_in)(tx, other)
        return tx.from_constant(getattr(self.table, name)(keys))

    return run


def _comes_at_once(iterable: Variable) -> bool:
    """Whether its elements are there, hashed, with nothing of the program's to run between them."""
    is_set = issubclass(native_part(iterable).python_type(), set | frozenset)
    return is_set or isinstance(iterable, ConstantVariable) or _is_dict(iterable)


def _pull(*operands: Any) -> None:
    for keys in operands:
        if isinstance(keys, _Pulled):
            list(keys)


def _taken(operands: list[tuple[Any, dict[int, Variable]]]) -> list[tuple[Any, dict[int, Variable]]]:
    return [(keys.taken if isinstance(keys, _Pulled) else keys, variables) for keys, variables in operands]


_ITERS = (set.__iter__, frozenset.__iter__)
SetVariable.METHODS.update({name: Method(_combining(name, False)) for name in OPERATORS.values()})
SetVariable.METHODS.update(
    {f"{name}_update": Method(_combining(name, True)) for name in OPERATORS.values() if name != "union"}
)
SetVariable.METHODS.update({name: Method(_asking(name)) for name in ("issubset", "issuperset", "isdisjoint")})


class SetIterator(IteratorVariable):
    """iter(set): `elements` in order when it began, `index` the next one. `set` is None when it is exhausted."""

    STATE = ("set", "elements", "index")
    KIND: ClassVar[type] = type(iter(set()))

    def __init__(self, set: SetVariable, elements: list[Variable], index: int = 0) -> None:
        self.set: SetVariable | None = set
        self.elements = elements
        self.index = index
        self.state = set.state

    def next(self, tx: Translator) -> Variable | None:
        if self.set is None:
            return None
        if len(self.set.items) != len(self.elements):
            tx.raise_(RuntimeError, "Set changed size during iteration")
        if self.index >= len(self.elements):
            self.set = None
            return None
        if self.set.state != self.state:
            raise GraphBreak("elements changed during iteration", self.set.describe())
        self.index += 1
        return self.elements[self.index - 1]

    def keeps(self) -> list[Variable]:
        return [self.set] if self.set is not None else []

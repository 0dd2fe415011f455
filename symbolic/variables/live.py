"""Iterators that existed before the frame: they go on where they stand, and stay as far on as the frame moved them.

Where an iterator stands is guarded. What the frame takes from it is found by the variable for an iterator of its kind
(`model`), made of what it holds; the residual code then moves the real one by as many steps. One that holds others
and has a state of its own (`enumerate`) takes their steps along; `zip` and `map` have none, so only what they iterate
moves.
"""

from __future__ import annotations

import ast
import gc
import itertools
import operator
from array import array
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from symbolic import versions
from symbolic.errors import GraphBreak
from symbolic.sources import Source
from symbolic.variables import iterators
from symbolic.variables.base import Variable
from symbolic.variables.buffers import BufferVariable
from symbolic.variables.constants import ConstantVariable, is_constant_value
from symbolic.variables.containers import SequenceVariable
from symbolic.variables.live_generators import LiveGenerator, held_value, repeated_step, step, tell
from symbolic.variables.mappings import DictVariable, SetVariable
from symbolic.variables.native import IteratorVariable
from symbolic.variables.positions import native_part

if TYPE_CHECKING:
    from symbolic.translator import Translator


class LiveIterator(IteratorVariable):
    """An existing iterator; `inner` are those that it is made of. `reached` is what its steps may move or look at
    besides itself: containers that can change, and what iterators in it reach. The frame first moved it at the step
    `born_at`."""

    def __init__(self, value: Any, source: Source, model: IteratorVariable, row: Row, inner: list[Variable]) -> None:
        self.value = value
        self.source = source
        self.model = model
        self.row = row
        self.inner = inner
        walked = (getattr(model, name, None) for name in ("sequence", "dict", "walked"))
        self.reached: set[Variable] = {each for each in walked if each is not None}
        self.born_at = 0

    def python_type(self) -> type:
        return type(self.value)

    def reachable(self) -> list[Variable]:
        return []  # it holds what it held

    def is_quiet(self) -> bool:
        """Whether a step runs none of the user's code."""
        live = (LiveIterator, LiveGenerator)
        return self.row.quiet and all(isinstance(each, live) and each.is_quiet() for each in self.inner)

    def next(self, tx: Translator) -> Variable | None:
        if not self.row.moves:
            return self.model.next(tx)
        self.born_at = self.born_at or tx.anchor()
        item = (step if self.is_quiet() else repeated_step)(tx, self, self.model)
        tell(tx, self)
        return item


class LiveChain(iterators.ChainIterator):
    """The model of an existing chain: the iterables it comes to are known only then."""

    def begin(self, tx: Translator, iterable: Variable) -> Variable:
        walks = isinstance(iterable, _WALKED) and iterable.python_type() in _WALKED_TYPES
        if not walks and not (isinstance(iterable, LiveIterator) and iterable.is_quiet()):
            raise GraphBreak("existing iterator over what runs code", iterable.describe())
        assert tx.moving is not None
        tx.moving.reached.add(iterable)
        return super().begin(tx, iterable)


class LiveCalls(iterators.CallableIterator):
    """The model of an existing `iter(function, sentinel)`, whose real one is not moved."""

    def next(self, tx: Translator) -> Variable | None:
        was_ended = self.function is None
        item = super().next(tx)
        if item is None and not was_ended:
            raise GraphBreak("existing iterator that ends", "by what its function gives")
        return item


class LiveElements(IteratorVariable):
    """The model of an existing iterator over a set, `walked`: the elements that it has to come."""

    def __init__(self, values: list[Any], walked: list[Variable]) -> None:
        self.values = values
        self.walked = walked[0] if walked else None

    def next(self, tx: Translator) -> Variable | None:
        return tx.from_constant(self.values.pop(0)) if self.values else None


@dataclass(frozen=True)
class Row:
    """How iterators of one type are read: `state` says where one stands, in constants, `held` what it holds; both are
    asked at each call. `make(tx, state, held)` is the model. `quiet`: a step runs no code by itself. `moves`: it has a
    state of its own."""

    state: Callable[[Any], Any]
    held: Callable[[Any], tuple[Any, ...]]
    make: Callable[[Any, Any, list[Any]], IteratorVariable]
    quiet: bool = True
    moves: bool = True


def wrap_iterator(tx: Translator, value: Any, source: Source) -> Variable:
    row = ROWS[type(value)]
    tx.know(source, "type", type(value))
    state, parts = row.state(value), row.held(value)
    if state is None:
        raise GraphBreak("iterator whose state can't be read", source.text)
    tx.know(source.step("call", row.state), "eq", state)
    place = source.step("call", row.held)
    if parts:
        tx.know(place, "len", len(parts))
    wrap = tx.wrap if row.quiet else partial(held_value, tx)
    held = [wrap(part, place.step("index", position)) for position, part in enumerate(parts)]
    inner = [part for part, own in zip(held, parts, strict=True) if hasattr(type(own), "__next__")]
    return LiveIterator(value, source, row.make(tx, state, held), row, inner)


#: containers whose iterators run no code
_WALKED = (SequenceVariable, BufferVariable, DictVariable, SetVariable, ConstantVariable)
_WALKED_TYPES = (list, tuple, bytearray, array, dict, set, frozenset, str, bytes, range)


# --- states and parts: asked at each call -----------------------------------------------------------------------------
def position(iterator: Any) -> int:
    """The index of the next element, -2 for an exhausted iterator (one that goes backwards may stand at -1)."""
    found = iterator.__reduce__()[2:]
    return found[0] if found else -2


def walked(iterator: Any) -> tuple[Any, ...]:
    """The sequence, if the iterator is not exhausted."""
    parts = iterator.__reduce__()
    return parts[1] if len(parts) > 2 else ()


def remaining(iterator: Any) -> range:
    _, (numbers,), index = iterator.__reduce__()
    return numbers[index or 0 :]


def count_of(iterator: Any) -> int:
    return iterator.__reduce__()[1][1]


def is_strict(iterator: Any) -> bool:
    return len(iterator.__reduce__()) > 2


def nothing(iterator: Any) -> tuple[Any, ...]:
    return ()


def always(iterator: Any) -> int:
    return 0


def arguments(iterator: Any) -> tuple[Any, ...]:
    """What it was made of."""
    return iterator.__reduce__()[1]


def calls(iterator: Any) -> tuple[Any, ...]:
    """The function and the sentinel; nothing of an exhausted one."""
    found = arguments(iterator)
    return found if len(found) == 2 else ()


def call_count(iterator: Any) -> int:
    return len(calls(iterator))


def first_argument(iterator: Any) -> tuple[Any, ...]:
    return iterator.__reduce__()[1][:1]


def parts_of(iterator: Any) -> tuple[Any, ...]:
    """What it holds besides its class."""
    return tuple(each for each in gc.get_referents(iterator) if each is not type(iterator))


def pair_parts(iterator: Any) -> tuple[Any, ...]:
    """The iterator in it and the item before, if there was one; nothing of an exhausted one."""
    found = parts_of(iterator)
    return found[: len(found) - _OF_ITS_OWN]


def count_parts(iterator: Any) -> int:
    return len(pair_parts(iterator))


#: how many a `pairwise` has beside these
_OF_ITS_OWN = len(parts_of(itertools.pairwise(()))) - 1


def zipped(iterator: Any) -> tuple[Any, ...]:
    """Its iterators, those that have ended as (), and what is given for these."""
    _, iterators, fill = iterator.__reduce__()
    return (*iterators, fill)


def has_ended(iterator: Any) -> tuple[bool, ...]:
    """Which of its iterators have ended."""
    return tuple(type(each) is tuple for each in iterator.__reduce__()[1])


def keys_left(iterator: Any) -> int | None:
    """How many entries of its dict are to come, if they are the dict's last ones; -1 for an exhausted iterator."""
    owners = walked_dict(iterator)
    if not owners:
        return -1
    try:
        left = list(iterator.__reduce__()[1][0])
    except RuntimeError:
        return None
    kind, turn = _DICT_ITERATORS[type(iterator)]
    last = list(turn(getattr(dict, kind)(owners[0])))[dict.__len__(owners[0]) - len(left) :]
    same = _same_pairs if kind == "items" else operator.is_
    return len(left) if all(map(same, left, last)) else None


def ordered_state(iterator: Any) -> tuple[str, bool, int] | None:
    """Which view of its OrderedDict it walks, whether backwards, and how many entries are to come; None where these
    do not tell."""
    try:
        left = list(iterator.__reduce__()[1][0])
    except RuntimeError:  # its dict has changed
        return None
    owners = walked_dict(iterator) if left else ()
    if not owners:
        return "keys", False, 0
    found = []
    for kind, turn in _DICT_ITERATORS.values():
        whole = list(turn(getattr(OrderedDict, kind)(owners[0])))
        same = _same_pairs if kind == "items" else operator.is_
        if len(left) <= len(whole) and all(map(same, left, whole[len(whole) - len(left) :])):
            found.append((kind, turn is reversed, len(left)))
    return found[0] if len({kind for kind, *_ in found}) == 1 else None


def elements_left(iterator: Any) -> tuple[Any, ...] | None:
    """What an iterator over a set has to come, if these are constants."""
    try:
        left = iterator.__reduce__()[1][0]
    except RuntimeError:  # its set has changed
        return None
    return tuple((type(each).__name__, each) for each in left) if all(map(is_constant_value, left)) else None


def walked_set(iterator: Any) -> tuple[Any, ...]:
    return tuple(each for each in gc.get_referents(iterator) if type(each) in (set, frozenset))[:1]


def _same_pairs(a: Any, b: Any) -> bool:
    return type(a) is tuple and len(a) == 2 and a[0] is b[0] and a[1] is b[1]


def walked_dict(iterator: Any) -> tuple[Any, ...]:
    return tuple(each for each in gc.get_referents(iterator) if isinstance(each, dict))[:1]


def times_left(iterator: Any) -> int:
    """-1 without end"""
    try:
        return iterator.__length_hint__()
    except TypeError:
        return -1


def repeated(iterator: Any) -> tuple[Any, ...]:
    return tuple(gc.get_referents(iterator)[-1:])


def slice_state(iterator: Any) -> tuple[Any, ...]:
    """(next wanted, stop, step, taken)"""
    parts = iterator.__reduce__()
    return (*parts[1][1:], parts[2]) if len(parts[1]) == 4 else (0, 0, 1, 0)


def cycle_state(iterator: Any) -> int:
    """-1 while items come from the iterator in it, then the index of the next saved one."""
    _, (inner,), (_, again) = iterator.__reduce__()
    if not again:
        return -1
    at = position(inner)
    if type(at) is not int:  # its `__setstate__` was called
        raise GraphBreak("iterator whose state can't be read", "itertools.cycle")
    return max(at, 0)


def cycled(iterator: Any) -> tuple[Any, ...]:
    """The iterator in it, if that goes on, and the items saved."""
    _, (inner,), (saved, again) = iterator.__reduce__()
    return tuple(saved) if again else (inner, *saved)


def came_upon(iterator: Any) -> bool:
    """Whether a takewhile has stopped, or a dropwhile begun."""
    return bool(iterator.__reduce__()[2])


def chain_state(iterator: Any) -> int:
    """How many iterators it has: that of iterables, and the current one."""
    return len(chained(iterator))


def chained(iterator: Any) -> tuple[Any, ...]:
    parts = iterator.__reduce__()
    return parts[2] if len(parts) > 2 else ()


def accumulated(iterator: Any) -> str | None:
    """What its parts are."""
    *parts, _ = parts_of(iterator)
    walks = [hasattr(type(each), "__next__") for each in parts]
    if len(parts) == 2 and all(walks):
        return None
    names = ["iterator", "total"] if walks[0] and len(parts) < 3 else ["function", "iterator", "total"]
    return " ".join([*names[: len(parts)], "initial"])


# --- models -----------------------------------------------------------------------------------------------------------
def _walk(kind: type[iterators.SequenceIterator], native: type) -> Callable[[Any, Any, list[Any]], IteratorVariable]:
    def make(tx: Translator, state: int, held: list[Any]) -> IteratorVariable:
        empty = tx.new_list([]) if native is list else tx.new_tuple([])
        walked = native_part(held[0]) if held else empty
        if not isinstance(walked, (SequenceVariable, BufferVariable)):
            raise GraphBreak("iterator over a sequence of a user's class", held[0].describe())
        made = kind(walked, state)
        made.sequence = walked if held else None
        return made

    return make


def _set(tx: Translator, left: Any, held: list[Any]) -> IteratorVariable:
    return LiveElements([value for _, value in left], held)


def _backwards(tx: Translator, state: int, held: list[Any]) -> IteratorVariable:
    walked = native_part(held[0]) if held else None
    if isinstance(walked, ConstantVariable):
        return iterators.ReversedText(walked.value, state)
    return _walk(iterators.ReversedIterator, tuple)(tx, state, held)


def _constants(tx: Translator, state: int, held: list[Any]) -> IteratorVariable:
    return iterators.ConstantIterator(native_part(held[0]).constant() if held else "", max(state, 0))


def _dict(kind: str, backwards: bool) -> Callable[[Any, Any, list[Any]], IteratorVariable]:
    def make(tx: Translator, left: int, held: list[Any]) -> IteratorVariable:
        owner = native_part(held[0]) if held else tx.new_dict([])
        if not isinstance(owner, DictVariable):
            raise GraphBreak("iterator over a dict of a user's class", owner.describe())
        names = list(owner.names(tx).items())[:: -1 if backwards else 1]
        made = iterators.DictIterator(owner, kind, names, len(names) - max(left, 0), backwards)
        made.dict = owner if held else None
        return made

    return make


def _ordered(tx: Translator, state: tuple[str, bool, int], held: list[Any]) -> IteratorVariable:
    kind, backwards, left = state
    return _dict(kind, backwards)(tx, left, held if left else [])


def _count(tx: Translator, text: str, held: list[Any]) -> IteratorVariable:
    numbers = ast.literal_eval(text.removeprefix("count"))
    value, step = numbers if isinstance(numbers, tuple) else (numbers, 1)
    return iterators.CountIterator(ConstantVariable(value), ConstantVariable(step))


def _enumerate(tx: Translator, state: int, held: list[Any]) -> IteratorVariable:
    return iterators.EnumerateIterator(held[0], ConstantVariable(state))


def _counted(iterator: Any) -> str | None:
    """`count(value)` or `count(value, step)`, of numbers"""
    if not all(type(each) in (int, float, complex) for each in parts_of(iterator)):
        return None  # whose text may be the program's
    text = repr(iterator)
    try:
        ast.literal_eval(text.removeprefix("count"))
    except (ValueError, SyntaxError):
        return None
    return text


def _cycle(tx: Translator, state: int, held: list[Any]) -> IteratorVariable:
    return iterators.CycleIterator(held[0], held[1:]) if state < 0 else iterators.CycleIterator(None, held, state)


def _chain(tx: Translator, state: int, held: list[Any]) -> IteratorVariable:
    return LiveChain(*held[:2]) if held else LiveChain(None)


def _pairs(tx: Translator, state: int, held: list[Any]) -> IteratorVariable:
    return iterators.PairwiseIterator(*held) if held else iterators.PairwiseIterator(None)


def _longest(tx: Translator, ended: tuple[bool, ...], held: list[Any]) -> IteratorVariable:
    left = [None if over else each for each, over in zip(held, ended, strict=False)]
    return iterators.ZipLongestIterator(left, held[-1])


def _of_function(make: Any, several: bool = False) -> Callable[[Any, Any, list[Any]], IteratorVariable]:
    return lambda tx, state, held: make(held[0], held[1:] if several else held[1])


def _accumulate(tx: Translator, state: str, held: list[Any]) -> IteratorVariable:
    found = dict(zip(state.split(), held, strict=True))
    return iterators.AccumulateIterator(**found)


def _getitem(tx: Translator, state: int, held: list[Any]) -> IteratorVariable:
    return iterators.GetitemIterator(held[0] if held else None, state)


def _until(make: Any) -> Callable[[Any, Any, list[Any]], IteratorVariable]:
    return lambda tx, met, held: make(*held, met)


def _of_iterator(make: Any) -> Callable[[Any, Any, list[Any]], IteratorVariable]:
    return lambda tx, state, held: make(held[1], held[0])


_DICT_ITERATORS: dict[type, tuple[str, Callable[[Any], Any]]] = {
    type(turn(getattr({}, kind)())): (kind, turn) for kind in ("keys", "values", "items") for turn in (iter, reversed)
}
ROWS: dict[type, Row] = {
    type(iter([])): Row(position, walked, _walk(iterators.SequenceIterator, list)),
    type(iter(())): Row(position, walked, _walk(iterators.SequenceIterator, tuple)),
    type(reversed([])): Row(position, walked, _walk(iterators.ReversedIterator, list)),
    type(reversed(())): Row(position, walked, _backwards),
    type(iter(bytearray())): Row(position, walked, _walk(iterators.SequenceIterator, bytearray)),
    type(iter(array("b"))): Row(position, walked, _walk(iterators.SequenceIterator, array)),
    type(iter("")): Row(position, walked, _constants),
    type(iter("\u1234")): Row(position, walked, _constants),
    type(iter(b"")): Row(position, walked, _constants),
    type(iter(range(0))): Row(remaining, nothing, lambda tx, state, held: iterators.ConstantIterator(state)),
    enumerate: Row(count_of, first_argument, _enumerate),
    zip: Row(is_strict, arguments, lambda tx, state, held: iterators.ZipIterator(held, state), moves=False),
    map: Row(always, arguments, _of_function(iterators.MapIterator, several=True), quiet=False, moves=False),
    filter: Row(always, arguments, _of_function(iterators.FilterIterator), quiet=False, moves=False),
    **{
        cls: Row(keys_left, walked_dict, _dict(kind, turn is reversed)) for cls, (kind, turn) in _DICT_ITERATORS.items()
    },
    type(iter(OrderedDict())): Row(ordered_state, walked_dict, _ordered),
    iterators.CallableIterator.KIND: Row(
        call_count, calls, lambda tx, state, held: LiveCalls(*held or (None, None)), quiet=False, moves=False
    ),
    type(iter({0})): Row(elements_left, walked_set, _set),
    itertools.count: Row(_counted, nothing, _count),
    itertools.pairwise: Row(count_parts, pair_parts, _pairs),
    itertools.compress: Row(always, parts_of, lambda tx, state, held: iterators.CompressIterator(*held), moves=False),
    itertools.starmap: Row(always, parts_of, _of_iterator(iterators.StarmapIterator), quiet=False, moves=False),
    itertools.filterfalse: Row(always, parts_of, _of_iterator(iterators.FilterfalseIterator), quiet=False, moves=False),
    itertools.accumulate: Row(accumulated, parts_of, _accumulate, quiet=False),
    iterators.GetitemIterator.KIND: Row(position, walked, _getitem, quiet=False),
    itertools.repeat: Row(
        times_left,
        repeated,
        lambda tx, state, held: iterators.RepeatIterator(held[0], None if state < 0 else state),
    ),
}
if not versions.PY312:  # later Pythons warn when these are asked for their state
    ROWS.update(
        {
            itertools.islice: Row(
                slice_state, first_argument, lambda tx, state, held: iterators.IsliceIterator(held[0], *state)
            ),
            itertools.cycle: Row(cycle_state, cycled, _cycle),
            itertools.chain: Row(chain_state, chained, _chain),
            itertools.zip_longest: Row(has_ended, zipped, _longest),
            itertools.takewhile: Row(came_upon, arguments, _until(iterators.TakewhileIterator), quiet=False),
            itertools.dropwhile: Row(came_upon, arguments, _until(iterators.DropwhileIterator), quiet=False),
        }
    )

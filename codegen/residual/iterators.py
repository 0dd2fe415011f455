"""How iterators that a break leaves half-way are made again: each by the Python that would have made it, moved on."""

from __future__ import annotations

import itertools
import operator
from array import array
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from codegen.residual.writer import BUILD, Emit, Writer
from symbolic import versions
from symbolic.errors import GraphBreak, Restart
from symbolic.reach import exists
from symbolic.variables import containers, iterators, mappings
from symbolic.variables.base import Variable
from symbolic.variables.objects import ObjectVariable

_END = object()
_GROUP: Any = iterators.GroupIterator.KIND


# --- called by residual code ------------------------------------------------------------------------------------------
def native(value: Any) -> Any:
    """The built-in type of a container: what a user's class calls by the names of its methods is not run here."""
    return next((kind for kind in _NATIVE if isinstance(value, kind)), type(value))


_NATIVE = (list, tuple, bytearray, array, deque, OrderedDict, dict, set, frozenset)


def _begin(items: Any) -> Iterator[Any]:
    found: Iterator[Any] = native(items).__iter__(items) if isinstance(items, _NATIVE) else iter(items)
    return found


def _begin_at_end(items: Any) -> Iterator[Any]:
    found: Iterator[Any] = list.__reversed__(items) if isinstance(items, list) else reversed(items)
    return found


def sequence(items: Any, index: int) -> Iterator[Any]:
    """iter(items), `index` elements on"""
    return _standing(_begin, items, index) if index else _begin(items)


def constant(value: Any, index: int) -> Iterator[Any]:
    """The same of a value that is no container, which past its end is exhausted"""
    there_is_one = bool(value[index : index + 1])  # a range may be longer than `len` can say
    return sequence(value, index) if there_is_one else advance(sequence(value, len(value)), index > len(value))


def backwards(items: Any, index: int) -> Iterator[Any]:
    """reversed(items), standing at `index`"""
    return _standing(_begin_at_end, items, index)


def _standing(make: Callable[[Any], Any], items: Any, index: int) -> Iterator[Any]:
    missing = [None] * (index + 1 - list.__len__(items)) if isinstance(items, list) else []
    if missing:  # it may stand past the end of a list that became shorter
        list.extend(items, missing)
    made = make(items)
    made.__setstate__(index)
    if missing:
        list.__delitem__(items, slice(-len(missing), None))
    return made


def advance(made: Iterator[Any], count: int) -> Iterator[Any]:
    for _ in range(count):
        next(made, _END)
    return made


def exhausted(empty: Any) -> Iterator[Any]:
    return advance(iter(empty), 1)


def view(owner: Any, kind: str) -> Any:
    return getattr(native(owner), kind)(owner)


def dict_iterator(owner: Any, kind: str, index: int, reverse: bool) -> Iterator[Any]:
    made = view(owner, kind)
    return advance(reversed(made) if reverse else iter(made), index)


def pack(*items: Any) -> tuple[Any, ...]:
    return items


def star(function: Callable[..., Any], arguments: tuple[Any, ...], named: tuple[tuple[str, Any], ...]) -> Any:
    return function(*arguments, **dict(named))


def chain_in(active: Any, rest: Any) -> Iterator[Any]:
    """A chain that stands inside `active`, the first of its iterables, which copies of it share."""
    return advance(itertools.chain.from_iterable(itertools.chain([itertools.chain((True,), active)], rest)), 1)


def cycle(source: Any, saved: list[Any], index: int) -> Iterator[Any]:
    made = itertools.cycle(itertools.chain(saved, source))
    again = (index or len(saved)) if source == () else 0  # in the first round it has not come upon the end
    return advance(made, len(saved) + again)


def accumulate(source: Any, function: Any, total: Any) -> Iterator[Any]:
    if total is None:  # which as the initial value would be none
        return advance(itertools.accumulate(itertools.chain((total,), source), function), 1)
    return advance(itertools.accumulate(source, function, initial=total), 1)


def combined(
    function: Any, pools: Sequence[Any], counts: tuple[Any, ...], options: tuple[tuple[str, Any], ...], index: int
) -> Iterator[Any]:
    return advance(function(*pools, *counts, **dict(options)), index)


class Nothing:
    """A sequence without elements."""

    def __getitem__(self, index: int) -> Any:
        raise IndexError(index)


class Given:
    """An iterable that has been asked for its iterator."""

    def __init__(self, iterator: Any) -> None:
        self.iterator = iterator

    def __iter__(self) -> Any:
        return self.iterator


def accumulate_from(source: Any, function: Any, initial: Any) -> Iterator[Any]:
    return itertools.accumulate(source, function, initial=initial)


def paired(source: Any, previous: Any) -> Iterator[Any]:
    """A pairwise that has read one item"""
    return itertools.pairwise(itertools.chain((previous,), source))


def grouped(source: Any, function: Any, current: Any, value: tuple[Any, ...], target: Any) -> Iterator[Any]:
    """A groupby that has read an item, `value` if it was not given yet, with the key `current`; the group that it gave
    last has the key `target`."""
    made: Any = itertools.groupby(source, function)
    made.__setstate__((current, value[0] if value else None, target))
    if not value:
        next(group(made, current))
    return made


def group(parent: Any, target: Any) -> Iterator[Any]:
    """A group, while it may still read on"""
    made: Iterator[Any] = _GROUP(parent, target)
    return made


def left_group(target: Any) -> Iterator[Any]:
    """One whose groupby has gone on"""
    parent: Any = itertools.groupby(())
    made = group(parent, target)
    group(parent, target)
    return made


def zip_longest(fill: Any, *sources: Any) -> Iterator[Any]:
    return itertools.zip_longest(*sources, fillvalue=fill)


def exhausted_call() -> Iterator[Any]:
    return advance(iter(int, 0), 1)


def stopped() -> Iterator[Any]:
    """A takewhile that has met what it stops at."""
    return advance(itertools.takewhile(operator.not_, (True,)), 1)


def dropped(source: Any) -> Iterator[Any]:
    """A dropwhile that has dropped what there was to drop."""
    return advance(itertools.dropwhile(operator.not_, itertools.chain((True,), source)), 1)


# --- the table --------------------------------------------------------------------------------------------------------
def _source(w: Writer, iterator: Any) -> Any:
    """An iterator for what would ask it for itself once more, which one of the program's may notice."""
    if not isinstance(iterator, ObjectVariable):
        return iterator if iterator is not None else ()
    return Emit(lambda: w.call(Given, iterator))


def _tuple(w: Writer, items: Any) -> Emit:
    return Emit(lambda: w.load_tuple(items))


def _sources(w: Writer, items: Any) -> Emit:
    return Emit(lambda: w.call(pack, *(_source(w, item) for item in items)))


def _star(w: Writer, function: Any, items: Any, **named: Any) -> None:
    w.call(star, function, _sources(w, items), tuple(named.items()))


_EMPTY: dict[type, Any] = {list: [], tuple: (), bytearray: bytearray(), array: array("b")}


def _sequence(w: Writer, v: Any) -> None:
    if v.sequence is None:
        w.call(exhausted, _EMPTY[v.native_sequence])
    else:
        w.call(sequence, v.sequence, v.index)


def _reversed(w: Writer, v: Any) -> None:
    if v.sequence is None:
        w.call(advance, Emit(lambda: w.call(reversed, _EMPTY[v.native_sequence])), 1)
    else:
        w.call(backwards, v.sequence, v.index)


def _reversed_text(w: Writer, v: Any) -> None:
    if v.value is None:
        w.call(advance, Emit(lambda: w.call(reversed, ())), 1)
    else:
        w.call(backwards, v.value, v.index)


def _map(w: Writer, v: Any) -> None:
    emit = w.emit
    emit.begin_call()
    emit.const(map)
    emit.end_callable()
    w.load(v.function)
    for iterator in v.iterators:
        w.push(_source(w, iterator))
    emit.call(1 + len(v.iterators))


def _chain(w: Writer, v: Any) -> None:
    if v.iterables is None:
        w.call(advance, Emit(lambda: w.call(itertools.chain)), 1)
    elif v.active is None:
        w.call(itertools.chain.from_iterable, _source(w, v.iterables))
    else:
        w.call(chain_in, _source(w, v.active), _source(w, v.iterables))


def _islice(w: Writer, v: Any) -> None:
    stop = None if v.stop is None else max(v.stop - v.position, 0)
    if v.source_iterator is None:
        w.call(itertools.islice, (), 0)
    else:
        w.call(itertools.islice, _source(w, v.source_iterator), max(v.wanted - v.position, 0), stop, v.step)


def _takewhile(w: Writer, v: Any) -> None:
    if v.stopped:
        w.call(stopped)
    else:
        w.call(itertools.takewhile, v.function, _source(w, v.source_iterator))


def _dropwhile(w: Writer, v: Any) -> None:
    if v.started:
        w.call(dropped, _source(w, v.source_iterator))
    else:
        w.call(itertools.dropwhile, v.function, _source(w, v.source_iterator))


def _dict(w: Writer, v: Any) -> None:
    if v.dict is None:
        w.call(dict_iterator, Emit(lambda: w.call(OrderedDict if v.ordered else dict)), v.kind, 1, v.backwards)
    elif v.dict.state != v.state:
        raise Restart(v.born_at, GraphBreak("dict changed while it is iterated", v.dict.describe()))
    else:
        w.call(dict_iterator, v.dict, v.kind, v.index, v.backwards)


def _getitem(w: Writer, v: Any) -> None:
    if v.sequence is None:
        w.call(exhausted, Emit(lambda: w.call(Nothing)))
    else:
        w.call(sequence, v.sequence, v.index)


def _accumulate(w: Writer, v: Any) -> None:
    if v.total is not None:
        w.call(accumulate, _source(w, v.source_iterator), v.function, v.total)
    elif v.initial is not None:
        w.call(accumulate_from, _source(w, v.source_iterator), v.function, v.initial)
    else:
        w.call(itertools.accumulate, _source(w, v.source_iterator), v.function)


def _pairwise(w: Writer, v: Any) -> None:
    if v.previous is None:
        w.call(itertools.pairwise, _source(w, v.source_iterator))
    else:
        w.call(paired, _source(w, v.source_iterator), v.previous)


def _zip_longest(w: Writer, v: Any) -> None:
    made = Emit(lambda: w.call(zip_longest, v.fill, *(_source(w, each) for each in v.iterators)))
    w.call(advance, made, 0 if any(v.iterators) else 1)


def _deque(w: Writer, v: Any) -> None:
    _check_unchanged(w, v, v.deque)
    w.call(v.python_type(), v.deque, v.index)


def _set(w: Writer, v: Any) -> None:
    if v.set is None:
        w.call(exhausted, Emit(lambda: w.call(set)))
    else:
        _check_unchanged(w, v, v.set)
        w.call(advance, Emit(lambda: w.call(sequence, v.set, 0)), v.index)


def _check_unchanged(w: Writer, v: Any, owner: Variable) -> None:
    """Raises Restart where it would be made of what has changed since, or changes after it is made."""
    later = w.ledger.touched(owner) if exists(owner) else len(w.ledger.states(owner)) > 1 or owner in w._cyclic
    if owner.state != v.state or later:  # type: ignore[attr-defined]
        raise Restart(0, GraphBreak("value can't be rebuilt", v.describe()))


def _callable(w: Writer, v: Any) -> None:
    if v.function is None:
        w.call(exhausted_call)
    else:
        w.call(iter, v.function, v.sentinel)


def _groupby(w: Writer, v: Any) -> None:
    function = v.function if v.function is not None else None
    if v.current is None:
        w.call(itertools.groupby, _source(w, v.source_iterator), function)
    elif versions.PY312:  # which warns when it is told a state
        raise Restart(0, GraphBreak("value can't be rebuilt", v.describe()))
    else:
        value = () if v.value is None else (v.value,)
        w.call(grouped, _source(w, v.source_iterator), function, v.current, _tuple(w, value), v.target)


def _group(w: Writer, v: Any) -> None:
    if v.parent.group is v:
        w.call(group, v.parent, v.target)
    else:
        w.call(left_group, v.target)


def _combined(w: Writer, v: Any) -> None:
    w.call(combined, v.function, _tuple(w, v.pools), v.counts, v.options, v.index)


BUILD.update(
    {
        containers.SequenceIterator: _sequence,
        containers.ReversedIterator: _reversed,
        iterators.ConstantIterator: lambda w, v: w.call(constant, v.value, v.index),
        iterators.ReversedText: _reversed_text,
        iterators.ZipIterator: lambda w, v: _star(w, zip, v.iterators, strict=v.strict),
        iterators.EnumerateIterator: lambda w, v: w.call(enumerate, _source(w, v.source_iterator), v.count),
        iterators.MapIterator: _map,
        iterators.FilterIterator: lambda w, v: w.call(filter, v.function, _source(w, v.source_iterator)),
        iterators.FilterfalseIterator: lambda w, v: w.call(
            itertools.filterfalse, v.function, _source(w, v.source_iterator)
        ),
        iterators.ChainIterator: _chain,
        iterators.CountIterator: lambda w, v: w.call(itertools.count, v.value, v.step),
        iterators.RepeatIterator: lambda w, v: w.call(
            itertools.repeat, v.element, *(() if v.times is None else (v.times,))
        ),
        iterators.CycleIterator: lambda w, v: w.call(
            cycle, _source(w, v.source_iterator), Emit(lambda: w.load_list(v.saved)), v.index
        ),
        iterators.IsliceIterator: _islice,
        iterators.AccumulateIterator: _accumulate,
        iterators.CombinedIterator: _combined,
        iterators.TakewhileIterator: _takewhile,
        iterators.DropwhileIterator: _dropwhile,
        iterators.StarmapIterator: lambda w, v: w.call(
            itertools.starmap, v.function, _source(w, v.source_iterator)
        ),
        iterators.GetitemIterator: _getitem,
        iterators.DequeIterator: _deque,
        iterators.SetIterator: _set,
        iterators.PairwiseIterator: _pairwise,
        iterators.ZipLongestIterator: _zip_longest,
        iterators.CompressIterator: lambda w, v: w.call(
            itertools.compress, _source(w, v.data), _source(w, v.selectors)
        ),
        iterators.CallableIterator: _callable,
        iterators.GroupbyIterator: _groupby,
        iterators.GroupIterator: _group,
        mappings.DictIterator: _dict,
        mappings.DictViewVariable: lambda w, v: w.call(view, v.dict, v.kind),
    }
)

"""Library functions in plain Python, traced like user code: they call back into it, and a break there can resume.

Each does what the native one does, in the same order, down to the message of its exceptions; and lets go of an item
before it asks for the next one.
"""

from __future__ import annotations

import builtins
import operator
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from types import FunctionType, GenericAlias, SimpleNamespace, UnionType
from typing import Any

import torch
from torch._functorch import vmap
from torch.distributions import constraints


class Absent:
    """Marks an argument that was not given."""


ABSENT: Any = Absent()


def _empty(fn: Any) -> str:
    """What this Python says of an empty iterable."""
    try:
        fn(())
    except ValueError as error:
        return str(error)
    raise AssertionError(fn)


MAX_EMPTY = _empty(builtins.max)
MIN_EMPTY = _empty(builtins.min)


def any(iterable: Iterable[Any], /) -> bool:
    for item in iterable:
        if item:
            return True
        del item
    return False


def all(iterable: Iterable[Any], /) -> bool:
    for item in iterable:
        if not item:
            return False
        del item
    return True


def max(*args: Any, key: Any = None, default: Any = ABSENT) -> Any:
    if len(args) > 1:
        if default is not ABSENT:
            raise TypeError("Cannot specify a default for max() with multiple positional arguments")
        candidates = args
    else:
        candidates = args[0]
    best = best_rank = ABSENT
    for candidate in candidates:
        rank = candidate if key is None else key(candidate)
        if best is ABSENT or rank > best_rank:
            best, best_rank = candidate, rank
        del candidate, rank
    if best is not ABSENT:
        return best
    if default is ABSENT:
        raise ValueError(MAX_EMPTY)
    return default


def min(*args: Any, key: Any = None, default: Any = ABSENT) -> Any:
    if len(args) > 1:
        if default is not ABSENT:
            raise TypeError("Cannot specify a default for min() with multiple positional arguments")
        candidates = args
    else:
        candidates = args[0]
    best = best_rank = ABSENT
    for candidate in candidates:
        rank = candidate if key is None else key(candidate)
        if best is ABSENT or rank < best_rank:
            best, best_rank = candidate, rank
        del candidate, rank
    if best is not ABSENT:
        return best
    if default is ABSENT:
        raise ValueError(MIN_EMPTY)
    return default


def reduce(function: Callable[[Any, Any], Any], iterable: Iterable[Any], initial: Any = ABSENT, /) -> Any:
    try:
        iterator: Any = iter(iterable)
    except TypeError:
        iterator = ABSENT
    if iterator is ABSENT:
        raise TypeError("reduce() arg 2 must support iteration")
    if initial is ABSENT:
        value = next(iterator, ABSENT)
        if value is ABSENT:
            raise TypeError("reduce() of empty iterable with no initial value")
    else:
        value = initial
    while (item := next(iterator, ABSENT)) is not ABSENT:
        value = function(value, item)
    return value


def _searched(sequence: Iterable[Any]) -> Iterator[Any]:
    try:
        return iter(sequence)
    except TypeError:
        pass
    raise TypeError(f"argument of type {type(sequence).__name__!r} is not iterable")


def length_hint(value: Any, default: int, /) -> int:
    """`operator.length_hint` of an object of a class of the program's."""
    if hasattr(type(value), "__len__"):
        try:
            return len(value)
        except TypeError:
            pass
    if not hasattr(type(value), "__length_hint__"):
        return default
    try:
        hint = type(value).__length_hint__(value)
    except TypeError:
        return default
    if hint is NotImplemented:
        return default
    if not isinstance(hint, int):
        raise TypeError(f"__length_hint__ must be an integer, not {type(hint).__name__}")
    if hint < 0:
        raise ValueError("__length_hint__() should return >= 0")
    return hint


def count_of(sequence: Iterable[Any], value: Any, /) -> int:
    count = 0
    iterator = _searched(sequence)
    while (item := next(iterator, ABSENT)) is not ABSENT:
        if item is value or item == value:
            count += 1
        del item
    return count


def index_of(sequence: Iterable[Any], value: Any, /) -> int:
    index = 0
    iterator = _searched(sequence)
    while (item := next(iterator, ABSENT)) is not ABSENT:
        if item is value or item == value:
            return index
        index += 1
        del item
    raise ValueError("sequence.index(x): x not in sequence")


def reversed(sequence: Any, /) -> Iterator[Any]:
    return _backwards(sequence, len(sequence) - 1)


def _backwards(sequence: Any, position: int) -> Iterator[Any]:
    while position >= 0:
        try:
            item = sequence[position]
        except (IndexError, StopIteration):
            return
        yield item
        position -= 1


def tee(iterable: Iterable[Any], n: int = 2, /) -> tuple[Iterator[Any], ...]:
    n = operator.index(n)
    if n < 0:
        raise ValueError("n must be >= 0")
    iterator, link = iter(iter(iterable)), [None, None]
    return tuple([_tee(iterator, link) for _ in range(n)])


def _tee(iterator: Iterator[Any], link: list[Any]) -> Iterator[Any]:
    """Goes along a chain of links (item, next link), which all branches share and each makes longer where it ends."""
    while True:
        if link[1] is None:
            try:
                link[0] = next(iterator)
            except StopIteration:
                return
            link[1] = [None, None]
        item, link = link
        yield item


def batched(iterable: Iterable[Any], n: int, *, strict: bool = False) -> Iterator[tuple[Any, ...]]:
    if n < 1:
        raise ValueError("n must be at least one")
    return _batched(iter(iterable), n, strict)


def _batched(iterator: Iterator[Any], n: int, strict: bool) -> Iterator[tuple[Any, ...]]:
    while batch := tuple(islice(iterator, n)):
        if strict and len(batch) != n:
            raise ValueError("batched(): incomplete batch")
        yield batch


def count_elements(mapping: Any, iterable: Iterable[Any], /) -> None:
    for item in iterable:
        mapping[item] = mapping.get(item, 0) + 1
        del item


def prod(iterable: Iterable[Any], /, *, start: Any = 1) -> Any:
    for item in iterable:
        start = start * item
        del item
    return start


def substitute(replace: Callable[[Any], Any], text: Any, matches: Iterable[Any]) -> Any:
    """What `re.sub` makes of its matches, each of which a function replaces."""
    parts, at = [], 0
    for match in matches:
        start, end = match.span()
        if at < start:
            parts.append(text[at:start])
        part = replace(match)
        if part is not None:
            parts.append(part)
        at = end
    if at < len(text):
        parts.append(text[at:])
    return text[:0].join(parts)


def find_iter(matches: Iterable[Any]) -> Iterator[Any]:
    return iter(partial(next, iter(matches), None), None)


class ComparisonKey:
    """What `functools.cmp_to_key` wraps an element in."""

    __slots__ = ("compare", "obj")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, compare: Callable[[Any, Any], Any], obj: Any) -> None:
        self.compare = compare
        self.obj = obj

    def __lt__(self, other: Any) -> bool:
        return self.compare(self.obj, other.obj) < 0

    def __gt__(self, other: Any) -> bool:
        return self.compare(self.obj, other.obj) > 0

    def __le__(self, other: Any) -> bool:
        return self.compare(self.obj, other.obj) <= 0

    def __ge__(self, other: Any) -> bool:
        return self.compare(self.obj, other.obj) >= 0

    def __eq__(self, other: Any) -> bool:
        return self.compare(self.obj, other.obj) == 0


def bisect_left(a: Any, x: Any, lo: Any = 0, hi: Any = None, *, key: Any = None) -> int:
    return _bisected(lambda item: not item < x, a, operator.index(lo), hi if hi is None else operator.index(hi), key)


def bisect_right(a: Any, x: Any, lo: Any = 0, hi: Any = None, *, key: Any = None) -> int:
    return _bisected(lambda item: x < item, a, operator.index(lo), hi if hi is None else operator.index(hi), key)


def insort_left(a: Any, x: Any, lo: Any = 0, hi: Any = None, *, key: Any = None) -> None:
    _insort(bisect_left, a, x, operator.index(lo), hi if hi is None else operator.index(hi), key)


def insort_right(a: Any, x: Any, lo: Any = 0, hi: Any = None, *, key: Any = None) -> None:
    _insort(bisect_right, a, x, operator.index(lo), hi if hi is None else operator.index(hi), key)


def _bisected(is_before: Callable[[Any], Any], a: Any, lo: int, hi: int | None, key: Any) -> int:
    if lo < 0:
        raise ValueError("lo must be non-negative")
    if hi is None or hi == -1:
        hi = len(a)
    while lo < hi:
        middle = (lo + hi) // 2
        if is_before(a[middle] if key is None else key(a[middle])):
            hi = middle
        else:
            lo = middle + 1
    return lo


def _insort(bisected: Callable[..., int], a: Any, x: Any, lo: int, hi: int | None, key: Any) -> None:
    a.insert(bisected(a, x if key is None else key(x), lo, hi, key=key), x)


def heapify(heap: list[Any], /) -> None:
    for position in range(len(heap) // 2 - 1, -1, -1):
        _up(heap, position, _below)


def heapify_max(heap: list[Any], /) -> None:
    for position in range(len(heap) // 2 - 1, -1, -1):
        _up(heap, position, _above)


def heappush(heap: list[Any], item: Any, /) -> None:
    heap.append(item)
    _down(heap, 0, len(heap) - 1, _below)


def heappop(heap: list[Any], /) -> Any:
    return _popped(heap, _below)


def heappop_max(heap: list[Any], /) -> Any:
    return _popped(heap, _above)


def heapreplace(heap: list[Any], item: Any, /) -> Any:
    return _replaced(heap, item, _below)


def heapreplace_max(heap: list[Any], item: Any, /) -> Any:
    return _replaced(heap, item, _above)


def heappushpop(heap: list[Any], item: Any, /) -> Any:
    return _replaced(heap, item, _below) if heap and heap[0] < item else item


def _below(one: Any, other: Any) -> Any:
    return one < other


def _above(one: Any, other: Any) -> Any:
    """Of a heap that has its greatest item on top: the native ones only ask `<`."""
    return other < one


def _popped(heap: list[Any], is_nearer: Callable[[Any, Any], Any]) -> Any:
    if not heap:
        raise IndexError("index out of range")
    last = heap.pop()
    return _replaced(heap, last, is_nearer) if heap else last


def _replaced(heap: list[Any], item: Any, is_nearer: Callable[[Any, Any], Any]) -> Any:
    if not heap:
        raise IndexError("index out of range")
    top, heap[0] = heap[0], item
    _up(heap, 0, is_nearer)
    return top


def _up(heap: list[Any], start: int, is_nearer: Callable[[Any, Any], Any]) -> None:
    """Takes the child that is nearer to the top up until there is none, then what was at `start` to its place."""
    size, position = len(heap), start
    if position >= size:
        raise IndexError("index out of range")
    while position < size // 2:
        child = 2 * position + 1
        if child + 1 < size:
            child += not _compared(heap, child, child + 1, is_nearer, size)
        heap[child], heap[position] = heap[position], heap[child]
        position = child
    _down(heap, start, position, is_nearer)


def _down(heap: list[Any], start: int, position: int, is_nearer: Callable[[Any, Any], Any]) -> None:
    """Takes parents down until the item fits: two change places at a time, so none is missing where `<` raises."""
    size = len(heap)
    if position >= size:
        raise IndexError("index out of range")
    while position > start:
        parent = (position - 1) // 2
        if not _compared(heap, position, parent, is_nearer, size):
            return
        heap[position], heap[parent] = heap[parent], heap[position]
        position = parent


def _compared(heap: list[Any], one: int, other: int, is_nearer: Callable[[Any, Any], Any], size: int) -> bool:
    answer = bool(is_nearer(heap[one], heap[other]))
    if len(heap) != size:
        raise RuntimeError("list changed size during iteration")
    return answer


class Keywords:
    """Stands in the key of a cache between the arguments by position and those by name."""


def cached(
    function: Callable[..., Any], maxsize: int | None, typed: bool, info: Any, kept: dict[Any, Any], counts: list[int],
    /, *args: Any, **kwargs: Any,
) -> Any:  # fmt: skip
    """A call of `functools.lru_cache(maxsize, typed)(function)`, which keeps the one used last at the end."""
    if maxsize == 0:
        counts[1] += 1
        return function(*args, **kwargs)
    key: Any = args
    if kwargs:
        key += (Keywords,)
        for item in kwargs.items():
            key += item
    if typed:
        key += tuple([type(value) for value in (*args, *kwargs.values())])
    elif len(key) == 1 and type(key[0]) in (int, str):
        key = key[0]
    found = kept.get(key, ABSENT)
    if found is not ABSENT:
        if maxsize is not None:
            del kept[key]
            kept[key] = found
        counts[0] += 1
        return found
    counts[1] += 1
    found = function(*args, **kwargs)
    if maxsize is None:
        kept[key] = found
    elif key not in kept:
        if len(kept) >= maxsize:
            del kept[next(iter(kept))]
        kept[key] = found
    return found


def cache_info(
    function: Any, maxsize: int | None, typed: bool, info: Any, kept: dict[Any, Any], counts: list[int], /
) -> Any:
    return info(counts[0], counts[1], maxsize, len(kept))


def cache_clear(
    function: Any, maxsize: int | None, typed: bool, info: Any, kept: dict[Any, Any], counts: list[int], /
) -> None:
    counts[:] = [0, 0]
    kept.clear()


def step_of_optimizer(step: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    with torch.set_grad_enabled(args[0].defaults["differentiable"]):
        return step(*args, **kwargs)


class Unrecorded:
    """A `record_function` range that no profiler sees."""

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self.args = args

    def __enter__(self) -> Unrecorded:
        return self

    def __exit__(self, *exc: Any) -> None:
        return None


def record_function(name: str, args: str | None = None) -> Unrecorded:
    return Unrecorded(name, args)


def made_by_alias(alias: Any, /, *args: Any, **kwargs: Any) -> Any:
    made = alias.__origin__(*args, **kwargs)
    try:
        made.__orig_class__ = alias
    except (AttributeError, TypeError):
        pass
    return made


def _same_alias(left: Any, right: Any, /) -> bool:
    if left.__unpacked__ != right.__unpacked__:
        return False
    return left.__origin__ == right.__origin__ and left.__args__ == right.__args__


#: type -> whether two of exactly this type are equal
EQUALITIES: dict[type, Callable[[Any, Any], Any]] = {
    GenericAlias: _same_alias,
    UnionType: lambda left, right: set(left.__args__) == set(right.__args__),
    SimpleNamespace: lambda left, right: left.__dict__ == right.__dict__,
}


# --- exceptions -------------------------------------------------------------------------------------------------------
def add_note(error: Any, note: Any, /) -> None:
    if not isinstance(note, str):
        raise TypeError(f"note must be a str, not '{type(note).__name__}'")
    notes = getattr(error, "__notes__", ABSENT)
    if notes is ABSENT:
        error.__notes__ = notes = []
    if not isinstance(notes, list):
        raise TypeError("Cannot add note: __notes__ is not a list")
    notes.append(note)


def derive(group: Any, errors: Any, /) -> Any:
    return BaseExceptionGroup(group.message, errors)


def split(group: Any, condition: Any, /) -> tuple[Any, Any]:
    return _split(group, _matcher(condition))


def subgroup(group: Any, condition: Any, /) -> Any:
    return _split(group, _matcher(condition), False)[0]


def _condition_error() -> str:
    """What this Python says of a condition that is none."""
    try:
        BaseExceptionGroup("", [BaseException()]).split(None)  # type: ignore[call-overload]
    except TypeError as error:
        return str(error)
    raise AssertionError


CONDITION_ERROR = _condition_error()
#: Any callable that is no class, not only a function.
_CALLS_ANY = "callable" in CONDITION_ERROR


def _matcher(condition: Any) -> Callable[[Any], bool]:
    if isinstance(condition, FunctionType) or (_CALLS_ANY and callable(condition) and not isinstance(condition, type)):
        return condition
    kinds = condition if type(condition) is tuple else (condition,)
    for kind in kinds:
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            raise TypeError(CONDITION_ERROR)
    return lambda error: _is_one(error, kinds)


def _is_one(error: Any, kinds: tuple[type, ...]) -> bool:
    """`isinstance`, whatever the metaclass of a kind says."""
    mro = type.mro(type(error))
    return any(kind in mro for kind in kinds)


def _split(error: Any, matches: Callable[[Any], bool], wants_rest: bool = True) -> tuple[Any, Any]:
    """(what matches, the rest if it is wanted), None if there is none."""
    if matches(error):
        return error, None
    if not isinstance(error, BaseExceptionGroup):
        return None, error
    matching, others = [], []
    for each in error.exceptions:
        match, rest = _split(each, matches, wants_rest)
        if match is not None:
            matching.append(match)
        if rest is not None and wants_rest:
            others.append(rest)
    return _part(error, matching), _part(error, others)


def _part(group: Any, errors: list[Any]) -> Any:
    """A group like this one, of some of its exceptions; None if there are none."""
    if not errors:
        return None
    part = group.derive(errors)
    if not isinstance(part, BaseExceptionGroup):
        raise TypeError("derive must return an instance of BaseExceptionGroup")
    part.__traceback__ = group.__traceback__
    part.__context__ = group.__context__
    part.__cause__ = group.__cause__
    notes = getattr(group, "__notes__", ABSENT)
    if isinstance(notes, (list, tuple)):
        part.__notes__ = list(notes)
    return part


#: The class of the constraint.
PositiveDefinite: Any = type(constraints.positive_definite)


def positive_definite(self: Any, value: torch.Tensor) -> torch.Tensor:
    """Whether each matrix is symmetric and, if all are, has a Cholesky factor: torch does not try where one is not."""
    symmetric: torch.Tensor = super(PositiveDefinite, self).check(value)
    if value.shape[-2] != value.shape[-1]:
        return symmetric
    return torch.where(symmetric.all(), torch.linalg.cholesky_ex(value).info.eq(0), symmetric)


def match_group(error: Any, condition: Any) -> tuple[Any, Any]:
    """(the rest, what an `except*` clause handles), None if there is none."""
    kinds = condition if isinstance(condition, tuple) else (condition,)
    for kind in kinds:
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            raise TypeError("catching classes that do not inherit from BaseException is not allowed")
    for kind in kinds:
        if issubclass(kind, BaseExceptionGroup):
            raise TypeError("catching ExceptionGroup with except* is not allowed. Use except instead.")
    if _is_one(error, kinds):
        return None, error if isinstance(error, BaseExceptionGroup) else BaseExceptionGroup("", (error,))
    if not isinstance(error, BaseExceptionGroup):
        return error, None
    pair = error.split(condition)
    if not isinstance(pair, tuple):
        raise TypeError(f"{type(error).__name__}.split must return a tuple, not {type(pair).__name__}")
    if len(pair) < 2:
        raise TypeError(f"{type(error).__name__}.split must return a 2-tuple, got tuple of size {len(pair)}")
    return pair[1], pair[0]


def what_is_left(error: Any, found: list[Any]) -> Any:
    """What is raised after the `except*` clauses, of what they raised and what none of them handled; None: nothing."""
    if not isinstance(error, BaseExceptionGroup):
        return found[0] if found else None
    raised: list[Any] = []
    again: list[Any] = []
    for each in found:
        if each is not None:
            (again if _is_part(each, error) else raised).append(each)
    leaves: list[Any] = []
    for each in again:
        _collect(each, leaves)
    unhandled = _split(error, lambda each: any(each is leaf for leaf in leaves), False)[0] if leaves else None
    if unhandled is not None:
        raised.append(unhandled)
    return BaseExceptionGroup("", raised) if len(raised) > 1 else raised[0] if raised else None


def _is_part(error: Any, group: Any) -> bool:
    return (
        error.__traceback__ is group.__traceback__
        and error.__context__ is group.__context__
        and error.__cause__ is group.__cause__
    )


def _collect(error: Any, leaves: list[Any]) -> None:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            _collect(each, leaves)
    else:
        leaves.append(error)


# --- transforms of functions ------------------------------------------------------------------------------------------
def vmap_in_chunks(
    func: Any, in_dims: Any, out_dims: Any, randomness: str, chunk_size: int, args: Any, kwargs: Any
) -> Any:
    """`torch.vmap(func, in_dims, out_dims, randomness, chunk_size=chunk_size)(*args, **kwargs)`"""
    size, dims, leaves, spec = vmap._process_batched_inputs(in_dims, args, func)
    made = []
    for chunk in vmap._get_chunked_inputs(leaves, dims, size, chunk_size):
        if vmap._validate_and_get_batch_size(dims, list(chunk)):  # what is left at the end is of size 0
            given = vmap.tree_unflatten(list(chunk), spec)
            made.append(vmap.vmap_impl(func, in_dims, out_dims, randomness, None, *given, **kwargs))
    chunks, of_results = vmap._flatten_chunks_output(made)
    return vmap.tree_unflatten(vmap._concat_chunked_outputs(out_dims, of_results, chunks), of_results)  # type: ignore[arg-type]


# --- tracebacks -------------------------------------------------------------------------------------------------------
def print_traceback(self: Any, *, file: Any = None, chain: bool = True, **options: Any) -> None:
    """Of `traceback.TracebackException`. All lines are made before the first is written, which may raise."""
    file = sys.stderr if file is None else file
    for line in list(self.format(chain=chain, **options)):
        print(line, file=file, end="")

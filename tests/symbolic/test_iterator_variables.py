"""Iterator variables give what the iterators give, item by item, also past the end and after a mutation."""

import copy
import itertools
import operator
from collections import OrderedDict, deque

import pytest

from symbolic.errors import GraphBreak, Observed
from symbolic.variables import iterators
from symbolic.variables.base import MISSING
from tests.symbolic.beside import Opaque, Translator, spell, unwrap


def it(tx, value):
    return tx.iter(tx.born(value))


def eager(tx, function, pools, *counts, **options):
    return iterators.combined(tx, function, [tx.born(pool) for pool in pools], *counts, **options)


ITERATORS = {
    "range": (lambda: iter(range(1, 9, 3)), lambda tx: iterators.ConstantIterator(range(1, 9, 3))),
    "zip": (lambda: zip("abc", [1, 2]), lambda tx: iterators.ZipIterator([it(tx, "abc"), it(tx, [1, 2])])),
    "zip nothing": (lambda: zip(), lambda tx: iterators.ZipIterator([])),
    "zip equal": (
        lambda: zip("ab", "cd", strict=True),
        lambda tx: iterators.ZipIterator([it(tx, "ab"), it(tx, "cd")], True),
    ),
    "zip shorter": (
        lambda: zip("abc", "abc", "cd", strict=True),
        lambda tx: iterators.ZipIterator([it(tx, "abc"), it(tx, "abc"), it(tx, "cd")], True),
    ),
    "zip longer": (
        lambda: zip("ab", "ab", "cde", strict=True),
        lambda tx: iterators.ZipIterator([it(tx, "ab"), it(tx, "ab"), it(tx, "cde")], True),
    ),
    "enumerate": (lambda: enumerate("ab", 5), lambda tx: iterators.EnumerateIterator(it(tx, "ab"), tx.born(5))),
    "map": (
        lambda: map(operator.add, [1, 2], [3, 4, 5]),
        lambda tx: iterators.MapIterator(Opaque(operator.add), [it(tx, [1, 2]), it(tx, [3, 4, 5])]),
    ),
    "filter": (
        lambda: filter(str.islower, "aBc"),
        lambda tx: iterators.FilterIterator(Opaque(str.islower), it(tx, "aBc")),
    ),
    "filter none": (lambda: filter(None, [0, 1]), lambda tx: iterators.FilterIterator(tx.born(None), it(tx, [0, 1]))),
    "filterfalse": (
        lambda: itertools.filterfalse(None, [0, 1, ""]),
        lambda tx: iterators.FilterfalseIterator(tx.born(None), it(tx, [0, 1, ""])),
    ),
    "chain": (lambda: itertools.chain("ab", [1], ()), lambda tx: iterators.ChainIterator(it(tx, ("ab", [1], ())))),
    "chain wrong": (lambda: itertools.chain("ab", 5, "c"), lambda tx: iterators.ChainIterator(it(tx, ("ab", 5, "c")))),
    "repeat": (lambda: itertools.repeat(1, 3), lambda tx: iterators.RepeatIterator(tx.born(1), 3)),
    "islice": (
        lambda: itertools.islice("abcdefgh", 1, 6, 2),
        lambda tx: iterators.IsliceIterator(it(tx, "abcdefgh"), 1, 6, 2),
    ),
    "islice stop": (lambda: itertools.islice("abcd", 2), lambda tx: iterators.IsliceIterator(it(tx, "abcd"), 0, 2)),
    "islice none": (lambda: itertools.islice("abcd", 2, 2), lambda tx: iterators.IsliceIterator(it(tx, "abcd"), 2, 2)),
    "islice open": (lambda: itertools.islice("abcd", 1, None), lambda tx: iterators.IsliceIterator(it(tx, "abcd"), 1)),
    "accumulate": (lambda: itertools.accumulate([1, 2, 3]), lambda tx: iterators.AccumulateIterator(it(tx, [1, 2, 3]))),
    "accumulate with": (
        lambda: itertools.accumulate([1, 2], operator.mul, initial=5),
        lambda tx: iterators.AccumulateIterator(it(tx, [1, 2]), Opaque(operator.mul), initial=tx.born(5)),
    ),
    "takewhile": (
        lambda: itertools.takewhile(str.islower, "abCd"),
        lambda tx: iterators.TakewhileIterator(Opaque(str.islower), it(tx, "abCd")),
    ),
    "dropwhile": (
        lambda: itertools.dropwhile(str.islower, "abCd"),
        lambda tx: iterators.DropwhileIterator(Opaque(str.islower), it(tx, "abCd")),
    ),
    "starmap": (
        lambda: itertools.starmap(pow, [(2, 3), [3, 2]]),
        lambda tx: iterators.StarmapIterator(Opaque(pow), it(tx, [(2, 3), [3, 2]])),
    ),
    "pairwise": (lambda: itertools.pairwise("abc"), lambda tx: iterators.PairwiseIterator(it(tx, "abc"))),
    "pairwise one": (lambda: itertools.pairwise("a"), lambda tx: iterators.PairwiseIterator(it(tx, "a"))),
    "zip_longest": (
        lambda: itertools.zip_longest("abc", [1], (), fillvalue=0),
        lambda tx: iterators.ZipLongestIterator([it(tx, "abc"), it(tx, [1]), it(tx, ())], tx.born(0)),
    ),
    "zip_longest nothing": (lambda: itertools.zip_longest(), lambda tx: iterators.ZipLongestIterator([], tx.born(0))),
    "compress": (
        lambda: itertools.compress("abcd", [1, 0, 1]),
        lambda tx: iterators.CompressIterator(it(tx, "abcd"), it(tx, [1, 0, 1])),
    ),
    "product": (lambda: itertools.product("ab", [1, 2]), lambda tx: eager(tx, itertools.product, ["ab", [1, 2]])),
    "product repeat": (
        lambda: itertools.product("ab", repeat=2),
        lambda tx: eager(tx, itertools.product, ["ab"], repeat=2),
    ),
    "permutations": (
        lambda: itertools.permutations("abc", 2),
        lambda tx: eager(tx, itertools.permutations, ["abc"], 2),
    ),
    "combinations": (
        lambda: itertools.combinations("abc", 2),
        lambda tx: eager(tx, itertools.combinations, ["abc"], 2),
    ),
    "combinations wrong": (
        lambda: itertools.combinations("abc", -1),
        lambda tx: eager(tx, itertools.combinations, ["abc"], -1),
    ),
}


def steps(run, advance):
    """What each next() gives, and the first two after the end."""
    seen, ends = [], 0
    try:
        iterator = run()
    except Exception as error:
        return [name_of(error)]
    while ends < 3 and len(seen) < 50:
        try:
            item = advance(iterator)
        except Exception as error:
            item = name_of(error)
        ends += item is MISSING or (isinstance(item, str) and "Error" in item)
        seen.append("end" if item is MISSING else item)
    return seen


def name_of(error):
    error = error.variable.value if isinstance(error, Observed) else error
    return f"{type(error).__name__}{error.args}"


@pytest.mark.parametrize("name", ITERATORS)
def test_iterators(name):
    real, variable = ITERATORS[name]
    tx = Translator()
    expected = steps(real, lambda i: spell(next(i)) if (i := guard_end(i)) is not MISSING else MISSING)
    found = steps(lambda: variable(tx), lambda i: MISSING if (item := tx.next(i)) is None else spell(unwrap(item)))
    assert found == expected
    if name.split()[0] not in ("product", "permutations", "combinations"):
        made = variable(tx)
        assert made.python_type() is type(real())
        assert made.iterator(tx) is made
        assert made.method(tx, "__iter__", [], {}) is made
        # The named state is what the constructor takes.
        again = type(made)(*(getattr(made, attribute) for attribute in made.STATE))
        assert [getattr(again, a) for a in made.STATE] == [getattr(made, a) for a in made.STATE]


class _Peeked:
    def __init__(self, item, rest):
        self.item = item

    def __next__(self):
        return self.item


def guard_end(iterator):
    """The next item held for `next`, MISSING at the end."""
    try:
        return _Peeked(next(iterator), iterator)
    except StopIteration:
        return MISSING


def test_endless_iterators():
    tx = Translator()
    count = iterators.CountIterator(tx.born(1), tx.born(0.5))
    assert [unwrap(tx.next(count)) for _ in range(3)] == list(itertools.islice(itertools.count(1, 0.5), 3))
    cycle = iterators.CycleIterator(it(tx, "ab"))
    assert [unwrap(tx.next(cycle)) for _ in range(5)] == list("ababa")
    assert tx.next(iterators.CycleIterator(it(tx, ""))) is None
    with pytest.raises(GraphBreak):
        tx.born([]).method(tx, "extend", [iterators.RepeatIterator(tx.born(1))], {})


def test_callable_iterator():
    tx = Translator()
    rest = [3, 2, 1]
    iterator = iterators.CallableIterator(Opaque(rest.pop), tx.born(3))
    assert [unwrap(tx.next(iterator)) for _ in range(2)] == [1, 2]
    assert tx.next(iterator) is None and tx.next(iterator) is None

    def stop():
        raise StopIteration

    iterator = iterators.CallableIterator(Opaque(stop), tx.born(3))
    assert tx.next(iterator) is None and iterator.function is None


def test_groupby():
    tx = Translator()
    groups = iterators.GroupbyIterator(it(tx, "aabbbac"), Opaque(str.upper))
    found = []
    while (pair := tx.next(groups)) is not None:
        key, group = pair.items
        found.append((unwrap(key), "".join(unwrap(item) for item in tx.unpack(group))))
    assert found == [(k, "".join(g)) for k, g in itertools.groupby("aabbbac", str.upper)]
    groups = iterators.GroupbyIterator(it(tx, "aabbc"))
    first, second = tx.next(groups), tx.next(groups)
    assert [unwrap(first.items[0]), unwrap(second.items[0])] == ["a", "b"]
    assert tx.next(first.items[1]) is None  # as the groupby has moved on
    assert unwrap(tx.next(second.items[1])) == "b"
    assert unwrap(tx.next(groups).items[0]) == "c"


MUTATIONS = [
    ([1, 2, 3], "append", (4,)),
    ([1, 2, 3], "pop", ()),
    ([1, 2, 3], "clear", ()),
    (deque([1, 2, 3]), "append", (4,)),
    (deque([1, 2, 3]), "clear", ()),
    (deque([1, 2, 3]), "reverse", ()),
    (deque([1, 2, 3]), "rotate", (3,)),
    (deque([1, 2, 3]), "rotate", (1,)),
    (deque([1, 2, 3]), "__setitem__", (0, 7)),
    (deque([1, 2, 3]), "remove", (3,)),
    ({"a": 1, "b": 2}, "__setitem__", ("a", 7)),
    ({"a": 1, "b": 2}, "__setitem__", ("q", 7)),
    ({"a": 1, "b": 2}, "pop", ("b",)),
    ({"a": 1, "b": 2}, "clear", ()),
    (OrderedDict(a=1, b=2), "__setitem__", ("a", 7)),
    (OrderedDict(a=1, b=2), "__setitem__", ("q", 7)),
    (OrderedDict(a=1, b=2), "pop", ("b",)),
    (OrderedDict(a=1, b=2), "move_to_end", ("b",)),
    (OrderedDict(a=1, b=2), "clear", ()),
    ({1, 2}, "add", (9,)),
    ({1, 2}, "add", (1,)),
    ({1, 2}, "discard", (1,)),
    ({1, 2}, "clear", ()),
]


@pytest.mark.parametrize("value, name, args", MUTATIONS, ids=str)
@pytest.mark.parametrize("before", [0, 1, 2, 3])
@pytest.mark.parametrize("backwards", [False, True])
def test_mutation_during_iteration(value, name, args, before, backwards):
    if backwards and isinstance(value, set):
        return
    tx = Translator()
    real, variable = copy.deepcopy(value), tx.born(copy.deepcopy(value))
    real_iterator = reversed(real) if backwards else iter(real)
    iterator = variable.reversed(tx) if backwards else variable.iterator(tx)

    def real_next():
        try:
            return spell(next(real_iterator))
        except StopIteration:
            return "end"
        except Exception as error:
            return name_of(error)

    def variable_next():
        try:
            item = tx.next(iterator)
            return "end" if item is None else spell(unwrap(item))
        except Observed as error:
            return name_of(error)

    for _ in range(before):
        assert variable_next() == real_next()
    getattr(real, name)(*args)
    variable.method(tx, name, [tx.born(arg) for arg in args], {})
    for _ in range(5):
        assert variable_next() == real_next()

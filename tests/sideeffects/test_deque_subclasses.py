"""Deques of a user's class, with methods of their own; what iterators over a deque notice."""
import array
import collections
import copy

import pytest
import torch

import jit
from tests.differential import check, same_as_eager

pytestmark = pytest.mark.break_everywhere


class Told(collections.deque):
    told = 0

    def append(self, item):
        super().append((item, len(self)))
        self.told += 1

    def last(self):
        return self[-1]


class Filled(Told):
    def __init__(self, *items):
        super().__init__(items)
        self.append("init")


class Own(collections.deque):
    def __getitem__(self, index):
        return "own"

    def __len__(self):
        return 7


class Walked(collections.deque):
    def __iter__(self):
        return reversed(list(super().__iter__()))

    def __getitem__(self, index):
        return "got", super().__getitem__(index)


class Short(collections.deque):
    def __len__(self):
        return 2


class Bounded(collections.deque):
    def __init__(self, items=()):
        super().__init__(items, 2)


def appended(x, q):
    q.append(x + 1)
    q.appendleft(0)
    q.extend([7, 8])
    q.rotate(2)
    return q.pop(), q.popleft(), len(q), list(q), q[0]


def made(x, q):
    p = Told([1, 2])
    p.append(x)
    p.note = q
    r = Filled(x, 2)
    return p, r, p.last(), r.told, p.maxlen, isinstance(p, Told)


def written(x, q):
    q[0] = x
    q.note = "n"
    del q[1]
    q.reverse()
    return q


def empty(x, q):
    q.clear()
    q.append(x + 1)
    return bool(q), x + 1


def seen(x, q):
    return [item for item in q], 1 in q, q.index(1), q.count(1), [*reversed(q)], x + 1


def emptied(x, q):
    p = Told()
    while q:
        p.append(q.popleft())
    return p, x + 1


def counted_from_the_end(x, q):
    """Python asks the class for the length that it adds to a negative index."""
    q.append(5)
    q[-1] = 9
    last = q[-2]
    try:
        del q[-2]
    except IndexError as error:
        last = str(error)
    return x + 1, last, bool(q), list(q), len(q)


@pytest.mark.parametrize("make", [Own, Walked, Short])
def test_what_the_class_says_of_itself(make):
    check(counted_from_the_end, make=lambda: (torch.ones(2), make(range(8))), graphs=1)

    def born(x):
        return counted_from_the_end(x, make(range(8)))

    check(born, torch.ones(2), graphs=1)


@pytest.mark.parametrize("program", [appended, made, written, empty, seen, emptied], ids=lambda p: p.__name__)
def test_one_graph(program):
    check(program, make=lambda: (torch.ones(2), Told([1, 2, 3])), graphs=0 if program in (made, written) else 1)


def copied(x, q):
    return q.copy(), copy.copy(q), q + q, q * 2, x + 1


def bounded(x, q):
    p = Bounded([1, 2, 3])
    p.append(x)
    return p, p.maxlen


def initialised_again(x, q):
    q.__init__([5], 1)
    return q, q.maxlen, x + 1


@pytest.mark.parametrize("program", [appended, seen, copied, bounded, written, initialised_again], ids=lambda p: p.__name__)
@pytest.mark.parametrize("make", [Told, Own, Bounded, lambda items: Told(items, 3)], ids=["told", "own", "bounded", "told of 3"])
def test_others(program, make):
    check(program, make=lambda: (torch.ones(2), make([1, 2, 3])))


def test_bounds_are_guarded():
    def program(x, q):
        q.append(5)
        return x + 1, len(q), list(q)
    bounds = [lambda bound=bound: (torch.ones(2), collections.deque([3, 1, 2], bound)) for bound in (None, 3, 5)]
    check(program, make=bounds[0], changed=bounds[1:], graphs=1)


class Numbers(array.array):
    def append(self, item):
        self.last = item
        super().append(item)


class Groups(collections.defaultdict):
    def __setitem__(self, key, value):
        self.last = key
        super().__setitem__(key, value)


class Ordered(collections.OrderedDict):
    def __setitem__(self, key, value):
        self.last = key
        super().__setitem__(key, value)


@same_as_eager(graphs=1, make=lambda: (torch.ones(2),))
def test_others_are_born(x):
    """Of a user's array, defaultdict and OrderedDict, and a deque with a bound of its own."""
    numbers, groups, ordered, bounded = Numbers("l", [1, 2]), Groups(list, q=1), Ordered(a=1), Bounded([1, 2, 3])
    numbers.append(3)
    groups["z"].append(x)
    ordered.update(b=2)
    bounded.append(x)
    return x + 1, numbers, groups, ordered, bounded, repr(numbers), repr(ordered), repr(bounded.copy()), numbers.last, groups.last


CHANGES = {
    "set": lambda q: q.__setitem__(0, 9), "reverse": lambda q: q.reverse(), "rotate": lambda q: q.rotate(),
    "rotate round": lambda q: q.rotate(3), "extend by none": lambda q: q.extend([]), "append": lambda q: q.append(1),
    "once": lambda q: q.__imul__(1), "twice": lambda q: q.__imul__(2), "insert": lambda q: q.insert(1, 5),
    "drop": lambda q: q.__delitem__(0), "clear": lambda q: q.clear(), "there and back": lambda q: q.append(q.pop()),
}  # fmt: skip


def rest(it):
    try:
        return list(it)
    except RuntimeError as error:
        return str(error)


def read_before(x, q, it, change):
    total = sum(q)
    change(q)
    return x + total


def read_after(x, q, it, change):
    next(it)
    change(q)
    return rest(it), x + len(q)


def not_read(x, q, it, change):
    change(q)
    return x + 1


def made_inside(x, q, it, change):
    q = collections.deque(range(len(q)))
    it = iter(q)
    change(q)
    return rest(it), q, x + 1


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("program", [read_before, read_after, not_read, made_inside], ids=lambda p: p.__name__)
def test_iterators_notice_the_same(program, change, size):
    """What replaces elements in place goes unnoticed."""
    found = []
    for run in (program, jit.compile(program, backend="eager")):
        q = collections.deque(range(size))
        it = iter(q)
        try:
            result = run(torch.ones(2), q, it, CHANGES[change])
        except IndexError as error:
            result = str(error)
        found.append(repr((result, q, rest(it))))
    assert found[0] == found[1]

"""Sets and frozensets of a user's class, with methods of their own."""
import copy

import pytest
import torch

import jit
from tests.differential import check

pytestmark = pytest.mark.break_everywhere


class Told(set):
    told = 0

    def add(self, item):
        self.told += 1
        super().add(item)

    def __contains__(self, item):
        return item == 99 or super().__contains__(item)


class Filled(Told):
    def __init__(self, *items):
        super().__init__(items)
        self.add("init")


class Fixed(frozenset):
    def __contains__(self, item):
        return item == 99 or super().__contains__(item)

    def least(self):
        return min(self)


class Noted(frozenset):
    def __new__(cls, items, note):
        self = super().__new__(cls, items)
        self.note = note
        return self

    def __len__(self):
        return 7


class Lying(set):
    def __iter__(self):
        return iter([5])

    def __len__(self):
        return 7

    def __eq__(self, other):
        return True

    __hash__ = None


def asked(x, s):
    return (x + 1, len(s), bool(s), 99 in s, 1 in s, 8 in s, [n for n in s], sorted(s), s.issubset({1, 2}), s >= {1}, s == {1, 2}, s != {1}, isinstance(s, (set, frozenset)),
            copy.copy(s) is s, {**{"k": s}}["k"] is s)


def combined(x, s):
    return x + 1, s | {3}, s & {1}, s - {1}, s ^ {1}, {3} | s, s.union([3]), s.intersection([1]), s.difference([1]), s.symmetric_difference([1]), s.copy(), set(s), frozenset(s)


def written(x, s):
    s.add(4)
    s.add(4)
    s.discard(1)
    s.update([7, 8])
    s |= {9}
    s -= {8}
    s.note = "n"
    try:
        s.remove(77)
    except KeyError as error:
        return x + len(s), s, s.told, str(error), 4 in s


def emptied(x, s):
    s.clear()
    y = x + len(s)
    s.add(5)
    return y, s, s.pop(), s


def made(x, s):
    t = Told([1, 2])
    t.add(x.dim())
    t.note = s
    f = Filled(1, "a")
    g = Fixed(n for n in (3, 1, 2))
    n = Noted([1, 2], "note")
    empty = Fixed()
    return x + g.least(), t, t.told, f, g, n, n.note, len(n), empty, {g: 1}[frozenset([1, 2, 3])], g in {Fixed([1, 2, 3])}, g | {5}, g.copy() is g, 99 in g


class Row(tuple):
    pass


class Number(int):
    pass


def made_of_a_generator(x, s):
    taken = iter([4, 5])
    return x + 1, Row(n for n in (3, 1, 2)), Row(taken), list(taken), Fixed(n for n in "ab"), Row()


def misused(x, s):
    said = []
    for wrong in (lambda: Fixed([1], key=2), lambda: Fixed([1], [2]), lambda: Fixed(5), lambda: Told([1], key=2), lambda: Row([1], key=2), lambda: Fixed([[]])):
        try:
            wrong()
        except Exception as error:
            said.append((type(error), str(error)))
    return x + 1, said, Number("12", base=3)


def dead(x, s):
    t = Told([2, 3])
    t.add(s)
    return x + len(t)


def told(items=(1, 2)):
    return Told(items)


ROWS = [
    *[(program, make) for program in (asked, combined) for make in (told, lambda: Fixed([1, 2]))],
    (written, told), (emptied, told), (made, told), (dead, lambda: 5), (made_of_a_generator, lambda: 5),
    *[(asked, make) for make in (lambda: Noted([1, 2], 3), lambda: Lying([1, 2]))],
]


@pytest.mark.parametrize("program, make", ROWS, ids=lambda p: getattr(p, "__name__", ""))
def test_one_graph(program, make):
    check(program, make=lambda: (torch.ones(2), make()), graphs=1)


def left(x, s):
    return x + 1, str(s), s.nothing if x.dim() == 3 else None, copy.deepcopy(s)


@pytest.mark.parametrize("program", [left, combined, misused], ids=lambda p: p.__name__)
@pytest.mark.parametrize("make", [told, lambda: Fixed("ab"), lambda: Noted([1, 2], 3), lambda: Lying([1, 2]), lambda: Told([object])], ids=["told", "fixed", "noted", "lying", "of types"])
def test_others(program, make):
    check(program, make=lambda: (torch.ones(2), make()))


def length(x, s):
    return x + sum(1 for _ in set.__iter__(s)), 1 in s, True in s


def test_what_it_holds_is_guarded():
    """By the elements, whatever the class makes of equality."""
    check(length, make=lambda: (torch.ones(2), Lying([1, 2])), changed=[lambda: (torch.ones(2), Lying([1, 2, 3])), lambda: (torch.ones(2), Lying())])


def first(x, s):
    return x + 1, list(s), [type(item) for item in s]


def test_equal_elements_of_other_types():
    check(first, make=lambda: (torch.ones(2), Told([1])), changed=[lambda: (torch.ones(2), Told([True])), lambda: (torch.ones(2), Told([1.0]))])


def named_twice(x, s, t):
    s.add(1)
    return x + len(t)


def test_two_that_come_in_as_one():
    def one():
        s = Told()
        return torch.ones(2), s, s

    check(named_twice, make=lambda: (torch.ones(2), Told(), Told()), changed=[one])


def test_elements_that_vary_are_compiled_for_each():
    compiled = jit.compile(written, backend="eager")
    for n in (3, 4):
        ours, eager = Told(range(n)), Told(range(n))
        assert compiled(torch.ones(2), ours)[2:] == written(torch.ones(2), eager)[2:] and ours == eager

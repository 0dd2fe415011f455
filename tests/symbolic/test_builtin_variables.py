"""Builtins and the standard library: polyfills against the real functions, then programs against eager."""
import bisect
import collections
import copy
import functools
import heapq
import itertools
import math
import operator

import pytest
import torch

from symbolic import polyfills
from symbolic.variables import builtins as rows
from tests.differential import check, same_as_eager, tensors


class Strange:
    """Compares by its own rules, which are not those of an order."""

    def __init__(self, value):
        self.value = value

    def __gt__(self, other):
        return self.value % 3 > other.value % 3

    def __lt__(self, other):
        return self.value % 3 < other.value % 3

    def __repr__(self):
        return f"Strange({self.value})"


def outcome(function, *args, **kwargs):
    """What a call gives: its value, or the type and text of its exception; and what it left of iterators."""
    rest = [arg for arg in args if hasattr(arg, "__next__")]
    try:
        result = ("returned", repr(function(*args, **kwargs)))
    except Exception as error:
        result = (type(error), str(error))
    return result, [repr(list(iterator)) for iterator in rest]


def agree(polyfill, real, cases):
    for case in cases:
        args, kwargs = case() if callable(case) else (case, {})
        expected = outcome(real, *args, **kwargs)
        args, kwargs = case() if callable(case) else (case, {})
        assert outcome(polyfill, *args, **kwargs) == expected, (args, kwargs)


STRANGE = [Strange(value) for value in (4, 1, 5, 2, 0, 3)]
ITERABLES = [(), (0,), (1, 2), (0, "", None), ("", 0, 5, 0), "abc", "", [3, 1, 2], (1.5, 2, True), ((1, 2), (1, 1)), STRANGE,
             (1, "a"), 5, None, {"b": 1, "a": 2}, (float("nan"), 1.0), (1.0, float("nan"))]


@pytest.mark.parametrize("name", ["any", "all", "max", "min"])
def test_polyfill_of_one_iterable(name):
    real = getattr(__import__("builtins"), name)
    agree(getattr(polyfills, name), real, [(iterable,) for iterable in ITERABLES])
    if isinstance(real, type(len)):
        agree(getattr(polyfills, name), real, [lambda: ((iter([0, 1, 0, 2]),), {}), lambda: ((iter([1, 0, 3]),), {})])


@pytest.mark.parametrize("name", ["max", "min"])
def test_polyfill_with_key_and_default(name):
    def first(value):
        return value[0]

    cases = []
    for iterable in ITERABLES:
        for named in ({"default": 7}, {"key": None}, {"key": str}, {"key": str, "default": None}, {"key": first}):
            cases.append(lambda iterable=iterable, named=named: ((iterable,), named))
    for args in itertools.product((1, 2.0, True, "a", STRANGE[0]), repeat=2):
        cases += [args, lambda args=args: (args, {"key": repr}), lambda args=args: (args, {"default": 3})]
    cases.append((1, 5, 2, 5.0))
    agree(getattr(polyfills, name), getattr(__import__("builtins"), name), cases)


def test_polyfill_reduce():
    cases = [(function, iterable) for function in (operator.add, max, lambda a, b: [a, b]) for iterable in ITERABLES]
    cases += [(function, iterable, initial) for function, iterable in cases for initial in (0, "x", None)]
    agree(polyfills.reduce, functools.reduce, cases)


def test_polyfill_counting_and_finding():
    nan = float("nan")
    cases = [(iterable, value) for iterable in [*ITERABLES, [nan, nan]] for value in (0, 1, "a", None, nan, "", True)]
    agree(polyfills.count_of, operator.countOf, [case for case in cases if case[0] not in (5, None)])
    agree(polyfills.index_of, operator.indexOf, [case for case in cases if case[0] not in (5, None)])


def test_polyfill_prod():
    agree(polyfills.prod, math.prod, [(case,) for case in ((), (1, 2, 3), (1.5, 2), [2, 3, 4], (1, "ab"))])
    agree(polyfills.prod, math.prod, [lambda: (([1, 2],), {"start": 4}), lambda: (((),), {"start": "x"})])


class Sequence:
    def __init__(self, *items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]


class Shrunk(Sequence):
    def __len__(self):
        return len(self.items) + 1


def test_polyfill_reversed():
    for make in (Sequence, Shrunk):
        for items in ((), (1,), (1, 2, 3)):
            try:
                expected = list(reversed(make(*items)))
            except IndexError:
                expected = None
            assert list(polyfills.reversed(make(*items))) == expected


def test_polyfill_cmp_to_key():
    def compare(a, b):
        return (a % 3) - (b % 3)

    for numbers in itertools.permutations(range(5)):
        assert sorted(numbers, key=polyfills.cmp_to_key(compare)) == sorted(numbers, key=functools.cmp_to_key(compare))
    real, ours = functools.cmp_to_key(compare)(4), polyfills.cmp_to_key(compare)(4)
    for op in (operator.lt, operator.le, operator.eq, operator.ge, operator.gt):
        assert op(real, functools.cmp_to_key(compare)(1)) == op(ours, polyfills.cmp_to_key(compare)(1))
    with pytest.raises(TypeError):
        hash(ours)


def test_polyfill_copy_of_an_object():
    one = Strange([1])
    two = polyfills.copy_object(one)
    assert type(two) is Strange and two.value is one.value and vars(two) is not vars(one)


def test_library_twins_agree_with_the_native_functions():
    heap, twin = [], []
    for number in (5, 1, 4, 1, 3, 9, 0):
        heapq.heappush(heap, number)
        rows.POLYFILLS.get(heapq.heappush)(twin, number)
        assert heap == twin
    assert [heapq.heappop(heap) for _ in range(7)] == [rows.POLYFILLS.get(heapq.heappop)(twin) for _ in range(7)]
    for number in (0, 1, 2, 7, 9):
        assert bisect.bisect_left([1, 2, 2, 7], number) == rows.POLYFILLS.get(bisect.bisect_left)([1, 2, 2, 7], number)

"""What ends an iterator: nothing more, or StopIteration with a value, which some iterators pass on and some do not."""
import collections
import functools
import heapq
import itertools
import math
import operator
import statistics

import pytest
import torch

from tests.differential import check

LINES = """
next(itertools.takewhile(lambda v: True, gen(0)))
next(itertools.takewhile(lambda v: False, gen(1)))
next(itertools.dropwhile(lambda v: False, gen(0)))
next(itertools.dropwhile(lambda v: True, gen(1)))
next(itertools.filterfalse(lambda v: True, gen(1)))
next(filter(None, gen(1)))
next(filter(None, gen(0)))
next(map(str, gen(0)))
next(map(operator.add, gen(0), gen(3)))
next(map(operator.add, gen(3), gen(0)))
next(zip(gen(0), gen(1)))
next(zip(gen(1), gen(0)))
next(zip(gen(0), gen(0), strict=True))
next(zip(gen(1), gen(0), strict=True))
next(enumerate(gen(0)))
next(itertools.islice(gen(0), 3))
next(itertools.islice(gen(1), 1, 3))
next(itertools.islice(gen(1), 3, None))
next(itertools.starmap(operator.add, gen(0)))
next(itertools.accumulate(gen(0)))
next(itertools.chain(gen(0)))
next(itertools.chain(gen(0), gen(0)))
next(itertools.chain.from_iterable(gen(0)))
next(itertools.compress(gen(0), [1]))
next(itertools.compress(gen(1), gen(0)))
next(itertools.pairwise(gen(1)))
next(itertools.pairwise(gen(0)))
next(itertools.zip_longest(gen(0), gen(0)))
next(itertools.groupby(gen(0)))
next(itertools.cycle(gen(0)))
next(itertools.tee(gen(0))[0])
next(iter(gen(0)))
next(reversed(list(gen(0))))
next((x for x in gen(0)))
gen(0).send(None)
next(gen(0))
next(iter(gen, 3))
next(itertools.product(gen(0)))
next(itertools.count())
next(map(lambda v: next(gen(0)), [1]))
next(filter(lambda v: next(gen(0)), [1]))
next(itertools.takewhile(lambda v: next(gen(0)), [1]))
next(itertools.starmap(lambda v: next(gen(0)), [(1,)]))
next(itertools.accumulate([1,2], lambda a, b: next(gen(0)))) + next(itertools.accumulate([1,2], lambda a, b: next(gen(0))))
list(map(lambda v: next(gen(0)), [1]))
list(itertools.accumulate([1,2], lambda a, b: next(gen(0))))
next(itertools.islice(map(str, gen(0)), 2))
next(enumerate(zip(gen(0))))
next(zip(map(str, gen(0))))
next(iter(lambda: next(gen(0)), 3))
sum(gen(0))
max(gen(0), default=3)
list(zip(gen(0)))
tuple(map(str, gen(2)))
any(gen(0))
dict(zip(gen(1), gen(1)))
[*enumerate(gen(1))]
""".strip().splitlines()


def ends(number):
    yield from range(number)
    return 7


class Raises:
    """An iterator of the program's own."""

    def __init__(self, number):
        self.left = number

    def __iter__(self):
        return self

    def __next__(self):
        if not self.left:
            raise StopIteration(8)
        self.left -= 1
        return self.left


SCOPE = {"itertools": itertools, "operator": operator}


@pytest.mark.sampled(40)
@pytest.mark.parametrize("gen", [ends, Raises])
@pytest.mark.parametrize("line", LINES)
def test_what_an_iterator_ends_with(line, gen):
    """At the first call, and at the two after it."""
    scope = {**SCOPE, "gen": gen}
    again = line[len("next("):-1] if line.startswith("next(") and line.endswith(")") and line.count("next(") == 1 else "()"
    exec(f"""
def program(x):
    def delegates(it):
        said.append((yield from it))

    said = []
    try:
        said.append({line})
    except BaseException as error:
        said.append((type(error).__name__, getattr(error, "value", None), error.args))
    it = {again}
    for _ in range(3):
        try:
            said.append(next(it))
        except BaseException as error:
            said.append((type(error).__name__, getattr(error, "value", None), error.args))
    said.append(list(delegates({again})) if {"count" not in line} else None)
    return x + 1, [each for each in said if not hasattr(each, "__next__")]
""", scope)
    check(scope["program"], torch.ones(2))


#: of `m()`, a `map` whose function raises StopIteration at its second item
LOOPS = """
list(m())
tuple(m())
set(m())
frozenset(m())
dict(zip(m(), m()))
dict(map(lambda v: (stop(v), 1), [1, 2, 3]))
sum(m())
max(m())
min(m(), default=3)
sorted(m())
sorted([1,2,3], key=stop)
max([1,2,3], key=stop)
any(m())
all(m())
''.join(map(lambda v: str(stop(v)), [1, 2, 3]))
[*m()]
(lambda *a: a)(*m())
(lambda a: a)(*m())
[each for each in m()]
{each for each in m()}
{each: 1 for each in m()}
list(each for each in m())
1 in m()
3 in m()
operator.contains(m(), 3)
operator.countOf(m(), 1)
operator.indexOf(m(), 3)
L(lambda l: l.extend(m()))
L(lambda l: l.__iadd__(m()))
L(lambda l: l.__setitem__(slice(0, 0), m()))
S(lambda s: s.update(m()))
S(lambda s: s.difference_update(m()))
S(lambda s: s.union(m()))
S(lambda s: s.intersection(m()))
S(lambda s: s.issuperset(m()))
collections.deque(m())
collections.deque([0]).extend(m())
collections.Counter(m())
collections.OrderedDict.fromkeys(m())
dict.fromkeys(m(), 1)
bytes(m())
bytearray(m())
functools.reduce(operator.add, m())
functools.reduce(lambda a, b: stop(b), [1, 2, 3])
list(itertools.chain(m(), [5]))
list(itertools.chain.from_iterable(map(lambda v: [stop(v)], [1,2,3])))
list(itertools.product(m(), [1]))
list(itertools.permutations(m()))
list(itertools.zip_longest(m(), [1,2,3]))
list(itertools.cycle([]))
[k for k, g in itertools.groupby([1,2,3], stop)]
[list(g) for k, g in itertools.groupby([1,2,3], stop)]
list(zip(m(), [1,2,3], strict=True))
list(zip([1,2,3], m(), strict=True))
list(enumerate(m()))
list(filter(stop, [1,2,3]))
list(itertools.filterfalse(stop, [0,1,2,3]))
list(itertools.takewhile(stop, [1,2,3]))
list(itertools.dropwhile(stop, [1,2,3]))
list(itertools.starmap(stop, [(1,),(2,),(3,)]))
list(itertools.accumulate([1,2,3], lambda a, b: stop(b)))
list(itertools.compress(m(), [1,1,1]))
list(itertools.compress([1,1,1], m()))
list(itertools.islice(m(), 5))
list(itertools.pairwise(m()))
list(itertools.tee(m())[0])
list(iter(lambda c=iter([1,2,3]): stop(next(c)), 5))
math.prod(m())
math.fsum(m())
math.hypot(*m())
list(map(stop, m()))
heapq.nsmallest(2, m())
statistics.mean(m())
torch.stack([torch.ones(1) * v for v in m()])
torch.tensor(list(m()))
U()
V()
F()
list(reversed(list(m())))
str(list(m()))
next(map(stop, [2]), 'd')
next(iter(filter(stop, [2])), 'd')
sum(each for each in m())
max((each for each in m()), default=0)
dict(a=1, **dict(zip(map(str, m()), m())))
list({1: 2}.items()) + list(m())
m().__next__() + m().__next__()
list(m()).__len__()
divmod(*map(stop, [7, 3]))
'%s %s' % (*m(), 1)
'{}'.format(*m())
slice(*m())
range(*m())
collections.ChainMap(*map(lambda v: {stop(v): 1}, [1, 2]))
""".strip().splitlines()


def stop(value):
    if value == 2:
        raise StopIteration(9)
    return value


def m():
    return map(stop, [1, 2, 3])


def U():
    only, = m()
    return only


def V():
    first, *others = m()
    return first, others


def F():
    said = []
    for each in m():
        said.append(each)
    else:
        said.append("else")
    return said


def L(change):
    given = [7]
    try:
        found = change(given)
    except StopIteration as error:
        found = repr(error)
    return given, found if found is not given else "itself"


def S(change):
    given = {7, 1}
    try:
        found = change(given)
    except StopIteration as error:
        found = repr(error)
    return given, found


MODULES = (collections, functools, heapq, itertools, math, operator, statistics, torch)
BY_NAME = {**{each.__name__: each for each in MODULES}, **{each.__name__: each for each in (stop, m, U, V, F, L, S)}}


@pytest.mark.sampled(40)
@pytest.mark.parametrize("line", LOOPS)
def test_a_function_that_ends_a_loop(line):
    scope = dict(BY_NAME)
    exec(f"""
def program(x):
    try:
        found = {line}
    except BaseException as error:
        found = type(error).__name__, getattr(error, "value", None), str(error)
    return found, x + 1
""", scope)
    check(scope["program"], torch.ones(2))


def fails(value):
    if value == 2:
        raise ValueError(9)
    return value


class NoHash:
    __hash__ = None


FAILURES = """
s.difference_update([7], map(fails, [1, 2]), {5})
s.difference_update({7}, {5: 1}, map(fails, [1, 2]), {9})
s.difference_update(map(fails, [1, 2]), {9})
s.difference_update([1], [NoHash()])
s.difference_update([1, 5, []])
s.difference_update(frozenset([1]), {7: 3}, "ab", 3)
s.difference_update(fails(v) for v in s)
s.difference_update(len(s) for v in range(9))
s.difference_update(v for v in range(9) if s.discard(9) is None)
s.intersection_update(map(fails, [1, 2]))
s.symmetric_difference_update(map(fails, [1, 2]))
s.update([100], map(fails, [1, 2]))
s.update(len(s) for v in range(9))
""".strip().splitlines()


@pytest.mark.parametrize("made", ["s", "{1, 5, 7, 9}", "set(range(40))"])
@pytest.mark.parametrize("line", FAILURES)
def test_what_a_set_has_lost_when_an_operand_fails(line, made):
    scope = {"fails": fails, "NoHash": NoHash}
    exec(f"""
def program(x, s):
    s = {made}
    try:
        {line}
    except Exception as error:
        return sorted(s), repr(error), x + 1
    return sorted(s), x + 1, s.pop()
""", scope)
    check(scope["program"], torch.ones(2), {1, 5, 7, 9})


class UpTo:
    def __init__(self, now):
        self.now = now

    def __iter__(self):
        return self

    def __next__(self):
        if self.now >= 3:
            raise StopIteration
        self.now += 1
        return self.now


@pytest.mark.parametrize("collect", [list, sum, set, lambda it: [*it], lambda it: ",".join(map(str, it))])
def test_an_iterator_whose_end_a_tensor_decides(collect):
    """What ends it is foreseen not to happen: a loop in C over it is no endless capture."""

    def f(x):
        return collect(UpTo(x.argmax().item())), x + 1

    check(f, torch.tensor([1.0, 0.0, 0.0]), changed=(torch.tensor([0.0, 0.0, 0.0, 1.0]),))

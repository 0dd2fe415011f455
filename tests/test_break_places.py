"""Where a frame goes on after a break: at jump targets and super-instructions, in comprehensions over cells.

PYTEST_DONT_REWRITE: the programs are what is tested.
"""
import pytest
import torch

import jit
from tests.differential import check, same_as_eager, tensors

X, Y = tensors(3, 4, count=2)


def add(*parts):
    return sum(parts[1:], parts[0])


@pytest.fixture
def split_after_calls():
    """As JIT_BREAK_EVERYWHERE=1."""
    before, jit.config.break_everywhere = jit.config.break_everywhere, True
    yield
    jit.config.break_everywhere = before


PROGRAMS = {
    "call of a call": lambda x: add(x, abs(add(x, x))) * 2,
    "call of calls": lambda x: add(abs(x), add(abs(x), abs(add(x, 1)))) * 2,
    "call that ends a condition": lambda x: add(x, abs(x) if len(x) == 3 else x) * 2,
    "keywords": lambda x: torch.sum(torch.abs(input=x), dim=abs(-1)) * 2,
    "starred": lambda x: add(*map(abs, (x, x)), *[abs(x)]) * 2,
    "in a comprehension": lambda x: [add(y, abs(y)) for y in (x, x + 1)],
    "comprehension and cell": lambda x: [(lambda: add(x, y))() for y in (1, abs(x))],
    "f-string": lambda x: (f"{len(x)} {len(str(len(x)))!r:>4}", x + 1),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_split_after_every_call(split_after_calls, name):
    check(PROGRAMS[name], X, fullgraph=False)


@pytest.mark.parametrize("name", PROGRAMS)
def test_whole(name):
    check(PROGRAMS[name], X, graphs=1)


CONDITIONS = {
    "argument": lambda x: add(x, 1 if x.sum() > 0 else 2) * 2,
    "last of three": lambda x: add(x, abs(x), x if x.sum() > 0 else x + 1) * 2,
    "keyword": lambda x: torch.sum(x, dim=0 if x.sum() > 0 else 1) * 2,
    "method": lambda x: x.add(1 if x.sum() > 0 else 2) * 2,
    "or": lambda x: add(x, x.sum() > 0 or 3) * 2,
    "and": lambda x: add(x, x.sum() > 0 and 3) * 2,
    "not": lambda x: add(x, not x.sum()) * 2,
    "not not": lambda x: (not not (x.sum() > 0), x + 1),
    "chain": lambda x: add(x, 1 if -100 < x.sum() < 0 else 2) * 2,
    "while": lambda x: [x := x - 1 for _ in range(3) if x.sum() > 0],
    "in a comprehension": lambda x: [y if y.sum() > 0 else -y for y in (x, -x)],
    "filter of a comprehension": lambda x: [y + 1 for y in (x, -x) if y.sum() > 0],
    "set and dict": lambda x: ({i for i in range(3) if x.sum() > i}, {i: x + i for i in range(3) if x.sum() > i}),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_condition_on_a_tensor(name):
    check(CONDITIONS[name], X, changed=[(-X,), (X * 10,)])


@same_as_eager
def test_comprehension_over_a_cell(x):
    before = lambda: x
    ys = [x for x in (1, 2)]
    return before(), ys, x + 1


@same_as_eager
def test_comprehension_with_a_cell_of_its_own(x):
    before = lambda: x
    ys = [lambda: x for x in (1, 2)]
    return before(), [y() for y in ys], x + 1


@same_as_eager
def test_comprehension_whose_variable_is_free_too(x):
    def inner():
        return [x for x in (1, 2)], y

    y = x + 1
    return inner(), (lambda: x)()


@same_as_eager
def test_break_in_a_comprehension_over_a_cell(x):
    before = lambda: x
    ys = [(x, jit.graph_break())[0] for x in (x + 1, x + 2)]
    return before(), ys, x + 1


@same_as_eager
def test_break_in_a_comprehension_with_a_cell_of_its_own(x):
    before = lambda: x
    ys = [((lambda: x), jit.graph_break())[0] for x in (x + 1, x + 2)]
    return before(), [y() for y in ys], x + 1


@same_as_eager
def test_break_in_a_comprehension_over_a_name_not_bound_yet(x):
    ys = [(y, jit.graph_break())[0] for y in (x + 1, x + 2)]
    y = ys[0] * 2
    return (lambda: y)()


@same_as_eager
def test_nested_comprehensions_with_breaks(x):
    return [[(y + z, jit.graph_break())[0] for y in (x, 1)] for z in (x, 2)], x * 2


@same_as_eager
def test_exception_in_a_comprehension_over_a_cell(x):
    before = lambda: x
    try:
        [1 // x for x in (1, 0)]
    except ZeroDivisionError as error:
        caught = str(error)
    return before(), caught, x + 1


@same_as_eager
def test_exception_of_a_break_in_a_comprehension_over_a_cell(x):
    before = lambda: x
    try:
        [(jit.graph_break(), [][x]) for x in (1, 0)]
    except IndexError as error:
        caught = str(error)
    return before(), caught, x + 1


@same_as_eager
def test_many_cells(x):
    a, b, c, d = x, x + 1, x + 2, x + 3

    def inner(k):
        nonlocal c
        c = c + k
        jit.graph_break()
        return a, b, c, (lambda: (d, k))()

    return inner(1), inner(2), c


@same_as_eager
def test_break_between_cells(x):
    def make(a, b):
        def get():
            return a, b

        jit.graph_break()
        a = a + 1
        return get

    return make(x, x * 2)(), make(b=x, a=3)()

"""Conditions on sizes as data: their text, evaluated by Python, and their code, evaluated natively, agree."""
import functools
import operator
import random

import pytest
import torch

import jit._C as C
from symbolic.sources import Sources
from symbolic.terms import BINDS, EXTENTS, Extent, Op, code, extents, seen, text

SOURCES = Sources()
X, Y = SOURCES.arg(0, "x"), SOURCES.arg(1, "y")
N, M, K = Extent(X, "size", 0), Extent(X, "size", 1), Extent(Y, "size", 0)
NODES = {X: 0, Y: 1}
COMPARISONS, LOGIC = ("==", "!=", "<", "<=", ">", ">="), ("and", "or")
NUMBERS = [name for name in BINDS if name not in (*COMPARISONS, *LOGIC, "not")]


@pytest.mark.parametrize("term, expected", [
    (Op("==", (Op("%", (N, 2)), 0)), "x.size()[0] % 2 == 0"),
    (Op("-", (N, Op("-", (M, 1)))), "x.size()[0] - (x.size()[1] - 1)"),
    (Op("-", (Op("-", (N, M)), 1)), "x.size()[0] - x.size()[1] - 1"),
    (Op("*", (Op("+", (N, 1)), M)), "(x.size()[0] + 1) * x.size()[1]"),
    (Op("//", (N, Op("*", (M, 2)))), "x.size()[0] // (x.size()[1] * 2)"),
    (Op("not", (Op("or", (Op("<", (N, 3)), Op(">", (M, 3)))),)), "not (x.size()[0] < 3 or x.size()[1] > 3)"),
    (Op("<", (Op("max", (N, Op("+", (M, 1)))), 5)), "max(x.size()[0], x.size()[1] + 1) < 5"),
    (Op("==", (Extent(X, "stride", 0), Op("*", (M, N)))), "x.stride()[0] == x.size()[1] * x.size()[0]"),
    (Op("<", (Extent(Y, "offset"), 3)), "y.storage_offset() < 3"),
])
def test_text(term, expected):
    assert text(term) == expected


def test_code_is_postfix():
    term = Op("==", (Op("+", (N, M, 1)), K))
    assert code(term, NODES.__getitem__) == [
        ("size", 0, 0), ("size", 0, 1), ("+", 0, 0), ("const", 1, 0), ("+", 0, 0), ("size", 1, 0), ("==", 0, 0)]
    assert extents(term) == [N, M, K]
    assert seen(term, (4, 5, 9)) == "x.size()[0] == 4, x.size()[1] == 5, y.size()[0] == 9"


def random_number(choice, depth):
    if depth == 0 or choice.random() < 0.2:
        return choice.choice([N, M, K, Extent(X, "stride", 1), choice.randint(0, 9), -choice.randint(1, 3)])
    name = choice.choice(NUMBERS)
    count = 2 if name in ("-", "//", "%") else choice.randint(2, 3)
    return Op(name, tuple(random_number(choice, depth - 1) for _ in range(count)))


def random_condition(choice, depth):
    kind = choice.random()
    if depth and kind < 0.3:
        return Op(choice.choice(LOGIC), tuple(random_condition(choice, depth - 1) for _ in range(choice.randint(2, 3))))
    if depth and kind < 0.45:
        return Op("not", (random_condition(choice, depth - 1),))
    return Op(choice.choice(COMPARISONS), (random_number(choice, 3), random_number(choice, 2)))


MEANS = {
    "or": lambda a, b: bool(a or b), "and": lambda a, b: bool(a and b), "min": min, "max": max, "==": operator.eq,
    "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "+": operator.add,
    "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod,
}


def meaning(term, tensors):
    """The value, all parts of it evaluated; ZeroDivisionError if one has none."""
    if isinstance(term, int):
        return term
    if isinstance(term, Extent):
        tensor = tensors[NODES[term.source]]
        return getattr(tensor, term.kind)(term.dim)
    values = [meaning(operand, tensors) for operand in term.operands]
    return not values[0] if term.name == "not" else functools.reduce(MEANS[term.name], values)


@pytest.mark.parametrize("seed", range(40))
def test_text_and_code_agree(seed):
    choice = random.Random(seed)
    for _ in range(10):
        term = random_condition(choice, 3)
        guards = C.Guards([(-1, "arg", 0), (-1, "arg", 1)], [(0, "shape", code(term, NODES.__getitem__))], [])
        for _ in range(5):
            tensors = torch.zeros(choice.randint(1, 9), choice.randint(1, 9)), torch.zeros(choice.randint(1, 9))
            try:
                expected = meaning(term, tensors)
                assert eval(text(term), {"x": tensors[0], "y": tensors[1]}) == expected, text(term)
            except ZeroDivisionError:
                expected = False
            assert (guards.check(lambda *args: None, tensors) is not None) == expected, text(term)


def test_every_word_is_known_natively():
    for name in BINDS:
        operands = (N,) if name == "not" else (N, M)
        C.Guards([(-1, "arg", 0)], [(0, "shape", code(Op(name, operands), NODES.__getitem__))], [])
    for name in EXTENTS:
        C.Guards([(-1, "arg", 0)], [(0, "shape", code(Extent(X, name, 0), NODES.__getitem__))], [])

"""Index expressions as steps, blocks that intermediates share, and what is no plan."""

import random

import pytest
import torch

from codegen.kernels import index as ix
from codegen.kernels.index import Symbol, index
from codegen.plan.build import build
from codegen.plan.check import Malformed, check
from codegen.plan.memory import Intermediate, lay_out
from codegen.plan.numbers import Numbers
from codegen.plan.run import run
from codegen.plan.steps import (
    Allocate,
    BlockSlot,
    Call,
    Compute,
    Floating,
    Free,
    Launch,
    NumberSlot,
    Plan,
    Python,
    Reserve,
    Size,
    TensorSlot,
    View,
)
from tests.codegen.plan.kernels import kernel

T, N, B = TensorSlot, NumberSlot, BlockSlot
n, m, k = (index(Symbol(name)) for name in ("n", "m", "k"))
PLACES = {Symbol("n"): (T(0), 0), Symbol("m"): (T(0), 1), Symbol("k"): N(0)}


def random_index(rng, depth):
    if depth == 0:
        return rng.choice([n, m, k, index(rng.randrange(-5, 9))])
    a, b = random_index(rng, depth - 1), random_index(rng, depth - 1)
    match rng.choice(["+", "-", "*", "//", "%", "min", "max"]):
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "//":
            return a // rng.choice([2, 3, n, m * 4])
        case "%":
            return a % rng.choice([2, 8, k, n * 2])
        case kind:
            return ix.extremum(kind, a, b)


@pytest.mark.parametrize("seed", range(40))
def test_index_expressions(seed):
    rng = random.Random(seed)
    numbers = Numbers(1, PLACES)
    expressions = [random_index(rng, rng.randrange(4)) for _ in range(5)]
    results = tuple(numbers.of(expression) for expression in expressions)
    plan = Plan("numbers", (T(0), N(0)), tuple(numbers.steps), results)
    for sizes in [(3, 4, 5), (1, 1, 1), (7, 2, 3)]:
        known = dict(zip(PLACES, sizes))
        expected = tuple(ix.evaluate(expression, known.__getitem__) for expression in expressions)
        args = torch.empty(sizes[:2]), sizes[2]
        assert build(plan)(*args) == run(plan, *args) == expected


def test_equal_expressions_share_a_slot():
    numbers = Numbers(5, PLACES)
    assert numbers.of(3) == 3 and numbers.of(n - n) == 0 and numbers.steps == []
    assert numbers.of(k) == N(0) and numbers.steps == []
    assert numbers.of(n * 4 + m) is numbers.of(m + n * 4) and numbers.of(n) == N(6)
    assert list(map(str, numbers.steps)) == ["n5 = t0.size(1)", "n6 = t0.size(0)", "n7 = n5 4 n6 * +"]
    with pytest.raises(KeyError):
        numbers.of(index(Symbol("unknown")))
    with pytest.raises(ValueError):
        numbers.of(index(ix.Value("computed")))


# --- memory -----------------------------------------------------------------------------------------------------------
def intermediate(name, size, first, last, *over):
    return Intermediate(name, index(size), first, last, over)


LAYOUTS = [
    ("a chain takes two", [intermediate(at, 64, at, at + 1) for at in range(5)], [0, 1, 0, 1, 0], [64, 64]),
    ("in place it takes one", [intermediate(at, 64, at, at + 1, at - 1) for at in range(5)], [0] * 5, [64]),
    ("in place only what dies", [intermediate(0, 64, 0, 2), intermediate(1, 64, 1, 3, 0), intermediate(2, 64, 2, 3, 0)],
     [0, 1, 0], [64, 64]),
    ("the best fit", [intermediate(0, 100, 0, 1), intermediate(1, 60, 1, 1), intermediate(2, 50, 2, 3)], [0, 1, 1], [100, 60]),
    ("the largest grows", [intermediate(0, 100, 0, 1), intermediate(1, 60, 1, 1), intermediate(2, 200, 2, 3)], [0, 1, 0], [200, 60]),
    ("symbols that compare", [intermediate(0, n * m * 4, 0, 1), intermediate(1, m * 4, 1, 2), intermediate(2, n * m * 2, 2, 3)],
     [0, 1, 0], [n * m * 4, m * 4]),
    ("symbols that do not", [intermediate(0, n, 0, 0), intermediate(1, m, 1, 1), intermediate(2, n, 2, 2)], [0, 1, 0], [n, m]),
    ("nothing", [], [], []),
]  # fmt: skip


@pytest.mark.parametrize("what, intermediates, blocks, sizes", LAYOUTS, ids=[row[0] for row in LAYOUTS])
def test_layout(what, intermediates, blocks, sizes):
    layout = lay_out(intermediates)
    assert [layout.block_of[at] for at in range(len(intermediates))] == blocks
    assert layout.sizes == tuple(map(index, sizes))


@pytest.mark.parametrize("seed", range(40))
def test_who_shares_a_block_never_meets(seed):
    rng = random.Random(seed)
    symbols = rng.choice([[1], [1, n, n * m]])
    made = []
    for name in range(30):
        first = rng.randrange(20)
        dying = [i.name for i in made if i.first < first == i.last]
        over = tuple(rng.sample(dying, min(1, len(dying))))
        made.append(Intermediate(name, rng.choice(symbols) * index(rng.randrange(1, 9)), first, first + rng.randrange(5), over))
    layout = lay_out(made)
    known = {Symbol("n"): 3, Symbol("m"): 5}
    for a in made:
        assert ix.is_nonnegative(layout.sizes[layout.block_of[a.name]] - a.size)
        for b in made:
            if a.name < b.name and layout.block_of[a.name] == layout.block_of[b.name]:
                early, late = sorted([a, b], key=lambda i: i.first)
                assert early.last < late.first or (early.last == late.first and early.name in late.over)
    total = sum(ix.evaluate(size, known.__getitem__) for size in layout.sizes)
    assert total < sum(ix.evaluate(i.size, known.__getitem__) for i in made)


# --- what is no plan --------------------------------------------------------------------------------------------------
aten = torch.ops.aten
ONE = kernel("add_one")
MALFORMED = [
    ("never set", [Launch(ONE, (T(0), T(5)), 4)], []),
    ("block never reserved", [Launch(ONE, (T(0), B(0)), 4)], []),
    ("number never set", [Allocate(T(1), (N(0),), (1,), torch.float32)], []),
    ("scalar never set", [Launch(ONE, (T(0),), 4, (), (Floating(N(0, float)),))], []),
    ("freed", [Free(T(0)), Call(aten.relu.default, (T(0),))], []),
    ("in a list", [Call(aten.cat.default, ([T(0), T(7)],))], []),
    ("in a keyword", [Call(aten.add.Tensor, (T(0), T(0)), (("alpha", N(1)),))], []),
    ("program", [Compute(N(0), (N(1),))], []),
    ("Python", [Python(max, (T(1),))], []),
    ("size", [Size(N(0), T(1), 0)], []),
    ("result", [], [T(3)]),
    ("result in a block", [Reserve(((B(0), 4),)), View(T(1), B(0), (1,), (1,), 0, torch.float32), View(T(2), T(1), (1,), (1,))], [T(2)]),
    ("a block as a result", [Reserve(((B(0), 4),))], [B(0)]),
]  # fmt: skip


@pytest.mark.parametrize("what, steps, results", MALFORMED, ids=[row[0] for row in MALFORMED])
def test_malformed(what, steps, results):
    with pytest.raises(Malformed, match="nothing is in|lies in a block"):
        check(Plan("p", (T(0),), tuple(steps), tuple(results)))


UNBUILDABLE = [
    ("no program", [Compute(N(0), (1, "+"))], ValueError),
    ("two numbers", [Compute(N(0), (1, 2))], ValueError),
    ("no numbers", [Compute(N(0), ())], ValueError),
    ("no grain", [Launch(ONE, (T(0),), 4, grain=0)], ValueError),
    ("a float as an int64", [Launch(ONE, (T(0),), 4, scalars=(1.5,))], TypeError),
    ("too few arguments", [Call(aten.add.Tensor, (T(0),))], TypeError),
    ("too many arguments", [Call(aten.relu.default, (T(0), 1))], TypeError),
    ("an unknown keyword", [Call(aten.relu.default, (T(0),), (("alpha", 1),))], TypeError),
    ("a tensor as a list", [Call(aten.cat.default, (T(0),))], TypeError),
    ("a tensor as a number", [Call(aten.sum.dim_IntList, (T(0), [T(0)]))], TypeError),
    ("a text as a number", [Call(aten.sum.dim_IntList, (T(0), "one"))], (RuntimeError, TypeError)),
    ("more results", [Call(aten.relu.default, (T(0),), (), (T(1), T(2)))], TypeError),
    ("sizes without strides", [Allocate(T(1), (1,), (), torch.float32)], ValueError),
    ("a block without a dtype", [Reserve(((B(0), 4),)), View(T(1), B(0), (1,), (1,))], TypeError),
]  # fmt: skip


@pytest.mark.parametrize("what, steps, error", UNBUILDABLE, ids=[row[0] for row in UNBUILDABLE])
def test_what_cannot_be_built(what, steps, error):
    with pytest.raises(error):
        build(Plan("p", (T(0),), tuple(steps), ()))

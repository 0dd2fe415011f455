"""The loop IR: index expressions, sharing, the checker and what kernels mean."""

from __future__ import annotations

import itertools
import random

import pytest
import torch

from codegen.kernels import index as ix
from codegen.kernels import ir
from codegen.kernels.check import Malformed, check
from codegen.kernels.evaluate import run
from codegen.kernels.index import Index, Symbol, index
from codegen.kernels.ir import Buffer, Kernel, Loop, Reduce, Store, load, op, result, running

F = torch.float32
N, M = Symbol("N"), Symbol("M")
I, J, K = Symbol("i", index(N)), Symbol("j", index(M)), Symbol("k", index(64))
i, j, k, n, m = map(index, (I, J, K, N, M))

SIMPLIFIED = [
    ((i * m + j) // m, "i"),
    ((i * m + j) % m, "j"),
    ((i * m * 64 + j * 64 + k) // (m * 64), "i"),
    ((i * m * 64 + j * 64 + k) // 64 % m, "j"),
    ((j * 64 + k) // 16, "k // 16 + j*4"),
    ((j * 64 + k) % 16, "k % 16"),
    ((k * 8 + 3) // 4, "k*2"),
    (j // 4 // 5, "j // 20"),
    ((j * 4 + 3) % (m * 4), "j*4 + 3"),
    ((j + 1) * 4 // 4 - j, "1"),
    (k // 64, "0"),
    (k % 64, "k"),
    (i * n - i * n, "0"),
]


def computed(steps: int, first: float) -> Index:
    """An integer whose text has 2 ** `steps` parts."""
    at = ir.literal(first, torch.int64)
    for _ in range(steps):
        at = op("add", torch.int64, at, load("at", index(ix.Value(at, m)) // 3 + i, torch.int64))
        at = op("mul", torch.int64, at, at)
    return index(ix.Value(at, m))


def test_expressions_that_share_parts_are_ordered_by_short_keys() -> None:
    one, other = computed(60, 1), computed(60, 2)
    found = {ix.order(atom) for value in (one, other, one // 5, one % 5, other % 5) for atom in ix.atoms(value)}
    assert len(found) == 5 and max(len(text) for _, text in found) < 200
    assert one * other == other * one and one + other == other + one


@pytest.mark.parametrize("found, text", SIMPLIFIED, ids=str)
def test_simplified(found: Index, text: str) -> None:
    assert sorted(str(found).replace("(", "").replace(")", "").split(" + ")) == sorted(text.split(" + "))


def test_what_can_be_proved() -> None:
    assert ix.is_within(i * m + j, n * m)
    assert ix.is_within(j * 64 + k, m * 64)
    assert not ix.is_within(j * 64 + k + 1, m * 64)
    assert not ix.is_within(j - 1, m)
    assert ix.is_nonnegative(n * m - 1) and not ix.is_nonnegative(n - 2)


def _random_index(rng: random.Random, depth: int) -> tuple[Index, str]:
    """An index expression, and the Python that computes it."""
    if depth == 0:
        return rng.choice([(i, "i"), (j, "j"), (k, "k"), (n, "N"), (m, "M"), (index(c := rng.randrange(9)), str(c))])
    (a, left), (b, right) = _random_index(rng, depth - 1), _random_index(rng, depth - 1)
    match rng.choice("++***/%"):
        case "+":
            return a + b, f"({left} + {right})"
        case "*":
            return a * b, f"({left} * {right})"
        case "/":
            return a // (c := rng.choice([2, 3, 4, 8, 16, 64])), f"({left} // {c})"
        case _:
            return a % (c := rng.choice([2, 3, 4, 8, 16, 64])), f"({left} % {c})"


@pytest.mark.parametrize("seed", range(300))
def test_index_expressions_mean_what_python_means(seed: int) -> None:
    rng = random.Random(seed)
    expr, text = _random_index(rng, rng.randrange(1, 5))
    numbers = {N: 3, M: 5}
    for values in itertools.product(range(3), range(5), range(0, 64, 7)):
        numbers |= dict(zip((I, J, K), values))
        named = {atom.name: value for atom, value in numbers.items()}
        assert ix.evaluate(expr, numbers.__getitem__) == eval(text, named)
    shifted = ix.substitute(expr, {I: j * 2 + 1, J: i})
    swapped = {**numbers, J: numbers[I], I: numbers[J] * 2 + 1}
    assert ix.evaluate(shifted, numbers.__getitem__) == ix.evaluate(
        expr, {**numbers, I: numbers[J] * 2 + 1, J: numbers[I]}.__getitem__
    )


def test_equal_expressions_are_one_object() -> None:
    def made():
        return op("mul", F, load("x", i * m + j, F), ir.literal(2.0, F))

    assert made() is made()
    assert ir.literal(1, torch.int64) is not ir.literal(True, torch.bool)
    assert ir.literal(0.0, F) is not ir.literal(-0.0, F)
    assert ir.literal(float("nan"), F) is ir.literal(float("nan"), F)


def _softmax() -> Kernel:
    x = load("x", i * m + j, F)
    e = op("exp", F, op("sub", F, x, result("top", F)))
    return Kernel(
        "softmax", (I,),
        (
            Loop((J,), (Reduce("top", "max", x),)),
            Loop((J,), (Reduce("total", "sum", e),)),
            Loop((J,), (Store("out", i * m + j, op("div", F, e, result("total", F))),)),
        ),
        (Buffer("x", F, n * m, "in"), Buffer("out", F, n * m, "out")), (N, M),
    )  # fmt: skip


def test_softmax() -> None:
    x, out = torch.randn(5, 7), torch.empty(35)
    run(check(_softmax()), {"x": x.flatten(), "out": out}, (5, 7))
    torch.testing.assert_close(out.view(5, 7), x.softmax(1))


def test_scan_and_gather() -> None:
    x = load("x", index(ix.Value(load("at", j, torch.int64), m)), F)
    loop = Loop((J,), (Reduce("total", "sum", x), Store("out", j, running("total", F))))
    buffers = Buffer("x", F, m, "in"), Buffer("at", torch.int64, m, "in"), Buffer("out", F, m, "out")
    at, values, out = torch.randperm(9), torch.randn(9), torch.empty(9)
    run(check(Kernel("k", (), (loop,), buffers, (M,))), {"x": values, "at": at, "out": out}, (9,))
    torch.testing.assert_close(out, values[at].cumsum(0))


def test_positions_that_are_computed() -> None:
    at = load("at", j, torch.int64)
    where = ir.position(index(ix.Value(at, m)) * 2)
    assert list(ir.walk(where)) == [at, where]
    out, loop = torch.empty(5, dtype=torch.int64), Loop((J,), (Store("out", j, where),))
    buffers = Buffer("at", torch.int64, m, "in"), Buffer("out", torch.int64, m, "out")
    run(check(Kernel("k", (), (loop,), buffers, (M,))), {"at": torch.arange(5), "out": out}, (5,))
    assert torch.equal(out, torch.arange(5) * 2)


x = load("x", j, F)
LOOPS = {
    "i in i stand for nothing": Loop((J,), (Store("out", i, x),)),
    "no result": Loop((J,), (Store("out", j, result("top", F)),)),
    "does not run": Loop((J,), (Store("out", j, running("top", F)),)),
    "is not read": Loop((J,), (Store("out", j, load("out", j, F)),)),
    "is not written": Loop((J,), (Store("x", j, x),)),
    "into": Loop((J,), (Store("out", j, ir.position(j)),)),
    "takes 1": Loop((J,), (Store("out", j, op("exp", F, x, x)),)),
    "of torch.float32, torch.int64": Loop((J,), (Store("out", j, op("add", F, x, ir.position(j))),)),
    "gives torch.bool": Loop((J,), (Store("out", j, op("lt", F, x, x)),)),
    "no operation": Loop((J,), (Store("out", j, op("plus", F, x, x)),)),
    "any of torch.float32": Loop((J,), (Reduce("a", "any", x),)),
    "no scalar": Loop((J,), (Store("out", j, ir.scalar("s", F)),)),
}


@pytest.mark.parametrize("what", LOOPS)
def test_malformed(what: str) -> None:
    kernel = Kernel("k", (), (LOOPS[what],), (Buffer("x", F, m, "in"), Buffer("out", F, m, "out")), (M,))
    with pytest.raises(Malformed, match=what):
        check(kernel)


def test_the_evaluator_sees_what_is_out_of_bounds() -> None:
    for loop in (Loop((J,), (Store("out", j, load("x", j + 1, F)),)), Loop((J,), (Store("out", j * 0, x),))):
        kernel = Kernel("k", (), (loop,), (Buffer("x", F, m, "in"), Buffer("out", F, m, "out")), (M,))
        with pytest.raises(IndexError):
            run(check(kernel), {"x": torch.ones(4), "out": torch.ones(4)}, (4,))


def test_the_text_of_shared_expressions_is_as_long_as_they_are() -> None:
    value: ir.Expr = x
    for _ in range(60):
        value = op("add", F, value, value)
    kernel = Kernel("k", (), (Loop((J,), (Store("out", j, value),)),), (Buffer("x", F, m, "in"), Buffer("out", F, m, "out")), (M,))
    lines = str(check(kernel)).splitlines()
    assert len(lines) == 62 and lines[-2].strip() == "t58 = add(t57, t57)" and lines[-1].strip() == "out[j] = add(t58, t58)"

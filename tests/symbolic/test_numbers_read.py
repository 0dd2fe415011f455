"""Numbers that are read from tensors, one or many at once, are carried through the graph: `tolist`, `int` of a bool,
comparisons, `max`. What Python decides by them breaks it."""

import math
import operator
import random

import pytest
import torch

import jit
from symbolic.variables.numbers import DrawnNumber
from tests.differential import COUNTING, check, tensors

BACKENDS = {"eager": None, "aot_eager": None, "default": (1e-5, 1e-6)}


def _worlds(requires_grad=False):
    return [
        tuple(torch.where(torch.rand(3, 4, generator=torch.Generator().manual_seed(seed)) < 0.3, -each, each).requires_grad_(requires_grad)
              for each in tensors(3, 4, seed=seed))
        for seed in (0, 1, 7)
    ] + [(torch.zeros(3, 4, requires_grad=requires_grad),), (torch.full((3, 4), -2.0, requires_grad=requires_grad),)]


def _each_number(x):
    a, b, c = (x > 0).sum(1).tolist()
    return x[0] * a + b * c, [a, b, c]


def _two_dimensions(x):
    rows = x.detach().tolist()
    return x * rows[1][2] + sum(rows[0]), rows, len(rows), len(rows[0])


def _none(x):
    number = x.detach().sum().tolist()
    return x * number, number, x[:0].tolist(), x[:, :0].tolist()


def _bools(x):
    flags = (x > 0).any(1).tolist()
    return x * sum(flags), x[0] * flags[0] + x[1] * int(flags[1]), flags, type(flags[0])


def _halves(x):
    a, b, *rest = x.detach().to(torch.float16).flatten().tolist()
    return x * a - b, rest, sum(rest) / len(rest)


def _stacked(x):
    return torch.stack([x.sum() * k for k in (x > 0).sum(1).tolist()])


def _written_after(x):
    y = x.detach().clone()
    before = y[0].tolist()
    y.add_(1)
    return [a - b for a, b in zip(before, y[0].tolist(), strict=True)], y


def _text(x):
    counts = (x > 0).sum(1).tolist()
    return f"{counts} {counts[0]:03d} {(x > 0).all().item()}", x + 1


def _as_a_bool(x):
    any_ = (x > 0).any()
    return x * int(any_), x * any_.item(), x + float(any_), int(any_.item()) * 3 + 1, any_.item()


def _bool_arithmetic(x):
    p, q = (x > 0).any().item(), (x > 5).any().item()
    return x * (p + q), p & q, p | q, p ^ q, p - q, p * 2.5, -p, +p, p == q, p < q, p * q, 7 // (p + 1), p / 2


def _compared(x):
    n, f = int((x > 0).sum()), x.detach().sum().item()
    return x * (n > 3), torch.where(x > 0, n < 5, n != 4), (f >= 0.5) + n, n == 2, (n > 3) & (f > 0), 3 < n


def _truth(x):
    n, p = int((x > 0).sum()), (x > 5).any()
    return x * bool(n), x * (not n), bool(p) + 1, not p, bool(x.sum()), x * bool((x > 0).all()), operator.not_(n), not bool(p)


def _checked(x):
    n, p = int((x > 0).sum()), (x > 5).any().item()
    if n > 8:
        raise ValueError(f"{n} are too many")
    assert not p, "too large"
    if not bool(x.abs().sum() > 0.5):
        raise KeyError(n)
    return x * n


def _extremes(x):
    counts = (x > 0).sum(1).tolist()
    n, f = counts[0], x.detach()[0].tolist()
    return x * max(counts), min(counts) + max(n, 2), min(n, counts[1], 3), max(f), min(f), max(n, 1) * x


def _rounded(x):
    n, f = int((x > 0).sum()), x.detach().sum().item()
    return x * (n // 2), n % 3, round(f), round(f, 1), divmod(n, 4), math.sqrt(n), math.floor(f), -(-n // 2), abs(n - 9), n**2, sum([n, n, 3])


def _put_in_tensors(x):
    counts = (x > 0).sum(1).tolist()
    return torch.tensor(counts), torch.tensor([counts, counts], dtype=torch.float64) * x.sum(), torch.full((2,), counts[0]), torch.tensor(counts[0] > 2)


PROGRAMS = [
    _each_number, _two_dimensions, _none, _bools, _halves, _stacked, _written_after, _text, _as_a_bool, _bool_arithmetic,
    _compared, _truth, _checked, _extremes, _rounded, _put_in_tensors,
]  # fmt: skip


@pytest.mark.sampled(9)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("program", PROGRAMS)
def test_is_one_graph(program, requires_grad, backend):
    worlds = _worlds(requires_grad)
    chosen = {} if backend == "eager" else {"backend": backend, "tolerance": BACKENDS[backend]}
    check(program, *worlds[0], changed=worlds[1:], graphs=1, **chosen)


def _branch(x):
    n = int((x > 0).sum())
    if n > 3:
        return x * n
    return x - n


def _loop(x):
    for each in (x > 0).sum(1).tolist():
        for _ in range(each):
            x = x + 1
    return x


def _chosen(x):
    a, b, c = (x > 0).sum(1).tolist()
    return x * (a and b or c), "abc"[a % 3], [4, 5, 6, 7, 8][b], {a: 1, b: 2, c: 3}, not a


def _sorted(x):
    return x + 1, sorted((x > 0).sum(1).tolist()), (x > 0).sum(1).tolist().index(2) if (x > 0).sum(1).tolist().count(2) else None


def _flags(x):
    p = (x > 0).any().item()
    return x.sum(0, keepdim=p), p is True, x[p], [1, 2][p]


def _with_a_key(x):
    counts = (x > 0).sum(1).tolist()
    return x + 1, min(counts, default=0), max(counts, key=lambda n: -n), max(counts[0], 1.5), max(counts[0], len(x))


def _long(x):
    return x + 1, sum(x.detach().repeat(50, 1).flatten().tolist())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("backend", ["eager", "default"])
@pytest.mark.parametrize("program", [_branch, _loop, _chosen, _sorted, _flags, _with_a_key, _long])
def test_what_python_decides_by_them_breaks(program, backend):
    worlds = _worlds(True)
    check(program, *worlds[0], changed=worlds[1:], nodes=False, backend=backend, tolerance=BACKENDS[backend])


def test_kernels_read_the_numbers():
    def program(x):
        a, b, _ = x.sum(1).tolist()
        return (x * a + b).relu()

    compiled = jit.compile(program)
    compiled(torch.ones(3, 4))
    plans = [str(plan) for plan in compiled.debug_state().plans]
    assert not COUNTING or ("fused" in plans[0] and "compute" not in plans[0] and "scalar" not in plans[0])


def test_kernels_do_what_lies_around_ints():
    def program(x):
        n = (x > 0).sum().item() // 2 + 1
        return (x * n + (n > 2)).relu()

    compiled = jit.compile(program)
    for count in range(5):
        x = torch.arange(4.0) - count
        assert torch.equal(compiled(x), program(x))
    assert not COUNTING or len(compiled.debug_state().plans) >= 2


@pytest.mark.parametrize("read", [lambda t: sum(t.tolist()), lambda t: t.tolist()[1] + 1, lambda t: int(t.sum())])
def test_numbers_that_come_in_are_read_again_of_a_tensor_of_them(read):
    def program(x, number):
        return x + 1 if read(torch.tensor([1, number, 2])) > 1 else x - 1

    check(program, torch.ones(2), 3, changed=[(torch.ones(2), -2), (torch.ones(2), 8), (torch.ones(2), -30)])


def test_what_is_asked_of_drawn_numbers_grows_as_they_do(monkeypatch):
    """Each that is drawn is an input of the graph: what is computed of one asks nothing of the others."""
    asked = []
    node = property(lambda self: asked.append(1) or vars(self)["node"], lambda self, node: vars(self).update(node=node))
    monkeypatch.setattr(DrawnNumber, "node", node, raising=False)

    def program(x, drawn, count):
        return x + sum(drawn.randrange(1000) % 3 == 2 for _ in range(count))

    counts = []
    for count in (50, 100, 200):
        asked.clear()
        jit.explain(program)(torch.ones(2), random.Random(0), count)
        counts.append(len(asked))
    assert 0 < counts[2] - counts[1] < 3 * (counts[1] - counts[0])


def _root_of_read(x, number):
    noise = torch.rand(2)
    root = (number - x.detach().argmax().item()) ** 0.5
    x.add_(1)
    return x * 2, noise, root


def _power_of_read(x, number):
    noise = torch.rand(2)
    exponent = x.detach().sum().item() / 4
    return noise, 0.5**exponent, number**2.0, (-2.0) ** number if number else 1.0


def _root_of_given(x, number):
    x.add_(1)
    return x, (number / 2) ** 0.5, (number - 7) ** 1.5, x * number**1.5 if number >= 0 else None


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [_root_of_read, _power_of_read, _root_of_given])
def test_powers_that_may_be_complex(program, backend):
    """What was drawn and written before a root of a negative number is done once."""
    worlds = [(torch.tensor(row), number) for row, number in (
        ([1.0, 3.0, 2.0], 4.5), ([3.0, 1.0, 2.0], 5.5), ([1.0, 2.0, 5.0], 0.5), ([2.0, 1.0, 5.0], -1.5), ([-2.0, 1.0, 0.0], -1.0),
        ([2.0, 1.0, 5.0], 7.5), ([5.0, 1.0, 5.0], 0.0), ([2.0, 1.0, 5.0], 9.0))]  # fmt: skip
    check(program, *worlds[0], changed=worlds[1:], nodes=False, backend=backend, tolerance=BACKENDS[backend])


def _over(x, number):
    x.add_(1)
    try:
        share = 1.0 / (number - 1)
    except ZeroDivisionError:
        share = "none"
    return x * 2, share, number % 2.5


def _rest(x, number):
    x.add_(1)
    return x, 10 % number


def _root(x, number):
    noise = torch.rand(2)
    try:
        return noise, math.sqrt(number)
    except ValueError as error:
        return noise, str(error)


def _large(x, number):
    x.add_(1)
    try:
        return x, math.exp(number * 200), math.log(number + 2)
    except (OverflowError, ValueError) as error:
        return repr(error), x


def _over_what_was_read(x, number):
    noise = torch.rand(2)
    try:
        return noise, 1 / (x.detach().argmax().item() / 2)
    except ZeroDivisionError:
        return noise, number


@pytest.mark.sampled(9)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [_over, _rest, _root, _large, _over_what_was_read])
def test_what_raises_for_other_numbers(program, backend):
    """What was written and drawn before is there once, and handlers are asked."""
    worlds = [(torch.tensor(row), number) for row, number in (
        ([1.0, 3.0, 2.0], 3.5), ([3.0, 1.0, 2.0], 3.0), ([1.0, 2.0, 5.0], 1.0), ([2.0, 7.0, 5.0], -3.0), ([9.0, 1.0, 0.0], 0.0),
        ([2.0, 1.0, 5.0], 5.5), ([5.0, 1.0, 5.0], math.inf))]  # fmt: skip
    check(program, *worlds[0], changed=worlds[1:], nodes=False, backend=backend, tolerance=BACKENDS[backend])


def test_what_raises_for_other_sizes():
    def program(x, number):
        x.add_(1)
        try:
            return x, math.log(len(x) - 3), math.sqrt(number - 4)
        except ValueError as error:
            return str(error), x

    worlds = [(torch.ones(size), number) for size, number in ((5, 6), (6, 7), (7, 3), (3, 8), (2, 9), (9, 5))]
    check(program, *worlds[0], changed=worlds[1:], nodes=False)


@pytest.mark.parametrize("power", [lambda number: 0.9**number, lambda number: number**0.5, lambda number: 2.0 ** (number / 2)])
def test_powers_of_numbers_that_vary_serve_all(power):
    compiled = jit.compile(lambda x, number: x * power(number), backend="eager")
    for number in (2.5, 3.5, 4.0, 5.5, 6.0, 7.25):
        assert torch.equal(compiled(torch.ones(2), number), torch.ones(2) * power(number))
    assert not COUNTING or len(compiled.debug_state().entries) == 2

"""Numbers that vary beside arrays and tensors: what is compiled for one serves the others."""
from collections import deque
from typing import NamedTuple

import numpy as np
import pytest
import torch

import jit
from tests.differential import COUNTING, Counting, check


def beside_arrays(x, n):
    a = x.numpy()
    return a * n, n - a, a + n * 2, np.maximum(a, n), a > n, n <= a, a / (n * n + 1)


def beside_tensors(x, n):
    return x * n, x + n, n - x, n * 2, n


def only_beside_tensors(x, n):
    return x * n, x + n, x - n


def alone(x, n):
    return n + 1, n * n, -n, n > 2, x


def in_place(x, n):
    a = x.numpy()
    a += n
    a[0] *= n
    return a


def decided(x, n):
    return (x + 1, n) if n > 2 else (x - n, n)


def a_size(x, n):
    return np.ones(int(n)) * n, x[int(n):], x


KINDS = {"float64": np.float64, "int64": np.int64, "float32": np.float32, "float": float, "int": int, "int32": np.int32}


@pytest.mark.sampled(9)
@pytest.mark.parametrize("of", [torch.float64, torch.float32, torch.int64], ids=str)
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("program", [beside_arrays, beside_tensors, alone, decided, a_size])
def test_numbers_that_vary(program, kind, of):
    x = (torch.arange(12.0) - 5).reshape(3, 4).to(of)
    values = (2.5, 3, 2) if program is a_size else (2.5, 3, -2.25, 0, 7, 2)
    check(program, x, kind(1), changed=[(x, kind(each)) for each in values])


@pytest.mark.parametrize("kind", [np.float64, float], ids=str)
def test_written_in_place(kind):
    x = (torch.arange(12.0) - 5).reshape(3, 4).double()
    check(in_place, x, kind(1), changed=[(x, kind(each)) for each in (2.5, 3, -2.25, 1e300)])


@pytest.mark.parametrize("of", [torch.float64, torch.float32, torch.float16, torch.int16], ids=str)
@pytest.mark.parametrize("backend", ["eager", "default"])
def test_numbers_that_a_dtype_does_not_hold(of, backend):
    def program(x, n):
        a = x.numpy()
        return a * n, a > n, a == n, np.maximum(a, n), np.minimum(n, a)

    x = (torch.arange(12.0) - 5).reshape(3, 4).to(of)
    numbers = (0.1, 1e300, 2.00048828125001, float("inf"), float("nan"), 70000.0)  # of zeros numpy takes either
    check(program, x, 1.5, changed=[(x, each) for each in numbers], backend=backend)


@pytest.mark.skipif(not COUNTING, reason="counts graphs")
@pytest.mark.parametrize("kind", ["float64", "float32", "float", "int"])
@pytest.mark.parametrize("program", [beside_arrays, only_beside_tensors])
def test_few_compile(program, kind):
    backend = Counting()
    compiled = jit.compile(program, backend=backend)
    for each in (2, 3.5, 4, 5.5, 6):
        compiled(torch.ones(3, dtype=torch.float64), KINDS[kind](each))
    backend.expect(1 if kind == "float32" else 2)


def test_special_numbers():
    x = torch.arange(4.0).double()
    for program in (beside_tensors, alone):
        changed = [(x, np.float64(each)) for each in (2.5, float("inf"), float("nan"), -0.0, 0.0)]
        check(program, x, np.float64(1), changed=changed)


def to_a_power(x):
    """Operators: an array of truths to the power of 2 is its square, of small integers; a number is as its function."""
    a, n = x.numpy() > 1, (x.numpy() > 1)[0]
    return a**2, a**3, a**True, a**2.0, a ** np.int64(2), n**2, 2**a, np.power(a, 2), pow(a, 2), (a[0, ...]) ** 2, a.astype(int) ** 2


class Pair(NamedTuple):
    first: int
    second: torch.Tensor


def repeated(x):
    """A sequence times a number of numpy's, which is no array then."""
    n, seen = np.int64(3), []
    seen += [[0] * n, n * (1, 2), [0] * np.prod(x.shape), (0,) * np.int8(2), [1, 2] + n, np.int64(x.shape[0]) * [x], n * Pair(1, x)]
    for number in (np.float32(2), np.bool_(1), x.numpy().astype(int)[1]):
        try:
            seen.append([1] * number)
        except TypeError as error:
            seen.append(str(error))
    return seen, x + 1


@pytest.mark.parametrize("program", [to_a_power, repeated])
@pytest.mark.parametrize("backend", ["eager", "default"])
def test_operators_are_not_their_functions(program, backend):
    check(program, torch.arange(4.0), changed=[torch.arange(3.0)], backend=backend)


@pytest.mark.parametrize("of", [torch.bool, torch.uint8, torch.int8, torch.int64, torch.float16, torch.float64], ids=str)
def test_trapezoids_of_small_numbers(of):
    """Sums, steps and products overflow in the dtype of what is summed."""

    def program(x, places):
        a, b = x.numpy(), places.numpy()
        return np.trapezoid(a), np.trapezoid(a, b), np.trapezoid(a, [0, 1, 3]), np.trapezoid(a, dx=2), np.trapezoid(a.T, axis=0)

    x, places = torch.tensor([[100, 1, 120], [90, 100, 110]]).to(of), torch.tensor([3, 1, 2])
    changed = [(x, places.to(each)) for each in (torch.bool, torch.uint8, torch.float32)]
    check(program, x, places, changed=changed)


SIZED = """
np.zeros(s) | np.zeros((s, 2)) | np.ones([2, s], dtype=int) | np.ones(shape=s) | np.empty(s).shape | np.full(s, 7) | np.full((s, 2), s)
np.full(2, s) | np.full_like(a, s) | np.zeros_like(a, shape=(s,)) | np.ones_like(a, shape=s) | np.full_like(a, 1, shape=(s, 2))
np.empty_like(a, shape=s).shape | np.zeros_like(s) | np.full_like(s, 3) | np.ones_like(a) | deque("abc", int(s)) | deque("abc", s)
"""


@pytest.mark.parametrize("made", [each.strip() for each in SIZED.replace("\n", "|").split("|") if each.strip()])
def test_sizes_that_are_not_known(made):
    """A number that the graph computes may be a size: what is made is as large as eager code makes it."""
    scope = {"np": np, "deque": deque}
    exec(f"def program(x):\n    a = x.numpy()\n    s = a.max()\n    return {made}, x + 1", scope)
    check(scope["program"], torch.tensor([[3, 1], [0, 2]]), changed=[torch.tensor([[1, 1], [0, 4]])])

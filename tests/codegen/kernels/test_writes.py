"""Inputs that are written: everything that was read of them is what it was before."""

from __future__ import annotations

import pytest
import torch

from codegen.kernels.nodes import readers_first
from tests.differential import CLOSE, check


def swapped(x, y):
    old = x.clone()
    x.copy_(y)
    y.copy_(old)


def three_in_a_ring(x, y, z):
    old = x.clone()
    x.copy_(y * 2)
    y.copy_(z + x)
    z.copy_(old)


def swapped_and_turned(x, y):
    old = x.flip(0)
    x.copy_(y + 1)
    y.copy_(old)


def each_of_the_other_turned(x, y):
    x.copy_(y.t() + x)
    y.copy_(x.t() * 2)


def turned(x):
    x.copy_(x.flip(0))
    return x.sum()


def transposed(x):
    x.copy_(x.t() * 2)
    return x * 2


def one_of_the_other(x, y):
    x.mul_(2)
    y.copy_(x + 1)


def read_by_a_later_loop(x):
    y = x - x.sum(-1, keepdim=True)
    x.mul_(2)
    return y


def read_by_a_later_loop_of_another_kernel(x, y):
    top = x.sum(-1, keepdim=True)
    total = (x - top).exp().sum(-1, keepdim=True)
    x.mul_(2)
    y.copy_(total * x.flip(0))
    return total


def by_turns(x, y):
    x.add_(y)
    y.add_(x)
    x.add_(y)
    y.add_(x)


def normalised(x, y):
    x.copy_(y.softmax(-1))
    y.copy_(x.softmax(0))


def scanned(x, y):
    x.copy_(x.cumsum(0))
    y.add_(x)
    return y


def moments(x, y, z):
    y.lerp_(x, 0.1)
    z.mul_(0.9).addcmul_(x, x, value=0.1)
    x.addcdiv_(y, z.sqrt() + 1e-6, value=-0.01)


def other_bits_of_it(x, y):
    bits = x.view(torch.int32)
    found = bits.flip(0) + y.int()
    x.copy_(y * 2 + 1)
    return found


def other_bits_of_a_product(x, y):
    made = x @ y
    bits = made.view(torch.int32)
    return (made * 2) @ y, bits.flip(0) + 1


PROGRAMS = [
    swapped, three_in_a_ring, swapped_and_turned, each_of_the_other_turned, turned, transposed, one_of_the_other,
    read_by_a_later_loop, read_by_a_later_loop_of_another_kernel, by_turns, normalised, scanned, moments,
    other_bits_of_it, other_bits_of_a_product,
]  # fmt: skip


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_program(program, dynamic):
    def make(seed=0):
        torch.manual_seed(seed)
        return [torch.randn(6, 6) for _ in range(program.__code__.co_argcount)]

    check(program, *make(), backend="default", dynamic=dynamic, changed=[make(1)], tolerance=CLOSE)


@pytest.mark.parametrize(
    "reads, order",
    [
        ({}, []),
        ({"a": {"a"}}, ["a"]),
        ({"a": set(), "b": {"a"}}, ["b", "a"]),
        ({"a": {"b"}, "b": {"a"}}, ["a apart", "b", "a"]),
        ({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}, ["d", "a apart", "b", "c", "a"]),
    ],
    ids=str,
)
def test_readers_come_first(reads, order):
    found = [f"{name} apart" if is_apart else name for name, is_apart in readers_first(reads)]
    assert sorted(found) == sorted(order) and found == order

"""Sums over the rows of another kernel, which adds them up in stretches (`columns.py`)."""

from __future__ import annotations

import random
from unittest.mock import patch

import pytest
import torch

import jit
from codegen.kernels import columns
from codegen.kernels import index as ix
from codegen.kernels.check import Malformed, check
from codegen.kernels.evaluate import run
from codegen.kernels.index import Symbol
from codegen.kernels.ir import Buffer, Kernel, Loop, Store, load
from codegen.kernels.schedule import Launch
from tests.codegen.kernels.c_runs import compile_unit, run_c
from tests.codegen.kernels.fused import SHORT
from tests.codegen.kernels.schedules import evaluated, scheduled


def norm(g, x, w):
    mean, deviation = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, correction=0).add(1e-5).rsqrt()
    return torch.ops.aten.native_layer_norm_backward(g, x, [x.shape[-1]], mean, deviation, w, w, [True] * 3)


def bias(g, x, w):
    out = torch.ops.aten.gelu_backward(g, x)
    return out, out.sum(0)


def biases_of_batches(g, x, w):
    out = (g * x).tanh()
    return out.sum((0, 1)), out, (out * x).sum((0, 1), keepdim=True)


def used_again(g, x, w):
    out = g * x.sigmoid()
    total = out.sum(0)
    return out, total, total * w, w * 2


def of_a_row_s_sum(g, x, w):
    return (x - x.sum(-1, keepdim=True) * g, (x * x.sum(-1, keepdim=True)).sum(0))


def made(*shape, dtype=torch.float32):
    torch.manual_seed(0)
    return torch.randn(shape, dtype=dtype), torch.randn(shape, dtype=dtype), torch.randn(shape[-1:], dtype=dtype)


def stretches(found):
    return sorted((step.kernel.stretch for step in found.steps if isinstance(step, Launch)), reverse=True)


@pytest.mark.parametrize("program, shape, kernels", [
    (norm, (24, 6), 3), (bias, (24, 6), 2), (biases_of_batches, (4, 6, 10), 2), (used_again, (24, 6), 2),
    (of_a_row_s_sum, (24, 6), 2),
])  # fmt: skip
def test_sums_are_added_up_by_the_kernel_that_reads_the_rows(program, shape, kernels):
    args = made(*shape, dtype=torch.float64)
    with patch.multiple(columns, **SHORT):
        found = scheduled(program, *args, in_stretches=True)
    for ours, eager in zip(evaluated(found, args), program(*args), strict=True):
        torch.testing.assert_close(ours, eager)
    assert stretches(found) == [4, *[1] * (kernels - 1)], str(found)


@pytest.mark.parametrize("program, shape, what", [
    (bias, (1024, 63), "few columns"), (bias, (1021, 64), "no stretches"), (bias, (256, 128), "few rows"),
    (lambda g, x, w: (g * x, (g * x).cumsum(0)), (1024, 64), "a scan"),
    (lambda g, x, w: (g * x, (g * x).amax(0)), (1024, 64), "no sum"),
    (lambda g, x, w: (g * x, (g + 1).sum(1)), (1024, 64), "sums of rows"),
    (lambda g, x, w: (g * 2, x.sum(0)), (1024, 64), "nothing in common"),
    (lambda g, x, w: (g * 2, (g * 3).flip(0).sum(0)), (1024, 64), "another place"),
])  # fmt: skip
def test_others_are_not(program, shape, what):
    assert set(stretches(scheduled(program, *made(*shape), in_stretches=True))) == {1}, what


@pytest.mark.parametrize("program", [norm, bias, biases_of_batches, used_again, of_a_row_s_sum])
def test_in_c(program):
    """As near to the truth as eager, and the same on any number of threads."""
    shape = (8, 256, 96) if program is biases_of_batches else (2048, 96)
    args = made(*shape)
    assert stretches(scheduled(program, *args, in_stretches=True))[0] > 1
    compiled = jit.compile(program, backend="default")
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        found = compiled(*args)
        torch.set_num_threads(3)
        for one, three in zip(found, compiled(*args), strict=True):
            assert torch.equal(one, three)
    finally:
        torch.set_num_threads(threads)
    for ours, eager, exact in zip(found, program(*args), program(*(x.double() for x in args)), strict=True):
        assert apart(ours, exact) <= 1.5 * apart(eager, exact) + 1e-7


def apart(found, exact):
    """How far on the average."""
    return (found - exact).square().mean().sqrt().item()


@pytest.mark.parametrize("shape", [(32, 64), (333, 64), (2048, 96), (64, 4096), (16, 100_000), (3000, 20)], ids=str)
@pytest.mark.parametrize("dim", [0, 1])
def test_sums_are_as_accurate_as_eager_s(shape, dim):
    """Sums of columns were twice as far from the truth, those of few rows half as far again."""
    def program(x):
        return (x * 2).sum(dim)

    errors = []
    compiled = jit.compile(program, backend="default")
    for seed in range(6):
        torch.manual_seed(seed)
        x = torch.randn(shape)
        errors.append([apart(found(x), program(x.double())) for found in (compiled, program)])
    ours, eager = (sum(each) for each in zip(*errors, strict=True))
    assert ours <= 1.2 * eager


class Drawn:
    """A program of rows: values made element by element, sums of rows and of columns, and of what these give."""

    def __init__(self, seed):
        self.seed = seed

    def __call__(self, x, y, w):
        draw = random.Random(self.seed)
        values, results = [x, y, x * w], []
        for _ in range(draw.randint(3, 9)):
            a, b = (draw.choice(values) for _ in range(2))
            match draw.choice(["mul", "add", "tanh", "row", "max", "columns", "columns", "twice", "kept", "turned"]):
                case "mul":
                    values.append(a * b)
                case "add":
                    values.append(a + b * 0.5)
                case "tanh":
                    values.append(a.tanh())
                case "row":
                    values.append(a - b.sum(-1, keepdim=True))
                case "max":
                    values.append(a - b.amax(-1, keepdim=True))
                case "columns":
                    results.append(a.flatten(0, -2).sum(0))
                case "twice":
                    results.append((a * b).sum(0, keepdim=draw.random() < 0.5))
                    values.append(a - results[-1] if results[-1].dim() == a.dim() else a)
                case "kept":
                    results.append(a)
                case "turned":
                    results.append(a.flip(0).sum(0))
        return (*results, values[-1])


@pytest.mark.parametrize("seed", range(80))
def test_drawn_programs(seed):
    program, shape = Drawn(seed), [(12, 5), (2, 6, 4), (8, 1, 3), (7, 4)][seed % 4]
    args = made(*shape, dtype=torch.float64)
    with patch.multiple(columns, **SHORT):
        found = scheduled(program, *args, in_stretches=True)
    for ours, eager in zip(evaluated(found, args), program(*args), strict=True):
        torch.testing.assert_close(ours, eager)


def test_many_drawn_programs_have_stretches():
    with patch.multiple(columns, **SHORT):
        found = [scheduled(Drawn(seed), *made(12, 5), in_stretches=True) for seed in range(20)]
    assert sum(stretches(each)[0] > 1 for each in found) >= 8


@pytest.mark.parametrize("seed", range(8))
def test_drawn_programs_in_c(seed):
    program, args = Drawn(seed), made(512, 64, dtype=torch.float64)
    for ours, eager in zip(jit.compile(program, backend="default")(*args), program(*args), strict=True):
        torch.testing.assert_close(ours, eager, rtol=1e-9, atol=1e-9)


P, Q = Symbol("p0", ix.index(6)), Symbol("q0", ix.index(3))
ELEMENT = load("b0", ix.index(P) * 3 + ix.index(Q), torch.float32)


def summing(place, since, stretch):
    buffers = (Buffer("b0", torch.float32, ix.index(18), "in"), Buffer("b1", torch.float32, ix.index(9), "out"))
    return Kernel("k", (P,), (Loop((Q,), (Store("b1", place, ELEMENT, since),)),), buffers, stretch=stretch)


def test_the_least_of_them():
    kernel = check(summing(ix.floor_divide(ix.index(P), ix.index(2)) * 3 + ix.index(Q), ix.remainder(ix.index(P), ix.index(2)), 2))
    x = torch.arange(18.0)
    given = {"b0": x, "b1": torch.full((9,), torch.nan)}
    answer, after = run_c(compile_unit([kernel]), kernel, given, cuts=(0.4,))
    run(kernel, given)
    expected = x.view(3, 2, 3).sum(1).flatten()
    assert answer == 0 and torch.equal(after["b1"], expected) and torch.equal(given["b1"], expected)


@pytest.mark.parametrize("by, stretch", [(2, 1), (2, 4)])
def test_rows_of_several_threads_are_refused(by, stretch):
    with pytest.raises(Malformed):
        check(summing(ix.floor_divide(ix.index(P), ix.index(by)) * 3 + ix.index(Q), ix.remainder(ix.index(P), ix.index(by)), stretch))


@pytest.mark.parametrize("by, since, stretch", [(3, 3, 2), (2, 3, 2), (1, 2, 2)])
def test_the_evaluator_refuses_sums_that_are_not_one_of_a_stretch(by, since, stretch):
    kernel = summing(ix.floor_divide(ix.index(P), ix.index(by)) * 3 + ix.index(Q), ix.remainder(ix.index(P), ix.index(since)), stretch)
    with pytest.raises(IndexError):
        run(kernel, {"b0": torch.arange(18.0), "b1": torch.zeros(18 if by == 1 else 9)})

"""Kernels of the C printer, launched by plans."""

import ctypes
import math

import pytest
import torch

from codegen.artifacts.store import Store
from codegen.kernels import index as ix
from codegen.kernels import ir
from codegen.kernels.c import print_c
from codegen.kernels.check import check
from codegen.kernels.index import Symbol, index
from codegen.kernels.ir import Buffer, Kernel, Loop, Reduce, load, op, result
from codegen.kernels.toolchain import compile_c
from codegen.plan.build import build
from codegen.plan.numbers import Numbers
from codegen.plan.run import run
from codegen.plan.steps import Allocate, BlockSlot, Floating, Function, Launch, NumberSlot, Plan, Reserve, TensorSlot

F = torch.float32
T, N, B = TensorSlot, NumberSlot, BlockSlot
ROWS, WIDTH = Symbol("rows"), Symbol("width")
I, J = Symbol("i", index(ROWS)), Symbol("j", index(WIDTH))
i, j, rows, width = map(index, (I, J, ROWS, WIDTH))


def softmax():
    x = load("x", i * width + j, F)
    e = op("exp", F, op("sub", F, x, result("top", F)))
    loops = (
        Loop((J,), (Reduce("top", "max", x),)),
        Loop((J,), (Reduce("total", "sum", e),)),
        Loop((J,), (ir.Store("out", i * width + j, op("div", F, e, result("total", F))),)),
    )
    return Kernel("softmax", (I,), loops, (Buffer("x", F, rows * width, "in"), Buffer("out", F, rows * width, "out")), (ROWS, WIDTH))


def scaled_rows():
    """out[i, j] = x[at[i], j] * scale"""
    at = load("at", i, torch.int64)
    row = op("check_index", torch.int64, at, ir.position(rows))
    x = load("x", index(ix.Value(row, rows)) * width + j, F)
    store = ir.Store("out", i * width + j, op("mul", F, x, ir.scalar("scale", F)))
    buffers = Buffer("x", F, rows * width, "in"), Buffer("at", torch.int64, rows, "in"), Buffer("out", F, rows * width, "out")
    return Kernel("scaled_rows", (I, J), (Loop((), (store,)),), buffers, (ROWS, WIDTH), (ir.scalar("scale", F),))


def launch(kernel, library, numbers, *buffers, scalars=(), grain=64):
    function = Function(kernel.name, ctypes.cast(getattr(library, kernel.name), ctypes.c_void_p).value, library)
    total = numbers.of(math.prod((axis.size for axis in kernel.axes), start=index(1)))
    return Launch(function, buffers, total, tuple(numbers.of(index(size)) for size in kernel.sizes), scalars, grain)


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    """(x, at, scale) -> softmax(x)[at] * scale, the softmax in a block."""
    kernels = check(softmax()), check(scaled_rows())
    library = ctypes.CDLL(str(compile_c(print_c(kernels), store=Store(tmp_path_factory.mktemp("store"), 1 << 28))))
    numbers = Numbers(1, {ROWS: (T(0), 0), WIDTH: (T(0), 1)})
    steps = (
        Reserve(((B(0), numbers.of(rows * width * 4)),)),
        launch(kernels[0], library, numbers, T(0), B(0), grain=2),
        Allocate(T(2), (numbers.of(rows), numbers.of(width)), (numbers.of(width), 1), F),
        launch(kernels[1], library, numbers, B(0), T(1), T(2), scalars=(Floating(N(0, float)),)),
    )
    return Plan("plan", (T(0), T(1), N(0, float)), (*numbers.steps, *steps), (T(2),))


@pytest.mark.parametrize("shape", [(1, 1), (5, 7), (300, 40), (0, 4), (3, 1000)])
@pytest.mark.parametrize("threads", [1, 3])
def test_as_eager(plan, shape, threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    x, at = torch.randn(shape), torch.randperm(shape[0])
    (found,) = build(plan)(x, at, 2.5)
    torch.set_num_threads(before)
    torch.testing.assert_close(found, x.softmax(1)[at] * 2.5)
    assert torch.equal(found, run(plan, x, at, 2.5)[0])


def test_an_index_out_of_range(plan):
    with pytest.raises(IndexError):
        build(plan)(torch.randn(4, 3), torch.tensor([0, 1, 4, 2]), 1.0)

"""Softmax of rows that are no one tile reads them once for the maximum and the sum."""

from __future__ import annotations

import math
import re

import pytest
import torch

from codegen.kernels.check import check
from codegen.kernels.ir import Buffer, Kernel, Loop, Reduce, Store, load, op, result
from codegen.kernels.triton import print_triton
from codegen.kernels.triton_shape import Config
from tests.codegen.kernels.schedules import scheduled
from tests.codegen.kernels.test_c_shapes import M, N, axis, buffers, m, n
from tests.codegen.kernels.test_triton_compile import compiles
from tests.codegen.kernels.triton_runs import compare

F, D = torch.float32, torch.float64
SMALL = [Config(x=4, r=16, warps=1), Config(r=64)]


def loads_in(kernel: Kernel, config: Config) -> int:
    text = print_triton(kernel, config).rpartition("@triton.jit")[2]
    return len(re.findall(r"= tl.load\(b0 ", re.sub("#.*", "", text)))


def rows(count: int, length: int, dtype: torch.dtype = F) -> torch.Tensor:
    torch.manual_seed(0)
    x = torch.randn(count, length, dtype=dtype) * 30
    for row, special in enumerate([math.inf, -math.inf, math.nan]):
        x[row, length // 2] = special
    x[3] = -math.inf
    x[4] = math.inf
    x[5, 1:] = -math.inf
    return x


PROGRAMS = {
    "softmax": lambda x: x.softmax(-1), "log_softmax": lambda x: x.log_softmax(-1), "logsumexp": lambda x: x.logsumexp(-1),
    "softmax of a product": lambda x: (x * 0.125 + 1).softmax(-1),
}  # fmt: skip


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dtype", [F, D, torch.bfloat16], ids=str)
@pytest.mark.parametrize("what", PROGRAMS)
def test_program(what: str, dtype: torch.dtype) -> None:
    if what == "logsumexp" and dtype is torch.bfloat16:
        pytest.skip("eager code rounds each step of a half's, and powers of what is rounded are summed up beside the largest")
    x = rows(9, 150, dtype)
    (kernel,) = scheduled(PROGRAMS[what], x).kernels
    assert "add_power" in print_triton(kernel, SMALL[0])
    out = torch.zeros(kernel.buffers[1].size.constant, dtype=kernel.buffers[1].dtype)
    compare(kernel, {"b0": x.reshape(-1), "b1": out}, configs=SMALL)


def powers(columns) -> Kernel:
    (P, p), (Q, q) = axis("p", n), axis("q", columns)
    x = load("x", p * columns + q, F)
    loops = (
        Loop((Q,), (Reduce("top", "max", x),)),
        Loop((Q,), (Reduce("total", "sum", op("exp", F, op("sub", F, x, result("top", F)))),)),
        Loop((), (Store("out", p, result("total", F)), Store("out2", p, result("top", F)))),
    )
    given = buffers(x=(F, n * columns, "in"), out=(F, n, "out"), out2=(F, n, "out"))
    return check(Kernel("powers", (P,), loops, given, (N, M) if columns is m else (N,)))


@pytest.mark.parametrize("columns", [0, 1, 150])
def test_any_sizes(columns: int) -> None:
    kernel = powers(m)
    x = rows(9, columns) if columns > 1 else torch.tensor([math.inf, -math.inf, 1.0, math.nan] * 9)[: 9 * columns]
    given = {"x": x.reshape(-1), "out": torch.zeros(9), "out2": torch.zeros(9)}
    compare(kernel, given, (9, columns), configs=SMALL)


def test_a_long_row_is_read_once_less() -> None:
    x = torch.randn(2, 20000)
    (kernel,) = scheduled(PROGRAMS["softmax"], x).kernels
    assert [loads_in(kernel, Config(r=r)) for r in (2048, 32768)] == [2, 1]


def test_what_stores_in_between_is_read_as_it_is() -> None:
    """The second loop has other work: it stays."""
    kernel = powers(m)
    first, second, last = kernel.loops
    stores = Store("e", kernel.loops[0].body[0].value.index, second.body[0].value)
    given = (*kernel.buffers, Buffer("e", F, n * m, "out"))
    kernel = check(Kernel("k", kernel.axes, (first, Loop(second.axes, (*second.body, stores)), last), given, (N, M)))
    assert "add_power" not in print_triton(kernel, SMALL[0])


@pytest.mark.parametrize("what", ["softmax", "logsumexp"])
def test_compiled(what: str) -> None:
    (kernel,) = scheduled(PROGRAMS[what], torch.randn(512, 50000)).kernels
    compiles(kernel, 90)

"""Loops in Triton: rows, columns, tiles, masks, gathers, scans, sizes of 0, programs as they are scheduled, random kernels."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import torch

from codegen.kernels import index as ix
from codegen.kernels.definitions import Given
from codegen.kernels.groups import Call
from codegen.kernels.index import index
from codegen.kernels.ir import Buffer, Kernel, Loop, Reduce, Store, load, op, result
from codegen.kernels.triton import print_triton
from codegen.kernels.triton_shape import Config, candidates, is_small, programs
from tests.codegen.kernels.schedules import scheduled
from tests.codegen.kernels.test_c_shapes import (
    CLOSE,
    KERNELS,
    M,
    axis,
    buffers,
    conditional,
    embedding,
    filled,
    layernorm,
    m,
    pointwise,
    random_kernel,
    transposed,
)
from tests.codegen.kernels.test_schedule import PROGRAMS, Drawn
from tests.codegen.kernels.triton_runs import compare

F, L = torch.float32, torch.int64


def tiles_of(kernel: Kernel) -> list[Config]:
    """All candidates, a tile of a few elements, and one that counts in int64."""
    few = Config(x=4, y=2, r=8, warps=1)
    return [*candidates(kernel), few, replace(few, wide=True)]


@pytest.mark.sampled(18)
@pytest.mark.parametrize("what", KERNELS)
def test_kernel(what: str) -> None:
    kernel, sizes = KERNELS[what]
    for given in sizes:
        scalars = [3 if scalar.dtype is L else 0.25 for scalar in kernel.scalars]
        small = max([0, *given]) < 1000 and sum(ix.evaluate(b.size, dict(zip(kernel.sizes, given)).__getitem__) for b in kernel.buffers) < 5000
        configs = tiles_of(kernel) if small else candidates(kernel)[:2]
        compare(kernel, filled(kernel, given), given, scalars, close=CLOSE.get(what), configs=configs)


@pytest.mark.parametrize("name, values", [
    ("check_index", [0, 2, 3]), ("check_index", [0, -1, 2]), ("check_index", [0, 1, 2]),
    ("wrap_index", [0, -3, 2]), ("wrap_index", [-4, 0, 2]), ("wrap_index", [1, 3, 2]),
])  # fmt: skip
def test_an_index_out_of_range(name: str, values: list[int]) -> None:
    kernel = embedding(name)
    compare(kernel, {**filled(kernel, (3, 3)), "at": torch.tensor(values)}, (3, 3))


@pytest.mark.parametrize("bad", [False, True])
def test_a_condition_on_elements(bad: bool) -> None:
    kernel = conditional()
    compare(kernel, {**filled(kernel, (40,)), "x": torch.arange(40.0) - float(bad)}, (40,))


@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(6, 60))])
def test_a_random_kernel(seed: int) -> None:
    kernel, sizes = random_kernel(seed)
    configs = [candidates(kernel, dict(zip(kernel.sizes, sizes)))[0], Config(x=16, y=4, r=16)]
    compare(kernel, filled(kernel, sizes, seed), sizes, close=(1e-4, 1e-4), configs=configs)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_a_scheduled_program(program, dynamic: bool) -> None:
    torch.manual_seed(0)
    args = [torch.randn(6, 8), *([torch.randn(8, 8)] if program.__name__ == "residual" else [])]
    compare_kernels(program, args, dynamic)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(4, 50))])
def test_a_drawn_program(seed: int, dynamic: bool) -> None:
    torch.manual_seed(seed)
    args = [torch.randn(3, 4, 5, dtype=torch.float64), torch.randn(4, 5, dtype=torch.float64), torch.randn(5, dtype=torch.float64)]
    compare_kernels(Drawn(seed), args, dynamic)


def compare_kernels(program, args: list[torch.Tensor], dynamic: bool) -> None:
    """The kernels of a program, each for itself."""
    found = scheduled(program, *args, dynamic=dynamic)
    given_at = dict(zip((name for name, tensor in found.program.tensors.items() if isinstance(tensor, Given)), args))
    numbers = {symbol: given_at[name].shape[dim] for symbol, (name, dim) in found.program.sizes.items()}
    for step in found.steps:
        if not isinstance(step, Call):
            given = tuple(numbers[size] for size in step.sizes)
            compare(step.kernel, filled(step.kernel, given), given, configs=[candidates(step.kernel)[0], Config(x=4, r=4, warps=1)])


# --- what the text says -----------------------------------------------------------------------------------------------
def body(kernel: Kernel, config: Config | None = None) -> str:
    """The text of the kernel's own function."""
    return re.sub("#.*", "", print_triton(kernel, config)).rpartition("@triton.jit")[2]


def test_a_row_in_one_tile_is_read_once() -> None:
    text = body(layernorm(8, 768))
    assert text.count("tl.load(x ") == 1 and "for " not in text


def test_a_row_in_several_tiles_is_a_loop() -> None:
    text = body(layernorm(8, 768), Config(r=256))
    assert text.count("for ") == 3 and "mask" not in text


@pytest.mark.parametrize("size, masked", [(4096, False), (4000, True)])
def test_masks_only_where_a_tile_reaches_beyond_the_end(size: int, masked: bool) -> None:
    P, p = axis("p", size)
    kernel = pointwise((P,), op("neg", F, load("x", p, F)), p, buffers(x=(F, size, "in"), out=(F, size, "out")))
    assert ("xmask" in body(kernel)) == masked


def test_transposed_loads_have_two_dimensions() -> None:
    config = candidates(transposed(48, 40))[0]
    assert config.x > 1 and config.y > 1
    assert programs(transposed(48, 40), config) == 3 * -(-48 // config.y) * -(-40 // config.x)


def test_int64_only_where_it_is_needed() -> None:
    def copy(size: int) -> Kernel:
        P, p = axis("p", size)
        return pointwise((P,), load("x", p, F), p, buffers(x=(F, size, "in"), out=(F, size, "out")))

    assert "int64" not in body(copy(1 << 20)) and not candidates(copy(1 << 20))[0].wide
    assert ".to(tl.int64)" in body(copy(1 << 31)) and candidates(copy(1 << 31))[0].wide
    kernel = KERNELS["softmax"][0]
    few, many = (dict(zip(kernel.sizes, sizes)) for sizes in [(100, 1000), (1 << 16, 1 << 16)])
    assert is_small(kernel, few) and not is_small(kernel, many)
    assert not candidates(kernel, few)[0].wide and candidates(kernel, many)[0].wide


def test_what_other_threads_stored_is_read_after_they_met() -> None:
    """Each round reads what another one has stored."""
    P, p = axis("p", 1)
    Q, q = axis("q", 100)
    loops = (
        Loop((Q,), (Reduce("r", "sum", load("x", q, F)),)),
        Loop((Q,), (Store("x", q, op("mul", F, load("x", q, F), result("r", F))),)),
        Loop((Q,), (Store("out", q, load("x", 99 - q, F)),)),
    )
    kernel = Kernel("turned", (P,), loops, (Buffer("x", F, index(100), "inout"), Buffer("out", F, index(100), "out")))
    compare(kernel, filled(kernel, ()), (), close=(1e-5, 1e-5), configs=tiles_of(kernel))
    text = body(kernel)
    assert text.index("tl.store(x") < text.index("tl.debug_barrier()") < text.rindex("tl.load(x")


def test_what_is_shared_many_times_is_computed_once() -> None:
    """Written out, it would have 2^100 operations."""
    P, p = axis("p", 40)
    value = load("x", p, F)
    for _ in range(100):
        value = op("minimum", F, op("mul", F, value, value), value)
    kernel = pointwise((P,), value, p, buffers(x=(F, 40, "inout"), out=(F, 40, "out")))
    compare(kernel, filled(kernel, ()), exact=True)


def test_indices_are_divided_as_python_divides() -> None:
    P, p = axis("p", 40)
    value = op("add", F, load("x", (p - 7) // m + 2, F), load("x", (p - 7) % m, F))
    kernel = pointwise((P,), value, p, buffers(x=(F, 40, "in"), out=(F, 40, "out")), M)
    assert "quotient_of" in body(kernel) and "modulo_of" in body(kernel)
    compare(kernel, filled(kernel, (6,)), (6,), exact=True)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", ["argmax", "argmin"])
@pytest.mark.parametrize("dtype", [F, torch.float64, torch.int32], ids=str)
def test_the_first_of_several_extremes(kind: str, dtype: torch.dtype) -> None:
    g = torch.Generator().manual_seed(0)
    x = torch.randint(-2, 2, (30, 100), generator=g).to(dtype)
    if dtype.is_floating_point:
        x[::3] = -torch.inf if kind == "argmax" else torch.inf
        x[5, 40:] = x[6, 70] = x[6, 71] = torch.nan
    (P, p), (Q, q) = axis("p", 30), axis("q", 100)
    loops = Loop((Q,), (Reduce("r", kind, load("x", p * 100 + q, dtype)),)), Loop((), (Store("out", p, result("r", L)),))
    kernel = Kernel("first", (P,), loops, buffers(x=(dtype, 3000, "in"), out=(L, 30, "out")))
    compare(kernel, {"x": x.reshape(-1), "out": torch.zeros(30, dtype=L)}, configs=tiles_of(kernel))


def test_names_do_not_meet() -> None:
    """A kernel may call its buffers and axes what Triton, or its functions, are called."""
    P, p = axis("XBLOCK", 5)
    given = buffers(tl=(F, 5, "in"), larger=(F, 5, "out"))
    loop = Loop((), (Store("larger", p, op("maximum", F, load("tl", p, F), load("tl", 4 - p, F))),))
    kernel = Kernel("error", (P,), (loop,), given)
    compare(kernel, filled(kernel, ()))

"""Kernels in C do what the evaluator does: every operation on every dtype, every reduction, every shape of loops."""

from __future__ import annotations

import math
from functools import cache

import pytest
import torch

from codegen.kernels import ir
from codegen.kernels.c_ops import conversion
from codegen.kernels.index import Index, Symbol, index
from codegen.kernels.ir import Buffer, Expr, Kernel, Loop, Reduce, Store, load, op, result, running
from codegen.kernels.ops import OPS, REDUCTIONS, SCANS, kind_of
from tests.codegen.kernels.c_runs import compare, compile_unit

F, B, L = torch.float32, torch.bool, torch.int64
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8]
DTYPES = [*FLOATS, *INTEGERS, torch.bool]

N, M = Symbol("N"), Symbol("M")
I, J, K = Symbol("i", index(N)), Symbol("j", index(M)), Symbol("k", index(24))
i, j, k, n, m = map(index, (I, J, K, N, M))


def some(dtype: torch.dtype, count: int, seed: int = 0) -> torch.Tensor:
    """Numbers of all sizes, and those that are special."""
    g = torch.Generator().manual_seed(seed)
    if dtype is B:
        return torch.randint(0, 2, (count,), generator=g).bool()
    if not dtype.is_floating_point:
        info = torch.iinfo(dtype)
        found = torch.randint(max(info.min, -20), 20, (count,), generator=g).to(dtype)
        found[::7] = torch.randint(info.min, info.max, (len(found[::7]),), generator=g, dtype=L).to(dtype)
        special = [info.min, info.max, 0, 1, info.min + 1]
    else:
        found = torch.randn(count, generator=g, dtype=torch.float64)
        found = (found * 10.0 ** torch.randint(-3, 3, (count,), generator=g)).to(dtype)
        tiny = torch.finfo(dtype).tiny
        special = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 0.5, 2.5, tiny / 2, -tiny / 4, 70000.0, -300.5]
    at = torch.randperm(count, generator=g)[: len(special)]
    found[at] = torch.tensor(special, dtype=torch.float64 if dtype.is_floating_point else L).to(dtype)[: len(at)]
    return found


# --- operations -------------------------------------------------------------------------------------------------------
#: torch itself has none of these on a CPU.
MISSING = {("nextafter", torch.float16), ("erfinv", torch.float16)}
#: Functions of these are compared where they have values that are no noise.
DOMAINS = {
    "tan": (-1.5, 1.5), "sin": (-30, 30), "cos": (-30, 30), "lgamma": (0.1, 30), "pow": (0, 5), "erfinv": (-0.999, 0.999),
    "sinh": (-80, 80), "cosh": (-80, 80), "exp": (-80, 80), "exp2": (-100, 100), "expm1": (-80, 80),
}  # fmt: skip


#: Rounded to the nearest number or not at all. (A square root is, too, but eager's of float32 is not.)
EXACT = {
    *"abs neg sign reciprocal floor ceil round trunc not add sub mul div fmod remainder floor_div trunc_div maximum".split(),
    *"minimum fmax fmin copysign nextafter and or xor shl shr eq ne lt le gt ge isnan isinf signbit where".split(),
}  # fmt: skip


def operands(name: str, dtype: torch.dtype, count: int) -> list[torch.Tensor]:
    if name == "where":
        return [some(B, count, 3), some(dtype, count), some(dtype, count, 1)]
    given = [some(dtype, count, seed) for seed in range(OPS[name].arity)]
    if dtype.is_floating_point and name in DOMAINS:
        low, high = DOMAINS[name]
        given = [torch.rand(count, generator=torch.Generator().manual_seed(9)).mul(high - low).add(low).to(dtype), *given[1:]]
    if name in ("fmod", "remainder", "floor_div", "trunc_div") and kind_of(dtype) == "i":
        given[1] = given[1].where(given[1] != 0, 3)
        if dtype.is_signed:  # eager's crash
            given[1] = given[1].where(given[1] != -1, 5)
    if name == "pow" and kind_of(dtype) == "i":
        given[1] = given[1] % 5
    if name in ("floor_div", "remainder", "fmod") and kind_of(dtype) == "f":  # a quotient that is no noise
        given = [value.clamp(-3e4, 3e4) for value in given]
        given[1] = given[1].where(given[1].abs() > 1e-3, 0.75)
    return given


def op_cases() -> list[tuple[str, torch.dtype]]:
    return [
        (name, dtype)
        for name, spec in OPS.items()
        for dtype in DTYPES
        if kind_of(dtype) in spec.kinds and spec.gives != "free" and "index" not in name and (name, dtype) not in MISSING
    ]


def op_kernel(name: str, dtype: torch.dtype) -> Kernel:
    spec = OPS[name]
    of = [B, dtype, dtype] if name == "where" else [dtype] * spec.arity
    values = [load(f"x{n}", j, dt) for n, dt in enumerate(of)]
    gives = B if spec.gives == "bool" else dtype
    buffers = [Buffer(f"x{n}", dt, m, "in") for n, dt in enumerate(of)]
    loop = Loop((), (Store("out", j, op(name, gives, *values)),))
    title = f"{name}_{str(dtype).removeprefix('torch.')}"
    return Kernel(title, (J,), (loop,), (*buffers, Buffer("out", gives, m, "out")), (M,))


@cache
def op_library(dtype: torch.dtype):
    return compile_unit([op_kernel(name, dt) for name, dt in op_cases() if dt == dtype])


@pytest.mark.sampled(30)
@pytest.mark.parametrize("name, dtype", op_cases(), ids=str)
def test_operation(name: str, dtype: torch.dtype) -> None:
    kernel, given = op_kernel(name, dtype), operands(name, dtype, 600)
    out = torch.zeros(600, dtype=kernel.buffers[-1].dtype)
    compare(kernel, {**{f"x{n}": x for n, x in enumerate(given)}, "out": out}, (600,),
            library=op_library(dtype), exact=name in EXACT)  # fmt: skip


CONVERSIONS = [(a, b) for a in DTYPES for b in DTYPES if a != b]


def conversion_kernel(a: torch.dtype, b: torch.dtype, name: str = "to") -> Kernel:
    title = f"{name}_{str(a).removeprefix('torch.')}_{str(b).removeprefix('torch.')}"
    loop = Loop((), (Store("out", j, op(name, b, load("x", j, a))),))
    return Kernel(title, (J,), (loop,), (Buffer("x", a, m, "in"), Buffer("out", b, m, "out")), (M,))


@cache
def conversions_library():
    return compile_unit([conversion_kernel(a, b) for a, b in CONVERSIONS])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("a, b", CONVERSIONS, ids=str)
def test_conversion(a: torch.dtype, b: torch.dtype) -> None:
    x = some(a, 600)
    if a.is_floating_point and kind_of(b) == "i":  # others have no value in C, or torch
        info = torch.iinfo(b)
        low, high = max(info.min / 2, torch.finfo(a).min), min(info.max / 2, torch.finfo(a).max)
        x = x.nan_to_num(0).clamp(low, high)
    compare(
        conversion_kernel(a, b), {"x": x, "out": torch.zeros(600, dtype=b)}, (600,), library=conversions_library(), exact=True
    )


def test_bools_become_floats_by_way_of_integers() -> None:
    """At once gcc makes no vectors of it: nothing of the loop is in vectors then."""
    for dtype in (torch.float16, torch.bfloat16, F, torch.float64):
        assert "(int32_t)v" in conversion("v", B, dtype)
    assert "int32_t" not in conversion("v", B, torch.int64)


BITS = [
    (a, b) for a in DTYPES for b in DTYPES if a != b and B not in (a, b) and torch.empty(0, dtype=a).element_size() == torch.empty(0, dtype=b).element_size()
]  # fmt: skip


@pytest.mark.parametrize("a, b", BITS, ids=str)
def test_bits(a: torch.dtype, b: torch.dtype) -> None:
    x = some(a, 64).nan_to_num(1) if a.is_floating_point else some(a, 64).clamp(0, 100)
    compare(conversion_kernel(a, b, "bits"), {"x": x, "out": torch.zeros(64, dtype=b)}, (64,), exact=True)


@pytest.mark.parametrize("dtype, stored", [(torch.float16, torch.int16), (torch.bfloat16, torch.int16)], ids=str)
def test_each_value_of_a_half_comes_back(dtype: torch.dtype, stored: torch.dtype) -> None:
    every = torch.arange(-(2**15), 2**15, dtype=torch.int16).view(dtype)
    kernel = op_kernel("neg", dtype)
    compare(kernel, {"x0": every, "out": torch.zeros(2**16, dtype=dtype)}, (2**16,), exact=True, library=op_library(dtype))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_rounding_to_a_half(dtype: torch.dtype) -> None:
    every = torch.arange(0, 2**32, 9973, dtype=L).to(torch.int32).view(F)
    ties = torch.arange(-(2**15), 2**15, dtype=torch.int16).view(dtype).float()
    between = (ties[1:] + ties[:-1]) / 2
    x = torch.cat([every, between, -between])
    kernel = conversion_kernel(F, dtype)
    compare(kernel, {"x": x, "out": torch.zeros(len(x), dtype=dtype)}, (len(x),), exact=True, library=conversions_library())


# --- reductions -------------------------------------------------------------------------------------------------------
def reduced_cases() -> list[tuple[str, torch.dtype]]:
    return [
        (kind, dtype)
        for kind, spec in REDUCTIONS.items()
        for dtype in DTYPES
        if kind_of(dtype) in spec.kinds
        and not (kind in ("sum", "prod", "logsumexp") and dtype in (torch.float16, torch.bfloat16))
        and not (kind in ("argmax", "argmin") and dtype is B)  # torch has none
    ]  # fmt: skip


def reduced_value(dtype: torch.dtype, at: Index) -> Expr:
    x = load("x", at, dtype)
    return x if kind_of(dtype) == "b" else op("add", dtype, x, ir.literal(1, dtype))


#: Where the elements of x are: a row after another, a column after another.
LAYOUTS = {"rows": i * m + j, "columns": j * n + i}


def reduce_kernel(kind: str, dtype: torch.dtype, layout: str) -> Kernel:
    reduce = Reduce("r", kind, reduced_value(dtype, LAYOUTS[layout]))
    loops = Loop((J,), (reduce,)), Loop((), (Store("out", i, result("r", reduce.dtype)),))
    title = f"{kind}_{str(dtype).removeprefix('torch.')}_{layout}"
    return Kernel(title, (I,), loops, (Buffer("x", dtype, n * m, "in"), Buffer("out", reduce.dtype, n, "out")), (N, M))


@cache
def reduce_library(layout: str):
    return compile_unit([reduce_kernel(kind, dtype, layout) for kind, dtype in reduced_cases()])


def reduced_values(kind: str, dtype: torch.dtype, shape: tuple[int, int], special: bool) -> torch.Tensor:
    g = torch.Generator().manual_seed(7)
    if dtype.is_floating_point:
        x = torch.randn(shape, generator=g).to(dtype)
        if kind == "prod":
            x = (x.sign() + x * 0.01 - 1).to(dtype)
        if special and shape[0] > 3 and shape[1]:
            x[0, 0] = x[1, -1] = math.nan
            x[2, 0], x[3] = math.inf, -math.inf
        return x
    if dtype is B:
        return torch.rand(shape, generator=g) < (0.01 if kind == "any" else 0.99)
    return torch.randint(0 if dtype is torch.uint8 else -100, 100, shape, generator=g).to(dtype)


SHAPES = [(3, 5), (5, 1), (7, 1000), (1, 5000), (5, 9000), (700, 3), (600, 600), (4, 0), (0, 4)]


@pytest.mark.sampled(15)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind, dtype", reduced_cases(), ids=str)
def test_reduction(kind: str, dtype: torch.dtype, layout: str) -> None:
    for rows, columns in SHAPES:
        for special in (False, True):
            x = reduced_values(kind, dtype, (rows, columns), special)
            x = (x if layout == "rows" else x.t()).reshape(-1)
            kernel = reduce_kernel(kind, dtype, layout)
            out = torch.zeros(rows, dtype=kernel.buffers[-1].dtype)
            close = (1e-3, 1e-5) if kind == "prod" and dtype is F else None
            compare(kernel, {"x": x, "out": out}, (rows, columns), library=reduce_library(layout), close=close)


def scan_cases() -> list[tuple[str, torch.dtype]]:
    return [(kind, dtype) for kind, dtype in reduced_cases() if kind in SCANS and dtype is not B]


def scan_kernel(kind: str, dtype: torch.dtype, layout: str) -> Kernel:
    reduce = Reduce("r", kind, reduced_value(dtype, LAYOUTS[layout]))
    loop = Loop((J,), (reduce, Store("out", LAYOUTS[layout], running("r", reduce.dtype))))
    title = f"{kind}_{str(dtype).removeprefix('torch.')}_{layout}"
    return Kernel(title, (I,), (loop,), (Buffer("x", dtype, n * m, "in"), Buffer("out", reduce.dtype, n * m, "out")), (N, M))


@cache
def scan_library(layout: str):
    return compile_unit([scan_kernel(kind, dtype, layout) for kind, dtype in scan_cases()])


@pytest.mark.sampled(4)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind, dtype", scan_cases(), ids=str)
def test_scan(kind: str, dtype: torch.dtype, layout: str) -> None:
    for rows, columns in [(3, 5), (7, 1000), (600, 20), (4, 0)]:
        x = reduced_values(kind, dtype, (rows, columns), True)
        x = (x if layout == "rows" else x.t()).reshape(-1)
        out = torch.zeros(rows * columns, dtype=dtype)
        compare(scan_kernel(kind, dtype, layout), {"x": x, "out": out}, (rows, columns),
                library=scan_library(layout), exact=(kind, dtype) == ("sum", F), close=(1e-3, 1e-5) if kind == "prod" and dtype is F else None)  # fmt: skip

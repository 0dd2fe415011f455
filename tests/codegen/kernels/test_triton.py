"""Kernels in Triton do what the evaluator does: every operation on every dtype, every reduction, every scan.

The kernels are those that C is tested with; Triton's interpreter runs them."""

from __future__ import annotations

import pytest
import torch

from codegen.kernels.triton_shape import Config
from tests.codegen.kernels.test_c import (
    BITS,
    CONVERSIONS,
    EXACT,
    LAYOUTS,
    conversion_kernel,
    op_cases,
    op_kernel,
    operands,
    reduce_kernel,
    reduced_cases,
    reduced_values,
    scan_cases,
    scan_kernel,
    some,
)
from tests.codegen.kernels.triton_runs import compare

F, B, L = torch.float32, torch.bool, torch.int64


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name, dtype", op_cases(), ids=str)
def test_operation(name: str, dtype: torch.dtype) -> None:
    kernel, given = op_kernel(name, dtype), operands(name, dtype, 600)
    out = torch.zeros(600, dtype=kernel.buffers[-1].dtype)
    compare(kernel, {**{f"x{n}": x for n, x in enumerate(given)}, "out": out}, (600,), exact=name in EXACT)


def test_the_sign_of_zero() -> None:
    """Triton's own negation and its constants have none."""
    zeros = torch.tensor([0.0, -0.0])
    for name in ("neg", "abs"):
        kernel = op_kernel(name, F)
        found = {"x0": zeros, "out": torch.ones(2)}
        compare(kernel, found, (2,), exact=True, bits=True)


@pytest.mark.parametrize("a, b", CONVERSIONS, ids=str)
def test_conversion(a: torch.dtype, b: torch.dtype) -> None:
    x = some(a, 600)
    if a.is_floating_point and not b.is_floating_point and b is not B:  # others have no value in torch
        info = torch.iinfo(b)
        low, high = max(info.min / 2, torch.finfo(a).min), min(info.max / 2, torch.finfo(a).max)
        x = x.nan_to_num(0).clamp(low, high)
    compare(conversion_kernel(a, b), {"x": x, "out": torch.zeros(600, dtype=b)}, (600,), exact=True)


@pytest.mark.parametrize("a, b", BITS, ids=str)
def test_bits(a: torch.dtype, b: torch.dtype) -> None:
    x = some(a, 64).nan_to_num(1) if a.is_floating_point else some(a, 64).clamp(0, 100)
    compare(conversion_kernel(a, b, "bits"), {"x": x, "out": torch.zeros(64, dtype=b)}, (64,), exact=True)


def thorough(cases: list[tuple[str, torch.dtype]]) -> list:
    """Those of other dtypes than the usual ones take long."""
    usual = {F, torch.bfloat16, torch.int32, torch.uint8, B}
    return [pytest.param(*case, marks=() if case[1] in usual else pytest.mark.long, id=f"{case[0]}-{case[1]}") for case in cases]


SHAPES = [(3, 5), (5, 1), (2, 5000), (5, 0), (0, 4), (70, 3), (40, 60)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind, dtype", thorough(reduced_cases()))
def test_reduction(kind: str, dtype: torch.dtype, layout: str) -> None:
    for rows, columns in SHAPES:
        for special in (False, True):
            x = reduced_values(kind, dtype, (rows, columns), special)
            x = (x if layout == "rows" else x.t()).reshape(-1)
            kernel = reduce_kernel(kind, dtype, layout)
            out = torch.zeros(rows, dtype=kernel.buffers[-1].dtype)
            close = (1e-3, 1e-5) if kind == "prod" and dtype is F else None
            config = Config(x=16, r=64) if columns < 100 else Config(r=1024)
            compare(kernel, {"x": x, "out": out}, (rows, columns), close=close, configs=[config])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind, dtype", thorough(scan_cases()))
def test_scan(kind: str, dtype: torch.dtype, layout: str) -> None:
    for rows, columns in [(3, 5), (2, 3000), (60, 20), (4, 0)]:
        x = reduced_values(kind, dtype, (rows, columns), True)
        x = (x if layout == "rows" else x.t()).reshape(-1)
        out = torch.zeros(rows * columns, dtype=dtype)
        compare(scan_kernel(kind, dtype, layout), {"x": x, "out": out}, (rows, columns),
                close=(1e-3, 1e-5) if kind == "prod" and dtype is F else None,
                configs=[Config(x=16, r=64) if columns < 100 else Config(r=1024)])  # fmt: skip

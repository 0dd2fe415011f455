"""How far the floats' functions of C kernels are off, over all floats."""

from __future__ import annotations

import math
from functools import cache

import pytest
import torch

from codegen.kernels.c_preamble import ERRORS
from tests.codegen.kernels.c_runs import compile_unit, run_c
from tests.codegen.kernels.test_c import F, op_kernel

ONE = [name for name in ERRORS if name != "pow"]
SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 0.5, 88.72, 88.73, 89.5, -103.9, -104.1, 128.0, -150.0,
           2.0**-126, -(2.0**-126), 2.0**-149, 2.0**40, -(2.0**39), 2.0**24, 3.4e38]  # fmt: skip


@cache
def library():
    return compile_unit([op_kernel(name, F) for name in (*ERRORS, "ndtr")])


def every(step: int = 3989) -> torch.Tensor:
    """Floats of all exponents, and all kinds."""
    return torch.cat([torch.arange(-(2**31), 2**31, step).to(torch.int32).view(F), torch.tensor(SPECIAL)])


def units(found: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    """How far off, in units of the last place of the nearest float; infinite where it should not be a number or is none."""
    near = exact.float()
    last = torch.nextafter(near.abs(), torch.tensor(math.inf)).double() - near.abs().double()
    off = (found.double() - exact).abs() / last.clamp(min=2.0**-149)
    special = ~torch.isfinite(near) | ~torch.isfinite(found)
    same = (found == near) | (found.isnan() & near.isnan())
    return off.where(~special, torch.where(same, 0.0, math.inf).double())


def computed(name: str, *given: torch.Tensor) -> torch.Tensor:
    inputs = {f"x{n}": x for n, x in enumerate(given)}
    return run_c(library(), op_kernel(name, F), {**inputs, "out": torch.zeros_like(given[0])}, (len(given[0]),))[1]["out"]


@pytest.mark.parametrize("name", ONE)
def test_largest_error(name: str) -> None:
    x = every()
    if name in ("sin", "cos"):  # beyond, see below
        x = x[(x.abs() < 2.0**40) | ~x.isfinite()]
    if name == "sigmoid":  # eager's is 0 below, too
        x = x[~(x < -88.3) | (x < -110)]
    exact = getattr(torch, name)(x.double())
    found = computed(name, x)
    off = units(found, exact)
    worst = int(off.argmax())
    assert off[worst] <= ERRORS[name], f"{name}({float(x[worst])!r}) = {float(found[worst])!r}, not {float(exact[worst])!r}"
    assert off[worst] > ERRORS[name] - 0.2, "the table says more than it must"
    zeros = exact == 0
    assert torch.equal(found[zeros].signbit(), exact[zeros].signbit())


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_angles_of_many_turns(name: str) -> None:
    x = every(99991)
    x = x[(x.abs() >= 2.0**40) & x.isfinite()]
    exact = torch.tensor([getattr(math, name)(value) for value in x.tolist()], dtype=torch.float64)
    assert (computed(name, x) - exact).abs().max() < 2.0**-23


def test_powers() -> None:
    g = torch.Generator().manual_seed(0)
    bases = torch.cat([every(1_000_003), torch.rand(4000, generator=g) * 3, -torch.rand(500, generator=g)])
    exponents = torch.cat([torch.tensor(SPECIAL), torch.randn(60, generator=g) * 9, torch.tensor([2.0, 3, -1, -3, -0.5, 7])])
    x, y = (v.reshape(-1) for v in torch.meshgrid(bases, exponents, indexing="ij"))
    exact = x.double().pow(y.double())
    off = units(computed("pow", x, y), exact)
    worst = int(off.argmax())
    assert off[worst] <= ERRORS["pow"], f"pow({float(x[worst])!r}, {float(y[worst])!r})"


def test_shares_of_normal_numbers() -> None:
    """One plus an error function, as eager code has it: far below 0 nothing is left."""
    x = every()
    exact, found = 0.5 * torch.erfc(x.double() * -math.sqrt(0.5)), computed("ndtr", x)
    assert (found.double() - exact).abs().nan_to_num(0).max() < 1.4 * 2.0**-24
    assert torch.equal(found.isnan(), x.isnan())
    assert computed("ndtr", torch.tensor([0.0, -7, 7, -math.inf, math.inf])).tolist() == [0.5, 0, 1, 0, 1]

"""Graphs through the lowering: what the programs of definitions give is what ATen gives."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.codegen.kernels.lowered import compare, lowered

ROOT = Path(__file__).parents[3]
F, D, B, H = torch.float32, torch.float64, torch.bfloat16, torch.float16
nn = torch.nn.functional


def made(*shape, dtype=F, seed=0):
    generator = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator, dtype=F).to(dtype)
    return torch.randint(0, 2 if dtype is torch.bool else 9, shape, generator=generator).to(dtype)


def specials(dtype):
    """Values at the borders of what functions are made of."""
    values = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, 3.0, -3.0, 20.5, -20.5, 1e-6, 90.0, -90.0, 300.0]
    values += [float("inf"), float("-inf"), float("nan")]
    return torch.tensor(values, dtype=dtype)


UNARY = """abs neg exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc
    erfinv lgamma sigmoid sqrt rsqrt reciprocal floor ceil trunc round sign sgn square frac deg2rad rad2deg nan_to_num
    isnan isinf signbit isposinf isneginf logical_not relu""".split()
BINARY = """add sub mul div atan2 maximum minimum fmax fmin hypot copysign nextafter remainder fmod floor_divide pow eq ne lt le
    gt ge logical_and logical_or logical_xor heaviside xlogy logaddexp logaddexp2""".split()
WITH_NUMBER = "add sub mul div remainder fmod floor_divide pow eq ne lt le gt ge copysign xlogy clamp_min clamp_max".split()


def same(function, *args, ulps=2.0):
    """Wholly lowered, and the same as ATen."""
    found = lowered(function, args)
    assert not found.called
    compare(found, args, ulps)


@pytest.mark.parametrize("dtype", [F, D, B, H, torch.int64, torch.bool], ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_unary(name, dtype):
    function = getattr(torch, name)
    x = specials(dtype) if dtype.is_floating_point else made(4, 5, dtype=dtype)
    try:
        function(x)
    except RuntimeError:
        pytest.skip("not for this dtype")
    same(function, x)


@pytest.mark.parametrize("dtypes", [(F, F), (D, D), (B, B), (F, B), (torch.int64, F), (torch.bool, B)], ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_binary(name, dtypes):
    function = getattr(torch, name)
    if name == "nextafter" and B in dtypes and F not in dtypes:
        pytest.skip("left to ATen")
    values = [specials(dtype) if dtype.is_floating_point else made(18, dtype=dtype) for dtype in dtypes]
    args = values[0][:, None], values[1]
    try:
        function(*args)
    except RuntimeError:
        pytest.skip("not for these dtypes")
    same(function, *args)


@pytest.mark.parametrize("number", [0.1, 2, -3.5, 1.0])
@pytest.mark.parametrize("dtype", [F, B, H, torch.int64], ids=str)
@pytest.mark.parametrize("name", WITH_NUMBER)
def test_with_a_number(name, dtype, number):
    function = getattr(torch, name)
    x = specials(dtype) if dtype.is_floating_point else made(4, 5, dtype=dtype)
    same(lambda x: function(x, number), x)


@pytest.mark.parametrize("dtypes", [(B, F), (F, B), (F, D), (torch.int64, F), (F, torch.int64)], ids=str)
@pytest.mark.parametrize("name", "add sub mul div maximum atan2 eq lt pow".split())
def test_with_a_tensor_without_dimensions(name, dtypes):
    x = specials(dtypes[0]) if dtypes[0].is_floating_point else made(4, 5, dtype=dtypes[0])
    y = torch.tensor(3, dtype=dtypes[1]) if not dtypes[1].is_floating_point else torch.tensor(0.3, dtype=dtypes[1])
    same(getattr(torch, name), x, y)


ACTIVATIONS = {
    "relu": nn.relu, "relu6": nn.relu6, "hardtanh": nn.hardtanh, "leaky_relu": nn.leaky_relu, "elu": nn.elu, "celu": nn.celu,
    "selu": nn.selu, "silu": nn.silu, "gelu": nn.gelu, "gelu_tanh": lambda x: nn.gelu(x, approximate="tanh"),
    "mish": nn.mish, "softplus": nn.softplus, "hardswish": nn.hardswish, "hardsigmoid": nn.hardsigmoid,
    "logsigmoid": nn.logsigmoid, "hardshrink": nn.hardshrink, "softshrink": nn.softshrink, "tanhshrink": nn.tanhshrink,
    "softsign": nn.softsign, "sigmoid": torch.sigmoid, "tanh": torch.tanh, "logit": torch.logit,
    "threshold": lambda x: nn.threshold(x, 0.5, 3.0), "clamp": lambda x: x.clamp(-0.3, 0.7),
    "pow3": lambda x: x**3, "pow1.5": lambda x: x.abs() ** 1.5, "rsqrt": lambda x: x.abs().rsqrt(),
}  # fmt: skip


#: Where eager's vectors and its single elements differ.
UNSURE = {"gelu": float("inf"), "logit": -0.0}


@pytest.mark.parametrize("dtype", [F, D, B, H], ids=str)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation_and_gradient(name, dtype):
    borders = specials(dtype)
    if name in UNSURE:
        borders = borders[borders.abs() != abs(UNSURE[name])]
    for x in (made(6, 33, dtype=dtype), borders):
        same(ACTIVATIONS[name], x.requires_grad_(), ulps=2.0 if dtype in (B, H) else 20.0)

"""Activations and their backwards: the formulas of ATen, in float32 for half dtypes."""

from __future__ import annotations

import math
from typing import Any

import torch

from codegen.kernels import index as ix
from codegen.kernels import ir
from codegen.kernels.index import Index
from codegen.kernels.ir import Expr
from codegen.kernels.lowering.context import Lowering, Ref, computed_in, fn, shape_of, to, where, wrap
from codegen.kernels.lowering.elementwise import elementwise
from codegen.kernels.lowering.pointwise import formula, within
from codegen.kernels.lowering.table import lowers
from codegen.kernels.lowering.views import moved

aten = torch.ops.aten


def exp(x: Expr) -> Expr:
    return fn("exp", x)


# --- bent lines -------------------------------------------------------------------------------------------------------
lowers(aten.relu.default)(formula(lambda x: fn("maximum", x, 0)))


def _on_cpu(low: Lowering) -> bool:
    """There a threshold is not rounded to a half type, on CUDA it is."""
    return low.out.device.type == "cpu"


@lowers(aten.threshold.default)
def _threshold(low: Lowering, x: Ref, threshold: Any, value: Any) -> Ref:
    return elementwise(low, [x, threshold, value], lambda x, t, v: where(x <= t, v, x), wide_numbers=_on_cpu(low))


@lowers(aten.threshold_backward.default)
def _threshold_backward(low: Lowering, grad: Ref, x: Ref, threshold: Any) -> Ref:
    return elementwise(low, [grad, x, threshold], lambda g, x, t: where(x <= t, 0, g), wide_numbers=_on_cpu(low))


@lowers(aten.hardtanh.default)
def _hardtanh(low: Lowering, x: Ref, lowest: Any = -1, highest: Any = 1) -> Ref:
    return elementwise(low, [x, lowest, highest], within, wide_numbers=False)


@lowers(aten.hardtanh_backward.default)
def _hardtanh_backward(low: Lowering, grad: Ref, x: Ref, lowest: Any, highest: Any) -> Ref:
    return elementwise(
        low, [grad, x, lowest, highest], lambda g, x, a, b: where((x <= a) | (x >= b), 0, g), wide_numbers=False
    )


@lowers(aten.leaky_relu.default)
def _leaky_relu(low: Lowering, x: Ref, slope: Any = 0.01) -> Ref:
    return elementwise(low, [x, slope], lambda x, s: where(x > 0, x, x * s))


@lowers(aten.leaky_relu_backward.default)
def _leaky_relu_backward(low: Lowering, grad: Ref, x: Ref, slope: Any, is_result: bool) -> Ref:
    return elementwise(low, [grad, x, slope], lambda g, x, s: where(x > 0, g, g * s))


lowers(aten._prelu_kernel.default)(formula(lambda x, w: where(x > 0, x, w * x)))


@lowers(aten._prelu_kernel_backward.default)
def _prelu_backward(low: Lowering, grad: Ref, x: Ref, weight: Ref) -> tuple[Ref, Ref]:
    of_x, of_weight = low.out
    return (
        elementwise(low, [grad, x, weight], lambda g, x, w: where(x > 0, g, w * g), out=of_x),
        elementwise(low, [grad, x], lambda g, x: where(x > 0, 0, x * g), out=of_weight, hint="weight"),
    )


def _shrunk(x: Expr, bound: Any, inside: Any, outside: Expr) -> Expr:
    return where((x >= -bound) & (x <= bound), inside, outside)


@lowers(aten.hardshrink.default)
def _hardshrink(low: Lowering, x: Ref, bound: Any = 0.5) -> Ref:
    return elementwise(low, [x, bound], lambda x, b: _shrunk(x, b, 0, x))


@lowers(aten.softshrink.default)
def _softshrink(low: Lowering, x: Ref, bound: Any = 0.5) -> Ref:
    # NaN stays NaN
    return elementwise(low, [x, bound], lambda x, b: where(x > b, x - b, where(x < -b, x + b, x * 0)))


@lowers(aten.hardshrink_backward.default, aten.softshrink_backward.default)
def _shrink_backward(low: Lowering, grad: Ref, x: Ref, bound: Any) -> Ref:
    return elementwise(low, [grad, x, bound], lambda g, x, b: _shrunk(x, b, 0, g))


def _ramp(x: Expr) -> Expr:
    return fn("minimum", fn("maximum", x + 3, 0), 6)


SIXTH = torch.tensor(1 / 6, dtype=torch.float32).item()  # as eager has it, in float64 too
lowers(aten.hardsigmoid.default)(formula(lambda x: _ramp(x) / 6))
lowers(aten.hardsigmoid_backward.default)(formula(lambda g, x: where((x > -3) & (x < 3), g * SIXTH, 0)))
lowers(aten.hardswish.default)(formula(lambda x: x * _ramp(x) / 6))
lowers(aten.hardswish_backward.default)(
    formula(lambda g, x: where(x <= -3, 0, where(x < 3, g * (x / 3 + 0.5), g)))
)


# --- exponentials -----------------------------------------------------------------------------------------------------
@lowers(aten.elu.default)
def _elu(low: Lowering, x: Ref, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> Ref:
    def bent(x: Expr, a: Expr, s: Expr, i: Expr) -> Expr:
        return where(x < 0, fn("expm1", x * i) * (a * s), x * s)

    return elementwise(low, [x, alpha, scale, input_scale], bent)


@lowers(aten.celu.default)
def _celu(low: Lowering, x: Ref, alpha: Any = 1) -> Ref:
    return elementwise(low, [x, alpha], lambda x, a: where(x < 0, fn("expm1", x * (1 / a)) * a, x))


@lowers(aten.elu_backward.default)
def _elu_backward(
    low: Lowering, grad: Ref, alpha: Any, scale: Any, input_scale: Any, is_result: bool, x: Ref
) -> Ref:
    def gradient(g: Expr, x: Expr, a: Expr, s: Expr, i: Expr) -> Expr:
        negative = g * i * (x + a * s) if is_result else g * i * (a * s) * exp(x * i)
        return where(x <= 0, negative, g * s)

    return elementwise(low, [grad, x, alpha, scale, input_scale], gradient)


def sigmoid(x: Expr) -> Expr:
    return 1 / (1 + exp(-x))


lowers(aten.silu.default)(formula(lambda x: x / (1 + exp(-x))))


def _silu_gradient(g: Expr, x: Expr) -> Expr:
    s = sigmoid(x)
    return g * s * (1 + x * (1 - s))


lowers(aten.silu_backward.default)(formula(_silu_gradient))
lowers(aten.sigmoid_backward.default)(formula(lambda g, y: g * (1 - y) * y))
lowers(aten.tanh_backward.default)(formula(lambda g, y: g * (1 - y * y)))


@lowers(aten.logit_backward.default)
def _logit_backward(low: Lowering, grad: Ref, x: Ref, eps: Any = None) -> Ref:
    def gradient(g: Expr, x: Expr) -> Expr:
        lowest, highest, beyond = (0, 1, float("nan")) if eps is None else (eps, 1 - eps, 0)
        return where((x < lowest) | (x > highest), beyond, g / (x * (1 - x)))

    return elementwise(low, [grad, x], gradient)


TANH_SLOPE = math.sqrt(2) * (2 / math.sqrt(math.pi)) * 0.5
TANH_CUBE = 0.044715
DENSITY = (2 / math.sqrt(math.pi)) * math.sqrt(0.5) * 0.5


def _gelu(x: Expr) -> Expr:
    return x * fn("ndtr", x)


def _gelu_tanh(x: Expr) -> Expr:
    return 0.5 * x * (1 + fn("tanh", TANH_SLOPE * (x + TANH_CUBE * (x * x * x))))


def _gelu_gradient(g: Expr, x: Expr) -> Expr:
    return g * (fn("ndtr", x) + x * (exp(x * x * -0.5) * DENSITY))


def _gelu_tanh_gradient(g: Expr, x: Expr) -> Expr:
    t = fn("tanh", TANH_SLOPE * (x + TANH_CUBE * (x * x * x)))
    inner = TANH_SLOPE * (1 + 3 * TANH_CUBE * (x * x))
    return g * (0.5 * (1 + t) + 0.5 * x * ((1 - t * t) * inner))


@lowers(aten.gelu.default)
def _gelu_row(low: Lowering, x: Ref, *, approximate: str = "none") -> Ref:
    return elementwise(low, [x], _gelu if approximate == "none" else _gelu_tanh)


@lowers(aten.gelu_backward.default)
def _gelu_backward(low: Lowering, grad: Ref, x: Ref, *, approximate: str = "none") -> Ref:
    return elementwise(low, [grad, x], _gelu_gradient if approximate == "none" else _gelu_tanh_gradient)


@lowers(aten.softplus.default)
def _softplus(low: Lowering, x: Ref, beta: Any = 1, threshold: Any = 20) -> Ref:
    def smooth(x: Expr, b: Expr, t: Expr) -> Expr:
        return where(x * b > t, x, fn("log1p", exp(x * b)) / b)

    return elementwise(low, [x, beta, threshold], smooth)


@lowers(aten.softplus_backward.default)
def _softplus_backward(low: Lowering, grad: Ref, x: Ref, beta: Any, threshold: Any) -> Ref:
    def gradient(g: Expr, x: Expr, b: Expr, t: Expr) -> Expr:
        z = exp(x * b)
        return where(x * b > t, g, g * z / (z + 1))

    return elementwise(low, [grad, x, beta, threshold], gradient)


lowers(aten.mish.default)(formula(lambda x: x * fn("tanh", fn("log1p", exp(x)))))


def _mish_gradient(g: Expr, x: Expr) -> Expr:
    t = fn("tanh", fn("log1p", exp(x)))
    return g * (t + x * sigmoid(x) * (1 - t * t))


lowers(aten.mish_backward.default)(formula(_mish_gradient))


@lowers(aten.log_sigmoid_forward.default)
def _log_sigmoid(low: Lowering, x: Ref) -> tuple[Ref, Ref]:
    """The buffer is exp(-|x|) on CPU; on other devices it is empty."""
    out, buffer = low.out

    def value(x: Expr) -> Expr:
        return fn("minimum", x, 0) - fn("log1p", exp(-fn("abs", x)))

    is_kept = shape_of(buffer) == x.shape
    return (
        elementwise(low, [x], value, out=out),
        elementwise(low, [x] if is_kept else [], lambda *x: exp(-fn("abs", *x)) if x else _zero(buffer), out=buffer,
                    hint="buffer"),
    )  # fmt: skip


def _zero(like: torch.Tensor) -> Expr:
    return ir.literal(0, computed_in(like.dtype))


@lowers(aten.log_sigmoid_backward.default)
def _log_sigmoid_backward(low: Lowering, grad: Ref, x: Ref, buffer: Ref) -> Ref:
    def gradient(g: Expr, x: Expr) -> Expr:
        z = exp(-fn("abs", x))
        share = z / (1 + z)
        return g * where(x < 0, 1 - share, share)

    return elementwise(low, [grad, x], gradient)


# --- gates ------------------------------------------------------------------------------------------------------------
@lowers(aten.glu.default)
def _glu(low: Lowering, x: Ref, dim: int = -1) -> Ref:
    wide, dim = computed_in(x.dtype), wrap(dim, x.dim)
    half = shape_of(low.out)[dim]

    def element(*at: Index) -> Expr:
        gate = to(x.at(moved(at, dim, at[dim] + half)), wide)
        return to(to(x[at], wide) * sigmoid(gate), x.dtype)

    return low.define(shape_of(low.out), x.dtype, element)


@lowers(aten.glu_backward.default)
def _glu_backward(low: Lowering, grad: Ref, x: Ref, dim: int) -> Ref:
    wide, dim = computed_in(x.dtype), wrap(dim, x.dim)
    half = grad.shape[dim]

    def element(*at: Index) -> Expr:
        own = at[dim] % half if half != 0 else ix.index(0)
        first = ir.position(at[dim]) < ir.position(half)
        a, b, g = (
            to(of.at(moved(at, dim, i)), wide) for of, i in ((x, own), (x, own + half), (grad, own))
        )
        s = sigmoid(b)
        return to(where(first, s * g, (1 - s) * s * g * a), x.dtype)

    return low.define(x.shape, x.dtype, element)


@lowers(aten.native_dropout_backward.default)
def _dropout_backward(low: Lowering, grad: Ref, mask: Ref, scale: Any) -> Ref:
    return elementwise(low, [grad, mask, scale], lambda g, m, s: g * m * s)

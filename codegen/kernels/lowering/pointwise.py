"""Pointwise arithmetic: one row each, a formula over elements."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from codegen.kernels import ir
from codegen.kernels.index import Index
from codegen.kernels.ir import Expr
from codegen.kernels.lowering.context import (
    Lowering,
    Ref,
    Unsupported,
    broadcast,
    computed_in,
    fn,
    is_true,
    number,
    rounded,
    shape_of,
    to,
    where,
)
from codegen.kernels.lowering.elementwise import Formula, elementwise, on_cpu, promoted
from codegen.kernels.lowering.table import lowers
from codegen.kernels.ops import kind_of

aten = torch.ops.aten
INFINITY = float("inf")


def overload(name: str) -> Any:
    packet, _, rest = name.partition(".")
    return getattr(getattr(aten, packet), rest or "default")


def _rows(names: str, row: Callable[[str], Callable[..., Any]]) -> None:
    """The same row for all these: `row(name)` for name and name.overload."""
    for name in names.split():
        lowers(overload(name))(row(name.partition(".")[0]))


def formula(function: Formula, **options: Any) -> Callable[..., Ref]:
    """A row of an operation with positional arguments alone."""

    def row(low: Lowering, *args: Any) -> Ref:
        return elementwise(low, args, function, **options)

    return row


# --- one operation of the IR of the same name -------------------------------------------------------------------------
_rows(
    "exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc erfinv "
    "lgamma sigmoid sqrt rsqrt reciprocal neg abs hypot copysign.Tensor copysign.Scalar",
    lambda name: formula(lambda *args: fn(name, *args), wide_numbers=False),
)
_rows("atan2 maximum minimum", lambda name: formula(lambda *args: fn(name, *args), wide_numbers=False))
#: Kernels read what lies in memory, and see no bit.
lowers(aten._neg_view.default)(formula(lambda x: fn("neg", x), wide_numbers=False))


def _other_than_nan(name: str, of_integers: str) -> Formula:
    return lambda x, y: fn(name if x.dtype.is_floating_point else of_integers, x, y)


lowers(aten.fmax.default)(formula(_other_than_nan("fmax", "maximum"), wide_numbers=False))
lowers(aten.fmin.default)(formula(_other_than_nan("fmin", "minimum"), wide_numbers=False))


@lowers(aten.nextafter.default)
def _nextafter(low: Lowering, x: Ref, y: Ref) -> Ref:
    if low.out.dtype != computed_in(low.out.dtype):
        raise Unsupported("neighbours of half numbers")
    return elementwise(low, [x, y], lambda x, y: fn("nextafter", x, y))


def _rounding(name: str) -> Formula:
    return lambda x: fn(name, x) if x.dtype.is_floating_point else x


_rows("floor ceil trunc round", lambda name: formula(_rounding(name)))


@lowers(aten.round.decimals)
def _round_decimals(low: Lowering, x: Ref, *, decimals: int) -> Ref:
    if decimals:
        raise Unsupported("decimals")
    return elementwise(low, [x], _rounding("round"))


# --- arithmetic -------------------------------------------------------------------------------------------------------
def added(a: Expr, b: Expr, alpha: Any = 1) -> Expr:
    if a.dtype == torch.bool:
        return a | _times(b, alpha)
    return a + _times(b, alpha)


def _times(value: Expr, alpha: Any) -> Expr:
    is_one = not isinstance(alpha, Expr) and alpha == 1
    return value if is_one else multiplied(number(alpha, value.dtype), value)


def _factor(low: Lowering, alpha: Any) -> Any:
    """Torch takes none of a kind above that of the result, nor a bool for numbers, and says so when it is called."""
    is_one = not isinstance(alpha, Expr) and alpha == 1
    if isinstance(alpha, Expr) and kind_of(low.out.dtype) in {"b": "icf", "f": "ib"}.get(kind_of(alpha.dtype), ""):
        raise Unsupported("a factor of another kind")
    return alpha if is_one or not on_cpu(low) else number(alpha, low.out.dtype)


def multiplied(a: Expr, b: Expr) -> Expr:
    return a & b if a.dtype == torch.bool else a * b


@lowers(aten.add.Tensor, aten.add.Scalar)
def _add(low: Lowering, a: Ref, b: Any, alpha: Any = 1) -> Ref:
    factor = _factor(low, alpha)
    return elementwise(low, [a, b], lambda x, y: added(x, y, factor), wide_numbers=not on_cpu(low))


def _no_truths(*operands: Any) -> None:
    """Torch takes no difference to a bool, and says so when it is called."""
    if any(isinstance(each, bool) or getattr(each, "dtype", None) == torch.bool for each in operands):
        raise Unsupported("a difference of bools")


@lowers(aten.sub.Tensor, aten.sub.Scalar)
def _sub(low: Lowering, a: Ref, b: Any, alpha: Any = 1) -> Ref:
    _no_truths(a, b)
    factor = _factor(low, alpha)
    return elementwise(low, [a, b], lambda x, y: x - _times(y, factor), wide_numbers=not on_cpu(low))


@lowers(aten.rsub.Tensor, aten.rsub.Scalar)
def _rsub(low: Lowering, a: Ref, b: Any, alpha: Any = 1) -> Ref:
    _no_truths(a, b)
    factor = _factor(low, alpha)
    return elementwise(low, [a, b], lambda x, y: y - _times(x, factor), wide_numbers=not on_cpu(low))


_rows("mul.Tensor mul.Scalar", lambda _: formula(multiplied))


@lowers(aten.div.Tensor, aten.div.Scalar, aten.div.Tensor_mode, aten.div.Scalar_mode)
def _div(low: Lowering, a: Ref, b: Any, rounding_mode: str | None = None) -> Ref:
    if rounding_mode is None:
        return elementwise(low, [a, b], lambda x, y: x / y)
    return _integral(low, {"floor": "floor_div", "trunc": "trunc_div"}[rounding_mode], a, b)


@lowers(aten.floor_divide.default, aten.floor_divide.Scalar)
def _floor_divide(low: Lowering, a: Ref, b: Any) -> Ref:
    return _integral(low, "floor_div", a, b)


def _modulo(name: str) -> Callable[..., Ref]:
    return lambda low, a, b: _integral(low, name, a, b)


def _integral(low: Lowering, name: str, a: Ref, b: Any) -> Ref:
    """Integers are divided here by constants only: eager raises for zeros."""
    if not low.out.dtype.is_floating_point and (not isinstance(b, int) or b in (0, -1)):
        raise Unsupported("an integer divided by what may be 0")
    whole = name in ("floor_div", "trunc_div")
    return elementwise(low, [a, b], lambda x, y: fn(name, x, y), wide_numbers=whole)


_rows("remainder.Tensor remainder.Scalar fmod.Tensor fmod.Scalar", lambda name: _modulo(name))


@lowers(aten.remainder.Scalar_Tensor)
def _remainder_of_number(low: Lowering, a: Any, b: Ref) -> Ref:
    if not low.out.dtype.is_floating_point:
        raise Unsupported("an integer divided by what may be 0")
    return elementwise(low, [a, b], lambda x, y: fn("remainder", x, y))


def power(low: Lowering, x: Expr, exponent: Any) -> Expr:
    """As eager's kernel for an exponent that is a plain number."""
    is_rounded = low.out.dtype is torch.bfloat16 and on_cpu(low)
    square = rounded(x * x, torch.bfloat16) if is_rounded else x * x
    powers: dict[float, Callable[[], Expr]] = {0: lambda: ir.literal(1, x.dtype), 1: lambda: x, 2: lambda: x * x}
    if x.dtype.is_floating_point:
        powers |= {
            3: lambda: square * x, 0.5: lambda: fn("sqrt", x), -1: lambda: fn("reciprocal", x),
            -0.5: lambda: fn("rsqrt", x), -2: lambda: fn("reciprocal", square),
        }  # fmt: skip
    if not isinstance(exponent, Expr) and exponent in powers:
        return powers[exponent]()
    return fn("pow", x, to(number(exponent, low.out.dtype if on_cpu(low) else x.dtype), x.dtype))


@lowers(aten.pow.Tensor_Scalar)
def _pow(low: Lowering, x: Ref, exponent: Any) -> Ref:
    if low.out.dtype == torch.bool:
        raise Unsupported("a power of bools")
    return elementwise(low, [x], lambda x: power(low, x, exponent))


@lowers(aten.pow.Tensor_Tensor, aten.pow.Scalar)
def _pow_of_tensors(low: Lowering, x: Any, exponent: Ref) -> Ref:
    if low.out.dtype == torch.bool:
        raise Unsupported("a power of bools")
    return elementwise(low, [x, exponent], lambda x, y: fn("pow", x, y), wide_numbers=not on_cpu(low))


@lowers(aten.lerp.Scalar, aten.lerp.Tensor)
def _lerp(low: Lowering, start: Ref, end: Ref, weight: Any) -> Ref:
    def between(a: Expr, b: Expr, w: Expr) -> Expr:
        return where(fn("abs", w) < 0.5, a + w * (b - a), b - (b - a) * (1 - w))

    return elementwise(low, [start, end, weight], between)


@lowers(aten.addcmul.default)
def _addcmul(low: Lowering, x: Ref, a: Ref, b: Ref, *, value: Any = 1) -> Ref:
    return elementwise(low, [x, a, b], lambda x, a, b: x + _times(a, value) * b)


@lowers(aten.addcdiv.default)
def _addcdiv(low: Lowering, x: Ref, a: Ref, b: Ref, *, value: Any = 1) -> Ref:
    return elementwise(low, [x, a, b], lambda x, a, b: x + _times(a, value) / b)


# --- signs, parts -----------------------------------------------------------------------------------------------------
def sign(x: Expr) -> Expr:
    return fn("sign", x)


_rows("sign sgn", lambda _: formula(sign))
_rows("square", lambda _: formula(lambda x: x * x))
_rows("positive", lambda _: formula(lambda x: x))
_rows("frac", lambda _: formula(lambda x: x - fn("trunc", x)))
_rows("deg2rad", lambda _: formula(lambda x: x * (math.pi / 180)))
_rows("rad2deg", lambda _: formula(lambda x: x * (180 / math.pi)))
_rows("heaviside", lambda _: formula(lambda x, y: where(fn("eq", x, 0), y, to(fn("gt", x, 0), x.dtype))))


@lowers(aten.nan_to_num.default)
def _nan_to_num(low: Lowering, x: Ref, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Ref:
    if not x.dtype.is_floating_point:
        return elementwise(low, [x], lambda x: x)
    bounds = torch.finfo(x.dtype)
    above = bounds.max if posinf is None else posinf
    below = bounds.min if neginf is None else neginf

    def finite(x: Expr) -> Expr:
        whole = where(fn("eq", x, INFINITY), above, where(fn("eq", x, -INFINITY), below, x))
        return where(fn("isnan", x), 0 if nan is None else nan, whole)

    return elementwise(low, [x], finite)


# --- truth ------------------------------------------------------------------------------------------------------------
def compared(name: str) -> Callable[..., Ref]:
    def row(low: Lowering, a: Ref, b: Any) -> Ref:
        return elementwise(low, [a, b], lambda x, y: fn(name, x, y), dtype=promoted(a, b), wide_numbers=False)

    return row


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    _rows(f"{_name}.Tensor {_name}.Scalar", compared)


def _looked_at(function: Formula, of_integers: Formula) -> Callable[..., Ref]:
    """A property of an element that only floats have."""

    def row(low: Lowering, x: Ref) -> Ref:
        return elementwise(low, [x], function if x.dtype.is_floating_point else of_integers, dtype=x.dtype)

    return row


def _never(x: Expr) -> Expr:
    return ir.literal(False, torch.bool)


def _negative(x: Expr) -> Expr:
    return _never(x) if x.dtype in (torch.bool, torch.uint8) else x < 0


_rows("isnan isinf", lambda name: _looked_at(lambda x: fn(name, x), _never))
_rows("signbit", lambda name: _looked_at(lambda x: fn(name, x), _negative))
_rows("isposinf", lambda _: _looked_at(lambda x: fn("eq", x, INFINITY), _never))
_rows("isneginf", lambda _: _looked_at(lambda x: fn("eq", x, -INFINITY), _never))


def _logical(function: Formula) -> Callable[..., Ref]:
    def row(low: Lowering, *args: Ref) -> Ref:
        def element(*operands: Expr) -> Expr:
            return function(*map(is_true, operands))

        return elementwise(low, args, element, dtype=promoted(*args))

    return row


_rows("logical_not", lambda _: _logical(lambda x: ~x))
_rows("logical_and", lambda _: _logical(lambda x, y: x & y))
_rows("logical_or", lambda _: _logical(lambda x, y: x | y))
_rows("logical_xor", lambda _: _logical(lambda x, y: fn("xor", x, y)))

_rows("bitwise_not", lambda _: formula(lambda x: ~x))
for _name, _op in (("and", "and"), ("or", "or"), ("xor", "xor"), ("left_shift", "shl"), ("right_shift", "shr")):
    for _form in ("Tensor", "Scalar_Tensor", "Tensor_Scalar" if "shift" in _name else "Scalar"):
        _rows(f"bitwise_{_name}.{_form}", lambda _, op=_op: formula(lambda x, y: fn(op, x, y)))  # type: ignore[misc]
for _form in ("Tensor", "Scalar"):
    _rows(f"__lshift__.{_form}", lambda _: formula(lambda x, y: fn("shl", x, y)))
    _rows(f"__rshift__.{_form}", lambda _: formula(lambda x, y: fn("shr", x, y)))


# --- choices ----------------------------------------------------------------------------------------------------------
def chosen(low: Lowering, condition: Ref, a: Any, b: Any) -> Ref:
    """Elements of a where the condition is true, else of b; nothing is computed with them."""

    def element(*at: Index) -> Expr:
        x, y = (to(broadcast(v, at), low.out.dtype) if isinstance(v, Ref) else number(v, low.out.dtype) for v in (a, b))
        return where(is_true(broadcast(condition, at)), x, y)

    return low.define(shape_of(low.out), low.out.dtype, element)


lowers(aten.where.self, aten.where.ScalarOther, aten.where.ScalarSelf, aten.where.Scalar)(chosen)


@lowers(aten.masked_fill.Scalar, aten.masked_fill.Tensor)
def _masked_fill(low: Lowering, x: Ref, mask: Ref, value: Any) -> Ref:
    return chosen(low, mask, value, x)


def within(x: Expr, low: Any, high: Any) -> Expr:
    """As eager clamps: NaN stays, and the upper bound wins."""
    x = x if low is None else fn("maximum", x, low)
    return x if high is None else fn("minimum", x, high)


@lowers(aten.clamp.default, aten.clamp.Tensor)
def _clamp(low: Lowering, x: Ref, minimum: Any = None, maximum: Any = None) -> Ref:
    return elementwise(low, [x, minimum, maximum], within, wide_numbers=False)


lowers(aten.clamp_min.default, aten.clamp_min.Tensor)(formula(lambda x, y: fn("maximum", x, y), wide_numbers=False))
lowers(aten.clamp_max.default, aten.clamp_max.Tensor)(formula(lambda x, y: fn("minimum", x, y), wide_numbers=False))


# --- several operations in one ----------------------------------------------------------------------------------------
def xlogy(x: Expr, y: Expr, log: Formula) -> Expr:
    return where(fn("isnan", y), y, where(fn("eq", x, 0), 0, x * log(y)))


def _xlogy(low: Lowering, x: Any, y: Any) -> Ref:
    dtype = low.out.dtype if on_cpu(low) else computed_in(low.out.dtype)
    return elementwise(low, [x, y], lambda x, y: xlogy(x, y, lambda e: rounded(fn("log", e), dtype)))


_rows("xlogy.Tensor xlogy.Scalar_Self xlogy.Scalar_Other", lambda _: _xlogy)
_rows("special_xlog1py", lambda _: formula(lambda x, y: xlogy(x, y, lambda e: fn("log1p", e))))


def _entropy(x: Expr) -> Expr:
    at_most_0 = where(fn("eq", x, 0), ir.literal(0, x.dtype), -INFINITY)
    return where(fn("isnan", x), x, where(x > 0, -x * fn("log", x), at_most_0))


_rows("special_entr", lambda _: formula(_entropy))


def _log_of_sum(x: Expr, y: Expr, exp: str, log1p: Formula) -> Expr:
    top = fn("maximum", x, y)
    same = fn("isinf", x) & fn("eq", x, y)
    return where(same, x, top + log1p(fn(exp, -fn("abs", x - y))))


def _log2_of_1_and(x: Expr) -> Expr:
    return fn("log1p", x) * (1 / math.log(2))


_rows("logaddexp", lambda _: formula(lambda x, y: _log_of_sum(x, y, "exp", lambda e: fn("log1p", e))))
_rows("logaddexp2", lambda _: formula(lambda x, y: _log_of_sum(x, y, "exp2", _log2_of_1_and)))


def _sinc(x: Expr) -> Expr:
    return where(fn("eq", x, 0), 1, fn("sin", x * math.pi) / (x * math.pi))


_rows("sinc", lambda _: formula(_sinc))


@lowers(aten.logit.default)
def _logit(low: Lowering, x: Ref, eps: Any = None) -> Ref:
    dtype = low.out.dtype if on_cpu(low) else computed_in(low.out.dtype)

    def of(x: Expr) -> Expr:
        if eps is not None:
            least = to(number(eps, dtype), x.dtype)
            x = within(x, least, rounded(1 - least, dtype))
        return fn("log", rounded(x / rounded(1 - x, dtype), dtype))

    return elementwise(low, [x], of)

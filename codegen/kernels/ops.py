"""The operations of the loop IR: what each one means, as a torch function.

Operands have the dtype of the result (of each other, for comparisons) unless a row says otherwise; `to` converts. What
a row gives in float16 and bfloat16 is what torch gives: computed in float32 and rounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class OpSpec:
    """`meaning(*operands)`, over whole tensors. `kinds`: of the dtypes it is defined for, letters of "f" (floating),
    "c" (complex), "i" (integers), "b" (bool). `gives`: "same" as its operands, "bool", or "free": the Op names it.
    `cost`: in additions of the same width, what computing it again takes."""

    meaning: Callable[..., Any]
    arity: int
    kinds: str
    gives: str = "same"
    cost: int = 1


def _held(condition: torch.Tensor) -> torch.Tensor:
    if not condition.all():
        raise IndexError("index out of range in self")
    return condition


def _index(i: torch.Tensor, size: torch.Tensor) -> torch.Tensor:
    _held((i >= 0) & (i < size))
    return i


def _wrapped(i: torch.Tensor, size: torch.Tensor) -> torch.Tensor:
    return _index(torch.where(i < 0, i + size, i), size)


def _to(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return value.to(dtype)


_FUNCTIONS: dict[str, tuple[Callable[..., Any], str, int]] = {
    # name: (function, kinds, cost)
    "abs": (torch.abs, "fi", 1), "neg": (torch.neg, "fi", 1), "sign": (torch.sign, "fib", 2),
    "reciprocal": (torch.reciprocal, "f", 4), "sqrt": (torch.sqrt, "f", 4), "rsqrt": (torch.rsqrt, "f", 6),
    "exp": (torch.exp, "f", 10), "exp2": (torch.exp2, "f", 10), "expm1": (torch.expm1, "f", 14),
    "log": (torch.log, "f", 12), "log2": (torch.log2, "f", 12), "log10": (torch.log10, "f", 12),
    "log1p": (torch.log1p, "f", 14), "sin": (torch.sin, "f", 14), "cos": (torch.cos, "f", 14),
    "tan": (torch.tan, "f", 20), "asin": (torch.asin, "f", 20), "acos": (torch.acos, "f", 20),
    "atan": (torch.atan, "f", 20), "sinh": (torch.sinh, "f", 20), "cosh": (torch.cosh, "f", 20),
    "tanh": (torch.tanh, "f", 14), "asinh": (torch.asinh, "f", 20), "acosh": (torch.acosh, "f", 20),
    "atanh": (torch.atanh, "f", 20), "erf": (torch.erf, "f", 14), "erfc": (torch.erfc, "f", 20),
    "erfinv": (torch.erfinv, "f", 20), "lgamma": (torch.lgamma, "f", 30), "sigmoid": (torch.sigmoid, "f", 14),
    "ndtr": (torch.special.ndtr, "f", 18),  # (1 + erf(x / sqrt(2))) / 2
    "floor": (torch.floor, "f", 1), "ceil": (torch.ceil, "f", 1), "round": (torch.round, "f", 1),
    "trunc": (torch.trunc, "f", 1), "not": (torch.bitwise_not, "ib", 1),
}  # fmt: skip
_BINARY: dict[str, tuple[Callable[..., Any], str, int]] = {
    "add": (torch.add, "fi", 1), "sub": (torch.sub, "fi", 1), "mul": (torch.mul, "fi", 1),
    "div": (torch.div, "f", 4), "pow": (torch.pow, "fi", 30), "atan2": (torch.atan2, "f", 25),
    "hypot": (torch.hypot, "f", 8), "fmod": (torch.fmod, "fi", 10), "remainder": (torch.remainder, "fi", 12),
    "floor_div": (torch.floor_divide, "fi", 12),
    "trunc_div": (lambda a, b: torch.div(a, b, rounding_mode="trunc"), "fi", 10),
    "maximum": (torch.maximum, "fib", 2), "minimum": (torch.minimum, "fib", 2),  # NaN if one is
    "fmax": (torch.fmax, "f", 2), "fmin": (torch.fmin, "f", 2),  # the other one if one is NaN
    "copysign": (torch.copysign, "f", 1), "nextafter": (torch.nextafter, "f", 4),
    "and": (torch.bitwise_and, "ib", 1), "or": (torch.bitwise_or, "ib", 1), "xor": (torch.bitwise_xor, "ib", 1),
    "shl": (torch.bitwise_left_shift, "i", 1), "shr": (torch.bitwise_right_shift, "i", 1),
}  # fmt: skip
_COMPARISONS: dict[str, Callable[..., Any]] = {
    "eq": torch.eq, "ne": torch.ne, "lt": torch.lt, "le": torch.le, "gt": torch.gt, "ge": torch.ge,
}  # fmt: skip

OPS: dict[str, OpSpec] = {
    **{name: OpSpec(function, 1, kinds, cost=cost) for name, (function, kinds, cost) in _FUNCTIONS.items()},
    **{name: OpSpec(function, 2, kinds, cost=cost) for name, (function, kinds, cost) in _BINARY.items()},
    **{name: OpSpec(function, 2, "fib", "bool") for name, function in _COMPARISONS.items()},
    "isnan": OpSpec(torch.isnan, 1, "f", "bool"),
    "isinf": OpSpec(torch.isinf, 1, "f", "bool"),
    "signbit": OpSpec(torch.signbit, 1, "f", "bool"),
    # (condition: bool, a, b): both are computed; what may not be read is behind a mask of its own
    "where": OpSpec(torch.where, 3, "fib"),
    "to": OpSpec(_to, 1, "fib", "free"),
    # (bits) the same bits as another dtype of that width
    "bits": OpSpec(lambda value, dtype: value.contiguous().view(dtype), 1, "fi", "free", 0),
    # (i: int64, size: int64) i, within 0..size-1: else the kernel reports an IndexError, and goes on with 0
    "check_index": OpSpec(_index, 2, "i", cost=2),
    # the same with i + size for a negative i
    "wrap_index": OpSpec(_wrapped, 2, "i", cost=3),
    # (condition) itself: the kernel reports the same where it does not hold
    "check": OpSpec(_held, 1, "b"),
}
#: Those that report.
CHECKS = frozenset({"check_index", "wrap_index", "check"})


# --- what printers share ----------------------------------------------------------------------------------------------
#: Comparisons as C and Python write them.
COMPARED = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
#: What gives a value of the operands' dtype, if they are of it: no rounding.
EXACT = {"abs", "neg", "sign", "floor", "ceil", "round", "trunc", "maximum", "minimum", "fmax", "fmin", "copysign",
         "where"}  # fmt: skip
#: Of halves, and not what float32 gives, rounded.
OWN = {
    ("nextafter", torch.bfloat16): "nextafter_bf16",
    ("floor_div", torch.bfloat16): "floor_div_bf16",
    ("floor_div", torch.float16): "floor_div_f16",
}


@dataclass(frozen=True)
class ReductionSpec:
    """`meaning(values, dims)`: over all these dims at once. `empty(dtype)`: what no values at all give."""

    meaning: Callable[[torch.Tensor, tuple[int, ...]], torch.Tensor]
    kinds: str
    empty: Callable[[torch.dtype], Any]


def _lowest(dtype: torch.dtype) -> Any:
    if dtype is torch.bool:
        return False
    return -float("inf") if dtype.is_floating_point else torch.iinfo(dtype).min


def _highest(dtype: torch.dtype) -> Any:
    if dtype is torch.bool:
        return True
    return float("inf") if dtype.is_floating_point else torch.iinfo(dtype).max


def _over(function: Callable[..., torch.Tensor]) -> Callable[[torch.Tensor, tuple[int, ...]], torch.Tensor]:
    """A function of one dim, over the row-major positions of several."""

    def meaning(values: torch.Tensor, dims: tuple[int, ...]) -> torch.Tensor:
        kept = [dim for dim in range(values.dim()) if dim not in dims]
        rounds = math.prod(values.shape[dim] for dim in dims)
        flat = values.permute([*kept, *dims]).reshape([*[values.shape[dim] for dim in kept], rounds])
        return function(flat, -1)

    return meaning


#: A sum of float16 or bfloat16 is one of float32 values: the lowering converts. Integers are summed as int64.
REDUCTIONS: dict[str, ReductionSpec] = {
    "sum": ReductionSpec(_over(torch.sum), "fi", lambda _: 0),
    "prod": ReductionSpec(_over(torch.prod), "fi", lambda _: 1),
    "max": ReductionSpec(_over(torch.amax), "fib", _lowest),  # NaN if one is
    "min": ReductionSpec(_over(torch.amin), "fib", _highest),
    "any": ReductionSpec(_over(torch.any), "b", lambda _: False),
    "all": ReductionSpec(_over(torch.all), "b", lambda _: True),
    "argmax": ReductionSpec(_over(torch.argmax), "fib", lambda _: 0),
    "argmin": ReductionSpec(_over(torch.argmin), "fib", lambda _: 0),
    # log(sum(exp(values))), without overflow
    "logsumexp": ReductionSpec(_over(torch.logsumexp), "f", lambda _: -float("inf")),
}

#: How a store combines an element with a value: the operation; none where the value takes its place.
PUTS = {"last": "", "sum": "add", "prod": "mul", "max": "maximum", "min": "minimum"}

#: What `Running` gives: the same over the rounds so far.
SCANS: dict[str, Callable[[torch.Tensor, int], torch.Tensor]] = {
    "sum": torch.cumsum,
    "prod": torch.cumprod,
    "max": lambda values, dim: torch.cummax(values, dim).values,
    "min": lambda values, dim: torch.cummin(values, dim).values,
    "logsumexp": torch.logcumsumexp,
}


def kind_of(dtype: torch.dtype) -> str:
    """The letter of that dtype in `kinds`."""
    if dtype is torch.bool:
        return "b"
    return "f" if dtype.is_floating_point else "c" if dtype.is_complex else "i"

"""The operations of the loop IR in Triton: a row for each, by the kind of number it works on.

float16, bfloat16 and floats of 8 bits are held as float32 and rounded after each operation; those of 8 bits and a bool,
held as int1, lie as bytes. (Triton's own conversions to 8 bits want newer devices, and do not all round as torch does.)
Functions are those of libdevice, as CUDA's compiler gives them to eager: the same bits. What is rounded to the nearest
in IEEE 754 is so here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from codegen.kernels.ir import Op
from codegen.kernels.ops import COMPARED, EXACT, OWN, kind_of


@dataclass(frozen=True)
class TType:
    """`held`: Triton's type of a value, `stored`: of an element in memory, `signature`: what a pointer to it is called;
    `round`: of a float32 that should be one of this type's values."""

    held: str
    stored: str
    signature: str
    bits: int
    load: str = "{}"
    store: str = "{}"
    round: str = "{}"


def _half(name: str, short: str) -> TType:
    rounded = f"round_{short.replace('fp', 'f')}({{}})"
    return TType("tl.float32", name, short, 16, "{}.to(tl.float32)", f"{{}}.to({name})", rounded)


def _eighth(name: str, rounding: str = "") -> TType:
    load, store = f"of_{name}({{}})", f"to_{name}{rounding}({{}})"
    return TType("tl.float32", "tl.uint8", "u8", 8, load, store, load.format(store))


#: torch 2.11 makes NaN of what is too large for float8_e4m3fn; 2.13 makes the largest number of it.
_TOO_LARGE = torch.tensor(1e9).to(torch.float8_e4m3fn).float().isnan().item()


def _integer(sign: str, bits: int) -> TType:
    name = f"tl.{sign}int{bits}"
    return TType(name, name, f"{sign or 'i'}{bits}", bits)


TYPES: dict[torch.dtype, TType] = {
    torch.float32: TType("tl.float32", "tl.float32", "fp32", 32),
    torch.float64: TType("tl.float64", "tl.float64", "fp64", 64),
    torch.float16: _half("tl.float16", "fp16"),
    torch.bfloat16: _half("tl.bfloat16", "bf16"),
    torch.float8_e4m3fn: _eighth("e4m3", "_or_nan" if _TOO_LARGE else ""),
    torch.float8_e5m2: _eighth("e5m2"),
    torch.bool: TType("tl.int1", "tl.uint8", "u8", 8, "({} != 0)", "{}.to(tl.uint8)"),
    **{getattr(torch, f"{sign}int{bits}"): _integer(sign, bits) for sign in ("", "u") for bits in (8, 16, 32, 64)},
}


#: Those held as float32 that are smaller.
ROUNDED = frozenset(dtype for dtype, made in TYPES.items() if made.round != "{}")


def ttype(dtype: torch.dtype) -> TType:
    """Raises NotImplementedError for a dtype that Triton kernels don't have: complex numbers, packed ones."""
    found = TYPES.get(dtype)
    if found is None:
        raise NotImplementedError(f"{dtype} in a Triton kernel")
    return found


# --- literals ---------------------------------------------------------------------------------------------------------
def literal(value: Any, dtype: torch.dtype) -> str:
    """A constant as Python has it: it takes the dtype of the tensor that it meets."""
    kind = kind_of(dtype)
    if kind == "b":
        return str(bool(value))
    if kind == "i":
        return str(int(value))
    if math.isnan(value) or math.isinf(value):
        return f'float("{value}")'
    return repr(float(value))


def typed(value: Any, dtype: torch.dtype) -> str:
    """A constant with its dtype."""
    held = ttype(dtype).held
    if dtype.is_floating_point and value == 0 and math.copysign(1, value) < 0:  # Triton's own constants have no sign
        bits = 64 if dtype is torch.float64 else 32
        return f"tl.full([], {-1 << (bits - 1)}, tl.int{bits}).to({held}, bitcast=True)"
    return f"tl.full([], {literal(value, dtype)}, {held})"


# --- operations -------------------------------------------------------------------------------------------------------
# {0}, {1}, {2}: the operands. Of a float type: {t}, what functions are called after; {one}: 1; {quotient}: {0} / {1},
# rounded to the type. Of an integer type: {bits}; {ones}: all of them
_LIBDEVICE = {
    **{name: name for name in (
        "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh",
        "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "erfinv", "lgamma", "rsqrt", "trunc")},
    "round": "rint",
}  # fmt: skip
FLOAT = {
    "abs": "tl.abs({0})", "neg": "{0} * -1.0", "sign": "sign({0})", "reciprocal": "divide({one}, {0})",
    "sqrt": "square_root({0})", "floor": "tl.floor({0})", "ceil": "tl.ceil({0})", "sigmoid": "sigmoid({0})",
    "add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "div": "divide({0}, {1})",
    "maximum": "larger({0}, {1})", "minimum": "smaller({0}, {1})",
    "fmax": "fmax({0}, {1})", "fmin": "fmin({0}, {1})",
    "remainder": "remainder({0}, {1})", "floor_div": "floor_div({0}, {1})",
    "trunc_div": "libdevice.trunc({quotient})",
    "ndtr": "0.5 + 0.5 * libdevice.erf({0} * 0.7071067811865476)",
    "isnan": "{0} != {0}", "isinf": 'tl.abs({0}) == float("inf")', "signbit": "signbit_{t}({0})",
    "where": "tl.where({0}, {1}, {2})",
    **{name: f"libdevice.{function}({{0}})" for name, function in _LIBDEVICE.items()},
    **{name: f"libdevice.{name}({{0}}, {{1}})" for name in (
        "pow", "atan2", "hypot", "fmod", "copysign", "nextafter")},
}  # fmt: skip
INTEGER = {
    "abs": "tl.abs({0})", "neg": "0 - {0}", "sign": "sign({0})", "not": "{0} ^ {ones}",
    "add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "pow": "int_pow({0}, {1}, {bits})",
    "fmod": "{0} % {1}", "remainder": "int_remainder({0}, {1})", "floor_div": "int_floor_div({0}, {1})",
    "trunc_div": "{0} // {1}", "maximum": "tl.maximum({0}, {1})", "minimum": "tl.minimum({0}, {1})",
    "and": "{0} & {1}", "or": "{0} | {1}", "xor": "{0} ^ {1}",
    "shl": "shift_left({0}, {1}, {bits})", "shr": "shift_right({0}, {1}, {bits})", "where": "tl.where({0}, {1}, {2})",
}  # fmt: skip
BOOL = {
    "sign": "{0}", "not": "~{0}", "maximum": "{0} | {1}", "minimum": "{0} & {1}", "and": "{0} & {1}", "or": "{0} | {1}",
    "xor": "{0} ^ {1}", "where": "({0} & {1}) | (~{0} & {2})",
}  # fmt: skip
TABLES = {"f": FLOAT, "i": INTEGER, "b": BOOL}

#: Where one of the operands may be a plain constant.
PLAIN = {"add", "sub", "mul", "and", "or", "xor", *COMPARED}


def operation(expr: Op, operands: list[str]) -> str:
    """The expression of `expr` over operands that are names or constants. (What checks is a statement, too:
    see the printer.)"""
    name, of = expr.name, expr.operands[-1].dtype
    if name == "to":
        return conversion(operands[0], of, expr.dtype)
    if name == "bits":
        return _same_bits(operands[0], of, expr.dtype)
    if name in COMPARED:
        return f"{operands[0]} {COMPARED[name]} {operands[1]}"
    if (name, of) in OWN:
        return f"{OWN[name, of]}({', '.join(operands)})"
    tt = ttype(of)
    fields: dict[str, Any] = {"bits": tt.bits}
    if of.is_floating_point:
        fields |= {"t": "f64" if of is torch.float64 else "f32", "one": typed(1.0, of)}
        fields["quotient"] = tt.round.format(f"divide({', '.join(operands[:2])})")
    elif of is not torch.bool:
        fields["ones"] = torch.iinfo(of).max if torch.iinfo(of).min == 0 else -1
    text = TABLES[kind_of(of)][name].format(*operands, **fields)
    return text if expr.dtype != of or name in EXACT else tt.round.format(text)


def conversion(value: str, old: torch.dtype, new: torch.dtype) -> str:
    if old == new:
        return value
    if new is torch.bool:
        return f"{value} != 0"
    to, is_held_wider = ttype(new), old in ROUNDED
    if new in ROUNDED:
        return to.round.format(value if is_held_wider or old is torch.float32 else f"{value}.to(tl.float32)")
    if old.is_floating_point and not new.is_floating_point and to.bits < 32:
        return f"{value}.to(tl.int32).to({to.held})"
    return value if is_held_wider and new is torch.float32 else f"{value}.to({to.held})"


def _same_bits(value: str, old: torch.dtype, new: torch.dtype) -> str:
    a, b = ttype(old), ttype(new)
    return b.load.format(f"{a.store.format(value)}.to({b.stored}, bitcast=True)")


# --- reductions -------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class TReduction:
    """`held`: the accumulator's type, `start`: what changes nothing, `combine`: a function of `triton_math.py`."""

    held: str
    start: str
    combine: str


def reduction(kind: str, dtype: torch.dtype) -> TReduction:
    """Of values of that dtype. `argmax` and `argmin`: of the values, the places come with them."""
    letter, held = kind_of(dtype), ttype(dtype).held
    if kind in ("sum", "prod"):
        return TReduction(held, "0", "plus") if kind == "sum" else TReduction(held, "1", "times")
    if kind == "logsumexp":
        return TReduction(held, 'float("-inf")', "logaddexp")
    if letter == "b":
        largest = kind in ("any", "max", "argmax")
        return TReduction("tl.int32", "0" if largest else "1", "either" if largest else "both")
    largest = kind in ("max", "argmax")
    if letter == "f":
        start = literal(-math.inf if largest else math.inf, dtype)
    else:
        start = str(torch.iinfo(dtype).min if largest else torch.iinfo(dtype).max)
    names = {"max": "larger", "min": "smaller", "argmax": "first_larger", "argmin": "first_smaller"}
    return TReduction(held, start, names[kind])

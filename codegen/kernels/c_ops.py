"""The operations of the loop IR in C: a row for each, by the kind of number it works on.

A number is held in a register as its `held` type and lies in memory as its `stored` type: float16 and bfloat16 are held
as float (rounded after each operation), a bool is held as _Bool and lies as a byte.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from codegen.kernels.ir import Expr, Op, Position
from codegen.kernels.ops import COMPARED, EXACT, OWN, kind_of


@dataclass(frozen=True)
class CType:
    """`short`: what helpers are called after; `load`, `store`: between the two forms; `round`: makes a float one of
    this type's values, which all that is held is."""

    stored: str
    held: str
    short: str
    bits: int
    load: str = "{}"
    store: str = "{}"
    round: str = "{}"


CTYPES: dict[torch.dtype, CType] = {
    torch.float32: CType("float", "float", "f32", 32),
    torch.float64: CType("double", "double", "f64", 64),
    torch.float16: CType("uint16_t", "float", "f32", 16, "load_f16({})", "store_f16({})", "round_f16({})"),
    torch.bfloat16: CType("uint16_t", "float", "f32", 16, "load_bf16({})", "store_bf16({})", "round_bf16({})"),
    torch.int8: CType("int8_t", "int8_t", "i8", 8),
    torch.int16: CType("int16_t", "int16_t", "i16", 16),
    torch.int32: CType("int32_t", "int32_t", "i32", 32),
    torch.int64: CType("int64_t", "int64_t", "i64", 64),
    torch.uint8: CType("uint8_t", "uint8_t", "u8", 8),
    torch.uint16: CType("uint16_t", "uint16_t", "u16", 16),
    torch.uint32: CType("uint32_t", "uint32_t", "u32", 32),
    torch.uint64: CType("uint64_t", "uint64_t", "u64", 64),
    torch.bool: CType("uint8_t", "_Bool", "bool", 8, "({} != 0)", "(uint8_t){}"),
}


def ctype(dtype: torch.dtype) -> CType:
    """Raises NotImplementedError for a dtype that C kernels don't have: complex numbers, packed ones."""
    found = CTYPES.get(dtype)
    if found is None:
        raise NotImplementedError(f"{dtype} in a C kernel")
    return found


def is_signed(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point or torch.iinfo(dtype).min < 0


# --- literals ---------------------------------------------------------------------------------------------------------
def literal(value: Any, dtype: torch.dtype) -> str:
    """A constant as that dtype is held."""
    kind = kind_of(dtype)
    if kind == "b":
        return "1" if value else "0"
    if kind == "i":
        if value == torch.iinfo(torch.int64).min:
            return "(-9223372036854775807LL - 1)"
        suffix = "ULL" if value > torch.iinfo(torch.int64).max else "LL" if abs(value) > 2**31 - 1 else ""
        return _bracketed(f"{value}{suffix}")
    wide = dtype is torch.float64
    if math.isnan(value):
        return '__builtin_nan("")' if wide else '__builtin_nanf("")'
    if math.isinf(value):
        return ("" if value > 0 else "-") + ("__builtin_inf()" if wide else "__builtin_inff()")
    return _bracketed(repr(float(value)) if wide else f"{float(value)!r}f")


def _bracketed(text: str) -> str:
    return f"({text})" if text.startswith("-") else text


# --- operations -------------------------------------------------------------------------------------------------------
# {0}, {1}, {2}: the operands (each a name or a constant); {t}: what helpers are called after; {s}: the suffix of C's
# functions ("f" for float); {held}: the type; {one}: 1 of that type; {quotient}: {0} / {1}, rounded to the type.
# Of an integer type: {bits}; {mask}: of the bits that can be shifted by; {unsigned}, {wide}: an unsigned one of its
# width, and of int's at least; {w}: what helpers that divide are called after
FLOAT = {
    "abs": "__builtin_fabs{s}({0})", "neg": "-{0}", "sign": "({held})(({0} > 0) - ({0} < 0))",
    "reciprocal": "{one} / {0}", "sqrt": "__builtin_sqrt{s}({0})", "rsqrt": "{one} / __builtin_sqrt{s}({0})",
    "floor": "__builtin_floor{s}({0})", "ceil": "__builtin_ceil{s}({0})", "round": "__builtin_rint{s}({0})",
    "trunc": "__builtin_trunc{s}({0})",
    "add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "div": "{0} / {1}",
    "maximum": "max_{t}({0}, {1})", "minimum": "min_{t}({0}, {1})",
    "fmax": "fmax_{t}({0}, {1})", "fmin": "fmin_{t}({0}, {1})", "copysign": "__builtin_copysign{s}({0}, {1})",
    "trunc_div": "__builtin_trunc{s}({quotient})",
    "isnan": "{0} != {0}", "isinf": "__builtin_fabs{s}({0}) == __builtin_inf{s}()",
    "signbit": "signbit_{t}({0})", "where": "{0} ? {1} : {2}",
    **{name: f"{name}_{{t}}({{0}})" for name in (
        "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh",
        "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "erfinv", "lgamma", "ndtr", "sigmoid")},
    **{name: f"{name}_{{t}}({{0}}, {{1}})" for name in (
        "pow", "atan2", "hypot", "fmod", "remainder", "floor_div", "nextafter")},
}  # fmt: skip
INTEGER = {
    "abs": "({held})({0} < 0 ? -{0} : {0})", "neg": "({held})-{0}", "sign": "({held})(({0} > 0) - ({0} < 0))",
    "not": "({held})~{0}", "add": "({held})({0} + {1})", "sub": "({held})({0} - {1})",
    "mul": "({held})(({wide}){0} * ({wide}){1})", "pow": "({held})pow_i64({0}, {1})",
    "fmod": "({held})fmod_{w}({0}, {1})", "remainder": "({held})remainder_{w}({0}, {1})",
    "floor_div": "({held})floor_div_{w}({0}, {1})", "trunc_div": "({held})trunc_div_{w}({0}, {1})",
    "maximum": "({held})({0} > {1} ? {0} : {1})", "minimum": "({held})({0} < {1} ? {0} : {1})",
    "and": "({held})({0} & {1})", "or": "({held})({0} | {1})", "xor": "({held})({0} ^ {1})",
    "shl": "({held})((uint64_t){1} >= {bits} ? 0 : ({unsigned}){0} << ({1} & {mask}))",
    "shr": "({held})((uint64_t){1} >= {bits} ? ({0} < 0 ? -1 : 0) : {0} >> ({1} & {mask}))",
    "where": "({held})({0} ? {1} : {2})",
}  # fmt: skip
BOOL = {
    "sign": "{0}", "not": "!{0}", "maximum": "{0} | {1}", "minimum": "{0} & {1}", "and": "{0} & {1}",
    "or": "{0} | {1}", "xor": "{0} ^ {1}", "where": "({0} & {1}) | (!{0} & {2})",
}  # fmt: skip
TABLES = {"f": FLOAT, "i": INTEGER, "b": BOOL}

#: Of integers: a divisor of 0 has no answer.
DIVISIONS = {"floor_div", "trunc_div", "fmod", "remainder"}


#: A 0 that C compilers do not know to be one. It is added to an integer that was a float and becomes one again, or they
#: take that for the whole part of the first one, which may be -0; and to what a sign is told by: behind a mask of signs
#: alone gcc 12 reads what is not to be read (it has one instruction for that choice, with both sides as operands).
#: Exclusively or-ed to an index that was computed, it keeps gcc 12 from seeing where that comes from: of one that was a
#: bool it takes the mask of the lanes for the index, and gathers elsewhere. (A sum it would look through.)
NOUGHT = "nought"


def _tells_signs(bound: Expr) -> bool:
    """Whether the sign of an integer tells on which side of this one it lies."""
    value = bound.index.constant if isinstance(bound, Position) else getattr(bound, "value", None)
    return value in (0, -1)


def operation(expr: Op, operands: list[str]) -> str:
    """The C expression of `expr` over operands that are names or constants. (What checks is a
    statement, too: see the printer.)"""
    name, of = expr.name, expr.operands[-1].dtype
    if name == "to":
        if expr.dtype.is_floating_point and kind_of(of) == "i" and _is_conversion(expr.operands[0]):
            operands = [f"({ctype(of).held})({operands[0]} + {NOUGHT})"]
        return conversion(operands[0], of, expr.dtype)
    if name == "bits":
        return _same_bits(operands[0], of, expr.dtype)
    if name in COMPARED:
        if kind_of(of) == "i":
            operands = [
                f"({ctype(of).held})({text} + {NOUGHT})" if _tells_signs(operand) else text
                for text, operand in zip(operands, expr.operands, strict=True)
            ]
        return f"{operands[0]} {COMPARED[name]} {operands[1]}"
    if (name, of) in OWN:
        return f"{OWN[name, of]}({', '.join(operands)})"
    kind, ct = kind_of(of), ctype(of)
    text = TABLES[kind][name]
    fields: dict[str, Any] = {"held": ct.held, "t": ct.short, "bits": ct.bits}
    if kind == "f":
        wide = of is torch.float64
        quotient = ct.round.format(" / ".join(operands[:2]))
        fields |= {"s": "" if wide else "f", "one": "1.0" if wide else "1.0f", "quotient": quotient}
    elif kind == "i":
        signed = is_signed(of)
        fields |= {
            "unsigned": f"uint{ct.bits}_t" if ct.bits > 32 else "uint32_t",
            "mask": ct.bits - 1,
            "wide": f"uint{max(ct.bits, 32)}_t",
            "w": ("i64" if signed else "u64") if ct.bits == 64 else "i32" if ct.bits < 32 or signed else "u64",
        }
    text = text.format(*operands, **fields)
    return text if expr.dtype != of or name in EXACT else ct.round.format(text)


def _is_conversion(expr: Expr) -> bool:
    return isinstance(expr, Op) and expr.name == "to" and expr.operands[0].dtype.is_floating_point


def conversion(value: str, old: torch.dtype, new: torch.dtype) -> str:
    if old == new:
        return value
    if new is torch.bool:
        return f"{value} != 0"
    to = ctype(new)
    if old is torch.bool and new.is_floating_point:
        value = f"(int32_t){value}"  # gcc makes no vectors of what goes from _Bool to floats at once
    if new in (torch.float16, torch.bfloat16):
        return to.round.format(value if old in (torch.float16, torch.bfloat16, torch.float32) else f"(float){value}")
    if old.is_floating_point and not new.is_floating_point and to.bits < 32:
        return f"({to.held})(int32_t){value}"
    return f"({to.held}){value}"


def _same_bits(value: str, old: torch.dtype, new: torch.dtype) -> str:
    a, b = ctype(old), ctype(new)
    if not old.is_floating_point and not new.is_floating_point:
        return f"({b.held}){value}"
    bits = a.store.format(value) if a.bits == 16 else f"bits_of_{a.short}({value})" if old.is_floating_point else value
    if not new.is_floating_point:
        return f"({b.held}){bits}"
    return b.load.format(f"(uint16_t){bits}") if b.bits == 16 else f"{b.short}_of_bits({bits})"


# --- reductions -------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class CReduction:
    """`held`: the accumulator's type, `start`: its first value, `combine`: with {0}, the accumulator, and {1};
    `key`: what it combines for a value, `value`: and what that stands for."""

    held: str
    start: str
    combine: str
    key: str = "{}"
    value: str = "{}"


def reduction(kind: str, dtype: torch.dtype) -> CReduction:
    """Of values of that dtype. `logsumexp`, `argmax` and `argmin` are made of these."""
    letter, ct = kind_of(dtype), ctype(dtype)
    if kind in ("sum", "prod"):
        held = ct.held if letter == "f" else "int64_t"
        sign, start = ("+", "0") if kind == "sum" else ("*", "1")
        return CReduction(held, start, f"{{0}} {sign} {{1}}")
    if kind in ("any", "all") or letter == "b":
        sign, start = ("|", "0") if kind in ("any", "max") else ("&", "1")
        return CReduction("uint8_t", start, f"{{0}} {sign} {{1}}")
    if letter == "i":
        info, sign = torch.iinfo(dtype), ">" if kind == "max" else "<"
        start = literal(info.min if kind == "max" else info.max, dtype)
        return CReduction(ct.held, start, f"({{0}} {sign} {{1}} ? {{0}} : {{1}})")
    wide = torch.float64 if dtype is torch.float64 else torch.float32
    start = literal(-math.inf if kind == "max" else math.inf, wide)
    return CReduction(ct.held, start, f"{kind}_{ct.short}({{0}}, {{1}})")


def keyed(kind: str, dtype: torch.dtype) -> CReduction:
    """A maximum or minimum of floats as one of integers."""
    plain, short = reduction(kind, dtype), ctype(dtype).short
    sign, held = ">" if kind == "max" else "<", "int64_t" if short == "f64" else "int32_t"
    key = f"{kind}_key_{short}({{}})"
    combine = f"({{0}} {sign} {{1}} ? {{0}} : {{1}})"
    return CReduction(held, key.format(plain.start), combine, key, f"key_value_{short}({{}})")

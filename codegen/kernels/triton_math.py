"""Functions that printed Triton kernels call: the text of those that a kernel names becomes part of its source.

They work on tensors of any shape and are device code: nothing here is called from Python. Half-precision numbers are
held as float32. Each follows what torch computes on CUDA, which is built on the same libdevice functions.
"""
# ruff: noqa: ANN001, ANN201
# mypy: disallow-untyped-defs=False, check-untyped-defs=False

import triton
import triton.language as tl
from triton.language.extra.cuda import libdevice


# --- what reductions and scans combine with ---------------------------------------------------------------------------
@triton.jit
def plus(a, b):
    return a + b


@triton.jit
def times(a, b):
    return a * b


@triton.jit
def either(a, b):
    return a | b


@triton.jit
def both(a, b):
    return a & b


@triton.jit
def larger(a, b):
    """NaN if one is."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def smaller(a, b):
    """NaN if one is."""
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def is_before_larger(a, a_at, b, b_at):
    """Whether a is what argmax finds: NaN before all, of equal ones the first."""
    a_nan, b_nan = a != a, b != b
    equal = (a == b) | (a_nan & b_nan)
    return (a > b) | (a_nan & (b == b)) | (equal & (a_at < b_at))


@triton.jit
def is_before_smaller(a, a_at, b, b_at):
    """Whether a is what argmin finds."""
    a_nan, b_nan = a != a, b != b
    equal = (a == b) | (a_nan & b_nan)
    return (a < b) | (a_nan & (b == b)) | (equal & (a_at < b_at))


@triton.jit
def first_larger(a, a_at, b, b_at):
    first = is_before_larger(a, a_at, b, b_at)
    return tl.where(first, a, b), tl.where(first, a_at, b_at)


@triton.jit
def first_smaller(a, a_at, b, b_at):
    first = is_before_smaller(a, a_at, b, b_at)
    return tl.where(first, a, b), tl.where(first, a_at, b_at)


@triton.jit
def logaddexp(a, b):
    """log(exp(a) + exp(b)), also of infinities."""
    top = tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)
    low = tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)
    apart = tl.where(top == low, 0.0, low - top)
    return top + libdevice.log1p(libdevice.exp(apart))


@triton.jit
def below_top(value, top):
    """exp(value - top), with 0 in the place of an infinite top."""
    return libdevice.exp(value - tl.where(tl.abs(top) == float("inf"), 0.0, top))


@triton.jit
def join_powers(a_top, a_total, b_top, b_total):
    """Maxima with sums of exponentials below them."""
    top = tl.maximum(a_top, b_top, propagate_nan=tl.PropagateNan.ALL)
    return top, a_total * below_top(a_top, top) + b_total * below_top(b_top, top)


@triton.jit
def add_power(top, total, value):
    """One value more."""
    new = tl.maximum(top, value, propagate_nan=tl.PropagateNan.ALL)
    return new, total * below_top(top, new) + below_top(value, new)


# --- floats -----------------------------------------------------------------------------------------------------------
@triton.jit
def round_f16(x):
    return x.to(tl.float16).to(tl.float32)


@triton.jit
def round_bf16(x):
    return x.to(tl.bfloat16).to(tl.float32)


@triton.jit
def small_float(x, mantissa: tl.constexpr, bias: tl.constexpr):
    """The bits of abs(x) as a float of so many bits, rounded to the nearest even; its exponent has no end."""
    bits = x.to(tl.int32, bitcast=True) & 0x7FFFFFFF
    odd = (bits >> (23 - mantissa)) & 1
    normal = (bits + (((bias - 127) << 23) + (1 << (22 - mantissa)) - 1) + odd) >> (23 - mantissa)
    unit: tl.constexpr = (151 - bias - mantissa) << 23  # a float whose last bit is the least one of the small type
    sum = bits.to(tl.float32, bitcast=True) + tl.full([], unit, tl.int32).to(tl.float32, bitcast=True)
    return tl.where(bits < ((128 - bias) << 23), sum.to(tl.int32, bitcast=True) - unit, normal)


@triton.jit
def to_e4m3(x):
    """As bits; of what is too large, also of infinity, the largest number."""
    bits = x.to(tl.int32, bitcast=True)
    size = bits & 0x7FFFFFFF
    found = tl.where(size > 0x7F800000, 0x7F, tl.minimum(small_float(x, 3, 7), 0x7E))
    return (found | ((bits >> 24) & 0x80)).to(tl.uint8)


@triton.jit
def to_e4m3_or_nan(x):
    """As bits; of what is too large, NaN."""
    bits = x.to(tl.int32, bitcast=True)
    found = tl.where((bits & 0x7FFFFFFF) >= 0x43F00000, 0x7F, small_float(x, 3, 7))  # 480
    return (found | ((bits >> 24) & 0x80)).to(tl.uint8)


@triton.jit
def to_e5m2(x):
    bits = x.to(tl.int32, bitcast=True)
    size = bits & 0x7FFFFFFF
    found = tl.where(size >= 0x47800000, tl.where(size > 0x7F800000, 0x7F, 0x7C), small_float(x, 2, 15))  # 65536
    return (found | ((bits >> 24) & 0x80)).to(tl.uint8)


@triton.jit
def of_e4m3(bits):
    wide = bits.to(tl.int32)
    size = ((wide & 0x7F) << 20).to(tl.float32, bitcast=True) * 1.329227995784916e36  # 2^120
    found = tl.where((wide & 0x7F) == 0x7F, float("nan"), size).to(tl.int32, bitcast=True)
    return (found | ((wide & 0x80) << 24)).to(tl.float32, bitcast=True)


@triton.jit
def of_e5m2(bits):
    return (bits.to(tl.uint16) << 8).to(tl.float16, bitcast=True).to(tl.float32)


@triton.jit
def divide(a, b):
    """Rounded to the nearest: Triton's own division of float32 is not."""
    if a.dtype == tl.float32:
        found = tl.div_rn(a, b)
    else:
        found = a / b
    return found


@triton.jit
def square_root(x):
    if x.dtype == tl.float32:
        found = tl.sqrt_rn(x)
    else:
        found = tl.sqrt(x)
    return found


@triton.jit
def sigmoid(x):
    return divide(tl.full([], 1.0, x.dtype), 1.0 + libdevice.exp(x * -1.0))


@triton.jit
def sign(x):
    return (x > 0).to(x.dtype) - (x < 0).to(x.dtype)


@triton.jit
def signbit_f32(x):
    return x.to(tl.int32, bitcast=True) < 0


@triton.jit
def signbit_f64(x):
    return x.to(tl.int64, bitcast=True) < 0


@triton.jit
def fmax(a, b):
    """The other one if one is NaN."""
    return tl.where(a != a, b, tl.where(b != b, a, tl.maximum(a, b)))


@triton.jit
def fmin(a, b):
    """The other one if one is NaN."""
    return tl.where(a != a, b, tl.where(b != b, a, tl.minimum(a, b)))


@triton.jit
def remainder(a, b):
    """Python's: of the sign of b."""
    rest = libdevice.fmod(a, b)
    return tl.where((rest != 0) & ((b < 0) != (rest < 0)), rest + b, rest)


@triton.jit
def floor_div(a, b):
    """Python's: the quotient that belongs to the remainder, made an integer."""
    rest = libdevice.fmod(a, b)
    quotient = divide(a - rest, b)
    quotient = tl.where((rest != 0) & ((b < 0) != (rest < 0)), quotient - 1.0, quotient)
    down = tl.floor(quotient)
    whole = tl.where(quotient - down > 0.5, down + 1.0, down)
    whole = tl.where(quotient != 0, whole, libdevice.copysign(quotient * 0.0, divide(a, b)))
    return tl.where(b == 0, divide(a, b), whole)


@triton.jit
def floor_div_f16(a, b):
    """The same, each step rounded."""
    rest = libdevice.fmod(a, b)
    quotient = round_f16(tl.div_rn(round_f16(a - rest), b))
    quotient = tl.where((rest != 0) & ((b < 0) != (rest < 0)), round_f16(quotient - 1.0), quotient)
    down = tl.floor(quotient)
    whole = tl.where(quotient - down > 0.5, round_f16(down + 1.0), down)
    whole = tl.where(quotient != 0, whole, libdevice.copysign(quotient * 0.0, tl.div_rn(a, b)))
    return tl.where(b == 0, tl.div_rn(a, b), whole)


@triton.jit
def floor_div_bf16(a, b):
    """The same, each step rounded."""
    rest = libdevice.fmod(a, b)
    quotient = round_bf16(tl.div_rn(round_bf16(a - rest), b))
    quotient = tl.where((rest != 0) & ((b < 0) != (rest < 0)), round_bf16(quotient - 1.0), quotient)
    down = tl.floor(quotient)
    whole = tl.where(quotient - down > 0.5, round_bf16(down + 1.0), down)
    whole = tl.where(quotient != 0, whole, libdevice.copysign(quotient * 0.0, tl.div_rn(a, b)))
    return tl.where(b == 0, tl.div_rn(a, b), whole)


@triton.jit
def nextafter_bf16(a, b):
    """The neighbour of a towards b among the numbers of bfloat16."""
    bits = a.to(tl.int32, bitcast=True)
    from_zero = (b.to(tl.int32, bitcast=True) & -2147483648) | 65536
    next_bits = tl.where((a < b) == (a > 0), bits + 65536, bits - 65536)
    found = tl.where(a == 0, from_zero, next_bits).to(tl.float32, bitcast=True)
    return tl.where((a != a) | (b != b), a + b, tl.where(a == b, b, found))


# --- integers ---------------------------------------------------------------------------------------------------------
@triton.jit
def int_remainder(a, b):
    """Python's: of the sign of b."""
    rest = a % b
    return tl.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)


@triton.jit
def int_floor_div(a, b):
    rest = a % b
    return a // b - ((rest != 0) & ((rest < 0) != (b < 0))).to(a.dtype)


@triton.jit
def int_pow(a, b, BITS: tl.constexpr):
    """b < 0: 0, but for a = 1 and -1."""
    base, left = a + b * 0, b + a * 0
    power = base * 0 + 1
    for _ in range(BITS):
        power = tl.where((left & 1) != 0, power * base, power)
        base = base * base
        left = left >> 1
    odd = tl.where((b & 1) != 0, a, a * a)
    unit = tl.where((a == 1) | (a + 1 == 0), odd, a * 0)
    return tl.where(b < 0, unit, power)


@triton.jit
def shift_left(a, b, BITS: tl.constexpr):
    """0 where b is no number of bits that can be shifted."""
    return tl.where((b >= 0) & (b < BITS), a << (b & (BITS - 1)), 0)


@triton.jit
def shift_right(a, b, BITS: tl.constexpr):
    """As far as can be where b is no number of bits that can be shifted."""
    inside = (b >= 0) & (b < BITS)
    return tl.where(inside, a >> (b & (BITS - 1)), 0 - (a < 0).to(a.dtype))


# --- index expressions: floor(a / b) and its remainder for b > 0 ------------------------------------------------------
@triton.jit
def quotient_of(a, b):
    return a // b - (a % b < 0)


@triton.jit
def modulo_of(a, b):
    rest = a % b
    return tl.where(rest < 0, rest + b, rest)

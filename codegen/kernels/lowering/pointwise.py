"""Pointwise operations: one row each, by what type promotion they have and which operation of the IR they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as KIND
from torch._prims_common import elementwise_dtypes

from codegen.kernels import index as ix
from codegen.kernels import ir
from codegen.kernels.ir import Expr
from codegen.kernels.lowering.context import Lowering, Ref, Unsupported, broadcast, number, shape_of, to
from codegen.kernels.lowering.table import LOWERINGS, lowers

aten = torch.ops.aten

DEFAULT, FLOAT, BOOL = KIND.DEFAULT, KIND.INT_TO_FLOAT, KIND.ALWAYS_BOOL


def elementwise(
    low: Lowering, kind: KIND, args: Sequence[Any], value: Callable[..., Expr]
) -> Ref:
    """`value` of the arguments' elements, promoted as `kind` says and broadcast."""
    if low.out.dtype.is_complex or any(isinstance(a, Ref) and a.dtype.is_complex for a in args):
        raise Unsupported("complex numbers")
    # promotion looks at dtype and at whether a tensor has dimensions: an empty tensor on no device stands for it
    stand_ins = [_stand_in(a) for a in args]
    computation, result = elementwise_dtypes(*stand_ins, type_promotion_kind=kind)
    if computation != result and kind is not BOOL and result in (torch.float16, torch.bfloat16):
        computation = result  # each Op rounds, and computes in float32 by itself

    def element(*indices: ir.Index) -> Expr:
        operands = [
            to(broadcast(a, indices), computation) if isinstance(a, Ref) else number(a, computation) for a in args
        ]
        return to(value(*operands), low.out.dtype)

    return low.define(shape_of(low.out), low.out.dtype, element)


def _stand_in(value: Any) -> Any:
    if isinstance(value, Ref):
        return torch.empty([0] * value.dim, dtype=value.dtype, device="meta")
    if isinstance(value, ix.Index):
        return 1
    if isinstance(value, Expr):
        return {torch.float64: 0.5, torch.bool: True}.get(value.dtype, 1)
    return value


def _plain(name: str, gives_bool: bool = False) -> Callable[..., Expr]:
    def value(*operands: Expr) -> Expr:
        return ir.op(name, torch.bool if gives_bool else operands[0].dtype, *operands)

    return value


#: ATen operation -> (type promotion, operation of the IR)
_SAME: dict[str, tuple[KIND, str]] = {
    "exp": (FLOAT, "exp"), "log": (FLOAT, "log"), "sqrt": (FLOAT, "sqrt"), "rsqrt": (FLOAT, "rsqrt"),
    "tanh": (FLOAT, "tanh"), "sigmoid": (FLOAT, "sigmoid"), "erf": (FLOAT, "erf"), "sin": (FLOAT, "sin"),
    "cos": (FLOAT, "cos"), "reciprocal": (FLOAT, "reciprocal"), "neg": (DEFAULT, "neg"), "abs": (DEFAULT, "abs"),
    "mul.Tensor": (DEFAULT, "mul"), "mul.Scalar": (DEFAULT, "mul"),
    "div.Tensor": (FLOAT, "div"), "div.Scalar": (FLOAT, "div"),
    "maximum": (DEFAULT, "maximum"), "minimum": (DEFAULT, "minimum"),
}  # fmt: skip
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


def _overload(name: str) -> Any:
    packet, _, overload = name.partition(".")
    return getattr(getattr(aten, packet), overload or "default")


def _row(kind: KIND, value: Callable[..., Expr]) -> Callable[..., Ref]:
    def row(low: Lowering, *args: Any) -> Ref:
        return elementwise(low, kind, args, value)

    return row


for _name, (_kind, _op) in _SAME.items():
    LOWERINGS[_overload(_name)] = _row(_kind, _plain(_op))
for _name in _COMPARISONS:
    for _other in ("Tensor", "Scalar"):
        LOWERINGS[_overload(f"{_name}.{_other}")] = _row(BOOL, _plain(_name, True))


@lowers(aten.add.Tensor, aten.add.Scalar)
def _add(low: Lowering, a: Ref, b: Any, alpha: Any = 1) -> Ref:
    return elementwise(low, DEFAULT, (a, b), lambda x, y: ir.op("add", x.dtype, x, _scaled(y, alpha)))


@lowers(aten.sub.Tensor, aten.sub.Scalar)
def _sub(low: Lowering, a: Ref, b: Any, alpha: Any = 1) -> Ref:
    return elementwise(low, DEFAULT, (a, b), lambda x, y: ir.op("sub", x.dtype, x, _scaled(y, alpha)))


def _scaled(value: Expr, alpha: Any) -> Expr:
    is_one = not isinstance(alpha, Expr) and alpha == 1
    return value if is_one else ir.op("mul", value.dtype, number(alpha, value.dtype), value)


@lowers(aten.where.self)
def _where(low: Lowering, condition: Ref, a: Any, b: Any) -> Ref:
    def element(*indices: ir.Index) -> Expr:
        values = [to(broadcast(x, indices), low.out.dtype) for x in (a, b)]
        return ir.op("where", low.out.dtype, to(broadcast(condition, indices), torch.bool), *values)

    return low.define(shape_of(low.out), low.out.dtype, element)

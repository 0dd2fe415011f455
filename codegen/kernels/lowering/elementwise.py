"""What pointwise rows are made with: the elements that meet in a result, in the dtype that eager computes in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes

from codegen.kernels.index import Index
from codegen.kernels.ir import Expr
from codegen.kernels.lowering.context import Lowering, Ref, broadcast, computed_in, number, shape_of, to

Formula = Callable[..., Expr]


def elementwise(
    low: Lowering, args: Sequence[Any], formula: Formula, dtype: torch.dtype | None = None,
    out: torch.Tensor | None = None, wide_numbers: bool = True, hint: str = "",
) -> Ref:
    """formula(elements of the arguments: tensors, numbers, None as it is), broadcast to `out`, the operation's result
    if it has one only.

    Elements are converted to `dtype`, that of the result if it is not named, and are float32 values if that is a half
    one: the result is rounded once. `wide_numbers`: numbers and tensors without dimensions are not rounded to a
    half dtype before."""
    fake = low.out if out is None else out
    narrow = dtype or fake.dtype
    wide = computed_in(narrow)

    def operand(value: Any, at: Sequence[Index]) -> Any:
        if value is None:
            return None
        if not isinstance(value, Ref):
            return to(number(value, wide if wide_numbers else narrow), wide)
        element = broadcast(value, at)
        return to(element if wide_numbers and not value.dim else to(element, narrow), wide)

    def element(*at: Index) -> Expr:
        return to(formula(*(operand(a, at) for a in args)), fake.dtype)

    return low.define(shape_of(fake), fake.dtype, element, hint)


def on_cpu(low: Lowering) -> bool:
    """Eager's kernels for a CPU round numbers, and within a formula, where those for CUDA do not."""
    return bool(low.out.device.type == "cpu")


def promoted(*args: Any) -> torch.dtype:
    """What torch promotes these tensors and numbers to."""
    return _promoted(*map(_look, args))


def _look(value: Any) -> Any:
    if isinstance(value, Ref):
        return value.dtype, value.dim > 0
    return value.dtype if isinstance(value, Expr) else int if isinstance(value, Index) else type(value)


@lru_cache
def _promoted(*looks: Any) -> torch.dtype:
    plain = {float: 0.5, torch.float64: 0.5, bool: True, torch.bool: True}
    stand_ins = [
        torch.empty([0] * look[1], dtype=look[0], device="meta") if isinstance(look, tuple) else plain.get(look, 1)
        for look in looks
    ]
    kind = ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT
    return elementwise_dtypes(*stand_ins, type_promotion_kind=kind)[1]

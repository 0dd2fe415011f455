"""Products of matrices as sums of products: rows of those that a kernel does itself; ATen is called for the others.

Factors of half types are multiplied and added up as float32, and the sum is rounded once: so does ATen's library.
"""

from __future__ import annotations

from typing import Any

import torch

from codegen.kernels.index import Index
from codegen.kernels.ir import Expr
from codegen.kernels.lowering.context import Lowering, Ref, Unsupported, broadcast, number, to
from codegen.kernels.lowering.table import Row

aten = torch.ops.aten
F32 = torch.float32


def _sums(low: Lowering, a: Ref, b: Ref) -> Ref:
    """Over the last axis of a and the last but one of b, in float32."""
    if a.dtype not in (torch.float16, torch.bfloat16, F32) or a.dtype != b.dtype:
        raise Unsupported(f"a product of {a.dtype} and {b.dtype}")
    shape = [*a.shape[:-1], b.shape[-1], a.shape[-1]]

    def value(*at: Index) -> Expr:
        *batch, row, column, between = at
        return to(a[(*batch, row, between)], F32) * to(b[(*batch, between, column)], F32)

    return low.reduce("sum", shape, [len(shape) - 1], value, hint="sum")


def product(low: Lowering, a: Ref, b: Ref) -> Ref:
    sums = _sums(low, a, b)
    return sums if a.dtype is F32 else low.define(sums.shape, a.dtype, lambda *at: to(sums[at], a.dtype))


def added(low: Lowering, bias: Ref, a: Ref, b: Ref, *, beta: Any = 1, alpha: Any = 1) -> Ref:
    sums = _sums(low, a, b)

    def value(*at: Index) -> Expr:
        total = sums[at] if alpha == 1 else sums[at] * number(alpha, F32)
        if beta != 0:  # else nothing of it is read, NaN neither
            own = to(broadcast(bias, at), F32)
            total = total + (own if beta == 1 else own * number(beta, F32))
        return to(total, a.dtype)

    return low.define(sums.shape, a.dtype, value)


PRODUCTS: dict[Any, Row] = {
    aten.mm.default: product, aten.bmm.default: product, aten.addmm.default: added, aten.baddbmm.default: added,
}  # fmt: skip

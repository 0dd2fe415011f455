"""Softmax and normalisations, forward and backward."""

from __future__ import annotations

import torch

from codegen.kernels import index as ix
from codegen.kernels import ir
from codegen.kernels.lowering.context import Lowering, Ref, computed_in, to, wrap
from codegen.kernels.lowering.table import lowers

aten = torch.ops.aten


@lowers(aten._softmax.default)
def _softmax(low: Lowering, x: Ref, dim: int, half_to_float: bool = False) -> Ref:
    wide, dim = computed_in(x.dtype), wrap(dim, x.dim)
    top = low.reduce("max", x, [dim], keepdim=True, hint="max")

    def power(*at: ix.Index) -> ir.Expr:
        row = (*at[:dim], ix.index(0), *at[dim + 1 :])
        return ir.op("exp", wide, ir.op("sub", wide, to(x[at], wide), to(top[row], wide)))

    powers = low.define(x.shape, wide, power, hint="exp")
    total = low.reduce("sum", powers, [dim], keepdim=True, hint="sum")

    def element(*at: ix.Index) -> ir.Expr:
        row = (*at[:dim], ix.index(0), *at[dim + 1 :])
        return to(ir.op("div", wide, powers[at], total[row]), low.out.dtype)

    return low.define(x.shape, low.out.dtype, element)

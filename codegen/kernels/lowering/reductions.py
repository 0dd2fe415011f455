"""Reductions over dims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from codegen.kernels.lowering.context import Lowering, Ref, computed_in, to, wrap
from codegen.kernels.lowering.table import lowers

aten = torch.ops.aten


def dims_of(ref: Ref, dims: Sequence[int] | None) -> list[int]:
    """Named dims; all of them where none is."""
    return sorted(wrap(dim, ref.dim) for dim in dims) if dims else list(range(ref.dim))


@lowers(aten.sum.dim_IntList)
def _sum(low: Lowering, x: Ref, dims: Sequence[int] | None, keepdim: bool = False, dtype: Any = None) -> Ref:
    wide = computed_in(low.out.dtype)
    total = low.reduce("sum", x, dims_of(x, dims), keepdim, value=lambda element: to(element, wide))
    return converted(low, total, low.out.dtype)


@lowers(aten.amax.default)
def _amax(low: Lowering, x: Ref, dims: Sequence[int] = (), keepdim: bool = False) -> Ref:
    return low.reduce("max", x, dims_of(x, dims), keepdim)


def converted(low: Lowering, ref: Ref, dtype: torch.dtype) -> Ref:
    return ref if ref.dtype == dtype else low.define(ref.shape, dtype, lambda *at: to(ref[at], dtype))

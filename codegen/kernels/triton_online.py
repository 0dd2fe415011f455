"""A maximum and the sum of exponentials below it, in one pass over what lies in memory: softmax of long rows.

Both are kept while the rounds go by, and where the maximum grows, what was added up so far is scaled.
M. Milakov, N. Gimelshein: Online normalizer calculation for softmax, 2018.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from codegen.kernels.c_expand import finite, wide
from codegen.kernels.ir import Loop, Op, Reduce, result


@dataclass(frozen=True)
class Online:
    """`top`: the maximum of its value. `total`: the sum of exp(value - top), or where `is_finite` of exp(value - 0) if
    the maximum is infinite."""

    top: Reduce
    total: Reduce
    is_finite: bool


def online(first: Loop, second: Loop) -> Online | None:
    """The two loops as one; None where they are something else."""
    if first.axes != second.axes or not first.axes or len(first.body) != 1 or len(second.body) != 1:
        return None
    top, total = first.body[0], second.body[0]
    if not isinstance(top, Reduce) or not isinstance(total, Reduce) or (top.kind, total.kind) != ("max", "sum"):
        return None
    power = total.value
    if power.dtype not in (torch.float32, torch.float64) or not isinstance(power, Op) or power.name != "exp":
        return None
    below, own = power.operands[0], wide(result(top.name, top.dtype))
    for reference in (own, finite(own)):
        if isinstance(below, Op) and below.name == "sub" and below.operands == (wide(top.value), reference):
            return Online(top, total, reference is not own)
    return None

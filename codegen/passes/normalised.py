"""Convolutions whose results are normalised by numbers that do not depend on them.

Weights are inputs of the graph: they are scaled at every call, for somebody may have written them. That is worth it
only where they are few and no pointwise operation follows, in whose kernel the normalisation would cost nothing. It is
0.9 of the time then; for 512 channels of 7 by 7 it would be 3 times as much (1 thread).
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from codegen.aot import cost
from codegen.passes.graphs import Results, make, static
from codegen.passes.registry import register

aten = torch.ops.aten
FEW = 8  # results for each weight, at least
_FUSED = (cost.POINTWISE, cost.MATH, cost.VIEW)


@register("normalised", "inference")
def fold_normalisations(graph: fx.GraphModule) -> bool:
    """Scales and shifts the few weights of a convolution in the place of the many results."""
    results = Results(graph)
    changed = False
    for node in list(graph.graph.nodes):
        if _arguments(node) is None:
            continue
        items = [user for user in node.users if user.users]
        if len(items) != 1 or items[0].target is not operator.getitem or items[0].args[1] != 0:
            continue
        made = _folded(node, items[0])
        changed |= made is not None and results.put(made, items[0])
    return changed


def _arguments(node: fx.Node) -> Sequence[Any] | None:
    """(operand, weight, bias, mean, variance, epsilon) of a normalisation that takes these numbers as they are."""
    args = node.args
    if node.target is aten._native_batch_norm_legit_no_training.default:
        return *args[:5], args[6]
    is_fixed = node.target is aten.native_batch_norm.default and args[5] is False
    return (*args[:5], args[7]) if is_fixed else None


def _folded(node: fx.Node, item: fx.Node) -> fx.Node | None:
    found = _arguments(node)
    assert found is not None
    product, scale, shift, mean, variance, epsilon = found
    if not isinstance(product, fx.Node) or product.target is not aten.convolution.default or len(product.users) > 1:
        return None
    operand, weight, bias, *how = product.args
    given = [operand, weight, mean, variance, *(each for each in (scale, shift, bias) if each is not None)]
    tensors = [static(each) for each in given]
    made = static(item)
    if made is None or any(each is None or each.dtype is not made.dtype for each in tensors):
        return None
    kernel = tensors[1]
    is_transposed = how[3]
    if kernel is None or is_transposed or made.dtype not in (torch.float32, torch.float64) or made.device.type != "cpu":
        return None
    if kernel.numel() * FEW > made.numel() or any(cost.kind(user) in _FUSED for user in item.users):
        return None
    factor = make(node, aten.rsqrt.default, make(node, aten.add.Tensor, variance, epsilon))
    if scale is not None:
        factor = make(node, aten.mul.Tensor, factor, scale)
    offset = make(node, aten.neg.default, mean) if bias is None else make(node, aten.sub.Tensor, bias, mean)
    offset = make(node, aten.mul.Tensor, offset, factor)
    if shift is not None:
        offset = make(node, aten.add.Tensor, offset, shift)
    shape = [-1] + [1] * (kernel.dim() - 1)
    scaled = make(node, aten.mul.Tensor, weight, make(node, aten.view.default, factor, shape))
    return make(node, aten.convolution.default, operand, scaled, offset, *how)

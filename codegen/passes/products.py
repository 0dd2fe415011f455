"""Products of matrices that are no work for a library: they become pointwise operations and sums, which are fused.

Measured on a CPU with kernels of our own (1 and 2 threads, float32): matrices by vectors of 64 to 3,072 elements take
0.5 to 0.7 of the time, columns by rows 0.6, dozens of small products of which one side is a vector 0.2 to 0.7. Batches
of larger ones are the library's, as are small squares.

Left alone as well, for it does not pay: products with an operand in common (x @ a, x @ b, x @ c) as one with joined
matrices. They run at 1.0 to 1.1 of the speed where the matrices lie next to each other already, and their results have
gaps between rows then; to join them at each call brings that down to between 0.35 and 1.0 (1 to 2,048 rows, 256 to 768
columns each).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from codegen.passes.graphs import Results, make, static
from codegen.passes.registry import register

aten = torch.ops.aten
SMALL = 400  # multiplications for each product of a batch: ATen goes through so many one at a time
_PRODUCTS = (aten.mm.default, aten.bmm.default, aten.addmm.default)


@register("products", ("forward", "backward", "inference"))
def unfold_products(graph: fx.GraphModule) -> bool:
    """Products by vectors are written as multiplications and sums."""
    results = Results(graph)
    changed = False
    for node in list(graph.graph.nodes):
        made = _unfolded(node) if node.target in _PRODUCTS and not node.kwargs else None
        changed |= made is not None and results.put(made, node)
    return changed


def _unfolded(node: fx.Node) -> fx.Node | None:
    one, other = node.args[-2:]
    left, right, made = (static(each) for each in (one, other, node))
    if left is None or right is None or made is None or made.device.type != "cpu":
        return None
    if made.dtype not in (torch.float32, torch.float64):  # halves are added up in floats
        return None
    (rows, between), columns = left.shape[-2:], right.shape[-1]
    is_batch = made.dim() == 3
    if between == 1 and made.numel():
        product = make(node, aten.mul.Tensor, one, other)
        if is_batch:  # what begins with 0.0 does not end with -0.0
            return make(node, aten.add.Tensor, product, 0.0)
    elif between and 1 in (rows, columns) and not (is_batch and rows * between * columns >= SMALL):
        product = _sum(node, one, other)
    else:
        return None
    return product if node.target is not aten.addmm.default else make(node, aten.add.Tensor, product, node.args[0])


def _sum(node: fx.Node, one: Any, other: Any) -> fx.Node:
    left, right = make(node, aten.unsqueeze.default, one, -1), make(node, aten.unsqueeze.default, other, -3)
    return make(node, aten.sum.dim_IntList, make(node, aten.mul.Tensor, left, right), [-2])

"""Which products of matrices are kernels of our own: those that beat the vendor's library, with what is fused to them.

A kernel is compared by itself with ATen's call. What it spares is counted where pointwise operations follow: they read
the product and write a result of its size, which a pass over it costs when they are apart.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import fx

from codegen.kernels.ir import Kernel, Op, Reduce
from codegen.kernels.lowering.lower import lower
from codegen.kernels.lowering.products import PRODUCTS
from codegen.kernels.schedule import Schedule, schedule
from codegen.kernels.triton_dot import axes_of, product_of
from codegen.kernels.triton_shape import prepared


def scheduled(graph: fx.GraphModule, wins: Callable[[fx.Node], bool]) -> Schedule:
    """The graph's kernels with the products that win among them. One that shares a kernel with others so that it is no
    product of tiles is left to ATen. Raises Unsupported."""
    chosen = [node for node in graph.graph.nodes if is_candidate(node) and wins(node)]
    made = schedule(lower(graph, frozenset(chosen)))
    if all(map(is_quick, made.kernels)):
        return made
    kept: frozenset[fx.Node] = frozenset()
    made = schedule(lower(graph))
    for node in chosen:
        with_it = schedule(lower(graph, kept | {node}))
        if all(map(is_quick, with_it.kernels)):
            kept, made = kept | {node}, with_it
    return made


def is_candidate(node: fx.Node) -> bool:
    """Whether it is a product of matrices of known sizes, none of them 0."""
    if node.target not in PRODUCTS:
        return False
    fakes = [each.meta["val"] for each in (*node.all_input_nodes, node)]
    return all(isinstance(size, int) and size > 0 for fake in fakes for size in (*fake.shape, *fake.stride()))


def is_quick(kernel: Kernel) -> bool:
    """Whether its sums of products, if it has any, are done in tiles."""
    return product_of(kernel) is not None or not any(
        isinstance(statement, Reduce) and _contracts(statement, kernel)
        for loop in prepared(kernel).loops for statement in loop.body
    )  # fmt: skip


def may_round(plain: Schedule) -> bool:
    """Whether factors may be rounded as torch's setting allows for products: the schedule without such kernels has no
    sums of products that the program itself has written out, which are not."""
    return not any(product_of(kernel) is not None for kernel in plain.kernels)


def _contracts(reduce: Reduce, kernel: Kernel) -> bool:
    """Whether each of two factors lacks an axis that the other one has."""
    value = reduce.value
    if reduce.kind != "sum" or not isinstance(value, Op) or value.name != "mul":
        return False
    axes = set(prepared(kernel).axes)
    a, b = (axes_of(factor) & axes for factor in value.operands)
    return bool(a - b) and bool(b - a)


def passes_after(node: fx.Node) -> bool:
    """Whether what reads the product is pointwise, of one use: a kernel of the product does it too."""
    pointwise = torch.Tag.pointwise
    return len(node.users) == 1 and all(pointwise in getattr(user.target, "tags", ()) for user in node.users)

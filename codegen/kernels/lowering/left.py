"""What kernels can do and ATen does faster: the one place that says which operations are left to it, and when.

Measured on AMD Zen 4, with `tools/bench kernels`. An operation with nothing beside it to be fused with is no better
off in a kernel of its own; where ATen has faster code for it, ATen is called.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import fx

from codegen.aot import cost
from codegen.kernels.definitions import Definition, Program
from codegen.kernels.lowering.context import Ref
from codegen.kernels.lowering.table import LOWERINGS

aten = torch.ops.aten
#: By dtype: what ATen does faster alone, and from how many elements on. Its gelu of floats takes 0.85 of our time; its
#: sum of all 0.93, where the caches hold no more of them.
FASTER_ALONE: dict[torch.dtype, dict[Any, int]] = {
    torch.float32: {aten.gelu.default: 1 << 16, aten.sum.default: 1 << 22},
}

#: ATen adds up elements of one dimension in 0.9 of our time, from so many on: it can know no more of them than we do.
FLAT = 1 << 16
_FLAT = (aten.scatter_add.default, aten.scatter_reduce.two)


def is_left(program: Program, values: Mapping[fx.Node, Any], node: fx.Node) -> bool:
    """Whether an operation that has a row is ATen's all the same."""
    if not node.users and cost.lasting(node):
        return True  # no kernel computes what nobody reads
    if not node.all_input_nodes or node.kwargs.get("approximate", "none") != "none":
        return False
    if node.target in _FLAT:
        return _is_flat(program, values, node)
    read = node.all_input_nodes[0].meta["val"]
    least = FASTER_ALONE.get(read.dtype, {}).get(node.target) if isinstance(read, torch.Tensor) else None
    if least is None or not all(type(size) is int for size in read.shape):
        return False
    return read.numel() >= least and _is_alone(program, values, node)


def _is_flat(program: Program, values: Mapping[fx.Node, Any], node: fx.Node) -> bool:
    """Whether it is of one dimension, what is put lies in memory, and what it is put into is new."""
    base, positions, source = (values[given] for given in (node.args[0], *node.args[2:4]))  # type: ignore[index]
    if not all(isinstance(each, Ref) and each.dim == 1 for each in (base, positions, source)):
        return False
    is_new, is_made = (isinstance(program.tensors[each.name], Definition) for each in (base, source))
    count = positions.shape[0].constant
    return is_new and not is_made and count is not None and count >= FLAT


def _is_alone(program: Program, values: Mapping[fx.Node, Any], node: fx.Node) -> bool:
    """Whether what it reads lies in memory, and nothing that kernels compute reads what it gives."""
    read = [values[given] for given in node.all_input_nodes]
    if any(isinstance(ref, Ref) and isinstance(program.tensors[ref.name], Definition) for ref in read):
        return False
    return not any(user.target in LOWERINGS for user in node.users)

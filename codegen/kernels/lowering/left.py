"""What kernels can do and ATen does faster: the one place that says which operations are left to it, and when.

Measured on AMD Zen 4, with `tools/bench kernels`. An operation with nothing beside it to be fused with is no better
off in a kernel of its own; where ATen has faster code for it, ATen is called.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import fx

from codegen.kernels.definitions import Definition, Program
from codegen.kernels.lowering.context import Ref
from codegen.kernels.lowering.table import LOWERINGS

aten = torch.ops.aten
#: By dtype: what ATen does faster alone, and from how many elements on. Its gelu of floats takes 0.85 of our time; its
#: sum of all 0.93, where the caches hold no more of them.
FASTER_ALONE: dict[torch.dtype, dict[Any, int]] = {
    torch.float32: {aten.gelu.default: 1 << 16, aten.sum.default: 1 << 22},
}


def is_left(program: Program, values: Mapping[fx.Node, Any], node: fx.Node) -> bool:
    """Whether an operation that has a row is ATen's all the same."""
    if not node.all_input_nodes or node.kwargs.get("approximate", "none") != "none":
        return False
    read = node.all_input_nodes[0].meta["val"]
    least = FASTER_ALONE.get(read.dtype, {}).get(node.target) if isinstance(read, torch.Tensor) else None
    if least is None or not all(type(size) is int for size in read.shape):
        return False
    return read.numel() >= least and _is_alone(program, values, node)


def _is_alone(program: Program, values: Mapping[fx.Node, Any], node: fx.Node) -> bool:
    """Whether what it reads lies in memory, and nothing that kernels compute reads what it gives."""
    read = [values[given] for given in node.all_input_nodes]
    if any(isinstance(ref, Ref) and isinstance(program.tensors[ref.name], Definition) for ref in read):
        return False
    return not any(user.target in LOWERINGS for user in node.users)

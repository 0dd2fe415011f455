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
#: By dtype: what ATen does faster alone. Its gelu of floats takes 0.85 of our time.
FASTER_ALONE = {torch.float32: frozenset({aten.gelu.default})}
#: Elements from which on that is more than calling it takes.
MANY = 1 << 16


def is_left(program: Program, values: Mapping[fx.Node, Any], node: fx.Node) -> bool:
    """Whether an operation that has a row is ATen's all the same."""
    fake = node.meta["val"]
    if not isinstance(fake, torch.Tensor) or node.target not in FASTER_ALONE.get(fake.dtype, ()):
        return False
    if node.kwargs.get("approximate", "none") != "none" or not all(type(size) is int for size in fake.shape):
        return False
    return fake.numel() >= MANY and _is_alone(program, values, node)


def _is_alone(program: Program, values: Mapping[fx.Node, Any], node: fx.Node) -> bool:
    """Whether what it reads lies in memory, and nothing that kernels compute reads what it gives."""
    read = [values[given] for given in node.all_input_nodes]
    if any(isinstance(ref, Ref) and isinstance(program.tensors[ref.name], Definition) for ref in read):
        return False
    return not any(user.target in LOWERINGS for user in node.users)

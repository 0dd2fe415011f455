"""Plain numbers among the arguments and the nodes of a program; what they are is known when the graph runs."""

from __future__ import annotations

import operator
from dataclasses import dataclass

import torch
from torch import fx

from symbolic.late import number_of

#: They raise for no number.
SAFE = frozenset({
    torch.ops.aten._local_scalar_dense.default,
    *(operator.add, operator.sub, operator.mul, operator.neg, operator.pos, operator.abs),
    *(operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge),
    *(operator.and_, operator.or_, operator.not_, sum),
})  # fmt: skip


@dataclass(frozen=True)
class Varying:
    """Stands among the arguments of a program for a number of that type, another one at every call."""

    type: type


def may_raise(node: fx.Node) -> bool:
    """Whether a node computes a number in a way that fails for some: then it must run, though nobody reads it."""
    return number_of(node.meta.get("val")) is not None and node.op == "call_function" and node.target not in SAFE

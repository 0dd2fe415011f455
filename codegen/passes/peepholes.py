"""Operations that change nothing, by the rules of IEEE and of integers: for every value, -0.0 and NaN too.

x + 0 is none of them (-0.0 + 0 is 0.0), but x + -0.0 and x - 0 are; no operation on complex numbers is (an infinity
times 1 has parts that are no numbers).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from codegen.passes.graphs import Results, make, sizes, static, tensor
from codegen.passes.registry import register

aten = torch.ops.aten
Rule = Callable[[fx.Node], fx.Node | None]  # what has the same values as the node


@register("peepholes", ("forward", "backward", "inference"))
def simplify(graph: fx.GraphModule) -> bool:
    """Operations that give what they are given go, and those that undo each other."""
    results = Results(graph)
    changed = False
    for node in list(graph.graph.nodes):
        for rule in RULES.get(node.target, ()):
            found = rule(node)
            if found is None:
                continue
            if results.put(found, node):
                changed = True
                break
            if not found.users:
                graph.graph.erase_node(found)
    return changed


def _uniform(value: Any) -> float | int | None:
    """The number that an operand is all of."""
    while isinstance(value, fx.Node) and value.target in (aten.expand.default, aten.view.default):
        value = value.args[0]
    if isinstance(value, int | float):
        return value
    row = _FILLS.get(value.target) if isinstance(value, fx.Node) else None
    number = row(value) if row is not None else None
    return number if isinstance(number, int | float) else None


_FILLS: dict[Any, Callable[[fx.Node], Any]] = {
    **dict.fromkeys((aten.ones.default, aten.ones_like.default, aten.new_ones.default), lambda node: 1),
    **dict.fromkeys((aten.zeros.default, aten.zeros_like.default, aten.new_zeros.default), lambda node: 0),
    **dict.fromkeys((aten.full.default, aten.full_like.default), lambda node: node.args[1]),
    aten.new_full.default: lambda node: node.args[2],
    aten.scalar_tensor.default: lambda node: node.args[0],
}


def _operands(node: fx.Node) -> tuple[Any, Any] | None:
    """The two operands of arithmetic on real numbers."""
    value = tensor(node)
    if value is None or value.is_complex() or node.kwargs or len(node.args) != 2:
        return None
    return node.args[0], node.args[1]


def _times_one(node: fx.Node) -> fx.Node | None:
    left, right = _operands(node) or (None, None)
    if isinstance(left, fx.Node) and _uniform(right) == 1:
        return left
    return right if isinstance(right, fx.Node) and node.target is aten.mul.Tensor and _uniform(left) == 1 else None


def _plus_nothing(node: fx.Node) -> fx.Node | None:
    left, right = _operands(node) or (None, None)
    value = tensor(left)
    number = _uniform(right)
    if value is None or number != 0:
        return None
    if not value.is_floating_point():
        return left if value.dtype is not torch.bool else None
    is_minus = isinstance(number, float) and math.copysign(1.0, number) < 0
    fills = tensor(right)
    is_minus = is_minus and (fills is None or fills.is_floating_point())
    return left if is_minus is (node.target in _ADDITIONS) else None


def _twice(node: fx.Node) -> fx.Node | None:
    """What undoes itself."""
    inner = node.args[0]
    found = inner.args[0] if isinstance(inner, fx.Node) and inner.target is node.target else None
    return found if isinstance(found, fx.Node) else None


def _again(node: fx.Node) -> fx.Node | None:
    """What changes nothing the second time."""
    inner = node.args[0]
    return inner if isinstance(inner, fx.Node) and inner.target is node.target and not node.kwargs else None


def _either(node: fx.Node) -> fx.Node | None:
    _, one, other = node.args
    return one if one is other else None  # type: ignore[return-value]


#: Kinds of numbers that hold all of another kind: the first of these holds none but its own.
_FLOATS = {torch.float16: 0, torch.bfloat16: 0, torch.float32: 1, torch.float64: 2}
_INTS = {torch.int8: 0, torch.int16: 1, torch.int32: 2, torch.int64: 3}


def _converted(node: fx.Node) -> fx.Node | None:
    """A conversion of a conversion that lost nothing."""
    inner = node.args[0]
    if not isinstance(inner, fx.Node) or inner.target is not node.target or not node.kwargs.keys() <= {"dtype"}:
        return None
    source, between, last = (tensor(each) for each in (inner.args[0], inner, node))
    if source is None or between is None or last is None or not inner.kwargs.keys() <= {"dtype"}:
        return None
    for kinds in (_FLOATS, _INTS):
        if all(each.dtype in kinds for each in (source, between, last)):
            if kinds[source.dtype] >= kinds[between.dtype] and source.dtype is not between.dtype:
                return None
            assert isinstance(inner.args[0], fx.Node)
            if last.dtype is source.dtype:
                return inner.args[0]
            return make(node, aten._to_copy.default, inner.args[0], dtype=last.dtype)
    return None


def _sum_of_equals(node: fx.Node) -> fx.Node | None:
    """A sum over just those dimensions that an expansion made: a product, which is rounded once."""
    inner = node.args[0]
    if not isinstance(inner, fx.Node) or inner.target is not aten.expand.default or node.kwargs:
        return None
    source, shown, made = (static(each) for each in (inner.args[0], inner, node))
    if source is None or shown is None or made is None or not (made.is_floating_point() or made.dtype is torch.int64):
        return None
    dims: Any = node.args[1] or range(shown.dim())
    over = {dim % shown.dim() for dim in dims} if shown.dim() else set()
    lead = shown.dim() - source.dim()
    spread = {dim for dim in range(shown.dim()) if dim < lead or source.shape[dim - lead] != shown.shape[dim]}
    count = math.prod(shown.shape[dim] for dim in over)
    ones = all(shown.shape[dim] == 1 for dim in over - spread)
    if made.dtype is not source.dtype or not spread <= over or not ones or not count or sizes(source) != sizes(made):
        return None
    return make(node, aten.mul.Tensor, inner.args[0], count)


def _made_alike(node: fx.Node) -> fx.Node | None:
    """Nobody looks at the values of what nothing was written into."""
    inner = node.args[0]
    if not isinstance(inner, fx.Node) or inner.target is not node.target:
        return None
    return make(node, aten.empty_like.default, inner.args[0], **{**inner.kwargs, **node.kwargs})


_ADDITIONS = (aten.add.Tensor, aten.add.Scalar)
RULES: dict[Any, tuple[Rule, ...]] = {
    **dict.fromkeys((aten.mul.Tensor, aten.mul.Scalar, aten.div.Tensor, aten.div.Scalar), (_times_one,)),
    aten.pow.Tensor_Scalar: (_times_one,),
    **dict.fromkeys((*_ADDITIONS, aten.sub.Tensor, aten.sub.Scalar), (_plus_nothing,)),
    **dict.fromkeys((aten.neg.default, aten.bitwise_not.default, aten.logical_not.default), (_twice,)),
    **dict.fromkeys(
        (aten.abs.default, aten.relu.default, aten.floor.default, aten.ceil.default, aten.trunc.default,
         aten.round.default, aten.sign.default), (_again,)
    ),
    aten.where.self: (_either,),
    aten.empty_like.default: (_made_alike,),
    aten._to_copy.default: (_converted,),
    aten.sum.dim_IntList: (_sum_of_equals,),
}

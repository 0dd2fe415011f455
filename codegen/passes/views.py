"""Views of views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from codegen.aot import cost
from codegen.aot.views import BY_PLACE
from codegen.passes.graphs import (
    Results,
    is_contiguous,
    is_late,
    is_pure,
    looks,
    may_read,
    replace,
    sizes,
    static,
    tensor,
)
from codegen.passes.registry import register

aten = torch.ops.aten


@register("views", ("forward", "backward", "inference"))
def shorten_views(graph: fx.GraphModule) -> bool:
    """A view that shows what something earlier on its way shows becomes that; two steps become one where they can."""
    out = Results(graph).out
    seen: dict[fx.Node, Any] = {}
    changed = False
    for node in list(graph.graph.nodes):
        if node.op != "call_function" or cost.kind(node) is not cost.VIEW or tensor(node) is None:
            continue
        same = _same_before(node, seen) if node not in out else None
        if same is not None:
            replace(node, same)
        changed |= same is not None or _joined(node)
    return changed


def _same_before(node: fx.Node, seen: dict[fx.Node, Any]) -> fx.Node | None:
    """What shows the same among all that it is a view of.

    Offsets are not compared: those of stand-ins tell nothing about values that were written since they were taken. They
    need not be: no part of a tensor has its shape and strides but the whole.
    """

    def known(shown: fx.Node) -> Any:
        if shown not in seen:
            value = tensor(shown)
            seen[shown] = None if value is None else sizes(value)
        return seen[shown]

    here, before = known(node), node
    while _is_plain_view(before) and before.all_input_nodes:  # `conj` may be of a number
        before = before.all_input_nodes[0]
        if known(before) == here and looks(before.meta["val"]) == looks(node.meta["val"]):
            return before if may_read(node, before) else None
    return None


def _is_plain_view(node: fx.Node) -> bool:
    is_view = node.op == "call_function" and cost.kind(node) is cost.VIEW
    return is_view and node.target not in BY_PLACE and not is_late(node)


def _joined(node: fx.Node) -> bool:
    """Takes what the operand is a view of for the operand, if one operation leads there."""
    inner = node.args[0]
    if not isinstance(inner, fx.Node) or not is_pure(inner) or not inner.args or not isinstance(inner.args[0], fx.Node):
        return False
    join = next((join for kind, join in _JOINS if node.target in kind and inner.target in kind), None)
    return join is not None and join(node, inner, inner.args[0])


def _joined_shapes(node: fx.Node, inner: fx.Node, source: fx.Node) -> bool:
    viewed = static(source)
    if viewed is None or not is_contiguous(viewed):
        return False
    node.args = (source, *node.args[1:])
    return True


def _joined_orders(node: fx.Node, inner: fx.Node, source: fx.Node) -> bool:
    outer, before = _order(node), _order(inner)
    node.target, node.args, node.kwargs = aten.permute.default, (source, [before[dim] for dim in outer]), {}
    return True


def _order(node: fx.Node) -> list[int]:
    """The dimensions of its operand in the order in which it shows them."""
    value = tensor(node)
    assert value is not None
    args: Any = node.args
    dims = list(range(value.dim()))
    if node.target is aten.permute.default:
        return [dim % len(dims) for dim in args[1]]
    one, other = args[1:] if node.target is aten.transpose.int else (0, len(dims) - 1)
    if dims:
        dims[one], dims[other] = dims[other], dims[one]
    return dims


def _joined_repeats(node: fx.Node, inner: fx.Node, source: fx.Node) -> bool:
    value = static(node)
    if value is None:
        return False
    node.args = (source, list(value.shape))
    return True


_Join = Callable[[fx.Node, fx.Node, fx.Node], bool]
_JOINS: tuple[tuple[frozenset[object], _Join], ...] = (
    (frozenset({aten.view.default, aten._unsafe_view.default}), _joined_shapes),
    (frozenset({aten.permute.default, aten.transpose.int, aten.t.default}), _joined_orders),
    (frozenset({aten.expand.default}), _joined_repeats),
)

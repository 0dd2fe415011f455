"""Copies that nobody can tell from what they were made of."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from codegen.passes.graphs import Results, looks, static, value
from codegen.passes.registry import register

aten = torch.ops.aten
#: Operations that give the values of their first argument in memory of their own.
COPIES = frozenset({aten.clone.default, aten._to_copy.default, aten.lift_fresh_copy.default})
#: Views that there are of every geometry of what they show.
_ANYWHERE = frozenset({
    *(aten.permute.default, aten.transpose.int, aten.t.default, aten.expand.default, aten.unsqueeze.default),
    *(aten.squeeze.dim, aten.squeeze.dims, aten.squeeze.default, aten.slice.Tensor, aten.select.int),
    *(aten.alias.default, aten.detach.default),
})


@register("copies", ("forward", "backward", "inference"))
def drop_copies(graph: fx.GraphModule) -> bool:
    """A copy goes that looks like its source, unless the caller gets one of them and could write there."""
    results = Results(graph)
    changed = False
    for node in list(graph.graph.nodes):
        if node.target in COPIES:
            changed |= _skips_copy(node, results)
            source = node.args[0]
            assert isinstance(source, fx.Node)
            changed |= results.put(source, node)
    return changed


def _skips_copy(node: fx.Node, results: Results) -> bool:
    """Takes what a copy was made of in its place, if that is all that it was made for."""
    steps: list[fx.Node] = []
    inner: Any = node.args[0]
    while _is_only_for_this(inner, results) and inner.target in _ANYWHERE and len(inner.all_input_nodes) == 1:
        steps.append(inner)
        inner = inner.args[0]
    if not _is_only_for_this(inner, results) or inner.target is not aten.clone.default:
        return False
    source, made = inner.args[0], static(node)
    if static(source) is None or made is None:
        return False
    before = [each.meta["val"] for each in steps]
    reader = steps[-1] if steps else node
    reader.replace_input_with(inner, source)
    for each in reversed(steps):
        each.meta["val"] = value(each.target, each.args, each.kwargs)  # type: ignore[arg-type]
    if looks(value(node.target, node.args, node.kwargs)) == looks(made):  # type: ignore[arg-type]
        node.graph.erase_node(inner)
        return True
    reader.replace_input_with(source, inner)
    for each, old in zip(steps, before, strict=True):
        each.meta["val"] = old
    return False


def _is_only_for_this(node: Any, results: Results) -> bool:
    return isinstance(node, fx.Node) and len(node.users) == 1 and node not in results.out

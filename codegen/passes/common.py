"""Equal operations run once."""

from __future__ import annotations

from typing import Any

from torch import fx

from codegen.aot import cost
from codegen.passes.graphs import Results, is_pure
from codegen.passes.registry import register

#: How many nodes further on a large value that is cheap to compute again is still kept for the sake of an equal one.
NEAR = 64
_CHEAP = (cost.POINTWISE, cost.MATH, cost.CONSTANT, cost.GATHER)


@register("common", ("forward", "backward", "inference"))
def merge_equal(graph: fx.GraphModule) -> bool:
    """Of equal operations on the same operands one runs; not where that would keep a large, cheap value for long."""
    place = {node: at for at, node in enumerate(graph.graph.nodes)}
    results = Results(graph)
    first: dict[Any, fx.Node] = {}
    last: dict[fx.Node, int] = {}  # uses, also those that went when their users became one
    changed = False
    for node in list(graph.graph.nodes):
        if not is_pure(node) and node.op != "get_attr":
            continue
        key = node.target, _key(node.args), _key(node.kwargs)
        known = first.setdefault(key, node)
        if known is node:
            continue
        last[known] = max((last.get(known, place[known]), *(place[user] for user in known.users)))
        if results.are_apart(known, node) or not _is_worth_keeping(node, place[node] - last[known]):
            first[key] = node
            continue
        last[known] = max((last[known], *(place[user] for user in node.users)))
        results.note(node, known)
        node.replace_all_uses_with(known)
        graph.graph.erase_node(node)
        changed = True
    return changed


def _is_worth_keeping(node: fx.Node, distance: int) -> bool:
    """`distance`: since an equal value was used."""
    return cost.kind(node) not in _CHEAP or cost.kept(node) <= cost.SMALL or distance <= NEAR


#: Most of what arguments are.
_THEMSELVES = frozenset({fx.Node, int, str, type(None)})


def _key(value: Any) -> Any:
    """Of arguments: equal where they are the same. 1, 1.0 and True are not, nor are 0.0 and -0.0."""
    if type(value) in _THEMSELVES:
        return value
    if isinstance(value, tuple | list):
        return type(value).__name__, *map(_key, value)
    if isinstance(value, dict):
        return tuple((name, _key(item)) for name, item in value.items())
    if isinstance(value, slice):
        return "slice", _key(value.start), _key(value.stop), _key(value.step)
    return (type(value), repr(value)) if isinstance(value, bool | float | complex) else value

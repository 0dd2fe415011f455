"""Some operations of a graph, one after another, as a graph of their own."""

from __future__ import annotations

from collections.abc import Sequence

from torch import fx
from torch.fx._lazy_graph_module import _LazyGraphModule

from symbolic.quick_graph import Graph


def ends(row: Sequence[fx.Node]) -> tuple[list[fx.Node], list[fx.Node]]:
    """What these operations take from others, and what others take of them."""
    inside = set(row)
    takes = dict.fromkeys(each for node in row for each in node.all_input_nodes if each not in inside)
    return list(takes), [node for node in row if any(user not in inside for user in node.users)]


def row_graph(
    root: fx.GraphModule, takes: Sequence[fx.Node], row: Sequence[fx.Node], gives: Sequence[fx.Node]
) -> fx.GraphModule:
    """`row` as a graph of `takes` that results in the tuple of `gives`; `root` has the attributes."""
    graph = Graph()
    here: dict[fx.Node, fx.Node] = {}
    for node in takes:
        here[node] = made = graph.placeholder(node.name)
        made.meta = dict(node.meta)
    for node in row:
        here[node] = graph.node_copy(node, here.__getitem__)
    graph.output(tuple(here[node] for node in gives))
    return _LazyGraphModule(root, graph, "Row")

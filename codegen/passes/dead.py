"""What nobody reads."""

from __future__ import annotations

from torch import fx

from codegen.aot import cost
from codegen.passes.registry import register


@register("dead", ("forward", "backward", "inference"), optional=False)
def drop_dead(graph: fx.GraphModule) -> bool:
    """Operations whose results nobody reads go; not those that draw random numbers, have effects or may raise."""
    changed = False
    for node in reversed(graph.graph.nodes):
        if not node.users and node.op in ("call_function", "get_attr") and not cost.lasting(node):
            graph.graph.erase_node(node)
            changed = True
    return changed

"""Whether a graph that checks what its frame would branch on leaves a world in which the frame can run again.

It does if it only computes, and if all that it writes of inputs is written after its last check, or is in a small array
that a copy is kept of. What comes first is known where the graph runs as captured, or in the stages that it was made
into; a backend of somebody else's may do it in any order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from codegen.aot.stages import Stages
from codegen.raising import inside
from codegen.residual.failures import changes_the_world
from codegen.residual.reached import Reached
from symbolic.graph import GraphBuilder
from symbolic.shapes import CHECKS
from symbolic.variables.arrays import is_array_input

_CHECKS = frozenset({torch.ops.aten._assert_async.msg, torch.ops.aten._assert_async.default, *CHECKS})
#: Numbers in an array, at most, of which a copy is kept for checks that come after a write.
_MOST_KEPT = 1 << 14


def may_check(module: fx.GraphModule, graph: GraphBuilder) -> bool:
    """Asked before the graph is compiled. (Arrays alone are kept: nothing but their numbers is written.)"""
    if not changes_the_world(module, draws_again=True):
        return True
    last = _last_check(module)
    small = tuple(at for at, each in enumerate(graph.inputs) if is_array_input(each) and _is_small(each))
    return last is not None and not changes_the_world(module, True, last, small)


def checks_first(module: fx.GraphModule, compiled: Callable[..., Any], kept: tuple[int, ...]) -> bool:
    """Asked when it is compiled, and it is known which inputs are kept."""
    if not changes_the_world(module, draws_again=True):
        return True
    stages = module.meta.get("stages")
    if isinstance(stages, Stages):
        return stages.forward.meta.get("about") is not None or _checks_first(stages.forward, kept)
    if getattr(compiled, "__self__", None) is not module:
        return False
    return not changes_the_world(module, True, _last_check(module), kept)


def _checks_first(forward: fx.GraphModule, kept: tuple[int, ...]) -> bool:
    """Whether a graph of ATen's operations that runs node by node does so. (What it leaves to its caller to write is
    written when it is done.)"""
    checks = [node for node in forward.graph.nodes if node.target in _CHECKS]
    return bool(checks) and not Reached(forward, (checks[-1],), None).lasts(True, kept)


def _is_small(array: Any) -> bool:
    return bool(array.fake.numel() <= _MOST_KEPT)


def _last_check(module: fx.GraphModule) -> fx.Node | None:
    """None where checks may be inside of other graphs."""
    nodes = list(module.graph.nodes)
    if any(True for node in nodes for _ in inside(node)):
        return None
    checks = [node for node in nodes if node.target is torch._assert_async or node.target in CHECKS]
    return checks[-1] if checks else None

"""Small tensors that are the same at every call."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves

from codegen.aot import cost
from codegen.passes.graphs import Results, is_contiguous, is_pure, root, static
from codegen.passes.registry import register

aten = torch.ops.aten
LARGEST = 1 << 16  # bytes: what is larger takes no more time to compute than to read
SHORTEST = 4  # operations, views not counted, that are worth a tensor which lives as long as the graph
#: Their values are not the same at every call.
_ANYTHING = frozenset({
    *(aten.empty.memory_format, aten.empty_like.default, aten.empty_strided.default, aten.empty_permuted.default),
    *(aten.new_empty.default, aten.new_empty_strided.default),
})  # fmt: skip


@register("constants", ("forward", "backward", "inference"))
def fold_constants(graph: fx.GraphModule) -> bool:
    """Small tensors that depend on no input are computed once, by ATen; what is all of one number is made of that."""
    held = Results(graph).held
    known: dict[fx.Node, int] = {}  # how many operations are behind each
    for node in graph.graph.nodes:
        if all(operand in known for operand in node.all_input_nodes) and _is_constant(node):
            is_view = cost.kind(node) in (cost.VIEW, cost.ITEM)
            known[node] = sum(map(known.__getitem__, node.all_input_nodes)) + (not is_view)
    ends = [
        node for node, count in known.items()
        if count > 1 and static(node) is not None and root(node) not in held
        and any(user not in known for user in node.users)
    ]  # fmt: skip
    values: dict[fx.Node, Any] = {}
    return any([_replaced(graph, node, values, known) for node in ends])


def _is_constant(node: fx.Node) -> bool:
    """Whether a node gives something small which depends on nothing but its operands."""
    if not isinstance(node.target, OpOverload) or not is_pure(node) or node.target in _ANYTHING:
        return False
    values = tree_leaves(node.meta.get("val"))
    small = all(isinstance(value, torch.Tensor) and value.device.type == "cpu" for value in values)
    return small and cost.kept(node) <= LARGEST and all(isinstance(n, int) for value in values for n in value.shape)


def _replaced(graph: fx.GraphModule, node: fx.Node, values: dict[fx.Node, Any], known: dict[fx.Node, int]) -> bool:
    expected = static(node)
    found = _computed(node, values)
    if found is None or expected is None or found.dtype is not expected.dtype or found.device != expected.device:
        return False
    number = _number(found)
    if number is not None and is_contiguous(expected):
        with graph.graph.inserting_before(node):
            options: dict[str, Any] = {"dtype": expected.dtype, "device": expected.device}
            made = graph.graph.call_function(aten.full.default, (list(expected.shape), number), options)
    elif known[node] < SHORTEST or found.stride() != expected.stride():
        return False
    else:
        name = next(name for at in itertools.count() if not hasattr(graph, name := f"folded_{at}"))
        graph.register_buffer(name, found, persistent=False)
        with graph.graph.inserting_before(node):
            made = graph.graph.get_attr(name)
    made.meta.update(node.meta)
    node.replace_all_uses_with(made, delete_user_cb=lambda user: user not in known)
    return True


def _computed(node: fx.Node, values: dict[fx.Node, Any]) -> torch.Tensor | None:
    """Its value; None if it can't be computed now."""
    waiting = [node]
    with _disable_current_modes(), torch.inference_mode(False), torch.no_grad():
        while waiting:
            last = waiting[-1]
            missing = [operand for operand in last.all_input_nodes if operand not in values]
            if missing:
                waiting += missing
                continue
            waiting.pop()
            args, kwargs = fx.map_arg((last.args, last.kwargs), values.__getitem__)
            try:
                values[last] = last.target(*args, **kwargs)  # type: ignore[operator]
            except Exception:  # the graph raises it, then
                return None
    return values[node]


def _number(value: torch.Tensor) -> float | int | None:
    """What all elements are."""
    if not value.numel() or value.is_complex():
        return None
    first = value.flatten()[0]
    same = torch.equal(value, first.expand(value.shape)) and torch.equal(
        value.signbit(), first.signbit().expand(value.shape)
    )
    return first.item() if same else None

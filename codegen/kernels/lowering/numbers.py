"""Numbers that each call computes anew from others or from elements of tensors: in Python, as eager does.

Kernels compute with floats whose operations give a result for all floats. A quotient, a power may raise instead: where
a graph has such numbers, one step of its plan computes all its numbers, and kernels read them from a tensor.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from codegen.kernels.lowering.context import draws
from symbolic.late import number_of

aten = torch.ops.aten
#: Python's operations on floats that kernels know.
NUMBERS = {operator.add: "add", operator.sub: "sub", operator.mul: "mul", operator.neg: "neg"}


@dataclass(frozen=True, eq=False)
class Numbers:
    """`members` of a graph: all its numbers; `results`: those that tensors are computed of, floats. `inputs`: tensors
    of one element that they are read from, numbers that the graph is given; `order`: all of the graph's nodes, those
    that the inputs need ahead of the members. `compute`: the results of the inputs, all as tensors of one element."""

    members: frozenset[fx.Node]
    inputs: tuple[fx.Node, ...]
    results: tuple[fx.Node, ...]
    order: tuple[fx.Node, ...]
    compute: Callable[..., tuple[torch.Tensor, ...]]


def numbers_of(graph: fx.Graph) -> Numbers | None:
    """None where kernels know what to do with all of them, or they can't be computed all at once (random numbers are
    drawn in the graph's order)."""
    found = [node for node in graph.nodes if node.op == "call_function" and number_of(node.meta.get("val")) is not None]
    if all(node.target in NUMBERS or node.target is aten._local_scalar_dense.default for node in found):
        return None
    members = frozenset(found)
    inputs = tuple(dict.fromkeys(g for node in found for g in node.all_input_nodes if g not in members))
    results = tuple(node for node in found if any(user not in members for user in node.users))
    needed = _needed(inputs)
    if not results or members & needed:
        return None
    if not all(map(_is_float, results)) or not all(map(_is_read, inputs)):
        return None
    order = sorted(graph.nodes, key=lambda node: 0 if node.op == "placeholder" else 1 if node in needed else 2)
    if list(filter(draws, order)) != list(filter(draws, graph.nodes)):
        return None
    return Numbers(members, inputs, results, tuple(order), _function(found, inputs, results))


def numbers_left(graph: fx.Graph) -> set[fx.Node]:
    """What computes numbers on a CPU that are no floats: neither kernels nor a step of the plan know how."""
    found = [node for node in graph.nodes if node.op == "call_function" and number_of(node.meta.get("val")) is not None]
    computed = {node for node in found if node.target is not aten._local_scalar_dense.default}
    if all(node.target in NUMBERS and all(map(_is_float_or_plain, node.args)) for node in computed):
        return set()
    values = (node.meta.get("val") for node in graph.nodes)
    if any(isinstance(value, torch.Tensor) and value.device.type != "cpu" for value in values):
        return set()
    return computed if numbers_of(graph) is None else set()


def _is_float_or_plain(operand: Any) -> bool:
    return not isinstance(operand, fx.Node) or _is_float(operand)


def _needed(nodes: Iterable[fx.Node]) -> set[fx.Node]:
    found: set[fx.Node] = set()
    stack = list(nodes)
    while stack:
        node = stack.pop()
        if node not in found:
            found.add(node)
            stack.extend(node.all_input_nodes)
    return found


def _is_float(node: fx.Node) -> bool:
    number = number_of(node.meta["val"])
    return number is not None and number.type is float


def _is_read(node: fx.Node) -> bool:
    """Whether it is a tensor, or a number that is no size."""
    number = getattr(node.meta["val"], "node", None)
    return isinstance(node.meta["val"], torch.Tensor) or not hasattr(number, "expr")


def _function(
    numbers: list[fx.Node], inputs: tuple[fx.Node, ...], results: tuple[fx.Node, ...]
) -> Callable[..., tuple[torch.Tensor, ...]]:
    graph = fx.Graph()
    known: dict[fx.Node, fx.Node] = {}
    for given in inputs:
        known[given] = graph.placeholder(given.name)
    for given in inputs:
        if not isinstance(given.meta["val"], torch.Tensor):
            known[given] = graph.call_method("item", (known[given],))
    for node in numbers:
        if node.target is aten._local_scalar_dense.default:
            known[node] = graph.call_method("item", (known[node.all_input_nodes[0]],))
        else:
            known[node] = graph.node_copy(node, known.__getitem__)
    graph.output(tuple(known[node] for node in results))
    forward = fx.GraphModule({}, graph).forward

    def compute(*inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.tensor(forward(*inputs), dtype=torch.float64, device="cpu").unbind()

    return compute

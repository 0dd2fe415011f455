"""Graphs with operations whose results have sizes that depend on values, or with numbers that kernels can't compute:
compiled in pieces, which end where such a size or number comes up. What comes up there, its check included, runs
operation by operation; to the next piece the size is that of an input, the number one that it is given."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils._pytree import tree_leaves

from codegen.aot import cost
from codegen.aot.function import GraphCompiler
from codegen.kernels.lowering.numbers import numbers_left
from codegen.rows import ends, row_graph
from symbolic.quick_graph import Graph
from symbolic.shapes import CHECKS, environment

#: No kernel is launched for these.
_IDLE = frozenset({cost.VIEW, cost.ITEM, cost.CONSTANT, cost.SIZE})


def pieced(whole: GraphCompiler, piece: GraphCompiler, around: GraphCompiler) -> GraphCompiler:
    """`whole` for graphs without such operations; of others, `piece` compiles the pieces and `around` what calls these.
    """

    def compiled(graph: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        between = _between(graph.graph)
        if not between:
            return whole(graph, example_inputs)
        return around(_in_pieces(graph, between, piece), example_inputs)

    return compiled


def _between(graph: fx.Graph) -> set[fx.Node]:
    """What runs between pieces: operations that sizes come up in, what reads and checks these, and what computes
    numbers as kernels can't."""
    found = numbers_left(graph)
    known: set[Any] = set()
    if environment(node.meta.get("val") for node in graph.nodes) is None:
        return found
    for node in graph.nodes:
        new = _sizes(node.meta.get("val")) - known
        known |= new
        if node.op != "call_function":
            continue
        reads = cost.kind(node) in (cost.ITEM, cost.SIZE) and not found.isdisjoint(node.all_input_nodes)
        if new or reads or node.target in CHECKS:
            found.add(node)
    return found


def _sizes(value: Any) -> set[Any]:
    """The sizes that depend on values."""
    return set().union(*map(free_unbacked_symbols, _expressions(value)))


def _expressions(value: Any) -> list[Any]:
    """The sizes that are no plain numbers, each as it came up: two may have been found to be equal since."""
    if isinstance(value, torch.Tensor) and all(type(size) is int for size in value.shape):
        return []
    leaves = tree_leaves(value)
    numbers: list[Any] = [size for leaf in leaves if isinstance(leaf, torch.Tensor) for size in leaf.shape]
    numbers += [leaf for leaf in leaves if isinstance(leaf, torch.SymInt)]
    return [number.node._expr for number in numbers if isinstance(number, torch.SymInt) and _is_size(number)]


def _needed(members: Sequence[fx.Node], given: Sequence[fx.Node]) -> list[Any]:
    """The sizes that a piece computes with and no tensor or number that it is given has: of `-n`, n."""
    shown = [expr for node in given for expr in _expressions(node.meta.get("val"))]
    asked = shown + [expr for node in members for expr in _expressions(node.meta.get("val"))]
    symbols = {symbol for expr in asked for symbol in expr.free_symbols}
    return sorted((each for each in symbols if each not in shown or free_unbacked_symbols(each)), key=str)


def _is_size(number: torch.SymInt) -> bool:
    """Other numbers that are known when the graph runs have no expression."""
    return hasattr(number.node, "_expr")


def _in_pieces(graph: fx.GraphModule, between: set[fx.Node], compiler: GraphCompiler) -> fx.GraphModule:
    """The graph with calls of what is compiled in the place of what is not `between`."""
    made = Graph()
    module = fx.GraphModule(graph, fx.Graph())
    known: dict[fx.Node, fx.Node] = {}
    sizes: dict[Any, fx.Node] = {}  # the nodes that give them
    having: dict[Any, fx.Node] = {}  # tensors that come in with them
    pieces: list[fx.GraphModule] = []
    *nodes, output = graph.graph.nodes
    is_plain = {node: node in between or node.op == "placeholder" for node in nodes}
    for plain, run in groupby(nodes, is_plain.__getitem__):
        members = list(run)
        if plain or all(cost.kind(node) in _IDLE for node in members):
            for node in members:
                known[node] = made.node_copy(node, known.__getitem__)
                value = node.meta.get("val")
                if isinstance(value, torch.SymInt) and _is_size(value):
                    sizes.setdefault(value.node.expr, node)
                if node.op == "placeholder" and isinstance(value, torch.Tensor):
                    having.update((expr, node) for expr in _expressions(value) if expr not in having)
            continue
        given, results = ends(members)
        needed = [sizes.get(each, having.get(each)) for each in _needed(members, given)]
        given += [node for node in dict.fromkeys(needed) if node is not None and node not in given]
        name = f"piece_{len(known)}"
        piece = row_graph(graph, given, members, results)
        examples = [node.meta["val"] for node in given]
        setattr(module, name, compiler(piece, examples))
        pieces.append(piece)
        call = made.call_function(operator.call, (made.get_attr(name), *(known[node] for node in given)))
        call.meta["piece"] = piece
        for at, node in enumerate(results):
            known[node] = made.call_function(operator.getitem, (call, at))
            known[node].meta.update(node.meta)
    made.output(fx.map_arg(output.args[0], known.__getitem__))
    module.graph = made
    graph.meta.update(pieces=pieces, texts=lambda: _texts(pieces))
    return module


def _texts(pieces: Sequence[fx.GraphModule]) -> dict[str, str]:
    """What the compiler says of each."""
    return {
        f"piece_{number}_{file}": text
        for number, piece in enumerate(pieces) if "texts" in piece.meta
        for file, text in piece.meta["texts"]().items()
    }


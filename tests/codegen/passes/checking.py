"""Passes with a look at the graph after each: its form, its fakes, and which of its results share memory."""
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import torch
from torch import fx
from torch.utils._pytree import tree_leaves

from codegen.aot import cost
from codegen.aot.numbers import may_raise
from codegen.passes import Passes
from codegen.passes.graphs import is_late, looks, root, value
from symbolic.late import number_of


def lasting(graph):
    return [node.name for node in graph.graph.nodes if node.op != "output" and cost.lasting(node)]


def standing(graph):
    """Of each result: how it looks, and with whom it shares memory: the first such placeholder or result. What is saved
    for a backward may be the same or share memory among itself."""
    results = graph.graph.output_node().args[0]
    nodes = [node for node in results if isinstance(node, fx.Node)]
    known, facts = {}, []
    for at, node in enumerate(graph.graph.find_nodes(op="placeholder")):
        known.setdefault(root(node), f"input {at}")
    seen = graph.meta.get("num_outputs", len(results))
    for at, node in enumerate(results):
        if at < seen and node in nodes:
            facts.append((results.index(node), known.setdefault(root(node), f"result {at}"), geometry(node.meta["val"])))
        elif node in nodes:
            facts.append((results.index(node) < seen, known.get(root(node), "saved"), geometry(node.meta["val"])))
    return [isinstance(result, fx.Node) for result in results], facts


def geometry(given):
    if isinstance(given, torch.Tensor) and given.layout is torch.strided:
        return looks(given)
    return [geometry(each) for each in given] if isinstance(given, tuple | list) else type(given)


def wrong_fakes(graph):
    """The nodes whose fakes are not what their operations give of their operands' fakes. Sizes that vary and numbers
    that are known late are left out: to compute with them would make guards."""
    for node in graph.graph.nodes:
        if node.op != "call_function" or may_raise(node) or cost.kind(node) is cost.EFFECT:
            continue
        values = tree_leaves([each.meta["val"] for each in (node, *node.all_input_nodes)])
        if is_late(node) or any(isinstance(v, torch.SymInt) or number_of(v) is not None for v in values):
            continue
        operands = [v for v in tree_leaves([each.meta["val"] for each in node.all_input_nodes]) if isinstance(v, torch.Tensor)]
        if not operands or any(isinstance(n, torch.SymInt) for fake in operands for n in fake.shape):
            continue
        if geometry(value(node.target, node.args, node.kwargs)) != geometry(node.meta["val"]):
            yield node


#: What was wrong of graphs when the last pass had run.
_WRONG = WeakKeyDictionary()


@dataclass(frozen=True)
class Checked(Passes):
    """Raises AssertionError where a pass leaves a graph behind that is none."""

    def run(self, each, graph):
        if not all("val" in node.meta for node in graph.graph.find_nodes(op="placeholder")):  # a captured one
            change = super().run(each, graph)
            graph.graph.lint()
            return change
        before = standing(graph), lasting(graph)
        wrong = _WRONG[graph] if graph in _WRONG else set(wrong_fakes(graph))
        change = super().run(each, graph)
        graph.graph.lint()
        after = wrong if change is None else set(wrong_fakes(graph))
        assert [node.format_node() for node in after if node not in wrong] == [], each.name
        _WRONG[graph] = after
        assert (standing(graph), lasting(graph)) == before, (each.name, before, standing(graph), lasting(graph))
        return change

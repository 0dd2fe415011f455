"""Graphs that are built in less time are torch's graphs."""
import operator

import pytest
import torch
from torch import fx

from symbolic.quick_graph import Graph


def build(kind):
    graph = kind()
    a, b = graph.placeholder("a"), graph.placeholder("b")
    total = graph.call_function(operator.add, (a, 1))
    other = graph.call_function(max, ([a, total], (b, slice(None, total))), {"key": None, "default": a})
    graph.call_function(torch.ops.aten.add.Tensor, (other, graph.call_function(torch.ops.aten.add.Tensor, (a, b))))
    with graph.inserting_before(other):
        graph.call_method("view", (b, -1, [2, total]), {})
    graph.get_attr("weight")
    graph.create_node("call_function", operator.add, name="named", args=(other, other), type_expr=int)
    graph.output((other, None, 3))
    for number, node in enumerate(graph.nodes):
        node.meta["number"] = number
    return graph


def seen(graph):
    nodes = [
        (n.op, n.name, n.target, str(n.args), str(n.kwargs), n.type, n.meta, list(map(str, n.users)), list(map(str, n.all_input_nodes)))
        for n in graph.nodes
    ]
    return nodes, [[n.name for n in graph.find_nodes(op=op)] for op in ("placeholder", "call_method", "output")], len(graph.nodes)


def copied(kind, graph):
    made, copies = kind(), {}
    for node in graph.nodes:
        copies[node] = made.node_copy(node, copies.__getitem__)
    return made


@pytest.mark.parametrize("change", [lambda graph: graph, lambda graph: copied(type(graph), graph)], ids=["made", "copied"])
def test_it_is_as_torch_makes_it(change):
    wanted, got = change(build(fx.Graph)), change(build(Graph))
    assert seen(got) == seen(wanted)
    got.lint()


def test_copies_know_things_of_their_own():
    graph = build(Graph)
    for node, copy in zip(graph.nodes, copied(Graph, graph).nodes, strict=True):
        copy.meta["more"] = 1
        assert "more" not in node.meta and copy.graph is not graph


def test_arguments_are_as_a_node_has_them():
    graph = build(Graph)
    node = graph.find_nodes(op="call_function", target=max)[0]
    assert [type(arg) for arg in node.args] == [type(arg) for arg in build(fx.Graph).find_nodes(op="call_function", target=max)[0].args]


NAMES = ["add", "add", "add_1", "add", "add_7", "add", "add_7", "sum", "sum", "sum_1", "class", "_", "_1", "_1", "a.b", "1", "", "x_", "x__2", "x__2", "é", "a_01", "a", "a_1", "a_1\n"]


def test_names_are_those_of_torch():
    is_old = torch.__version__.startswith("2.11.")  # looks for those with a number one by one, from the first on
    names = [name for name in NAMES if not (is_old and name[-1:].isdigit())]
    for start in range(len(names)):
        wanted, got = fx.Graph(), Graph()
        for name in names[start:] + names[:start]:
            assert got.create_node("placeholder", "x", name=name).name == wanted.create_node("placeholder", "x", name=name).name

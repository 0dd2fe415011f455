"""Graphs that call ATen's operations with nothing in between."""
import sys

import torch
from torch import fx

from codegen.direct import direct


def graph_of(*operations):
    """x -> the operations one after the other."""
    graph = fx.Graph()
    value = graph.placeholder("x")
    for operation in operations:
        value = graph.call_function(operation, (value,))
    graph.output((value,))
    return fx.GraphModule(torch.nn.Module(), graph)


def python_calls(function, *arguments):
    """The code of Python functions that run meanwhile."""
    seen = []
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, argument: event == "call" and seen.append(frame.f_code))
    try:
        function(*arguments)
    finally:
        sys.setprofile(before)
    return seen


def test_the_same_results_and_no_python_in_between():
    aten = torch.ops.aten
    graph = graph_of(aten.neg.default, aten.exp.default, aten.t.default)
    run, x = direct(graph), torch.arange(2.0)
    assert torch.equal(run(x)[0], graph(x)[0])
    assert [code.co_name for code in python_calls(run, x)] == ["forward"]


def test_the_code_is_known_as_that_of_graphs():
    """The frame hook leaves it alone, and tracebacks show its lines."""
    graph = graph_of(torch.ops.aten.t.default)
    run = direct(graph)
    assert run.__code__.co_filename.startswith("<eval_with_key>")
    try:
        run(torch.ones(1, 1, 1))
    except RuntimeError as error:
        assert error.__traceback__.tb_next.tb_frame.f_code is run.__code__


def test_constants_are_those_of_the_graph():
    graph = graph_of(torch.ops.aten.neg.default)
    graph.register_buffer("constant", torch.full((2,), 3.0))
    first = next(iter(graph.graph.nodes))
    with graph.graph.inserting_after(first):
        constant = graph.graph.get_attr("constant")
    next(node for node in graph.graph.nodes if node.op == "call_function").args = (constant,)
    assert torch.equal(direct(graph)(torch.ones(2))[0], torch.full((2,), -3.0))


def test_other_functions_stay_as_they_are():
    graph = graph_of(torch.sin, torch.ops.aten.neg, torch.ops.aten.abs.default)
    assert torch.equal(direct(graph)(torch.ones(2))[0], graph(torch.ones(2))[0])


def test_later_changes_of_the_graph_do_not_reach_it():
    graph = graph_of(torch.ops.aten.neg.default)
    run = direct(graph)
    next(node for node in graph.graph.nodes if node.op == "call_function").target = torch.ops.aten.abs.default
    graph.recompile()
    assert run(torch.ones(1))[0] == -1 and graph(torch.ones(1))[0] == 1

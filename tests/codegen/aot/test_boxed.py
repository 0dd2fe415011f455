"""Graphs that take a list of their arguments let go of each where it is read last."""

import weakref

import pytest
import torch
from torch import fx

from codegen.aot.boxed import boxed
from codegen.aot.function import Settings, compile_program


def graph_of(look):
    """(a, b, c) -> a.sin() * c, and what `look` says between the two; nobody reads b."""
    graph = fx.Graph()
    a, b, c = (graph.placeholder(name) for name in ("a", "b", "c"))
    middle = graph.call_function(torch.sin, (a,))
    said = graph.call_function(look)
    graph.output((graph.call_function(torch.mul, (middle, c)), said))
    return fx.GraphModule(torch.nn.Module(), graph)


def test_what_was_read_is_gone():
    given = [torch.full((3,), float(number)) for number in range(3)]
    alive = [weakref.ref(tensor) for tensor in given]
    run = boxed(graph_of(lambda: [ref() is not None for ref in alive]))
    result, between = run(given)
    assert between == [False, True, True] and given == []
    assert torch.equal(result, torch.zeros(3))
    assert not any(ref() is not None for ref in alive)


def test_the_graph_stays_a_function_of_its_arguments():
    graph = graph_of(lambda: None)
    code = graph.code
    boxed(graph)
    assert graph.code == code
    assert torch.equal(graph(*(torch.ones(1) for _ in range(3)))[0], torch.ones(1).sin())


def test_no_arguments():
    graph = fx.Graph()
    graph.output((graph.call_function(torch.ones, (2,)),))
    assert torch.equal(boxed(fx.GraphModule(torch.nn.Module(), graph))([])[0], torch.ones(2))


def test_errors_show_the_line_of_the_graph():
    def fails():
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine") as caught:
        boxed(graph_of(fails))([torch.ones(1)] * 3)
    assert "fails()" in str(caught.traceback[-2].statement)


@pytest.mark.parametrize("options, kept", [({}, False), ({"retain_graph": True}, True)])
def test_a_backward_lets_go_of_what_the_forward_saved(options, kept):
    """The hook below runs in the backward, when the second of two products was differentiated and the first was not."""
    seen = []

    def compiler(graph, example_inputs):
        run = boxed(graph)

        def spied(given):
            alive = [weakref.ref(tensor) for tensor in given]
            held.extend(alive)
            return run(given)

        return spied

    class Look(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(sum(ref() is not None for ref in held))
            return func(*args, **(kwargs or {}))

    def program(x):
        for _ in range(6):
            x = x.sin()
        return [x]

    held = []
    compiled = compile_program(program, (torch.ones(3, requires_grad=True),), Settings(backward=compiler))
    (y,) = compiled(torch.ones(3, requires_grad=True))
    with Look():
        y.backward(torch.ones(3), **options)
    assert (min(seen[-3:]) >= 6) == kept

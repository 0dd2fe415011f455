"""Graphs that are alike share kernels, others do not."""
import pytest
import torch

import jit
from codegen.kernels import compile as stage
from codegen.kernels.likeness import likeness


def graph_of(x, *args, op=torch.ops.aten.add.Tensor, constant=None, names=("x", "y")):
    root = torch.nn.Module()
    graph = torch.fx.Graph()
    given = graph.placeholder(names[0])
    given.meta["val"] = x
    if constant is not None:
        root.register_buffer(names[1], constant)
        args = (graph.get_attr(names[1]), *args)
    made = graph.call_function(op, (given, *args))
    made.meta["val"] = x
    graph.output((made,))
    return torch.fx.GraphModule(root, graph)


X = torch.ones(4, 6)
BASE = dict(args=(1.0,))
OTHERS = {
    "number": dict(args=(2.0,)),
    "sign of zero": dict(args=(-0.0,)),
    "zero": dict(args=(0.0,)),
    "kind of number": dict(args=(1,)),
    "bool": dict(args=(True,)),
    "operation": dict(args=(1.0,), op=torch.ops.aten.mul.Tensor),
    "dtype": dict(x=X.double(), args=(1.0,)),
    "sizes": dict(x=torch.ones(4, 5), args=(1.0,)),
    "strides": dict(x=torch.ones(6, 4).t(), args=(1.0,)),
    "offset": dict(x=torch.ones(5, 6)[1:], args=(1.0,)),
    "dims": dict(x=torch.ones(4, 6, 1), args=(1.0,)),
    "constant": dict(args=(), constant=torch.tensor([1.0])),
    "another constant": dict(args=(), constant=torch.tensor([-0.0])),
    "a third": dict(args=(), constant=torch.tensor([0.0])),
    "dtype of a constant": dict(args=(), constant=torch.tensor([0])),
    "large constant": dict(args=(), constant=torch.zeros(100, 100)),
    "another large one": dict(args=(), constant=torch.eye(100)),
    "very large constant": dict(args=(), constant=torch.zeros(2100, 2100)),
    "another very large one": dict(args=(), constant=torch.zeros(2100, 2100)),
}


def made(x=X, args=(), **more):
    return likeness(graph_of(x, *args, **more))


def test_all_differ():
    kept = [graph_of(**{"x": X, **{k: v for k, v in given.items() if k != "args"}}) for given in OTHERS.values()]
    assert len({made(**given) for given in (BASE, *OTHERS.values())}) == 1 + len(OTHERS)
    del kept


@pytest.mark.parametrize("given", [BASE, OTHERS["strides"], OTHERS["constant"], OTHERS["large constant"]])
def test_names_do_not_count(given):
    assert made(**given) == made(**given, names=("other", "names"))


@pytest.mark.parametrize("make", [lambda: torch.tensor([2.5]), lambda: torch.tensor([2.5j]).conj(), lambda: torch.eye(300)])
def test_values_of_constants_count_not_who_they_are(make):
    assert made(constant=make()) == made(constant=make())


def test_layers_with_gradients_of_their_own_are_compiled_once(monkeypatch):
    lowered = []
    monkeypatch.setattr(stage, "lower", lambda graph, lower=stage.lower: lowered.append(graph) or lower(graph))

    def layers(x, w):  # each result carries a gradient: a backward for each layer
        found = []
        for _ in range(6):
            x = torch.tanh(x * w).sin()
            found.append(x)
        return found

    x, w = torch.randn(4, 6), torch.randn(6, requires_grad=True)
    results = jit.compile(layers, backend="default")(x, w)
    gradient = torch.autograd.grad([r.sum() for r in results], w)
    expected = torch.autograd.grad([r.sum() for r in layers(x, w)], w)
    torch.testing.assert_close(gradient, expected)
    assert len(lowered) <= 4  # the forward, and backwards of the first, the last and the others

"""Compiled functions under somebody else's tracer or transform: their operations are traced, as if nothing were compiled."""

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import jit
from codegen.aot import aot_module_simplified, min_cut_partition
from codegen.kernels.compile import Kernels
from codegen.plan.build import build
from codegen.plan.steps import Plan
from jit import cache
from tests.codegen.plan.plans import ONE, T, vector
from tests.differential import tensors

X, = tensors(3, 4)
W, = tensors(4, 2)


def program(x, w):
    return (x @ w).sin().sum(1) * 2


@pytest.fixture(params=["aot_eager", "default"])
def compiled(request):
    f = jit.compile(program, backend=request.param)
    f(X, W)
    return f


def targets(graph):
    return [str(node.target) for node in graph.graph.nodes if node.op == "call_function"]


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_make_fx_sees_the_operations(compiled, mode):
    found, wanted = (make_fx(f, tracing_mode=mode)(X, W) for f in (compiled, program))
    assert targets(found) == targets(wanted) and torch.equal(found(X, W), program(X, W))


def test_make_fx_of_a_gradient(compiled):
    def gradient(f):
        return lambda x, w: torch.autograd.grad(f(x, w).sum(), w)[0]
    w = W.clone().requires_grad_()
    compiled(X, w)
    found, wanted = (make_fx(gradient(f))(X, w) for f in (compiled, program))
    assert targets(found) == targets(wanted)


def test_make_fx_of_the_backward_of_a_compiled_forward(compiled):
    """Only the backward is traced: it is the compiled one, and has its operations."""
    w = W.clone().requires_grad_()
    y, z = compiled(X, w), program(X, w)
    found = make_fx(lambda g: torch.autograd.grad(y, w, g, retain_graph=True)[0])(torch.ones(3))
    assert any("aten.mm" in target for target in targets(found))
    change = torch.arange(3.0)
    torch.testing.assert_close(found(change), torch.autograd.grad(z, w, change)[0])


@pytest.mark.parametrize("retain", [False, True])
def test_batched_gradients_of_a_compiled_forward(compiled, retain):
    w = W.clone().requires_grad_()
    found, wanted = (
        torch.autograd.grad(f(X, w), w, torch.eye(3), is_grads_batched=True, retain_graph=retain)[0]
        for f in (compiled, program)
    )
    torch.testing.assert_close(found, wanted)


def test_vmap_of_the_backward_of_a_compiled_forward(compiled):
    w = W.clone().requires_grad_()
    y, z = compiled(X, w), program(X, w)
    found, wanted = (
        torch.vmap(lambda g: torch.autograd.grad(r, w, g, retain_graph=True)[0])(torch.eye(3)) for r in (y, z)
    )
    torch.testing.assert_close(found, wanted)


def test_functionalize_and_vmap(compiled):
    torch.testing.assert_close(torch.func.functionalize(compiled)(X, W), program(X, W))
    rows = torch.stack([X, X + 1])
    torch.testing.assert_close(
        torch.vmap(compiled, in_dims=(0, None))(rows, W), torch.vmap(program, in_dims=(0, None))(rows, W)
    )


class Net(torch.nn.Module):
    def __init__(self, backend):
        super().__init__()
        self.layer = jit.compile(torch.nn.Linear(4, 2), backend=backend)
        self.compiled = jit.compile(program, backend=backend)

    def forward(self, x):
        return self.compiled(x, self.layer.weight.t()) + self.layer(x).sum(1)


@pytest.mark.parametrize("backend", ["aot_eager", "default"])
def test_torch_export(backend):
    net = Net(backend)
    wanted = net(X)
    exported = torch.export.export(net, (X,), strict=False)
    text = exported.graph_module.code
    assert "aten.sin" in text and "aten.linear" in text and "aten.matmul" in text
    torch.testing.assert_close(exported.module()(X), wanted)


def test_torch_jit_trace(compiled):
    traced = torch.jit.trace(compiled, (X, W))
    assert "aten::sin" in str(traced.graph)
    assert torch.equal(traced(X + 1, W), program(X + 1, W))


def test_graphs_compiled_for_other_front_ends():
    """These check nothing: the plan itself has to see that it is followed."""
    compiler = Kernels(cache.store())
    net = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.ReLU(), torch.nn.Linear(5, 2)).requires_grad_(False)
    run = aot_module_simplified(net, (X,), compiler, partition_fn=min_cut_partition)
    graph = make_fx(lambda x: run(x))(X)
    assert "aten.relu.default" in targets(graph)
    torch.testing.assert_close(graph(X + 1), net(X + 1))
    torch.testing.assert_close(torch.vmap(lambda x: run(x))(torch.stack([X, X + 1])), net(torch.stack([X, X + 1])))


def test_a_plan_itself():
    built = build(Plan("one", (T(0),), tuple(ONE), (T(1),)), lambda x: (torch.ops.aten.add.Tensor(x, 1),))
    for mode in ("real", "fake", "symbolic"):
        graph = make_fx(lambda x: built(x)[0], tracing_mode=mode)(vector())
        assert targets(graph) == ["aten.add.Tensor"] and torch.equal(graph(vector()), vector() + 1)

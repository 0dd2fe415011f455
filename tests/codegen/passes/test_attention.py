"""Attention written by hand: which spellings are found, which must not be, and that nobody can tell but by rounding."""
import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

import jit
from codegen.aot.backend import ATEN, compile_graph
from codegen.passes import attention, table
from tests.codegen.passes.checking import Checked

INF = math.inf
ALONE = Checked(frozenset(each.name for each in table() if each.optional and each.name not in ("attention", "copies")))


@pytest.fixture(autouse=True)
def every_length(monkeypatch):
    monkeypatch.setattr(attention, "SHORTEST", 1)


def split(x, heads=2):
    """(batch, length, 3 * heads * width) -> query, key, value as models make them, no leaves."""
    return [t.unflatten(-1, (heads, -1)).transpose(1, 2) for t in (x * 1.5).chunk(3, -1)]


def causal(q, k):
    return torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).triu(1)


def bias(q, k):
    return torch.zeros(q.shape[-2], k.shape[-2], dtype=q.dtype).masked_fill(causal(q, k), -INF)


def probabilities(q, k):
    return F.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]), dim=-1)


def in_place(q, k, v):
    scores = torch.matmul(q, k.transpose(2, 3))
    scores /= 8
    scores += bias(q, k)
    return torch.matmul(scores.softmax(-1), v)


def huggingface(q, k, v):
    weights = torch.matmul(q, k.transpose(2, 3)) * 0.25
    weights = weights + bias(q, k)[None, None]
    weights = F.softmax(weights, dim=-1, dtype=torch.float32).to(q.dtype)
    weights = F.dropout(weights, p=0.1, training=False)
    return torch.matmul(weights, v).transpose(1, 2).contiguous()


SPELLINGS = {
    "operators": lambda q, k, v: F.softmax(q @ k.transpose(-2, -1) * 0.3, dim=-1) @ v,
    "no scale": lambda q, k, v: (q @ k.transpose(3, 2)).softmax(dim=-1) @ v,
    "divided": lambda q, k, v: probabilities(q, k) @ v,
    "functions": lambda q, k, v: torch.matmul(torch.softmax(torch.div(torch.matmul(q, k.mT), 3.0), -1), v),
    "methods": lambda q, k, v: q.matmul(k.transpose(-1, -2)).mul(0.5).softmax(3).matmul(v),
    "permuted": lambda q, k, v: (q @ k.permute(0, 1, 3, 2)).softmax(-1) @ v,
    "query scaled": lambda q, k, v: ((q * 0.3) @ k.transpose(-2, -1)).softmax(-1) @ v,
    "dropout of nothing": lambda q, k, v: F.dropout(probabilities(q, k), 0.0) @ v,
    "dropout off": lambda q, k, v: F.dropout(probabilities(q, k), 0.3, training=False) @ v,
    "added mask": lambda q, k, v: (q @ k.transpose(-2, -1) * 0.3 + bias(q, k)).softmax(-1) @ v,
    "filled mask": lambda q, k, v: (q @ k.transpose(-2, -1) * 0.3).masked_fill(causal(q, k), -INF).softmax(-1) @ v,
    "one mask for each": lambda q, k, v: (q @ k.transpose(-2, -1) + bias(q, k).expand(2, 1, -1, -1)).softmax(-1) @ v,
    "keys hidden": lambda q, k, v: (q @ k.transpose(-2, -1)).masked_fill(causal(q, k)[:1], -INF).softmax(-1) @ v,
    "huggingface": huggingface,
}


def compiled_with(program, passes=ALONE):
    """The compiled program, and whether it has torch's attention."""
    found = []

    def backend(graph, example_inputs):
        made = compile_graph(graph, example_inputs, replace(ATEN, passes=passes))
        joint = made.stages.traced.joint
        found.append(any("attention" in str(node.target) for node in joint.graph.nodes))
        return made

    return jit.compile(program, backend=backend), found


def runs(program, x, inference=False):
    """Results and gradients."""
    x = x.clone().requires_grad_(not inference)
    result = program(x)
    return [result] if inference else [result, *torch.autograd.grad(result.square().nan_to_num(0).sum(), x)]


def same(found, expected):
    for one, other in zip(found, expected, strict=True):
        assert (one.dtype, one.shape, one.stride()) == (other.dtype, other.shape, other.stride())
        largest = other.detach().abs().max().item()
        torch.testing.assert_close(one, other, equal_nan=True, rtol=1e-5, atol=1e-5 * max(1, largest))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize("name", SPELLINGS)
def test_found(name, inference, dtype):
    if name == "huggingface" and dtype is torch.float64:
        pytest.skip("its softmax is another one")
    program = lambda x: SPELLINGS[name](*split(x))
    x = torch.randn(2, 5, 24, dtype=dtype)
    compiled, found = compiled_with(program)
    same(runs(compiled, x, inference), runs(program, x, inference))
    assert found == [True]


def kept(q, k, v):
    weights = probabilities(q, k)
    return weights @ v + weights.sum()


def scores_kept(q, k, v):
    scores = q @ k.transpose(-2, -1)
    return scores.softmax(-1) @ v + scores.sum()


def written_between(q, k, v):
    v = v.clone()
    weights = probabilities(q, k)
    v.mul_(2)
    return weights @ v


def state_between(q, k, v):
    with torch.no_grad():
        weights = probabilities(q, k)
    return weights @ v


def learnt(q, k, v):
    return (q @ k.transpose(-2, -1) + q.sum((1, 3))[:, None, None]).softmax(-1) @ v


OTHERS = {
    "in place": in_place,
    "weights are read again": kept,
    "scores are read again": scores_kept,
    "something is written": written_between,
    "gradients stop": state_between,
    "the mask is learnt": learnt,
    "along the other dimension": lambda q, k, v: (q @ k.transpose(-2, -1)).softmax(-2) @ v,
    "filled with a number": lambda q, k, v: (q @ k.transpose(-2, -1)).masked_fill(causal(q, k), -1e9).softmax(-1) @ v,
    "masked before it is scaled": lambda q, k, v: ((q @ k.transpose(-2, -1) + bias(q, k)) * 0.3).softmax(-1) @ v,
    "two masks": lambda q, k, v: (q @ k.transpose(-2, -1) + bias(q, k) + bias(q, k)).softmax(-1) @ v,
    "a mask as large as the scores": lambda q, k, v: (q @ k.transpose(-2, -1) + bias(q, k).expand(2, 2, -1, -1)).softmax(-1) @ v,
    "log": lambda q, k, v: (q @ k.transpose(-2, -1)).log_softmax(-1) @ v,
    "not turned": lambda q, k, v: (q @ k.transpose(-2, -1).contiguous()).softmax(-1) @ v,
    "values of another width": lambda q, k, v: (q @ k.transpose(-2, -1)).softmax(-1) @ v[..., :2],
    "no batch": lambda q, k, v: (q[0] @ k[0].transpose(-2, -1)).softmax(-1) @ v[0],
    "one key for all heads": lambda q, k, v: (q @ k[:, :1].transpose(-2, -1)).softmax(-1) @ v,
    "a scale that varies": lambda q, k, v: (q @ k.transpose(-2, -1) * q.sum()).softmax(-1) @ v,
    "scaled by nothing": lambda q, k, v: (q @ k.transpose(-2, -1) * 0).softmax(-1) @ v,
    "in another dtype": lambda q, k, v: (q @ k.transpose(-2, -1)).softmax(-1, dtype=torch.float64).to(q.dtype) @ v,
}


@pytest.mark.parametrize("name", OTHERS)
def test_left_alone(name):
    program = lambda x: OTHERS[name](*split(x))
    x = torch.randn(2, 5, 24)
    compiled, found = compiled_with(program)
    expected, seen = runs(program, x), runs(compiled, x)
    assert all(torch.equal(one, other) for one, other in zip(seen, expected, strict=True))
    assert found == [False]


def test_dropout_draws():
    program = lambda x: (lambda q, k, v: F.dropout(probabilities(q, k), 0.5) @ v)(*split(x))
    compiled, found = compiled_with(program)
    x = torch.randn(2, 5, 24)
    torch.manual_seed(0)
    expected = program(x)
    torch.manual_seed(0)
    assert torch.equal(compiled(x), expected) and found == [False]


def test_halves_are_rounded_as_eager_rounds_them():
    program = lambda x: (lambda q, k, v: probabilities(q, k) @ v)(*split(x))
    compiled, found = compiled_with(program)
    x = torch.randn(2, 5, 24, dtype=torch.bfloat16)
    assert torch.equal(compiled(x), program(x)) and found == [False]


def test_short_ones_stay(monkeypatch):
    monkeypatch.setattr(attention, "SHORTEST", 6)
    program = lambda x: (lambda q, k, v: probabilities(q, k) @ v)(*split(x))
    for length, is_found in ((5, False), (6, True)):
        compiled, found = compiled_with(program)
        compiled(torch.randn(2, length, 24))
        assert found == [is_found]


def test_gradients_of_inputs_have_the_strides_of_eager_code():
    program = lambda q, k, v: probabilities(q, k) @ v
    compiled, found = compiled_with(program)
    q, k, v = (torch.randn(2, 2, 5, 4, requires_grad=True) for _ in range(3))
    gradients = [torch.autograd.grad(each(q, k, v).sum(), (q, k, v)) for each in (compiled, program)]
    assert [g.stride() for g in gradients[0]] == [g.stride() for g in gradients[1]] and found == [False]


@pytest.mark.parametrize("fill", ["added", "filled"])
def test_a_query_that_may_look_nowhere(fill):
    """Eager code finds what is no number, and so do its gradients."""
    hidden = torch.zeros(5, 5, dtype=torch.bool)
    hidden[3] = True

    def program(x, hidden):
        q, k, v = split(x)
        scores = q @ k.transpose(-2, -1)
        if fill == "filled":
            return scores.masked_fill(hidden, -INF).softmax(-1) @ v
        return (scores + torch.zeros(5, 5).masked_fill(hidden, -INF)).softmax(-1) @ v

    compiled, found = compiled_with(program)
    gradients = []
    for call in (compiled, program):
        x = torch.ones(2, 5, 24, requires_grad=True)
        result = call(x, hidden)
        gradients.append((result.isnan(), torch.autograd.grad(result.sum(), x)[0].isnan()))
    assert gradients[1][0].any() and not gradients[1][0].all()
    assert all(map(torch.equal, *gradients)) and found == [True]


def test_gradients_of_gradients():
    program = lambda x: (lambda q, k, v: probabilities(q, k) @ v)(*split(x))
    compiled, found = compiled_with(program)
    x = torch.randn(2, 5, 24, dtype=torch.float64)
    seconds = []
    for call in (compiled, program):
        leaf = x.clone().requires_grad_()
        (first,) = torch.autograd.grad(call(leaf).square().sum(), leaf, create_graph=True)
        seconds.append(torch.autograd.grad(first.square().sum(), leaf)[0])
    assert found[0]
    torch.testing.assert_close(*seconds)


def test_gradients_inside():
    """Where a gradient of a gradient is part of the program, torch has none: it is compiled as it was written."""

    def program(x):
        def loss(x):
            q, k, v = split(x)
            return (probabilities(q, k) @ v).square().sum()

        return torch.func.grad(lambda x: torch.func.grad(loss)(x).square().sum())(x)

    compiled, found = compiled_with(program)
    x = torch.randn(2, 5, 24, dtype=torch.float64)
    torch.testing.assert_close(compiled(x), program(x))
    assert found == [False]


@pytest.mark.parametrize("shape", [(1, 1, 24), (2, 1, 24), (1, 300, 24), (3, 70, 48)])
def test_shapes(shape):
    program = lambda x: (lambda q, k, v: probabilities(q, k) @ v)(*split(x))
    compiled, found = compiled_with(program, Checked())
    x = torch.randn(shape)
    same(runs(compiled, x), runs(program, x))
    assert found == [True]


def test_as_accurate_as_eager():
    """Each within a few roundings of the same in higher precision."""
    program = lambda x: (lambda q, k, v: probabilities(q, k) @ v)(*split(x, 4))
    compiled, _ = compiled_with(program)
    x = torch.randn(2, 300, 96)
    exact = program(x.double())
    ours, theirs = ((call(x) - exact).abs().max().item() for call in (compiled, program))
    assert ours < max(2 * theirs, 1e-6)

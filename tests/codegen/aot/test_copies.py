"""A graph of equal layers, whose trace is copied from a few of them, is that of one that was traced whole."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import jit
from codegen.aot import backend, copies
from codegen.aot.trace import trace
from codegen.direct import as_captured
from tests.differential import COUNTING

LAYERS = 18
pytestmark = pytest.mark.skipif(not COUNTING, reason="where breaks are forced no graph has more than one layer")


class Judge:
    """A backend that traces what it is given with copies and without, and runs it as it was captured."""

    def __init__(self):
        self.copied = 0

    def __call__(self, graph, inputs):
        program = backend._program(graph)
        whole, found = backend.copies_of, copies._Copied.copy

        def counted(copied, repeat, at):
            self.copied += at == 0
            return found(copied, repeat, at)

        def traced(of):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(backend, "copies_of", of)
                patch.setattr(copies._Copied, "copy", counted)
                return described(trace(program, inputs, {}, True)[1])

        traced(lambda *_: None)  # what operations give is looked up the second time
        assert traced(whole) == traced(lambda *_: None)
        return as_captured(graph)


def described(traced):
    """All of a trace: the nodes with who shares memory with whom, and the facts."""
    memory = {}

    def value(given):
        if not isinstance(given, torch.Tensor):
            return [value(each) for each in given] if isinstance(given, (tuple, list)) else given
        place = memory.setdefault(given.untyped_storage()._cdata, len(memory))
        return given.dtype, tuple(given.shape), given.stride(), given.storage_offset(), given.requires_grad, place

    lines = [
        (node.name, node.op, node.target, str(node.args), str(node.kwargs),
         value(node.meta.get("val")), node.meta.get("stack_trace"), node.meta.get("phase"), str(node.meta.get("written")))
        for node in traced.joint.graph.nodes
    ]  # fmt: skip
    return lines, traced.num_forward, traced.num_randoms, traced.outputs, traced.updates, traced.bumps, traced.asked


def layer(x, w, bias):
    return x + F.gelu(F.layer_norm(x, (6,), bias, bias) @ w) * 0.5


def loop(body, results=lambda x, seen: x):
    """x = body(x, weight, bias, number, all weights), layer after layer."""

    def function(x, *given):
        weights, biases, seen = given[:LAYERS], given[LAYERS : 2 * LAYERS], []
        for number in range(LAYERS):
            x = body(x, weights[number], biases[number], number, weights)
            seen.append(x)
        return results(x, seen)

    return function


def attended(x, w, b, number, weights):
    q, k = (x @ w).view(1, 6, 2, 3).transpose(1, 2), torch.cat([torch.tensor([]), x.view(1, 6, 2, 3)], 1).transpose(1, 2)
    return x + F.scaled_dot_product_attention(q, k, k).transpose(1, 2).reshape(6, 6) + b


def written(x, w, b, number, weights):
    x = layer(x, w, b)
    x[0] = 1.0
    return x


def routed(x, w, b, number, weights):
    """As experts are chosen: what was made is written, and viewed afterwards."""
    shares, chosen = torch.softmax(x @ w, -1).topk(2)
    shares /= shares.sum(-1, keepdim=True)
    order = chosen.reshape(-1).argsort()
    back = torch.empty_like(order)
    back[order] = torch.arange(12)
    return x + (x[order // 2] * shares.reshape(-1)[order][:, None])[back].view(6, 2, 6).sum(1) + b


def handed_on(x, w, b, number, weights):
    y = layer(x, w, b)
    x.mul_(0.5)
    return y


def viewed_before(x, w, b, number, weights):
    y = x @ w
    rows = y[1:3]
    y += b
    rows.mul_(2.0)
    y.t_()
    return x + y * rows.sum()


def summed(x, w, b, number, weights):
    weights[0].add_(x)
    return layer(x, w, b)


def counted(x, w, b, number, weights):
    b.add_(1.0)
    return layer(x, w, b)


def switched(x, w, b, number, weights):
    with torch.enable_grad():
        return layer(x, w, b)


def cast(x, w, b, number, weights):
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=number != 16):
        return (x @ w).float() + b


def plain(x, w, b, number, weights):
    return layer(x, w, b)


#: Of each, whether layers are copied.
PROGRAMS = {
    "equal": (loop(plain), True),
    "all returned": (loop(plain, lambda x, seen: tuple(seen)), True),
    "attention, to keys behind a literal": (loop(attended), True),
    "views between": (loop(lambda x, w, b, n, all: layer(x.t().reshape(6, 6), w, b)), None),
    "parts": (loop(lambda x, w, b, n, all: torch.cat([each @ w[:2, :2] for each in x.split(2, 1)], 1) + b), True),
    "several results": (loop(lambda x, w, b, n, all: x.sort().values @ w + x.topk(6)[0]), True),
    "views given on": (loop(lambda x, w, b, n, all: layer(x, w, b).t()), False),
    "views returned": (loop(lambda x, w, b, n, all: layer(x, w, b), lambda x, seen: [each.t() for each in seen]), False),
    "an odd constant": (loop(lambda x, w, b, n, all: layer(x, w, b) * (2.0 if n == 16 else 3.0)), True),
    "a sign of zero": (loop(lambda x, w, b, n, all: layer(x, w, b) + (-0.0 if n == 16 else 0.0)), True),
    "one and true": (loop(lambda x, w, b, n, all: layer(x, w, b) * (True if n == 16 else 1)), True),
    "an odd literal": (loop(lambda x, w, b, n, all: layer(x, w, b) + torch.tensor(2.0 if n == 16 else 3.0)), True),
    "other literals": (loop(lambda x, w, b, n, all: layer(x, w, b) + torch.tensor([float(n)])), False),
    "an odd operation": (loop(lambda x, w, b, n, all: layer(x, w, b).relu() if n == 16 else layer(x, w, b).tanh()), True),
    "an odd weight": (loop(lambda x, w, b, n, all: layer(x, all[2] if n == 16 else w, b)), None),
    "the neighbour's": (loop(lambda x, w, b, n, all: layer(x, w, b) @ all[n - 1]), None),
    "the layer before the last": (
        lambda x, *given: loop(lambda x, w, b, n, all: (layer(x[0], w, b) + x[1], x[0]), lambda x, seen: x[0])((x, x), *given), None
    ),
    "written inside": (loop(written), False),
    "own values that are written": (loop(routed), True),
    "and viewed before": (loop(viewed_before), None),
    "the last layer's values that are written": (loop(handed_on), False),
    "one input that all write": (loop(summed), False),
    "written values that others read": (loop(routed, lambda x, seen: [each.t() for each in seen]), False),
    "inputs that are written": (loop(counted), False),
    "random numbers": (loop(lambda x, w, b, n, all: F.dropout(layer(x, w, b), 0.5)), False),
    "gradients switched on": (loop(switched), None),
    "autocast": (loop(cast), None),
    "places in memory": (loop(lambda x, w, b, n, all: layer(x.as_strided((6, 6), (6, 1)), w, b)), False),
}  # fmt: skip


def inputs():
    torch.manual_seed(0)
    return [torch.randn(6, 6), *(torch.randn(6, 6) for _ in range(LAYERS)), *(torch.randn(6) for _ in range(LAYERS))]


def check(program, given, copied):
    judge = Judge()
    jit.compile(program, backend=judge)(*given)
    if copied is not None:
        assert (judge.copied > 0) is copied


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_trace_is_that_of_the_whole_graph(name):
    program, copied = PROGRAMS[name]
    with torch.no_grad():
        check(program, inputs(), copied)


def test_without_gradients_nothing_need_be_switched_off():
    check(loop(plain), inputs(), True)


def test_with_gradients_all_layers_are_traced():
    check(loop(plain), [each.requires_grad_() for each in inputs()], False)


def other(change):
    """The inputs, one of a late layer's changed."""
    given = inputs()
    given[17] = change(given)
    return given


@pytest.mark.parametrize(
    "change",
    [
        lambda given: given[17].double().float().t(),
        lambda given: given[17].t().contiguous().t(),
        lambda given: torch.randn(12, 6)[::2],
        lambda given: torch.randn(7, 6)[1:],
        lambda given: given[16],
        lambda given: given[16][:],
        lambda given: given[17].requires_grad_(),
    ],
    ids=["a view", "turned", "gaps", "a later place", "another's", "a view of another's", "with a gradient"],
)
def test_an_input_that_looks_otherwise_is_seen(change):
    with torch.no_grad():
        check(loop(plain), other(change), None)


def test_nothing_is_kept_for_a_backward_that_never_comes():
    def program(x):
        return [F.dropout(F.scaled_dot_product_attention(x, x, x), 0.5)]

    def kept(x):
        found = trace(program, [x], {})[1]
        return found.num_randoms, found.num_forward

    x = torch.randn(1, 2, 4, 8, requires_grad=True)
    assert kept(x) == (2 + 1, 1 + 2 + 1)
    with torch.no_grad():
        assert kept(x) == (0, 1)

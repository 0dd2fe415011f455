"""What is left out of a graph that repeats itself is in its schedule as if it had not been."""

from __future__ import annotations

from unittest.mock import patch

import pytest
import torch
import torch.nn.functional as F
from torch.fx.experimental.proxy_tensor import make_fx

import jit
from codegen.kernels import compile, unrolled
from codegen.kernels.likeness import likeness
from codegen.kernels.lowering.lower import lower
from codegen.kernels.planning import plan
from codegen.kernels.schedule import schedule
from codegen.plan.steps import Function
from tests.codegen.kernels.schedules import evaluated
from tests.models.zoo import MODELS

LAYERS = 12


def planned(found, graph):
    functions = {kernel.name: Function(kernel.name, 0, None) for kernel in found.kernels}
    parameters = [node.name for node in graph.graph.find_nodes(op="placeholder")]
    return str(plan(found, parameters, functions, "graph"))


def check(graph):
    """That the two schedules are the same to the letter; answers how many nodes were not scheduled."""
    like = likeness(graph)
    with patch.object(unrolled, "lower", wraps=lower) as lowered:
        found, whole = unrolled.scheduled(graph, like, True), schedule(lower(graph), True)
    count = len(found.steps)
    assert str(found).splitlines()[-count:] == str(whole).splitlines()[-count:] and count == len(whole.steps)
    assert (found.kernels, found.written, found.views) == (whole.kernels, whole.written, whole.views)
    assert found.stored == whole.stored
    assert found.aliases == {name: whole.aliases[name] for name in found.aliases} and not whole.aliases.keys() - found.aliases
    assert found.program.results == whole.program.results
    for step, other in zip(found.steps, whole.steps, strict=True):
        assert [made.node for made in getattr(step, "made", ())] == [made.node for made in getattr(other, "made", ())]
    assert planned(found, graph) == planned(whole, graph)
    return len(graph.graph.nodes) - max(len(call.args[0].graph.nodes) for call in lowered.call_args_list)


# --- programs whose layers are equal, or differ in one thing ----------------------------------------------------------
def layer(x, w, bias, number=0):
    return x + F.gelu(F.layer_norm(x, (6,), bias, bias) @ w) * 0.5


def other_constant(x, w, bias, number):
    return layer(x, w, bias) if number != 6 else x + F.gelu(F.layer_norm(x, (6,), bias, bias) @ w) * 0.25


def other_operation(x, w, bias, number):
    return layer(x, w, bias) if number != 6 else x + F.relu(F.layer_norm(x, (6,), bias, bias) @ w) * 0.5


def turned(x, w, bias, number):
    return layer(x, w if number != 6 else w.t(), bias)


def in_turn(x, w, bias, number):
    return layer(x, w, bias).tanh() if number % 2 else layer(x, w, bias)


def loop(body=layer, results=lambda x, seen: x, weight=lambda weights, number: weights[number], count=None):
    """x = body(x, weight, bias, number), for `count` layers or as many as there are weights."""

    def function(x, *weights):
        seen, given = [], x
        half = len(weights) // 2
        for number in range(count or half):
            x = body(x, weight(weights[:half], number), weights[half + number], number)
            seen.append(x)
        return results(x, [given, *seen])

    return function


def growing(x, *weights):
    """A sum of what all layers give, of which each takes long."""
    total = torch.zeros(6)
    for w, bias in zip(weights[:24], weights[24:], strict=True):
        for _ in range(10):
            x = x @ w
        total = total + (x * bias).sum(0)
    return x, total


def beside(step):
    """Layers, and a value that goes through all of them and is read in the end."""

    def function(x, *weights):
        y = x * 0.5
        for w, bias in zip(weights[:24], weights[24:], strict=True):
            x, y = layer(x, w, bias), step(y)
        return x, y

    return function


#: Whether something is left out.
PROGRAMS = {
    "equal": (loop(), True),
    "equal, all returned": (loop(results=lambda x, seen: tuple(seen[1:])), True),
    "equal, in another order": (loop(results=lambda x, seen: tuple(reversed(seen[1:]))), True),
    "equal, returned with constants": (loop(results=lambda x, seen: (x, *seen[1:], x.sum())), True),
    "in turn": (loop(in_turn), True),
    "two kinds, one after the other": (
        loop(lambda x, w, b, n: layer(x, w, b) if n < 24 else torch.sigmoid(layer(x, w, b)).cumsum(0)), True
    ),
    "an odd constant": (loop(other_constant), True),
    "an odd operation": (loop(other_operation), True),
    "an odd weight": (loop(turned), True),
    "a weight that comes twice": (loop(weight=lambda w, n: w[n if n != 7 else 4]), False),
    "one weight for all": (loop(weight=lambda w, n: w[0]), True),
    "one of two weights": (loop(weight=lambda w, n: w[n % 2]), False),
    "weights of the neighbour": (loop(lambda x, w, b, n: layer(x, w[0], b) @ w[1], weight=lambda w, n: (w[n], w[n - 1])), False),
    "one weight for two": (
        loop(lambda x, w, b, n: layer(x, w[0], b) @ w[1], weight=lambda w, n: (w[n], w[n + 24 * (n != 12)]), count=24), False
    ),
    "one returned": (loop(results=lambda x, seen: (x, seen[6])), False),
    "every second returned": (loop(results=lambda x, seen: tuple(seen[1::2])), False),
    "one read in the end": (loop(results=lambda x, seen: x * seen[6]), False),
    "the first read in the end": (loop(results=lambda x, seen: x * seen[0]), True),
    "the last two read in the end": (loop(results=lambda x, seen: x * seen[-2]), True),
    "all joined": (loop(results=lambda x, seen: torch.cat(seen)), False),
    "a sum over all": (loop(results=lambda x, seen: sum(seen)), False),
    "a sum that grows": (growing, True),
    "a value beside the layers": (beside(lambda y: (y + 1).abs() * 1.01), False),
    "elements moved beside the layers": (beside(lambda y: y.roll(1, 0)), False),
    "a view beside the layers": (beside(lambda y: y.t()), True),
    "views": (loop(lambda x, w, b, n: layer(x.t().reshape(6, 6), w, b).t()), True),
    "views returned": (loop(lambda x, w, b, n: layer(x, w, b).t(), lambda x, seen: tuple(seen[1:])), True),
    "long sums": (loop(lambda x, w, b, n: layer(x, w, b) * x.expand(2000, 6, 6).sum()), True),
    "elements put into what is read": (loop(lambda x, w, b, n: x.index_add(0, b.argsort(), x @ w) + x), True),
    "elements put into zeros": (
        loop(lambda x, w, b, n: torch.zeros_like(x).scatter_add(0, (x > 0).long(), x @ w), lambda x, seen: tuple(seen[1:])), True
    ),
    "a mask that all read": (loop(lambda x, w, b, n: x.masked_fill(x > 3, 0) @ w + b), True),
}  # fmt: skip


def weights(count, width=6):
    torch.manual_seed(0)
    return [*(torch.randn(width, width) for _ in range(count)), *(torch.randn(width) for _ in range(count))]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program(name):
    function, is_short = PROGRAMS[name]

    def flat(*args):
        found = function(*args)
        return found if isinstance(found, tuple) else (found,)

    args = [torch.randn(6, 6), *weights(48)] if "two" in name else [torch.randn(6, 6), *weights(24)]
    graph = make_fx(flat, tracing_mode="fake")(*args)
    assert (check(graph) > 0) == is_short


def test_sums_that_the_next_layer_takes_over():
    """A layer's last kernel adds up what the next one asks for, too, and so counts as that one's: what adds up the
    stretches of its own sum comes after the first step of the next layer."""
    seen = []

    def body(x, w, b, n):
        y = (x @ w) @ w
        seen.append(x.view(16, 128, 64).sum((0, 1)))
        y = torch.softmax(y, 1)
        seen.append((y * y).sum(0))
        return y

    function = lambda *args: (loop(body)(*args), *seen)  # noqa: E731
    graph = make_fx(function, tracing_mode="fake")(torch.randn(2048, 64), *weights(12, 64))
    assert check(graph) > 0


def test_numbers_of_steps_and_layers_differ():
    """Of many layers as many steps as of few are scheduled."""
    seen = []
    for count in (16, 64):
        graph = make_fx(lambda *args: (loop()(*args),), tracing_mode="fake")(torch.randn(6, 6), *weights(count))
        seen.append(len(graph.graph.nodes) - check(graph) - 2 * count)
    assert seen[0] == seen[1]


def test_what_it_gives():
    args = [torch.randn(6, 6), *weights(24)]
    function = loop(results=lambda x, seen: tuple(seen[1:]))
    graph = make_fx(function, tracing_mode="fake")(*args)
    got = evaluated(unrolled.scheduled(graph, likeness(graph)), args)
    for one, other in zip(function(*args), got, strict=False):
        torch.testing.assert_close(one, other)


# --- models -----------------------------------------------------------------------------------------------------------
QUICK = ("gpt2", "bert")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in QUICK else [pytest.mark.long]) for n in MODELS])
def test_a_model(name, train, monkeypatch):
    seen = []

    def scheduled(graph, like, in_stretches):
        seen.append(check(graph))
        return unrolled.scheduled(graph, like, in_stretches)

    monkeypatch.setattr(compile, "unrolled", type("Checked", (), {"scheduled": staticmethod(scheduled)}))
    model = MODELS[name].make_model(LAYERS, 16, train=train)
    inputs = MODELS[name].make_inputs(model)
    with torch.set_grad_enabled(train):
        loss = jit.compile(model, backend="default", options={"break_everywhere": False})(**inputs).loss
        if train:
            loss.backward()
    assert max(seen) > 0

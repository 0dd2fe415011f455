"""Loops that add too much to the graph stay Python's, and their bodies are compiled once."""
import textwrap

import pytest
import torch
from torch import nn

import jit
from tests.differential import check, tensors

X = tensors(3, 4)[0]
LIMIT = {"loop_limit": 6}

PROGRAMS = {
    "over a range": "for i in range(9):\n    x = x * 0.5 + i\nreturn x, i",
    "over a list": "seen = []\nfor y in [x] * 9:\n    x = x + y\n    seen.append(x)\nreturn seen",
    "over a list that grows": "ys = [x]\nfor y in ys:\n    if len(ys) < 9:\n        ys.append(y * 0.5 + 1)\nreturn ys",
    "over a dict": "d = {str(i): x * i for i in range(4)}\nfor k, v in d.items():\n    x = x + v * 2 + len(k) + 1\nreturn x",
    "over enumerate and zip": "for i, (a, b) in enumerate(zip([x] * 9, range(9))):\n    x = x + a * b\nreturn x, i",
    "over a generator": "def g(t):\n    for i in range(9):\n        yield t + i\nfor y in g(x):\n    x = x + y\nreturn x",
    "over a generator that waits": "def g():\n    try:\n        for i in range(9):\n            yield i\n    finally:\n        log.append('end')\nlog = []\nfor y in g():\n    x = x + y\n    if y == 7:\n        break\nreturn x, log",
    "while": "i = 0\nwhile i < 9:\n    x = x + i\n    i += 1\nreturn x, i",
    "while true": "i = 0\nwhile True:\n    i += 1\n    if i == 3:\n        continue\n    if i == 9:\n        break\n    x = x + i\nelse:\n    x = x - 1\nreturn x, i",
    "while a value": "while x.sum() < 100:\n    x = x * 2 + 1\nreturn x",
    "with else": "for i in range(9):\n    x = x + i\nelse:\n    x = x * 2\nreturn x",
    "nested": "for i in range(5):\n    for j in range(2):\n        x = x + i * j\n    x = x * 2\nreturn x",
    "in a nested one": "for i in range(2):\n    for j in range(9):\n        x = x + i * j\n    x = x * 0.5\nreturn x",
    "one after another": "for i in range(9):\n    x = x + i\nfor i in range(9):\n    x = x * 0.5\nreturn x",
    "in a callee": "def f(t):\n    for i in range(9):\n        t = t + i\n    return t\nreturn f(x) + f(x * 2)",
    "in a comprehension": "return [x + i for i in range(9)]",
    "in a sum": "return sum(x + i for i in range(9))",
    "in a with": "with torch.no_grad():\n    for i in range(9):\n        x = x + i\nreturn x, torch.is_grad_enabled()",
    "in a try": "try:\n    for i in range(9):\n        x = x + i\n        if i == 8:\n            raise KeyError(i)\nexcept KeyError as e:\n    return x, e.args\nfinally:\n    x = x + 1",
    "with an error": "for i in range(9):\n    x = x + i\n    if i == 7:\n        x @ torch.ones(9)\nreturn x",
    "that writes": "for i in range(9):\n    x.add_(1)\n    written.append(i)\nreturn x",
    "that draws": "for i in range(9):\n    x = x + torch.rand(4)\nreturn x",
    "in a function transform": "def f(t):\n    for i in range(9):\n        t = t * 0.5\n    return t.sum()\nreturn torch.func.grad(f)(x)",
}


def _program(body):
    scope = {"torch": torch, "written": [], "__name__": __name__}
    exec("def program(x):\n" + textwrap.indent(body, "    "), scope)
    return scope["program"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", PROGRAMS)
def test_long_loops_do_what_they_do(name):
    check(_program(PROGRAMS[name]), X, changed=[tensors(2, 4, seed=4)], options=LIMIT, fullgraph=False, recompiles=True)


@pytest.mark.parametrize("name", ["over a range", "while", "in a callee"])
def test_long_loops_with_gradients(name):
    check(_program(PROGRAMS[name]), tensors(3, 4, requires_grad=True)[0], options=LIMIT, fullgraph=False, recompiles=True)


def batches(x, count):
    for start in range(count):
        yield x[start : start + 3], x[start + 1 : start + 4]


def train(model, optimizer, x, count):
    total = 0.0
    for source, target in batches(x, count):
        optimizer.zero_grad()
        loss = (model(source) - target).square().mean()
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total


def _trained(wrap, calls=(30, 20)):
    torch.manual_seed(0)
    model = nn.Linear(4, 4)
    run, x = wrap(train), torch.randn(40, 4)
    found = [run(model, torch.optim.SGD(model.parameters(), 0.1), x, count) for count in calls]
    return found, model.weight


def test_a_loop_that_trains_is_compiled_once_for_all_of_its_steps():
    compiled = []

    def wrap(fn):
        compiled.append(jit.compile(fn, backend="eager", options={"loop_limit": 100}))
        return compiled[0]

    (losses, weight), (expected, same) = _trained(wrap), _trained(lambda fn: fn)
    torch.testing.assert_close(losses, expected)
    torch.testing.assert_close(weight, same)
    if not jit.config.break_everywhere:
        graphs = [entry for entry in compiled[0].debug_state().entries if entry.graph is not None]
        assert len(graphs) < 9


def test_layers_are_unrolled_however_many_they_are():
    layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(12))

    def program(x):
        for layer in layers:
            x = layer(x).relu()
        return x

    check(program, X, graphs=1, options=LIMIT, fullgraph=False)


def test_a_whole_graph_has_no_limit():
    check(_program(PROGRAMS["over a range"]), X, graphs=1, options=LIMIT)


def test_inputs_that_overlap_may_do_so_elsewhere_where_something_else_is_written():
    """Batches of texts are such: the target is the source, one letter on."""
    calls = []

    def step(total, source, target):
        total.add_((source * target).sum())
        return source - target

    compiled = jit.compile(step, backend=lambda gm, example_inputs: calls.append(gm) or gm)
    x, total, same = torch.randn(8, 4), torch.zeros(()), torch.zeros(())
    for start in range(4):
        source, target = x[start : start + 2], x[start + 1 : start + 3]
        assert torch.equal(compiled(total, source, target), step(same, source, target))
    assert torch.equal(total, same)
    if not jit.config.break_everywhere:
        assert len(calls) == 1


def test_written_inputs_overlap_where_they_did():
    """Where they are written it matters where."""
    def program(a, b):
        a.mul_(2)
        return a + b

    def make():
        x = torch.arange(12.0)
        return x[2:5], x[4:7]

    def elsewhere():
        x = torch.arange(12.0)
        return x[2:5], x[3:6]

    check(program, make=make, changed=[elsewhere], graphs=1)

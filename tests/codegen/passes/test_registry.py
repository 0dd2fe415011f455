"""The table of passes, what runs of it, and what it leaves to read."""
from dataclasses import replace

import pytest
import torch

import jit
from codegen import passes
from codegen.aot.backend import ATEN, compile_graph
from codegen.aot.function import Settings, compile_program
from codegen.aot.stages import texts
from codegen.passes import Passes, register, unregister

aten = torch.ops.aten


@pytest.fixture
def added():
    """Names that are taken out of the table at the end."""
    names = []
    yield names
    for name in names:
        unregister(name)


def sines_to_cosines(graph):
    """Makes cosines of sines."""
    found = [node for node in graph.graph.nodes if node.target is aten.sin.default]
    for node in found:
        node.target = aten.cos.default
    return bool(found)


def run(program, settings, *args):
    return compile_program(program, args, settings)(*args)


def test_a_pass_of_ones_own(added):
    register("cosines", when="inference")(sines_to_cosines)
    added.append("cosines")
    assert passes.table()[-1].about == "Makes cosines of sines."
    x = torch.randn(3)
    (result,) = run(lambda x: [x.sin()], Settings(passes=Passes()), x)
    assert torch.equal(result, x.cos())
    (result,) = run(lambda x: [x.sin()], Settings(passes=Passes(frozenset({"cosines"}))), x)
    assert torch.equal(result, x.sin())


STAGES = {"forward": (True, False), "backward": (False, True), "joint": (True, True), "inference": (False, False)}


@pytest.mark.parametrize("stage", STAGES)
def test_stages(stage, added):
    """Forward and backward each have a sine of their own: cos.grad = -sin."""
    register("cosines", when=stage)(sines_to_cosines)
    added.append("cosines")
    x = torch.randn(3, requires_grad=True)
    result, _ = run(lambda x: [x.sin(), x.cos()], Settings(passes=Passes()), x)
    (gradient,) = torch.autograd.grad(result, x, torch.ones(3), retain_graph=True)
    forward, _ = STAGES[stage]
    assert torch.equal(result, x.cos() if forward else x.sin())
    _, other = run(lambda x: [x.sin(), x.cos()], Settings(passes=Passes()), x)
    (gradient,) = torch.autograd.grad(other, x, torch.ones(3))
    _, backward = STAGES[stage]
    assert torch.equal(gradient, -x.cos() if backward else -x.sin())


def test_before_autograd(added):
    """The derivative is that of what the pass made; derivatives of derivatives are those of the program."""

    def tangents(graph):
        found = [node for node in graph.graph.nodes if node.target == "sin"]
        for node in found:
            node.target = "tan"
        return bool(found)

    register("tangents", when="before_autograd")(tangents)
    added.append("tangents")

    def backend(graph, example_inputs):
        return compile_graph(graph, example_inputs, replace(ATEN, passes=Passes()))

    x = torch.randn(3, requires_grad=True)
    result = jit.compile(lambda x: x.sin(), backend=backend)(x)
    assert torch.equal(result, x.tan())
    (gradient,) = torch.autograd.grad(result.sum(), x, create_graph=True)
    assert torch.equal(gradient, x.cos())  # of the program: it has a history
    (gradient,) = torch.autograd.grad(jit.compile(lambda x: x.sin(), backend=backend)(x).sum(), x)
    assert torch.allclose(gradient, 1 / x.cos() ** 2)


@pytest.mark.parametrize(
    ("program", "count"),
    [(lambda x: x.exp(), 0), (lambda x: x.sin(), 1), (torch.cos, 2), (lambda x: x.cos(), 1), (lambda x: x.exp().sin().cos(), 2)],
    ids=["no", "a method", "a function", "an operation", "several"],
)
def test_a_pass_is_given_what_it_is_about(added, monkeypatch, program, count):
    given, copies, copy = [], [], torch.fx.Graph.graph_copy
    monkeypatch.setattr(torch.fx.Graph, "graph_copy", lambda *args, **named: copies.append(args) or copy(*args, **named))

    def looking(graph):
        given.append(graph)
        return False

    register("looking", when=("before_autograd", "inference"), of=(torch.cos, "sin", aten.cos.default))(looking)
    added.append("looking")

    def backend(graph, example_inputs):
        return compile_graph(graph, example_inputs, replace(ATEN, passes=Passes()))

    x = torch.randn(3)
    assert torch.equal(jit.compile(lambda x: program(x), backend=backend)(x), program(x))
    is_captured = any("val" not in node.meta for graph in given for node in graph.graph.find_nodes(op="placeholder"))
    assert len(given) == count and bool(copies) == is_captured


def test_what_cannot_be_compiled_after_passes_is_compiled_without(added):
    def broken(graph):
        found = [node for node in graph.graph.nodes if node.target == "sin"]
        for node in found:
            node.target = "no_such_method"
        return bool(found)

    register("broken", when="before_autograd")(broken)
    added.append("broken")
    seen = []

    def backend(graph, example_inputs):
        seen.append(compile_graph(graph, example_inputs, replace(ATEN, passes=Passes())))
        return seen[-1]

    x = torch.randn(3)
    assert torch.equal(jit.compile(lambda x: x.sin(), backend=backend)(x), x.sin())
    assert seen[0].stages.captured is None


def test_order(added):
    register("first", when="inference", before="views")(lambda graph: False)
    register("last", when="inference")(lambda graph: False)
    added += ["first", "last"]
    names = [each.name for each in passes.table()]
    assert names.index("first") == names.index("views") - 1 and names[-1] == "last"


WRONG = {
    "a name that is taken": (lambda: register("dead", when="forward"), "already is a pass 'dead'"),
    "a stage that is none": (lambda: register("new", when="later"), "no stage 'later'"),
    "a place that is none": (lambda: register("new", when="forward", before="nothing"), "no pass 'nothing'"),
    "off: unknown": (lambda: Passes(frozenset({"nothing"})), "no pass 'nothing'"),
    "off: required": (lambda: Passes(frozenset({"dead"})), "'dead' is required"),
    "out: unknown": (lambda: unregister("nothing"), "no pass 'nothing'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_refused(name):
    do, message = WRONG[name]
    before = passes.table()
    with pytest.raises(ValueError, match=message):
        do()
    assert passes.table() == before


def test_every_pass_says_what_it_does():
    assert [each.name for each in passes.table() if not each.about] == []


def test_what_they_did_can_be_read():
    x = torch.randn(3, requires_grad=True)
    compiled = compile_program(lambda x: [(x * 1).exp() * (x * 1).exp()], (x,), Settings(passes=Passes()))
    text = texts(compiled.stages)["passes.txt"]
    assert text.startswith("forward:\npeepholes: 2 nodes gone, 0 new\n  - mul_tensor = torch.ops.aten.mul.Tensor\n")
    assert "common: 1 nodes gone" in text
    assert "passes.txt" not in texts(compile_program(lambda x: [x.exp()], (x,), Settings()).stages)


def test_a_backward_that_is_asked_for_less_goes_through_joint_passes_too(added):
    register("cosines", when="joint")(sines_to_cosines)
    added.append("cosines")
    x, y = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
    result, other = run(lambda x, y: [x.cos() * y, x * y], Settings(passes=Passes()), x, y)
    (gradient,) = torch.autograd.grad(result, x, torch.ones(3))
    assert torch.equal(gradient, y * -x.cos())

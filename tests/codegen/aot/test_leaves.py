"""Inputs that come to require a gradient while a program runs, or that require none any more, beside eager."""
import pytest
import torch

from codegen.aot.api import aot_function
from codegen.aot.compilers import nop
from codegen.aot.function import Settings, compile_program


def used_before_and_after(x, w):
    before = x * w
    x.requires_grad_()
    return [before, (x * x * w).sin(), x.sum() * before]


def alone(x, w):
    x.requires_grad_()
    return [x.exp(), x]


def saved_before(x, w):
    """Derivatives of the gradient go to what was saved, as it is in the end."""
    product = x * w
    x.requires_grad_()
    return [product * product]


def written_before(x, w):
    before = x * 2
    x.mul_(3).requires_grad_()
    return [x * x * before * w]


def written_after(x, w):
    x.requires_grad_()
    seen = x + w
    with torch.no_grad():
        x.add_(1)
    return [seen + x.cos() * x]


def turned(x, w):
    x.t_().requires_grad_()
    return [x @ x.t(), (x.t() * w).sin()]


def viewed(x, w):
    before = x[0]
    x.requires_grad_()
    after = x[0]
    return [before * w, after, after * w * x]


def both(x, w):
    product = x * w
    x.requires_grad_()
    product = product * x * w
    w.requires_grad_(False)
    return [product * w, product.sin()]


def no_more(x, w):
    product = (x * w * w).sin()
    w.requires_grad_(False)
    return [product * product * w, product]


def no_more_and_written(x, w):
    product = (w * x).sin()
    w.detach_().mul_(2)
    return [product * w, w]


def for_a_while(x, w):
    before = w * w * x
    w.requires_grad_(False)
    between = (w * x).sin()
    w.requires_grad = True
    return [before, between, between * w * before]


def for_a_while_alone(x, w):
    w.detach_()
    w.requires_grad_()
    return [x * x * w * w]


def through_a_hook(x, w):
    x.requires_grad_()
    y = x * w
    y.register_hook(lambda g: g * 3)
    return [y * x]


PROGRAMS = [
    used_before_and_after, alone, saved_before, written_before, written_after, turned, viewed, both, no_more, no_more_and_written,
    for_a_while, for_a_while_alone, through_a_hook,
]  # fmt: skip


def observe(call, order, tracked):
    x, w = (torch.linspace(1, 2, 6, dtype=torch.float64).view(2, 3) * factor for factor in (1, -0.7))
    w.requires_grad_(tracked)
    edges = [torch.autograd.graph.get_gradient_edge(w)] if tracked else []
    results = list(call(x, w))
    edges += [torch.autograd.graph.get_gradient_edge(x)] if x.requires_grad else []
    found = []
    total = sum((r * r).sum() for r in results if r.requires_grad)
    for left in reversed(range(order)):
        if not isinstance(total, torch.Tensor) or not total.requires_grad:
            break
        gradients = torch.autograd.grad(total, edges, create_graph=left > 0, allow_unused=True)
        found += gradients
        total = sum((g * g).sum() for g in gradients if g is not None)
    seen = [(t.requires_grad, t.is_leaf, t._is_view(), t._version, t.stride()) for t in (x, w, *results)]
    return seen, [x, w, *results], found


@pytest.mark.sampled(3)
@pytest.mark.parametrize("tracked", [True, False])
@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("program", PROGRAMS)
def test_same_as_eager(program, order, tracked):
    if not tracked and program in (both, no_more, no_more_and_written, for_a_while, for_a_while_alone):
        pytest.skip("nothing is taken away")
    eager = observe(program, order, tracked)
    make = lambda: torch.ones(2, 3, dtype=torch.float64)
    compiled = compile_program(program, [make(), make().requires_grad_(tracked)], Settings())
    for _ in range(2):
        actual = observe(compiled, order, tracked)
        assert actual[0] == eager[0]
        torch.testing.assert_close(actual[1:], eager[1:], rtol=1e-12, atol=0)


def test_backward_accumulates_in_what_became_a_leaf():
    def accumulated(call):
        x, w = torch.ones(2, 3), torch.full((2, 3), 2.0, requires_grad=True)
        for _ in range(3):  # the second time it is a leaf from the start
            sum(call(x, w)).sum().backward()
        return x.grad, w.grad

    program = lambda x, w: [x * w, x.requires_grad_() * x * w]
    calls = []

    def compiler(graph, inputs):
        calls.append(graph)
        return nop(graph, inputs)

    compiled = aot_function(program, compiler)
    torch.testing.assert_close(accumulated(compiled), accumulated(program), rtol=0, atol=0)
    assert len(calls) == 5  # two forwards; a backward for both results, and before it one for each, as w alone led to one


def test_a_view_of_another_input_requires_a_gradient_with_its_base():
    def seen(call):
        base = torch.ones(4)
        view = base[1:]
        result = call(base, view)[0]
        return result.requires_grad, view.requires_grad, base.requires_grad, result._version

    program = lambda x, y: [y * 2, x.requires_grad_()]
    base = torch.ones(4)
    assert seen(compile_program(program, [base, base[1:]], Settings())) == seen(program)

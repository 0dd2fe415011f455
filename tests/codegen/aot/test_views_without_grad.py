"""Views that a program takes without grad: they say that they require a gradient, and it goes no further."""
import pytest
import torch

import jit
from codegen.aot.function import Settings, compile_program
from tests.codegen.aot.observe import look


def without_grad(view, value):
    with torch.no_grad():
        return view(value)


def first(value):
    return without_grad(lambda each: each[0], value)


def told(x):
    """A view that comes without a gradient is told to require one."""
    before, used = x[0], x * 2
    x.requires_grad_()
    return [before, used, x[1], x * x, x * used]


def told_otherwise(x):
    used = x * 2
    x.requires_grad_(False)
    return [used, x * x * x]


def told_again(x):
    return [*told_otherwise(x), x.requires_grad_() * x]


@pytest.mark.parametrize("program", [told, told_otherwise, told_again])
def test_one_that_comes_in_is_told_to_require_a_gradient(program):
    def observed(call):
        leaf = torch.arange(6.0).view(3, 2).requires_grad_()
        x = without_grad(lambda each: each[:2], leaf)
        results = call(x)
        seen = [look([leaf, x, *results])]
        for result in results:
            seen.append(derivatives(result, x))
            if result.requires_grad:
                result.sum().backward(retain_graph=True)
            seen += [each if each is None else each.tolist() for each in (leaf.grad, x.grad)]
        return seen

    x = without_grad(lambda each: each[:2], torch.ones(3, 2, requires_grad=True))
    assert observed(compile_program(program, (x,), Settings())) == observed(program)
    assert observed(jit.compile(program, backend="aot_eager")) == observed(program)


def test_what_was_compiled_for_one_without_a_gradient_is_not_for_others():
    def program(x):
        used = x * x
        return [used, x.requires_grad_() * 3]

    x = without_grad(lambda each: each[:2], torch.ones(3, 2, requires_grad=True))
    compiled = compile_program(program, (x,), Settings())
    leaf = torch.ones(2, 2, requires_grad=True)
    used, _ = compiled(leaf)
    assert torch.autograd.grad(used.sum(), leaf)[0].tolist() == [[2, 2], [2, 2]]


def derivatives(result, x):
    """By the view, of first and second order; an error's words."""
    try:
        first = torch.autograd.grad(result.sum(), x, retain_graph=True, create_graph=True)[0]
        second = torch.autograd.grad(first.sum(), x, retain_graph=True)[0] if first.requires_grad else first
    except RuntimeError as error:
        return str(error)
    return first.tolist(), second.tolist()


PROGRAMS = {
    "itself": lambda x: [first(x)],
    "of a value": lambda x: [first(x * 3), x * 2],
    "a product": lambda x: [first(x) * 2],
    "a square": lambda x: [first(x) * first(x)],
    "a square of a value": lambda x: [(seen := first(x * 3)) * seen],
    "a view": lambda x: [first(x).view(-1)],
    "a view of a value": lambda x: [first(x * 3)[:1]],
    "a view of a view": lambda x: [first(x).view(-1)[:1], x[1:]],
    "a view, and a product": lambda x: [(seen := first(x * 3)).view(-1), seen * seen],
    "a view, and its base": lambda x: [(value := x * 3), first(value)[1:]],
}


def observed(call):
    """What comes back, and the gradient that each result gives, twice; an error's words."""
    leaf = torch.ones(3, 2).mul_(2).requires_grad_()
    results = call(leaf)
    seen = [look([leaf, *results])]
    for result in results * 2:
        leaf.grad = None
        try:
            result.sum().backward()
            seen.append(leaf.grad if leaf.grad is None else leaf.grad.tolist())
        except RuntimeError as error:
            seen.append(str(error))
    return seen


@pytest.mark.parametrize("name", PROGRAMS)
def test_who_gets_a_gradient_and_how_often(name):
    """Where eager code has let go of a value, a compiled program that kept it may answer."""
    program = PROGRAMS[name]
    expected = observed(program)
    example = torch.ones(3, 2, requires_grad=True)
    for compiled in (compile_program(program, (example,), Settings()), jit.compile(program, backend="aot_eager")):
        actual = observed(compiled)
        assert len(actual) == len(expected)
        assert [a for a, e in zip(actual, expected, strict=True) if not isinstance(e, str)] == [
            e for e in expected if not isinstance(e, str)
        ]

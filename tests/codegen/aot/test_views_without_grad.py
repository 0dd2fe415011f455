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

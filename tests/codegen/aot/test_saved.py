"""What gradients need of what was saved for them: where it is not there any more these raise, and no others."""

from itertools import product

import pytest
import torch

from codegen.aot.function import Settings, compile_program
from codegen.aot.partition import default_partition, min_cut_partition


# --- values that the program itself overwrites or lets go of ----------------------------------------------------------
def overwritten(x, y):
    lost = x.exp()
    tripled = lost * 3
    lost.mul_(2)
    return [x * y, tripled + y, x * x * y]


def overwritten_alone(x, y):
    lost = x.exp()
    lost.mul_(2)
    return [lost * y]


def overwritten_between(x, y):
    """The value that is lost comes of another result."""
    middle = x * y
    lost = middle.sigmoid()
    used = lost * y
    lost.add_(1)
    return [middle, used, middle * y]


def let_go(x, y):
    """The second time is the caller's."""
    square = x * x
    slope, = torch.autograd.grad(square.sum(), x)
    return [square, slope * y, x * y]


def written_for_a_while(x, y):
    used = x * x * y
    with torch.no_grad():
        y.requires_grad_(False).mul_(2).requires_grad_()
    return [used, y * y]


PROGRAMS = [overwritten, overwritten_alone, overwritten_between, let_go, written_for_a_while]


def leaves():
    return [(torch.linspace(1, 2, 3, dtype=torch.float64) + at).requires_grad_() for at in range(2)]


def attempt(outputs, inputs, **options):
    """The gradients, or how the error begins: it goes on with what eager code calls the operation."""
    try:
        found = torch.autograd.grad(outputs, inputs, list(map(torch.ones_like, outputs)), allow_unused=True, **options)
    except RuntimeError as error:
        return str(error)[:60]
    return [gradient if gradient is None else gradient.tolist() for gradient in found]


def subsets(items):
    return [list(chosen) for flags in product([False, True], repeat=len(items)) if any(flags)
            for chosen in [[item for item, flag in zip(items, flags, strict=True) if flag]]]


@pytest.mark.parametrize("create", [False, True])
@pytest.mark.parametrize("partition", [default_partition, min_cut_partition])
@pytest.mark.parametrize("program", PROGRAMS)
def test_gradients_of_some_for_some(program, partition, create):
    def gradients(call):
        inputs = leaves()
        outputs = [result for result in call(*inputs) if result.requires_grad]
        return [
            attempt(some, others, retain_graph=True, create_graph=create)
            for some, others in product(subsets(outputs), subsets(inputs))
        ]

    compiled = compile_program(program, leaves(), Settings(partition=partition))
    eager = gradients(program)
    assert any(isinstance(found, str) for found in eager)
    assert gradients(compiled) == eager

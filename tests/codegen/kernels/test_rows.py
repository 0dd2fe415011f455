"""The programs of the lowering's tests as they run: kernels in C, and a plan; beside eager, with gradients."""

from __future__ import annotations

import pytest

import jit
from tests.codegen.kernels.lowered import unequal
from tests.codegen.kernels.test_lowering import ACTIVATIONS, COMPOSITES, FORWARD_ONLY, X

PROGRAMS = ACTIVATIONS | COMPOSITES


def run(function, x):
    """The results as a list, and the gradient of the sum of their squares if it has one."""
    found = function(x)
    results = list(found) if isinstance(found, (tuple, list)) else [found]
    carriers = [r for r in results if r.requires_grad]
    if carriers:
        sum((r.double() ** 2).sum() for r in carriers).backward()
    return results, x.grad


def check(function, compiled, x, gradients):
    eager, gradient = run(function, x.clone().requires_grad_(gradients))
    ours, our_gradient = run(compiled, x.clone().requires_grad_(gradients))
    for a, b in zip(eager, ours, strict=True):
        assert a.stride() == b.stride() and a.requires_grad == b.requires_grad
        assert not unequal(a.detach(), b.detach(), 64.0, 1.0)
    assert not unequal(gradient, our_gradient, 256.0, 1.0)


@pytest.mark.long
@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_row(name, gradients):
    check(PROGRAMS[name], jit.compile(PROGRAMS[name], backend="default"), X, gradients)


@pytest.mark.long
@pytest.mark.parametrize("name", FORWARD_ONLY)
def test_forward(name):
    check(FORWARD_ONLY[name], jit.compile(FORWARD_ONLY[name], backend="default"), X, False)

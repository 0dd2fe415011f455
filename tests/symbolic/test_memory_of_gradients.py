"""Which gradients lie in the same memory: who writes to one (clipping, an optimizer) must not write to another, but where
eager code has them together, too."""

import pytest
import torch
from torch import nn

import jit

#: Of a parameter (2, 3) and one of six.
SUMS = {
    "one of two sizes": lambda x, w: x + w.view(2, 3),
    "the other way round": lambda x, w: w.view(2, 3) + x,
    "as they are": lambda x, w: (x + 1) + (x * 1),
    "two views": lambda x, w: x.view(6) + w.view(6),
    "one view": lambda x, w: x.view(6) + w,
    "a view of what is computed": lambda x, w: (x.view(6) + 1) + w,
    "views of views": lambda x, w: (x.view(6) + 1).view(2, 3).view(6) + w,
    "twice": lambda x, w: x.view(6) + w + w.view(2, 3).view(6),
    "parts": lambda x, w: torch.cat([x.view(6), w]),
    "rows": lambda x, w: torch.stack([x.view(6), w]),
    "turned": lambda x, w: x.t() + w.view(3, 2),
    "several": lambda x, w: (x + 1, x + w.view(2, 3)),
    "apart": lambda x, w: (x.view(2, 3), w + 0),
    "nothing done": lambda x, w: (x.view(6), w.view(6)),
    "added to nothing": lambda x, w: w.add(0) + x.sum(),
}
BACKENDS = ["eager", "aot_eager", "default"]


def squared(results):
    sum(each.pow(2).sum() for each in results).backward()


def told(results):
    tangents = [torch.ones_like(each) for each in results]
    torch.autograd.backward(results, tangents)
    return tangents


def retained(results):
    for each in results:
        each.retain_grad()
    squared(results)
    return [each.grad for each in results if not each.is_leaf]


def inside(combined, backward):
    def program(x, w):
        found = combined(x, w)
        return backward(found if isinstance(found, tuple) else (found,))

    return program


def seen(program, backward, same_sizes):
    torch.manual_seed(0)
    x, w = nn.Parameter(torch.randn(2, 3)), nn.Parameter(torch.randn(2, 3) if same_sizes else torch.randn(6))
    found = program(x, w)
    if backward is not None:
        found = backward(found if isinstance(found, tuple) else (found,))
    shown = [each for each in (x.grad, w.grad, *(found or ())) if each is not None]
    memories = [each.untyped_storage()._cdata for each in shown]
    return [memories.index(each) for each in memories], [(each.stride(), each.tolist()) for each in shown]


def same_as_eager(program, backward, backend, same_sizes=False):
    expected = seen(program, backward, same_sizes)
    for dynamic in (None, True):
        compiled = jit.compile(program, backend=backend, dynamic=dynamic)
        for _ in range(2):
            assert seen(compiled, backward, same_sizes) == expected


@pytest.mark.sampled(6)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("backward", [squared, told, retained])
@pytest.mark.parametrize("combined", SUMS)
def test_derivatives_inside(combined, backward, backend):
    same_as_eager(inside(SUMS[combined], backward), None, backend)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("backward", [squared, told])
@pytest.mark.parametrize("combined", SUMS)
def test_derivatives_outside(combined, backward, backend):
    same_as_eager(SUMS[combined], backward, backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("backward", [squared, told])
def test_the_same_gradient(backward, backend):
    def combined(x, w):
        return (x + w,)

    same_as_eager(inside(combined, backward), None, backend, same_sizes=True)
    same_as_eager(combined, backward, backend, same_sizes=True)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("combined", [lambda x, w: x + 1, lambda x, w: x.view(6) + w, lambda x, w: x + w.view(2, 3)])
def test_a_gradient_that_a_hook_keeps(combined, backend):
    def program(x, w):
        kept = []
        y = combined(x, w)
        y.register_hook(kept.append)
        (y * y).sum().backward()
        kept[0].mul_(2)
        return kept

    same_as_eager(program, None, backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_clipping_scales_each_gradient_once(backend):
    def program(x, w):
        (x + w).pow(2).sum().backward()
        nn.utils.clip_grad_norm_([x, w], 1.0)
        return [x.grad.clone(), w.grad.clone()]

    same_as_eager(program, None, backend, same_sizes=True)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_tangent_is_the_callers(backend):
    tangent = torch.ones(2, 3)

    def program(x, w):
        (x + 0).backward(tangent)
        x.grad.zero_()

    compiled, x = jit.compile(program, backend=backend), nn.Parameter(torch.ones(2, 3))
    for _ in range(2):
        x.grad = None
        compiled(x, x)
        assert tangent.tolist() == torch.ones(2, 3).tolist()

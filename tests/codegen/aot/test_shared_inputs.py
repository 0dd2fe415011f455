"""Inputs that share memory: what a compiled frame asks of them, and gradients where autograd doesn't know of each other's
writes."""
import pytest
import torch

import jit


def written_and_read(x, y):
    x.add_(1)
    return y * 2


PARTS = [((0, 2), (1, 3)), ((0, 2), (2, 4)), ((0, 2), (0, 2)), ((1, 3), (0, 2))]
KINDS = {
    "view": lambda view: view,
    "detached": torch.Tensor.detach,
    "view of detached": lambda view: view.detach()[:],
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_where_inputs_lie_is_guarded(backend):
    """One function for all: equal sizes and one memory say nothing about who shows what."""
    compiled = jit.compile(written_and_read, backend=backend)
    for first, second in PARTS:
        for name, kind in KINDS.items():
            seen = []
            for call in (compiled, written_and_read):
                leaf = torch.arange(8.0).view(4, 2).requires_grad_()
                base = leaf * 1
                given = base[slice(*first)], kind(base[slice(*second)])
                result = call(*given)
                (gradient,) = torch.autograd.grad((base * base).sum() + result.sum(), leaf)
                seen.append((result.tolist(), base.tolist(), base._version, result.requires_grad, gradient.tolist()))
            assert seen[0] == seen[1], (first, second, name)

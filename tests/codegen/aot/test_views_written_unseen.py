"""Views with a history that are written without one: what the results lead to is what the view has afterwards."""

import pytest
import torch

import jit


def written_first(x):
    with torch.no_grad():
        x.fill_(3)
    return (x * x).sum()


def written_twice(x):
    with torch.no_grad():
        x.fill_(3)
        x[0] = 1
    return (x * x).sum() + x.exp().sum()


def written_last(x):
    y = x * 2
    with torch.no_grad():
        x.fill_(3)
    return y.sum()


def written_between(x):
    y = x * 2
    with torch.no_grad():
        x.fill_(3)
    return (y + x.sin()).sum()


def written_between_for_two_results(x):
    y = x * 2
    with torch.no_grad():
        x.fill_(3)
    return y.sum(), x.sin().sum()


def written_and_not_used(x):
    with torch.no_grad():
        x.fill_(3)
    return x.detach().sum() * torch.ones((), requires_grad=True)


def written_through_a_view(x):
    with torch.no_grad():
        x[:1].zero_()
    return (x.view(2, 3) * 2).sum()


def seen_by_autograd(x):
    with torch.no_grad():
        x.fill_(3)
    x.mul_(2)
    return (x * x).sum()


def hooked(x):
    with torch.no_grad():
        x.fill_(3)
    y = x * x
    y.register_hook(lambda g: g * 2)
    return y.sum()


PROGRAMS = [
    written_first, written_twice, written_last, written_and_not_used, written_through_a_view, seen_by_autograd, hooked,
]
BETWEEN = [written_between, written_between_for_two_results]
VIEWS = {
    "a part": lambda base: base[:, ::2],
    "another shape": lambda base: base.view(2, 6)[:, :3],
    "all": lambda base: base[:, :3].view(2, 3),
    "no view": lambda base: base[:, :3] * 2,
}


def seen(program, view, is_wanted):
    leaf = torch.ones(2, 6, requires_grad=True)
    x = view(leaf * 2)
    for _ in range(2):  # the second time the view was written before
        found = program(x)
        results = found if isinstance(found, tuple) else (found,)
    wanted = [x, leaf] if is_wanted else [leaf]
    gradients = torch.autograd.grad(sum(results), wanted, allow_unused=True, retain_graph=True)
    sum(results).backward()
    told = [None if each is None else (each.tolist(), each.stride()) for each in (*gradients, leaf.grad, x.detach())]
    return told, x._version, x.requires_grad, x.is_leaf, x.grad_fn is None


@pytest.mark.sampled(8)
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "default"])
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("program", [*PROGRAMS, *BETWEEN])
def test_same_as_eager(program, view, backend):
    """Of those that use the view before and after the write, the gradients of leaves."""
    compiled, is_wanted = jit.compile(program, backend=backend), program in PROGRAMS
    for _ in range(2):
        assert seen(compiled, VIEWS[view], is_wanted) == seen(program, VIEWS[view], is_wanted)

"""Hooks of leaves run in the order in which they do in eager code."""
import random

import pytest
import torch

from codegen.aot import order
from codegen.aot.function import Settings, compile_program


def mlp(x, *weights):
    """Pairs of a matrix and a bias."""
    for weight, bias in zip(weights[::2], weights[1::2]):
        x = torch.nn.functional.linear(x, weight, bias).tanh()
    return [x.sum()]


def shared(x, *weights):
    """Each is used twice, some far apart."""
    for weight in weights:
        x = (x @ weight).sin()
    for weight in weights[::-2]:
        x = x * weight.sum()
    return [x.mean()]


def of_one_operation(x, *weights):
    return [torch.stack([weight.sum() for weight in weights]).sum() * x.sum()]


def loss_outside(x, *weights):
    return [mlp(x, *weights)[0] * torch.ones(3)]


def residual(x, *weights):
    for weight in weights:
        x = x + (x @ weight).relu()
    return [x, x.detach()]


def with_middle(x, *weights):
    """The middle one is a result, too."""
    half = len(weights) // 2
    middle = mlp(x, *weights[:half])[0] if half > 1 else x @ weights[0]
    return [middle * 2, shared(middle * x, *weights[half:])[0]]


def hooked(x, *weights):
    x = x @ weights[0]
    x.register_hook(lambda g: g * 2)
    return shared(x, *weights[1:])


PROGRAMS = [mlp, shared, of_one_operation, loss_outside, residual, with_middle, hooked]
HOOKS = {
    "hook": torch.Tensor.register_hook,
    "after": torch.Tensor.register_post_accumulate_grad_hook,
}


def seen(call, weights, hook, tracked):
    names = []
    leaves = [weight.detach().clone().requires_grad_() for weight in weights]
    for number, leaf in enumerate(leaves):
        HOOKS[hook](leaf, lambda _, number=number: names.append(number))
    x = torch.ones(4, 4)
    x = x.requires_grad_() * 1 if tracked else x
    results = call(x, *leaves)
    results[-1 if results[-1].requires_grad else 0].sum().backward()
    return names


@pytest.mark.sampled(6)
@pytest.mark.parametrize("tracked", [False, True], ids=["plain", "made_of_something"])
@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("count", [2, 5, 6, 20])
@pytest.mark.parametrize("program", PROGRAMS)
def test_same_as_eager(program, count, hook, tracked):
    num_biased = {mlp: count, loss_outside: count, with_middle: count // 2}.get(program, 0)
    shapes = [(4,) if at % 2 and at < num_biased else (4, 4) for at in range(count)]
    weights = [torch.linspace(-1, 1, 4 ** len(shape)).view(shape) for shape in shapes]
    eager = seen(program, weights, hook, tracked)
    assert len(eager) > (count - 1) // 2
    example = torch.ones(4, 4, requires_grad=tracked)
    example = example * 1 if tracked else example
    compiled = compile_program(program, [example, *(w.clone().requires_grad_() for w in weights)], Settings())
    assert seen(compiled, weights, hook, tracked) == eager


@pytest.mark.parametrize("others", [0, 1, 2, 7])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 13, 100])
def test_leaves_come_as_they_are_arranged(count, others):
    """From one node that leads to leaves, and to others."""
    wanted = random.Random(count).sample(range(count), count)
    found = []

    class Node(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *tensors):
            return torch.ones(())

        @staticmethod
        def backward(ctx, grad):
            return (grad,) * (count + others)

    leaves = [torch.ones((), requires_grad=True) for _ in range(count)]
    for number, leaf in enumerate(leaves):
        leaf.register_hook(lambda _, number=number: found.append(number))
    middles = [torch.ones((), requires_grad=True) * 2 for _ in range(others)]
    Node.apply(*(leaves[at] for at in order.arranged(wanted, others)), *middles).backward()
    assert found == wanted

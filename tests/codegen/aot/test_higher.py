"""Derivatives of higher order through compiled models, and through whole steps that are compiled: as eager code has it."""
import copy

import pytest
import torch
from torch import nn
from torch.func import functional_call

import jit
from tests.differential import COUNTING, Counting

BACKENDS = ["eager", "aot_eager"]


def numbers(*shape, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.double)


class Net(nn.Module):
    def __init__(self, out=1):
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(4, 6, dtype=torch.double)
        self.norm = nn.LayerNorm(6, dtype=torch.double)
        self.last = nn.Linear(6, out, dtype=torch.double)

    def forward(self, x):
        return self.last(torch.nn.functional.gelu(self.norm(self.first(x))))


X, Y = numbers(5, 4, seed=1), numbers(5, 1, seed=2)
SUPPORT = [(numbers(5, 4, seed=10 + i), numbers(5, 1, seed=20 + i)) for i in range(2)]
QUERY = [(numbers(5, 4, seed=30 + i), numbers(5, 1, seed=40 + i)) for i in range(2)]


# --- programs of a model: what they give, gradients of parameters beside ------------------------------------------------
def meta_learning(model):
    """MAML: two inner steps for each task, differentiated by the parameters they start from."""
    total = 0
    for (x, y), (x_query, y_query) in zip(SUPPORT, QUERY):
        params = dict(model.named_parameters())
        for _ in range(2):
            loss = nn.functional.mse_loss(functional_call(model, params, (x,)), y)
            gradients = torch.autograd.grad(loss, list(params.values()), create_graph=True)
            params = {name: p - 0.1 * g for (name, p), g in zip(params.items(), gradients)}
        total = total + nn.functional.mse_loss(functional_call(model, params, (x_query,)), y_query)
    total.backward()
    return total.detach()


def gradient_penalty(critic):
    """WGAN-GP."""
    real, fake = X, Y.expand(5, 4) * X.flip(0)
    between = (real * 0.3 + fake * 0.7).requires_grad_()
    scores = critic(between)
    (slope,) = torch.autograd.grad(scores, between, torch.ones_like(scores), create_graph=True, retain_graph=True)
    penalty = (slope.norm(2, dim=1) - 1).pow(2).mean()
    loss = critic(fake).mean() - critic(real).mean() + 10 * penalty
    loss.backward()
    return loss.detach(), penalty.detach()


def hessian_vector_product(model):
    """By differentiating <gradient, v>."""
    params = list(model.parameters())
    loss = nn.functional.mse_loss(model(X), Y)
    gradients = torch.autograd.grad(loss, params, create_graph=True)
    along = sum((g * torch.ones_like(g)).sum() for g in gradients)
    return torch.autograd.grad(along, params)


def sharpness(model):
    """The gradient's norm is part of the loss."""
    loss = nn.functional.mse_loss(model(X), Y)
    gradients = torch.autograd.grad(loss, list(model.parameters()), create_graph=True)
    (loss + 0.1 * sum(g.pow(2).sum() for g in gradients)).backward()
    return loss.detach()


def physics_informed(model):
    """The residual of a differential equation: second derivatives by the input, then gradients of parameters."""
    x = X.clone().requires_grad_()
    u = model(x)
    (first,) = torch.autograd.grad(u.sum(), x, create_graph=True)
    second = [torch.autograd.grad(first[:, i].sum(), x, create_graph=True)[0][:, i] for i in range(2)]
    residual = second[0] + second[1] - u[:, 0].sin()
    loss = residual.pow(2).mean()
    loss.backward()
    return loss.detach()


def forces_and_their_loss(model):
    """A potential is trained on its slope."""
    positions = X.clone().requires_grad_()
    energy = model(positions).sum()
    forces = -torch.autograd.grad(energy, positions, create_graph=True)[0]
    loss = (forces - X).pow(2).mean() + (energy - 1).pow(2)
    loss.backward()
    return loss.detach(), forces.detach()


def third_derivative(model):
    x = X.clone().requires_grad_()
    found = model(x).sum()
    for _ in range(3):
        (g,) = torch.autograd.grad(found, x, create_graph=True)
        found = g.pow(2).sum()
    found.backward()
    return found.detach(), x.grad


def twice_with_retained_graph(model):
    loss = nn.functional.mse_loss(model(X), Y)
    first = torch.autograd.grad(loss, list(model.parameters()), create_graph=True)
    again = torch.autograd.grad(loss, list(model.parameters()), create_graph=True)
    sum((a * b).sum() for a, b in zip(first, again)).backward()
    return [g.detach() for g in first]


PROGRAMS = [
    meta_learning, gradient_penalty, hessian_vector_product, sharpness, physics_informed, forces_and_their_loss,
    third_derivative, twice_with_retained_graph,
]  # fmt: skip


def outcome(program, model, argument):
    model.zero_grad()
    found = program(argument)
    leaves = [leaf for leaf in torch.utils._pytree.tree_leaves(found)]
    return leaves + [p.grad for p in model.parameters()]


def assert_same(found, expected):
    for a, b in zip(found, expected, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)
            assert a.requires_grad == b.requires_grad


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dynamic", [None, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_compiled_model(program, backend, dynamic):
    model = Net()
    theirs = copy.deepcopy(model)
    compiled = jit.compile(model, backend=backend, dynamic=dynamic)
    for _ in range(2):
        assert_same(outcome(program, model, compiled), outcome(program, theirs, theirs))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_compiled_step(program, backend):
    model = Net()
    theirs = copy.deepcopy(model)
    counter = Counting() if backend == "eager" else backend
    compiled = jit.compile(program, backend=counter, fullgraph=COUNTING)
    for _ in range(3):
        assert_same(outcome(compiled, model, model), outcome(program, theirs, theirs))
    if backend == "eager":
        counter.expect(1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_training_with_a_penalty(backend):
    """Several steps of an optimizer: what one step leaves is where the next one starts."""
    model = Net()
    theirs = copy.deepcopy(model)

    def step(model, optimizer):
        optimizer.zero_grad()
        found = gradient_penalty(model)
        optimizer.step()
        return found

    compiled = jit.compile(step, backend=backend)
    optimizers = [torch.optim.Adam(each.parameters(), lr=0.01) for each in (model, theirs)]
    for _ in range(4):
        assert_same(compiled(model, optimizers[0]), step(theirs, optimizers[1]))
        assert_same([p.detach() for p in model.parameters()], [p.detach() for p in theirs.parameters()])
